"""Timeouts of a client's requests: the limits, and the clocks of all requests of one connection.

Rules of this file:

1. The idle limit measures the time spent waiting for the server. Each wait restarts it, and so does each progress
   update. Time spent in a callback, or in the body of an `open_call` block, does not count.
2. The total limit measures the whole request.
3. All clocks stop while a person answers a question of the server or signs in: the time that takes is unknown, and on
   a link it is unknown which request a question belongs to.
4. A modern request whose result asks for input has ended. Its retry has its own clock, and the time in between does
   not count.

A deadline of the caller's own is set with Trio (`trio.fail_after`) and is not known here. The server is told of it, and
not of these limits; see `_requests.py`.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#timeouts
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Protocol

import trio
from attrs import Attribute, define, field, frozen

from ..peer import PausableTimeouts

__all__ = ["RequestClocks", "TimeLimits", "TimedRequest"]


def _duration(_: object, attribute: Attribute[Any], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value) or value <= 0:
        raise ValueError(f"TimeLimits({attribute.name}={value!r}): must be a number of seconds above 0")


@frozen(kw_only=True)
class TimeLimits:
    """The time limits of a client in seconds; `math.inf` disables a limit. Exceeding one raises `RequestTimedOut`."""

    idle: float = field(default=300.0, validator=_duration)
    """The longest time without a message about a request. Progress counts, if it was asked for."""
    total: float = field(default=3600.0, validator=_duration)
    """The longest time that a request may take in all."""
    connect: float = field(default=60.0, validator=_duration)
    """The longest time for opening a connection and agreeing on a revision."""
    probe: float = field(default=5.0, validator=_duration)
    """The time without an answer to `server/discover` after which the client also sends `initialize`."""


class TimedRequest(Protocol):
    """A request that has a clock."""

    def check(self, now: float) -> float:
        """Fail the request if it has reached a limit; return when to look again."""
        ...

    def resume(self, stopped_at: float) -> None:
        """Restart the clock, which has been stopped since *stopped_at*."""
        ...

    @property
    def is_awaited(self) -> bool:
        """True if a task waits for the request."""
        ...

    def interrupt(self, reason: BaseException) -> None:
        """Raise *reason* in the task that waits for the request."""
        ...


@define(eq=False)
class RequestClocks:
    """The clocks of all requests of one connection, which are paused together, and their shared timer.

    A cancel scope for each wait would cost a seventh of a call (benchmark cell `memory-1`), so all requests share one
    timer. The limits are the same for all of them, so a timer that is set for one wait is early enough for almost every
    later wait. It is set when a wait needs an earlier check, and after each check. It is never unset: a process without
    further requests wakes up once.

    Args:
        limits: the limits of each request.
    """

    limits: TimeLimits
    timeouts: PausableTimeouts = field(factory=PausableTimeouts, init=False)
    """The time limits of blocks, which are paused together with the clocks."""
    now: Callable[[], float] = field(init=False)
    """The method of Trio's clock, looked up once because each request reads the time twice."""
    running: set[TimedRequest] = field(factory=set[TimedRequest], init=False)
    """The requests whose clocks run."""
    stopped_at: float = field(default=math.inf, init=False)
    """The time at which the clocks were paused, on Trio's clock; infinite while they run."""
    next_check: float = field(default=math.inf, init=False)
    """The time at which the timer checks the clocks."""
    _pauses: int = field(default=0, init=False)
    _timer: trio.CancelScope = field(factory=trio.CancelScope, init=False)

    def __attrs_post_init__(self) -> None:
        self.now = trio.lowlevel.current_clock().current_time

    async def run(self) -> None:
        """Fail requests that reach a limit, for ever. Runs in one task of the connection."""
        while True:
            with self._timer:
                await trio.sleep_forever()
            self._timer, self.next_check = trio.CancelScope(), math.inf
            self._check()

    def check_at(self, time: float) -> None:
        """Check the clocks at *time* or earlier."""
        if time < self.next_check:
            self.next_check = self._timer.deadline = time

    def _check(self) -> None:
        if math.isinf(self.stopped_at):
            now = self.now()
            self.check_at(min((attempt.check(now) for attempt in [*self.running]), default=math.inf))

    def interrupt_only(self, reason: BaseException) -> None:
        """Raise *reason* in the task that waits for a request, if there is exactly one such request."""
        awaited = [attempt for attempt in self.running if attempt.is_awaited]
        if len(awaited) == 1:
            awaited[0].interrupt(reason)

    @contextmanager
    def paused(self) -> Generator[None]:
        """Pause the clocks while a person is asked."""
        if self._pauses == 0:
            self.stopped_at = self.now()
        self._pauses += 1
        try:
            with self.timeouts.paused():
                yield
        finally:
            self._pauses -= 1
            if self._pauses == 0:
                stopped_at, self.stopped_at = self.stopped_at, math.inf
                for attempt in self.running:
                    attempt.resume(stopped_at)
                self._check()
