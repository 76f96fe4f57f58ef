"""The floor for HTTP in Python on Trio with a parser in C: httptools to httptools, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import httptools
import trio

from .calls_only import answer
from .kept_connections import ClientConnection, KeptConnectionsFloor

__all__ = ["HttptoolsFloor"]

READ_BYTES = 2**16


class _Parser(Protocol):
    def feed_data(self, data: bytes) -> None: ...


class _Reader:
    """Reads the messages of one direction."""

    def __init__(self, stream: trio.SocketStream, parser: Callable[[_Reader], _Parser]) -> None:
        self.stream = stream
        self.parser = parser(self)
        self.body = b""
        self.is_complete = False

    def on_body(self, data: bytes) -> None:
        """Take a part of the body."""
        self.body += data

    def on_message_complete(self) -> None:
        """Note the end of a message."""
        self.is_complete = True

    async def message(self) -> bytes | None:
        """Return the body of the next message; None if the other side has closed."""
        self.body, self.is_complete = b"", False
        while not self.is_complete:
            data = await self.stream.receive_some(READ_BYTES)
            if not data:
                return None
            self.parser.feed_data(bytes(data))
        return self.body


class HttptoolsClient:
    """See `ClientConnection`."""

    def __init__(self, stream: trio.SocketStream, host: str) -> None:
        self.stream = stream
        self.host = host.encode()
        self.reader = _Reader(stream, httptools.HttpResponseParser)

    async def post(self, body: bytes) -> bytes:
        """Send a request and read its response."""
        head = b"POST / HTTP/1.1\r\nHost: %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        await self.stream.send_all(head % (self.host, len(body)) + body)
        return await self.reader.message() or b""


class HttptoolsFloor(KeptConnectionsFloor):
    """See `sides.Adapter`."""

    def client_connection(self, stream: trio.SocketStream, host: str) -> ClientConnection:
        """See `KeptConnectionsFloor`."""
        return HttptoolsClient(stream, host)

    async def serve_connection(self, stream: trio.SocketStream) -> None:
        """See `KeptConnectionsFloor`."""
        reader = _Reader(stream, httptools.HttpRequestParser)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        while (body := await reader.message()) is not None:
            content = answer(body)
            await stream.send_all(head % len(content) + content)
