"""Connections in one process without bytes: messages are copied and limits apply."""

from __future__ import annotations

import gc
import math
from typing import Any

import pytest
import trio

from trio_mcp import (
    ConnectionClosed,
    ConnectionLost,
    Context,
    ErrorResponse,
    LocalProtocolError,
    McpError,
    RequestTimedOut,
    Server,
    TimeLimits,
    open_client,
    types,
)
from trio_mcp.lowlevel import IncomingRequest, Limits, Peer, ServerSession
from trio_mcp.peer import NO_ORIGIN, MessageOrigin


@pytest.fixture
def server() -> Server:
    return Server("s")


async def test_a_handler_cannot_change_the_arguments_of_its_caller(server: Server) -> None:
    @server.tool
    async def work(items: list[dict[str, int]]) -> int:
        items[0]["n"] = 7
        items.clear()
        return 0

    arguments = {"items": [{"n": 1}]}
    async with open_client(server) as client:
        await client.call_tool("work", arguments)

    assert arguments == {"items": [{"n": 1}]}


async def test_a_caller_cannot_change_the_result_of_the_handler(server: Server) -> None:
    data: dict[str, Any] = {"list": [1]}

    @server.tool
    async def work() -> types.CallToolResult:
        return types.CallToolResult(content=[], meta=data)

    async with open_client(server) as client:
        meta = (await client.call_tool("work")).meta
        assert meta is not None
        meta["list"].append(2)

    assert data == {"list": [1]}


async def test_the_data_of_log_messages_are_copied(server: Server) -> None:
    data, logged = {"list": [1]}, trio.Event()

    async def on_log(message: types.LoggingMessageNotificationParams) -> None:
        await trio.lowlevel.checkpoint()
        message.data["list"].append(2)
        logged.set()

    @server.tool
    async def work(ctx: Context) -> None:
        await ctx.log("error", data)

    async with open_client(server, revision="2025-11-25", on_log=on_log) as client:
        await client.call_tool("work")
        await logged.wait()

    assert data == {"list": [1]}


@pytest.mark.requirement("B.5-P3a")
async def test_values_that_json_cannot_express_are_refused(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    @server.tool
    async def result() -> types.CallToolResult:
        return types.CallToolResult(content=[], meta={"x": float("nan")})

    @server.tool
    async def error() -> None:
        raise McpError(-5, "no", {"x": object()})

    @server.tool
    async def words() -> None:
        raise McpError(-5, "\ud800")

    async with open_client(server) as client:
        with pytest.raises(LocalProtocolError, match="the params of 'tools/call' cannot be sent"):
            await client.call_tool("result", {"x": float("nan")})
        for name in ("result", "error", "words"):
            with pytest.raises(ErrorResponse, match="not JSON") as refused:
                await client.call_tool(name)
            assert refused.value.code == -32603
        assert client.statistics().outgoing == 0
    assert "the answer to 'tools/call' cannot be sent" in caplog.text


async def test_the_data_of_an_error_are_copied(server: Server) -> None:
    data = {"list": [1]}

    @server.tool
    async def error() -> None:
        raise McpError(-5, "no", data)

    async with open_client(server) as client:
        with pytest.raises(ErrorResponse) as refused:
            await client.call_tool("error")
        assert refused.value.data == data
        refused.value.data["list"].append(2)

    assert data == {"list": [1]}


async def test_a_handler_that_reports_without_pause_lets_the_client_read() -> None:
    server = Server("s", limits=Limits(max_progress_per_second=math.inf))

    @server.tool
    async def work(ctx: Context) -> None:
        for done in range(20_000):
            await ctx.report_progress(done)

    async with open_client(server) as client, client.open_call("work") as call:
        assert [update.progress async for update in call.updates] == list(range(20_000))
        assert call.skipped == 0


async def test_a_handler_does_not_wait_for_a_reader_that_does_not_read() -> None:
    server = Server("s", limits=Limits(max_progress_per_second=math.inf))

    @server.tool
    async def work(ctx: Context) -> None:
        for done in range(100):
            await ctx.report_progress(done)

    async with open_client(server) as client, client.open_call("work") as call:
        await call.result()
        assert client.statistics().update_bytes > 0
        assert len([update async for update in call.updates]) == 100


async def test_progress_for_a_token_of_the_caller_is_dropped(server: Server) -> None:
    @server.tool
    async def work(ctx: Context) -> None:
        await ctx.report_progress(1)

    async with open_client(server) as client:
        await client.call_tool("work", meta={"progressToken": "mine"})
        assert client.statistics().update_bytes == 0


async def test_a_closed_connection_sends_no_notification(server: Server) -> None:
    async with open_client(server, revision="2025-11-25", roots=[]) as client:
        await client.roots_changed()
    with pytest.raises(ConnectionClosed):
        await client.roots_changed()


async def test_the_end_of_a_connection_calls_callbacks_registered_before_and_after(server: Server) -> None:
    reasons: list[ConnectionLost] = []
    async with open_client(server) as client:
        transport = client._connection.transport  # pyright: ignore[reportPrivateUsage] # no public name gives access to it
        transport.on_disconnect(reasons.append)
        assert reasons == []
    transport.on_disconnect(reasons.append)

    assert [type(reason) for reason in reasons] == [ConnectionClosed] * 2
    assert reasons[0] is not reasons[1]


async def test_a_malformed_request_does_not_stay_in_flight(server: Server) -> None:
    async with open_client(server, revision="2025-11-25") as client:
        with pytest.raises(ErrorResponse, match=r"\$\._meta"):
            await client.request("tools/list", {"_meta": 7}, types.ListToolsResult)
        assert client.statistics().outgoing == 0


class SilentAnswerer:
    """An answerer that never answers, and records the incoming requests."""

    limits = Limits()

    def __init__(self) -> None:
        self.exchanges: list[IncomingRequest] = []

    def serving(self) -> Any:
        return self

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def admission(self) -> ServerSession:
        return ServerSession(types.REVISIONS)

    def answer(self, exchange: IncomingRequest) -> None:
        self.exchanges.append(exchange)

    def notified(self, method: str, params: dict[str, Any], peer: Peer, envelope: MessageOrigin = NO_ORIGIN) -> None:
        raise NotImplementedError


@pytest.mark.requirement("B.2-C5", "B.5-P3a")
@pytest.mark.parametrize(("revision", "is_cancelled"), [("2025-11-25", False), ("2026-07-28", True)])
async def test_a_legacy_handshake_is_never_cancelled_at_the_server(
    revision: str, is_cancelled: bool, autojump_clock: object
) -> None:
    answerer = SilentAnswerer()

    with pytest.raises(RequestTimedOut):
        async with open_client(answerer, revision=revision, time_limits=TimeLimits(connect=1)):
            pass

    assert [exchange.open for exchange in answerer.exchanges] == [not is_cancelled]


async def test_the_limits_of_the_client_apply_to_its_updates() -> None:
    server = Server("s")

    @server.tool
    async def work(ctx: Context) -> None:
        for step in range(10):
            await ctx.report_progress(step + 1)

    async with open_client(server, limits=Limits(max_updates=3)) as client, client.open_call("work") as call:
        await call.result()
        assert call.skipped == 7


async def test_a_caller_that_sends_requests_without_pause_lets_other_tasks_run(server: Server) -> None:
    @server.tool
    async def work() -> int:
        return 1

    checkpoints = 0

    async def count() -> None:
        nonlocal checkpoints
        while True:
            await trio.lowlevel.checkpoint()
            checkpoints += 1

    async with open_client(server) as client, trio.open_nursery() as nursery:
        nursery.start_soon(count)
        for _ in range(10):
            await client.call_tool("work")
        nursery.cancel_scope.cancel()

    assert checkpoints >= 5  # about one for each call


async def test_a_call_leaves_no_reference_cycles(server: Server) -> None:
    @server.tool
    async def work() -> int:
        return 1

    @server.tool
    async def wait() -> int:
        await trio.lowlevel.checkpoint()
        return 1

    async with open_client(server) as client:
        for name in ("work", "wait"):
            await client.call_tool(name)  # objects that are made once are made now
            gc.collect()
            gc.disable()
            try:
                for _ in range(10):
                    await client.call_tool(name)
                assert gc.collect() < 10
            finally:
                gc.enable()
