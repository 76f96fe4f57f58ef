"""On which terms the other side's messages are admitted: the one place that knows what a connection remembers.

An engine asks its gate before it answers anything. What a gate remembers (a handshake's outcome) is the only state
that outlives an exchange; a modern request brings everything along and leaves nothing behind.
"""

from __future__ import annotations

from typing import Protocol

from ..wire import JsonObject
from ._context import ExchangeContext

__all__ = ["Gate"]


class Gate(Protocol):
    """Decides for one connection what comes in, and as what."""

    @property
    def revision(self) -> str | None:
        """What a handshake has agreed on; None before, and where there is none."""
        ...

    @property
    def may_respond(self) -> bool:
        """Whether this side may send responses at all: a modern client must not."""
        ...

    @property
    def answers_unreadable(self) -> bool:
        """Whether this side answers what names no request: a client must not write what may be no message."""
        ...

    @property
    def batches(self) -> bool:
        """Whether the other side may send arrays of messages."""
        ...

    @property
    def omits_unknown_id(self) -> bool:
        """Whether an error for a request whose id could not be read goes without id, instead of with null."""
        ...

    @property
    def operating(self) -> bool:
        """Whether the other side takes what belongs to no exchange: unasked news, questions of ours."""
        ...

    def admit(self, method: str, params: JsonObject | None) -> ExchangeContext:
        """Return the terms on which a request is answered.

        Raises:
            McpError: what to answer instead.
        """
        ...

    def responded(self, method: str, *, success: bool) -> None:
        """Take note that a request which was admitted has been answered."""
        ...

    def notified(self, method: str) -> None:
        """Take note of a notification of the other side."""
        ...
