"""Work that takes long, spread over time so that others are served meanwhile: large results, many cancellations.

Rules of this file:

1. Large results are written as JSON one at a time, because nobody else is served meanwhile. Senders take turns, and
   after a result that took long there is a pause of three times as long for other requests.
2. Handlers whose connection or session was lost are cancelled a few in each pass of the event loop, because ending
   thousands takes long: a client may leave with as many requests in flight. The first few are cancelled at once.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Hashable
from contextlib import asynccontextmanager
from itertools import islice
from typing import TYPE_CHECKING

import trio
from attrs import define, field

from ..wire import is_array, is_object

if TYPE_CHECKING:
    from ._slots import FairLimiter

__all__ = ["Cancellations", "LargeResults", "is_large"]

_CANCELLATIONS_OF_PASS = 16
"""Ending so many handlers takes about a millisecond."""
_PASS_SECONDS = 0.01
"""The time after which a cancellation is carried out at once again."""


@define(eq=False)
class Cancellations:
    """The cancellations of handlers, a few of which are carried out in each pass of the event loop (rule 2).

    Args:
        nursery: the nursery of the handlers.
    """

    _nursery: trio.Nursery
    _waiting: deque[Callable[[], None]] = field(factory=deque["Callable[[], None]"], init=False)
    _time: float = field(default=-math.inf, init=False)
    """The time of the latest cancellations that were carried out at once, on Trio's clock."""
    _count: int = field(default=0, init=False)
    """The number of these."""

    def add(self, cancel: Callable[[], None]) -> None:
        """Call *cancel* now, or soon if many cancellations came before it."""
        now = trio.current_time()
        if now > self._time + _PASS_SECONDS:
            self._time, self._count = now, 0
        if self._count < _CANCELLATIONS_OF_PASS:
            self._count += 1
            cancel()
            return
        if not self._waiting:
            self._nursery.start_soon(self._carry_out, name="cancellations of handlers")
        self._waiting.append(cancel)

    async def _carry_out(self) -> None:
        """Carry out all that wait; at once if the nursery of the handlers is cancelled, which ends them all anyway."""
        try:
            while self._waiting:
                await trio.lowlevel.checkpoint()
                for _ in range(min(_CANCELLATIONS_OF_PASS, len(self._waiting))):
                    self._waiting.popleft()()
        finally:  # a handler in a shielded clean-up does not notice the nursery, and may wait for an answer
            while self._waiting:
                self._waiting.popleft()()


_LARGE = 2**20
"""The number of characters from which a result is large. Smaller ones take few milliseconds."""
_FIRST_ITEMS = 32
_LONG_SECONDS = 0.005
_PAUSE = 3
"""The length of the pause after a result that took long, in times of that."""


def is_large(outcome: object) -> bool:
    """Return True if the strings in a result are long in sum; only the outer levels of it and the first items count."""
    return _length(outcome, 3) >= _LARGE


def _length(value: object, levels: int) -> int:
    if isinstance(value, str):
        return len(value)
    if levels and (is_object(value) or is_array(value)):
        items = value.values() if is_object(value) else value
        return sum([_length(each, levels - 1) for each in islice(items, _FIRST_ITEMS)])
    return 0


@define(eq=False)
class LargeResults:
    """The turns in which large results are written (rule 1).

    Args:
        turns: a limiter with one place.
        clock: returns the time in seconds, to measure how long a result takes.
    """

    _turns: FairLimiter
    _clock: Callable[[], float] = time.perf_counter
    _pause_until: float = field(default=-math.inf, init=False)
    """The end of the pause, on Trio's clock."""

    @asynccontextmanager
    async def turn(self, group: Hashable) -> AsyncGenerator[None]:
        """Wait for a turn, and keep it for as long as the block lasts.

        Args:
            group: the group that waits, usually the slots of a sender.
        """
        await self._turns.acquire(group)
        try:
            await trio.sleep_until(self._pause_until)
            begin = self._clock()
            yield
            seconds = self._clock() - begin
            if seconds > _LONG_SECONDS:
                self._pause_until = trio.current_time() + _PAUSE * seconds
        finally:
            self._turns.release(group)
