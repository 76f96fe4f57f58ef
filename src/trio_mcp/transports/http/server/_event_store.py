"""What has gone out on event streams, stored for clients that come back: how much of whose, and a store in memory.

Rules of this file:

1. A store holds a bounded number of events and bytes. When that is too much, the owner that holds most gives way, its
   oldest events first: whoever says too much loses of its own. So much goes that this is rare.
2. Events that are too old are not handed out, and go sooner or later.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery
"""

from __future__ import annotations

import logging
import math
import os
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import trio
from attrs import define, field, frozen

from ....abc import EventLog

if TYPE_CHECKING:
    import sqlite3

__all__ = ["PAGE_BYTES", "EventBounds", "EventQuota", "EventRecord", "MemoryEventStore", "SqliteEventStore"]

PAGE_BYTES = 64 * 1024
"""What is read at once, unless a single event is longer."""
_RELIEF = 0.9
"""How much of the bounds is left when something had to go (rule 1)."""
_SWEEPS = 4
"""How often old events are looked for in the time that they are stored."""


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
class EventQuota:
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

    def evictions(self) -> Iterator[tuple[str, int]]:
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
        max_events: how many are stored, of all clients together.
        max_bytes: how large they may be together.
        max_age: for how long each is stored, in seconds.

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
class _StoredEvent:
    data: bytes
    stored_at: float


@define(eq=False)
class _OwnerEvents:
    """The events of one owner."""

    events: dict[tuple[int, int], _StoredEvent] = field(factory=dict[tuple[int, int], _StoredEvent], init=False)
    """By stream and number, the oldest first."""
    firsts: dict[int, int] = field(factory=dict[int, int], init=False)
    """The lowest number of each stream."""

    def add(self, stream: int, number: int, stored: _StoredEvent) -> None:
        self.events[stream, number] = stored
        self.firsts.setdefault(stream, number)

    def drop_oldest(self) -> int:
        """Return how many bytes that were."""
        stream, number = next(iter(self.events))
        stored = self.events.pop((stream, number))
        if (stream, number + 1) in self.events:
            self.firsts[stream] = number + 1
        else:
            del self.firsts[stream]
        return len(stored.data)

    def is_too_old(self, before: float) -> bool:
        """Whether the oldest event was stored before that time."""
        return bool(self.events) and next(iter(self.events.values())).stored_at < before


@define(eq=False)
class _MemoryLog:
    _bounds: EventBounds
    _quota: EventQuota = field(init=False)
    _owned: dict[str, _OwnerEvents] = field(factory=dict[str, _OwnerEvents], init=False)
    _next_sweep: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._quota = EventQuota(self._bounds)
        self._next_sweep = trio.current_time() + self._bounds.seconds_between_sweeps

    async def append(self, owner: str, stream: int, first: int, events: Sequence[bytes]) -> None:
        await trio.lowlevel.checkpoint()
        now = trio.current_time()
        if now >= self._next_sweep:
            self._next_sweep = now + self._bounds.seconds_between_sweeps
            for each in list(self._owned):
                self._drop_old(each)
        owned = self._owned.setdefault(owner, _OwnerEvents())
        for number, data in enumerate(events, first):
            owned.add(stream, number, _StoredEvent(data, now))
            self._quota.change(owner, 1, len(data))
        for largest, count in self._quota.evictions():
            for _ in range(count):
                self._drop_oldest(largest)

    async def read(self, owner: str, stream: int, after: int) -> tuple[int, Sequence[bytes]]:
        await trio.lowlevel.checkpoint()
        self._drop_old(owner)
        owned = self._owned.get(owner, _OwnerEvents())
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
        self._quota.drop(owner)

    def _drop_old(self, owner: str) -> None:
        before = trio.current_time() - self._bounds.max_age
        while owner in self._owned and self._owned[owner].is_too_old(before):
            self._drop_oldest(owner)

    def _drop_oldest(self, owner: str) -> None:
        owned = self._owned[owner]
        self._quota.change(owner, -1, -owned.drop_oldest())
        if not owned.events:
            del self._owned[owner]


# What one owner has in an event log, and the one place where a log may fail: that costs resumption, nothing else.

_log = logging.getLogger("trio_mcp.transports")


@define(eq=False)
class EventRecord:
    """The events of one owner. Nobody outside of this process can know its name in the log."""

    _events: EventLog
    _owner: str = field(factory=lambda: secrets.token_hex(16), init=False)
    _appending: int = field(default=0, init=False)
    """Calls of `append` under way."""
    _appended: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _is_closed: bool = field(default=False, init=False)
    _failures: int = field(default=0, init=False)

    async def append(self, stream: int, first: int, events: Sequence[bytes]) -> None:
        """Keep events, if the log can."""
        if self._is_closed:
            return
        self._appending += 1
        try:
            await self._events.append(self._owner, stream, first, events)
        except Exception as exc:  # noqa: BLE001 # whatever a store of somebody else's raises
            self._log_failure("keep events", exc)
        finally:
            self._appending -= 1
            self._appended.unpark_all()

    async def read(self, stream: int, after: int) -> tuple[int, Sequence[bytes]]:
        """Return the number of the oldest event after number *after*, and some from it on; none where it cannot."""
        try:
            return await self._events.read(self._owner, stream, after)
        except Exception as exc:  # noqa: BLE001 # likewise
            self._log_failure("read events", exc)
            return 0, ()

    async def forget(self) -> None:
        """Drop everything, and keep nothing more."""
        self._is_closed = True
        while self._appending:
            await self._appended.park()
        try:
            await self._events.forget(self._owner)
        except Exception as exc:  # noqa: BLE001 # likewise
            self._log_failure("forget events", exc)

    def _log_failure(self, what: str, exc: Exception) -> None:
        self._failures += 1
        if self._failures == 1:  # a full disk is full for each of thousands of events
            _log.error("the event store cannot %s of a client; what it fails at next is only a debug message", what)
        _log.log(logging.ERROR if self._failures == 1 else logging.DEBUG, "its failure", exc_info=exc)


# Events stored in a file, where they take no memory: SQLite, worked on by one thread at a time.
#
# Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery

T = TypeVar("T")

_TABLES = """
create table if not exists events (
    id integer primary key,
    owner text not null,
    stream integer not null,
    number integer not null,
    kept_at real not null,
    data blob not null,
    unique (owner, stream, number)
);
create index if not exists events_by_owner on events (owner);
create index if not exists events_by_age on events (kept_at);
"""


class SqliteEventStore:
    """Keeps events in an SQLite file, so that many of them take no memory.

    The file does not make streams outlive their process: clients come back to a session, and sessions are in memory.
    What a process has left behind goes when it is too old. Processes may share a file; each keeps to its own bounds.

    What clients are told is in the file as it is. Where there was none, it is made for its owner's eyes only.

    Args:
        path: where the file is, or will be.
        max_events: how many this process keeps, of all clients together.
        max_bytes: how large they may be together; the file is somewhat larger.
        max_age: for how long each is stored, in seconds.

    Raises:
        ValueError: a bound is not above 0.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_events: int = 1_000_000,
        max_bytes: int = 2**30,
        max_age: float = 30 * 60.0,
    ) -> None:
        self._path = Path(path)
        self._bounds = EventBounds(max_events, max_bytes, max_age)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[EventLog]:
        """Open the file, and close it at the end of the block.

        Raises:
            OSError: the file cannot be made.
            sqlite3.Error: it is not one of SQLite's, or cannot be written.
        """
        one_at_a_time = trio.CapacityLimiter(1)
        connection = await trio.to_thread.run_sync(_connect, self._path, limiter=one_at_a_time)
        try:
            yield _SqliteLog(self._bounds, connection, one_at_a_time)
        finally:
            with trio.CancelScope(shield=True):  # a file is closed soon
                await trio.to_thread.run_sync(connection.close, limiter=one_at_a_time)


def _connect(path: Path) -> sqlite3.Connection:
    import sqlite3  # noqa: PLC0415 # few servers use it

    path.touch(mode=0o600)
    connection = sqlite3.connect(path, check_same_thread=False)  # the limiter keeps threads apart
    try:
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = off")  # what a crash of the machine leaves nobody reads
        connection.executescript(_TABLES)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


@define(eq=False)
class _SqliteLog:
    _bounds: EventBounds
    _connection: sqlite3.Connection
    _one_at_a_time: trio.CapacityLimiter
    _quota: EventQuota = field(init=False)
    """What this process has in the file."""
    _is_counted: bool = field(default=True, init=False)
    """Whether that is so; not after a failure, or after others than this process have removed something."""
    _next_sweep: float = field(default=0.0, init=False)

    def __attrs_post_init__(self) -> None:
        self._quota = EventQuota(self._bounds)

    async def append(self, owner: str, stream: int, first: int, events: Sequence[bytes]) -> None:
        await self._in_thread(partial(self._append, owner, stream, first, events))

    async def read(self, owner: str, stream: int, after: int) -> tuple[int, Sequence[bytes]]:
        return await self._in_thread(partial(self._read, owner, stream, after))

    async def forget(self, owner: str) -> None:
        await self._in_thread(partial(self._forget, owner))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Do something with the file. What has begun is finished, also when this is cancelled."""
        return await trio.to_thread.run_sync(work, limiter=self._one_at_a_time)

    def _append(self, owner: str, stream: int, first: int, events: Sequence[bytes]) -> None:
        now = time.time()
        if now >= self._next_sweep:
            self._sweep(now)
        if not self._is_counted:
            self._count()
        self._is_counted = False
        with self._connection:
            self._connection.executemany(
                "insert into events (owner, stream, number, kept_at, data) values (?, ?, ?, ?, ?)",
                [(owner, stream, number, now, data) for number, data in enumerate(events, first)],
            )
            self._quota.change(owner, len(events), sum(map(len, events)))
            for largest, count in self._quota.evictions():
                self._drop_oldest(largest, count)
        self._is_counted = True

    def _drop_oldest(self, owner: str, count: int) -> None:
        oldest = "from events where owner = ? order by id limit ?"
        dropped, size = self._connection.execute(
            f"select count(*), total(length(data)) from (select data {oldest})",  # noqa: S608 # all of it stands here
            (owner, count),
        ).fetchone()
        self._connection.execute(f"delete from events where id in (select id {oldest})", (owner, count))  # noqa: S608
        if dropped < count:  # somebody else has swept the rest
            self._quota.drop(owner)
        else:
            self._quota.change(owner, -dropped, -int(size))

    def _sweep(self, now: float) -> None:
        with self._connection:
            self._connection.execute("delete from events where kept_at < ?", (now - self._bounds.max_age,))
        self._next_sweep = now + self._bounds.seconds_between_sweeps
        self._is_counted = False

    def _count(self) -> None:
        owners, self._quota = self._quota.owners, EventQuota(self._bounds)
        for owner in owners:
            held, size = self._connection.execute(
                "select count(*), total(length(data)) from events where owner = ?", (owner,)
            ).fetchone()
            if held:
                self._quota.change(owner, held, int(size))

    def _read(self, owner: str, stream: int, after: int) -> tuple[int, Sequence[bytes]]:
        found = self._connection.execute(
            "select number, data from events where owner = ? and stream = ? and number > ? and kept_at >= ?"
            " order by number",
            (owner, stream, after, time.time() - self._bounds.max_age),
        )
        first, page = 0, list[bytes]()
        size = 0
        for number, data in found:
            first = first or number
            if number != first + len(page) or size >= PAGE_BYTES:
                break
            page.append(data)
            size += len(data)
        found.close()
        return first, page

    def _forget(self, owner: str) -> None:
        with self._connection:
            self._connection.execute("delete from events where owner = ?", (owner,))
        self._quota.drop(owner)
