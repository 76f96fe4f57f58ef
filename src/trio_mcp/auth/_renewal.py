"""Something that another side publishes: fetched once for all who wait, and again when there is reason.

Rules of this file:

1. It is never fetched sooner than `PAUSE_SECONDS` after the last time, whatever was the matter then.
2. One fetch is under way at a time. It is shielded, for a bounded time, from the cancellation of the request that needs
   it: clients that leave at once would otherwise make each other begin anew.
3. Whoever has something to go on with does not wait for a fetch of somebody else's.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable

import trio
from attrs import define, field

from ..abc import Fetch
from ._verified import VerifierUnavailable

__all__ = ["PAUSE_SECONDS", "Renewal"]

_log = logging.getLogger("trio_mcp.auth")

PAUSE_SECONDS = 10.0
_FRESH_SECONDS = 600.0
_FETCH_SECONDS = 10.0
"""How long one fetch may take in all."""


@define(eq=False)
class Renewal:
    """When something was fetched, and may be fetched again. Any number of tasks may use it at once.

    Args:
        what: it is, for the log.
        read: fetches and keeps it; raises `VerifierUnavailable`.
        clock: tells the time, as `time.time` does.
    """

    _what: str
    _read: Callable[[Fetch], Awaitable[None]]
    _clock: Callable[[], float]
    _done_at: float | None = field(default=None, init=False)
    _tried_at: float | None = field(default=None, init=False)
    _lock: trio.Lock = field(factory=trio.Lock, init=False, repr=False)

    @property
    def age(self) -> float:
        """How many seconds ago it was fetched; infinite where it never was."""
        return self._since(self._done_at)

    async def keep_fresh(self, fetch: Fetch) -> None:
        """Fetch it if it is old."""
        if self.age > _FRESH_SECONDS and not (self._done_at is not None and self._lock.locked()):
            await self.again(fetch)

    async def again(self, fetch: Fetch) -> None:
        """Fetch it, if nobody has done so for a while. What fails goes to the log: see `age`.

        A cancellation takes effect when a fetch that this call has begun is over.
        """
        async with self._lock:
            if self._since(self._tried_at) < PAUSE_SECONDS:
                return
            try:
                with trio.move_on_after(_FETCH_SECONDS, shield=True) as in_time:
                    await self._read(fetch)
                    self._done_at = self._clock()
                if in_time.cancelled_caught:
                    _log.warning("%s cannot be had: it did not come within %g s", self._what, _FETCH_SECONDS)
            except VerifierUnavailable as exc:
                _log.warning("%s cannot be had: %s", self._what, exc)
            finally:
                self._tried_at = self._clock()

    def _since(self, moment: float | None) -> float:
        """Return the seconds since then; infinite where it was never, or the clock was set back."""
        passed = -1.0 if moment is None else self._clock() - moment
        return math.inf if passed < 0 else passed
