"""What a run keeps from others while it works, and gives back while a person is asked: turns, threads, time.

Rules of this file:

1. What was given back is taken again before the handler goes on where it asked, whether it was answered or refused.
   Several of its tasks may come for it at once: one takes, the others wait.
2. While something is asked nothing is taken: a task that goes on while another one waits for a person has no turn.
3. Whatever happens, a hold is released once for each time it was taken.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

import trio
from attrs import define, field

__all__ = ["Hold", "Holds"]


@define(eq=False)
class Hold:
    """One thing that is held: taken when this is made, until `close`."""

    _take: Callable[[], Awaitable[object]]
    _release: Callable[[], object]
    _is_held: bool = field(default=True, init=False)
    _closed: bool = field(default=False, init=False)

    def give_back(self) -> None:
        """Let others have it."""
        if self._is_held:
            self._is_held = False
            self._release()

    async def take_again(self) -> None:
        """Have it again; waits for others. If cancelled, it is not held."""
        if not self._is_held and not self._closed:
            await self._take()
            self._taken()

    def _taken(self) -> None:
        self._is_held = True
        if self._closed:  # its owner has ended meanwhile: a thread that was left, say
            self.give_back()

    def close(self) -> None:
        """Give it back for good."""
        self._closed = True
        self.give_back()


@define(eq=False)
class Holds:
    """Everything one run holds, and the time it may still work."""

    _all: list[Hold] = field(factory=list[Hold], init=False)
    _lock: trio.Lock | None = field(default=None, init=False)
    """Made when it is needed: most runs ask nothing."""
    _asking: int = field(default=0, init=False)
    """How often everything was given back and the answers have not come."""
    _work_left: float = field(default=math.inf, init=False)
    """Seconds that the handler could still work when its clock was stopped."""
    _pauses: int = field(default=0, init=False)
    """How many things are waited for that stop the clock."""

    def add(self, hold: Hold) -> None:
        """Hold one more thing."""
        self._all.append(hold)

    def drop(self, hold: Hold) -> None:
        """Give it back, for good."""
        self._all.remove(hold)
        hold.close()

    def give_back(self, scope: trio.CancelScope) -> None:
        """Let others have everything, and stop the clock of *scope* until `start_clock` was called as often."""
        self._asking += 1
        self._pause(scope)
        for hold in self._all:
            hold.give_back()

    def start_clock(self, scope: trio.CancelScope) -> None:
        """Let the time that was left when the clock was stopped run again, in *scope*."""
        self._asking -= 1
        self._go_on(scope)

    async def take_again(self, scope: trio.CancelScope) -> None:
        """Take what was given back, unless something else is asked: then whoever waits for that takes it.

        The clock of *scope* stands still meanwhile, as it did before the handler had its first turn.
        """
        if not self._all or self._is_asking():
            return
        self._pause(scope)
        self._lock = self._lock or trio.Lock()
        try:
            async with self._lock:
                for hold in list(self._all):
                    await hold.take_again()
                    if self._is_asking():  # another task of the handler has asked while this one waited
                        hold.give_back()
        finally:
            self._go_on(scope)

    def _is_asking(self) -> bool:
        return self._asking > 0

    def shorten(self, scope: trio.CancelScope, seconds: float) -> None:
        """Let the handler work for at most *seconds* more."""
        if self._pauses:
            self._work_left = min(self._work_left, seconds)
        else:
            scope.deadline = min(scope.deadline, trio.current_time() + seconds)

    def _pause(self, scope: trio.CancelScope) -> None:
        self._pauses += 1
        if self._pauses == 1:
            self._work_left, scope.deadline = scope.deadline - trio.current_time(), math.inf

    def _go_on(self, scope: trio.CancelScope) -> None:
        self._pauses -= 1
        if self._pauses == 0:
            scope.deadline = trio.current_time() + self._work_left
