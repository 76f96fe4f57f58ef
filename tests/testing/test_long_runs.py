"""Behaviour over hours and over thousands of pages, tested with the mock clock."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio

from trio_mcp import (
    Context,
    ErrorResponse,
    Limits,
    RemoteProtocolError,
    RequestTimedOut,
    Server,
    TimeLimits,
    open_client,
)
from trio_mcp.abc import Serving
from trio_mcp.lowlevel import Admission, IncomingRequest, ServerSession
from trio_mcp.testing import open_memory_client, open_scripted_server
from trio_mcp.wire import JsonObject

HALF_HOUR = 1800.0
HOUR = 3600.0


async def ignore(_: object) -> None:
    await trio.lowlevel.checkpoint()


async def test_a_call_to_a_silent_server_fails_after_an_idle_timeout_of_half_an_hour(autojump_clock: object) -> None:
    async with open_scripted_server(time_limits=TimeLimits(idle=HALF_HOUR)) as (client, server):
        began = trio.current_time()
        with pytest.raises(RequestTimedOut, match="the server sent nothing for 1800 s"):
            await client.call_tool("work")
        assert trio.current_time() - began == pytest.approx(HALF_HOUR)
        request = await server.expect_request("tools/call")
        cancelled = await server.expect_notification("notifications/cancelled")
        assert cancelled["params"]["requestId"] == request["id"]


async def test_progress_keeps_a_call_alive_for_hours_with_an_idle_timeout_of_half_an_hour(
    autojump_clock: object,
) -> None:
    server = Server("s")

    @server.tool
    async def work(ctx: Context) -> str:
        for done in range(50):
            await trio.sleep(HALF_HOUR - 1)
            await ctx.report_progress(done + 1, total=50)
        return "done"

    limits = TimeLimits(idle=HALF_HOUR, total=30 * HOUR)
    async with open_memory_client(server, time_limits=limits) as client:
        began = trio.current_time()
        await client.call_tool("work", on_progress=ignore)
        assert trio.current_time() - began == pytest.approx(50 * (HALF_HOUR - 1))
        with pytest.raises(RequestTimedOut):  # without a progress callback, progress does not extend the timeout
            await client.call_tool("work")


async def test_a_client_retries_five_times_with_backoff_when_the_server_is_busy(autojump_clock: object) -> None:
    server, freed, asked_at = Server("s", limits=Limits(max_in_flight=1, max_queued=1)), trio.Event(), list[float]()

    @server.tool
    async def occupy() -> None:
        await freed.wait()

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    async with open_memory_client(server) as client, trio.open_nursery() as nursery:
        for _ in range(2):  # one runs and one is queued
            nursery.start_soon(client.call_tool, "occupy")
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()

        async def free() -> None:
            await trio.sleep(30)
            freed.set()

        nursery.start_soon(free)
        for pause in (1, 2, 4, 8, 16):
            asked_at.append(trio.current_time() - began)
            with pytest.raises(ErrorResponse, match="busy"):
                await client.call_tool("add", {"a": 1, "b": 2})
            await trio.sleep(pause)
        result = await client.call_tool("add", {"a": 1, "b": 2})
        assert trio.current_time() - began == pytest.approx(31)

    assert result.structured_content == {"result": 3}
    assert asked_at == pytest.approx([0, 1, 3, 7, 15])


class Library:
    """A custom serving whose list of tools has *pages* pages with one tool each."""

    limits = Limits()

    def __init__(self, pages: int) -> None:
        self.pages = pages

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[Serving]:
        yield self

    def admission(self) -> Admission:
        return ServerSession(["2025-11-25"])

    def answer(self, exchange: IncomingRequest) -> None:
        if exchange.method == "initialize":
            info = {"name": "library", "version": "1"}
            result: JsonObject = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
            exchange.respond(result)
            return
        page = int((exchange.params or {}).get("cursor", 0))
        tools = [{"name": f"tool-{page}", "inputSchema": {"type": "object"}}]
        after = {} if page + 1 == self.pages else {"nextCursor": str(page + 1)}
        exchange.respond({"tools": tools, **after})

    def notified(self, method: str, params: object, peer: object, envelope: object = None) -> None:
        pass

    def stop(self) -> None:
        """Do nothing, because nothing has to be stopped."""


async def test_a_list_of_ten_thousand_pages_is_read_to_its_end(autojump_clock: object) -> None:
    async with open_client(Library(10_000)) as client:
        names = [tool.name async for tool in client.tools(max_pages=10_000)]

    assert names == [f"tool-{page}" for page in range(10_000)]


async def test_a_list_of_ten_thousand_pages_exceeds_the_default_page_limit(
    autojump_clock: object,
) -> None:
    async with open_client(Library(10_000)) as client:
        with pytest.raises(RemoteProtocolError, match="more than 1000 pages"):
            assert [tool async for tool in client.tools()]
