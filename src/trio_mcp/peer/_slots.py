"""How many handlers of one connection run at once, and who waits: first come, first served."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from attrs import define, field

from .._errors import McpError

if TYPE_CHECKING:
    from ._hall import Run

__all__ = ["BUSY", "Slots"]

BUSY = -31_000
"""The error code, in the application's range, of a request refused because too many wait already."""


@define(eq=False)
class Slots:
    """The running and the waiting handlers of one connection.

    Args:
        max_running: handlers that run at once.
        max_waiting: requests that may wait for one to end; more are refused with `BUSY`.
    """

    max_running: int
    max_waiting: int
    running: int = field(default=0, init=False)
    _waiting: OrderedDict[Run, None] = field(factory=OrderedDict["Run", None], init=False)
    """A set in order: one that is cancelled while it waits is found at once."""

    @property
    def waiting(self) -> int:
        """Requests that wait for a handler to end."""
        return len(self._waiting)

    def take(self, run: Run) -> None:
        """Start *run* now if a slot is free, later otherwise; answer its exchange as busy where too many wait."""
        if self.running < self.max_running:
            self.running += 1
            run.start()
            return
        if len(self._waiting) < self.max_waiting:
            self._waiting[run] = None
        else:
            assert run.exchange is not None
            waiting = f"{self.running} requests run and {self.waiting} wait"
            run.exchange.respond(McpError(BUSY, f"too busy: {waiting}; try again later"))

    def release(self) -> None:
        """Give a slot back; the next waiting run starts."""
        self.running -= 1
        if self._waiting:
            run, _ = self._waiting.popitem(last=False)
            self.running += 1
            run.start()

    def forget(self, run: Run) -> None:
        """Let *run* wait no longer, if it does: its exchange is over."""
        self._waiting.pop(run, None)
