"""The bound on the open connections of one server, and listeners that stay within it.

Rules of this file:

1. Beyond the bound, a newcomer takes the place of the connection that is idle longest. A connection is idle before its
   first request, and while none of its requests is in flight. A request that has arrived is in flight, even if it was
   not read yet: otherwise a client would lose a request that it sent on an open connection.
2. The idle connections of an address that has more than a quarter of all places give way before those of others, and an
   address that has more than half takes none of others. So a storm of connections does not close the kept ones of other
   clients, which may be sending a request at that moment.
3. If no idle connection may be taken, a newcomer takes the place of the least recently used connection of the address
   that has the most. If its own address would then have as many, the newcomer is closed instead.
4. The system may have no descriptor left below the bound, because the program uses many itself. Then an idle connection
   is closed as well, and accepting goes on.
5. All this is one line of the log in a minute: whoever fills the bound must not fill the log too.
6. The system hands over connections in the order of their arrival. All that have arrived are accepted at once, also
   beyond the bound, and are then served in turns by address. So a burst of one address delays a newcomer by one turn.
   A connection has its place from its acceptance on. While it waits for its turn it is not idle.
7. A search for an idle connection looks at a few of the least recently used, and counts the busy ones among them as
   used now. So its duration does not depend on the number of connections.
"""

from __future__ import annotations

import errno
import logging
import math
import socket
import sys
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar, cast

import trio
from attrs import define, field

from .._shares import Sender, SharedBound, sender_of

__all__ = [
    "BoundedListener",
    "ConnectionBound",
    "TurnListener",
    "bounded",
    "default_max_connections",
    "has_unread_data",
    "socket_of",
]

_log = logging.getLogger("trio_mcp.transports")

_MOST_BY_DEFAULT = 16_384
_REPORT_SECONDS = 60.0
_RETRY_SECONDS = 0.1
"""The pause before the next attempt to accept, if no connection could be closed."""
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""The errors of `accept` that say that the process or the system has no room for a connection."""
_MOST_AT_ONCE = 64
"""The number of connections that are accepted without a checkpoint in between."""
_MOST_LOOKED_AT = 64
"""The number of connections that one search for an idle one looks at."""


def default_max_connections() -> int:
    """Return three quarters of the descriptors that the process may have (RLIMIT_NOFILE), and at most 16,384.

    The last quarter is for everything else: files, child processes, connections to other servers.
    """
    if sys.platform == "win32":  # pragma: no cover # Windows has no such limit
        return _MOST_BY_DEFAULT
    import resource  # noqa: PLC0415 # POSIX alone has it

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_BY_DEFAULT if soft == resource.RLIM_INFINITY else max(1, min(soft * 3 // 4, _MOST_BY_DEFAULT))


class BoundedConnection(Hashable, Protocol):
    """A connection that counts against a bound."""

    @property
    def is_idle(self) -> bool:
        """True if it is idle (rule 1)."""
        ...

    def abort(self) -> None:
        """Close it now; synchronous, and may be repeated."""
        ...


C = TypeVar("C", bound=BoundedConnection)


@define(eq=False)
class ConnectionBound(Generic[C]):
    """The open connections of one server, the least recently used first.

    Args:
        most: the maximum number of connections.
    """

    most: int
    _shares: SharedBound[C] = field(init=False)
    """The connections by sender; those of each sender are in the same order as in `_by_use`."""
    _by_use: dict[C, None] = field(factory=dict[C, None], init=False)
    _arrived: dict[trio.socket.SocketType, C] = field(factory=dict[trio.socket.SocketType, C], init=False)
    """The places of accepted connections that are not served yet, by their sockets."""
    _closed: int = field(default=0, init=False)
    """The number of connections that were closed to make room."""
    _silent_until: float = field(default=-math.inf, init=False)
    """The time of the next line of the log, on Trio's clock."""

    def __attrs_post_init__(self) -> None:
        self._shares = SharedBound[C](self.most)

    def __len__(self) -> int:
        return len(self._by_use)

    def admit(self, sender: Sender | None, newcomer: C, socket: trio.socket.SocketType | None = None) -> bool:
        """Count a new connection, and close another one if there is no room; return False if it is refused itself.

        Args:
            sender: the client at its other end; None if that is unknown, and then no other connection counts with it.
            newcomer: the connection.
            socket: its socket. If that has a place already (`hand_over`), the connection takes this place.
        """
        sender = newcomer if sender is None else sender
        place = None if socket is None else self._arrived.pop(socket, None)
        if place is not None:
            if place not in self._by_use:  # it was closed to make room
                return False
            self.remove(place)
        if not self._shares.has_room():
            loser = self._idle_to_give_way(sender) or self._shares.oldest_to_give_way(sender)
            self._report(f"the maximum number of connections is open (max_connections={self.most})")
            if loser is None:
                return False
            self._close(loser)
        self._shares.add(sender, newcomer)
        self._by_use[newcomer] = None
        return True

    def hand_over(self, place: C, socket: trio.socket.SocketType) -> None:
        """Keep the place of a counted connection for the one that is admitted with *socket*."""
        self._arrived[socket] = place

    def used(self, connection: C) -> None:
        """Note that a connection that is counted is in use now."""
        if connection in self._by_use:
            del self._by_use[connection]
            self._by_use[connection] = None
            self._shares.renew(connection)

    def remove(self, connection: C) -> None:
        """Stop counting a connection that is closed. Harmless if it is not counted."""
        self._shares.remove(connection)
        self._by_use.pop(connection, None)

    def make_room(self, why: str) -> bool:
        """Close an idle connection, because of *why*; return False if none was found."""
        loser = self._idle_to_give_way(None)
        self._report(why)
        if loser is not None:
            self._close(loser)
        return loser is not None

    def _idle_to_give_way(self, newcomer: Sender | None) -> C | None:
        """Return the idle connection that gives way to one of *newcomer* (rules 1 and 2); None if there is none."""
        heaviest = self._shares.heaviest()
        places = self._shares.weight_of(heaviest)
        if 4 * places > self.most:
            of_heaviest = self._first_idle(self._shares.entries_of(heaviest, _MOST_LOOKED_AT))
            if of_heaviest is not None or (heaviest == newcomer and 2 * places > self.most):
                return of_heaviest
        return self._first_idle(list(islice(self._by_use, _MOST_LOOKED_AT)))

    def _first_idle(self, connections: Iterable[C]) -> C | None:
        for each in connections:
            if each.is_idle:
                return each
            self.used(each)
        return None

    def _close(self, connection: C) -> None:
        self.remove(connection)
        connection.abort()

    def _report(self, why: str) -> None:
        self._closed += 1
        now = trio.current_time()
        if now >= self._silent_until:
            self._silent_until = now + _REPORT_SECONDS
            _log.warning("%s: new connections replace idle ones, or are closed (so far %d times)", why, self._closed)


S = TypeVar("S", bound=trio.abc.Stream)


@define(eq=False)
class BoundedListener(trio.abc.Listener[S]):
    """A listener that goes on when the system has no room for a connection (rule 4).

    Args:
        make_room: closes a connection, and returns False if there is none to close.
    """

    _listener: trio.abc.Listener[S]
    _make_room: Callable[[str], bool]

    async def accept(self) -> S:
        """Wait for a connection."""
        while True:
            try:
                return await self._listener.accept()
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                has_room = self._make_room(f"the system has no room for another connection ({error.strerror})")
            await trio.sleep(0 if has_room else _RETRY_SECONDS)

    async def aclose(self) -> None:
        """Close the listener."""
        await self._listener.aclose()


@define(eq=False)
class _Waiting:
    """A connection that waits for its turn to be served."""

    sender: Sender
    accepted: socket.socket
    is_idle: bool = field(default=False, init=False)

    def abort(self) -> None:
        """Close it now."""
        self.accepted.close()

    @property
    def is_closed(self) -> bool:
        """True if it was closed to make room."""
        return self.accepted.fileno() < 0


@define(eq=False)
class TurnListener(trio.abc.Listener[trio.SocketStream]):
    """A listener that accepts connections in turns by address (rule 6).

    Args:
        listener: a listener on a socket.
        bound: counts the connections that wait.
    """

    _listener: trio.SocketListener
    _bound: ConnectionBound[Any]
    _queues: dict[Sender, deque[_Waiting]] = field(factory=dict[Sender, "deque[_Waiting]"], init=False)
    """The connections that wait, by sender; the sender of the next turn is the first."""

    async def accept(self) -> trio.SocketStream:
        """Wait for a connection, and for its turn."""
        while True:
            await trio.lowlevel.checkpoint()
            self._accept_arrived()
            following = next(self._turns(), None)
            if following is not None:
                stream = trio.SocketStream(trio.socket.from_stdlib_socket(following.accepted))
                self._bound.hand_over(following, stream.socket)
                return stream
            await trio.lowlevel.wait_readable(self._listener.socket)

    def _accept_arrived(self) -> None:
        """Accept what has arrived, and close what the bound refuses."""
        if self._listener.socket.fileno() < 0:
            raise trio.ClosedResourceError("the listener is closed")
        with _sharing_descriptor(self._listener.socket) as listening:
            for _ in range(_MOST_AT_ONCE):
                try:
                    accepted, address = listening.accept()
                except BlockingIOError:
                    return
                except OSError as error:
                    if error.errno not in _EXHAUSTED:
                        continue  # an error of one connection, whose client has left already
                    if self._queues:
                        return  # those that wait are served first
                    raise
                is_unix = isinstance(address, str | bytes)
                sender = sender_of(None, None if is_unix else str(address[0]))
                waiting = _Waiting(sender, accepted)
                if self._bound.admit(sender, waiting):
                    self._queues.setdefault(sender, deque()).append(waiting)
                else:
                    waiting.abort()

    def _turns(self) -> Iterator[_Waiting]:
        """Take the connections that wait, and were not closed meanwhile, in turns by sender."""
        while self._queues:
            sender = next(iter(self._queues))
            queue = self._queues.pop(sender)
            following = queue.popleft()
            if queue:
                self._queues[sender] = queue
            if not following.is_closed:
                yield following

    async def aclose(self) -> None:
        """Close the listener, so that the system refuses connections, and then the connections that wait."""
        try:
            await self._listener.aclose()
        finally:
            for each in self._turns():
                self._bound.remove(each)
                each.abort()


def bounded(listeners: Iterable[trio.abc.Listener[S]], bound: ConnectionBound[Any]) -> list[trio.abc.Listener[S]]:
    """Return listeners that stay within a bound (rules 4 and 6).

    Turns are for listeners on a socket. What other listeners accept is known only to them.
    """
    made: list[trio.abc.Listener[S]] = []
    for each in listeners:
        if isinstance(each, trio.SocketListener):
            made.append(BoundedListener(cast("trio.abc.Listener[S]", TurnListener(each, bound)), bound.make_room))
        else:
            made.append(BoundedListener(each, bound.make_room))
    return made


@contextmanager
def _sharing_descriptor(of: trio.socket.SocketType) -> Generator[socket.socket]:
    """Return a socket of the standard library for the descriptor of a socket of Trio, which stays its owner."""
    shared = socket.socket(of.family, of.type, of.proto, fileno=of.fileno())
    try:
        yield shared
    finally:
        shared.detach()


def socket_of(stream: trio.abc.Stream) -> trio.socket.SocketType | None:
    """Return the socket that a stream uses; None if it is of another kind."""
    inner: object = stream
    while isinstance(inner, trio.SSLStream):
        inner = cast("trio.SSLStream[trio.abc.Stream]", inner).transport_stream
    return inner.socket if isinstance(inner, trio.SocketStream) else None


def has_unread_data(stream: trio.abc.Stream) -> bool:
    """Return True if the socket of a stream has received data, or its end, that was not read yet."""
    end = socket_of(stream)
    return end is not None and end.fileno() >= 0 and end.is_readable()
