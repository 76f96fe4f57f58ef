"""A scripted HTTP server: an ASGI application that sends any answer, also invalid ones."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import Any, TypeAlias, Unpack

import hypercorn.trio
import trio
from attrs import define, field, frozen
from hypercorn.config import Config

from trio_mcp import Client, ClientOptions, open_http_client, types
from trio_mcp.testing import AsgiEngine
from trio_mcp.wire import encode

Json: TypeAlias = dict[str, Any]

URL = "http://server.example/mcp"
MODERN, LEGACY = types.REVISIONS[-1], types.REVISIONS[-2]
_JSON = (b"content-type", b"application/json")
_STREAM = (b"content-type", b"text/event-stream")
EVERYTHING: Json = {
    "completions": {},
    "logging": {},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "tools": {"listChanged": True},
}


@frozen
class Failure:
    """An error response."""

    code: int
    data: Any = None
    status: int = 400


@frozen
class Page:
    """A body that is not a JSON-RPC message."""

    status: int
    text: str = "a page"


@frozen
class Cut:
    """A response that breaks off in the middle."""


@frozen
class Events:
    """An event stream with these messages that ends without a response to the request."""

    messages: Sequence[Json]


@frozen
class ReceivedRequest:
    """A request or notification that the server has received."""

    id: Any
    """The id of the request; None for a notification."""
    method: str
    params: Json
    headers: Mapping[str, str]

    @property
    def session(self) -> str | None:
        return self.headers.get("mcp-session-id")


Answer: TypeAlias = "Json | Failure | Page | Cut | Events"
Reply: TypeAlias = "Callable[[ReceivedRequest], Answer | Awaitable[Answer]]"


@define(eq=False)
class HttpOrigin:
    """A server of one era whose replies a test can replace.

    Args:
        revision: the revision that the server supports.
        replies: the answers by method; the default is an empty result that is not cacheable.
    """

    revision: str = MODERN
    replies: dict[str, Reply] = field(factory=dict[str, "Reply"])
    capabilities: Json = field(factory=lambda: dict(EVERYTHING))
    received: list[ReceivedRequest] = field(factory=list[ReceivedRequest], init=False)
    sessions: set[str] = field(factory=set[str], init=False)
    """The live sessions; the server forgets a session that a test removes."""
    streams: list[trio.MemorySendChannel[Json]] = field(factory=list["trio.MemorySendChannel[Json]"], init=False)
    """The standalone streams that clients have opened; a test can send a message or close one."""
    _numbers: count[int] = field(factory=lambda: count(1), init=False)

    def methods(self) -> list[str]:
        return [each.method for each in self.received]

    def of(self, method: str) -> list[ReceivedRequest]:
        return [each for each in self.received if each.method == method]

    async def notify(self, method: str, **params: Any) -> None:
        """Send a notification on the newest standalone stream."""
        await self.streams[-1].send({"jsonrpc": "2.0", "method": method, "params": params})

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        if scope["method"] == "POST":
            await self._post(headers, receive, send)
        elif scope["method"] == "GET" and self.revision != MODERN and "mcp-session-id" in headers:
            await self._stream(receive, send)
        else:
            await _respond(send, 405, b"")

    async def _post(self, headers: Mapping[str, str], receive: Any, send: Any) -> None:
        message = json.loads(await _body(receive))
        request = ReceivedRequest(message.get("id"), message.get("method", ""), message.get("params", {}), headers)
        self.received.append(request)
        answer: Answer | None = Page(404, "no session")
        if request.session in {None, *self.sessions}:
            answer = await self._answer_unless_disconnected(request, receive)
        if request.id is None:
            await _respond(send, answer.status if isinstance(answer, Page) else 202, b"")
        elif answer is not None:
            await self._send(send, request, answer)

    async def _send(self, send: Any, request: ReceivedRequest, answer: Answer) -> None:
        match answer:
            case Cut():
                await send({"type": "http.response.start", "status": 200, "headers": [_JSON]})
                await send({"type": "http.response.body", "body": b'{"json', "more_body": True})
            case Events(messages=messages):
                await send({"type": "http.response.start", "status": 200, "headers": [_STREAM]})
                for each in messages:
                    await send({"type": "http.response.body", "body": _event(each), "more_body": True})
                await send({"type": "http.response.body"})
            case Page(status=status, text=text):
                await _respond(send, status, text.encode(), "text/html")
            case Failure(code=code, data=data, status=status):
                error = {"code": code, "message": "no", "data": data}
                await _respond(send, status, encode({"jsonrpc": "2.0", "id": request.id, "error": error}))
            case result:
                fields = {"mcp-session-id": self._session()} if request.method == "initialize" else {}
                await _respond(send, 200, encode({"jsonrpc": "2.0", "id": request.id, "result": result}), **fields)

    def _session(self) -> str:
        name = f"session-{next(self._numbers)}"
        self.sessions.add(name)
        return name

    async def _answer_unless_disconnected(self, request: ReceivedRequest, receive: Any) -> Answer | None:
        """Return the answer, or None if the client disconnects first."""
        answers: list[Answer] = []

        async def cancel_on_disconnect() -> None:
            await receive()
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel_on_disconnect)
            answers.append(await self._answer(request))
            nursery.cancel_scope.cancel()
        return answers[0] if answers else None

    async def _answer(self, request: ReceivedRequest) -> Answer:
        if request.method in self.replies:
            answer = self.replies[request.method](request)
            return await answer if isinstance(answer, Awaitable) else answer
        if request.method == "server/discover":
            if self.revision != MODERN:
                return Failure(-32601, status=404)
            return modern(supportedVersions=[MODERN], capabilities=self.capabilities)
        if request.method == "initialize":
            named = {"serverInfo": {"name": "scripted", "version": "0"}, "capabilities": self.capabilities}
            return {"protocolVersion": self.revision, **named}
        return {} if self.revision != MODERN else modern()

    async def _stream(self, receive: Any, send: Any) -> None:
        send_message, messages = trio.open_memory_channel[Json](10)
        self.streams.append(send_message)
        await send({"type": "http.response.start", "status": 200, "headers": [_STREAM]})
        await send({"type": "http.response.body", "body": b": open\n\n", "more_body": True})

        async def cancel_on_disconnect() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel_on_disconnect)
            async for message in messages:
                await send({"type": "http.response.body", "body": _event(message), "more_body": True})
            await send({"type": "http.response.body", "body": b""})
            nursery.cancel_scope.cancel()


async def _body(receive: Any) -> bytes:
    body = b""
    while True:
        event: Json = await receive()
        body += bytes(event.get("body", b""))
        if not event.get("more_body"):
            return body


def _event(message: Json) -> bytes:
    return b"data: " + json.dumps(message).encode() + b"\n\n"


def modern(**members: Any) -> Json:
    """Return a complete result with the members that modern servers add."""
    return {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **members}


async def _respond(send: Any, status: int, body: bytes, kind: str = "application/json", **fields: str) -> None:
    headers = [(b"content-type", kind.encode())] if body else []
    headers += [(name.replace("_", "-").encode(), value.encode()) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def connected(origin: HttpOrigin, **options: Unpack[ClientOptions]) -> AsyncGenerator[Client]:
    """Connect a client to *origin* in this process."""
    async with open_http_client(URL, engine=AsgiEngine(origin), **options) as client:
        yield client


@asynccontextmanager
async def served(origin: Any) -> AsyncGenerator[str]:
    """Serve *origin* on a port of this machine; yield its URL."""
    serve: Any = vars(hypercorn.trio)["serve"]  # its type hints are incomplete
    config = Config()
    config.bind = ["127.0.0.1:0"]
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            (address,) = await nursery.start(partial(serve, origin, config, shutdown_trigger=trio.sleep_forever))
            yield f"{address}/mcp"
            nursery.cancel_scope.cancel()
