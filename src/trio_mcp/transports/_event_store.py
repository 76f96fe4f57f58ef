"""What has gone out on event streams, kept for clients that come back: how much of whose, and a store in memory.

Rules of this file:

1. A store holds a bounded number of events and bytes. When that is too much, the owner that holds most gives way, its
   oldest events first: whoever says too much loses of its own. So much goes that this is rare.
2. Events that are too old are not handed out, and go sooner or later.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager

import trio
from attrs import define, field, frozen

from ..abc import EventLog

__all__ = ["PAGE_BYTES", "EventBounds", "Holdings", "MemoryEventStore"]

PAGE_BYTES = 64 * 1024
"""What is read at once, unless a single event is longer."""
_RELIEF = 0.9
"""How much of the bounds is left when something had to go (rule 1)."""
_SWEEPS = 4
"""How often old events are looked for in the time that they are kept."""


@frozen
class EventBounds:
    """How much a store keeps.

    Raises:
        ValueError: a bound is not above 0.
    """

    max_events: int
    max_bytes: int
    max_age: float
    """In seconds."""

    def __attrs_post_init__(self) -> None:
        for name in ("max_events", "max_bytes", "max_age"):
            value = getattr(self, name)
            if math.isnan(value) or value <= 0:
                raise ValueError(f"{name}={value!r}: must be a number above 0")

    @property
    def seconds_between_sweeps(self) -> float:
        """How long old events may lie about."""
        return self.max_age / _SWEEPS


@define(eq=False)
class Holdings:
    """How much each owner holds, and who gives up what."""

    _bounds: EventBounds
    events: int = field(default=0, init=False)
    size: int = field(default=0, init=False)
    """In bytes."""
    _by_owner: dict[str, tuple[int, int]] = field(factory=dict[str, "tuple[int, int]"], init=False)
    """Number and bytes of the events of each that holds any."""

    def change(self, owner: str, events: int, size: int) -> None:
        """An owner holds so many more, or fewer."""
        self.events += events
        self.size += size
        held, held_bytes = self._by_owner.get(owner, (0, 0))
        if held + events:
            self._by_owner[owner] = held + events, held_bytes + size
        else:
            del self._by_owner[owner]

    def drop(self, owner: str) -> None:
        """An owner holds nothing any more."""
        events, size = self._by_owner.get(owner, (0, 0))
        if events:
            self.change(owner, -events, -size)

    @property
    def owners(self) -> Sequence[str]:
        """Those that hold any."""
        return [*self._by_owner]

    def givers(self) -> Iterator[tuple[str, int]]:
        """Yield who is to drop how many of its oldest events, until enough has gone (rule 1).

        What is dropped is to be told to `change` before the next is asked for.
        """
        if self._exceeds(1.0):
            while self._exceeds(_RELIEF):
                owner = max(self._by_owner, key=self._share)
                events, size = self._by_owner[owner]
                too_many = self.events - _RELIEF * self._bounds.max_events
                too_large = (self.size - _RELIEF * self._bounds.max_bytes) * events / max(size, 1)
                yield owner, min(math.ceil(max(too_many, too_large)), (events + 1) // 2)

    def _exceeds(self, share: float) -> bool:
        return self.events > share * self._bounds.max_events or self.size > share * self._bounds.max_bytes

    def _share(self, owner: str) -> float:
        events, size = self._by_owner[owner]
        return max(events / self._bounds.max_events, size / self._bounds.max_bytes)


class MemoryEventStore:
    """Keeps events in the memory of this process.

    Args:
        max_events: how many are kept, of all clients together.
        max_bytes: how large they may be together.
        max_age: for how long each is kept, in seconds.

    Raises:
        ValueError: a bound is not above 0.
    """

    def __init__(self, *, max_events: int = 10_000, max_bytes: int = 64 * 2**20, max_age: float = 30 * 60.0) -> None:
        self._bounds = EventBounds(max_events, max_bytes, max_age)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[EventLog]:
        """Open a store that is empty, and gone at the end of the block."""
        await trio.lowlevel.checkpoint()
        yield _MemoryLog(self._bounds)


@frozen
class _Kept:
    data: bytes
    kept_at: float


@define(eq=False)
class _Owned:
    """The events of one owner."""

    events: dict[tuple[int, int], _Kept] = field(factory=dict[tuple[int, int], _Kept], init=False)
    """By stream and number, the oldest first."""
    firsts: dict[int, int] = field(factory=dict[int, int], init=False)
    """The lowest number of each stream."""

    def add(self, stream: int, number: int, kept: _Kept) -> None:
        self.events[stream, number] = kept
        self.firsts.setdefault(stream, number)

    def drop_oldest(self) -> int:
        """Return how many bytes that were."""
        stream, number = next(iter(self.events))
        kept = self.events.pop((stream, number))
        if (stream, number + 1) in self.events:
            self.firsts[stream] = number + 1
        else:
            del self.firsts[stream]
        return len(kept.data)

    def is_too_old(self, before: float) -> bool:
        """Whether the oldest event was kept before that time."""
        return bool(self.events) and next(iter(self.events.values())).kept_at < before


@define(eq=False)
class _MemoryLog:
    _bounds: EventBounds
    _holdings: Holdings = field(init=False)
    _owned: dict[str, _Owned] = field(factory=dict[str, _Owned], init=False)
    _next_sweep: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._holdings = Holdings(self._bounds)
        self._next_sweep = trio.current_time() + self._bounds.seconds_between_sweeps

    async def append(self, owner: str, stream: int, first: int, events: Sequence[bytes]) -> None:
        await trio.lowlevel.checkpoint()
        now = trio.current_time()
        if now >= self._next_sweep:
            self._next_sweep = now + self._bounds.seconds_between_sweeps
            for each in list(self._owned):
                self._drop_old(each)
        owned = self._owned.setdefault(owner, _Owned())
        for number, data in enumerate(events, first):
            owned.add(stream, number, _Kept(data, now))
            self._holdings.change(owner, 1, len(data))
        for giver, count in self._holdings.givers():
            for _ in range(count):
                self._drop_oldest(giver)

    async def read(self, owner: str, stream: int, after: int) -> tuple[int, Sequence[bytes]]:
        await trio.lowlevel.checkpoint()
        self._drop_old(owner)
        owned = self._owned.get(owner, _Owned())
        first = number = max(after + 1, owned.firsts.get(stream, 0))
        page: list[bytes] = []
        size = 0
        while size < PAGE_BYTES and (stream, number) in owned.events:
            page.append(owned.events[stream, number].data)
            size += len(page[-1])
            number += 1
        return first, page

    async def forget(self, owner: str) -> None:
        await trio.lowlevel.checkpoint()
        self._owned.pop(owner, None)
        self._holdings.drop(owner)

    def _drop_old(self, owner: str) -> None:
        before = trio.current_time() - self._bounds.max_age
        while owner in self._owned and self._owned[owner].is_too_old(before):
            self._drop_oldest(owner)

    def _drop_oldest(self, owner: str) -> None:
        owned = self._owned[owner]
        self._holdings.change(owner, -1, -owned.drop_oldest())
        if not owned.events:
            del self._owned[owner]
