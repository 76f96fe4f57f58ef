"""A backend in an SQLite file, which several processes of one machine use at once.

Rules of this file:

1. Each method is one transaction in a worker thread, which is not abandoned: a cancelled call has either not begun, or
   ends as if it had not been cancelled.
2. What a method has written outlives the process, however it ends (WAL; ``synchronous=NORMAL``). A power failure may
   take the latest transactions, but then all processes that have seen them are gone too.
3. A state has two connections: one for its methods and one that watches. Each is used by one thread at a time.
4. The watch asks every 20 ms, and only while somebody follows, whether another connection has written (`PRAGMA
   data_version`, which reads no page); what the same object appends is announced at once.
5. Times are those of the system clock, which all processes of a machine share.
"""

from __future__ import annotations

import math
import os
import secrets
import sqlite3
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import trio
from attrs import define, field, frozen

from .. import SharedUnavailable
from ..abc import SharedState, StreamPart
from ..lowlevel import owned_nursery
from ._parts import MOST_BYTES, MOST_ENTRIES, StreamPlace, check_append, check_names, check_seconds, part_after

__all__ = ["SqliteShared"]

T = TypeVar("T")

_VERSION = 1
"""The version of the tables."""
_TABLES = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS vals (key TEXT PRIMARY KEY, content BLOB NOT NULL, expires_at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS streams (
    name TEXT PRIMARY KEY, generation INTEGER NOT NULL, last INTEGER NOT NULL, expires_at REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS entries (
    generation INTEGER, number INTEGER, content BLOB NOT NULL, PRIMARY KEY (generation, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS leases (
    of_group TEXT, name TEXT, content BLOB NOT NULL, expires_at REAL NOT NULL, PRIMARY KEY (of_group, name)
);
CREATE INDEX IF NOT EXISTS expiring_vals ON vals (expires_at);
CREATE INDEX IF NOT EXISTS expiring_streams ON streams (expires_at);
CREATE INDEX IF NOT EXISTS expiring_leases ON leases (expires_at);
PRAGMA user_version = {_VERSION};
COMMIT;
"""
_POLL_SECONDS = 0.02
_LONGEST_WAIT = 0.9
"""The time that a method waits for the locks of other processes, in seconds."""
_SHORTEST_WAIT = 0.02
"""The same for a method that has waited long for its turn in this process."""
_SECONDS_BETWEEN_CLEANING = 5.0
_MOST_AT_ONCE = 1000
"""The number of things of each kind that are dropped at once."""
_LONGEST_PAUSE = 1.0
"""The time between attempts of a follower to use a file that cannot be used, in seconds."""


@define(eq=False)
class SqliteShared:
    """Keeps shared state in an SQLite file, for the processes of one machine.

    What is written outlives the processes. The file must not be on a network drive. It may be deleted while it is used:
    then the state is lost, and begins anew. An append is seen in the same process at once, and in others within 20 ms.

    Args:
        path: the path of the file, which is created with access only for its owner (0600).
    """

    path: Path = field(converter=Path)
    _states: list[_SqliteState] = field(factory=list["_SqliteState"], init=False, repr=False)
    """The open states."""

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[SharedState]:
        """Open the file, which is created if it does not exist.

        Raises:
            SharedUnavailable: the file cannot be used, or was written by another version of this package.
        """
        state = _SqliteState(self.path, self._states)
        await state.last("connect")
        self._states.append(state)
        try:
            async with owned_nursery() as nursery:
                nursery.start_soon(state.watch)
                yield state
        finally:
            self._states.remove(state)
            with trio.CancelScope(shield=True):
                await state.close()


@define(eq=False)
class _SqliteFile:
    """A connection to the file, used by one thread at a time (rule 3)."""

    _path: Path
    _connection: sqlite3.Connection | None = field(default=None, init=False)
    _identity: tuple[int, int] | None = field(default=None, init=False)
    """The device and the inode of the connected file."""
    _one_at_a_time: trio.CapacityLimiter = field(factory=lambda: trio.CapacityLimiter(1), init=False)
    connects: int = field(default=0, init=False)
    """The number of times that it was connected."""
    _is_closed: bool = field(default=False, init=False)

    async def run(self, work: Callable[[sqlite3.Connection], T], *, writes: bool = False) -> T:
        """Run a transaction in a worker thread (rule 1).

        Raises:
            SharedUnavailable: the file cannot be used, or is locked for too long.
        """
        begun = time.monotonic()
        return await trio.to_thread.run_sync(self._run, work, writes, begun, limiter=self._one_at_a_time)

    def _run(self, work: Callable[[sqlite3.Connection], T], writes: bool, begun: float) -> T:
        deadline = max(begun + _LONGEST_WAIT, time.monotonic() + _SHORTEST_WAIT)
        try:
            connection = self._connected(deadline)
            connection.execute(f"PRAGMA busy_timeout={_milliseconds_until(deadline)}")
            with _transaction(connection, "BEGIN IMMEDIATE" if writes else "BEGIN"):
                return work(connection)
        except (OSError, sqlite3.Error) as error:
            if not _is_busy(error):
                self._disconnect()  # the next call begins anew
            raise SharedUnavailable(f"the SQLite file {str(self._path)!r} cannot be used: {error}") from error

    def _connected(self, deadline: float) -> sqlite3.Connection:
        if self._is_closed:
            raise OSError("the block of its state was left")
        if self._connection is not None and self._identity != _identity_of(self._path):
            self._disconnect()  # the file was deleted, or replaced
        if self._connection is None:
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
            self._identity = _identity_of(self._path)
            self._connection = _connect(self._path, deadline)
            self.connects += 1
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def close(self, *, for_ever: bool = True) -> None:
        """Close the connection; if not for ever, the next call opens another one."""
        self._is_closed = for_ever
        await trio.to_thread.run_sync(self._disconnect, limiter=self._one_at_a_time)


def _connect(path: Path, deadline: float) -> sqlite3.Connection:
    """Open a file and make its tables."""
    while True:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
        try:
            connection.execute(f"PRAGMA busy_timeout={_milliseconds_until(deadline)}")
            _prepare(connection)
        except BaseException as error:
            connection.close()
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)  # a process that switches the file to WAL does not let others wait, but fail
        else:
            return connection


def _prepare(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version not in {0, _VERSION}:
        raise OSError(f"it has tables of version {version}, and this program knows version {_VERSION}")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    if version == 0:
        connection.executescript(_TABLES)


def _identity_of(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _milliseconds_until(deadline: float) -> int:
    return max(0, round((deadline - time.monotonic()) * 1000))


def _is_busy(error: BaseException) -> bool:
    """Return True if another connection uses the file for too long. Variants of an error differ in the second byte."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


@contextmanager
def _transaction(tables: sqlite3.Connection, begin: str) -> Generator[None]:
    tables.execute(begin)
    try:
        yield
        tables.execute("COMMIT")
    except BaseException:
        tables.rollback()  # does nothing if the error has ended the transaction already
        raise


@frozen
class _Seen:
    """The latest observations of the watch."""

    connects: int = 0
    """The number of its connection (`_SqliteFile.connects`)."""
    version: int = -1
    """The version of the data, which has a meaning only for this connection."""
    streams: set[str] = field(factory=set[str])
    """The streams that were followed."""


@define(eq=False)
class _SqliteState:
    """An open `SqliteShared`."""

    _path: Path
    _states: Sequence[_SqliteState]
    """The open states of the same object."""
    _file: _SqliteFile = field(init=False)
    _watched: _SqliteFile = field(init=False)
    followers: set[_SqliteFollower] = field(factory=set["_SqliteFollower"], init=False)
    token: trio.lowlevel.TrioToken = field(factory=trio.lowlevel.current_trio_token, init=False)
    """The token of the Trio run of this state."""
    _someone_follows: trio.Event = field(factory=trio.Event, init=False)
    _cleaned_at: float = field(default=-math.inf, init=False)
    """The latest time at which expired things were dropped, as `time.monotonic` counts."""

    def __attrs_post_init__(self) -> None:
        self._file, self._watched = _SqliteFile(self._path), _SqliteFile(self._path)

    async def close(self) -> None:
        """Close the connections."""
        await self._file.close()
        await self._watched.close()

    @property
    def host(self) -> str:
        """This machine: all processes are on it."""
        return "127.0.0.1"

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await self._file.run(partial(self._cleaning, work), writes=True)

    def _cleaning(self, work: Callable[[sqlite3.Connection], T], tables: sqlite3.Connection) -> T:
        """Do *work*, and now and then drop what has expired, so that the file does not grow."""
        if time.monotonic() >= self._cleaned_at + _SECONDS_BETWEEN_CLEANING:
            self._cleaned_at = time.monotonic()
            _drop_expired(tables)
        return work(tables)

    # --- Values ---

    async def get(self, key: str) -> bytes | None:
        """Return a value."""
        check_names(key)
        return await self._file.run(partial(_value, key))

    async def swap(self, key: str, old: bytes | None, new: bytes | None, *, seconds: float = math.inf) -> bool:
        """Set a value if it is *old*."""
        check_names(key)
        check_seconds(seconds)

        def swap(tables: sqlite3.Connection) -> bool:
            if _value(key, tables) != old:
                return False
            if new is None:
                tables.execute("DELETE FROM vals WHERE key = ?", (key,))
            else:
                tables.execute("REPLACE INTO vals VALUES (?, ?, ?)", (key, new, time.time() + seconds))
            return True

        return await self._write(swap)

    # --- Streams ---

    async def append(self, stream: str, entries: Sequence[bytes], *, at_most: int, seconds: float = math.inf) -> int:
        """Append entries."""
        check_append(stream, at_most, seconds)
        last = await self._write(partial(_append, stream, [*entries], at_most, seconds))
        for state in [*self._states]:  # another run may open one at the same time
            if state.token is self.token:  # another run learns it from the file
                for follower in state.followers:
                    follower.appended(stream)
        return last

    async def read(self, stream: str, after: int) -> StreamPart:
        """Return entries after a number."""
        check_names(stream)

        def read(tables: sqlite3.Connection) -> StreamPart:
            generation, last = _end(stream, tables)
            return part_after(after, last, *_entries(tables, generation, after))

        return await self._file.run(read)

    async def last(self, stream: str) -> int:
        """Return the number of the last entry."""
        check_names(stream)
        return (await self._file.run(partial(_end, stream)))[1]

    @asynccontextmanager
    async def follow(self, stream: str) -> AsyncGenerator[AsyncIterator[StreamPart]]:
        """Follow a stream."""
        check_names(stream)
        follower = _SqliteFollower(self._file, stream, StreamPlace(*await self._file.run(partial(_end, stream))))
        self.followers.add(follower)
        self._someone_follows.set()
        try:
            yield follower
        finally:
            self.followers.remove(follower)
            if not self.followers:
                self._someone_follows = trio.Event()

    async def watch(self) -> None:
        """Tell the followers what other connections have appended (rule 4)."""
        while True:
            await self._someone_follows.wait()
            await self._poll()
            await self._watched.close(for_ever=False)

    async def _poll(self) -> None:
        """Look at the file again and again, as long as somebody follows."""
        seen, pause = _Seen(), _POLL_SECONDS
        while self.followers:
            streams = {follower.stream for follower in self.followers}
            try:
                seen, ends = await self._watched.run(partial(self._changes, seen, streams))
                pause = _POLL_SECONDS
            except SharedUnavailable:
                seen, ends, pause = _Seen(), {}, min(pause * 2, _LONGEST_PAUSE)
            for follower in self.followers:
                follower.seen_end(ends.get(follower.stream))
            await trio.sleep(pause)

    def _changes(
        self, seen: _Seen, streams: set[str], tables: sqlite3.Connection
    ) -> tuple[_Seen, dict[str, tuple[int, int]]]:
        """Return what the watch has seen now, and the ends of streams if something may have changed."""
        connects = self._watched.connects
        version = seen.version if connects == seen.connects and streams <= seen.streams else -1
        version, ends = _ends(version, streams, tables)
        return _Seen(connects, version, streams), ends

    # --- Leases ---

    async def lease(self, group: str, name: str, value: bytes, *, seconds: float) -> None:
        """Hold a lease."""
        check_names(group, name)
        check_seconds(seconds)

        def lease(tables: sqlite3.Connection) -> None:
            tables.execute("REPLACE INTO leases VALUES (?, ?, ?, ?)", (group, name, value, time.time() + seconds))

        await self._write(lease)

    async def release(self, group: str, name: str) -> None:
        """Give a lease back."""
        check_names(group, name)

        def release(tables: sqlite3.Connection) -> None:
            tables.execute("DELETE FROM leases WHERE of_group = ? AND name = ?", (group, name))

        await self._write(release)

    async def leases(self, group: str) -> Mapping[str, bytes]:
        """Return the leases of a group."""
        check_names(group)

        def leases(tables: sqlite3.Connection) -> Mapping[str, bytes]:
            query = "SELECT name, content FROM leases WHERE of_group = ? AND expires_at > ?"
            return dict(tables.execute(query, (group, time.time())).fetchall())

        return await self._file.run(leases)


@define(eq=False)
class _SqliteFollower:
    """An iterator over what is appended to a stream. If a wait is cancelled, the next one continues."""

    _file: _SqliteFile
    stream: str
    _place: StreamPlace
    _news: trio.Event = field(factory=trio.Event, init=False)
    """Set if there may be entries that were not seen."""

    def appended(self, stream: str) -> None:
        """Take note that something was appended to a stream."""
        if stream == self.stream:
            self._news.set()

    def seen_end(self, end: tuple[int, int] | None) -> None:
        """Take note of the generation and the last number of the stream; None if they are not known to have changed."""
        if end is not None and end != (self._place.generation, self._place.number):
            self._news.set()

    def __aiter__(self) -> AsyncIterator[StreamPart]:
        return self

    async def __anext__(self) -> StreamPart:
        pause = _POLL_SECONDS
        while True:
            await self._news.wait()
            self._news = trio.Event()
            try:
                generation, first, entries, is_all = await self._file.run(self._read)
            except BaseException as error:
                self._news.set()  # it is still to be read
                if not isinstance(error, SharedUnavailable):
                    raise
                await trio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
                continue
            if not is_all:
                self._news.set()
            if entries:
                return self._place.move(generation, first, entries)

    def _read(self, tables: sqlite3.Connection) -> tuple[int, int, Sequence[bytes], bool]:
        """Return the generation of the stream, the next entries, and whether these are all."""
        generation, last = _end(self.stream, tables)
        after = self._place.number if generation == self._place.generation else 0
        first, entries = _entries(tables, generation, after)
        return generation, first, entries, first + len(entries) > last


# --- Transactions ---


def _value(key: str, tables: sqlite3.Connection) -> bytes | None:
    query = "SELECT content FROM vals WHERE key = ? AND expires_at > ?"
    row: tuple[bytes] | None = tables.execute(query, (key, time.time())).fetchone()
    return None if row is None else row[0]


def _end(stream: str, tables: sqlite3.Connection) -> tuple[int, int]:
    """Return the generation of a stream and the number of its last entry; 0 and 0 if there is none."""
    query = "SELECT generation, last FROM streams WHERE name = ? AND expires_at > ?"
    row: tuple[int, int] | None = tables.execute(query, (stream, time.time())).fetchone()
    return (0, 0) if row is None else row


def _append(stream: str, entries: Sequence[bytes], at_most: int, seconds: float, tables: sqlite3.Connection) -> int:
    generation, last = _end(stream, tables)
    if not generation:
        generation = secrets.randbits(62) + 1
        _drop_stream(tables, stream)  # an earlier one, which has expired
    numbered = [(generation, number, entry) for number, entry in enumerate(entries, last + 1)]
    last += len(entries)
    tables.executemany("INSERT INTO entries VALUES (?, ?, ?)", numbered[-at_most:])
    tables.execute("DELETE FROM entries WHERE generation = ? AND number <= ?", (generation, last - at_most))
    tables.execute("REPLACE INTO streams VALUES (?, ?, ?, ?)", (stream, generation, last, time.time() + seconds))
    return last


def _entries(tables: sqlite3.Connection, generation: int, after: int) -> tuple[int, Sequence[bytes]]:
    """Return entries after a number: the number of the first, and a limited number of them."""
    query = "SELECT number, content FROM entries WHERE generation = ? AND number > ? ORDER BY number LIMIT ?"
    found: list[tuple[int, bytes]] = []
    size = 0
    for number, entry in tables.execute(query, (generation, after, MOST_ENTRIES)):
        found.append((number, entry))
        size += len(entry)
        if size >= MOST_BYTES:
            break
    return (found[0][0] if found else after + 1), [entry for _, entry in found]


def _ends(version: int, streams: set[str], tables: sqlite3.Connection) -> tuple[int, dict[str, tuple[int, int]]]:
    """Return the version of the data, and the ends of streams if it is not *version*."""
    (found,) = tables.execute("PRAGMA data_version").fetchone()
    if found == version:
        return version, {}
    ends = {stream: _end(stream, tables) for stream in streams}
    return found, {stream: end for stream, end in ends.items() if end != (0, 0)}


def _drop_expired(tables: sqlite3.Connection) -> None:
    now = time.time()
    for table in ("vals", "leases"):
        chosen = f"SELECT rowid FROM {table} WHERE expires_at <= ? LIMIT ?"  # noqa: S608 # the name of a table above
        tables.execute(f"DELETE FROM {table} WHERE rowid IN ({chosen})", (now, _MOST_AT_ONCE))  # noqa: S608 # as above
    streams = tables.execute("SELECT name FROM streams WHERE expires_at <= ? LIMIT ?", (now, _MOST_AT_ONCE)).fetchall()
    for (name,) in streams:
        _drop_stream(tables, name)


def _drop_stream(tables: sqlite3.Connection, name: str) -> None:
    query = "DELETE FROM entries WHERE generation = (SELECT generation FROM streams WHERE name = ?)"
    tables.execute(query, (name,))
    tables.execute("DELETE FROM streams WHERE name = ?", (name,))
