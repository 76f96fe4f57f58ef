"""The in-memory client for tests, which exchanges real bytes with its server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trio_mcp import Limits, Server, types
from trio_mcp.testing import open_memory_client


@pytest.mark.parametrize("lockstep", [False, True])
async def test_a_server_is_called_in_memory_as_in_the_documentation(lockstep: bool, autojump_clock: object) -> None:
    server = Server("s")

    @server.tool
    async def add(a: int, b: int) -> int:
        await trio.sleep(100)
        return a + b

    @server.tool
    def plain(text: str) -> str:
        return text

    async with open_memory_client(server, lockstep=lockstep) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}
        with trio.fail_after(1):
            assert (await client.call_tool("plain", {"text": "x"})).content == [types.TextContent(text="x")]
    assert trio.current_time() >= 100


async def test_the_message_size_limit_of_the_server_applies_in_memory() -> None:
    server = Server("s", limits=Limits(max_message_bytes=1000))

    @server.tool
    async def size(text: str) -> int:
        return len(text)

    async with open_memory_client(server) as client:
        async with trio.open_nursery() as nursery:  # the server cannot read this request
            nursery.start_soon(client.call_tool, "size", {"text": "x" * 1000})
            await wait_all_tasks_blocked()
            assert nursery.child_tasks
            nursery.cancel_scope.cancel()
        assert (await client.call_tool("size", {"text": "x"})).structured_content == {"result": 1}
        assert client.statistics().malformed == 1


async def test_the_lifespan_ends_with_the_block() -> None:
    events: list[str] = []

    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[None]:
        yield
        await trio.lowlevel.checkpoint()
        events.append("left")

    async with open_memory_client(Server("s", lifespan=lifespan)):
        events.append("used")
    assert events == ["used", "left"]


async def test_options_are_passed_on_and_an_exception_of_the_block_is_raised_unchanged() -> None:
    with pytest.raises(KeyError, match="mine"):
        async with open_memory_client(Server("s"), revision="2025-03-26") as client:
            assert client.revision == "2025-03-26"
            raise KeyError("mine")


async def test_the_exception_of_a_failing_lifespan_is_raised_without_a_group() -> None:
    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[None]:
        await trio.lowlevel.checkpoint()
        raise ValueError("no database")
        yield

    with pytest.raises(ValueError, match="no database"):
        async with open_memory_client(Server("s", lifespan=lifespan)):
            pass
