"""The turns of the requests to one server: how many it works on at the same time, and how many it gets per second.

Rules of this file:

1. A server has one limit of each kind for all its connections.
2. A free place goes to the waiting caller whose requests have the fewest places; equals take turns. The requests of one
   caller are sent in the order in which they came.
3. A request that is given up while it waits leaves no trace: it takes neither a place nor a share of the rate.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Hashable
from contextlib import asynccontextmanager

import trio
from attrs import define, field

from ..lowlevel import FairLimiter, TokenBucket
from ._mount import Mount

__all__ = ["Turns"]


@define(eq=False)
class Turns:
    """The turns of the requests to one server, in one serving of a gateway."""

    _mount: Mount
    _places: FairLimiter | None = field(default=None, init=False)
    """The requests that the server works on; None without a limit."""
    _rate: TokenBucket | None = field(default=None, init=False)
    _gate: FairLimiter = field(factory=lambda: FairLimiter(1), init=False)
    """Lets one request after the other take its share of the rate."""

    def __attrs_post_init__(self) -> None:
        mount = self._mount
        if mount.max_concurrency is not None:
            self._places = FairLimiter(mount.max_concurrency)
        if mount.per_second is not None:
            self._rate = TokenBucket(mount.per_second, max(1, math.floor(mount.per_second)))

    @property
    def are_limited(self) -> bool:
        """True if requests may have to wait for their turns."""
        return self._places is not None or self._rate is not None

    @asynccontextmanager
    async def turn(self, caller: Hashable) -> AsyncGenerator[None]:
        """Wait for the turn of a request of a caller, which lasts as long as the block."""
        if self._places is None:
            await self._take_share(caller)
            yield
            return
        await self._places.acquire(caller)
        try:
            await self._take_share(caller)
            yield
        finally:
            self._places.release(caller)

    async def _take_share(self, caller: Hashable) -> None:
        if self._rate is None:
            return
        await self._gate.acquire(caller)
        try:
            await trio.sleep_until(self._rate.due(trio.current_time()))
            self._rate.take(trio.current_time())
        finally:
            self._gate.release(caller)
