"""The bound on the open connections of one server, and listeners that stay within it.

Rules of this file:

1. Beyond the bound, a newcomer takes the place of the connection that is idle longest. A connection is idle before its
   first request, and while none of its requests is in flight.
2. If no connection is idle, it takes the place of the oldest connection of the address that has the most. If its own
   address would then have as many, the newcomer is closed instead.
3. The system may have no descriptor left below the bound, because the program uses many itself. Then the connection
   that is idle longest is closed as well, and accepting goes on.
4. All this is one line of the log in a minute: whoever fills the bound must not fill the log too.
5. The system hands over connections in the order of their arrival. While there is room, all that have arrived are
   accepted at once, and are then served in turns by address. So a burst of one address delays a newcomer by one turn.
   Those that wait count against the bound, and are not idle.
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
from typing import Any, Generic, Protocol, TypeVar, cast

import trio
from attrs import define, field

from .._shares import Sender, SharedBound, sender_of

__all__ = ["BoundedListener", "ConnectionBound", "TurnListener", "bounded", "default_max_connections", "socket_of"]

_log = logging.getLogger("trio_mcp.transports")

_MOST_BY_DEFAULT = 16_384
_REPORT_SECONDS = 60.0
_RETRY_SECONDS = 0.1
"""The pause before the next attempt to accept, if no connection could be closed."""
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""The errors of `accept` that say that the process or the system has no room for a connection."""
_MOST_AT_ONCE = 64
"""The number of connections that are accepted without a checkpoint in between."""
_RESERVE = 8
"""The places that are kept for connections whose turn has come, but whose task has not begun."""


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
    _by_use: dict[C, None] = field(factory=dict[C, None], init=False)
    _closed: int = field(default=0, init=False)
    """The number of connections that were closed to make room."""
    _silent_until: float = field(default=-math.inf, init=False)
    """The time of the next line of the log, on Trio's clock."""

    def __attrs_post_init__(self) -> None:
        self._shares = SharedBound[C](self.most)

    def __len__(self) -> int:
        return len(self._by_use)

    def has_room(self, connections: int = 1) -> bool:
        """Return True if so many more connections can be counted without closing one."""
        return self._shares.has_room(connections)

    def admit(self, sender: Sender | None, newcomer: C) -> bool:
        """Count a new connection, and close another one if there is no room; return False if it is refused itself.

        Args:
            sender: the client at its other end; None if that is unknown, and then no other connection counts with it.
            newcomer: the connection.
        """
        sender = newcomer if sender is None else sender
        if not self._shares.has_room():
            loser = self._longest_idle() or self._shares.oldest_to_give_way(sender)
            self._report(f"the maximum number of connections is open (max_connections={self.most})")
            if loser is None:
                return False
            self._close(loser)
        self._shares.add(sender, newcomer)
        self._by_use[newcomer] = None
        return True

    def used(self, connection: C) -> None:
        """Note that a connection that is counted is in use now."""
        if connection in self._by_use:
            del self._by_use[connection]
            self._by_use[connection] = None

    def remove(self, connection: C) -> None:
        """Stop counting a connection that is closed. Harmless if it is not counted."""
        self._shares.remove(connection)
        self._by_use.pop(connection, None)

    def make_room(self, why: str) -> bool:
        """Close the connection that is idle longest, because of *why*; return False if none is idle."""
        loser = self._longest_idle()
        self._report(why)
        if loser is not None:
            self._close(loser)
        return loser is not None

    def _longest_idle(self) -> C | None:
        return next((each for each in self._by_use if each.is_idle), None)

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
    """A listener that goes on when the system has no room for a connection (rule 3).

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
    """A listener that accepts connections in turns by address (rule 5).

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
            self._accept_arrived()
            await trio.lowlevel.checkpoint_if_cancelled()
            following = next(self._turns(), None)
            if following is not None:
                await trio.lowlevel.cancel_shielded_checkpoint()
                return trio.SocketStream(trio.socket.from_stdlib_socket(following.accepted))
            if self._bound.has_room(_RESERVE):
                await trio.lowlevel.wait_readable(self._listener.socket)
            else:
                return await self._listener.accept()

    def _accept_arrived(self) -> None:
        """Accept what has arrived, as far as there is room."""
        if self._listener.socket.fileno() < 0:
            raise trio.ClosedResourceError("the listener is closed")
        with _sharing_descriptor(self._listener.socket) as listening:
            for _ in range(_MOST_AT_ONCE):
                if not self._bound.has_room(_RESERVE):
                    return
                try:
                    accepted, address = listening.accept()
                except BlockingIOError:
                    return
                except OSError as error:
                    if error.errno in _EXHAUSTED:
                        raise
                    continue  # an error of one connection, whose client has left already
                is_unix = isinstance(address, str | bytes)
                sender = sender_of(None, None if is_unix else str(address[0]))
                waiting = _Waiting(sender, accepted)
                self._bound.admit(sender, waiting)
                self._queues.setdefault(sender, deque()).append(waiting)

    def _turns(self) -> Iterator[_Waiting]:
        """Take the connections that wait, and were not closed meanwhile, in turns by sender."""
        while self._queues:
            sender = next(iter(self._queues))
            queue = self._queues.pop(sender)
            following = queue.popleft()
            if queue:
                self._queues[sender] = queue
            self._bound.remove(following)
            if not following.is_closed:
                yield following

    async def aclose(self) -> None:
        """Close the listener, so that the system refuses connections, and then the connections that wait."""
        try:
            await self._listener.aclose()
        finally:
            for each in self._turns():
                each.abort()


def bounded(listeners: Iterable[trio.abc.Listener[S]], bound: ConnectionBound[Any]) -> list[trio.abc.Listener[S]]:
    """Return listeners that stay within a bound (rules 3 and 5).

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
