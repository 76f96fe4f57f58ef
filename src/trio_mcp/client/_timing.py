"""The time policy of a connection: how long a request may be silent, and how long it may take in all.

Rules of this file:

1. The idle limit measures waiting for the other side: each wait begins it anew, and so does each update. Time that a
   callback or the body of an `open_call` block takes is not waiting.
2. The total limit measures the whole request.
3. Both stand still while a person answers a question of the server, because nobody can say how long that takes, and
   on a link nobody can say which request the question belongs to.

A caller's own deadline is Trio's business (`trio.fail_after`), and not known here.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#timeouts
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

import trio
from attrs import Attribute, define, field, frozen

from .._errors import RequestTimedOut
from ..peer import Asked

__all__ = ["RequestClock", "Stopwatch", "TimeLimits"]

T = TypeVar("T")


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
    """The clocks of all requests of one connection, which stand still together.

    Args:
        limits: what each request may take.
    """

    limits: TimeLimits
    running: set[RequestClock] = field(factory=set["RequestClock"], init=False)
    stopped_at: float = field(default=math.inf, init=False)
    """When the clocks were stopped, on Trio's clock; infinite while they run."""
    _persons: int = field(default=0, init=False)

    @contextmanager
    def stopped(self) -> Generator[None]:
        """Stop the clocks for as long as a person is being asked."""
        if self._persons == 0:
            self.stopped_at = trio.current_time()
            for clock in self.running:
                clock.stop()
        self._persons += 1
        try:
            yield
        finally:
            self._persons -= 1
            if self._persons == 0:
                stopped_at, self.stopped_at = self.stopped_at, math.inf
                for clock in self.running:
                    clock.go_on(stopped_at)


@define(eq=False)
class RequestClock:
    """The clock of one request, from `start` to `end`."""

    _stopwatch: Stopwatch
    _method: str
    _began: float = field(default=0.0, init=False)
    _total_deadline: float = field(default=math.inf, init=False)
    _wait: trio.CancelScope | None = field(default=None, init=False)
    _wait_deadline: float = field(default=math.inf, init=False)

    def start(self) -> None:
        """The request begins."""
        self._began = trio.current_time()
        self._total_deadline = self._began + self._stopwatch.limits.total
        self._stopwatch.running.add(self)

    def end(self) -> None:
        """The request is over, whatever came of it."""
        self._stopwatch.running.discard(self)

    async def wait(self, asked: Asked, receive: Callable[[], Awaitable[T]]) -> T:
        """Return what *receive* returns.

        Args:
            receive: waits for something of *asked*.

        Raises:
            RequestTimedOut: a limit was reached first.
        """
        heard = trio.current_time()
        while True:
            self._wait = trio.CancelScope(deadline=self._deadline(heard))
            with self._wait:
                return await receive()
            self._wait = None
            heard = asked.last_heard
            self._check(heard)

    def _deadline(self, heard: float) -> float:
        self._wait_deadline = min(heard + self._stopwatch.limits.idle, self._total_deadline)
        return self._wait_deadline if math.isinf(self._stopwatch.stopped_at) else math.inf

    def _check(self, heard: float) -> None:
        """Raise if a limit is really reached: updates may have come in that nobody has read yet."""
        now, limits = trio.current_time(), self._stopwatch.limits
        if now >= self._total_deadline:
            raise RequestTimedOut(f"{self._method!r} took longer than {limits.total:g} s in all (TimeLimits.total)")
        if now >= heard + limits.idle:
            raise RequestTimedOut(f"{self._method!r}: nothing was heard for {limits.idle:g} s (TimeLimits.idle)")

    def stop(self) -> None:
        """A person is being asked from now on."""
        if self._wait is not None:
            self._wait.deadline = math.inf

    def go_on(self, stopped_at: float) -> None:
        """The person has answered; *stopped_at* is when the clocks were stopped."""
        lost = trio.current_time() - max(stopped_at, self._began)
        self._total_deadline += lost
        self._wait_deadline += lost
        if self._wait is not None:
            self._wait.deadline = self._wait_deadline
