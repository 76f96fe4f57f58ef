"""A server over HTTP by hand: each request comes to the test as a `Visit`, which the test answers as it likes."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import trio
from attrs import define, field

from trio_mcp import TrioMcpError
from trio_mcp._util import owned_nursery
from trio_mcp.abc import Direction, Transport
from trio_mcp.peer import ClientSession, IncomingRequest, Limits, OutgoingRequest
from trio_mcp.testing import AsgiEngine
from trio_mcp.transports import AsgiMessage, HttpEngine, Scope, http_transport
from trio_mcp.wire import CAPABILITIES_KEY, REVISION_KEY, JsonObject, sse_event

__all__ = [
    "LEGACY",
    "META",
    "MODERN",
    "URL",
    "Caller",
    "HttpScript",
    "Pending",
    "Visit",
    "ask",
    "error",
    "initialize",
    "notice",
    "opened",
    "opened_in_session",
    "result",
    "welcome",
]

URL = "http://server.test/mcp"
MODERN, LEGACY = "2026-07-28", "2025-11-25"
META: JsonObject = {REVISION_KEY: MODERN, CAPABILITIES_KEY: {}}


def result(id: Any, **members: Any) -> JsonObject:
    """A response with a result."""
    return {"jsonrpc": "2.0", "id": id, "result": members}


def error(code: int, message: str = "no", **members: Any) -> JsonObject:
    """A response with an error; its `id` is one of the members, if any."""
    return {"jsonrpc": "2.0", "error": {"code": code, "message": message}, **members}


def notice(method: str, **params: Any) -> JsonObject:
    """A notification."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


@define(eq=False)
class Caller:
    """What a transport needs of a client."""

    limits: Limits = field(factory=Limits)
    answers: bool = True
    """Whether questions of the server are answered at once, with an empty result."""
    taps: bool = True
    """Whether it wants to see each message."""
    admission: ClientSession = field(factory=ClientSession, init=False)
    seen: list[tuple[Direction, bytes]] = field(factory=list[tuple[Direction, bytes]], init=False)
    news: list[str] = field(factory=list[str], init=False)
    questions: list[IncomingRequest] = field(factory=list[IncomingRequest], init=False)
    renewals: int = field(default=0, init=False)
    is_person_asked: bool = field(default=False, init=False)

    @property
    def tap(self) -> Callable[[Direction, bytes], None] | None:
        """Notes every message."""
        if not self.taps:
            return None
        return lambda direction, message: self.seen.append((direction, message))

    def answer(self, exchange: IncomingRequest) -> None:
        """Answer with nothing, or not at all."""
        self.questions.append(exchange)
        if self.answers:
            exchange.respond({})

    def notified(self, method: str, params: JsonObject) -> None:
        """Note it."""
        self.news.append(method)

    @contextmanager
    def asking_person(self) -> Generator[None]:
        """Note that one is."""
        self.is_person_asked = True
        try:
            yield
        finally:
            self.is_person_asked = False

    def renewed(self) -> None:
        """Count it."""
        self.renewals += 1


@define(eq=False)
class Pending:
    """A request under way in a task of its own."""

    asked: OutgoingRequest
    _resolved: trio.Event = field(factory=trio.Event, init=False)
    _outcome: JsonObject | Exception | None = field(default=None, init=False)
    scope: trio.CancelScope = field(factory=trio.CancelScope, init=False)

    async def run(self) -> None:
        """Ask, and note what comes of it."""
        with self.scope:
            try:
                async with self.asked as asked:
                    self._outcome = await asked.result()
            except TrioMcpError as exc:
                self._outcome = exc
        self._resolved.set()

    @property
    def is_settled(self) -> bool:
        """Whether the outcome is there."""
        return self._resolved.is_set()

    async def outcome(self) -> JsonObject:
        """Wait for the result, or raise what came in its place."""
        await self._resolved.wait()
        if isinstance(self._outcome, Exception):
            raise self._outcome
        assert self._outcome is not None
        return self._outcome


def ask(
    nursery: trio.Nursery,
    transport: Transport,
    method: str = "tools/list",
    *,
    modern: bool = True,
    repeatable: bool = False,
    fields: Mapping[str, str] | None = None,
    **params: Any,
) -> Pending:
    """Begin to ask for something."""
    asked = transport.ask(method, {**params, "_meta": META} if modern else params)
    asked.repeatable, asked.fields = repeatable, fields or {}
    pending = Pending(asked)
    nursery.start_soon(pending.run)
    return pending


@define(eq=False)
class Visit:
    """One HTTP request, as the server sees it."""

    scope: Scope
    body: bytes
    _send: Callable[[AsgiMessage], Any]
    left: trio.Event = field(factory=trio.Event, init=False)
    """Set when the client has left before the response was complete."""
    over: trio.Event = field(factory=trio.Event, init=False)

    @property
    def method(self) -> str:
        """GET, POST or DELETE."""
        return str(self.scope["method"])

    @property
    def headers(self) -> dict[str, str]:
        """The header fields by lower-case name."""
        return {name.decode(): value.decode() for name, value in self.scope["headers"]}

    @property
    def message(self) -> Any:
        """The posted message."""
        return json.loads(self.body)

    async def answer(
        self,
        status: int = 200,
        body: Any = b"",
        *,
        kind: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Respond as a whole; what is not bytes goes as JSON."""
        if not isinstance(body, bytes):
            body, kind = json.dumps(body).encode(), kind or "application/json"
        fields = {**({} if kind is None else {"content-type": kind}), **(headers or {})}
        await self._start(status, fields)
        await self._send({"type": "http.response.body", "body": body})
        self.over.set()

    async def result(self, **members: Any) -> None:
        """Respond with a result, as JSON."""
        await self.answer(200, result(self.message["id"], **members))

    async def begin(self, headers: Mapping[str, str] | None = None) -> None:
        """Begin an event stream."""
        await self._start(200, {"content-type": "text/event-stream", **(headers or {})})

    async def event(self, message: Any = None, **fields: Any) -> None:
        """Send one event; without a message its data are empty."""
        data = b"" if message is None else json.dumps(message).encode()
        await self.send(sse_event(data, **fields))

    async def send(self, data: bytes) -> None:
        """Send some of the body."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        """End the response properly."""
        await self._send({"type": "http.response.body", "body": b""})
        self.over.set()

    def cut(self) -> None:
        """End the response in the middle, as a server that dies does."""
        self.over.set()

    async def _start(self, status: int, fields: Mapping[str, str]) -> None:
        raw = [(name.encode(), value.encode()) for name, value in fields.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})


@define(eq=False)
class HttpScript:
    """An ASGI application whose every request waits for the test."""

    visits: list[Visit] = field(factory=list[Visit], init=False)
    """All requests so far."""
    _send_visit: trio.MemorySendChannel[Visit] = field(init=False)
    _receive_visit: trio.MemoryReceiveChannel[Visit] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._send_visit, self._receive_visit = trio.open_memory_channel[Visit](1000)

    async def __call__(self, scope: Scope, receive: Callable[[], Any], send: Callable[[AsgiMessage], Any]) -> None:
        message = await receive()
        body = message["body"]
        while message["more_body"]:
            message = await receive()
            body += message["body"]
        visit = Visit(scope, body, send)
        self.visits.append(visit)
        self._send_visit.send_nowait(visit)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch, visit, receive)
            await visit.over.wait()
            nursery.cancel_scope.cancel()

    async def _watch(self, visit: Visit, receive: Callable[[], Any]) -> None:
        assert (await receive())["type"] == "http.disconnect"
        visit.left.set()
        visit.over.set()

    async def next(self, method: str = "POST", rpc: str | None = None) -> Visit:
        """The next request, which must be what is expected."""
        visit = await self._receive_visit.receive()
        shown = (visit.method, visit.message.get("method") if visit.body else None)
        assert shown == (method, rpc), f"{visit.headers} {visit.body!r}"
        return visit

    async def take(self, count: int) -> dict[str, Visit]:
        """The next posts, whatever their order, by what they ask."""
        visits = [await self._receive_visit.receive() for _ in range(count)]
        return {visit.message["method"]: visit for visit in visits}

    async def silence(self, seconds: float = 60.0) -> None:
        """Assert that nothing is requested for a while."""
        with trio.move_on_after(seconds):
            visit = await self._receive_visit.receive()
            raise AssertionError(f"expected silence: {visit.method} {visit.body!r}")


@asynccontextmanager
async def opened(
    server: HttpScript, caller: Caller | None = None, *, engine: HttpEngine | None = None, **options: Any
) -> AsyncGenerator[Transport]:
    """A client's transport to a server by hand."""
    async with http_transport(URL, engine=engine or AsgiEngine(server), **options)(caller or Caller()) as transport:
        yield transport


async def initialize(transport: Transport) -> None:
    """Make the handshake as a client does."""
    params: JsonObject = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    async with transport.ask("initialize", params) as asked:
        await asked.result()
    await transport.notify("notifications/initialized", None)


async def welcome(server: HttpScript, *, id: str | None = "s1", revision: str = LEGACY) -> None:
    """Answer the handshake as a server does."""
    visit = await server.next(rpc="initialize")
    answer = result(visit.message["id"], protocolVersion=revision, capabilities={}, serverInfo={})
    await visit.answer(200, answer, headers={} if id is None else {"mcp-session-id": id})
    await (await server.next(rpc="notifications/initialized")).answer(202)


@asynccontextmanager
async def opened_in_session(
    server: HttpScript,
    caller: Caller | None = None,
    *,
    id: str | None = "s1",
    revision: str = LEGACY,
    engine: HttpEngine | None = None,
    **options: Any,
) -> AsyncGenerator[Transport]:
    """A transport on which the handshake is done; the last words at closing are taken."""
    caller = caller or Caller()

    async def bury() -> None:
        async for visit in server._receive_visit:
            if visit.method == "DELETE" or b"notifications/cancelled" in visit.body:
                await visit.answer(405 if visit.method == "DELETE" else 202)

    async with owned_nursery() as nursery, opened(server, caller, engine=engine, **options) as transport:
        async with trio.open_nursery() as greeting:
            greeting.start_soon(initialize, transport)
            await welcome(server, id=id, revision=revision)
        caller.admission.agree(revision, {}, None)
        yield transport
        nursery.start_soon(bury)
