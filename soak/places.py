"""The places of a run: real server processes, and the connections of clients to them."""

from __future__ import annotations

import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

import trio
from attrs import define

from trio_mcp import Client, ClientOptions, ConnectionLost, open_client, open_stdio_client

from .book import Book

__all__ = [
    "ERAS",
    "Fault",
    "HttpOver",
    "HttpPlace",
    "HttpServer",
    "Place",
    "StdioPlace",
    "Watched",
    "lasting_port",
    "stdio_command",
]

ERAS = ("2026-07-28", "2025-11-25")
"""The revisions of the clients: the newest of each era."""
ROOT = Path(__file__).parent.parent
_ENDS_WITHIN = 20.0
"""The seconds within which a server process must exit on request."""
_LASTING_PORTS = (20_000, 30_000)
"""A port range below that of outgoing connections."""

HttpOver: TypeAlias = Literal["http", "websocket"]
"""The transports of an HTTP server."""
Watched: TypeAlias = Mapping[str, int]
"""The processes of a fault, whose CPU time at rest is measured too, by their name in the report."""


@define(eq=False)
class Place(ABC):
    """The interface of a place for the faults and the load."""

    book: Book
    folder: Path
    """The folder of the journals."""
    rng: Random
    faults: Mapping[str, Fault]
    """The faults of the place, by name."""

    def options(self, revision: str) -> ClientOptions:
        """Return the options of a client of the run."""
        return ClientOptions(revision=revision, on_elicit=self.book.answer, tap=self.book.duplicate_detector())

    @abstractmethod
    def client(self, revision: str) -> AbstractAsyncContextManager[Client]:
        """Open a client, of a server that lives as long as the place or as the client."""


Fault: TypeAlias = "Callable[[Place], AbstractAsyncContextManager[Watched]]"
"""A fault, as a context manager: the fault is present inside the block and cleaned up after it."""


def stdio_command(folder: Path) -> list[str]:
    """Return the command of a server over stdio."""
    return [sys.executable, "-m", "soak.server", "stdio", str(folder)]


@define(eq=False)
class StdioPlace(Place):
    """Each client has a server process of its own."""

    @asynccontextmanager
    async def client(self, revision: str) -> AsyncGenerator[Client]:
        """Open a client of a new server process."""
        async with open_stdio_client(stdio_command(self.folder), cwd=ROOT, **self.options(revision)) as client:
            yield client


@define(eq=False)
class HttpServer:
    """A server process over HTTP, or over WebSockets."""

    over: HttpOver
    process: trio.Process
    url: str

    @property
    def port(self) -> int:
        """The port of the server."""
        port = urlsplit(self.url).port
        assert port is not None
        return port

    @classmethod
    @asynccontextmanager
    async def run(cls, over: HttpOver, book: Book, folder: Path, port: int = 0) -> AsyncGenerator[HttpServer]:
        """Run a server during the block; at the end it must exit, unless it was killed."""
        command = [sys.executable, "-m", "soak.server", over, str(folder), str(port)]
        process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            async with process.stdin, process.stdout:
                yield cls(over, process, await _line(process.stdout))
            with trio.move_on_after(_ENDS_WITHIN):
                await process.wait()
            if process.returncode not in {0, -9}:
                book.fault(f"a server over {over} was asked to end, and its status was {process.returncode}")
        finally:
            with trio.CancelScope(shield=True):
                if process.returncode is None:
                    process.kill()
                await process.wait()


def lasting_port(rng: Random) -> int:
    """Return a free port that the system does not assign, so that a restarted server can use it again."""
    while True:
        port = rng.randint(*_LASTING_PORTS)
        with socket.socket() as trial:
            try:
                trial.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


async def _line(stream: trio.abc.ReceiveStream) -> str:
    received = b""
    while not received.endswith(b"\n"):
        chunk = await stream.receive_some()
        if not chunk:
            raise RuntimeError("the server process ended before it printed its URL")
        received += chunk
    return received.decode().strip()


@define(eq=False)
class HttpPlace(Place):
    """All clients share a server process, and those of faults have others."""

    server: HttpServer

    @classmethod
    def of(cls, place: Place) -> HttpPlace:
        """Return the place of a fault over HTTP."""
        assert isinstance(place, cls)
        return place

    def client(self, revision: str) -> AbstractAsyncContextManager[Client]:
        """Open a client of the server."""
        return self.client_of(self.server.url, revision)

    def client_of(self, url: str, revision: str) -> AbstractAsyncContextManager[Client]:
        """Open a client of another server, or by way of another network."""
        return open_client(url, **self.options(revision))

    def another_server(self, port: int = 0) -> AbstractAsyncContextManager[HttpServer]:
        """Run another server during the block."""
        return HttpServer.run(self.server.over, self.book, self.folder, port)

    @asynccontextmanager
    async def after_loss(self, client: Client, url: str, revision: str) -> AsyncGenerator[Client]:
        """Yield the client that continues after the connections of *client* are lost.

        Over HTTP it is the same. A client of a WebSocket knows that it has lost its server, and another one connects.
        """
        if self.server.over == "http":
            yield client
            return
        try:
            with trio.fail_after(_ENDS_WITHIN):
                await client.call_tool("inside")
        except ConnectionLost:
            pass
        except trio.TooSlowError:
            self.book.fault("a client did not notice that it had lost its WebSocket")
        else:
            self.book.fault("a client that had lost its WebSocket was answered")
        async with self.client_of(url, revision) as another:
            yield another
