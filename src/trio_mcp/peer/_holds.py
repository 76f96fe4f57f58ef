"""The resources that a handler holds, which it gives back while it waits for the answer to a question.

Rules of this file:

1. What a run holds (its slot, a place of a tool's limiter, a thread, its time limit) is given back while a question is
   open, and taken again before the handler continues, whether the question was answered or refused. If several tasks of
   the handler do this at once, one of them takes and the others wait. The deadline of the caller is no part of this: it
   belongs to the request.
2. While a question is open nothing is taken: a task that continues while another one waits for an answer holds nothing.
3. A held resource is always released exactly once for each time it was taken.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Protocol

import trio
from attrs import define, field

__all__ = ["Hold", "Holds", "TimeLimited"]


class TimeLimited(Protocol):
    """The owner of the time limit: a handler run, or a cancel scope."""

    @property
    def deadline(self) -> float:
        """The time at which the time of the handler is used up, on Trio's clock; infinite without a limit."""
        ...

    @deadline.setter
    def deadline(self, deadline: float, /) -> None: ...


@define(eq=False)
class Hold:
    """One resource that a run holds: taken when this object is made, and released by `close`."""

    _take: Callable[[], Awaitable[object]]
    _release: Callable[[], object]
    _is_held: bool = field(default=True, init=False)
    _closed: bool = field(default=False, init=False)

    def give_back(self) -> None:
        """Release the resource until `take_again`."""
        if self._is_held:
            self._is_held = False
            self._release()

    async def take_again(self) -> None:
        """Take the resource again; wait until it is free. If cancelled, it is not held."""
        if not self._is_held and not self._closed:
            await self._take()
            self._taken()

    def _taken(self) -> None:
        self._is_held = True
        if self._closed:  # the owner ended in between, for example a thread that was left
            self.give_back()

    def close(self) -> None:
        """Release the resource for good."""
        self._closed = True
        self.give_back()


@define(eq=False)
class Holds:
    """All resources that one run holds, and the time for which it may still work."""

    _all: list[Hold] = field(factory=list[Hold], init=False)
    has_slot: bool = field(default=False, init=False)
    """True if the first of them is the slot of the run."""
    _lock: trio.Lock | None = field(default=None, init=False)
    """Made when needed, because most runs ask nothing."""
    _asking: int = field(default=0, init=False)
    """The number of open waits for which everything was given back."""
    _work_left: float = field(default=math.inf, init=False)
    """The seconds that the handler had left when its clock was stopped."""
    _pauses: int = field(default=0, init=False)
    """The number of waits that stop the clock."""

    def add(self, hold: Hold) -> None:
        """Hold one more resource."""
        self._all.append(hold)

    def add_slot(self, hold: Hold) -> None:
        """Hold the slot of the run, which is always taken first: in one order, no two runs wait for each other."""
        self._all.insert(0, hold)
        self.has_slot = True

    def forget_slot(self) -> None:
        """Stop holding the slot of the run, which has ended and has released it."""
        if self.has_slot:
            self.has_slot = False
            del self._all[0]

    def drop(self, hold: Hold) -> None:
        """Release *hold* for good."""
        self._all.remove(hold)
        hold.close()

    def give_back(self, limited: TimeLimited) -> None:
        """Release everything, and stop the clock of *limited* until `start_clock` was called as often as this."""
        self._asking += 1
        self._stop_clock(limited)
        for hold in self._all:
            hold.give_back()

    def start_clock(self, limited: TimeLimited) -> None:
        """Start the clock of *limited* again, with the time that was left."""
        self._asking -= 1
        self._resume_clock(limited)

    async def take_again(self, limited: TimeLimited) -> None:
        """Take everything again, unless another question is open: then the task that waits for its answer does so.

        The clock of *limited* is stopped while this waits, as it is while a handler waits for its slot.
        """
        if not self._all or self._is_asking():
            return
        self._stop_clock(limited)
        self._lock = self._lock or trio.Lock()
        try:
            async with self._lock:
                for hold in list(self._all):
                    await hold.take_again()
                    if self._is_asking():  # another task of the handler asked while this one waited
                        hold.give_back()
        finally:
            self._resume_clock(limited)

    def _is_asking(self) -> bool:
        return self._asking > 0

    def shorten(self, limited: TimeLimited, seconds: float) -> None:
        """Let the handler work for at most *seconds* more."""
        if self._pauses:
            self._work_left = min(self._work_left, seconds)
        else:
            limited.deadline = min(limited.deadline, trio.current_time() + seconds)

    def _stop_clock(self, limited: TimeLimited) -> None:
        self._pauses += 1
        if self._pauses == 1:
            self._work_left, limited.deadline = limited.deadline - trio.current_time(), math.inf

    def _resume_clock(self, limited: TimeLimited) -> None:
        self._pauses -= 1
        if self._pauses == 0:
            limited.deadline = trio.current_time() + self._work_left
