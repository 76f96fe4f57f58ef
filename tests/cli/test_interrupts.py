"""Signals end the innermost block first, and each further one the next."""

from __future__ import annotations

import signal
import sys

import pytest
import trio
import trio.testing

from trio_mcp.cli._connect import Interrupts
from trio_mcp.cli._errors import Interrupted

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="raises signals as POSIX has them")


async def test_each_signal_ends_one_more_block() -> None:
    interrupts, ended = Interrupts(), list[str]()

    async with trio.open_nursery() as nursery:
        await nursery.start(interrupts.listen)
        with interrupts.ending():
            with interrupts.ending():
                signal.raise_signal(signal.SIGTERM)
                await trio.sleep_forever()
            ended.append("inner")
            signal.raise_signal(signal.SIGINT)
            await trio.sleep_forever()
        ended.append("outer")
        signal.raise_signal(signal.SIGINT)
        await trio.testing.wait_all_tasks_blocked()  # nothing is left that it could end
        nursery.cancel_scope.cancel()

    assert ended == ["inner", "outer"]
    with pytest.raises(Interrupted, match="interrupted"):
        interrupts.check()


async def test_without_a_signal_nothing_is_ended() -> None:
    interrupts = Interrupts()

    with interrupts.ending():
        await trio.lowlevel.checkpoint()
    interrupts.check()
