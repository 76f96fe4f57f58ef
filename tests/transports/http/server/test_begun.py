"""Requests that are answered in one step, over real sockets: they have the answers of all other requests."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeAlias

import pytest
import trio
import trio.testing
from attrs import define, field, frozen

from tests.server.raw_http_client import body_of, head_of, served
from tests.transports.http.asgi_caller import call, request
from tests.transports.http.scripted_server import META
from tests.transports.http.server.raw_session_client import LATEST, SESSION, VERSION, initialize, message
from tests.transports.http.server.raw_session_client import call as call_in_session
from tests.transports.http.server.token_verifier import Tokens, protection
from trio_mcp import Context, HttpBound, Limits, Server, SessionSettings, serve_http
from trio_mcp.peer import IncomingRequest
from trio_mcp.server import ActiveServer
from trio_mcp.transports import HttpApp
from trio_mcp.wire import REVISION_KEY, JsonObject, decode

MIRRORED: JsonObject = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    "required": ["region"],
}
SECRET: ContextVar[str] = ContextVar("SECRET", default="unset")
LOG = logging.getLogger("tests.access")
Response: TypeAlias = tuple[str, list[str], bytes]
"""The status line, the header fields without the date, and the body without its framing."""


@frozen
class Seats:
    count: int


@define(eq=False)
class Tools:
    """A server with tools that need no waiting, and others that do."""

    drain_seconds: float = 5.0
    server: Server = field(init=False)
    go: trio.Event = field(factory=trio.Event, init=False)
    started: trio.Event = field(factory=trio.Event, init=False)
    calls: int = field(default=0, init=False)
    seen: list[str] = field(factory=list[str], init=False)
    """The values of the context variable that the hook has found."""

    def __attrs_post_init__(self) -> None:
        self.server = Server("tools", limits=Limits(drain_seconds=self.drain_seconds, max_logs_per_second=math.inf))
        for tool in (self.add, self.fail, self.large, self.remember, self.yields, self.wait, self.report, self.ask):
            self.server.tool(tool)
        self.server.tool(visible=self._is_visible)(self.hooked)
        self.server.tool(scopes=["seats"])(self.guarded)
        self.server.tool(input_schema=MIRRORED)(self.mirrored)

    def _is_visible(self, _entry: Any, _access: Any) -> bool:
        self.seen.append(SECRET.get())
        SECRET.set("set by the hook")
        return True

    async def add(self, a: int, b: int) -> int:
        return a + b

    async def fail(self) -> int:
        raise LookupError("no such seat")

    async def large(self, size: int) -> str:
        self.calls += 1
        return "x" * size

    async def remember(self) -> str:
        before = SECRET.get()
        SECRET.set("set by a handler")
        return before

    async def hooked(self) -> str:
        return "seen"

    async def guarded(self) -> str:
        return "granted"

    async def mirrored(self, region: str) -> str:
        return region

    async def yields(self) -> str:
        """Wait for a moment."""
        before = SECRET.get()
        SECRET.set("set by a handler")
        await trio.lowlevel.checkpoint()
        return before

    async def wait(self) -> str:
        """Wait until the test sets `go`."""
        self.started.set()
        await self.go.wait()
        return "done"

    async def report(self, ctx: Context) -> str:
        """Report progress, then wait until the test sets `go`."""
        await ctx.report_progress(1, 2)
        await self.go.wait()
        return "reported"

    async def ask(self, ctx: Context) -> str:
        """Ask the user for a number."""
        answer = await ctx.elicit("How many?", Seats)
        return repr(answer)


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ways of the requests that were not answered in one step."""
    found = list[str]()

    def record(name: str) -> None:
        original = getattr(HttpApp, name)

        async def recorded(self: HttpApp, *arguments: Any) -> None:
            found.append(name)
            await original(self, *arguments)

        monkeypatch.setattr(HttpApp, name, recorded)

    record("answer")
    record("go_on")
    return found


@define(eq=False)
class Wire:
    """A connection, whose responses are read one by one."""

    stream: trio.SocketStream
    unread: bytes = b""

    async def send(self, *requests: bytes) -> None:
        await self.stream.send_all(b"".join(requests))

    async def head(self) -> tuple[str, list[str]]:
        """Return the status line and the header fields of the next response."""
        first, *fields = (await self._until(b"\r\n\r\n")).decode().split("\r\n")
        return first, [each for each in fields if not each.startswith("date: ")]

    async def response(self) -> Response:
        """Return the next response."""
        first, fields = await self.head()
        named = dict(each.split(": ", 1) for each in fields)
        if "chunked" in named.get("transfer-encoding", ""):
            chunks = [chunk async for chunk in self.chunks()]
            return first, fields, b"".join(chunks)
        while len(self.unread) < int(named["content-length"]):
            await self._more()
        body, self.unread = self.unread[: int(named["content-length"])], self.unread[int(named["content-length"]) :]
        return first, fields, body

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Yield the chunks of a body of unknown length."""
        while size := int(await self._until(b"\r\n"), 16):
            while len(self.unread) < size + 2:
                await self._more()
            chunk, self.unread = self.unread[:size], self.unread[size + 2 :]
            yield chunk
        await self._until(b"\r\n")

    async def ends(self) -> bool:
        """Wait for the next byte, or the end; return True if it is the end."""
        return not self.unread and await self.stream.receive_some() == b""

    async def _until(self, end: bytes) -> bytes:
        while end not in self.unread:
            await self._more()
        found, _, self.unread = self.unread.partition(end)
        return found

    async def _more(self) -> None:
        chunk = await self.stream.receive_some()
        assert chunk, self.unread
        self.unread += chunk


@asynccontextmanager
async def wired(bound: HttpBound) -> AsyncGenerator[Wire]:
    """Open a connection."""
    assert bound.port is not None
    async with await trio.open_tcp_stream("127.0.0.1", bound.port) as stream:
        yield Wire(stream)


def post(message: Any, **fields: str) -> bytes:
    """Return the bytes of a request."""
    return head_of(message, **fields) + body_of(message)


async def begin_session(wire: Wire, **capabilities: Any) -> dict[str, str]:
    """Perform a handshake; return the header fields of the messages that follow."""
    await wire.send(post(initialize(**capabilities)))
    _, fields, _ = await wire.response()
    (id,) = [each.partition(": ")[2] for each in fields if each.startswith(SESSION)]
    named = {SESSION: id, VERSION: LATEST}
    await wire.send(post(message("notifications/initialized"), **named))
    assert (await wire.response())[0] == "HTTP/1.1 202 Accepted"
    return named


def status_of(response: Response) -> int:
    return int(response[0].split(" ")[1])


def text_of(response: Response) -> str:
    """Return the text of the result of a tool, whatever form the response has."""
    body = response[2]
    answer: Any = decode(body.rpartition(b"data: ")[2].strip() if b"data: " in body else body)
    text: str = answer["result"]["content"][0]["text"]
    return text


# --- Both ways answer the same ---

MODERN_REQUESTS: Sequence[tuple[bytes, int, list[str]]] = [
    (post(call("add", {"a": 1, "b": 2})), 200, []),
    (post(call("fail")), 200, []),
    (post(call("hooked")), 200, []),
    (post(request("tools/list")), 200, []),
    (post(request("server/discover")), 200, []),
    (post(call("add", {"a": "one"})), 200, []),
    (post(call("unknown")), 200, []),
    (post(request("tools/call", {"name": "add", "arguments": 3})), 200, []),
    (post(request("no/such/method")), 404, []),
    (post(call("add", {"a": 1, "b": 2}), **{"mcp-method": "tools/list"}), 400, ["answer"]),
    (post(call("add", {"a": 1, "b": 2}), **{"mcp-name": "fail"}), 400, ["answer"]),
    (post(call("add"), **{VERSION: "1999-01-01"}), 400, ["answer"]),
    (post({**request("tools/list"), "params": {"_meta": {**META, REVISION_KEY: "2099-01-01"}}}), 400, ["answer"]),
    (post(b"{"), 400, ["answer"]),
    (post(request("tools/list"), host="example.com"), 403, ["answer"]),
    (post(request("tools/list"), accept="text/plain"), 406, ["answer"]),
    (post(request("tools/list"), **{"content-type": "text/plain"}), 415, ["answer"]),
    (post(request("notifications/x", id=None)), 202, ["answer"]),
    (post([request("tools/list")]), 400, ["answer"]),
    (post(call("guarded")), 403, ["answer"]),
    (post(call("mirrored", {"region": "here"}), **{"mcp-param-region": "here"}), 200, []),
    (post(call("mirrored", {"region": "here"}), **{"mcp-param-region": "there"}), 400, ["answer"]),
    (post(call("yields")), 200, ["go_on"]),
    (post(call("large", {"size": 20_000})), 200, ["go_on"]),
    (post(call("add", {"a": 1, "b": 2, "padding": "x" * 20_000})), 200, ["answer"]),
]


@pytest.mark.parametrize(("sent", "status", "way"), MODERN_REQUESTS)
async def test_modern_requests_have_the_same_answers_in_both_ways(
    sent: bytes, status: int, way: list[str], ways: list[str]
) -> None:
    async def responses(bound: HttpBound) -> list[Response]:
        async with wired(bound) as wire:
            found = list[Response]()
            for _ in range(3):
                await wire.send(sent)
                found.append(await wire.response())
            return found

    async with served(Tools().server) as bound, served(Tools().server, access_log=LOG) as logging_bound:
        quick = await responses(bound)
        assert ways == 3 * way
        general = await responses(logging_bound)
        assert ways[3 * len(way) :] == 3 * ["answer"]
    assert quick == general
    assert [status_of(each) for each in quick] == 3 * [status]


SESSION_REQUESTS: Sequence[tuple[Any, dict[str, str], int, list[str]]] = [
    (call_in_session("add", a=1, b=2), {}, 200, []),
    (call_in_session("fail"), {}, 200, []),
    (message("ping", id=7), {}, 200, []),
    (message("tools/list", id=7), {}, 200, []),
    (call_in_session("unknown"), {}, 200, []),
    (message("tools/call", {"name": "add", "arguments": 3}, 7), {}, 200, []),
    (message("no/such/method", id=7), {}, 200, []),
    (message("notifications/x"), {}, 202, ["go_on"]),
    ({"jsonrpc": "2.0", "id": 99, "result": {}}, {}, 202, ["go_on"]),
    (call_in_session("add", a=1, b=2), {SESSION: "unknown"}, 404, ["answer"]),
    (call_in_session("add", a=1, b=2), {VERSION: "2025-06-18"}, 400, ["answer"]),
    (initialize(), {}, 200, []),
    ([call_in_session("add", a=1, b=2)], {}, 400, ["answer"]),
    (call_in_session("guarded"), {}, 403, ["answer"]),
    (call_in_session("yields"), {}, 200, ["go_on"]),
    (call_in_session("large", size=20_000), {}, 200, ["go_on"]),
    (call_in_session("add", a=1, b=2, padding="x" * 20_000), {}, 200, ["answer"]),
]


@pytest.mark.parametrize(("sent", "fields", "status", "way"), SESSION_REQUESTS)
async def test_requests_in_a_session_have_the_same_answers_in_both_ways(
    sent: Any, fields: dict[str, str], status: int, way: list[str], ways: list[str]
) -> None:
    async def responses(bound: HttpBound) -> list[Response]:
        async with wired(bound) as wire:
            named = await begin_session(wire)
            ways.clear()
            found = list[Response]()
            for _ in range(3):
                await wire.send(post(sent, **{**named, **fields}))
                found.append(await wire.response())
            return found

    async with served(Tools().server) as bound, served(Tools().server, access_log=LOG) as logging_bound:
        quick = await responses(bound)
        assert ways == 3 * way
        general = await responses(logging_bound)
        assert ways == 3 * ["answer"]
    assert quick == general
    assert [status_of(each) for each in quick] == 3 * [status]


@pytest.mark.parametrize("access_log", [None, LOG])
@pytest.mark.parametrize("is_modern", [True, False])
async def test_a_handler_that_reports_progress_streams(access_log: Any, is_modern: bool) -> None:
    tools = Tools()
    async with served(tools.server, access_log=access_log) as bound, wired(bound) as wire:
        if is_modern:
            await wire.send(post(call("report", progressToken="p")))
        else:
            named = await begin_session(wire)
            params = {"name": "report", "arguments": {}, "_meta": {"progressToken": "p"}}
            await wire.send(post(message("tools/call", params, 2), **named))
        first, fields = await wire.head()
        assert first == "HTTP/1.1 200 OK"
        assert "content-type: text/event-stream" in fields
        chunks = [b""]
        async for chunk in wire.chunks():
            chunks.append(chunk)
            tools.go.set()
        assert b"notifications/progress" in chunks[1]
        assert b"reported" in chunks[-1]
        await wire.send(post(call("add", {"a": 1, "b": 2})))
        assert text_of(await wire.response()) == "3"


@pytest.mark.parametrize("access_log", [None, LOG])
async def test_a_handler_that_asks_in_a_session_streams(access_log: Any) -> None:
    async with served(Tools().server, access_log=access_log) as bound, wired(bound) as wire, wired(bound) as other:
        named = await begin_session(wire, elicitation={})
        await wire.send(post(call_in_session("ask"), **named))
        first, fields = await wire.head()
        assert first == "HTTP/1.1 200 OK"
        assert "content-type: text/event-stream" in fields
        chunks = wire.chunks()
        question: Any = decode((await anext(chunks)).rpartition(b"data: ")[2].strip())
        assert question["method"] == "elicitation/create"
        answer = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"count": 3}}}
        await other.send(post(answer, **named))
        assert status_of(await other.response()) == 202
        assert b"count=3" in b"".join([chunk async for chunk in chunks])


# --- The connection ---


async def test_requests_that_are_sent_ahead_are_answered_in_order(ways: list[str]) -> None:
    async with served(Tools().server) as bound, wired(bound) as wire:
        tools = ["add", "yields", "add", "add", "fail", "large", "add"]
        arguments: dict[str, dict[str, Any]] = {"add": {"a": 1, "b": 2}, "large": {"size": 20_000}}
        calls = [call(tool, arguments.get(tool), id=number) for number, tool in enumerate(tools)]
        sent = [request_with(each, number) for number, each in enumerate(calls)]
        await wire.send(*sent)
        answers: list[Any] = [decode((await wire.response())[2]) for _ in tools]
        assert [answer["id"] for answer in answers] == list(range(len(tools)))
        assert ways == ["go_on", "go_on"]


def request_with(message: Any, id: int) -> bytes:
    """Return the bytes of a request with another id."""
    return post({**message, "id": id})


@pytest.mark.parametrize(
    ("version", "extra", "is_closed"),
    [("1.0", {}, True), ("1.0", {"connection": "keep-alive"}, False), ("1.1", {"connection": "close"}, True)],
)
async def test_a_request_that_frames_its_response_in_another_way_is_answered_with_that(
    version: str, extra: dict[str, str], is_closed: bool, ways: list[str]
) -> None:
    async with served(Tools().server) as bound, wired(bound) as wire:
        sent = post(call("add", {"a": 1, "b": 2}), **extra)
        await wire.send(sent.replace(b"HTTP/1.1", f"HTTP/{version}".encode(), 1))
        response = await wire.response()
        assert text_of(response) == "3"
        assert ("connection: close" in response[1]) is is_closed
        assert ways == ["answer"]
        if is_closed:
            assert await wire.ends()


async def test_a_body_over_a_low_limit_is_refused_before_it_is_read(ways: list[str]) -> None:
    async with served(Tools().server, max_body_bytes=1000) as bound, wired(bound) as wire:
        await wire.send(post(call("add", {"a": 1, "b": 2})))
        assert text_of(await wire.response()) == "3"
        await wire.send(post(call("add", {"a": 1, "b": 2, "padding": "x" * 1000})))
        assert status_of(await wire.response()) == 413
        assert ways == ["answer"]


async def test_a_request_in_flight_during_a_stop_is_the_last_of_its_connection() -> None:
    tools = Tools()
    async with served(tools.server) as bound, trio.open_nursery() as nursery, wired(bound) as wire:
        await wire.send(post(call("wait")), post(call("add", {"a": 1, "b": 2})))
        await tools.started.wait()
        nursery.start_soon(bound.stop)
        await trio.testing.wait_all_tasks_blocked()
        tools.go.set()
        response = await wire.response()
        assert text_of(response) == "done"
        assert "connection: close" in response[1]
        assert await wire.ends()


async def test_a_protected_application_answers_nothing_in_one_step(ways: list[str]) -> None:
    tokens = Tokens()
    allowed = tokens.issue("ada")
    fields = {"host": "mcp.example"}
    async with served(Tools().server, auth=protection(tokens)) as bound, wired(bound) as wire:
        for _ in range(2):
            await wire.send(post(call("add", {"a": 1, "b": 2}), **fields))
            first, headers, _ = await wire.response()
            assert first == "HTTP/1.1 401 Unauthorized"
            assert any(each.startswith("www-authenticate: ") for each in headers)
            await wire.send(post(call("add", {"a": 1, "b": 2}), **fields, **allowed))
            assert text_of(await wire.response()) == "3"
        assert ways == 4 * ["answer"]


@pytest.mark.parametrize("access_log", [None, LOG])
@pytest.mark.parametrize("is_modern", [True, False])
async def test_a_failure_of_the_server_ends_its_request_only(
    is_modern: bool, access_log: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    tools, answer = Tools(drain_seconds=0.1), ActiveServer.answer

    def fail(serving: ActiveServer, exchange: IncomingRequest) -> None:
        if exchange.params is not None and exchange.params.get("name") == "fail":
            raise ZeroDivisionError("secret")
        answer(serving, exchange)

    monkeypatch.setattr(ActiveServer, "answer", fail)
    async with served(tools.server, access_log=access_log) as bound, wired(bound) as wire:
        named = {} if is_modern else await begin_session(wire)
        make = call if is_modern else call_in_session
        for number in range(2):
            await wire.send(post(make("fail", id=f"failed-{number}"), **named))
            response = await wire.response()
            assert status_of(response) == 500
            assert b"the server's log says why" in response[2]
            assert b"secret" not in response[2]
            await wire.send(post(make("remember"), **named))
            assert text_of(await wire.response()) == "unset"
    assert [record.getMessage() for record in caplog.records] == 2 * ["an HTTP request failed"]


async def test_a_request_does_not_see_the_context_variables_of_earlier_ones(ways: list[str]) -> None:
    tools = Tools()
    async with served(tools.server) as bound, wired(bound) as wire:
        for tool in ("remember", "hooked", "hooked", "remember", "yields", "hooked", "remember", "yields", "hooked"):
            tools.seen.clear()
            await wire.send(post(call(tool)))
            assert text_of(await wire.response()) == ("seen" if tool == "hooked" else "unset")
            assert tools.seen[:1] == (["unset"] if tool == "hooked" else [])
        assert ways == ["go_on", "go_on"]


async def test_a_client_that_does_not_read_its_answers_loses_its_connection(ways: list[str]) -> None:
    tools = Tools()
    async with served(tools.server, write_seconds=0.1) as bound:
        async with wired(bound) as wire:
            requests = 100 * post(call("large", {"size": 4000}))
            with pytest.raises(trio.BrokenResourceError):
                while True:
                    await wire.send(requests)
        answered = tools.calls
        assert ways == []
        async with wired(bound) as wire:
            await wire.send(post(call("add", {"a": 1, "b": 2})))
            assert text_of(await wire.response()) == "3"
        assert tools.calls == answered


# --- The idle time of sessions ---


@asynccontextmanager
async def served_without_timeout(server: Server, **options: Any) -> AsyncGenerator[HttpBound]:
    """Serve during the block, on a clock that the test moves."""
    async with trio.open_nursery() as nursery:
        bound: HttpBound = await nursery.start(partial(serve_http, server, port=0, **options))
        yield bound
        nursery.cancel_scope.cancel()


async def test_a_session_is_idle_after_requests_that_were_answered_in_one_step(
    mock_clock: trio.testing.MockClock, ways: list[str]
) -> None:
    tools = Tools()
    sessions = SessionSettings(idle_seconds=10)
    add = call_in_session("add", a=1, b=2)

    async def answer(message: Any) -> Response:
        async with wired(bound) as wire:
            await wire.send(post(message, **named))
            return await wire.response()

    async with served_without_timeout(tools.server, sessions=sessions, keep_alive=1000) as bound:
        async with wired(bound) as wire:
            named = await begin_session(wire)
        ways.clear()
        for _ in range(3):  # each call keeps the session
            mock_clock.jump(9)
            await trio.testing.wait_all_tasks_blocked()
            assert text_of(await answer(add)) == "3"
        assert ways == []

        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                assert text_of(await answer(call_in_session("wait"))) == "done"

            nursery.start_soon(wait)
            await tools.started.wait()
            mock_clock.jump(30)  # it is in use
            await trio.testing.wait_all_tasks_blocked()
            tools.go.set()
        assert text_of(await answer(add)) == "3"

        mock_clock.jump(11)
        await trio.testing.wait_all_tasks_blocked()
        assert status_of(await answer(add)) == 404
