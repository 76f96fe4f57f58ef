"""How a handler's progress reaches its client: not too often, in order, and never without the newest value.

Rules of this file:

1. Only what exceeds all that was reported for the same exchange before is told.
2. It is told at once where the rate admits it and nothing is held back. Otherwise it is held back, in the place of what
   was held back before, and a task of the hall tells it as soon as the rate admits that.
3. What is held back belongs to the exchange it was reported for: it is told before that is answered, or never.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress
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


# How much may happen in a time: tokens that come at a steady rate, and a bucket that holds so many of them.


@define(eq=False)
class TokenBucket:
    """Begins full. It counts no time itself: every call says what the time is, and that never goes back.

    Args:
        per_second: tokens that come in a second, above 0; infinite for as many as are wanted.
        burst: tokens it holds, at least 1; a second's worth by default, or one where that is less.
    """

    per_second: float
    burst: float | None = None
    _size: float = field(init=False)
    _left: float = field(init=False)
    """Tokens in it when it was looked at last."""
    _seen: float = field(default=-math.inf, init=False)
    """When that was."""
    _due: float = field(default=-math.inf, init=False)
    """When there is a token. Kept, so that who waits until then and who looks then agree to the last bit."""

    def __attrs_post_init__(self) -> None:
        self._left = self._size = max(1.0, self.per_second) if self.burst is None else self.burst

    def take(self, now: float) -> bool:
        """Take a token; False where there is none.

        Args:
            now: in seconds.
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
        """Tell whether it differs in nothing from a new one."""
        return self._left + (now - self._seen) * self.per_second >= self._size

    def due(self, now: float) -> float:
        """Return when there will be a token: *now*, or later."""
        return max(now, self._due)


_REPORTS_AT_ONCE = 64
"""After so many, others run: a handler that does nothing but report would never hear that it is cancelled."""


@define(eq=False)
class Progress:
    """The progress of one handler.

    Args:
        run: whose it is.
        per_second: values that are told in a second, infinite for all.
    """

    _run: HandlerRun
    per_second: float
    _bucket: TokenBucket = field(init=False)
    _exchange: IncomingRequest | None = field(default=None, init=False)
    """The latest one that progress was reported for."""
    _reported: float = field(default=-math.inf, init=False)
    """The largest value that was reported for it."""
    _reports: int = field(default=0, init=False)
    _held: tuple[IncomingRequest, JsonObject] | None = field(default=None, init=False)
    _timer: trio.CancelScope | None = field(default=None, init=False)
    """Of the task that will tell what is held back; None where there is none."""
    _over: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._bucket = TokenBucket(self.per_second)

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Tell of it, now or as soon as that may be; see `Context.report_progress`."""
        self._reports += 1
        if self._reports % _REPORTS_AT_ONCE:
            await trio.lowlevel.checkpoint_if_cancelled()
        else:
            await trio.lowlevel.checkpoint()
        exchange = self._run.exchange
        if exchange is None or exchange.context.progress_token is None:
            return
        if self._held is None and not exchange.has_room():
            await exchange.room()
        if exchange is not self._run.exchange or self._over:  # it ended while there was no room
            return
        if exchange is not self._exchange:  # a retry asks for progress anew
            self._exchange, self._reported = exchange, -math.inf
        if progress <= self._reported:
            return
        self._reported = progress
        params: dict[str, Any] = {"progressToken": exchange.context.progress_token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None and exchange.context.revision != types.REVISIONS[0]:  # the first one knows no message
            params["message"] = message
        if self._held is None and self._bucket.take(trio.current_time()):
            exchange.notify("notifications/progress", params)
        else:
            self._hold(exchange, params)

    def flush(self) -> None:
        """Tell what is held back, now.

        It does not wait for room: this is one message of each handler, and nothing may come between it and the answer.
        """
        held, self._held = self._held, None
        if held is not None:
            exchange, params = held
            exchange.notify("notifications/progress", params)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def finish(self) -> None:
        """The handler has ended: flush, and tell nothing more."""
        self._over = True
        self.flush()

    def _hold(self, exchange: IncomingRequest, params: JsonObject) -> None:
        encode(params)  # what cannot be sent later is said now, to whoever reports it
        self._held = exchange, params
        self._run.flush_updates = self.flush
        if self._timer is None:
            self._timer = trio.CancelScope()
            self._run.pool.nursery.start_soon(self._tell_when_due, exchange, self._timer, name="progress held back")

    async def _tell_when_due(self, exchange: IncomingRequest, timer: trio.CancelScope) -> None:
        with timer:
            await trio.sleep_until(self._bucket.due(trio.current_time()))
            if not exchange.has_room():
                try:
                    await exchange.room()
                except ConnectionLost:
                    self._held = None  # there is nobody to tell
            await trio.lowlevel.checkpoint_if_cancelled()  # it may have been told in this very moment
            self._bucket.take(trio.current_time())
            self.flush()


# How fast a handler may log to its client, and a count of what did not pass.
#
# Specification: https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging


@define(eq=False)
class LogRate:
    """Admits a second's worth of messages at once, and then so many in a second.

    Args:
        per_second: messages that pass in a second, infinite for all.
    """

    per_second: float
    _bucket: TokenBucket = field(init=False)
    _dropped: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._bucket = TokenBucket(self.per_second)

    def admit(self, now: float) -> int | None:
        """Return None if a message is too much now; else how many were dropped since one passed.

        Args:
            now: in seconds.
        """
        if not self._bucket.take(now):
            self._dropped += 1
            return None
        dropped, self._dropped = self._dropped, 0
        return dropped
