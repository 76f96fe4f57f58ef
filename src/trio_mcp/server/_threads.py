"""Plain `def` handlers in worker threads, from a limiter of the serving's own.

A thread cannot be cancelled. When its request is, the thread is abandoned: nobody waits for it, but it keeps its
token until it really ends, so that abandoned threads count against the limit. A handler that may take long asks
`trio.from_thread.check_cancelled` now and then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import trio
from attrs import define, field

__all__ = ["Threads"]

T = TypeVar("T")

_held: WeakKeyDictionary[Any, list[float]] = WeakKeyDictionary()
"""For every test clock with handlers at work in threads, its own threshold, once for each of them."""


@contextmanager
def _clock_stands_still() -> Generator[None]:
    """Keep a test's autojump clock from jumping: to Trio, a program that waits for a thread has nothing to do."""
    clock: Any = trio.lowlevel.current_clock()
    if not hasattr(clock, "autojump_threshold"):
        yield
        return
    thresholds = _held.setdefault(clock, [])
    thresholds.append(clock.autojump_threshold if not thresholds else thresholds[0])
    clock.autojump_threshold = math.inf
    try:
        yield
    finally:
        own = thresholds.pop()
        if not thresholds:
            clock.autojump_threshold = own


@define(eq=False)
class Threads:
    """The worker threads of one serving.

    Args:
        limit: how many may work at once, abandoned ones included; more handlers wait.
    """

    limit: int
    _limiter: trio.CapacityLimiter = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._limiter = trio.CapacityLimiter(self.limit)

    @property
    def working(self) -> int:
        """Threads at work now, abandoned ones included."""
        return int(self._limiter.borrowed_tokens)

    async def run(
        self,
        function: Callable[[], T],
        *,
        turns: trio.Semaphore | None = None,
        on_begin: Callable[[], object] = lambda: None,
    ) -> T:
        """Call *function* in a thread; cancelled, leave it behind.

        Args:
            turns: bounds further how many threads work at once; a turn ends when its thread does.
            on_begin: called when the function's turn has come.
        """
        with _clock_stands_still():
            limiter: Any = _Turn(self._limiter, turns or _UNBOUNDED, on_begin)
            return await trio.to_thread.run_sync(function, abandon_on_cancel=True, limiter=limiter)


class _Unbounded:
    """Turns without end."""

    async def acquire(self) -> None:
        """Take a turn at once."""

    def release(self) -> None:
        """Give it back."""


_UNBOUNDED = _Unbounded()


@define(eq=False)
class _Turn:
    """What Trio asks for leave to run one thread, and tells when the thread has ended, abandoned or not."""

    _limiter: trio.CapacityLimiter
    _turns: trio.Semaphore | _Unbounded
    _on_begin: Callable[[], object]

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        """Wait for a turn, and then for a thread."""
        await self._turns.acquire()
        try:
            await self._limiter.acquire_on_behalf_of(borrower)
        except BaseException:
            self._turns.release()
            raise
        self._on_begin()

    def release_on_behalf_of(self, borrower: object) -> None:
        """The thread has ended."""
        self._limiter.release_on_behalf_of(borrower)
        self._turns.release()
