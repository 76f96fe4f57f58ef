"""The SQLite event store: permissions, events of other processes, and failures."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import trio

from trio_mcp.transports import SqliteEventStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.db"


@contextmanager
def open_database(path: Path) -> Generator[sqlite3.Connection]:
    """Open the file as another process does."""
    with closing(sqlite3.connect(path)) as connection, connection:
        yield connection


def count(path: Path) -> int:
    with open_database(path) as connection:
        (events,) = connection.execute("select count(*) from events").fetchone()
        assert isinstance(events, int)
        return events


def make_events_older(path: Path, seconds: float) -> None:
    with open_database(path) as connection:
        connection.execute("update events set kept_at = kept_at - ?", (seconds,))


async def test_the_file_is_readable_only_for_its_owner(path: Path) -> None:
    async with SqliteEventStore(path).open() as log:
        await log.append("a", 1, 1, [b"secret"])
        modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}

    assert set(modes.values()) == {0o600}


async def test_events_that_are_too_old_are_not_returned(path: Path) -> None:
    async with SqliteEventStore(path, max_age=100.0).open() as log:
        await log.append("a", 1, 1, [b"old"])
        make_events_older(path, 101.0)
        await log.append("a", 1, 2, [b"new"])

        assert await log.read("a", 1, 0) == (2, [b"new"])
        make_events_older(path, 101.0)
        assert (await log.read("a", 1, 0))[1] == []


async def test_old_events_of_a_former_process_are_deleted(path: Path) -> None:
    async with SqliteEventStore(path, max_age=100.0).open() as log:
        await log.append("gone", 1, 1, [b"x", b"y"])
    make_events_older(path, 101.0)

    async with SqliteEventStore(path, max_age=100.0).open() as log:
        await log.append("here", 1, 1, [b"z"])

        assert count(path) == 1


async def test_events_that_another_process_has_deleted_do_not_count_against_the_limit(path: Path) -> None:
    async with SqliteEventStore(path, max_events=3).open() as log:
        await log.append("a", 1, 1, [b"1", b"2", b"3"])
        with open_database(path) as connection:
            connection.execute("delete from events")
        await log.append("a", 1, 4, [b"4"])
        await log.append("a", 1, 5, [b"5", b"6", b"7"])

        assert await log.read("a", 1, 0) == (5, [b"5", b"6", b"7"])


async def test_a_failure_loses_the_events_to_store_and_leaves_the_count_right(path: Path) -> None:
    async with SqliteEventStore(path, max_events=10).open() as log:
        await log.append("a", 1, 1, [b"1"] * 8)
        await log.append("b", 1, 1, [b"x"])

        with pytest.raises(sqlite3.IntegrityError):
            await log.append("a", 1, 8, [b"again", b"9", b"10", b"11"])
        with open_database(path) as connection:
            connection.execute("delete from events where owner = 'b'")
        await log.append("a", 1, 9, [b"9", b"10"])

        assert count(path) == 10


@pytest.fixture
def text_file(path: Path) -> Path:
    """A file that is not a database."""
    path.write_text("Dear Ada, " * 1000, encoding="utf-8")
    return path


async def test_a_file_of_another_kind_is_refused_and_closed(text_file: Path) -> None:
    with pytest.raises(sqlite3.DatabaseError):
        async with SqliteEventStore(text_file).open():
            raise AssertionError


async def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        async with SqliteEventStore(tmp_path / "missing" / "events.db").open():
            raise AssertionError


async def test_a_cancelled_store_completes_its_transaction_and_closes_the_file(path: Path) -> None:
    with trio.CancelScope() as scope:
        async with SqliteEventStore(path).open() as log:
            await log.append("a", 1, 1, [b"x"])
            scope.cancel()
            await log.append("a", 1, 2, [b"y"])

    assert count(path) == 1
    assert not path.with_name("events.db-wal").exists()
