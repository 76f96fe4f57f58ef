"""The rate of a handler's progress and log notifications, limited by token buckets.

Rules of this file:

1. A progress value is sent only if it exceeds all earlier values of the same exchange.
2. It is sent at once if the rate permits it and no value is held back. Otherwise it replaces the value that is held
   back, and a task of the handler pool sends it as soon as the rate permits.
3. A value that is held back belongs to the exchange for which it was reported. It is sent before the response of that
   exchange, or never.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress and
https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging
"""

from __future__ import annotations

import math
from typing import Any

import trio
from attrs import define, field

from .. import types
from .._errors import ConnectionLost
from ..peer import HandlerRun, IncomingRequest
from ..wire import JsonObject, encode

__all__ = ["LogRate", "Progress", "TokenBucket"]


@define(eq=False)
class TokenBucket:
    """A bucket of tokens that is filled at a steady rate, and is full at first.

    It has no clock: every call passes the current time, which never goes back.

    Args:
        per_second: the tokens added per second, above 0; infinite for no limit.
        burst: the tokens that the bucket holds, at least 1; by default those of one second, and at least 1.
    """

    per_second: float
    burst: float | None = None
    _size: float = field(init=False)
    _left: float = field(init=False)
    """The number of tokens at the time `_seen`."""
    _seen: float = field(default=-math.inf, init=False)
    """The time of the last call."""
    _due: float = field(default=-math.inf, init=False)
    """The time of the next token. Stored, so that a caller that waits until then finds it, in spite of rounding."""

    def __attrs_post_init__(self) -> None:
        self._left = self._size = max(1.0, self.per_second) if self.burst is None else self.burst

    def take(self, now: float) -> bool:
        """Take a token; return False if there is none.

        Args:
            now: the current time, in seconds.
        """
        if now < self._due:
            return False
        if math.isinf(self.per_second):
            return True
        self._left = max(0.0, min(self._size, self._left + (now - self._seen) * self.per_second) - 1)
        self._seen = now
        self._due = now if self._left >= 1 else now + (1 - self._left) / self.per_second
        return True

    def is_full(self, now: float) -> bool:
        """Return True if the bucket is full at the time *now* (of the clock of `take`), as a new one is."""
        return self._left + (now - self._seen) * self.per_second >= self._size

    def due(self, now: float) -> float:
        """Return the time of the next token: *now*, or later."""
        return max(now, self._due)


_REPORTS_AT_ONCE = 64
"""The reports after which other tasks run, so that a handler that only reports can be cancelled."""


@define(eq=False)
class Progress:
    """The progress of one handler.

    Args:
        run: the handler run.
        per_second: the values sent per second; infinite for all.
    """

    _run: HandlerRun
    per_second: float
    _bucket: TokenBucket = field(init=False)
    _exchange: IncomingRequest | None = field(default=None, init=False)
    """The latest exchange for which progress was reported."""
    _reported: float = field(default=-math.inf, init=False)
    """The largest value reported for it."""
    _reports: int = field(default=0, init=False)
    latest: JsonObject | None = field(default=None, init=False)
    """What was reported last, sent or not: the members of the notification without its token."""
    _held: tuple[IncomingRequest, JsonObject] | None = field(default=None, init=False)
    _timer: trio.CancelScope | None = field(default=None, init=False)
    """The scope of the task that will send the held value; None if there is none."""
    _over: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._bucket = TokenBucket(self.per_second)

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Send a value now, or as soon as the rate permits; see `Context.report_progress`."""
        self._reports += 1
        if self._reports % _REPORTS_AT_ONCE:
            await trio.lowlevel.checkpoint_if_cancelled()
        else:
            await trio.lowlevel.checkpoint()
        report = self.latest = _members(progress, total, message)
        exchange = self._run.exchange
        if exchange is None or exchange.context.progress_token is None:
            return
        if self._held is None and not exchange.has_room():
            await exchange.room()
        if exchange is not self._run.exchange or self._over:  # it ended during the wait
            return
        if exchange is not self._exchange:  # a retry has its own progress
            self._exchange, self._reported = exchange, -math.inf
        if progress <= self._reported:
            return
        self._reported = progress
        params: dict[str, Any] = {"progressToken": exchange.context.progress_token, **report}
        if exchange.context.revision == types.REVISIONS[0]:  # it has no message
            params.pop("message", None)
        if self._held is None and self._bucket.take(trio.current_time()):
            exchange.notify("notifications/progress", params)
        else:
            self._hold(exchange, params)

    def flush(self) -> None:
        """Send the held value now.

        Does not wait for room in the queue: it is one message per handler, and must directly precede the response.
        """
        held, self._held = self._held, None
        if held is not None:
            exchange, params = held
            exchange.notify("notifications/progress", params)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def finish(self) -> None:
        """Flush, and send nothing more, because the handler has ended."""
        self._over = True
        self.flush()

    def _hold(self, exchange: IncomingRequest, params: JsonObject) -> None:
        encode(params)  # raises now, in the handler, if it is not JSON
        self._held = exchange, params
        self._run.flush_updates = self.flush
        if self._timer is None:
            self._timer = trio.CancelScope()
            self._run.pool.nursery.start_soon(self._send_when_due, exchange, self._timer, name="progress held back")

    async def _send_when_due(self, exchange: IncomingRequest, timer: trio.CancelScope) -> None:
        with timer:
            await trio.sleep_until(self._bucket.due(trio.current_time()))
            if not exchange.has_room():
                try:
                    await exchange.room()
                except ConnectionLost:
                    self._held = None  # the client is gone
            await trio.lowlevel.checkpoint_if_cancelled()  # it may have been sent just now
            self._bucket.take(trio.current_time())
            self.flush()


def _members(progress: float, total: float | None, message: str | None) -> JsonObject:
    members: JsonObject = {"progress": progress}
    if total is not None:
        members["total"] = total
    if message is not None:
        members["message"] = message
    return members


@define(eq=False)
class LogRate:
    """The rate limit of a handler's log messages, and a count of the dropped ones.

    It admits the messages of one second at once, and then *per_second*.

    Args:
        per_second: the messages admitted per second; infinite for all.
    """

    per_second: float
    _bucket: TokenBucket = field(init=False)
    _dropped: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._bucket = TokenBucket(self.per_second)

    def admit(self, now: float) -> int | None:
        """Return None if a message is over the limit, else the number of messages dropped since the last admitted one.

        Args:
            now: the current time, in seconds.
        """
        if not self._bucket.take(now):
            self._dropped += 1
            return None
        dropped, self._dropped = self._dropped, 0
        return dropped
