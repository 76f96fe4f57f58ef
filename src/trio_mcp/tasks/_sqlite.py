"""A store of tasks in an SQLite file, which several processes of one machine may use at once.

Rules of this file:

1. A method returns when its transaction is on the disk (``synchronous=FULL``), so neither a killed process nor a power
   failure loses what was said.
2. An owner holds a lock on a file of its own, next to the database. The system drops the lock when the process ends,
   however it ends; an owner whose file can be locked is gone.
3. SQLite is used by one worker thread at a time.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import trio
from attrs import define, field

from ..wire import decode, encode
from ._record import TaskRecord
from ._store import too_many_tasks

__all__ = ["SqliteTaskStore"]

T = TypeVar("T")

_VERSION = 1
"""The version of the tables."""
_TABLES = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS tasks (
    id TEXT PRIMARY KEY, principal TEXT, owner TEXT NOT NULL, is_final INTEGER NOT NULL, expires_at REAL,
    record TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS tasks_of_principals ON tasks (principal);
CREATE INDEX IF NOT EXISTS unfinished_tasks ON tasks (owner) WHERE NOT is_final;
CREATE INDEX IF NOT EXISTS expiring_tasks ON tasks (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE IF NOT EXISTS changed_by_others (owner TEXT NOT NULL, id TEXT NOT NULL, PRIMARY KEY (owner, id));
PRAGMA user_version = {_VERSION};
COMMIT;
"""
_MOST_AT_ONCE = 1000
"""The number of records that are read at once."""

if sys.platform == "win32":  # pragma: no cover # the tests run on POSIX
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        """Lock an open file if no process has locked it; return True if this succeeded."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@define(eq=False)
class SqliteTaskStore:
    """Keeps tasks in an SQLite file, so that they outlive the process.

    After a restart, tasks whose handler ran in the process that has ended are failed, with a message that says so; with
    ``Server(asking="replayed")``, those that wait for answers go on when the answers arrive, if the server has its
    `keys` from before. Several processes of one machine may use the file at once; it must not be on a network drive.

    Args:
        path: the path of the file, which is created with access only for its owner (0600).

    Entering a serving raises OSError, which names the file, if it cannot be used.
    """

    path: Path = field(converter=Path)
    is_shared: bool = field(default=True, init=False)
    """True: other processes may use the same file."""
    _connection: sqlite3.Connection | None = field(default=None, init=False)
    _locks: dict[str, int] = field(factory=dict[str, int], init=False)
    """The locked files of the owners of this process."""
    _one_thread: threading.Lock = field(factory=threading.Lock, init=False)

    @asynccontextmanager
    async def owner(self) -> AsyncGenerator[str]:
        """Enter a new owner."""
        name = secrets.token_hex(8)
        await trio.to_thread.run_sync(self._enter, name)
        try:
            yield name
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._leave, name)

    def _enter(self, name: str) -> None:
        with self._one_thread:
            try:
                if self._connection is None:
                    self._connection = self._connect()
                self._locks[name] = self._locked(name)
            except (OSError, sqlite3.Error) as error:
                raise OSError(f"SqliteTaskStore: {str(self.path)!r} cannot be used: {error}") from error

    def _locked(self, owner: str) -> int:
        """Create and lock the file of an owner; return its descriptor. It has its name only when it is locked."""
        unnamed = self.path.with_name(f"{self.path.name}-new-{owner}")
        descriptor = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        _try_lock(descriptor)
        unnamed.rename(self._lock_file(owner))
        return descriptor

    def _connect(self) -> sqlite3.Connection:
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=30)
        try:
            _check_version(connection)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.executescript(_TABLES)
        except BaseException:
            connection.close()
            raise
        return connection

    def _leave(self, name: str) -> None:
        with self._one_thread:
            self._lock_file(name).unlink(missing_ok=True)
            os.close(self._locks.pop(name))
            if not self._locks and self._connection is not None:
                self._connection.close()
                self._connection = None

    def _lock_file(self, owner: str) -> Path:
        return self.path.with_name(f"{self.path.name}-owner-{owner}")

    # --- Tasks ---

    async def create(self, record: TaskRecord, most: int) -> None:
        """Keep a new task; see `tasks.TaskStore.create`."""

        def create(tables: sqlite3.Connection) -> None:
            counted = tables.execute("SELECT COUNT(*) FROM tasks WHERE principal IS ?", (record.principal,))
            if counted.fetchone()[0] >= most:
                raise too_many_tasks(most)
            tables.execute("INSERT INTO tasks VALUES (?, ?, ?, ?, ?, ?)", _row_of(record))

        await self._run(create)

    async def get(self, id: str) -> TaskRecord | None:
        """Return a task; see `tasks.TaskStore.get`."""

        def get(tables: sqlite3.Connection) -> TaskRecord | None:
            row = tables.execute("SELECT record FROM tasks WHERE id = ?", (id,)).fetchone()
            return None if row is None else _record_of(row[0])

        return await self._run(get, writes=False)

    async def put(self, records: Collection[TaskRecord]) -> Collection[str]:
        """Replace tasks; see `tasks.TaskStore.put`."""

        def put(tables: sqlite3.Connection) -> Collection[str]:
            return {record.id for record in records if not _replace(tables, record)}

        return await self._run(put)

    async def swap(self, record: TaskRecord, changed: TaskRecord) -> bool:
        """Replace a task that has not changed; see `tasks.TaskStore.swap`."""

        def swap(tables: sqlite3.Connection) -> bool:
            row = tables.execute("SELECT record FROM tasks WHERE id = ?", (record.id,)).fetchone()
            return row is not None and _record_of(row[0]) == record and _replace(tables, changed)

        return await self._run(swap)

    async def delete(self, id: str) -> None:
        """Delete a task; see `tasks.TaskStore.delete`."""
        await self._run(lambda tables: tables.execute("DELETE FROM tasks WHERE id = ?", (id,)))

    async def abandoned(self) -> Sequence[TaskRecord]:
        """Return the tasks whose owners are gone."""

        def abandoned(tables: sqlite3.Connection) -> Sequence[TaskRecord]:
            rows = tables.execute("SELECT DISTINCT owner FROM tasks WHERE NOT is_final").fetchall()
            prefix = self._lock_file("").name
            for path in self.path.parent.iterdir():
                if path.name.startswith(prefix):
                    self._is_alive(path.name.removeprefix(prefix))  # removes the file of an owner that is gone
            gone = [owner for (owner,) in rows if not self._is_alive(owner)]
            found: list[TaskRecord] = []
            for owner in gone:
                query = "SELECT record FROM tasks WHERE owner = ? AND NOT is_final"
                found += [_record_of(text) for (text,) in tables.execute(query, (owner,))]
                tables.execute("DELETE FROM changed_by_others WHERE owner = ?", (owner,))
            return found

        return await self._run(abandoned)

    def _is_alive(self, owner: str) -> bool:
        if owner in self._locks:
            return True
        path = self._lock_file(owner)
        try:
            descriptor = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            if not _try_lock(descriptor):
                return True
            with suppress(FileNotFoundError):
                path.unlink()
            return False
        finally:
            os.close(descriptor)

    async def due(self, now: float) -> Sequence[TaskRecord]:
        """Return the tasks that expire; see `tasks.TaskStore.due`."""

        def due(tables: sqlite3.Connection) -> Sequence[TaskRecord]:
            query = "SELECT record FROM tasks WHERE expires_at <= ? ORDER BY expires_at LIMIT ?"
            return [_record_of(text) for (text,) in tables.execute(query, (now, _MOST_AT_ONCE))]

        return await self._run(due, writes=False)

    async def next_expiry(self) -> float | None:
        """Return the earliest expiry."""

        def next_expiry(tables: sqlite3.Connection) -> float | None:
            (earliest,) = tables.execute("SELECT MIN(expires_at) FROM tasks WHERE expires_at IS NOT NULL").fetchone()
            return cast("float | None", earliest)

        return await self._run(next_expiry, writes=False)

    async def changed_by_others(self, owner: str) -> Mapping[str, TaskRecord | None]:
        """Return the tasks that others have changed; see `tasks.TaskStore.changed_by_others`."""

        def changed(tables: sqlite3.Connection) -> Mapping[str, TaskRecord | None]:
            query = "SELECT id, record FROM changed_by_others AS c LEFT JOIN tasks USING (id) WHERE c.owner = ?"
            rows = tables.execute(query, (owner,)).fetchall()
            if rows:
                tables.execute("DELETE FROM changed_by_others WHERE owner = ?", (owner,))
            return {id: None if text is None else _record_of(text) for id, text in rows}

        return await self._run(changed)

    async def _run(self, work: Callable[[sqlite3.Connection], T], *, writes: bool = True) -> T:
        """Run a transaction in a worker thread, to its end (rule 3)."""

        def run() -> T:
            with self._one_thread:
                assert self._connection is not None, "the store is used within `owner`"
                with _transaction(self._connection) if writes else nullcontext():
                    return work(self._connection)

        return await trio.to_thread.run_sync(run)


def _check_version(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version not in {0, _VERSION}:
        raise OSError(f"it has tables of version {version}, and this program knows version {_VERSION}")


@contextmanager
def _transaction(tables: sqlite3.Connection) -> Generator[None]:
    tables.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        tables.execute("ROLLBACK")
        raise
    tables.execute("COMMIT")


def _replace(tables: sqlite3.Connection, record: TaskRecord) -> bool:
    row = tables.execute("SELECT record FROM tasks WHERE id = ? AND NOT is_final", (record.id,)).fetchone()
    if row is None:
        return False
    known = _record_of(row[0])
    record = record.keeping(known)
    if record.is_change_by_other(known):
        tables.execute("INSERT OR IGNORE INTO changed_by_others VALUES (?, ?)", (known.owner, record.id))
    tables.execute("REPLACE INTO tasks VALUES (?, ?, ?, ?, ?, ?)", _row_of(record))
    return True


def _row_of(record: TaskRecord) -> tuple[Any, ...]:
    text = encode(record.to_stored()).decode()
    return record.id, record.principal, record.owner, record.is_final, record.expires_at, text


def _record_of(text: str) -> TaskRecord:
    return TaskRecord.from_stored(decode(text.encode()))
