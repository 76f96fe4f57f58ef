"""The interfaces that let a lower layer hold a higher one: what can be asked, and what can answer.

Everything crosses these boundaries as exchanges: one request, the updates that belong to it, exactly one response,
and a way to cancel it. Nothing here has code of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from ._errors import ConnectionLost
    from .peer import Asked, ConnectionStatistics, Exchange, Gate, Limits, Peer
    from .wire import JsonObject

__all__ = ["Answerer", "Client", "Direction", "Serving", "Tap", "Transport", "TransportOpener"]

Direction: TypeAlias = Literal["sent", "received"]
"""Which way a message went, seen from the client."""

Tap: TypeAlias = "Callable[[Direction, bytes], None]"
"""Sees each whole message without its newline, in the order of the wire, when it is handed over or has come in."""


@runtime_checkable
class Answerer(Protocol):
    """Something whose exchanges can be served: a `Server`."""

    def serving(self) -> AbstractAsyncContextManager[Serving]:
        """Open what serves: the lifespan, and the nursery of the handlers."""
        ...


class Serving(Protocol):
    """An `Answerer` while it is being served, by any number of connections at once."""

    @property
    def limits(self) -> Limits:
        """What each connection may cost."""
        ...

    def gate(self) -> Gate:
        """Return the gate of a new connection."""
        ...

    def answer(self, exchange: Exchange) -> None:
        """Begin to answer; synchronous, and never raises."""
        ...

    def notified(self, method: str, params: JsonObject, peer: Peer) -> None:
        """Take a notification of *peer* that belongs to no exchange; synchronous, and never raises."""
        ...

    def stop(self) -> None:
        """The end is near: let what waits for people end. Synchronous; the connections end by themselves."""
        ...


class Client(Protocol):
    """The part of a client that a transport needs: it answers what a legacy server asks."""

    @property
    def gate(self) -> Gate:
        """On which terms the server's requests are admitted."""
        ...

    @property
    def limits(self) -> Limits:
        """What the connection may cost."""
        ...

    @property
    def tap(self) -> Tap | None:
        """What wants to see each message that passes; synchronous, and never raises. None: nobody does."""
        ...

    def answer(self, exchange: Exchange) -> None:
        """Begin to answer a request of the server; synchronous, and never raises."""
        ...

    def notified(self, method: str, params: JsonObject) -> None:
        """Take a notification that belongs to no exchange; synchronous, and never raises."""
        ...


class Transport(Protocol):
    """The asking side of a connection that is up."""

    def ask(self, method: str, params: JsonObject | None, *, wants_updates: bool = False) -> Asked:
        """Return an exchange to enter with `async with`: entering sends the request, leaving ends it.

        Whatever ends the block before the outcome has arrived cancels the request on the other side.
        """
        ...

    async def notify(self, method: str, params: JsonObject | None) -> None:
        """Send a notification that belongs to no exchange.

        Raises:
            ConnectionLost: the connection is gone.
        """
        ...

    def when_lost(self, tell: Callable[[ConnectionLost], None]) -> None:
        """Call *tell* with the reason when nothing can be asked any more; now, if that is so already.

        It is called once, synchronously, and does not raise. Those who wait for a response are told by that.
        """
        ...

    def statistics(self) -> ConnectionStatistics:
        """Return what the connection holds now."""
        ...


TransportOpener: TypeAlias = "Callable[[Client], AbstractAsyncContextManager[Transport]]"
"""Connects a client; leaving the block takes the connection down. Opening the same one twice connects twice."""
