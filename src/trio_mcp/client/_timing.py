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
from ..wire import ExchangeState, JsonObject

__all__ = ["Attempt", "Stopwatch", "TimeLimits"]

_OPEN = ExchangeState.OPEN  # found once, because a member of an enumeration is slow to find


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
    now: Callable[[], float] = field(init=False)
    """Trio's clock, found once: each request asks for the time twice."""
    running: set[Attempt] = field(factory=set["Attempt"], init=False)
    """Those whose clocks run."""
    stopped_at: float = field(default=math.inf, init=False)
    """When the clocks were stopped, on Trio's clock; infinite while they run."""
    looks_at: float = field(default=math.inf, init=False)
    """When the timer looks at the clocks."""
    _persons: int = field(default=0, init=False)
    _timer: trio.CancelScope = field(factory=trio.CancelScope, init=False)

    def __attrs_post_init__(self) -> None:
        self.now = trio.lowlevel.current_clock().current_time

    async def run(self) -> None:
        """Give up the requests that reach a limit, for ever. Runs in one task of the connection."""
        while True:
            with self._timer:
                await trio.sleep_forever()
            self._timer, self.looks_at = trio.CancelScope(), math.inf
            self._look()

    def look_at(self, time: float) -> None:
        """Look at the clocks at *time*, if not before."""
        if time < self.looks_at:
            self.looks_at = self._timer.deadline = time

    def _look(self) -> None:
        if math.isinf(self.stopped_at):
            now = self.now()
            self.look_at(min((attempt.judge(now) for attempt in self.running), default=math.inf))

    @contextmanager
    def stopped(self) -> Generator[None]:
        """Stop the clocks for as long as a person is being asked."""
        if self._persons == 0:
            self.stopped_at = self.now()
        self._persons += 1
        try:
            with self.patience.paused():
                yield
        finally:
            self._persons -= 1
            if self._persons == 0:
                stopped_at, self.stopped_at = self.stopped_at, math.inf
                for attempt in self.running:
                    attempt.go_on(stopped_at)
                self._look()


@define(eq=False)
class Attempt:
    """One attempt at a request, and its clock: `begin` sends it, `leave` ends it.

    What only hands on what is to be awaited is no coroutine itself: whoever is resumed passes through all of them.
    """

    _stopwatch: Stopwatch
    asked: Asked
    _began: float = field(init=False)
    _total_deadline: float = field(init=False)
    _heard: float = field(init=False)
    """When the idle limit began last, unless an update has come since."""

    async def begin(self) -> None:
        """Send the request; `leave` must follow. If it cannot be sent, it is over.

        Raises:
            RequestTimedOut: it could not be sent within the total limit.
        """
        asked = self.asked
        if not asked.begins_at_once():
            await self._begin_in_time()
            return
        await asked.begin()
        if asked.state is _OPEN:  # else the answer is there, and nobody will wait
            self._start()

    async def _begin_in_time(self) -> None:
        self._start()
        with self._stopwatch.patience.within(self._stopwatch.limits.total) as scope:
            try:
                await self.asked.begin()
            except BaseException:
                self._stopwatch.running.discard(self)
                raise
        if scope.cancelled_caught:
            raise self._too_long()

    def _start(self) -> None:
        stopwatch = self._stopwatch
        self._began = self._heard = now = stopwatch.now()
        self._total_deadline = now + stopwatch.limits.total
        stopwatch.running.add(self)

    def leave(self) -> None:
        """End the attempt; synchronous, and harmless when it has ended already."""
        self._stopwatch.running.discard(self)
        self.asked.leave()

    def next_update(self) -> Awaitable[tuple[str, JsonObject] | None]:
        """Wait for the next update; None when the outcome has arrived.

        Raises:
            RequestTimedOut: a limit is reached.
        """
        if self.asked.state is _OPEN:  # else the outcome is there, however late it is asked for
            self._begin_wait()
        return self.asked.next_update()

    def result(self) -> Awaitable[JsonObject]:
        """Wait for the result.

        Raises:
            RequestTimedOut: a limit is reached.
        """
        if self.asked.state is _OPEN:
            self._begin_wait()
        return self.asked.result()

    def _begin_wait(self) -> None:
        """From now on the other side is waited for. When a limit is reached, the wait raises `RequestTimedOut`."""
        stopwatch = self._stopwatch
        self._heard = now = stopwatch.now()
        if now >= self._total_deadline and math.isinf(stopwatch.stopped_at):
            raise self._timed_out(now)
        deadline = min(now + stopwatch.limits.idle, self._total_deadline)
        if deadline < stopwatch.looks_at:  # which is rare
            stopwatch.look_at(deadline)

    def judge(self, now: float) -> float:
        """Give the request up if a limit is reached; return when to look again, infinite where nobody waits."""
        if not self.asked.receiving:
            return math.inf
        # Updates may have come in that nobody has read yet.
        deadline = min(max(self._heard, self.asked.last_heard) + self._stopwatch.limits.idle, self._total_deadline)
        if now < deadline:
            return deadline
        self.asked.interrupt(self._timed_out(now))
        return math.inf

    def _timed_out(self, now: float) -> RequestTimedOut:
        method, limits = self.asked.method, self._stopwatch.limits
        if now >= self._total_deadline:
            return self._too_long()
        return RequestTimedOut(f"{method!r}: nothing was heard for {limits.idle:g} s (TimeLimits.idle)")

    def _too_long(self) -> RequestTimedOut:
        total = self._stopwatch.limits.total
        return RequestTimedOut(f"{self.asked.method!r} took longer than {total:g} s in all (TimeLimits.total)")

    def go_on(self, stopped_at: float) -> None:
        """The person has answered; *stopped_at* is when the clocks were stopped."""
        now = self._stopwatch.now()
        self._total_deadline += now - max(stopped_at, self._began)
        heard = max(self._heard, self.asked.last_heard)
        self._heard = heard + now - max(stopped_at, heard)
