"""Clients and servers over HTTP: through a bridge in this process, which works under any clock, or through sockets."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, TypeAlias, Unpack

import hypercorn.trio
import trio
from attrs import define, field
from hypercorn.config import Config

from tests.interaction.http2_engine import http2_engine
from trio_mcp import (
    Client,
    ClientOptions,
    MemoryEventStore,
    Server,
    SessionSettings,
    http_app,
    open_client,
    open_http_client,
    serve_http,
    types,
)
from trio_mcp.abc import HttpAnswerer
from trio_mcp.server import HttpBound, HttpOptions, ServeHttpOptions
from trio_mcp.testing import AsgiEngine
from trio_mcp.transports import AsgiApp, AsgiMessage, Receive, Scope, Send
from trio_mcp.wire import decode

IN_PROCESS = ("http", "http-resumable", "http-sse")
"""JSON for responses without earlier messages; events that are stored; one stream of HTTP+SSE for everything."""
URL = "http://localhost/mcp"
SocketOpener: TypeAlias = Callable[..., AbstractAsyncContextManager[Client]]
"""Takes a server, the options of the client, and those of the serving by name."""


def carries(transport: str, revision: str) -> bool:
    """Return True if the revision has the transport."""
    if transport == "http-sse":
        return revision == types.REVISIONS[0]
    return transport != "http-resumable" or revision != types.REVISIONS[-1]


@asynccontextmanager
async def over_http(transport: str, server: Server, options: ClientOptions) -> AsyncGenerator[Client]:
    """Serve *server* over one of `IN_PROCESS`, and open a client of it."""
    async with bridged(transport, server) as engine, open_http_client(URL, engine=engine, **options) as client:
        yield client


@asynccontextmanager
async def bridged(transport: str, server: HttpAnswerer, **options: Unpack[HttpOptions]) -> AsyncGenerator[AsgiEngine]:
    """Serve *server* over one of `IN_PROCESS`; yield the engine that carries requests to it."""
    if transport == "http-resumable":
        options["sessions"] = SessionSettings(event_store=MemoryEventStore())
    app = http_app(server, **options)
    engine = AsgiEngine(only_legacy(app) if transport == "http-sse" else app)
    async with engine.lifespan():
        yield engine


@define(eq=False)
class Seen:
    """One request over HTTP."""

    method: str
    target: str
    """The path, and the query if there is one."""
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def message(self) -> Any:
        """The posted message."""
        return decode(self.body)


@define(eq=False)
class Witness:
    """An application that wraps *app* and records its requests and responses."""

    app: AsgiApp
    requests: list[Seen] = field(factory=list[Seen], init=False)
    sent: list[AsgiMessage] = field(factory=list[AsgiMessage], init=False)
    open: int = field(default=0, init=False)
    """The number of requests in flight."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        query = scope["query_string"].decode()
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        seen = Seen(scope["method"], f"{scope['path']}?{query}" if query else scope["path"], headers)
        self.requests.append(seen)

        async def recording_receive() -> AsgiMessage:
            message = await receive()
            seen.body += message.get("body", b"")
            return message

        async def recording_send(message: AsgiMessage) -> None:
            self.sent.append(message)
            await send(message)

        self.open += 1
        try:
            await self.app(scope, recording_receive, recording_send)
        finally:
            self.open -= 1


def only_legacy(app: AsgiApp, status: int = 405) -> AsgiApp:
    """Return *app* as a server with HTTP+SSE only: it accepts no POST at the URL of its event stream."""

    async def legacy_app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and not scope["query_string"]:
            while (await receive())["more_body"]:
                pass
            start: AsgiMessage = {"type": "http.response.start", "status": status, "headers": []}
            await send(start)
            await send({"type": "http.response.body"})
        else:
            await app(scope, receive, send)

    return legacy_app


@asynccontextmanager
async def over_http_socket(
    server: Server, options: ClientOptions, **serving: Unpack[HttpOptions]
) -> AsyncGenerator[Client]:
    """Serve *server* at a free port of this machine, and open a client of it."""
    async with served_at_socket(server, **serving) as bound, open_http_client(bound.url, **options) as client:
        yield client


@asynccontextmanager
async def over_websocket(
    server: Server, options: ClientOptions, **serving: Unpack[HttpOptions]
) -> AsyncGenerator[Client]:
    """Serve *server* at a free port of this machine, and open a client of it over a WebSocket."""
    serving["websocket"] = True
    async with (
        served_at_socket(server, **serving) as bound,
        open_client(bound.url.replace("http", "ws", 1), **options) as client,
    ):
        yield client


@asynccontextmanager
async def over_http2(server: Server, options: ClientOptions, **serving: Unpack[HttpOptions]) -> AsyncGenerator[Client]:
    """Serve *server* at a free port of this machine, and open a client that speaks HTTP/2 from the beginning."""
    async with (
        served_at_socket(server, **serving) as bound,
        http2_engine(bound.url) as engine,
        open_http_client(bound.url, engine=engine, **options) as client,
    ):
        yield client


@asynccontextmanager
async def over_hypercorn(
    server: Server, options: ClientOptions, **serving: Unpack[HttpOptions]
) -> AsyncGenerator[Client]:
    """Serve the application of *server* with Hypercorn's own worker, and open a client of it."""
    config, stopping = Config(), trio.Event()
    config.bind = ["127.0.0.1:0"]
    config.errorlog = None  # the default is a logger on standard error
    serve: Any = vars(hypercorn.trio)["serve"]  # its type hints are incomplete
    async with trio.open_nursery() as nursery:
        start = partial(serve, http_app(server, **serving), config, shutdown_trigger=stopping.wait, mode="asgi")
        (url,) = await nursery.start(start)
        async with open_http_client(f"{url}/mcp", **options) as client:
            yield client
        stopping.set()


@asynccontextmanager
async def served_at_socket(server: Server, **options: Unpack[ServeHttpOptions]) -> AsyncGenerator[HttpBound]:
    """Serve *server* at a free port of this machine."""
    async with trio.open_nursery() as nursery:
        bound = await nursery.start(partial(serve_http, server, port=0, **options))
        yield bound
        await bound.stop()


OVER_SOCKETS: Mapping[str, SocketOpener] = {
    "http-socket": over_http_socket,
    "websocket": over_websocket,
    "http2": over_http2,
    "hypercorn": over_hypercorn,
}
"""Functions that serve at a socket and open a client, by the name of the transport between the two."""
