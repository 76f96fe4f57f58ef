"""Serving over a byte stream, and over this process's own standard input and output.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TypeAlias

import trio
from attrs import define, field

from .._errors import ConnectionBroken, ConnectionLost
from .._misuse import check_server, require_trio
from .._util import owned_nursery
from ..abc import Answerer, Serving
from ..peer import Link
from ..transports import (
    ConnectionBound,
    bounded,
    claim_stdio,
    default_max_connections,
    has_unread_data,
    sender_at,
    server_link,
    socket_of,
)
from ._collection import frozen_heap
from ._stopping import stopped_by_signals

__all__ = ["serve_listeners", "serve_stdio", "serve_stream"]


_log = logging.getLogger("trio_mcp.server")

_Listener: TypeAlias = "trio.abc.Listener[trio.abc.Stream]"


async def serve_stream(server: Answerer | Serving, stream: trio.abc.Stream) -> None:
    """Serve one connection over any byte stream: a socket, a TLS stream, a pipe.

    Returns when the input has ended and the requests accepted until then are answered, at most `Limits.drain_seconds`
    later. Closes the stream, also when cancelled.

    To serve many connections with one lifespan, open the serving first::

        async with server.serving() as serving:
            await trio.serve_tcp(partial(serve_stream, serving), 8000)

    Args:
        server: a `Server`, which is then served for this connection alone, or an open serving.
        stream: a stream of newline-delimited JSON. This function takes ownership of it.
    """
    async with _serving(server) as serving:
        await server_link(stream, serving).run(drain=True)


async def serve_listeners(
    server: Answerer,
    listeners: Sequence[trio.abc.Listener[trio.abc.Stream]],
    *,
    signals: bool = True,
    max_connections: int | None = None,
    task_status: trio.TaskStatus[list[trio.abc.Listener[trio.abc.Stream]]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve every incoming connection, over TCP, TLS or Unix sockets, with one lifespan for all of them.

    ::

        trio.run(serve_listeners, server, await trio.open_tcp_listeners(8000, host="127.0.0.1"))

    There is no authentication: listen only where trusted clients can connect. Returns after one SIGINT or SIGTERM: the
    server accepts no more connections and messages, lets open questions expire, answers in-flight requests for at most
    `Limits.drain_seconds`, and answers the rest with an error. A failing connection does not affect the others.

    Args:
        server: the server.
        listeners: the listeners, which are closed at the end.
        signals: True to listen for SIGINT and SIGTERM, if this is the main thread and the function was not started
            through `nursery.start`. A program that starts it so stops it by cancellation.
        max_connections: the maximum number of open connections; by default three quarters of the descriptors that the
            process may have (RLIMIT_NOFILE), and at most 16,384. Beyond it, a new connection replaces the one that is
            idle longest, or else one of the address that has the most; if that is its own address, the new one is
            closed. Idle connections of an address with more than a quarter of all are replaced first, and one with more
            than half replaces only its own. A connection is idle while none of its requests is in flight.
        task_status: passed by `nursery.start`, which returns *listeners* as soon as connections are accepted.

    Raises:
        ValueError: *max_connections* is not above 0.
    """
    require_trio("serve_listeners()")
    check_server("serve_listeners()", server)
    if max_connections is None:
        max_connections = default_max_connections()
    elif max_connections <= 0:
        raise ValueError(f"serve_listeners(max_connections={max_connections!r}): must be above 0")
    served = _ServedConnections(max_connections)
    try:
        listen = signals and task_status is trio.TASK_STATUS_IGNORED
        with (
            stopped_by_signals(served.stop, listen=listen) as guard,
            frozen_heap(is_own_process=guard is not None),
            served.opening,
        ):
            async with server.serving() as serving:
                await served.serve(serving, list(listeners), task_status)
    finally:
        for listener in listeners:  # already closed, unless the lifespan failed
            await trio.aclose_forcefully(listener)


async def serve_stdio(
    server: Answerer, *, signals: bool = True, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve over standard input and output, of which this function has exclusive use until it returns.

    Returns when the input has ended, or after one SIGINT or SIGTERM: the server accepts no more messages, lets open
    questions expire, answers in-flight requests for at most `Limits.drain_seconds`, and answers the rest with an error.
    Meanwhile the output of a stray `print` goes to standard error, with a warning.

    Args:
        server: the server.
        signals: True to listen for SIGINT and SIGTERM, if this is the main thread and the function was not started
            through `nursery.start`. A program that starts it so stops it by cancellation.
        task_status: passed by `nursery.start`, which returns as soon as messages are read.

    Raises:
        OSError: standard input or output is closed.
        trio.BusyResourceError: standard input and output are already in use by another serving.
    """
    require_trio("serve_stdio()")
    check_server("serve_stdio()", server)
    served = _ServedConnections(1)
    listen = signals and task_status is trio.TASK_STATUS_IGNORED
    with (
        stopped_by_signals(served.stop, listen=listen) as guard,
        frozen_heap(is_own_process=guard is not None),
        served.opening,
    ):
        async with claim_stdio() as stream, server.serving() as serving:  # the lifespan may print too
            task_status.started()
            await served.serve_connection(serving, stream, on_end=None if guard is None else guard.begin)


@define(eq=False)
class _ServedConnections:
    """The connections of one serving, which are stopped together."""

    max_connections: int
    opening: trio.CancelScope = field(factory=trio.CancelScope)
    """The scope of entering the lifespan, which a stop cancels."""
    _accepting: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _serving: Serving | None = field(default=None, init=False)
    _links: set[Link] = field(factory=set[Link], init=False)
    _bound: ConnectionBound[_BoundedLink] = field(init=False)
    _left: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def __attrs_post_init__(self) -> None:
        self._bound = ConnectionBound["_BoundedLink"](self.max_connections)

    def stop(self) -> None:
        """Accept no more connections and messages; while the lifespan is being entered, cancel that."""
        if self._serving is None:
            self.opening.cancel(reason="stopped by a signal")
            return
        self._accepting.cancel(reason="stopped by a signal")
        self._serving.stop()
        for link in self._links:
            link.stop()

    async def serve_connection(
        self, serving: Serving, stream: trio.abc.Stream, *, on_end: Callable[[], None] | None = None
    ) -> None:
        """Serve one connection; call *on_end* when its input has ended."""
        self._serving = serving

        def reason() -> ConnectionLost:
            if on_end is not None:
                on_end()
            return ConnectionBroken("the peer ended the connection")

        def used() -> None:
            self._bound.used(connection)

        link = server_link(stream, serving, None if self.max_connections == 1 else used)  # one has no order
        connection = _BoundedLink(link)
        if not self._bound.admit(sender_at(stream), connection, socket_of(stream)):
            await trio.aclose_forcefully(stream)
            return
        self._links.add(link)
        if self._accepting.cancel_called:
            link.stop()
        try:
            with connection.running:
                await link.run(drain=True, disconnect_reason=reason)
        finally:
            self._bound.remove(connection)
            self._links.discard(link)
            self._left.unpark_all()

    async def serve(
        self,
        serving: Serving,
        listeners: list[_Listener],
        task_status: trio.TaskStatus[list[_Listener]],
    ) -> None:
        """Serve incoming connections until `stop` is called; then wait for them to end."""
        self._serving = serving

        async def serve_one(stream: trio.abc.Stream) -> None:
            try:
                await self.serve_connection(serving, stream)
            except Exception:  # noqa: BLE001 # for example, a stream class of the application that raises other exceptions
                _log.exception("a connection failed")

        async with owned_nursery() as connections:
            with self._accepting:
                try:
                    task_status.started(listeners)  # they queue connections already
                    await trio.serve_listeners(serve_one, bounded(listeners, self._bound), handler_nursery=connections)
                except ExceptionGroup as group:
                    if len(group.exceptions) == 1:  # a listener that can no longer accept
                        raise group.exceptions[0] from None
                    raise
            while self._links:
                await self._left.park()


@define(eq=False)
class _BoundedLink:
    """A link that counts against the bound on connections."""

    _link: Link
    running: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    """The scope in which the link runs."""

    @property
    def is_idle(self) -> bool:
        """True if it may be closed to make room: no request is in flight, and none has arrived that was not read yet.

        It is idle since the latest of its requests began.
        """
        return not self._link.ledger.incoming and not has_unread_data(self._link.stream)

    def abort(self) -> None:
        """Close the link now; that of a socket frees its descriptor at once."""
        socket = socket_of(self._link.stream)
        if socket is not None:
            socket.close()
        self.running.cancel(reason="other connections need its place")


def _serving(server: Answerer | Serving) -> AbstractAsyncContextManager[Serving]:
    if isinstance(server, Answerer):
        return server.serving()
    if not hasattr(server, "answer"):
        check_server("serve_stream()", server)
    return nullcontext(server)
