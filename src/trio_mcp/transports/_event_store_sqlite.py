"""Events kept in a file, where they take no memory: SQLite, worked on by one thread at a time.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import trio
from attrs import define, field

from ..abc import EventLog
from ._event_store import PAGE_BYTES, EventBounds, Holdings

if TYPE_CHECKING:
    import sqlite3

__all__ = ["SqliteEventStore"]

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
        max_age: for how long each is kept, in seconds.

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
    _holdings: Holdings = field(init=False)
    """What this process has in the file."""
    _is_counted: bool = field(default=True, init=False)
    """Whether that is so; not after a failure, or after others than this process have removed something."""
    _next_sweep: float = field(default=0.0, init=False)

    def __attrs_post_init__(self) -> None:
        self._holdings = Holdings(self._bounds)

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
            self._holdings.change(owner, len(events), sum(map(len, events)))
            for giver, count in self._holdings.givers():
                self._drop_oldest(giver, count)
        self._is_counted = True

    def _drop_oldest(self, owner: str, count: int) -> None:
        oldest = "from events where owner = ? order by id limit ?"
        dropped, size = self._connection.execute(
            f"select count(*), total(length(data)) from (select data {oldest})",  # noqa: S608 # all of it stands here
            (owner, count),
        ).fetchone()
        self._connection.execute(f"delete from events where id in (select id {oldest})", (owner, count))  # noqa: S608
        if dropped < count:  # somebody else has swept the rest
            self._holdings.drop(owner)
        else:
            self._holdings.change(owner, -dropped, -int(size))

    def _sweep(self, now: float) -> None:
        with self._connection:
            self._connection.execute("delete from events where kept_at < ?", (now - self._bounds.max_age,))
        self._next_sweep = now + self._bounds.seconds_between_sweeps
        self._is_counted = False

    def _count(self) -> None:
        owners, self._holdings = self._holdings.owners, Holdings(self._bounds)
        for owner in owners:
            held, size = self._connection.execute(
                "select count(*), total(length(data)) from events where owner = ?", (owner,)
            ).fetchone()
            if held:
                self._holdings.change(owner, held, int(size))

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
        self._holdings.drop(owner)
