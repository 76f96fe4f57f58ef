"""An HTTP server that a test scripts: the test takes each `ReceivedRequest` and answers it itself."""

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
    "ClientStub",
    "Pending",
    "ReceivedRequest",
    "ScriptedHttpServer",
    "answer_handshake",
    "error",
    "initialize",
    "notification",
    "open_session",
    "open_transport",
    "result",
    "start_request",
]

URL = "http://server.test/mcp"
MODERN, LEGACY = "2026-07-28", "2025-11-25"
META: JsonObject = {REVISION_KEY: MODERN, CAPABILITIES_KEY: {}}


def result(id: Any, **members: Any) -> JsonObject:
    """Return a response with a result."""
    return {"jsonrpc": "2.0", "id": id, "result": members}


def error(code: int, message: str = "no", **members: Any) -> JsonObject:
    """Return a response with an error; its `id`, if any, is one of the members."""
    return {"jsonrpc": "2.0", "error": {"code": code, "message": message}, **members}


def notification(method: str, **params: Any) -> JsonObject:
    """Return a notification."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


@define(eq=False)
class ClientStub:
    """A client, as far as a transport needs one, that records what the transport reports."""

    limits: Limits = field(factory=Limits)
    answers: bool = True
    """True if the server's questions are answered at once, with an empty result."""
    taps: bool = True
    """True if the client has a tap."""
    admission: ClientSession = field(factory=ClientSession, init=False)
    seen: list[tuple[Direction, bytes]] = field(factory=list[tuple[Direction, bytes]], init=False)
    notifications: list[str] = field(factory=list[str], init=False)
    questions: list[IncomingRequest] = field(factory=list[IncomingRequest], init=False)
    renewals: int = field(default=0, init=False)
    is_user_asked: bool = field(default=False, init=False)

    @property
    def tap(self) -> Callable[[Direction, bytes], None] | None:
        """A tap that records every message; None without one."""
        if not self.taps:
            return None
        return lambda direction, message: self.seen.append((direction, message))

    def answer(self, exchange: IncomingRequest) -> None:
        """Record the question, and answer it with an empty result if `answers` is set."""
        self.questions.append(exchange)
        if self.answers:
            exchange.respond({})

    def notified(self, method: str, params: JsonObject) -> None:
        """Record the notification."""
        self.notifications.append(method)

    @contextmanager
    def asking_person(self) -> Generator[None]:
        """Record that the user is being asked."""
        self.is_user_asked = True
        try:
            yield
        finally:
            self.is_user_asked = False

    def renewed(self) -> None:
        """Count the new sessions."""
        self.renewals += 1


@define(eq=False)
class Pending:
    """A request in flight in its own task."""

    outgoing: OutgoingRequest
    _done: trio.Event = field(factory=trio.Event, init=False)
    _outcome: JsonObject | Exception | None = field(default=None, init=False)
    scope: trio.CancelScope = field(factory=trio.CancelScope, init=False)

    async def run(self) -> None:
        """Send the request, and record its outcome."""
        with self.scope:
            try:
                async with self.outgoing as outgoing:
                    self._outcome = await outgoing.result()
            except TrioMcpError as exc:
                self._outcome = exc
        self._done.set()

    @property
    def is_done(self) -> bool:
        """True if the outcome is known."""
        return self._done.is_set()

    async def outcome(self) -> JsonObject:
        """Wait for the result, or raise the exception of the request."""
        await self._done.wait()
        if isinstance(self._outcome, Exception):
            raise self._outcome
        assert self._outcome is not None
        return self._outcome


def start_request(
    nursery: trio.Nursery,
    transport: Transport,
    method: str = "tools/list",
    *,
    modern: bool = True,
    repeatable: bool = False,
    at_once: bool = False,
    fields: Mapping[str, str] | None = None,
    **params: Any,
) -> Pending:
    """Start a request in the nursery."""
    outgoing = transport.ask(method, {**params, "_meta": META} if modern else params)
    outgoing.repeatable, outgoing.is_awaited_at_once, outgoing.fields = repeatable, at_once, fields or {}
    pending = Pending(outgoing)
    nursery.start_soon(pending.run)
    return pending


@define(eq=False)
class ReceivedRequest:
    """An HTTP request that the server has received, and its response."""

    scope: Scope
    body: bytes
    _send: Callable[[AsgiMessage], Any]
    left: trio.Event = field(factory=trio.Event, init=False)
    """Set when the client has closed the response before it was complete."""
    over: trio.Event = field(factory=trio.Event, init=False)
    """Set when the response is over, or its client has closed it."""

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
        """Send a whole response; a body that is not bytes is encoded as JSON."""
        if not isinstance(body, bytes):
            body, kind = json.dumps(body).encode(), kind or "application/json"
        fields = {**({} if kind is None else {"content-type": kind}), **(headers or {})}
        await self._start(status, fields)
        await self._send({"type": "http.response.body", "body": body})
        self.over.set()

    async def result(self, **members: Any) -> None:
        """Send a result as a JSON response."""
        await self.answer(200, result(self.message["id"], **members))

    async def begin(self, headers: Mapping[str, str] | None = None) -> None:
        """Begin an event stream."""
        await self._start(200, {"content-type": "text/event-stream", **(headers or {})})

    async def event(self, message: Any = None, **fields: Any) -> None:
        """Send one event; its data are empty without a message."""
        data = b"" if message is None else json.dumps(message).encode()
        await self.send(sse_event(data, **fields))

    async def send(self, data: bytes) -> None:
        """Send a part of the body."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        """Complete the response."""
        await self._send({"type": "http.response.body", "body": b""})
        self.over.set()

    def cut(self) -> None:
        """Break the response off, as a server that dies does."""
        self.over.set()

    async def _start(self, status: int, fields: Mapping[str, str]) -> None:
        raw = [(name.encode(), value.encode()) for name, value in fields.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})


@define(eq=False)
class ScriptedHttpServer:
    """An ASGI application that leaves the answer of every request to the test."""

    requests: list[ReceivedRequest] = field(factory=list[ReceivedRequest], init=False)
    """All requests that were received so far, in order."""
    _send: trio.MemorySendChannel[ReceivedRequest] = field(init=False)
    _received: trio.MemoryReceiveChannel[ReceivedRequest] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._send, self._received = trio.open_memory_channel[ReceivedRequest](1000)

    async def __call__(self, scope: Scope, receive: Callable[[], Any], send: Callable[[AsgiMessage], Any]) -> None:
        message = await receive()
        body = message["body"]
        while message["more_body"]:
            message = await receive()
            body += message["body"]
        request = ReceivedRequest(scope, body, send)
        self.requests.append(request)
        self._send.send_nowait(request)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch, request, receive)
            await request.over.wait()
            nursery.cancel_scope.cancel()

    async def _watch(self, request: ReceivedRequest, receive: Callable[[], Any]) -> None:
        assert (await receive())["type"] == "http.disconnect"
        request.left.set()
        request.over.set()

    async def next(self, method: str = "POST", rpc: str | None = None) -> ReceivedRequest:
        """Return the next request; fail if its methods are not the expected ones."""
        request = await self._received.receive()
        methods = (request.method, request.message.get("method") if request.body else None)
        assert methods == (method, rpc), f"{request.headers} {request.body!r}"
        return request

    async def next_by_method(self, count: int) -> dict[str, ReceivedRequest]:
        """Return the next POSTs, in any order, by the method of their messages."""
        requests = [await self._received.receive() for _ in range(count)]
        return {request.message["method"]: request for request in requests}

    async def expect_nothing(self, seconds: float = 60.0) -> None:
        """Assert that no request arrives for some seconds."""
        with trio.move_on_after(seconds):
            request = await self._received.receive()
            raise AssertionError(f"unexpected request: {request.method} {request.body!r}")


@asynccontextmanager
async def open_transport(
    server: ScriptedHttpServer, client: ClientStub | None = None, *, engine: HttpEngine | None = None, **options: Any
) -> AsyncGenerator[Transport]:
    """Open a client's transport to the scripted server."""
    async with http_transport(URL, engine=engine or AsgiEngine(server), **options)(client or ClientStub()) as transport:
        yield transport


async def initialize(transport: Transport) -> None:
    """Perform the handshake as a client does."""
    params: JsonObject = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    async with transport.ask("initialize", params) as outgoing:
        await outgoing.result()
    await transport.notify("notifications/initialized", None)


async def answer_handshake(server: ScriptedHttpServer, *, id: str | None = "s1", revision: str = LEGACY) -> None:
    """Answer the handshake as a server does."""
    request = await server.next(rpc="initialize")
    answer = result(request.message["id"], protocolVersion=revision, capabilities={}, serverInfo={})
    await request.answer(200, answer, headers={} if id is None else {"mcp-session-id": id})
    await (await server.next(rpc="notifications/initialized")).answer(202)


@asynccontextmanager
async def open_session(
    server: ScriptedHttpServer,
    client: ClientStub | None = None,
    *,
    id: str | None = "s1",
    revision: str = LEGACY,
    engine: HttpEngine | None = None,
    **options: Any,
) -> AsyncGenerator[Transport]:
    """Open a transport and perform the handshake; accept the messages that the client sends while it closes."""
    client = client or ClientStub()

    async def answer_last_messages() -> None:
        async for request in server._received:
            if request.method == "DELETE" or b"notifications/cancelled" in request.body:
                await request.answer(405 if request.method == "DELETE" else 202)

    async with owned_nursery() as nursery, open_transport(server, client, engine=engine, **options) as transport:
        async with trio.open_nursery() as greeting:
            greeting.start_soon(initialize, transport)
            await answer_handshake(server, id=id, revision=revision)
        client.admission.agree(revision, {}, None)
        yield transport
        nursery.start_soon(answer_last_messages)
