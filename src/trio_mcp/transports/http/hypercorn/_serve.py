"""An HTTP/1.1 and HTTP/2 server for ASGI applications, in one process.

Uses Hypercorn's protocols, but not its Trio worker, which a client can crash, stall and fill, and whose shutdown can
hardly be controlled. `_connection` (bytes, timeouts, protocols) and `_application` (requests, lifespan) describe the
differences. They depend on the internals of Hypercorn 0.18.

The application has to know:

- `send` after the client has left does nothing, and raises nothing. Call `receive` concurrently, which returns
  `http.disconnect`.
- That the client has left is noticed when the server reads from it. It does not read while the next request has arrived
  already (HTTP/1.1 pipelining), or while the application has not received the body; write something now and then.
- The size of a body, and the time it takes, are not limited.
- A prefix that a host application strips is in `root_path`, and still in `path`.
- WebSockets are served too. To refuse one, receive until `websocket.disconnect` and return.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import trio
from attrs import define, field

from ...._util import owned_nursery
from ..._connection_bound import bounded
from ..server import AsgiApp
from ._application import lifespan_of
from ._sockets import Bound, HttpListening, HttpSockets, bind_sockets
from ._tls import RenewedContext, TlsListener

if TYPE_CHECKING:
    from ._connection import Connections
    from ._http1 import DirectApp

__all__ = ["serve_asgi"]


async def serve_asgi(
    app: AsgiApp,
    listening: HttpListening,
    *,
    direct: DirectApp | None = None,
    stopping: Callable[[], Awaitable[object]],
    drain: Callable[[], Awaitable[object]],
    drain_seconds: float,
    sockets: HttpSockets | None = None,
    task_status: trio.TaskStatus[Bound] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve an ASGI 3 application until *stopping* returns; `task_status.started` gets the bound addresses.

    Startup: the address is bound, the lifespan of the application starts, connections are accepted. Shutdown: no more
    connections are accepted, idle ones end, *drain* is awaited, the others end after the responses they have begun, and
    what is left after *drain_seconds* is cut off; then the lifespan ends.

    An error of a client, or an exception of the application, of any class, ends that connection or request, and is
    logged to `trio_mcp.transports`.

    Args:
        app: the application.
        direct: the same application, if it can answer requests of HTTP/1.1 without ASGI.
        listening: the address, and the limits of a connection.
        stopping: returns when the server is to stop; before the start is complete, it cancels the start.
        drain: called when the server stops: tell the application to end its streams.
        drain_seconds: the maximum time, in seconds, for requests in flight after *stopping* has returned.
        sockets: listened on in place of the address in *listening*; closed at the end.
        task_status: of `trio.Nursery.start`.

    Raises:
        OSError: the address cannot be bound, or a certificate file cannot be read. The message names it.
        ValueError: the certificate cannot be used.
        BaseException: the unchanged exception of the application's lifespan; see `lifespan_of`.

    Cancellation: cancels all connections and the lifespan at once; the sockets are closed.
    """
    from ._connection import Connections  # noqa: PLC0415  # it loads Hypercorn

    stop = _Stop()
    async with owned_nursery() as nursery:
        nursery.start_soon(stop.watch, stopping)
        with stop.opening, sockets or await bind_sockets(listening) as listened:
            encryption = RenewedContext(listening) if listening.is_encrypted else None
            async with lifespan_of(app) as state:
                serving = _AcceptPhase(Connections(app, listening, state, direct), listened, encryption, stop.obey())
                await serving.run(partial(task_status.started, listened.bound), drain, drain_seconds)


@define(eq=False)
class _Stop:
    """The request to stop. Before the server has started, it cancels the start."""

    opening: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _asked: trio.Event | None = field(default=None, init=False)

    async def watch(self, stopping: Callable[[], Awaitable[object]]) -> None:
        await stopping()
        if self._asked is None:
            self.opening.cancel(reason="stopped before it was started")
        else:
            self._asked.set()

    def obey(self) -> trio.Event:
        """Return the event that is set from now on, instead of cancelling the start."""
        self._asked = trio.Event()
        return self._asked


@define(eq=False)
class _AcceptPhase:
    """Accepts connections until the stop, then drains them."""

    _connections: Connections
    _sockets: HttpSockets
    _encryption: RenewedContext | None
    _stop: trio.Event
    _accepting: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _refusing: trio.Event = field(factory=trio.Event, init=False)
    """Set when the sockets are closed, so that the system refuses connections."""

    async def run(
        self, started: Callable[[], None], drain: Callable[[], Awaitable[object]], drain_seconds: float
    ) -> None:
        async with owned_nursery() as nursery:
            nursery.start_soon(self._connections.watch)
            nursery.start_soon(self._accept, nursery)
            started()
            try:
                await self._stop.wait()
                self._accepting.cancel(reason="the server stops")
                # A client whose idle connection ends reconnects, and must be refused then. While the sockets still
                # listen, the system would accept it, and its request would be cut off.
                await self._refusing.wait()
                await self._connections.stop()
                with trio.move_on_after(drain_seconds):
                    await drain()
                    await self._connections.wait_left()
            finally:
                self._connections.abort()

    async def _accept(self, nursery: trio.Nursery) -> None:
        with self._accepting:
            plain = [trio.SocketListener(trio.socket.from_stdlib_socket(each)) for each in self._sockets.sockets]
            within_bound = bounded(plain, self._connections.bound)
            listeners: list[trio.abc.Listener[Any]] = [*within_bound]
            if self._encryption is not None:
                listeners = [TlsListener(each, self._encryption) for each in within_bound]
            await trio.serve_listeners(self._connections.serve, listeners, handler_nursery=nursery)
        self._refusing.set()
