"""The worker threads of plain `def` handlers, limited for each serving and shared fairly by its connections.

A thread cannot be cancelled. When its request is cancelled, the thread is abandoned: no task waits for it, but it keeps
its place until it ends, so that abandoned threads count against the limit. A handler that may take long calls
`trio.from_thread.check_cancelled` from time to time.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import trio
from attrs import define, field

from .._misuse import unawaited
from ..peer import FairLimiter, HandlerRun, Hold
from ._stopping import StuckTask, name_of, place_in_thread

__all__ = ["Threads", "clock_stands_still", "take_place"]

T = TypeVar("T")

_held: WeakKeyDictionary[Any, list[float]] = WeakKeyDictionary()
"""The original threshold of each test clock, once for each thread at work."""


@contextmanager
def clock_stands_still() -> Generator[None]:
    """Keep a test's autojump clock from jumping, because to Trio a program that waits for a thread is idle."""
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
        original = thresholds.pop()
        if not thresholds:
            clock.autojump_threshold = original


@define(eq=False)
class Threads:
    """The worker threads of one serving.

    Args:
        limit: the threads that work at once, including abandoned ones; further handlers wait.
    """

    limit: int
    _limiter: FairLimiter = field(init=False)
    _runs: dict[int, HandlerRun] = field(factory=dict[int, HandlerRun], init=False)
    """The handler run of each thread at work, by the identity of the thread."""

    def __attrs_post_init__(self) -> None:
        self._limiter = FairLimiter(self.limit, leaves_places=True)

    @property
    def working(self) -> int:
        """The number of threads at work, including abandoned ones."""
        return self._limiter.taken

    def at_work(self) -> Sequence[StuckTask]:
        """Return the handlers whose threads are at work, with the lines at which these stand."""
        return [StuckTask(name_of(run.request), place_in_thread(thread)) for thread, run in [*self._runs.items()]]

    def by_run(self) -> Mapping[HandlerRun, int]:
        """Return the identities of the threads that work for handlers."""
        return {run: thread for thread, run in [*self._runs.items()]}

    async def run(
        self,
        function: Callable[[], T],
        run: HandlerRun,
        *,
        limiter: FairLimiter | None = None,
        hold: Hold | None = None,
        on_begin: Callable[[], object] = lambda: None,
    ) -> T:
        """Call *function* in a thread; if cancelled, abandon the thread.

        Args:
            run: the handler run; it gives back its place while it waits for an answer.
            limiter: a further limit of concurrent threads; a place is given back when the thread ends.
            hold: a place that the run has taken before, and that this gives back when the thread ends.
            on_begin: called when the function starts.
        """

        def work() -> T:
            thread = threading.get_ident()
            self._runs[thread] = run
            try:
                value = function()
            finally:
                del self._runs[thread]
            if fault := unawaited(value):  # Trio would blame itself
                raise TypeError(f"what the handler returned cannot be sent: {fault}")
            return value

        with clock_stands_still():
            limiters = [self._limiter] if limiter is None else [limiter, self._limiter]
            permit = _Permit(run, limiters, on_begin, hold)
            try:
                return await trio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=cast("Any", permit))
            finally:
                permit.close_unused()


async def take_place(run: HandlerRun, limiter: FairLimiter) -> Hold:
    """Take a place for *run*, which gives it back while it waits for an answer; `Holds.drop` must follow."""
    sender = run.slots

    async def take() -> None:
        nonlocal sender
        sender = run.slots  # the retry of a request may come from another address
        await limiter.acquire(sender)

    await take()
    hold = Hold(take, lambda: limiter.release(sender))
    run.holds.add(hold)
    return hold


@define(eq=False)
class _Permit:
    """A capacity limiter for one thread: Trio acquires it before the thread starts, and releases it when it ends."""

    _run: HandlerRun
    _limiters: Sequence[FairLimiter]
    """The limiters to acquire, in this order."""
    _on_begin: Callable[[], object]
    _taken_before: Hold | None
    """A place to give back with the others; None after it was added to them."""
    _held: list[Hold] = field(factory=list[Hold], init=False)

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        """Wait for a place of each limiter."""
        if self._taken_before is not None:
            self._held.append(self._taken_before)
            self._taken_before = None
        try:
            for limiter in self._limiters:
                self._held.append(await take_place(self._run, limiter))
        except BaseException:
            self.release_on_behalf_of(borrower)
            raise
        self._on_begin()

    def release_on_behalf_of(self, _: object) -> None:
        """Give back the places, because the thread has ended."""
        for hold in self._held:
            self._run.holds.drop(hold)

    def close_unused(self) -> None:
        """Give back the place that was taken before, if Trio was cancelled before it acquired this."""
        if self._taken_before is not None:
            self._run.holds.drop(self._taken_before)
