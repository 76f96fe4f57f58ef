"""Where messages go out: the whole link's one queue, or one of the several response streams of a session over HTTP."""

from __future__ import annotations

from typing import Protocol

from ._outbox import Entry

__all__ = ["Lane"]


class Lane(Protocol):
    """Takes whole messages, each a line with its newline, and keeps their order. Only `room` ever waits."""

    def has_room(self) -> bool:
        """Whether `room` would return at once."""
        ...

    async def room(self) -> None:
        """Wait until a message may be queued. If cancelled, nothing was queued.

        Raises:
            ConnectionLost: no message will ever leave again.
        """
        ...

    def put(self, line: bytes) -> Entry:
        """Queue a message; after `room`, without a checkpoint in between."""
        ...

    def put_urgent(self, line: bytes) -> None:
        """Queue a message that may have had nobody to wait for room: an answer, or a cancellation."""
        ...

    def withdraw(self, entry: Entry) -> bool:
        """Take back a message; False if it has left already."""
        ...
