"""Time limits of blocks that stand still together while a person is being asked: nobody can say how long that takes."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType

import trio
from attrs import define, field

__all__ = ["Patience"]


@define(eq=False)
class Patience:
    """The limits of one connection's blocks."""

    pauses: int = field(default=0, init=False)
    """How often the limits have stood still."""
    _limits: dict[trio.CancelScope, float] = field(factory=dict[trio.CancelScope, float], init=False)
    """The blocks that are being waited for; and the seconds that each has left, as of when the limits stood still."""
    _persons: int = field(default=0, init=False)

    def within(self, seconds: float) -> AbstractContextManager[trio.CancelScope, bool]:
        """Cancel the block after *seconds*, not counting the time in which a person is being asked.

        The scope says afterwards whether it was.
        """
        return _Limit(self, seconds)

    def begin(self, scope: trio.CancelScope, seconds: float) -> None:
        """A block begins, of which *scope* is the limit."""
        self._limits[scope] = seconds
        if not self._persons:
            scope.deadline = trio.current_time() + seconds

    def end(self, scope: trio.CancelScope) -> None:
        """A block ends."""
        del self._limits[scope]

    @contextmanager
    def paused(self) -> Generator[None]:
        """Have the limits stand still for as long as the block lasts; any number of such blocks may overlap."""
        if self._persons == 0:
            self._pause()
        self._persons += 1
        try:
            yield
        finally:
            self._persons -= 1
            if self._persons == 0:
                self._go_on()

    def _pause(self) -> None:
        self.pauses += 1
        now = trio.current_time()
        for scope in self._limits:
            self._limits[scope] = scope.deadline - now
            scope.deadline = float("inf")

    def _go_on(self) -> None:
        now = trio.current_time()
        for scope, seconds in self._limits.items():
            scope.deadline = now + seconds


@define(eq=False)
class _Limit:
    """One block. A class, because type checkers know of no generator that it may swallow what it was left with."""

    _patience: Patience
    _seconds: float
    _scope: trio.CancelScope = field(factory=trio.CancelScope, init=False)

    def __enter__(self) -> trio.CancelScope:
        self._scope.__enter__()
        self._patience.begin(self._scope, self._seconds)
        return self._scope

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        self._patience.end(self._scope)
        return self._scope.__exit__(kind, exc, traceback)
