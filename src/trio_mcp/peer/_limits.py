"""Every bound of the engine in one object, finite by default."""

from __future__ import annotations

import math
import os
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from types import TracebackType
from typing import Any

import trio
from attrs import Attribute, define, field, frozen

__all__ = ["BUSY", "ConnectionStatistics", "Limits", "PausableTimeouts"]

BUSY = -31_000
"""The error code, in the application's range, of a request refused because too many wait already."""


@cache
def _processors() -> int:
    """Return how many this machine has: to ask the system takes longer than all else that is done to make limits."""
    return os.cpu_count() or 1


def _positive(_: object, attribute: Attribute[Any], value: float) -> None:
    if isinstance(value, bool) or math.isnan(value) or value <= 0:
        raise ValueError(f"Limits({attribute.name}={value!r}): must be a number above 0")


@frozen(kw_only=True)
class Limits:
    """What one connection may cost. Bytes are bytes on the wire, times are seconds; `math.inf` lifts a time limit."""

    max_message_bytes: int = field(default=64 * 2**20, validator=_positive)
    """The longest message read. A longer one is skipped and answered with an error, which cannot name the request: its
    id is in what was skipped."""
    max_in_flight: int = field(default=1024, validator=_positive)
    """Requests of one connection whose handlers run at once; more wait. Likewise the questions of one result that a
    client's callbacks are asked at once."""
    max_queued: int = field(default=4096, validator=_positive)
    """Requests of one connection that wait for a handler; more are refused as busy. Also the longest batch read."""
    max_running: int = field(default=4096, validator=_positive)
    """Handlers of one serving that run at once, over all its connections; more wait, within the limits above, and the
    connections are taken in turn. Likewise the callbacks of a client that are asked at once."""
    max_listens: int = field(default=64, validator=_positive)
    """Requests of one connection that listen for changes (`subscriptions/listen`) at once; more are refused as busy.
    They count for none of the limits above, because they last."""
    max_subscriptions: int = field(default=1024, validator=_positive)
    """Resources about whose changes one listening request, or one handshaken connection, may ask to be told; more are
    refused."""
    max_updates: int = field(default=16_384, validator=_positive)
    """Updates of one exchange that may wait unread; beyond it the oldest goes, and is counted."""
    max_update_bytes: int = field(default=4 * 2**20, validator=_positive)
    """Bytes of updates of one exchange that may wait unread."""
    max_link_update_bytes: int = field(default=64 * 2**20, validator=_positive)
    """Bytes of updates of one connection that may wait unread; the exchange that holds most gives way."""
    outbox_bytes: int = field(default=256 * 2**10, validator=_positive)
    """Bytes that may wait to be sent before senders wait."""
    outbox_urgent_bytes: int = field(default=4 * 2**20, validator=_positive)
    """Bytes of replies that nobody can wait for (refusals, cancellations); a peer that makes us hold more loses the
    link."""
    stall_seconds: float = field(default=120.0, validator=_positive)
    """A peer that reads nothing for this long while something waits for it loses the link."""
    drain_seconds: float = field(default=5.0, validator=_positive)
    """How long accepted requests may go on after the other side's input ended, or after a stop was asked for."""
    max_posts: int = field(default=256, validator=_positive)
    """Requests that a client over HTTP has under way at once, each on a connection of its own; more wait. Those that
    listen for changes count for none."""
    max_threads: int = field(default=40, validator=_positive)
    """Worker threads that plain `def` handlers of one serving may occupy at once."""
    max_processes: int = field(factory=lambda: max(4, _processors()), validator=_positive)
    """Worker processes of one serving that may work at once for tools with `isolate="process"`; more calls wait. By
    default as many as the machine has processors, and at least four."""
    max_background: int = field(default=1024, validator=_positive)
    """Tasks of `Server.background` that one serving may run at once; one more raises `TooManyTasks`."""
    max_parked: int = field(default=1000, validator=_positive)
    """Handlers of one serving that may wait for answers while no request waits for them; the question of one more fails
    as `TooManyParked`."""
    ask_seconds: float = field(default=600.0, validator=_positive)
    """How long a question to the client, its user or its model stays open; then it raises `AskExpired`."""
    max_rounds: int = field(default=32, validator=_positive)
    """How often a modern server may ask a client for input before it answers one request; then the request fails."""
    max_progress_per_second: float = field(default=100.0, validator=_positive)
    """Progress that one handler may tell its client in a second, on average: of what is more, the newest value is told
    as soon as it may be, or before the result. `math.inf` lifts the limit."""
    max_logs_per_second: float = field(default=100.0, validator=_positive)
    """Log messages that one handler may send its client in a second, on average; `math.inf` lifts the limit."""


# What a connection holds, as one frozen object.


@frozen(kw_only=True)
class ConnectionStatistics:
    """What a connection holds at one moment, for debugging."""

    asked: int
    """Our requests that wait for a response."""
    answering: int
    """The other side's requests that wait for one."""
    running: int
    """Handlers that run for the other side, those cleaning up after a cancellation included."""
    queued: int
    """The other side's requests that wait for a handler to end."""
    outbox_bytes: int
    """Bytes that wait to be sent."""
    update_bytes: int
    """Bytes of updates that wait to be read by callers of ours."""
    unmatched_responses: int
    """Responses since the beginning that nobody waited for: late, repeated or made up."""
    malformed: int
    """Lines since the beginning that were no message, and responses that broke a rule."""


# Time limits of blocks that stand still together while a person is being asked: nobody can say how long that takes.


@define(eq=False)
class PausableTimeouts:
    """The limits of one connection's blocks."""

    pauses: int = field(default=0, init=False)
    """How often the limits have stood still."""
    _limits: dict[trio.CancelScope, float] = field(factory=dict[trio.CancelScope, float], init=False)
    """The blocks that are being waited for; and the seconds that each has left, as of when the limits stood still."""
    _persons: int = field(default=0, init=False)

    def within(self, seconds: float) -> AbstractContextManager[trio.CancelScope, bool]:
        """Cancel the block after *seconds*, not counting the time in which a person is being asked.

        The scope says afterwards whether it was.
        """
        return _Timeout(self, seconds)

    def begin(self, scope: trio.CancelScope, seconds: float) -> None:
        """A block begins, of which *scope* is the limit."""
        self._limits[scope] = seconds
        if not self._persons:
            scope.deadline = trio.current_time() + seconds

    def end(self, scope: trio.CancelScope) -> None:
        """A block ends."""
        del self._limits[scope]

    @contextmanager
    def paused(self) -> Generator[None]:
        """Have the limits stand still for as long as the block lasts; any number of such blocks may overlap."""
        if self._persons == 0:
            self._pause()
        self._persons += 1
        try:
            yield
        finally:
            self._persons -= 1
            if self._persons == 0:
                self._go_on()

    def _pause(self) -> None:
        self.pauses += 1
        now = trio.current_time()
        for scope in self._limits:
            self._limits[scope] = scope.deadline - now
            scope.deadline = float("inf")

    def _go_on(self) -> None:
        now = trio.current_time()
        for scope, seconds in self._limits.items():
            scope.deadline = now + seconds


@define(eq=False)
class _Timeout:
    """One block. A class, because type checkers know of no generator that it may swallow what it was left with."""

    _patience: PausableTimeouts
    _seconds: float
    _scope: trio.CancelScope = field(factory=trio.CancelScope, init=False)

    def __enter__(self) -> trio.CancelScope:
        self._scope.__enter__()
        self._patience.begin(self._scope, self._seconds)
        return self._scope

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        self._patience.end(self._scope)
        return self._scope.__exit__(kind, exc, traceback)
