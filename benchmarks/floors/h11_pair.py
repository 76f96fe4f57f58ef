"""The floor for HTTP in Python on Trio: h11 to h11 over kept-alive connections, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import h11
import trio

from .calls_only import CallsOnly, CallsOnlySession, answer

__all__ = ["H11Floor"]

READ_BYTES = 2**16
JSON = ("Content-Type", "application/json")


class H11Session(CallsOnlySession):
    """A client with one connection for each in-flight request."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.idle: list[tuple[trio.SocketStream, h11.Connection]] = []

    async def post(self, body: bytes) -> bytes:
        """Send on an idle connection or a new one."""
        if self.idle:
            stream, connection = self.idle.pop()
        else:
            stream = await trio.open_tcp_stream(self.host, self.port)
            connection = h11.Connection(h11.CLIENT)
        fields = [("Host", self.host), JSON, ("Content-Length", str(len(body)))]
        head = connection.send(h11.Request(method="POST", target="/", headers=fields)) or b""
        data = connection.send(h11.Data(data=body)) or b""
        await stream.send_all(head + data + (connection.send(h11.EndOfMessage()) or b""))
        answered = await _message(connection, stream)
        connection.start_next_cycle()
        self.idle.append((stream, connection))
        return answered or b""


class H11Floor(CallsOnly):
    """See `sides.Adapter`."""

    @asynccontextmanager
    async def http(self, url: str, era: str) -> AsyncGenerator[H11Session]:
        """Connect, and close the connections at the end."""
        del era
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        session = H11Session(parts.hostname, parts.port)
        yield session
        for stream, _ in session.idle:
            await trio.aclose_forcefully(stream)

    def serve_http(self, server: Any, announce: Callable[[str], None]) -> None:
        """Serve each connection in a task."""
        del server

        async def main() -> None:
            async with trio.open_nursery() as nursery:
                listeners = await nursery.start(partial(trio.serve_tcp, _serve, port=0, host="127.0.0.1", backlog=1024))
                announce(f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/")

        trio.run(main)


async def _serve(stream: trio.SocketStream) -> None:
    connection = h11.Connection(h11.SERVER)
    while (body := await _message(connection, stream)) is not None:
        content = answer(body)
        fields = [JSON, ("Content-Length", str(len(content)))]
        head = connection.send(h11.Response(status_code=200, headers=fields)) or b""
        data = connection.send(h11.Data(data=content)) or b""
        await stream.send_all(head + data + (connection.send(h11.EndOfMessage()) or b""))
        connection.start_next_cycle()


async def _message(connection: h11.Connection, stream: trio.SocketStream) -> bytes | None:
    """Return the body of the next message; None if the other side has closed."""
    body = b""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await stream.receive_some(READ_BYTES))
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            return body
        elif isinstance(event, h11.ConnectionClosed):
            return None
