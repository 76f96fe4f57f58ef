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

    async def run(self, function: Callable[[], T]) -> T:
        """Call *function* in a thread; cancelled, leave it behind."""
        with _clock_stands_still():
            return await trio.to_thread.run_sync(function, abandon_on_cancel=True, limiter=self._limiter)
