"""A server by hand that is reached over HTTP: an ASGI application which says what no program of ours would."""

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
    """An answer that is an error."""

    code: int
    data: Any = None
    status: int = 400


@frozen
class Page:
    """An answer that is no message."""

    status: int
    text: str = "a page"


@frozen
class Cut:
    """No answer: the connection ends in the middle of it."""


@frozen
class Events:
    """No answer either, but what is said before it: the response ends when that has been said."""

    messages: Sequence[Json]


@frozen
class Got:
    """A request, or a notification, that came."""

    id: Any
    """None of a notification."""
    method: str
    params: Json
    headers: Mapping[str, str]

    @property
    def session(self) -> str | None:
        return self.headers.get("mcp-session-id")


Answer: TypeAlias = "Json | Failure | Page | Cut | Events"
Reply: TypeAlias = "Callable[[Got], Answer | Awaitable[Answer]]"


@define(eq=False)
class HttpOrigin:
    """Speaks one era, or, with replies for it, says whatever a test wants.

    Args:
        revision: what it speaks.
        replies: what it answers, by method; by default with an empty result, which says that it may not be kept.
    """

    revision: str = MODERN
    replies: dict[str, Reply] = field(factory=dict[str, "Reply"])
    capabilities: Json = field(factory=lambda: dict(EVERYTHING))
    got: list[Got] = field(factory=list[Got], init=False)
    sessions: set[str] = field(factory=set[str], init=False)
    """Those that are alive; take one out, and it is lost."""
    streams: list[trio.MemorySendChannel[Json]] = field(factory=list["trio.MemorySendChannel[Json]"], init=False)
    """The standing streams that clients have opened; send a message, or close one."""
    _numbers: count[int] = field(factory=lambda: count(1), init=False)

    def methods(self) -> list[str]:
        return [each.method for each in self.got]

    def of(self, method: str) -> list[Got]:
        return [each for each in self.got if each.method == method]

    async def notify_nowait(self, method: str, **params: Any) -> None:
        """Say something on the newest standing stream."""
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
        got = Got(message.get("id"), message.get("method", ""), message.get("params", {}), headers)
        self.got.append(got)
        answer: Answer | None = Page(404, "no session")
        if got.session in {None, *self.sessions}:
            answer = await self._answer_unless_left(got, receive)
        if got.id is None:
            await _respond(send, answer.status if isinstance(answer, Page) else 202, b"")
        elif answer is not None:
            await self._send(send, got, answer)

    async def _send(self, send: Any, got: Got, answer: Answer) -> None:
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
                await _respond(send, status, encode({"jsonrpc": "2.0", "id": got.id, "error": error}))
            case result:
                fields = {"mcp-session-id": self._session()} if got.method == "initialize" else {}
                await _respond(send, 200, encode({"jsonrpc": "2.0", "id": got.id, "result": result}), **fields)

    def _session(self) -> str:
        name = f"session-{next(self._numbers)}"
        self.sessions.add(name)
        return name

    async def _answer_unless_left(self, got: Got, receive: Any) -> Answer | None:
        """Return the answer; None where the client leaves before it is there."""
        answers: list[Answer] = []

        async def leave_with_the_client() -> None:
            await receive()
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(leave_with_the_client)
            answers.append(await self._answer(got))
            nursery.cancel_scope.cancel()
        return answers[0] if answers else None

    async def _answer(self, got: Got) -> Answer:
        if got.method in self.replies:
            answer = self.replies[got.method](got)
            return await answer if isinstance(answer, Awaitable) else answer
        if got.method == "server/discover":
            if self.revision != MODERN:
                return Failure(-32601, status=404)
            return modern(supportedVersions=[MODERN], capabilities=self.capabilities)
        if got.method == "initialize":
            named = {"serverInfo": {"name": "by hand", "version": "0"}, "capabilities": self.capabilities}
            return {"protocolVersion": self.revision, **named}
        return {} if self.revision != MODERN else modern()

    async def _stream(self, receive: Any, send: Any) -> None:
        told, telling = trio.open_memory_channel[Json](10)
        self.streams.append(told)
        await send({"type": "http.response.start", "status": 200, "headers": [_STREAM]})
        await send({"type": "http.response.body", "body": b": open\n\n", "more_body": True})

        async def leave_with_the_client() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(leave_with_the_client)
            async for message in telling:
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
    """Return a result as modern servers give it."""
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
    serve: Any = vars(hypercorn.trio)["serve"]  # whose own types are incomplete
    config = Config()
    config.bind = ["127.0.0.1:0"]
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            (address,) = await nursery.start(partial(serve, origin, config, shutdown_trigger=trio.sleep_forever))
            yield f"{address}/mcp"
            nursery.cancel_scope.cancel()
