"""The limits of a connection: every bound in one object, finite by default, its counts, and timeouts that can pause."""

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

__all__ = ["BUSY", "Limits", "PausableTimeouts"]

BUSY = -31_000
"""The error code, in the range of applications, of a request that is refused because too many wait already."""


@cache
def _processors() -> int:
    """Return the number of processors, cached because asking the system is slow."""
    return os.cpu_count() or 1


def _positive(_: object, attribute: Attribute[Any], value: float) -> None:
    if isinstance(value, bool) or math.isnan(value) or value <= 0:
        raise ValueError(f"Limits({attribute.name}={value!r}): must be a number above 0")


@frozen(kw_only=True)
class Limits:
    """The limits of one connection, and of what all clients of a server share.

    Bytes are bytes on the wire, times are seconds; `math.inf` lifts a time limit. A client is an authenticated
    principal, or else an address, over all its connections, sessions and revisions; or a connection without an address,
    such as a pipe.
    """

    max_message_bytes: int = field(default=64 * 2**20, validator=_positive)
    """The length of the longest message that is read. A longer one is skipped and answered with an error without id,
    because its id was skipped too."""
    max_in_flight: int = field(default=1024, validator=_positive)
    """The number of requests of one client whose handlers run at once; more wait. A handler that waits for the answer
    to a question does not count. Also the number of questions of one result that the callbacks of a client answer at
    once."""
    max_queued: int = field(default=4096, validator=_positive)
    """The number of requests of one client that may wait for a handler; more are refused as busy. Also the number of
    messages in the longest batch that is read."""
    max_running: int = field(default=4096, validator=_positive)
    """The number of handlers of one server that run at once. More wait, within the limits above; a free place goes to
    the client that has the fewest. One client may have three times as many places as it leaves free. Also the number of
    callbacks of a client that run at once."""
    max_listens: int = field(default=64, validator=_positive)
    """The number of requests of one client that listen for changes (`subscriptions/listen`) at once; more are
    refused as busy. They do not count against the limits above, because they last."""
    max_subscriptions: int = field(default=1024, validator=_positive)
    """The number of resources to whose changes one listening request, or one connection after a handshake, may
    subscribe; more are refused."""
    max_updates: int = field(default=16_384, validator=_positive)
    """The number of updates of one exchange that may wait unread. Beyond it the oldest is dropped and counted."""
    max_update_bytes: int = field(default=4 * 2**20, validator=_positive)
    """The number of bytes of updates of one exchange that may wait unread."""
    max_link_update_bytes: int = field(default=64 * 2**20, validator=_positive)
    """The number of bytes of updates of one connection that may wait unread. Beyond it the exchange that holds the most
    drops its oldest."""
    outbox_bytes: int = field(default=256 * 2**10, validator=_positive)
    """The number of bytes that may wait to be sent before senders wait."""
    outbox_urgent_bytes: int = field(default=4 * 2**20, validator=_positive)
    """The number of bytes of urgent replies (refusals, cancellations) that may wait beyond `outbox_bytes`. A peer that
    causes more loses the link."""
    stall_seconds: float = field(default=120.0, validator=_positive)
    """A peer that reads nothing for this long, while messages wait for it, loses the link."""
    drain_seconds: float = field(default=5.0, validator=_positive)
    """The seconds for which accepted requests may continue after the input of the peer ended, or after a stop was
    requested."""
    stop_seconds: float = field(default=10.0, validator=_positive)
    """The seconds that handlers and background tasks that go on after they were cancelled, and the clean-up of a
    lifespan, may keep the process of a stopped server alive. Then it ends with exit status 199. In a program that stops
    its server itself, `Server(on_stuck=...)` is told, and nothing is ended."""
    notification_seconds: float = field(default=60.0, validator=_positive)
    """The seconds for which the handler of one notification may run, middleware included, and each of a client's
    callbacks for notifications. Then it is cancelled, and the log names it. For longer work there is
    `Server.background`."""
    max_posts: int = field(default=256, validator=_positive)
    """The number of requests that a client over HTTP has in flight at once, each on its own connection; more wait.
    Requests that listen for changes do not count."""
    max_threads: int = field(default=40, validator=_positive)
    """The number of worker threads that plain `def` handlers of one server may occupy at once. Clients share them as
    they share `max_running`."""
    max_processes: int = field(factory=lambda: max(4, _processors()), validator=_positive)
    """The number of worker processes of one server that may work at once for tools with `isolate="process"`; more calls
    wait. By default the number of processors of the machine, and at least four. Clients share them as they share
    `max_running`."""
    max_background: int = field(default=1024, validator=_positive)
    """The number of tasks of `Server.background` that one server may run at once; one more raises `TooManyTasks`."""
    max_parked: int = field(default=1000, validator=_positive)
    """The number of handlers of one server that may wait for the answers of clients. Beyond it, the oldest question of
    the client that has the most expires. If that is the client that would be asked, its new question fails with
    `TooManyParked`."""
    ask_seconds: float = field(default=600.0, validator=_positive)
    """The seconds for which a question to the client, its user or its model stays open. Then it raises `AskExpired`."""
    max_rounds: int = field(default=32, validator=_positive)
    """The number of times that a modern server may ask a client for input before it answers one request. Then the
    request fails."""
    max_progress_per_second: float = field(default=100.0, validator=_positive)
    """The number of progress updates that one handler may send its client in a second, on average. Of more, the newest
    is sent as soon as the limit allows, or before the result. `math.inf` lifts the limit."""
    max_logs_per_second: float = field(default=100.0, validator=_positive)
    """The number of log messages that one handler may send its client in a second, on average. `math.inf` lifts the
    limit."""


# --- Timeouts ---


@define(eq=False)
class PausableTimeouts:
    """The timeouts of one connection, which can be paused together.

    They are paused while the user answers a question, because that may take any time.
    """

    pauses: int = field(default=0, init=False)
    """The number of times that the timeouts were paused."""
    _limits: dict[trio.CancelScope, float] = field(factory=dict[trio.CancelScope, float], init=False)
    """The scopes of the blocks that run, each with the seconds that it had left when the timeouts were paused."""
    _pausing_blocks: int = field(default=0, init=False)

    def within(self, seconds: float) -> AbstractContextManager[trio.CancelScope, bool]:
        """Cancel the block after *seconds*, without the time for which the timeouts were paused.

        The scope tells afterwards whether the block was cancelled.
        """
        return _Timeout(self, seconds)

    def begin(self, scope: trio.CancelScope, seconds: float) -> None:
        """Start the timeout of a block, which *scope* cancels."""
        self._limits[scope] = seconds
        if not self._pausing_blocks:
            scope.deadline = trio.current_time() + seconds

    def end(self, scope: trio.CancelScope) -> None:
        """End the timeout of a block."""
        del self._limits[scope]

    @contextmanager
    def paused(self) -> Generator[None]:
        """Pause every timeout for the duration of the block. Such blocks may overlap."""
        if self._pausing_blocks == 0:
            self._pause()
        self._pausing_blocks += 1
        try:
            yield
        finally:
            self._pausing_blocks -= 1
            if self._pausing_blocks == 0:
                self._resume()

    def _pause(self) -> None:
        self.pauses += 1
        now = trio.current_time()
        for scope in self._limits:
            self._limits[scope] = scope.deadline - now
            scope.deadline = float("inf")

    def _resume(self) -> None:
        now = trio.current_time()
        for scope, seconds in self._limits.items():
            scope.deadline = now + seconds


@define(eq=False)
class _Timeout:
    """The context manager of one block. A class, because for type checkers a generator swallows no exception."""

    _timeouts: PausableTimeouts
    _seconds: float
    _scope: trio.CancelScope = field(factory=trio.CancelScope, init=False)

    def __enter__(self) -> trio.CancelScope:
        self._scope.__enter__()
        self._timeouts.begin(self._scope, self._seconds)
        return self._scope

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        self._timeouts.end(self._scope)
        return self._scope.__exit__(kind, exc, traceback)
