"""The other end of a connection, as whoever answers its requests sees it: one object that every exchange of it carries.

What is told through it belongs to no exchange; what belongs to one goes through `Exchange.notify`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .._errors import ConnectionLost
from ..wire import JsonObject
from ._gate import Gate
from ._slots import Slots

__all__ = ["Peer"]


class Peer(Protocol):
    """Made by the transport, one for each connection."""

    @property
    def gate(self) -> Gate:
        """On which terms its requests are admitted."""
        ...

    @property
    def slots(self) -> Slots:
        """The room for running handlers that it has."""
        ...

    @property
    def listens(self) -> Slots:
        """The room for requests that listen for changes: they last, and take no room from those that do not."""
        ...

    def has_room(self) -> bool:
        """Whether a message may be queued now without waiting."""
        ...

    async def room(self) -> None:
        """Wait until a message may be queued.

        Raises:
            ConnectionLost: none ever will.
        """
        ...

    def tell(self, method: str, params: JsonObject) -> None:
        """Queue a notification that belongs to no exchange; there must be room."""
        ...

    def when_lost(self, tell: Callable[[ConnectionLost], None]) -> None:
        """Call *tell* with the reason when nothing will come from the other end any more; now, if that is so already.

        It is called once, synchronously, and must not raise.
        """
        ...
