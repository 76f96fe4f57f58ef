"""A TCP relay between a client and a server that can reset the connection inside a response."""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import trio
from attrs import define, field

from trio_mcp._util import owned_nursery

_RESET = struct.pack("ii", 1, 0)


@define(eq=False)
class WireCutter:
    """A relay that resets a connection once, right after certain bytes of the server."""

    port: int
    """The port of the server."""
    trigger: bytes
    cuts: int = field(default=0, init=False)

    async def pass_on(self, client: trio.SocketStream) -> None:
        """Relay one connection until either side ends it or it is cut."""
        async with client, await trio.open_tcp_stream("127.0.0.1", self.port) as server:
            with suppress(trio.BrokenResourceError):
                async with owned_nursery() as nursery:
                    nursery.start_soon(_copy, client, server, nursery.cancel_scope)
                    await self._answer(server, client)
                    nursery.cancel_scope.cancel()

    async def _answer(self, server: trio.SocketStream, client: trio.SocketStream) -> None:
        received = b""
        async for chunk in server:
            received += bytes(chunk)
            end = received.find(self.trigger) + len(self.trigger)
            if self.trigger in received and not self.cuts:
                self.cuts += 1
                await client.send_all(received[len(received) - len(chunk) : end])
                for side in (client, server):
                    side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                return
            await client.send_all(chunk)


async def _copy(source: trio.SocketStream, target: trio.SocketStream, both: trio.CancelScope) -> None:
    with suppress(trio.BrokenResourceError):
        async for chunk in source:
            await target.send_all(chunk)
    both.cancel()


@asynccontextmanager
async def wire_cutter(port: int, trigger: bytes) -> AsyncGenerator[tuple[str, WireCutter]]:
    """Put a cutter before the server at a port; yield the URL that leads through it, and the cutter."""
    cutter = WireCutter(port, trigger)
    async with owned_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, cutter.pass_on, listeners)
        yield f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/mcp", cutter
        nursery.cancel_scope.cancel()
