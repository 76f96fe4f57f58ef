"""Signals while a command runs: the first ends what it does and lets it close, the second ends the closing too.

Trio's own way with Ctrl+C is to raise KeyboardInterrupt in whichever task runs, which may be one that closes the
connection. Here a call is cancelled like by any other cause: its server is told, and its handler stops.
"""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager

import trio
from attrs import define, field

from ._failures import Interrupted

__all__ = ["Interrupts"]

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@define(eq=False)
class Interrupts:
    """What signals end, innermost last."""

    _scopes: list[trio.CancelScope] = field(factory=list[trio.CancelScope], init=False)
    _caught: int | None = field(default=None, init=False)

    async def listen(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Take signals for ever, in a task of its own."""
        with trio.open_signal_receiver(*_SIGNALS) as received:
            task_status.started()
            async for number in received:
                self._caught = number
                if self._scopes:
                    self._scopes.pop().cancel(reason="a signal")

    @contextmanager
    def ending(self) -> Generator[None]:
        """Cancel what is in the block when a signal comes; blocks inside it go first."""
        with trio.CancelScope() as scope:
            self._scopes.append(scope)
            try:
                yield
            finally:
                if scope in self._scopes:
                    self._scopes.remove(scope)

    def check(self) -> None:
        """Raise `Interrupted` if a signal has come."""
        if self._caught is not None:
            raise Interrupted(self._caught)
