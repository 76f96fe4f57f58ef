"""A stretch of network before a server that can be cut."""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import trio
from attrs import define, field

from .places import HttpServer

__all__ = ["Cuttable", "cuttable"]

_RESET = struct.pack("ii", 1, 0)


@define(eq=False)
class Cuttable:
    """A proxy between clients and a port of this machine that can be cut."""

    port: int
    """The port of the server."""
    url: str
    """The URL of the server by way of this proxy."""
    is_plugged_in: bool = True
    """False while the network is down: new connections are then reset."""
    _streams: set[trio.SocketStream] = field(factory=set["trio.SocketStream"], init=False)
    _scopes: set[trio.CancelScope] = field(factory=set["trio.CancelScope"], init=False)

    def cut(self) -> None:
        """Reset all open connections."""
        for stream in self._streams:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        for scope in self._scopes:
            scope.cancel()

    async def carry(self, client: trio.SocketStream) -> None:
        """Relay one connection until either side ends it or it is cut."""
        if not self.is_plugged_in:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            client.socket.close()
            return
        try:
            server = await trio.open_tcp_stream("127.0.0.1", self.port)
        except OSError:
            client.socket.close()
            return
        ends = {client, server}
        with trio.CancelScope() as scope:
            self._streams |= ends
            self._scopes.add(scope)
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_copy, client, server, scope)
                    nursery.start_soon(_copy, server, client, scope)
            finally:
                self._streams -= ends
                self._scopes.discard(scope)
                for end in ends:
                    end.socket.close()


async def _copy(source: trio.SocketStream, target: trio.SocketStream, both: trio.CancelScope) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        async for chunk in source:
            await target.send_all(chunk)
    both.cancel()


@asynccontextmanager
async def cuttable(server: HttpServer) -> AsyncGenerator[Cuttable]:
    """Run a proxy in front of a server during the block."""
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        place = f"127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        network = Cuttable(server.port, urlsplit(server.url)._replace(netloc=place).geturl())
        nursery.start_soon(trio.serve_listeners, network.carry, listeners)
        yield network
        nursery.cancel_scope.cancel()
