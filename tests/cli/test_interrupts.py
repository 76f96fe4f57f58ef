"""Signals: each one cancels the innermost block that is still running."""

from __future__ import annotations

import signal
import sys

import pytest
import trio
import trio.testing

from trio_mcp.cli._connect import Interrupts
from trio_mcp.cli._errors import Interrupted

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="raises POSIX signals")


async def test_each_signal_cancels_the_next_outer_block() -> None:
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
        await trio.testing.wait_all_tasks_blocked()  # no block is left to cancel
        nursery.cancel_scope.cancel()

    assert ended == ["inner", "outer"]
    with pytest.raises(Interrupted, match="interrupted"):
        interrupts.check()


async def test_a_block_without_a_signal_is_not_cancelled() -> None:
    interrupts = Interrupts()

    with interrupts.ending():
        await trio.lowlevel.checkpoint()
    interrupts.check()
