"""This project as a service of several processes, and clients of them.

Where servers are to use all processors, the client is one that costs little, and would not be the one that is measured.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import httptools
import msgspec
import trio
from attrs import define, field

from trio_mcp import Changes, Context, HttpBound, RedisShared, Server, SqliteShared, open_http_client, serve_http
from trio_mcp.abc import Shared
from trio_mcp.transports import HttpResponse
from trio_mcp.transports.http._http1_engine import Http1Engine
from trio_mcp.wire import CAPABILITIES_KEY, CLIENT_INFO_KEY, REVISION_KEY, request_fields

from ..floors.calls_only import CallsOnlySession
from .ours import REVISIONS, Ours, OursSession

__all__ = ["SHARED", "NodeCalls", "OursNodes"]

SHARED = "TRIO_MCP_BENCH_SHARED"
"""The variable with the backend of a server process: the path of a file, or a URL of Redis; empty for none."""
READ_BYTES = 2**16
INFO = {"name": "bench", "version": "1"}
MODERN: dict[str, Any] = {REVISION_KEY: REVISIONS["2026"], CLIENT_INFO_KEY: INFO, CAPABILITIES_KEY: {}}
TOUCHED_URI = "bench://touched"


class OursNodes(Ours):
    """See `sides.Adapter`. Its server is one process of a service, unless it has no backend."""

    def new_server(self) -> Server:
        """Return a server with a resource, and a tool that reports its change and returns the time of that."""
        server = super().new_server()

        @server.resource(TOUCHED_URI)
        async def touched() -> str:
            return "touched"

        @server.tool
        async def touch(ctx: Context) -> float:
            now = time.perf_counter()
            ctx.resource_updated(TOUCHED_URI)
            return now

        return server

    def serve_http(self, server: Any, announce: Callable[[str], None]) -> None:
        """Serve with the bundled HTTP server."""

        async def main() -> None:
            async with trio.open_nursery() as nursery:
                bound: HttpBound = await nursery.start(partial(serve_http, server, port=0, shared=_shared()))
                announce(bound.url)

        trio.run(main)

    @asynccontextmanager
    async def changes(self, url: str) -> AsyncGenerator[Changes]:
        """Listen at one process for changes of the resource."""
        async with (
            open_http_client(url, revision=REVISIONS["2026"]) as client,
            client.listen(resources=[TOUCHED_URI]) as changes,
        ):
            yield changes

    @asynccontextmanager
    async def calls(self, urls: Sequence[str]) -> AsyncGenerator[NodeCalls]:
        """Make calls of 2026-07-28, spread over some processes in turn, with a client that costs little."""
        calls = NodeCalls([_Place(url) for url in urls])
        try:
            yield calls
        finally:
            await calls.aclose()

    @asynccontextmanager
    async def session_through(self, url: str, other: str) -> AsyncGenerator[OursSession]:
        """Begin a session at one process, and continue it through another one."""
        engine = _RedirectedEngine()
        async with open_http_client(url, revision=REVISIONS["2025"], engine=engine) as client:
            session = OursSession(client)
            await session.tools()
            engine.url = other
            yield session


@define(eq=False)
class _RedirectedEngine:
    """The usual HTTP engine, which sends all requests to another URL as soon as it has one."""

    url: str | None = field(default=None, init=False)
    _engine: Http1Engine = field(factory=Http1Engine, init=False)

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes = b"",
        *,
        on_sent: Callable[[], None] | None = None,
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """Make a request."""
        return self._engine.request(method, self.url or url, headers, content, on_sent=on_sent)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._engine.aclose()


def _shared() -> Shared | None:
    place = os.environ[SHARED]
    if not place:
        return None
    return RedisShared(place) if "://" in place else SqliteShared(place)


class _Connection:
    """A kept connection, whose responses a parser in C reads."""

    def __init__(self, stream: trio.SocketStream, host: str) -> None:
        self.stream = stream
        self.host = host
        self.parser = httptools.HttpResponseParser(self)
        self.body = b""
        self.is_complete = False

    def on_body(self, data: bytes) -> None:
        """Take a part of the body."""
        self.body += data

    def on_message_complete(self) -> None:
        """Note the end of a response."""
        self.is_complete = True

    async def post(self, fields: Mapping[str, str], message: dict[str, Any]) -> bytes:
        """Send a message, and return the body of the response."""
        body = msgspec.json.encode(message)
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: {self.host}\r\nContent-Type: application/json\r\n"
            f"Accept: application/json, text/event-stream\r\n{lines}Content-Length: {len(body)}\r\n\r\n"
        )
        await self.stream.send_all(head.encode() + body)
        self.body, self.is_complete = b"", False
        while not self.is_complete:
            data = await self.stream.receive_some(READ_BYTES)
            if not data:
                raise RuntimeError("the server has closed a connection")
            self.parser.feed_data(bytes(data))
        return self.body


@define
class _Place:
    """A process, and the connections to it that are idle."""

    url: str
    idle: list[_Connection] = field(factory=list[_Connection], init=False)

    async def take(self) -> _Connection:
        """Return an idle connection, or a new one."""
        if self.idle:
            return self.idle.pop()
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        assert parts.port is not None
        return _Connection(await trio.open_tcp_stream(parts.hostname, parts.port), parts.netloc)


@define
class NodeCalls(CallsOnlySession):
    """See `sides.Session`; it only calls."""

    places: Sequence[_Place]
    turns: int = field(default=0, init=False)

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call a tool at the process whose turn it is, and return the wrapped value."""
        place = self.places[self.turns % len(self.places)]
        self.turns += 1
        connection = await place.take()
        body = await connection.post(*self._request(name, arguments))
        place.idle.append(connection)
        return msgspec.json.decode(body)["result"]["structuredContent"]["result"]

    def _request(self, name: str, arguments: dict[str, Any]) -> tuple[Mapping[str, str], dict[str, Any]]:
        params: dict[str, Any] = {"name": name, "arguments": arguments, "_meta": MODERN}
        message = {"jsonrpc": "2.0", "id": self.turns, "method": "tools/call", "params": params}
        return request_fields("tools/call", params), message

    async def aclose(self) -> None:
        """Close the connections."""
        for place in self.places:
            for connection in place.idle:
                await trio.aclose_forcefully(connection.stream)
