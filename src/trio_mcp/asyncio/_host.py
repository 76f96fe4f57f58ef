"""The ticks of a Trio guest run on an asyncio loop, which waits for the I/O of Trio as well as for its own.

By itself, a guest run waits for I/O in a thread, and each wait costs several switches between threads. Here the loop
watches the epoll of Trio as a file, and runs a tick when that is readable, a task was scheduled, or a deadline passed.

Rules of this file:

1. Trio does not start a thread if it has something to do at once. So its clock says so always, and this file holds the
   tick that Trio then asks for until there is a reason for it.
2. Trio has no public name for its epoll, nor for the events that a tick will handle. If either is not found, or the
   loop cannot watch files, Trio waits in its thread.
3. A tick is a callback of the loop, never a part of a task of asyncio: Trio's tasks must not see a current one.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

import trio
from attrs import define, field
from outcome import Outcome, Value

__all__ = ["LoopHost"]

AT_ONCE = 16
"""The number of ticks that run before the loop has its turn."""


@define(eq=False)
class LoopHost(trio.abc.Clock, trio.abc.Instrument):
    """A host of one guest run: its clock, and what decides when it ticks."""

    _loop: asyncio.AbstractEventLoop
    _done: Callable[[Outcome[None]], object] = field(init=False)
    _epoll: int | None = field(default=None, init=False)
    """A descriptor of Trio's epoll that the loop watches; None while Trio waits in a thread."""
    _is_tried: bool = field(default=False, init=False)
    _next: Callable[[], object] = field(init=False, repr=False)
    """The tick that Trio has asked for."""
    _idle: float = field(default=0.0, init=False)
    """Seconds until the next deadline of Trio, after a tick that left no task to run; else 0."""
    _is_running: bool = field(default=False, init=False)
    _scheduled: asyncio.Handle | None = field(default=None, init=False)
    _timer: asyncio.TimerHandle | None = field(default=None, init=False)

    def start(self, main: Callable[[], Awaitable[None]], done: Callable[[Outcome[None]], object]) -> None:
        """Start a guest run of *main*, and call *done* at its end."""
        self._done = done
        trio.lowlevel.start_guest_run(
            main,
            run_sync_soon_threadsafe=self._loop.call_soon_threadsafe,
            run_sync_soon_not_threadsafe=self._hold,
            done_callback=self._finish,
            host_uses_signal_set_wakeup_fd=True,
            clock=self,
            instruments=[self],
        )

    # --- The clock and the instrument ---

    def start_clock(self) -> None:
        """Do nothing: the clock of the system runs."""

    def current_time(self) -> float:
        """Return the time in seconds."""
        return time.monotonic()

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Return the seconds until *deadline*, but 0 while the loop waits instead of Trio."""
        self._idle = deadline - time.monotonic()
        return self._idle if self._epoll is None else 0.0

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        """Have a tick run soon, if asyncio has scheduled the task."""
        del task  # which one does not matter
        if self._epoll is not None and not self._is_running:
            self._schedule()

    # --- Ticks ---

    def _hold(self, tick: Callable[[], object]) -> None:
        """Keep the next tick until there is a reason for it."""
        self._next = tick
        if not self._is_tried:
            self._is_tried = True
            self._epoll = self._watched(tick)
        if self._epoll is None:
            self._loop.call_soon(tick)
        elif not self._is_running:
            self._schedule()

    def _watched(self, tick: Callable[[], object]) -> int | None:
        """Have the loop watch Trio's epoll; return a descriptor of it, or None if that is not possible."""
        epoll = _epoll_of(tick)
        if epoll is None:
            return None
        copied = os.dup(epoll)  # Trio closes its own before it says that it ends
        try:
            self._loop.add_reader(copied, self._run)
        except NotImplementedError:
            os.close(copied)
            return None
        return copied

    def _schedule(self) -> None:
        if self._scheduled is None:
            self._scheduled = self._loop.call_soon(self._run)

    def _run(self) -> None:
        """Run ticks until Trio has nothing to do, or the loop should have its turn."""
        if self._scheduled is not None:
            self._scheduled.cancel()
            self._scheduled = None
        self._is_running = True
        try:
            for _ in range(AT_ONCE):
                self._idle = 0.0
                self._next()
                if self._epoll is None:  # the run ended
                    return
                if self._idle > 0.0 and not _has_events(self._next):
                    break
            else:
                self._schedule()
                return
        finally:
            self._is_running = False
        self._wake_after(self._idle)

    def _wake_after(self, seconds: float) -> None:
        """Set the timer to *seconds*; one that expires before is kept, and sets it again."""
        until = self._loop.time() + seconds
        if self._timer is not None:
            if self._timer.when() <= until:
                return
            self._timer.cancel()
            self._timer = None
        if until < math.inf:
            self._timer = self._loop.call_at(until, self._expire)

    def _expire(self) -> None:
        self._timer = None
        self._run()

    def _finish(self, outcome: Outcome[None]) -> None:
        if self._epoll is not None:
            self._loop.remove_reader(self._epoll)
            os.close(self._epoll)
            self._epoll = None
        if self._timer is not None:
            self._timer.cancel()
        self._done(outcome)


def _epoll_of(tick: Callable[[], object]) -> int | None:
    """Return the descriptor of the epoll that the run of a tick waits with; None if it has none."""
    state = cast("Any", tick).__self__
    epoll = getattr(getattr(getattr(state, "runner", None), "io_manager", None), "_epoll", None)
    return None if epoll is None or not hasattr(state, "unrolled_run_next_send") else epoll.fileno()


def _has_events(tick: Callable[[], object]) -> bool:
    """Return True if a tick will handle events, or an error of the wait for them."""
    events: Outcome[Any] = cast("Any", tick).__self__.unrolled_run_next_send
    return not isinstance(events, Value) or bool(events.value)
