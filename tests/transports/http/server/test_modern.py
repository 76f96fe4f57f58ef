"""Modern requests to an HTTP server: responses, streams, disconnected clients, mirrored headers and limits."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator
from typing import Annotated, Any

import msgspec
import pytest
import trio
from attrs import define, field, frozen

from tests.transports.http.asgi_caller import NEVER, AsgiCaller, call, request
from trio_mcp import Accepted, Context, Limits, McpError, Server
from trio_mcp.server import http_app
from trio_mcp.transports import HttpApp
from trio_mcp.transports.http.server import _modern
from trio_mcp.transports.http.server._modern import IncomingHttpRequest
from trio_mcp.wire import (
    CAPABILITIES_KEY,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    LOG_LEVEL_KEY,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    SUBSCRIPTION_ID_KEY,
)

KEEP_ALIVE = 15.0
DRAIN = 5.0
BUSY = -31_000


@frozen
class Seats:
    count: int


@define(eq=False)
class ModernToolServer:
    """A server with a tool for each event that can happen to a request, and a log of its handlers."""

    limits: Limits = field(factory=lambda: Limits(drain_seconds=DRAIN, outbox_bytes=1000))
    server: Server = field(init=False)
    app: HttpApp = field(init=False)
    log: list[str] = field(factory=list[str], init=False)
    go: trio.Event = field(factory=trio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        self.server = Server("tools", limits=self.limits)
        for tool in (self.add, self.wait, self.flood, self.elicit_seats, self.show_context, self.fail, self.route):
            self.server.tool(tool)
        self.app = http_app(self.server)

    async def add(self, a: int, b: int, ctx: Context) -> int:
        await ctx.report_progress(1, message="adding")
        return a + b

    async def wait(self, ctx: Context, reports: bool = False) -> str:
        """Wait until the test sets `go`; with *reports*, report progress first."""
        if reports:
            await ctx.report_progress(1)
        try:
            await self.go.wait()
        except trio.Cancelled:
            self.log.append("cancelled")
            raise
        self.log.append("done")
        return "done"

    async def flood(self, count: int, ctx: Context) -> int:
        """Log many lines of more than 100 bytes."""
        try:
            for done in range(count):
                await ctx.log("info", "x" * 100)
                self.log.append(f"logged {done}")
        except trio.Cancelled:
            self.log.append("cancelled")
            raise
        return count

    async def elicit_seats(self, ctx: Context) -> str:
        match await ctx.elicit("How many?", Seats):
            case Accepted(value=seats):
                return f"{seats.count} seats"
            case _:
                return "none"

    async def show_context(self, ctx: Context) -> dict[str, Any]:
        return {"headers": dict(ctx.headers), "accepts": ctx.headers["Accept"], "principal": ctx.principal}

    async def fail(self, code: int) -> None:
        raise McpError(code, "as you wish")

    async def route(self, region: Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "Region"})]) -> str:
        self.log.append(f"routed to {region}")
        return region

    async def post(self, message: Any, headers: dict[str, str] | None = None, **more: Any) -> AsgiCaller:
        """Send a request, and wait for the whole response."""
        return await AsgiCaller.post(message, headers, **more).run(self.app)


@pytest.fixture
async def tool_server() -> AsyncGenerator[ModernToolServer]:
    tool_server = ModernToolServer()
    async with tool_server.app.run():
        yield tool_server


def text_of(answer: Any) -> Any:
    return answer["result"]["content"][0]["text"]


@pytest.mark.requirement("B.8-S4a")
async def test_a_response_with_nothing_but_the_answer_is_json(tool_server: ModernToolServer) -> None:
    response = await tool_server.post(call("add", {"a": 1, "b": 2}))

    assert (response.status, response.headers["content-type"]) == (200, "application/json")
    assert response.answer["id"] == 1
    assert text_of(response.answer) == "3"


async def test_an_immediate_answer_is_json(tool_server: ModernToolServer) -> None:
    response = await tool_server.post(request("server/discover", id="one"))

    assert (response.status, response.headers["content-type"]) == (200, "application/json")
    assert response.answer["id"] == "one"
    assert "2026-07-28" in response.answer["result"]["supportedVersions"]


@pytest.mark.requirement("B.8-S4a", "B.8-S4c", "B.8-S6", "B.18-S4c")
async def test_an_update_starts_a_stream_that_ends_with_the_answer(tool_server: ModernToolServer) -> None:
    response = await tool_server.post(call("add", {"a": 1, "b": 2}, progressToken="t"))

    assert (response.status, response.is_stream, response.complete) == (200, True, True)
    assert response.headers["x-accel-buffering"] == "no"
    assert response.headers["cache-control"] == "no-store"
    progress, answer = response.messages
    assert progress["params"] == {"progressToken": "t", "progress": 1, "message": "adding"}
    assert text_of(answer) == "3"


async def test_a_long_request_starts_a_stream_with_keep_alives(
    tool_server: ModernToolServer, autojump_clock: trio.testing.MockClock
) -> None:
    caller = AsgiCaller.post(call("wait"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(caller.run, tool_server.app)
        await trio.sleep(KEEP_ALIVE - 1)
        assert caller.sent == []
        await trio.sleep(2)
        assert caller.is_stream
        await trio.sleep(3 * KEEP_ALIVE)
        assert caller.comments == 3
        tool_server.go.set()

    assert text_of(caller.answer) == "done"
    assert caller.complete


@pytest.mark.requirement("B.1-S2b", "B.8-S8")
@pytest.mark.parametrize(
    ("message", "status", "code"),
    [
        (request("no/such"), 404, METHOD_NOT_FOUND),
        (request("ping"), 404, METHOD_NOT_FOUND),
        (call("elicit_seats"), 400, MISSING_CAPABILITY),
        (call("none"), 200, INVALID_PARAMS),
        (call("fail", {"code": 7}), 200, 7),
        (call("fail", {"code": HEADER_MISMATCH}), 400, HEADER_MISMATCH),
        (call("add", progressToken=[]), 400, INVALID_PARAMS),
        (call("route", {"region": "eu"}), 400, HEADER_MISMATCH),
    ],
)
async def test_an_error_without_updates_has_the_status_of_its_code(
    tool_server: ModernToolServer, message: Any, status: int, code: int
) -> None:
    response = await tool_server.post(message)

    assert (response.status, response.code) == (status, code)
    assert response.answer["id"] == 1
    assert not response.is_stream


async def test_an_error_after_an_update_is_sent_on_the_stream(tool_server: ModernToolServer) -> None:
    response = await tool_server.post(call("add", {"a": 1, "b": "x"}, progressToken=1))
    assert response.answer["result"]["isError"]

    @tool_server.server.tool
    async def begin(ctx: Context) -> None:
        await ctx.report_progress(1)
        raise McpError(METHOD_NOT_FOUND, "gone")

    response = await tool_server.post(call("begin", progressToken=1))
    assert (response.status, response.is_stream, response.code) == (200, True, METHOD_NOT_FOUND)


async def test_an_answer_that_is_not_json_is_an_error_of_the_server(
    tool_server: ModernToolServer, caplog: pytest.LogCaptureFixture
) -> None:
    @tool_server.server.method("com.example/nan")
    async def nan(params: dict[str, Any]) -> dict[str, float]:
        return {"a": math.nan}

    with caplog.at_level(logging.ERROR, "trio_mcp"):
        response = await tool_server.post(request("com.example/nan"))

    assert (response.status, response.code) == (200, INTERNAL_ERROR)
    assert "NaN" in caplog.text


@pytest.mark.requirement("B.8-S5a", "B.8-S5b", "B.12-P5b")
@pytest.mark.parametrize("reports", [False, True], ids=["before an update", "after an update"])
async def test_a_client_that_disconnects_cancels_its_handler_and_gets_no_more_messages(
    tool_server: ModernToolServer, reports: bool
) -> None:
    caller = AsgiCaller.post(call("wait", {"reports": reports}, progressToken=1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(caller.run, tool_server.app)
        await trio.testing.wait_all_tasks_blocked()
        assert len(caller.messages) == reports
        caller.disconnect()
        await trio.testing.wait_all_tasks_blocked()
        sent = len(caller.sent)
        assert caller.returned.is_set()
        assert tool_server.log == ["cancelled"]
        tool_server.go.set()
        await trio.testing.wait_all_tasks_blocked()

    assert len(caller.sent) == sent
    assert not caller.complete


async def test_a_client_that_disconnects_has_cancelled_its_request(
    tool_server: ModernToolServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons = list[str]()
    cancel = IncomingHttpRequest.cancel

    def record(exchange: IncomingHttpRequest, reason: str) -> None:
        reasons.append(reason)
        cancel(exchange, reason)

    monkeypatch.setattr(IncomingHttpRequest, "cancel", record)
    caller = AsgiCaller.post(call("wait"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(caller.run, tool_server.app)
        await trio.testing.wait_all_tasks_blocked()
        caller.disconnect()
        await caller.returned.wait()

    assert reasons == ["the client closed the response"]


async def test_a_request_that_the_asgi_server_cancels_stops_its_handler(tool_server: ModernToolServer) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(AsgiCaller.post(call("wait")).run, tool_server.app)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    await trio.testing.wait_all_tasks_blocked()

    assert tool_server.log == ["cancelled"]


async def test_requests_of_many_clients_with_the_same_id_get_their_own_answers(tool_server: ModernToolServer) -> None:
    callers = [AsgiCaller.post(call("add", {"a": number, "b": 0}, progressToken=1)) for number in range(64)]
    async with trio.open_nursery() as nursery:
        for caller in callers:
            nursery.start_soon(caller.run, tool_server.app)

    assert [text_of(caller.answer) for caller in callers] == [str(number) for number in range(64)]


async def test_a_slow_client_delays_only_its_own_handler(tool_server: ModernToolServer) -> None:
    slow = AsgiCaller.post(call("flood", {"count": 100}, **{LOG_LEVEL_KEY: "info"}))
    slow.stop_reading()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(slow.run, tool_server.app)
        await trio.testing.wait_all_tasks_blocked()
        logged_lines = len(tool_server.log)
        assert logged_lines < 20
        other = await tool_server.post(call("flood", {"count": 100}, **{LOG_LEVEL_KEY: "info"}))
        assert text_of(other.answer) == "100"
        assert len(tool_server.log) == logged_lines + 100
        slow.resume_reading()

    assert len(slow.messages) == 101
    assert slow.complete


async def test_a_slow_client_that_disconnects_cancels_its_handler(tool_server: ModernToolServer) -> None:
    slow = AsgiCaller.post(call("flood", {"count": 100}, **{LOG_LEVEL_KEY: "info"}))
    slow.stop_reading()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(slow.run, tool_server.app)
        await trio.testing.wait_all_tasks_blocked()
        slow.disconnect()

    await trio.testing.wait_all_tasks_blocked()
    assert tool_server.log[-1] == "cancelled"


async def test_a_listener_gets_the_acknowledgement_then_changes_then_the_result(tool_server: ModernToolServer) -> None:
    caller = AsgiCaller.post(request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="l"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(caller.run, tool_server.app)
        await caller.wait_for_messages(1)
        tool_server.server.tools.remove("add")
        await caller.wait_for_messages(2)
        assert not caller.complete
        tool_server.app.stop()

    acknowledged, changed, ended = caller.messages
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert changed["method"] == "notifications/tools/list_changed"
    assert (ended["id"], ended["result"]["resultType"]) == ("l", "complete")
    assert {message["params"]["_meta"][SUBSCRIPTION_ID_KEY] for message in (acknowledged, changed)} == {"l"}
    assert caller.complete


async def test_a_listener_that_disconnects_gets_no_more_changes(tool_server: ModernToolServer) -> None:
    caller = AsgiCaller.post(request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(caller.run, tool_server.app)
        await caller.wait_for_messages(1)
        caller.disconnect()
    tool_server.server.tools.remove("add")
    await trio.testing.wait_all_tasks_blocked()

    assert len(caller.messages) == 1


async def test_a_handler_sees_the_header_fields_but_no_credentials(tool_server: ModernToolServer) -> None:
    secrets = {"authorization": "Bearer x", "cookie": "a=b", "proxy-authorization": "Basic x"}

    response = await tool_server.post(call("show_context"), {"X-Trace": "42", **secrets})

    context = response.answer["result"]["structuredContent"]
    assert context["accepts"] == context["headers"]["accept"]
    assert context["principal"] is None
    assert context["headers"]["x-trace"] == "42"
    assert context["headers"]["host"] == "localhost"
    assert context["headers"].keys().isdisjoint(secrets)


async def test_an_argument_that_a_header_mirrors_reaches_the_handler(tool_server: ModernToolServer) -> None:
    response = await tool_server.post(call("route", {"region": "eu"}), {"mcp-param-region": "eu"})

    assert text_of(response.answer) == "eu"


@pytest.mark.requirement("B.8-S7a", "B.8-S11a")
@pytest.mark.parametrize("headers", [{}, {"mcp-param-region": "us"}, {"mcp-param-region": "=?base64?!?="}])
async def test_a_header_that_differs_from_its_argument_refuses_the_call(
    tool_server: ModernToolServer, headers: dict[str, str]
) -> None:
    response = await tool_server.post(call("route", {"region": "eu"}), headers)

    assert (response.status, response.code) == (400, HEADER_MISMATCH)
    assert tool_server.log == []


async def test_the_mirrored_arguments_change_with_the_tool(tool_server: ModernToolServer) -> None:
    await tool_server.post(call("route", {"region": "eu"}), {"mcp-param-region": "eu"})
    tool_server.server.tools.remove("route")

    @tool_server.server.tool
    async def route(zone: Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "Zone"})]) -> str:
        return zone

    assert (await tool_server.post(call("route", {"zone": "eu"}), {"mcp-param-region": "eu"})).code == HEADER_MISMATCH
    response = await tool_server.post(call("route", {"zone": "eu"}), {"mcp-param-zone": "eu"})
    assert text_of(response.answer) == "eu"


async def test_the_cache_of_mirrored_arguments_is_bounded(
    tool_server: ModernToolServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_modern, "_MAX_KNOWN", 1)

    for _ in range(2):
        assert (await tool_server.post(call("show_context"))).status == 200
        assert (await tool_server.post(call("route", {"region": "eu"}))).code == HEADER_MISMATCH


@pytest.mark.requirement("B.8-S11b")
async def test_no_header_is_expected_for_a_missing_argument(tool_server: ModernToolServer) -> None:
    @tool_server.server.tool
    async def find(near: Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "Near"})] = "here") -> str:
        return near

    assert text_of((await tool_server.post(call("find"))).answer) == "here"
    assert (await tool_server.post(call("find", {"near": None}))).answer["result"][
        "isError"
    ]  # the tool itself refuses it
    for arguments in ({}, {"near": None}):
        refused = await tool_server.post(call("find", arguments), {"mcp-param-near": "here"})
        assert (refused.status, refused.code) == (400, HEADER_MISMATCH)


@pytest.mark.parametrize("params", [{"name": 7}, {"name": "route", "arguments": []}])
async def test_a_malformed_call_is_refused_before_its_headers_are_compared(
    tool_server: ModernToolServer, params: dict[str, Any]
) -> None:
    response = await tool_server.post(request("tools/call", params), {"mcp-name": str(params["name"])})

    assert response.code == INVALID_PARAMS


@pytest.mark.requirement("B.8-S3")
async def test_a_notification_is_accepted_and_handled(tool_server: ModernToolServer) -> None:
    handled = trio.Event()

    @tool_server.server.notification("com.example/changed")
    async def handle_notification(params: dict[str, Any], ctx: Context) -> None:
        await ctx.log("info", "dropped")
        tool_server.log.append(params["text"])
        handled.set()

    response = await tool_server.post(
        request("com.example/changed", {"text": "hello"}, id=None, **{LOG_LEVEL_KEY: "info"})
    )
    await handled.wait()

    assert (response.status, response.body, response.complete) == (202, b"", True)
    assert tool_server.log == ["hello"]


async def test_a_parked_handler_continues_in_the_next_post(tool_server: ModernToolServer) -> None:
    capabilities: dict[str, Any] = {CAPABILITIES_KEY: {"elicitation": {}}}
    question = (await tool_server.post(call("elicit_seats", **capabilities))).answer["result"]
    assert question["resultType"] == "input_required"
    (key,) = question["inputRequests"]
    retry = call("elicit_seats", **capabilities)
    retry["params"] |= {
        "requestState": question["requestState"],
        "inputResponses": {key: {"action": "accept", "content": {"count": 2}}},
    }

    response = await tool_server.post({**retry, "id": 2})

    assert response.answer["id"] == 2
    assert text_of(response.answer) == "2 seats"
    assert not response.is_stream


def limited_server() -> ModernToolServer:
    return ModernToolServer(Limits(max_in_flight=1, max_queued=1, max_listens=1, drain_seconds=DRAIN))


async def test_the_requests_of_one_client_address_share_its_limits() -> None:
    tool_server = limited_server()
    callers = [AsgiCaller.post(call("wait")) for _ in range(3)]
    async with tool_server.app.run(), trio.open_nursery() as nursery:
        for caller in callers:
            nursery.start_soon(caller.run, tool_server.app)
        await trio.testing.wait_all_tasks_blocked()
        (refused,) = [caller for caller in callers if caller.sent]
        assert refused.code == BUSY
        other = AsgiCaller.post(call("wait"), client=("127.0.0.2", 1))
        nursery.start_soon(other.run, tool_server.app)
        await trio.testing.wait_all_tasks_blocked()
        assert other.sent == []
        tool_server.go.set()

    assert sorted(caller.code or 0 for caller in (*callers, other)) == [BUSY, 0, 0, 0]


async def test_listeners_do_not_count_against_the_limit_of_other_requests() -> None:
    tool_server = limited_server()
    listen = request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    listener = AsgiCaller.post(listen)
    async with tool_server.app.run(), trio.open_nursery() as nursery:
        nursery.start_soon(listener.run, tool_server.app)
        await listener.wait_for_messages(1)
        assert (await tool_server.post(listen)).code == BUSY
        assert text_of((await tool_server.post(call("add", {"a": 1, "b": 2}))).answer) == "3"
        tool_server.app.stop()


async def test_requests_in_flight_are_answered_when_the_server_stops(tool_server: ModernToolServer) -> None:
    caller = AsgiCaller.post(call("wait"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(caller.run, tool_server.app)
        await trio.testing.wait_all_tasks_blocked()
        tool_server.app.stop()
        nursery.start_soon(tool_server.app.drained)
        await trio.testing.wait_all_tasks_blocked()
        late = await tool_server.post(call("add", {"a": 1, "b": 2}))
        tool_server.go.set()

    assert text_of(caller.answer) == "done"
    assert (late.status, late.code, late.answer["id"]) == (503, INTERNAL_ERROR, 1)


async def test_unfinished_requests_fail_when_the_server_has_stopped(
    autojump_clock: trio.testing.MockClock,
) -> None:
    tool_server = ModernToolServer()
    alone, streaming = AsgiCaller.post(call("wait")), AsgiCaller.post(call("wait", {"reports": True}, progressToken=1))
    async with trio.open_nursery() as nursery:
        async with tool_server.app.run():
            for caller in (alone, streaming):
                nursery.start_soon(caller.run, tool_server.app)
            await streaming.wait_for_messages(1)
            began = trio.current_time()
        assert trio.current_time() - began == DRAIN

    for caller in (alone, streaming):
        assert "the server stopped" in caller.answer["error"]["message"]
        assert caller.complete
    assert tool_server.log == ["cancelled", "cancelled"]


async def test_a_client_that_reads_nothing_does_not_delay_the_shutdown(autojump_clock: trio.testing.MockClock) -> None:
    tool_server = ModernToolServer()
    slow = AsgiCaller.post(call("flood", {"count": 100}, **{LOG_LEVEL_KEY: "info"}))
    slow.stop_reading()
    async with trio.open_nursery() as nursery:
        async with tool_server.app.run():
            nursery.start_soon(slow.run, tool_server.app)
            await trio.testing.wait_all_tasks_blocked()
            began = trio.current_time()
        assert trio.current_time() - began < DRAIN + 5
        slow.disconnect()


async def test_a_cancelled_application_does_not_wait_for_its_handlers(autojump_clock: trio.testing.MockClock) -> None:
    tool_server, caller = ModernToolServer(), AsgiCaller.post(call("wait"))
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            async with tool_server.app.run():
                nursery.start_soon(caller.run, tool_server.app)
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()

    assert trio.current_time() == began
    assert "the server stopped" in caller.answer["error"]["message"]


async def test_notifications_in_progress_have_some_seconds_when_the_server_stops(
    autojump_clock: trio.testing.MockClock,
) -> None:
    tool_server = ModernToolServer()

    @tool_server.server.notification("com.example/changed")
    async def handle_notification(params: dict[str, Any]) -> None:
        try:
            await trio.sleep(NEVER)
        except trio.Cancelled:
            tool_server.log.append("cancelled")
            raise

    async with tool_server.app.run():
        await tool_server.post(request("com.example/changed", id=None))
        await trio.testing.wait_all_tasks_blocked()
        tool_server.app.stop()
        await tool_server.app.drained()
        await tool_server.post(request("com.example/changed", id=None))
        await trio.testing.wait_all_tasks_blocked()

    assert tool_server.log == ["cancelled"]
