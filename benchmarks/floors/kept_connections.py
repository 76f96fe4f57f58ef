"""What the floors for HTTP on Trio have in common: kept connections, one for each in-flight request."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Protocol
from urllib.parse import urlsplit

import trio

from .calls_only import CallsOnly, CallsOnlySession

__all__ = ["ClientConnection", "KeptConnectionsFloor"]


class ClientConnection(Protocol):
    """A client's end of a connection."""

    stream: trio.SocketStream

    async def post(self, body: bytes) -> bytes:
        """Send a request and return the body of its response."""
        ...


class _Session(CallsOnlySession):
    def __init__(self, connect: Callable[[], Any]) -> None:
        self.connect = connect
        self.idle: list[ClientConnection] = []

    async def post(self, body: bytes) -> bytes:
        """Send on an idle connection or a new one."""
        connection: ClientConnection = self.idle.pop() if self.idle else await self.connect()
        answered = await connection.post(body)
        self.idle.append(connection)
        return answered


class KeptConnectionsFloor(CallsOnly):
    """A floor of one HTTP library; see `sides.Adapter`."""

    @abstractmethod
    def client_connection(self, stream: trio.SocketStream, host: str) -> ClientConnection:
        """Return the client's end of a new connection."""

    @abstractmethod
    async def serve_connection(self, stream: trio.SocketStream) -> None:
        """Answer the requests of a connection until its client closes it."""

    @asynccontextmanager
    async def http(self, url: str, era: str) -> AsyncGenerator[CallsOnlySession]:
        """Connect when needed, and close the connections at the end."""
        del era
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        host, port = parts.hostname, parts.port

        async def connect() -> ClientConnection:
            return self.client_connection(await trio.open_tcp_stream(host, port), host)

        session = _Session(connect)
        yield session
        for connection in session.idle:
            await trio.aclose_forcefully(connection.stream)

    def serve_http(self, server: Any, announce: Callable[[str], None]) -> None:
        """Serve each connection in a task."""
        del server

        async def main() -> None:
            async with trio.open_nursery() as nursery:
                serve = partial(trio.serve_tcp, self.serve_connection, port=0, host="127.0.0.1", backlog=1024)
                listeners = await nursery.start(serve)
                announce(f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/")

        trio.run(main)
