"""An ASGI application served over HTTP/1.1 and HTTP/2: Hypercorn's protocols, with a worker of our own around them.

Hypercorn's Trio worker can be crashed, stalled and filled by a client, and its stop hardly controlled. What is wrong
there and how it is cured stands in the files where it is: `_hypercorn_connection` (bytes and time), `_hypercorn_tasks`
(running the application), `_hypercorn_http1` and `_hypercorn_http2` (protocols), `_hypercorn_lifespan`. They know
Hypercorn from inside, and are made for its version 0.18.

What stays with the application:

- `send` after the client has gone does nothing, and says nothing. Await `receive` beside it, which returns
  `http.disconnect`.
- A client's leaving is noticed when it is tried to read from it. That is not done while it has sent another request
  already (HTTP/1.1 pipelining), or more of a body than the application wants; write something now and then.
- The size of a body, and the time it takes, are not limited.
- A prefix that a host application strips is in `root_path`, and in `path` still.
- WebSockets are served too. To refuse them, receive until `websocket.disconnect` and return.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import trio
from attrs import define, field

from .._util import owned_nursery
from ._asgi import AsgiApp
from ._hypercorn_lifespan import lifespan_of
from ._hypercorn_listening import HttpListening
from ._hypercorn_sockets import Bound, HttpSockets, bind_sockets
from ._hypercorn_tls import tls_context

if TYPE_CHECKING:
    from ._hypercorn_connection import Connections

__all__ = ["serve_asgi"]


async def serve_asgi(
    app: AsgiApp,
    listening: HttpListening,
    *,
    stopping: Callable[[], Awaitable[object]],
    drain: Callable[[], Awaitable[object]],
    drain_seconds: float,
    sockets: HttpSockets | None = None,
    task_status: trio.TaskStatus[Bound] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve an ASGI 3 application until *stopping* returns; `task_status.started` gets what it is bound to.

    In this order: the address is taken, the application's lifespan starts, connections are accepted. At the end: no
    more is accepted, idle connections end, *drain* is awaited, connections end after the answers they have begun, and
    what is left after *drain_seconds* is cut off; then the lifespan ends.

    What a client does, or the application raises for it (KeyboardInterrupt excepted), costs that client's connection
    or request, and is logged to `trio_mcp.transports`.

    Args:
        listening: where, and what a connection may cost.
        stopping: returns when the server is to stop; before it has started, that gives up the start.
        drain: called when the server stops: tell the application to end its streams.
        drain_seconds: how long, in seconds, requests that are being answered may go on after *stopping*.
        sockets: what to listen on, in place of what *listening* names. Closed at the end.

    Raises:
        OSError: the address cannot be taken, or a file of the certificate cannot be read. The text names it.
        ValueError: the certificate cannot be used.
        BaseException: whatever the application's lifespan raises when it starts or ends, as it is; see `lifespan_of`.

    Cancellation: ends all connections and the lifespan at once, by cancellation; the sockets are closed.
    """
    from ._hypercorn_connection import Connections  # noqa: PLC0415  # it loads Hypercorn

    stop = _Stop()
    async with owned_nursery() as nursery:
        nursery.start_soon(stop.watch, stopping)
        with stop.opening, sockets or await bind_sockets(listening) as listened:
            listeners = _listeners(listened, tls_context(listening))
            async with lifespan_of(app) as state:
                serving = _Serving(Connections(app, listening, state), listeners, stop.obey())
                await serving.run(partial(task_status.started, listened.bound), drain, drain_seconds)


@define(eq=False)
class _Stop:
    """The wish to stop. Before anything is served it gives up the start."""

    opening: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _asked: trio.Event | None = field(default=None, init=False)

    async def watch(self, stopping: Callable[[], Awaitable[object]]) -> None:
        await stopping()
        if self._asked is None:
            self.opening.cancel(reason="stopped before it was started")
        else:
            self._asked.set()

    def obey(self) -> trio.Event:
        """Return what is set instead from now on."""
        self._asked = trio.Event()
        return self._asked


_Listener: TypeAlias = "trio.abc.Listener[trio.SocketStream] | trio.abc.Listener[trio.SSLStream[trio.SocketStream]]"


def _listeners(listened: HttpSockets, context: ssl.SSLContext | None) -> list[_Listener]:
    plain = [trio.SocketListener(trio.socket.from_stdlib_socket(each)) for each in listened.sockets]
    return [*plain] if context is None else [trio.SSLListener(each, context) for each in plain]


@define(eq=False)
class _Serving:
    """The time in which connections are accepted, and the time until they have ended."""

    _connections: Connections
    _listeners: list[_Listener]
    _stop: trio.Event
    _accepting: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _refusing: trio.Event = field(factory=trio.Event, init=False)
    """Set when the sockets are closed, and the system refuses connections."""

    async def run(
        self, started: Callable[[], None], drain: Callable[[], Awaitable[object]], drain_seconds: float
    ) -> None:
        async with owned_nursery() as nursery:
            nursery.start_soon(self._accept, nursery)
            started()
            try:
                await self._stop.wait()
                self._accepting.cancel(reason="the server stops")
                # A client whose idle connection ends connects anew, and is to be refused then. While the sockets still
                # listen it would be let in by the system, and be cut off with a request on its way.
                await self._refusing.wait()
                await self._connections.stop()
                with trio.move_on_after(drain_seconds):
                    await drain()
                    await self._connections.wait_left()
            finally:
                self._connections.abort()

    async def _accept(self, nursery: trio.Nursery) -> None:
        with self._accepting:
            listeners = cast("list[trio.abc.Listener[Any]]", self._listeners)
            await trio.serve_listeners(self._connections.serve, listeners, handler_nursery=nursery)
        self._refusing.set()
