"""Timeouts that can be paused together, for example while the user answers a question."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType

import trio
from attrs import define, field

__all__ = ["PausableTimeouts"]


@define(eq=False)
class PausableTimeouts:
    """The timeouts of one connection, which can be paused together.

    They are paused while the user answers a question, because that may take any time.
    """

    pauses: int = field(default=0, init=False)
    """How often the timeouts were paused."""
    _limits: dict[trio.CancelScope, float] = field(factory=dict[trio.CancelScope, float], init=False)
    """The scopes of the blocks that run, each with the seconds that it had left when the timeouts were paused."""
    _pausing_blocks: int = field(default=0, init=False)

    def within(self, seconds: float) -> AbstractContextManager[trio.CancelScope, bool]:
        """Cancel the block after *seconds*, without the time for which the timeouts were paused.

        The scope tells afterwards whether the block was cancelled.
        """
        return _Timeout(self, seconds)

    def begin(self, scope: trio.CancelScope, seconds: float) -> None:
        """Start the timeout of a block, which *scope* cancels."""
        self._limits[scope] = seconds
        if not self._pausing_blocks:
            scope.deadline = trio.current_time() + seconds

    def end(self, scope: trio.CancelScope) -> None:
        """End the timeout of a block."""
        del self._limits[scope]

    @contextmanager
    def paused(self) -> Generator[None]:
        """Pause every timeout for the duration of the block. Such blocks may overlap."""
        if self._pausing_blocks == 0:
            self._pause()
        self._pausing_blocks += 1
        try:
            yield
        finally:
            self._pausing_blocks -= 1
            if self._pausing_blocks == 0:
                self._resume()

    def _pause(self) -> None:
        self.pauses += 1
        now = trio.current_time()
        for scope in self._limits:
            self._limits[scope] = scope.deadline - now
            scope.deadline = float("inf")

    def _resume(self) -> None:
        now = trio.current_time()
        for scope, seconds in self._limits.items():
            scope.deadline = now + seconds


@define(eq=False)
class _Timeout:
    """The context manager of one block. A class, because for type checkers a generator swallows no exception."""

    _timeouts: PausableTimeouts
    _seconds: float
    _scope: trio.CancelScope = field(factory=trio.CancelScope, init=False)

    def __enter__(self) -> trio.CancelScope:
        self._scope.__enter__()
        self._timeouts.begin(self._scope, self._seconds)
        return self._scope

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        self._timeouts.end(self._scope)
        return self._scope.__exit__(kind, exc, traceback)
