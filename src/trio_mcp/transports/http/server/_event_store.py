"""Event stores for resumable streams, in memory and in an SQLite file, with bounds for what they keep.

Rules of this file:

1. A store holds a bounded number of events and bytes. Beyond a bound, it drops the oldest events of the owner that
   holds most, so a client that causes too much loses its own events. It drops enough to make this rare.
2. Events that are too old are not returned, and are deleted eventually.
3. A store that fails, is slow or hangs costs resumption and nothing else: `EventGuard` stops waiting for it, for all
   sessions at once, and leaves it alone for some seconds.
4. SQLite is used by one worker thread at a time.
5. A bounded number of operations is in flight, with turns by client: a client with many events delays another one by
   these few.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery
"""

from __future__ import annotations

import logging
import math
import os
import secrets
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import trio
from attrs import define, field, frozen

from ...._shares import Sender
from ...._util import failure_of
from ....abc import EventLog
from ....peer import FairLimiter
from ....wire import JsonObject

if TYPE_CHECKING:
    import sqlite3

__all__ = [
    "PAGE_BYTES",
    "EventBounds",
    "EventGuard",
    "EventQuota",
    "EventRecord",
    "MemoryEventStore",
    "SqliteEventStore",
]

PAGE_BYTES = 64 * 1024
"""The number of bytes that are read at once, unless a single event is longer."""
_RELIEF = 0.9
"""The share of the bounds that is left after events were dropped (rule 1)."""
_SWEEPS = 4
"""The number of searches for old events within their maximum age."""
_MOST_MOVED_STREAMS = 32
"""The number of streams whose events move with a session to another process."""


@frozen
class EventBounds:
    """The bounds of a store.

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
        """The time between two searches for old events."""
        return self.max_age / _SWEEPS


@define(eq=False)
class EventQuota:
    """The events and bytes that each owner holds, and the choice of those to drop."""

    _bounds: EventBounds
    events: int = field(default=0, init=False)
    size: int = field(default=0, init=False)
    """In bytes."""
    _by_owner: dict[str, tuple[int, int]] = field(factory=dict[str, "tuple[int, int]"], init=False)
    """The number and bytes of the events of each owner that holds any."""

    def change(self, owner: str, events: int, size: int) -> None:
        """Add events and bytes to an owner, or subtract them."""
        self.events += events
        self.size += size
        held, held_bytes = self._by_owner.get(owner, (0, 0))
        if held + events:
            self._by_owner[owner] = held + events, held_bytes + size
        else:
            del self._by_owner[owner]

    def drop(self, owner: str) -> None:
        """Remove an owner."""
        events, size = self._by_owner.get(owner, (0, 0))
        if events:
            self.change(owner, -events, -size)

    @property
    def owners(self) -> Sequence[str]:
        """The owners that hold any events."""
        return [*self._by_owner]

    def evictions(self) -> Iterator[tuple[str, int]]:
        """Yield owners with the number of their oldest events to drop, until the bounds are kept (rule 1).

        Pass what was dropped to `change` before asking for the next one.
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
    """Stores events in the memory of this process.

    Args:
        max_events: the maximum number of events of all clients together.
        max_bytes: their maximum size together.
        max_age: the time that each event is kept, in seconds.

    Raises:
        ValueError: a bound is not above 0.
    """

    def __init__(self, *, max_events: int = 10_000, max_bytes: int = 64 * 2**20, max_age: float = 30 * 60.0) -> None:
        self._bounds = EventBounds(max_events, max_bytes, max_age)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[EventLog]:
        """Open an empty store, which is gone at the end of the block."""
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
        """Drop the oldest event, and return its size in bytes."""
        stream, number = next(iter(self.events))
        stored = self.events.pop((stream, number))
        if (stream, number + 1) in self.events:
            self.firsts[stream] = number + 1
        else:
            del self.firsts[stream]
        return len(stored.data)

    def is_too_old(self, before: float) -> bool:
        """Return True if the oldest event was stored before *before*."""
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


_log = logging.getLogger("trio_mcp.transports")


T = TypeVar("T")

PATIENCE: Final = 0.15
"""The seconds that all sessions together wait for a store that does not answer, until they leave it alone."""
REST_SECONDS: Final = 5.0
"""The time for which a store is left alone."""
_QUICK: Final = 0.02
"""The seconds of an operation that do not count as a delay."""
_RECOVERY: Final = 0.05
"""The seconds of patience that return in each second."""
_PART_SECONDS: Final = 0.01
_MOST_IN_FLIGHT: Final = 16
"""The length of the parts in which a delay is measured."""


@define(eq=False)
class _Operation(Generic[T]):
    """One operation of a store, in a task of its own: an operation that hangs may not react to a cancellation."""

    call: Callable[[], Awaitable[T]]
    scope: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    ended: trio.Event = field(factory=trio.Event, init=False)
    """Set when it has ended, or when no session waits for the store any more."""
    outcome: T | None = field(default=None, init=False)
    failure: Exception | None = field(default=None, init=False)
    is_done: bool = field(default=False, init=False)

    @trio.lowlevel.enable_ki_protection  # an interrupt is for the main task of the program
    async def run(self) -> None:
        """Run it to its end, or until it is cancelled; whatever the store raises is its failure."""
        try:
            with self.scope:
                self.outcome = await self.call()
                self.is_done = True
        except BaseException as exc:  # noqa: BLE001 # `failure_of` raises it again unless it is a failure
            self.failure = failure_of(exc, "the event store", _log)
            self.is_done = True


@define(eq=False)
class EventGuard:
    """The event store of an application, as all of its sessions use it.

    If the store fails, or delays the sessions by more than `PATIENCE` together, no session waits for it any more, and
    it is left alone for `REST_SECONDS`. Then one operation tries it. A store in which an operation hangs is not tried
    again before that operation has ended, so no more than the operations of one moment hang.

    Args:
        events: the open store.
        nursery: the nursery for its operations.
    """

    _events: EventLog
    _nursery: trio.Nursery
    _patience: float = field(default=PATIENCE, init=False)
    """The seconds that sessions still wait."""
    _counted_until: float = field(factory=trio.current_time, init=False)
    """The time until which delays have been subtracted from the patience: those of several sessions count once."""
    _rests_until: float = field(default=-math.inf, init=False)
    _is_trusted: bool = field(default=True, init=False)
    """False between a failure and the next success; one operation at a time is tried meanwhile."""
    _running: dict[_Operation[Any], bool] = field(factory=dict["_Operation[Any]", bool], init=False)
    """The operations that have not ended; True if no session waits for them any more."""
    _turns: FairLimiter = field(factory=lambda: FairLimiter(_MOST_IN_FLIGHT, leaves_places=True), init=False)

    async def attempt(self, what: str, call: Callable[[EventLog], Awaitable[T]], sender: Sender) -> T | None:
        """Return the result of an operation, or None if the store is left alone.

        Args:
            what: a verb and an object, for the log.
            call: makes the operation.
            sender: the client for which it is made (rule 5).
        """
        if not self._may_try():
            await trio.lowlevel.checkpoint()
            return None
        await self._turns.acquire(sender)
        try:
            return await self._try(what, partial(call, self._events)) if self._may_try() else None
        finally:
            self._turns.release(sender)

    async def _try(self, what: str, call: Callable[[], Awaitable[T]]) -> T | None:
        operation, begun = _Operation(call), trio.current_time()
        self._running[operation] = False
        self._nursery.start_soon(self._run, operation, name="the event store")
        try:
            delay = await self._wait(operation, self._refilled(begun))
        finally:
            if not operation.ended.is_set():
                operation.scope.cancel(reason="no session waits for the operation")
        if operation.is_done:
            self._note_end(what, operation, begun, delay)
        elif self._running.get(operation) is False:
            self._leave_alone(what, None)
        outcome: T | None = operation.outcome
        return outcome

    @staticmethod
    async def _wait(operation: _Operation[Any], seconds: float) -> float:
        """Wait for the end of an operation for at most *seconds*; return the seconds that count as its delay.

        The time is measured in short parts, because a part that lasts longer than it should is not the fault of the
        store: the process was busy or stood still.
        """
        delay = 0.0
        while True:
            begun = trio.current_time()
            with trio.move_on_after(_PART_SECONDS):
                await operation.ended.wait()
            delay += min(trio.current_time() - begun, _PART_SECONDS)
            if delay >= seconds or operation.ended.is_set():
                return delay

    async def _run(self, operation: _Operation[Any]) -> None:
        try:
            await operation.run()
        finally:
            del self._running[operation]
            operation.ended.set()

    def _may_try(self) -> bool:
        if trio.current_time() < self._rests_until or any(self._running.values()):
            return False
        return self._is_trusted or not self._running

    def _refilled(self, now: float) -> float:
        """Return the current patience."""
        if self._counted_until < now:
            self._patience = min(self._patience + (now - self._counted_until) * _RECOVERY, PATIENCE)
            self._counted_until = now
        return max(self._patience, 0.0)

    def _note_end(self, what: str, operation: _Operation[Any], begun: float, delay: float) -> None:
        now = trio.current_time()
        if delay > _QUICK:
            self._patience -= min(delay, now - max(begun, self._counted_until))
            self._counted_until = now
        if operation.failure is not None or self._patience <= 0:
            self._leave_alone(what, operation.failure)
        elif not self._is_trusted and now >= self._rests_until:
            self._is_trusted = True
            _log.warning("the event store works again")

    def _leave_alone(self, what: str, failure: Exception | None) -> None:
        """Wait for no operation any more, and begin none for a while."""
        for operation in self._running:
            self._running[operation] = True
            operation.scope.cancel(reason="the event store does not answer in time")
            operation.ended.set()
        level = logging.ERROR if self._is_trusted else logging.DEBUG  # it would fail for each of thousands of events
        why = "does not answer in time" if failure is None else "fails"
        _log.log(
            level,
            "the event store %s: it cannot %s of a client; it is left alone for %g seconds, and clients cannot resume"
            " what it misses; its further failures are logged at debug level until it works again",
            why,
            what,
            REST_SECONDS,
            exc_info=failure,
        )
        self._is_trusted, self._patience = False, PATIENCE
        self._rests_until = self._counted_until = trio.current_time() + REST_SECONDS


@define(eq=False)
class EventRecord:
    """The events of one owner, whose name in the log is unknown outside this process."""

    _events: EventGuard
    _sender: Sender = None
    """The client for which they are stored, which may have several records."""
    _owner: str = field(factory=lambda: secrets.token_hex(16), init=False)
    _appending: int = field(default=0, init=False)
    """The number of calls of `append` in flight."""
    _appended: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _is_closed: bool = field(default=False, init=False)
    _latest: dict[int, None] = field(factory=dict[int, None], init=False)
    """The streams that events were stored of most recently, the newest last."""

    async def append(self, stream: int, first: int, events: Sequence[bytes]) -> None:
        """Store events, if the store can."""
        if self._is_closed:
            return
        self._latest.pop(stream, None)
        self._latest[stream] = None
        if len(self._latest) > _MOST_MOVED_STREAMS:
            del self._latest[next(iter(self._latest))]
        self._appending += 1
        try:
            await self._events.attempt(
                "store events", lambda log: log.append(self._owner, stream, first, events), self._sender
            )
        finally:
            self._appending -= 1
            self._appended.unpark_all()

    async def read(self, stream: int, after: int) -> tuple[int, Sequence[bytes]]:
        """Return some events after number *after*, and the number of the first; none if the store fails."""
        found = await self._events.attempt(
            "read events", lambda log: log.read(self._owner, stream, after), self._sender
        )
        return found or (0, ())

    async def to_json(self, first: int, most_bytes: int) -> JsonObject:
        """Return the latest events of the latest streams, for `restore` in another process.

        Args:
            first: a stream whose events are more important than those of the others.
            most_bytes: the maximum size of the events.
        """
        found: JsonObject = {}
        room = most_bytes
        for stream in dict.fromkeys([first, *reversed(self._latest)]):
            if room <= 0:
                break
            number, events = await self._read_latest(stream, room)
            if events:
                found[str(stream)] = {"first": number, "events": [each.decode() for each in events]}
                room -= sum(map(len, events))
        return found

    async def _read_latest(self, stream: int, most_bytes: int) -> tuple[int, Sequence[bytes]]:
        """Return the last events of a stream that have no more than so many bytes, and the number of the first."""
        kept: deque[bytes] = deque()
        last = size = 0
        while (page := await self.read(stream, last))[1]:
            if page[0] != last + 1:  # the events before it were dropped
                kept.clear()
                size = 0
            kept.extend(page[1])
            last = page[0] + len(page[1]) - 1
            size += sum(map(len, page[1]))
            while size > most_bytes:
                size -= len(kept.popleft())
        return last + 1 - len(kept), kept

    async def restore(self, events: JsonObject) -> None:
        """Store events that another process has stored.

        Args:
            events: returned by `to_json` there.
        """
        for stream, found in reversed(events.items()):
            await self.append(int(stream), found["first"], [each.encode() for each in found["events"]])

    async def forget(self) -> None:
        """Delete everything, if the store can, and store nothing more. It deletes what is too old in any case."""
        self._is_closed = True
        while self._appending:
            await self._appended.park()
        await self._events.attempt("delete events", lambda log: log.forget(self._owner), self._sender)


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
    """Stores events in an SQLite file, so that many events need no memory.

    Sessions are in memory, so the events that a process leaves behind without stopping are of no use, and are deleted
    when they are too old. When a session moves to another process, its latest events are stored there again. Processes
    may share a file; each keeps its own bounds.

    The file holds messages to clients in plain text. If it is created, only its owner may read it.

    Args:
        path: the file, which is created if it is missing.
        max_events: the maximum number of events of this process, of all clients together.
        max_bytes: their maximum size together; the file is somewhat larger.
        max_age: the time that each event is kept, in seconds.

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
            OSError: the file cannot be created.
            sqlite3.Error: it is not an SQLite file, or is not writable.
        """
        one_at_a_time = trio.CapacityLimiter(1)
        connection = await trio.to_thread.run_sync(_connect, self._path, limiter=one_at_a_time)
        try:
            yield _SqliteLog(self._bounds, connection, one_at_a_time)
        finally:
            with trio.CancelScope(shield=True):  # closing a file takes little time
                await trio.to_thread.run_sync(connection.close, limiter=one_at_a_time)


def _connect(path: Path) -> sqlite3.Connection:
    import sqlite3  # noqa: PLC0415 # few servers use it

    path.touch(mode=0o600)
    connection = sqlite3.connect(path, check_same_thread=False)  # the limiter keeps threads apart
    try:
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = off")  # events need not survive a crash of the machine
        connection.executescript(_TABLES)
        # From now on a file that another process has locked is waited for no longer than the sessions wait.
        connection.execute(f"pragma busy_timeout = {round(PATIENCE / 2 * 1000)}")
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
    """The events of this process in the file."""
    _is_counted: bool = field(default=True, init=False)
    """True if the quota is exact; False after a failure, or after another process has deleted events."""
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
        """Run *work* on the file in a worker thread. Work that has begun is completed, also if this is cancelled."""
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
            f"select count(*), total(length(data)) from (select data {oldest})",  # noqa: S608 # the text is constant
            (owner, count),
        ).fetchone()
        self._connection.execute(f"delete from events where id in (select id {oldest})", (owner, count))  # noqa: S608
        if dropped < count:  # another process has deleted the rest
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
