"""Bugs in custom streams and faults: they are raised, and not mistaken for the end of a connection."""

from __future__ import annotations

import traceback
from typing import Any

import pytest
import trio
import trio.testing

from trio_mcp import Server, open_stream_client, serve_stream
from trio_mcp.testing import FaultyStream, rewrite


async def test_an_exception_of_a_custom_stream_is_not_lost_when_the_connection_ends(autojump_clock: object) -> None:
    def bug(_: Any) -> Any:
        raise ZeroDivisionError("a bug")

    ours, theirs = trio.testing.memory_stream_pair()
    faulty = FaultyStream(ours, receiving=[rewrite(bug)])

    with pytest.raises(BaseException) as caught:  # noqa: PT011 # a group, however deep
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_stream, Server("s"), theirs)
            async with open_stream_client(faulty) as client:
                await client.call_tool("any")

    assert "ZeroDivisionError: a bug" in "".join(traceback.format_exception(caught.value))
