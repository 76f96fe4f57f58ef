"""Plain `def` handlers in worker threads of the serving's own number, which its connections take in turns.

A thread cannot be cancelled. When its request is, the thread is abandoned: nobody waits for it, but it keeps its
token until it really ends, so that abandoned threads count against the limit. A handler that may take long asks
`trio.from_thread.check_cancelled` now and then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import trio
from attrs import define, field

from ..peer import FairLimiter, HandlerRun, Hold

__all__ = ["Threads", "clock_stands_still", "take_turn"]

T = TypeVar("T")

_held: WeakKeyDictionary[Any, list[float]] = WeakKeyDictionary()
"""For every test clock with handlers at work in threads, its own threshold, once for each of them."""


@contextmanager
def clock_stands_still() -> Generator[None]:
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
    _turns: FairLimiter = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._turns = FairLimiter(self.limit)

    @property
    def working(self) -> int:
        """Threads at work now, abandoned ones included."""
        return self._turns.taken

    async def run(
        self,
        function: Callable[[], T],
        run: HandlerRun,
        *,
        turns: FairLimiter | None = None,
        on_begin: Callable[[], object] = lambda: None,
    ) -> T:
        """Call *function* in a thread; cancelled, leave it behind.

        Args:
            run: the handler it is; what it holds here is given back while it waits for a person.
            turns: bounds further how many threads work at once; a turn ends when its thread does.
            on_begin: called when the function's turn has come.
        """
        with clock_stands_still():
            limiter: Any = _Permit(run, [self._turns] if turns is None else [turns, self._turns], on_begin)
            return await trio.to_thread.run_sync(function, abandon_on_cancel=True, limiter=limiter)


async def take_turn(run: HandlerRun, turns: FairLimiter) -> Hold:
    """Take a turn for *run*, which gives it back while it waits for a person; `Holds.drop` must follow."""

    async def take() -> None:
        await turns.acquire(run.group)

    await take()
    hold = Hold(take, turns.release)
    run.holds.add(hold)
    return hold


@define(eq=False)
class _Permit:
    """What Trio asks for leave to run one thread, and tells when the thread has ended, abandoned or not."""

    _run: HandlerRun
    _turns: Sequence[FairLimiter]
    """What it takes, one after the other."""
    _on_begin: Callable[[], object]
    _held: list[Hold] = field(factory=list[Hold], init=False)

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        """Wait for a turn, and then for a thread."""
        try:
            for turns in self._turns:
                self._held.append(await take_turn(self._run, turns))
        except BaseException:
            self.release_on_behalf_of(borrower)
            raise
        self._on_begin()

    def release_on_behalf_of(self, _: object) -> None:
        """The thread has ended."""
        for hold in self._held:
            self._run.holds.drop(hold)
