"""A backend in the memory of one process.

Rules of this file:

1. A method changes the data between two checkpoints, so it is atomic, and a cancelled one has done nothing.
2. What has expired is dropped when it is looked up, and all of it now and then, after as many writes as there are
   things; so a write costs the same on average, however many there are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import trio
from attrs import define, field, frozen

from ..abc import SharedState, StreamPart
from ._parts import MOST_BYTES, MOST_ENTRIES, StreamPlace, check_append, check_names, check_seconds, part_after

__all__ = ["MemoryShared"]

_FEWEST_WRITES = 1000
"""The number of writes after which expired things are dropped, if there are few things."""


@frozen
class _MemoryValue:
    """A value or a lease."""

    content: bytes
    expires_at: float


@define(eq=False)
class _MemoryStream:
    """The entries of a stream that are still there."""

    generation: int
    first: int = 1
    """The number of the first of the entries; that of the next one if there are none."""
    entries: list[bytes] = field(factory=list[bytes])
    expires_at: float = math.inf

    @property
    def last(self) -> int:
        return self.first + len(self.entries) - 1

    def after(self, number: int) -> tuple[int, Sequence[bytes]]:
        """Return entries after a number: the number of the first, and a limited number of them."""
        start = max(0, number + 1 - self.first)
        size, end = 0, start
        while end < min(len(self.entries), start + MOST_ENTRIES) and size < MOST_BYTES:
            size += len(self.entries[end])
            end += 1
        return self.first + start, self.entries[start:end]


@define(eq=False)
class _MemoryData:
    """The data of one object, for its states and their followers."""

    _values: dict[str, _MemoryValue] = field(factory=dict[str, _MemoryValue])
    _streams: dict[str, _MemoryStream] = field(factory=dict[str, _MemoryStream])
    _leases: dict[str, dict[str, _MemoryValue]] = field(factory=dict[str, dict[str, _MemoryValue]])
    """The leases of each group that has any, by name."""
    _followers: dict[str, trio.lowlevel.ParkingLot] = field(factory=dict[str, trio.lowlevel.ParkingLot])
    """The waiting followers of each stream that has any."""
    _generations: itertools.count[int] = field(factory=lambda: itertools.count(1))
    _writes_left: int = field(default=_FEWEST_WRITES)
    """The number of writes after which expired things are dropped."""

    def value(self, key: str) -> bytes | None:
        """Return a value that has not expired."""
        value = self._values.get(key)
        return value.content if value is not None and value.expires_at > trio.current_time() else None

    def set_value(self, key: str, content: bytes | None, seconds: float) -> None:
        """Set a value, or remove it."""
        self._drop_now_and_then()
        if content is None:
            self._values.pop(key, None)
        else:
            self._values[key] = _MemoryValue(content, trio.current_time() + seconds)

    def stream(self, name: str) -> _MemoryStream | None:
        """Return a stream that has not expired."""
        stream = self._streams.get(name)
        return stream if stream is not None and stream.expires_at > trio.current_time() else None

    def append(self, name: str, entries: Sequence[bytes], at_most: int, seconds: float) -> int:
        """Append entries to a stream, and wake those that follow it."""
        self._drop_now_and_then()
        stream = self.stream(name)
        if stream is None:
            stream = self._streams[name] = _MemoryStream(next(self._generations))
        stream.entries += entries
        dropped = max(0, len(stream.entries) - at_most)
        del stream.entries[:dropped]
        stream.first += dropped
        stream.expires_at = trio.current_time() + seconds
        if (lot := self._followers.pop(name, None)) is not None:
            lot.unpark_all()
        return stream.last

    async def appended(self, name: str) -> None:
        """Wait until something is appended to a stream."""
        lot = self._followers.setdefault(name, trio.lowlevel.ParkingLot())
        try:
            await lot.park()
        finally:
            if not lot and self._followers.get(name) is lot:
                del self._followers[name]

    def leases(self, group: str) -> dict[str, _MemoryValue]:
        """Return the leases of a group, and also those that have expired and not been dropped."""
        return self._leases.get(group, {})

    def lease(self, group: str, name: str, content: bytes, seconds: float) -> None:
        """Hold a lease."""
        self._drop_now_and_then()
        self._leases.setdefault(group, {})[name] = _MemoryValue(content, trio.current_time() + seconds)

    def release(self, group: str, name: str) -> None:
        """Give a lease back."""
        leases = self._leases.get(group, {})
        leases.pop(name, None)
        if not leases:
            self._leases.pop(group, None)

    def _drop_now_and_then(self) -> None:
        """Count a write, and drop what has expired if it is time (rule 2)."""
        self._writes_left -= 1
        if self._writes_left:
            return
        now = trio.current_time()
        self._values = {key: value for key, value in self._values.items() if value.expires_at > now}
        self._streams = {name: stream for name, stream in self._streams.items() if stream.expires_at > now}
        for group, leases in [*self._leases.items()]:
            alive = {name: lease for name, lease in leases.items() if lease.expires_at > now}
            if alive:
                self._leases[group] = alive
            else:
                del self._leases[group]
        things = len(self._values) + len(self._streams) + sum(len(leases) for leases in self._leases.values())
        self._writes_left = _FEWEST_WRITES + things


@define(eq=False)
class MemoryShared:
    """Keeps shared state in the memory of this process; it is lost when the process ends.

    All states that are opened from one object have the same data. So several servers of one process share state, also
    those that stand for separate processes in a test. Use it in a single `trio.run`: its clock is Trio's.
    """

    _data: _MemoryData = field(factory=_MemoryData, init=False, repr=False)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[SharedState]:
        """Yield a state with the data of this object. Never fails."""
        await trio.lowlevel.checkpoint()
        yield _MemoryState(self._data)


@frozen(eq=False)
class _MemoryState:
    """An open `MemoryShared`."""

    _data: _MemoryData

    @property
    def host(self) -> str:
        """This machine."""
        return "127.0.0.1"

    async def get(self, key: str) -> bytes | None:
        """Return a value."""
        check_names(key)
        await trio.lowlevel.checkpoint()
        return self._data.value(key)

    async def swap(self, key: str, old: bytes | None, new: bytes | None, *, seconds: float = math.inf) -> bool:
        """Set a value if it is *old*."""
        check_names(key)
        check_seconds(seconds)
        await trio.lowlevel.checkpoint()
        if self._data.value(key) != old:
            return False
        self._data.set_value(key, new, seconds)
        return True

    async def append(self, stream: str, entries: Sequence[bytes], *, at_most: int, seconds: float = math.inf) -> int:
        """Append entries."""
        check_append(stream, at_most, seconds)
        await trio.lowlevel.checkpoint()
        return self._data.append(stream, entries, at_most, seconds)

    async def read(self, stream: str, after: int) -> StreamPart:
        """Return entries after a number."""
        check_names(stream)
        await trio.lowlevel.checkpoint()
        if (found := self._data.stream(stream)) is None:
            return part_after(after, 0, 1, ())
        return part_after(after, found.last, *found.after(after))

    async def last(self, stream: str) -> int:
        """Return the number of the last entry."""
        check_names(stream)
        await trio.lowlevel.checkpoint()
        found = self._data.stream(stream)
        return 0 if found is None else found.last

    @asynccontextmanager
    async def follow(self, stream: str) -> AsyncGenerator[AsyncIterator[StreamPart]]:
        """Follow a stream."""
        check_names(stream)
        await trio.lowlevel.checkpoint()
        found = self._data.stream(stream)
        yield _MemoryFollower(
            self._data, stream, StreamPlace(0, 0) if found is None else StreamPlace(found.generation, found.last)
        )

    async def lease(self, group: str, name: str, value: bytes, *, seconds: float) -> None:
        """Hold a lease."""
        check_names(group, name)
        check_seconds(seconds)
        await trio.lowlevel.checkpoint()
        self._data.lease(group, name, value, seconds)

    async def release(self, group: str, name: str) -> None:
        """Give a lease back."""
        check_names(group, name)
        await trio.lowlevel.checkpoint()
        self._data.release(group, name)

    async def leases(self, group: str) -> Mapping[str, bytes]:
        """Return the leases of a group."""
        check_names(group)
        await trio.lowlevel.checkpoint()
        now = trio.current_time()
        return {name: lease.content for name, lease in self._data.leases(group).items() if lease.expires_at > now}


@define(eq=False)
class _MemoryFollower:
    """An iterator over what is appended to a stream. If a wait is cancelled, the next one continues."""

    _data: _MemoryData
    _stream: str
    _place: StreamPlace

    def __aiter__(self) -> AsyncIterator[StreamPart]:
        return self

    async def __anext__(self) -> StreamPart:
        await trio.lowlevel.checkpoint()
        while (part := self._next()) is None:
            await self._data.appended(self._stream)
        return part

    def _next(self) -> StreamPart | None:
        stream = self._data.stream(self._stream)
        if stream is None:
            return None
        number = self._place.number if self._place.generation in {0, stream.generation} else 0
        first, entries = stream.after(number)
        return self._place.move(stream.generation, first, entries) if entries else None
