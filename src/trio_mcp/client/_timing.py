"""The time policy of a connection: how long a request may be silent, and how long it may take in all.

Rules of this file:

1. The idle limit measures waiting for the other side: each wait begins it anew, and so does each update. Time that a
   callback or the body of an `open_call` block takes is not waiting.
2. The total limit measures the whole request.
3. All limits stand still while a person answers a question of the server, or signs in, because nobody can say how long
   that takes, and on a link nobody can say which request a question belongs to.
4. A modern request that asks is over: its retry has clocks of its own, and the time in between counts for nothing.

A caller's own deadline is Trio's business (`trio.fail_after`), and not known here.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#timeouts
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any

import trio
from attrs import Attribute, define, field, frozen

from .._errors import RequestTimedOut
from ..peer import Asked, Patience

__all__ = ["RequestClock", "Stopwatch", "TimeLimits"]


def _duration(_: object, attribute: Attribute[Any], value: float) -> None:
    if isinstance(value, bool) or math.isnan(value) or value <= 0:
        raise ValueError(f"TimeLimits({attribute.name}={value!r}): must be a number of seconds above 0")


@frozen(kw_only=True)
class TimeLimits:
    """How long a client waits, in seconds; `math.inf` lifts a limit. What exceeds one raises `RequestTimedOut`."""

    idle: float = field(default=300.0, validator=_duration)
    """A request whose other side says nothing for this long is given up. Progress counts, where it was asked for."""
    total: float = field(default=3600.0, validator=_duration)
    """A request that takes longer than this in all is given up."""
    connect: float = field(default=60.0, validator=_duration)
    """How long opening may take, until both sides know what they speak."""
    probe: float = field(default=5.0, validator=_duration)
    """A server that has not answered `server/discover` after this long is asked to `initialize` as well."""


@define(eq=False)
class Stopwatch:
    """The clocks of all requests of one connection, which stand still together, and the one timer they share.

    One timer, because a cancel scope for each wait would be a seventh of what a call costs. Limits are the same for
    all requests, so the time at which the timer looks is early enough for almost every wait that begins after it was
    set: it is set when a wait needs it earlier, and when it has looked. Nothing unsets it, so a process that asks for
    nothing any more wakes up once.

    Args:
        limits: what each request may take.
    """

    limits: TimeLimits
    patience: Patience = field(factory=Patience, init=False)
    """The limits of blocks, which stand still with the clocks."""
    running: set[RequestClock] = field(factory=set["RequestClock"], init=False)
    stopped_at: float = field(default=math.inf, init=False)
    """When the clocks were stopped, on Trio's clock; infinite while they run."""
    _persons: int = field(default=0, init=False)
    _timer: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _looks_at: float = field(default=math.inf, init=False)

    async def run(self) -> None:
        """Give up the requests that reach a limit, for ever. Runs in one task of the connection."""
        while True:
            with self._timer:
                await trio.sleep_forever()
            self._timer, self._looks_at = trio.CancelScope(), math.inf
            self._look()

    def look_at(self, time: float) -> None:
        """Look at the clocks at *time*, if not before."""
        if time < self._looks_at:
            self._looks_at = self._timer.deadline = time

    def _look(self) -> None:
        if math.isinf(self.stopped_at):
            now = trio.current_time()
            self.look_at(min((clock.judge(now) for clock in self.running), default=math.inf))

    @contextmanager
    def stopped(self) -> Generator[None]:
        """Stop the clocks for as long as a person is being asked."""
        if self._persons == 0:
            self.stopped_at = trio.current_time()
        self._persons += 1
        try:
            with self.patience.paused():
                yield
        finally:
            self._persons -= 1
            if self._persons == 0:
                stopped_at, self.stopped_at = self.stopped_at, math.inf
                for clock in self.running:
                    clock.go_on(stopped_at)
                self._look()


@define(eq=False)
class RequestClock:
    """The clock of one request, from `start` to `end`."""

    _stopwatch: Stopwatch
    _asked: Asked
    _began: float = field(default=0.0, init=False)
    _total_deadline: float = field(default=math.inf, init=False)
    _heard: float = field(default=-math.inf, init=False)
    """When the idle limit began last, unless an update has come since."""

    def start(self) -> None:
        """The request begins."""
        stopwatch = self._stopwatch
        self._began = trio.current_time()
        self._total_deadline = self._began + stopwatch.limits.total
        stopwatch.running.add(self)

    def end(self) -> None:
        """The request is over, whatever came of it."""
        self._stopwatch.running.discard(self)

    def begin_wait(self) -> None:
        """From now on the other side is waited for. When a limit is reached, the wait raises `RequestTimedOut`.

        Raises:
            RequestTimedOut: the total limit is reached already.
        """
        stopwatch = self._stopwatch
        self._heard = now = trio.current_time()
        if now >= self._total_deadline and math.isinf(stopwatch.stopped_at):
            raise self._timed_out(now)
        stopwatch.look_at(min(now + stopwatch.limits.idle, self._total_deadline))

    async def bounded(self, send: Callable[[], Awaitable[object]]) -> None:
        """Await *send*, with which the request begins and which waits for the other side to read, in the total limit.

        Raises:
            RequestTimedOut: the limit is reached.
        """
        with self._stopwatch.patience.within(self._stopwatch.limits.total) as scope:
            await send()
        if scope.cancelled_caught:
            raise self._too_long()

    def judge(self, now: float) -> float:
        """Give the request up if a limit is reached; return when to look again, infinite where nobody waits."""
        if not self._asked.receiving:
            return math.inf
        # Updates may have come in that nobody has read yet.
        deadline = min(max(self._heard, self._asked.last_heard) + self._stopwatch.limits.idle, self._total_deadline)
        if now < deadline:
            return deadline
        self._asked.interrupt(self._timed_out(now))
        return math.inf

    def _timed_out(self, now: float) -> RequestTimedOut:
        method, limits = self._asked.method, self._stopwatch.limits
        if now >= self._total_deadline:
            return self._too_long()
        return RequestTimedOut(f"{method!r}: nothing was heard for {limits.idle:g} s (TimeLimits.idle)")

    def _too_long(self) -> RequestTimedOut:
        total = self._stopwatch.limits.total
        return RequestTimedOut(f"{self._asked.method!r} took longer than {total:g} s in all (TimeLimits.total)")

    def go_on(self, stopped_at: float) -> None:
        """The person has answered; *stopped_at* is when the clocks were stopped."""
        now = trio.current_time()
        self._total_deadline += now - max(stopped_at, self._began)
        heard = max(self._heard, self._asked.last_heard)
        self._heard = heard + now - max(stopped_at, heard)
