"""Messages of 10 MB in both directions: they arrive whole, cost a small multiple of their size, and leave nothing."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import pytest
import trio
import trio.testing

from tests.interaction.conftest import connected
from tests.interaction.over_http import OVER_SOCKETS
from trio_mcp import Server, types
from trio_mcp.server import HttpOptions

TEXT = "".join(f"{number:8}" for number in range(1_250_000))
MOST_COPIES = 10
"""The number of times that both sides together may hold the text; they hold it up to seven times."""


@pytest.mark.parametrize("revision", types.REVISIONS[-2:])
@pytest.mark.parametrize("over", ["unix", *OVER_SOCKETS])
async def test_a_large_message_arrives_whole_in_both_directions_and_is_not_kept(
    over: str, revision: str, tmp_path: Path
) -> None:
    received: list[bool] = []

    def make_server() -> Server:
        server = Server("large")

        @server.tool
        async def give_back(text: str) -> types.TextContent:
            received.append(text == TEXT)
            return types.TextContent(text=text)

        return server

    serving: HttpOptions = {"max_body_bytes": 2 * len(TEXT)} if over in OVER_SOCKETS else {}
    async with connected(over, make_server, [], tmp_path, {"revision": revision}, **serving) as client:
        await client.call_tool("give_back", {"text": "small"})
        gc.collect()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            result = await client.call_tool("give_back", {"text": TEXT})
            _, peak = tracemalloc.get_traced_memory()
            assert result.content == [types.TextContent(text=TEXT)]
            del result
            await trio.testing.wait_all_tasks_blocked(0.01)
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert received == [False, True]
    assert len(TEXT) == 10_000_000
    assert peak - before < MOST_COPIES * len(TEXT)
    assert after - before < len(TEXT) / 2
