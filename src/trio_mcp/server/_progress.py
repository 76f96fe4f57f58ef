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
from ..peer import Exchange, Run
from ..wire import JsonObject, encode
from ._token_bucket import TokenBucket

__all__ = ["Progress"]

_REPORTS_AT_ONCE = 64
"""After so many, others run: a handler that does nothing but report would never hear that it is cancelled."""


@define(eq=False)
class Progress:
    """The progress of one handler.

    Args:
        run: whose it is.
        per_second: values that are told in a second, infinite for all.
    """

    _run: Run
    per_second: float
    _bucket: TokenBucket = field(init=False)
    _exchange: Exchange | None = field(default=None, init=False)
    """The latest one that progress was reported for."""
    _reported: float = field(default=-math.inf, init=False)
    """The largest value that was reported for it."""
    _reports: int = field(default=0, init=False)
    _held: tuple[Exchange, JsonObject] | None = field(default=None, init=False)
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

    def _hold(self, exchange: Exchange, params: JsonObject) -> None:
        encode(params)  # what cannot be sent later is said now, to whoever reports it
        self._held = exchange, params
        self._run.last_updates = self.flush
        if self._timer is None:
            self._timer = trio.CancelScope()
            self._run.hall.nursery.start_soon(self._tell_when_due, exchange, self._timer, name="progress held back")

    async def _tell_when_due(self, exchange: Exchange, timer: trio.CancelScope) -> None:
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
