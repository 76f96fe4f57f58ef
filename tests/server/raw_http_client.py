"""An HTTP server on real sockets, and a client that writes and reads the bytes of HTTP/1.1."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio
from attrs import define, field

from tests.transports.http.asgi_caller import AsgiCaller
from trio_mcp import HttpBound, Server, serve_http
from trio_mcp.wire import encode


def make_server(log: list[str] | None = None, **options: Any) -> Server:
    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[str]:
        if log is not None:
            log.append("entered")
        yield "shared"
        if log is not None:
            log.append("left")

    server = Server("sums", lifespan=lifespan, **options)

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    return server


@asynccontextmanager
async def served(server: Server, **options: Any) -> AsyncGenerator[HttpBound]:
    """Serve at a free port during the block, then stop with `HttpBound.stop`."""
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            bound: HttpBound = await nursery.start(partial(serve_http, server, port=0, **options))
            yield bound
            await bound.stop()


@define(eq=False)
class RawClient:
    """A client that writes and reads the bytes of HTTP/1.1."""

    stream: trio.SocketStream
    received: bytes = field(default=b"", init=False)

    async def post(self, message: Any) -> None:
        """Send a whole request."""
        await self.stream.send_all(head_of(message) + body_of(message))

    async def until(self, expected: bytes) -> bytes:
        """Read until the expected bytes have arrived; return all bytes received so far."""
        while expected not in self.received:
            chunk = await self.stream.receive_some()
            assert chunk, self.received
            self.received += chunk
        return self.received

    async def rest(self) -> bytes:
        """Read to the end of the connection."""
        async for chunk in self.stream:
            self.received += chunk
        return self.received


def body_of(message: Any) -> bytes:
    return message if isinstance(message, bytes) else encode(message)


def head_of(message: Any, **extra: str) -> bytes:
    """Return the head of a POST with the header fields that its message requires."""
    caller = AsgiCaller.post(message)
    fields = {name.decode(): value.decode() for name, value in caller.scope["headers"]}
    fields |= {"content-length": str(len(body_of(message)))} | extra
    return "\r\n".join(["POST /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]).encode()


@asynccontextmanager
async def connected(bound: HttpBound) -> AsyncGenerator[RawClient]:
    assert bound.port is not None
    async with await trio.open_tcp_stream("127.0.0.1", bound.port) as stream:
        yield RawClient(stream)
