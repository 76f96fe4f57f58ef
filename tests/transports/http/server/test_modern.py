"""The modern half of an HTTP server: what one POST gets, when it streams, and what its client's leaving does."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator
from typing import Annotated, Any

import msgspec
import pytest
import trio
from attrs import define, field, frozen

from tests.transports.http.asgi_caller import NEVER, Caller, call, request
from trio_mcp import Accepted, Context, Limits, McpError, Server
from trio_mcp.server import http_app
from trio_mcp.transports import HttpApp
from trio_mcp.transports.http.server import _modern as _http_mirrors
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
class Theatre:
    """A server, and what its handlers have seen."""

    limits: Limits = field(factory=lambda: Limits(drain_seconds=DRAIN, outbox_bytes=1000))
    server: Server = field(init=False)
    app: HttpApp = field(init=False)
    log: list[str] = field(factory=list[str], init=False)
    go: trio.Event = field(factory=trio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        self.server = Server("theatre", limits=self.limits)
        for tool in (self.add, self.wait, self.flood, self.book, self.seen, self.fail, self.route):
            self.server.tool(tool)
        self.app = http_app(self.server)

    async def add(self, a: int, b: int, ctx: Context) -> int:
        await ctx.report_progress(1, message="adding")
        return a + b

    async def wait(self, ctx: Context, first: bool = False) -> str:
        """Wait until the test says go, after a first word perhaps."""
        if first:
            await ctx.report_progress(1)
        try:
            await self.go.wait()
        except trio.Cancelled:
            self.log.append("cancelled")
            raise
        self.log.append("gone")
        return "went"

    async def flood(self, count: int, ctx: Context) -> int:
        """Log many lines of more than 100 bytes."""
        try:
            for done in range(count):
                await ctx.log("info", "x" * 100)
                self.log.append(f"said {done}")
        except trio.Cancelled:
            self.log.append("cancelled")
            raise
        return count

    async def book(self, ctx: Context) -> str:
        match await ctx.elicit("How many?", Seats):
            case Accepted(value=seats):
                return f"{seats.count} seats"
            case _:
                return "none"

    async def seen(self, ctx: Context) -> dict[str, Any]:
        return {"headers": dict(ctx.headers), "principal": ctx.principal}

    async def fail(self, code: int) -> None:
        raise McpError(code, "as you wish")

    async def route(self, region: Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "Region"})]) -> str:
        self.log.append(f"routed to {region}")
        return region

    async def post(self, message: Any, headers: dict[str, str] | None = None, **more: Any) -> Caller:
        """Make a request, and wait for the whole response."""
        return await Caller.post(message, headers, **more).run(self.app)


@pytest.fixture
async def theatre() -> AsyncGenerator[Theatre]:
    theatre = Theatre()
    async with theatre.app.run():
        yield theatre


def text_of(answer: Any) -> Any:
    return answer["result"]["content"][0]["text"]


@pytest.mark.requirement("B.8-S4a")
async def test_an_answer_that_comes_alone_is_json(theatre: Theatre) -> None:
    response = await theatre.post(call("add", {"a": 1, "b": 2}))

    assert (response.status, response.headers["content-type"]) == (200, "application/json")
    assert response.answer["id"] == 1
    assert text_of(response.answer) == "3"


async def test_what_is_answered_at_once_is_json(theatre: Theatre) -> None:
    response = await theatre.post(request("server/discover", id="one"))

    assert (response.status, response.headers["content-type"]) == (200, "application/json")
    assert response.answer["id"] == "one"
    assert "2026-07-28" in response.answer["result"]["supportedVersions"]


@pytest.mark.requirement("B.8-S4a", "B.8-S4c", "B.8-S6", "B.18-S4c")
async def test_an_update_begins_a_stream_that_ends_with_the_answer(theatre: Theatre) -> None:
    response = await theatre.post(call("add", {"a": 1, "b": 2}, progressToken="t"))

    assert (response.status, response.streams, response.complete) == (200, True, True)
    assert response.headers["x-accel-buffering"] == "no"
    assert response.headers["cache-control"] == "no-store"
    progress, answer = response.messages
    assert progress["params"] == {"progressToken": "t", "progress": 1, "message": "adding"}
    assert text_of(answer) == "3"


async def test_silence_begins_a_stream_as_well(theatre: Theatre, autojump_clock: trio.testing.MockClock) -> None:
    caller = Caller.post(call("wait"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(caller.run, theatre.app)
        await trio.sleep(KEEP_ALIVE - 1)
        assert caller.sent == []
        await trio.sleep(2)
        assert caller.streams
        await trio.sleep(3 * KEEP_ALIVE)
        assert caller.comments == 3
        theatre.go.set()

    assert text_of(caller.answer) == "went"
    assert caller.complete


@pytest.mark.requirement("B.1-S2b", "B.8-S8")
@pytest.mark.parametrize(
    ("message", "status", "code"),
    [
        (request("no/such"), 404, METHOD_NOT_FOUND),
        (request("ping"), 404, METHOD_NOT_FOUND),
        (call("book"), 400, MISSING_CAPABILITY),
        (call("none"), 200, INVALID_PARAMS),
        (call("fail", {"code": 7}), 200, 7),
        (call("fail", {"code": HEADER_MISMATCH}), 400, HEADER_MISMATCH),
        (call("add", progressToken=[]), 400, INVALID_PARAMS),
        (call("route", {"region": "eu"}), 400, HEADER_MISMATCH),
    ],
)
async def test_an_error_alone_has_the_status_of_its_code(
    theatre: Theatre, message: Any, status: int, code: int
) -> None:
    response = await theatre.post(message)

    assert (response.status, response.code) == (status, code)
    assert response.answer["id"] == 1
    assert not response.streams


async def test_an_error_after_an_update_belongs_to_the_stream(theatre: Theatre) -> None:
    response = await theatre.post(call("add", {"a": 1, "b": "x"}, progressToken=1))
    assert response.answer["result"]["isError"]

    @theatre.server.tool
    async def begin(ctx: Context) -> None:
        await ctx.report_progress(1)
        raise McpError(METHOD_NOT_FOUND, "gone")

    response = await theatre.post(call("begin", progressToken=1))
    assert (response.status, response.streams, response.code) == (200, True, METHOD_NOT_FOUND)


async def test_an_answer_that_is_not_json_is_an_error_of_the_server(
    theatre: Theatre, caplog: pytest.LogCaptureFixture
) -> None:
    @theatre.server.method("com.example/nan")
    async def nan(params: dict[str, Any]) -> dict[str, float]:
        return {"a": math.nan}

    with caplog.at_level(logging.ERROR, "trio_mcp"):
        response = await theatre.post(request("com.example/nan"))

    assert (response.status, response.code) == (200, INTERNAL_ERROR)
    assert "NaN" in caplog.text


@pytest.mark.requirement("B.8-S5a", "B.8-S5b", "B.12-P5b")
@pytest.mark.parametrize("first", [False, True], ids=["before the first word", "after it"])
async def test_a_client_that_leaves_cancels_its_handler_and_is_sent_no_more(theatre: Theatre, first: bool) -> None:
    caller = Caller.post(call("wait", {"first": first}, progressToken=1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(caller.run, theatre.app)
        await trio.testing.wait_all_tasks_blocked()
        assert len(caller.messages) == first
        caller.leave()
        await trio.testing.wait_all_tasks_blocked()
        sent = len(caller.sent)
        assert caller.returned.is_set()
        assert theatre.log == ["cancelled"]
        theatre.go.set()
        await trio.testing.wait_all_tasks_blocked()

    assert len(caller.sent) == sent
    assert not caller.complete


async def test_a_request_whose_server_gives_it_up_stops_its_handler(theatre: Theatre) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Caller.post(call("wait")).run, theatre.app)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    await trio.testing.wait_all_tasks_blocked()

    assert theatre.log == ["cancelled"]


async def test_many_requests_with_one_id_are_answered_each_to_whom_it_belongs(theatre: Theatre) -> None:
    callers = [Caller.post(call("add", {"a": number, "b": 0}, progressToken=1)) for number in range(64)]
    async with trio.open_nursery() as nursery:
        for caller in callers:
            nursery.start_soon(caller.run, theatre.app)

    assert [text_of(caller.answer) for caller in callers] == [str(number) for number in range(64)]


async def test_a_slow_reader_holds_up_its_own_handler_alone(theatre: Theatre) -> None:
    slow = Caller.post(call("flood", {"count": 100}, **{LOG_LEVEL_KEY: "info"}))
    slow.stop_reading()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(slow.run, theatre.app)
        await trio.testing.wait_all_tasks_blocked()
        held_up = len(theatre.log)
        assert held_up < 20
        other = await theatre.post(call("flood", {"count": 100}, **{LOG_LEVEL_KEY: "info"}))
        assert text_of(other.answer) == "100"
        assert len(theatre.log) == held_up + 100
        slow.read_on()

    assert len(slow.messages) == 101
    assert slow.complete


async def test_a_slow_reader_that_leaves_cancels_its_handler(theatre: Theatre) -> None:
    slow = Caller.post(call("flood", {"count": 100}, **{LOG_LEVEL_KEY: "info"}))
    slow.stop_reading()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(slow.run, theatre.app)
        await trio.testing.wait_all_tasks_blocked()
        slow.leave()

    await trio.testing.wait_all_tasks_blocked()
    assert theatre.log[-1] == "cancelled"


async def test_a_listener_gets_the_acknowledgement_then_changes_then_the_end(theatre: Theatre) -> None:
    caller = Caller.post(request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="l"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(caller.run, theatre.app)
        await caller.messages_are(1)
        theatre.server.tools.remove("add")
        await caller.messages_are(2)
        assert not caller.complete
        theatre.app.stop()

    acknowledged, changed, ended = caller.messages
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert changed["method"] == "notifications/tools/list_changed"
    assert (ended["id"], ended["result"]["resultType"]) == ("l", "complete")
    assert {message["params"]["_meta"][SUBSCRIPTION_ID_KEY] for message in (acknowledged, changed)} == {"l"}
    assert caller.complete


async def test_a_listener_that_leaves_is_forgotten(theatre: Theatre) -> None:
    caller = Caller.post(request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(caller.run, theatre.app)
        await caller.messages_are(1)
        caller.leave()
    theatre.server.tools.remove("add")
    await trio.testing.wait_all_tasks_blocked()

    assert len(caller.messages) == 1


async def test_a_handler_sees_the_header_fields_but_no_credentials(theatre: Theatre) -> None:
    secrets = {"authorization": "Bearer x", "cookie": "a=b", "proxy-authorization": "Basic x"}

    response = await theatre.post(call("seen"), {"X-Trace": "42", **secrets})

    seen = response.answer["result"]["structuredContent"]
    assert seen["principal"] is None
    assert seen["headers"]["x-trace"] == "42"
    assert seen["headers"]["host"] == "localhost"
    assert seen["headers"].keys().isdisjoint(secrets)


async def test_an_argument_that_a_header_repeats_reaches_the_handler(theatre: Theatre) -> None:
    response = await theatre.post(call("route", {"region": "eu"}), {"mcp-param-region": "eu"})

    assert text_of(response.answer) == "eu"


@pytest.mark.requirement("B.8-S7a", "B.8-S11a")
@pytest.mark.parametrize("headers", [{}, {"mcp-param-region": "us"}, {"mcp-param-region": "=?base64?!?="}])
async def test_a_header_that_differs_from_its_argument_stops_the_call(
    theatre: Theatre, headers: dict[str, str]
) -> None:
    response = await theatre.post(call("route", {"region": "eu"}), headers)

    assert (response.status, response.code) == (400, HEADER_MISMATCH)
    assert theatre.log == []


async def test_which_arguments_headers_repeat_changes_with_the_tool(theatre: Theatre) -> None:
    await theatre.post(call("route", {"region": "eu"}), {"mcp-param-region": "eu"})
    theatre.server.tools.remove("route")

    @theatre.server.tool
    async def route(zone: Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "Zone"})]) -> str:
        return zone

    assert (await theatre.post(call("route", {"zone": "eu"}), {"mcp-param-region": "eu"})).code == HEADER_MISMATCH
    response = await theatre.post(call("route", {"zone": "eu"}), {"mcp-param-zone": "eu"})
    assert text_of(response.answer) == "eu"


async def test_what_many_tools_ask_for_is_not_remembered_for_ever(
    theatre: Theatre, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_http_mirrors, "_MAX_KNOWN", 1)

    for _ in range(2):
        assert (await theatre.post(call("seen"))).status == 200
        assert (await theatre.post(call("route", {"region": "eu"}))).code == HEADER_MISMATCH


@pytest.mark.requirement("B.8-S11b")
async def test_for_an_argument_that_is_not_there_no_header_is_expected(theatre: Theatre) -> None:
    @theatre.server.tool
    async def find(near: Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "Near"})] = "here") -> str:
        return near

    assert text_of((await theatre.post(call("find"))).answer) == "here"
    assert (await theatre.post(call("find", {"near": None}))).answer["result"]["isError"]  # of the tool's own check
    for arguments in ({}, {"near": None}):
        refused = await theatre.post(call("find", arguments), {"mcp-param-near": "here"})
        assert (refused.status, refused.code) == (400, HEADER_MISMATCH)


@pytest.mark.parametrize("params", [{"name": 7}, {"name": "route", "arguments": []}])
async def test_what_a_call_lacks_is_said_before_its_headers_are_looked_at(
    theatre: Theatre, params: dict[str, Any]
) -> None:
    response = await theatre.post(request("tools/call", params), {"mcp-name": str(params["name"])})

    assert response.code == INVALID_PARAMS


@pytest.mark.requirement("B.8-S3")
async def test_a_notification_is_accepted_and_handled(theatre: Theatre) -> None:
    taken = trio.Event()

    @theatre.server.notification("com.example/news")
    async def news(params: dict[str, Any], ctx: Context) -> None:
        await ctx.log("info", "nobody hears it")
        theatre.log.append(params["text"])
        taken.set()

    response = await theatre.post(request("com.example/news", {"text": "hello"}, id=None, **{LOG_LEVEL_KEY: "info"}))
    await taken.wait()

    assert (response.status, response.body, response.complete) == (202, b"", True)
    assert theatre.log == ["hello"]


async def test_a_parked_handler_goes_on_in_the_next_post(theatre: Theatre) -> None:
    able: dict[str, Any] = {CAPABILITIES_KEY: {"elicitation": {}}}
    asked = (await theatre.post(call("book", **able))).answer["result"]
    assert asked["resultType"] == "input_required"
    (key,) = asked["inputRequests"]
    retry = call("book", **able)
    retry["params"] |= {
        "requestState": asked["requestState"],
        "inputResponses": {key: {"action": "accept", "content": {"count": 2}}},
    }

    response = await theatre.post({**retry, "id": 2})

    assert response.answer["id"] == 2
    assert text_of(response.answer) == "2 seats"
    assert not response.streams


def tight() -> Theatre:
    return Theatre(Limits(max_in_flight=1, max_queued=1, max_listens=1, drain_seconds=DRAIN))


async def test_the_requests_of_one_sender_share_its_limits() -> None:
    theatre = tight()
    callers = [Caller.post(call("wait")) for _ in range(3)]
    async with theatre.app.run(), trio.open_nursery() as nursery:
        for caller in callers:
            nursery.start_soon(caller.run, theatre.app)
        await trio.testing.wait_all_tasks_blocked()
        (refused,) = [caller for caller in callers if caller.sent]
        assert refused.code == BUSY
        other = Caller.post(call("wait"), client=("127.0.0.2", 1))
        nursery.start_soon(other.run, theatre.app)
        await trio.testing.wait_all_tasks_blocked()
        assert other.sent == []
        theatre.go.set()

    assert sorted(caller.code or 0 for caller in (*callers, other)) == [BUSY, 0, 0, 0]


async def test_listeners_take_no_room_of_other_requests() -> None:
    theatre = tight()
    listen = request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    listener = Caller.post(listen)
    async with theatre.app.run(), trio.open_nursery() as nursery:
        nursery.start_soon(listener.run, theatre.app)
        await listener.messages_are(1)
        assert (await theatre.post(listen)).code == BUSY
        assert text_of((await theatre.post(call("add", {"a": 1, "b": 2}))).answer) == "3"
        theatre.app.stop()


async def test_requests_under_way_are_answered_when_the_server_stops(theatre: Theatre) -> None:
    caller = Caller.post(call("wait"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(caller.run, theatre.app)
        await trio.testing.wait_all_tasks_blocked()
        theatre.app.stop()
        nursery.start_soon(theatre.app.drained)
        await trio.testing.wait_all_tasks_blocked()
        late = await theatre.post(call("add", {"a": 1, "b": 2}))
        theatre.go.set()

    assert text_of(caller.answer) == "went"
    assert (late.status, late.code, late.answer["id"]) == (503, INTERNAL_ERROR, 1)


async def test_requests_that_do_not_end_fail_because_the_server_stops(
    autojump_clock: trio.testing.MockClock,
) -> None:
    theatre = Theatre()
    alone, streaming = Caller.post(call("wait")), Caller.post(call("wait", {"first": True}, progressToken=1))
    async with trio.open_nursery() as nursery:
        async with theatre.app.run():
            for caller in (alone, streaming):
                nursery.start_soon(caller.run, theatre.app)
            await streaming.messages_are(1)
            began = trio.current_time()
        assert trio.current_time() - began == DRAIN

    for caller in (alone, streaming):
        assert "the server stopped" in caller.answer["error"]["message"]
        assert caller.complete
    assert theatre.log == ["cancelled", "cancelled"]


async def test_a_client_that_reads_nothing_does_not_hold_up_the_end(autojump_clock: trio.testing.MockClock) -> None:
    theatre = Theatre()
    slow = Caller.post(call("flood", {"count": 100}, **{LOG_LEVEL_KEY: "info"}))
    slow.stop_reading()
    async with trio.open_nursery() as nursery:
        async with theatre.app.run():
            nursery.start_soon(slow.run, theatre.app)
            await trio.testing.wait_all_tasks_blocked()
            began = trio.current_time()
        assert trio.current_time() - began < DRAIN + 5
        slow.leave()


async def test_a_run_that_is_cancelled_does_not_wait(autojump_clock: trio.testing.MockClock) -> None:
    theatre, caller = Theatre(), Caller.post(call("wait"))
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            async with theatre.app.run():
                nursery.start_soon(caller.run, theatre.app)
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()

    assert trio.current_time() == began
    assert "the server stopped" in caller.answer["error"]["message"]


async def test_notifications_that_are_worked_on_have_some_time_when_the_server_stops(
    autojump_clock: trio.testing.MockClock,
) -> None:
    theatre = Theatre()

    @theatre.server.notification("com.example/news")
    async def news(params: dict[str, Any]) -> None:
        try:
            await trio.sleep(NEVER)
        except trio.Cancelled:
            theatre.log.append("cancelled")
            raise

    async with theatre.app.run():
        await theatre.post(request("com.example/news", id=None))
        await trio.testing.wait_all_tasks_blocked()
        theatre.app.stop()
        await theatre.app.drained()
        await theatre.post(request("com.example/news", id=None))
        await trio.testing.wait_all_tasks_blocked()

    assert theatre.log == ["cancelled"]
