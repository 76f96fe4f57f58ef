"""What is special about events in a file: who may read it, what others leave behind, and when it cannot be written."""

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
def looking_into(path: Path) -> Generator[sqlite3.Connection]:
    """Open the file as another process would."""
    with closing(sqlite3.connect(path)) as connection, connection:
        yield connection


def count(path: Path) -> int:
    with looking_into(path) as connection:
        (events,) = connection.execute("select count(*) from events").fetchone()
        assert isinstance(events, int)
        return events


def grow_older(path: Path, seconds: float) -> None:
    with looking_into(path) as connection:
        connection.execute("update events set kept_at = kept_at - ?", (seconds,))


async def test_the_file_is_made_for_its_owners_eyes_only(path: Path) -> None:
    async with SqliteEventStore(path).open() as log:
        await log.append("a", 1, 1, [b"secret"])
        modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}

    assert set(modes.values()) == {0o600}


async def test_events_are_not_handed_out_when_they_are_too_old(path: Path) -> None:
    async with SqliteEventStore(path, max_age=100.0).open() as log:
        await log.append("a", 1, 1, [b"old"])
        grow_older(path, 101.0)
        await log.append("a", 1, 2, [b"new"])

        assert await log.read("a", 1, 0) == (2, [b"new"])
        grow_older(path, 101.0)
        assert (await log.read("a", 1, 0))[1] == []


async def test_what_a_process_has_left_behind_goes_when_it_is_too_old(path: Path) -> None:
    async with SqliteEventStore(path, max_age=100.0).open() as log:
        await log.append("gone", 1, 1, [b"x", b"y"])
    grow_older(path, 101.0)

    async with SqliteEventStore(path, max_age=100.0).open() as log:
        await log.append("here", 1, 1, [b"z"])

        assert count(path) == 1


async def test_what_others_have_removed_does_not_count_for_long(path: Path) -> None:
    async with SqliteEventStore(path, max_events=3).open() as log:
        await log.append("a", 1, 1, [b"1", b"2", b"3"])
        with looking_into(path) as connection:
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
        with looking_into(path) as connection:
            connection.execute("delete from events where owner = 'b'")
        await log.append("a", 1, 9, [b"9", b"10"])

        assert count(path) == 10


@pytest.fixture
def letter(path: Path) -> Path:
    """A file that is no database."""
    path.write_text("Dear Ada, " * 1000, encoding="utf-8")
    return path


async def test_a_file_of_another_kind_is_refused_and_closed(letter: Path) -> None:
    with pytest.raises(sqlite3.DatabaseError):
        async with SqliteEventStore(letter).open():
            raise AssertionError


async def test_a_folder_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        async with SqliteEventStore(tmp_path / "missing" / "events.db").open():
            raise AssertionError


async def test_cancelled_it_finishes_what_it_has_begun_and_closes_the_file(path: Path) -> None:
    with trio.CancelScope() as scope:
        async with SqliteEventStore(path).open() as log:
            await log.append("a", 1, 1, [b"x"])
            scope.cancel()
            await log.append("a", 1, 2, [b"y"])

    assert count(path) == 1
    assert not path.with_name("events.db-wal").exists()
