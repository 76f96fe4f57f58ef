"""Buckets of tokens that the processes of a service share: together they take no more than one process could.

A bucket is a value in the backend, which is changed by `swap`. A process that takes many tokens takes them in batches,
so that not every token costs a round trip: what it does not need at once is its reserve.

Rules of this file:

1. The tokens in a bucket and in the reserves of all processes together are never more than the bucket holds. So in any
   time *t*, all processes together take at most ``burst + per_second * t`` tokens.
2. A process uses a reserve for `_RESERVE_SECONDS`. The bucket counts it for `_COUNTED_SECONDS`, so that the clocks of
   two machines may differ by as much as these do. If they differ by more, *t* is longer by that difference. Unused
   tokens go back only while the bucket still counts them.
3. A batch is at most a quarter of what is left, so that tokens are taken one by one when few are left. Otherwise it is
   twice as large as the last one if that one was used up, and half as large if it was not.
4. If it is unknown whether tokens were taken, they were.
5. A value expires when its bucket is full, by the clock of the backend. So a clock that is wrong does no lasting harm.
6. A bucket that was empty is not read again before it can have a token: refusals cost no round trip.
7. After a failure of the backend, it is left alone for `_PAUSE_SECONDS`, in which every call fails at once.
"""

from __future__ import annotations

import logging
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio
from attrs import define, field

from .. import SharedUnavailable
from ..abc import SharedState
from ..wire import Undecodable, decode, encode

__all__ = ["SharedBuckets"]

_log = logging.getLogger("trio_mcp.cluster")

_RESERVE_SECONDS, _COUNTED_SECONDS = 2.0, 4.0
_LARGEST_BATCH = 64
_MOST_BUCKETS = 10_000
"""The number of buckets of which a process remembers something; it forgets the one that was not used for longest."""
_PAUSE_SECONDS = 5.0
_LONGEST_SECONDS = 1e9
"""The time after which the value of a bucket expires that is filled very slowly."""
_ROUNDING = 1e-9


@define
class _Tokens:
    """The tokens of a bucket at a time."""

    at: float
    """The time, as `time.time` counts."""
    left: float
    reserves: dict[str, tuple[int, float]] = field(factory=dict[str, "tuple[int, float]"])
    """The number of tokens in the reserve of each process, and the time until which they are counted."""

    @classmethod
    def of_bytes(cls, data: bytes | None, now: float, burst: int) -> _Tokens:
        """Return the tokens that a value says; those of a full bucket if there is no value, or another program's."""
        if data is None:
            return cls(now, burst)
        try:
            json: Any = decode(data)
            reserves = {name: (int(count), float(until)) for name, (count, until) in json["reserves"].items()}
            return cls(float(json["at"]), min(float(json["left"]), burst), reserves)
        except (Undecodable, AttributeError, KeyError, TypeError, ValueError):
            return cls(now, burst)

    def to_bytes(self) -> bytes:
        return encode({"at": self.at, "left": self.left, "reserves": self.reserves})

    def fill(self, now: float, per_second: float, burst: int) -> None:
        """Fill the bucket until *now*, at each moment up to what the reserves leave (rule 1)."""
        for name, (_, until) in sorted(self.reserves.items(), key=lambda each: each[1][1]):
            if until > now:
                break
            self._fill(until, per_second, burst)
            del self.reserves[name]
        self._fill(now, per_second, burst)

    def _fill(self, now: float, per_second: float, burst: int) -> None:
        passed = max(0.0, now - self.at)
        room = burst - sum(count for count, _ in self.reserves.values())
        self.left = max(self.left, min(room, self.left + passed * per_second))
        self.at += passed

    def give_back(self, name: str, unused: int) -> None:
        """End the reserve of a process, and take back what it has not used (rule 2)."""
        if self.reserves.pop(name, None) is not None:
            self.left += unused


@define(eq=False)
class _Bucket:
    """One bucket, as this process knows it."""

    _state: SharedState
    _name: str
    _per_second: float
    _burst: int
    _clock: Callable[[], float]
    _id: str = field(factory=lambda: secrets.token_hex(4), init=False)
    """Names the reserve of this object in the value."""
    _lock: trio.Lock = field(factory=trio.Lock, init=False)
    _wanted: int = field(default=0, init=False)
    """The number of calls that wait for a token."""
    _known: bytes | None = field(default=None, init=False)
    """The value that was read or written last; None if it has expired since."""
    _known_until: float = field(default=math.inf, init=False)
    """The time at which it has certainly expired, on Trio's clock."""
    _reserve: int = field(default=0, init=False)
    _until: float = field(default=-math.inf, init=False)
    """The time until which the reserve may be used, on Trio's clock."""
    _batch: int = field(default=1, init=False)

    def take_reserved(self) -> bool:
        """Take a token from the reserve; return False if it has none."""
        if not self._reserve or trio.current_time() >= self._until:
            return False
        self._reserve -= 1
        return True

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        """Wait until no other task of this process takes a token from this bucket."""
        self._wanted += 1
        try:
            async with self._lock:
                yield
        finally:
            self._wanted -= 1

    async def take(self) -> float:
        """Take a token from the bucket, in its `turn`; return 0, or the seconds until there may be one."""
        is_used_up = not self._reserve and trio.current_time() < self._until
        batch = min(2 * self._batch, _LARGEST_BATCH) if is_used_up else max(self._batch // 2, 1)
        while True:
            now, begun = self._clock(), trio.current_time()
            if begun >= self._known_until:
                self._learn(None, 0.0)
            tokens = _Tokens.of_bytes(self._known, now, self._burst)
            tokens.fill(now, self._per_second, self._burst)
            tokens.give_back(self._id, self._reserve)
            if tokens.left < 1 - _ROUNDING:
                return (1 - tokens.left) / self._per_second
            reserve = max(0, min(max(batch, self._wanted), int(tokens.left / 4)) - 1)
            tokens.left = max(0.0, tokens.left - 1 - reserve)
            if reserve:
                tokens.reserves[self._id] = (reserve, now + _COUNTED_SECONDS)
            if await self._write(tokens):
                self._batch, self._reserve, self._until = batch, reserve, begun + _RESERVE_SECONDS
                return 0.0

    async def _write(self, tokens: _Tokens) -> bool:
        """Store the tokens; return False, with the value of another process known, if that one was faster."""
        value, seconds = tokens.to_bytes(), self._lifetime_of(tokens)
        if await self._state.swap(self._name, self._known, value, seconds=seconds):
            self._learn(value, seconds)
            return True
        others = await self._state.get(self._name)
        self._learn(others, self._lifetime_of(_Tokens.of_bytes(others, self._clock(), self._burst)))
        return False

    def _lifetime_of(self, tokens: _Tokens) -> float:
        """Return the time after which a bucket is full that has these tokens now (rule 5)."""
        return min(_COUNTED_SECONDS + (self._burst - tokens.left) / self._per_second, _LONGEST_SECONDS)

    def _learn(self, value: bytes | None, seconds: float) -> None:
        """Take note of the value, which expires after a time."""
        self._known, self._known_until = value, math.inf if value is None else trio.current_time() + seconds


@define(eq=False)
class SharedBuckets:
    """The buckets of a service, as one of its processes knows them.

    Args:
        state: the backend.
        clock: returns the time, as `time.time` does.
    """

    _state: SharedState
    _clock: Callable[[], float] = time.time
    _buckets: OrderedDict[str, _Bucket] = field(factory=OrderedDict[str, _Bucket], init=False)
    """In the order of their last use, the oldest first."""
    _failure: SharedUnavailable | None = field(default=None, init=False)
    """The failure since which no call has succeeded."""
    _paused_until: float = field(default=-math.inf, init=False)

    async def take(self, name: str, per_second: float, burst: int) -> float:
        """Take a token from a bucket; return 0, or the seconds until there may be one.

        Raises:
            SharedUnavailable: the backend cannot be reached, or could not a moment ago (rule 7).
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        bucket = self._bucket(name, per_second, burst)
        async with bucket.turn():
            return 0.0 if bucket.take_reserved() else await self._take_shared(bucket)

    async def _take_shared(self, bucket: _Bucket) -> float:
        """Take a token from a bucket in the backend, if that can be reached (rule 7)."""
        if self._failure is not None and trio.current_time() < self._paused_until:
            raise SharedUnavailable(str(self._failure))
        try:
            seconds = await bucket.take()
        except SharedUnavailable as error:
            if self._failure is None:
                _log.warning("%s; each process limits the rate of calls by itself until it can", error)
            self._failure, self._paused_until = error, trio.current_time() + _PAUSE_SECONDS
            raise
        if self._failure is not None:
            self._failure = None
            _log.info("the rate of calls is limited for the service as a whole again")
        return seconds

    def _bucket(self, name: str, per_second: float, burst: int) -> _Bucket:
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = _Bucket(self._state, name, per_second, burst, self._clock)
            if len(self._buckets) > _MOST_BUCKETS:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(name)
        return bucket
