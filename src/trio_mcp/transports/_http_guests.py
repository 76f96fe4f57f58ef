"""Who sends modern requests over HTTP: there are no connections to bound, so those of one sender share their bounds.

A sender is whoever was authenticated, or else the address that the requests come from. Clients behind one proxy have
one address: then the limits of a connection (`Limits`) hold for all of them together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from copy import copy
from weakref import WeakValueDictionary

import trio
from attrs import define, field

from .._errors import ConnectionLost
from ..abc import Serving
from ..peer import Gate, Slots
from ..wire import JsonObject
from ._asgi import HttpRequest

__all__ = ["Guest", "Guests"]

_KEPT = 256


@define(eq=False)
class Guest:
    """One sender, as a `peer.Peer`: nothing reaches it but the answers to its requests."""

    gate: Gate
    slots: Slots
    listens: Slots
    _lost: ConnectionLost | None = field(default=None, init=False)
    _when_lost: list[Callable[[ConnectionLost], None]] = field(
        factory=list["Callable[[ConnectionLost], None]"], init=False
    )

    def has_room(self) -> bool:
        """Nothing is ever queued."""
        return True

    async def room(self) -> None:
        """Likewise."""
        await trio.lowlevel.checkpoint()

    def tell(self, method: str, params: JsonObject) -> None:
        """Drop it: in this revision nothing goes to a client that belongs to no request of its own."""

    def when_lost(self, tell: Callable[[ConnectionLost], None]) -> None:
        """Call *tell* when the serving stops; a sender by itself may always come back."""
        if self._lost is None:
            self._when_lost.append(tell)
        else:
            tell(copy(self._lost))

    def lose(self, reason: ConnectionLost) -> None:
        """The serving stops."""
        self._lost = reason
        for tell in self._when_lost:
            tell(copy(reason))


@define(eq=False)
class Guests:
    """The senders of one serving, each for as long as something of it is worked on, and the latest ones."""

    _serving: Serving
    _guests: WeakValueDictionary[tuple[str, str | None], Guest] = field(
        factory=WeakValueDictionary[tuple[str, str | None], Guest], init=False
    )
    _latest: deque[Guest] = field(factory=lambda: deque[Guest](maxlen=_KEPT), init=False)
    """Keeps those that come again and again from being made anew each time."""

    def of(self, request: HttpRequest) -> Guest:
        """Return who makes a request."""
        who = ("principal", request.principal) if request.principal is not None else ("host", request.client)
        guest = self._guests.get(who)
        if guest is None:
            limits = self._serving.limits
            slots = Slots(limits.max_in_flight, limits.max_queued)
            self._guests[who] = guest = Guest(self._serving.gate(), slots, Slots.for_listens(limits.max_listens))
        self._latest.append(guest)
        return guest

    def lose(self, reason: ConnectionLost) -> None:
        """The serving stops; it takes no more requests."""
        for guest in list(self._guests.values()):
            guest.lose(reason)
