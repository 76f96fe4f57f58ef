"""The backend in an SQLite file: the contract, several processes, and what goes wrong with files."""

from __future__ import annotations

import importlib
import sqlite3
import stat
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import pytest
import trio
import trio.testing

from tests.shared.processes import check_killed_writer, check_writers
from trio_mcp import SharedUnavailable, SqliteShared
from trio_mcp.abc import Shared, SharedState, StreamPart
from trio_mcp.testing import SharedContract

MODULE = "trio_mcp.shared._sqlite"


class TestSqlite(SharedContract):
    @pytest.fixture(autouse=True)
    def in_folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def new_backend(self) -> Shared:
        return SqliteShared(self.folder / "shared.db")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shared.db"


@pytest.fixture
async def state(path: Path) -> AsyncGenerator[SharedState]:
    async with SqliteShared(path).open() as opened:
        yield opened


def spoil(path: Path) -> None:
    """Replace the file, and those beside it, by one that is no database."""
    remove(path)
    path.write_bytes(b"not a database at all" * 100)


def remove(path: Path) -> None:
    """Delete the file, and those beside it."""
    for file in path.parent.iterdir():
        file.unlink()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing wait long for a file that cannot be used."""
    monkeypatch.setattr(f"{MODULE}._LONGEST_WAIT", 0.05)
    monkeypatch.setattr(f"{MODULE}._LONGEST_PAUSE", 0.05)


async def test_processes_that_write_at_once_lose_nothing_and_another_one_follows(path: Path) -> None:
    with trio.fail_after(120):
        await check_writers(str(path))


async def test_a_process_that_is_killed_while_it_writes_leaves_nothing_half_done(path: Path) -> None:
    with trio.fail_after(120):
        await check_killed_writer(str(path))


async def test_only_its_owner_may_read_the_file(path: Path, state: SharedState) -> None:
    await state.swap("key", None, b"1")

    files = [*path.parent.iterdir()]
    assert len(files) == 3
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


async def test_the_state_outlives_the_process(path: Path) -> None:
    async with SqliteShared(path).open() as state:
        await state.swap("key", None, b"1")
        await state.append("stream", [b"a"], at_most=5)

    async with SqliteShared(path).open() as state:
        assert await state.get("key") == b"1"
        assert await state.append("stream", [b"b"], at_most=5) == 2


async def test_another_object_sees_what_is_appended(path: Path, state: SharedState) -> None:
    with trio.fail_after(60):
        async with state.follow("stream") as parts, SqliteShared(path).open() as other:
            for number in range(1, 6):
                await other.append("stream", [b"%d" % number], at_most=5)
                assert await anext(parts) == StreamPart(number, (b"%d" % number,))
            async with state.follow("later") as later_parts:
                await other.append("later", [b"1"], at_most=5)
                assert await anext(later_parts) == StreamPart(1, (b"1",))


async def test_another_run_in_the_same_process_sees_what_is_appended(path: Path) -> None:
    shared = SqliteShared(path)

    async def append() -> int:
        async with shared.open() as state:
            return await state.append("stream", [b"1"], at_most=5)

    with trio.fail_after(60):
        async with shared.open() as state, state.follow("stream") as parts:
            assert await trio.to_thread.run_sync(trio.run, append) == 1
            assert await anext(parts) == StreamPart(1, (b"1",))


async def test_nothing_is_asked_of_the_file_while_nobody_follows(
    path: Path, state: SharedState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{MODULE}._POLL_SECONDS", 0.001)
    with trio.fail_after(60):
        await trio.testing.wait_all_tasks_blocked(0.1)  # would never return while a task wakes up every millisecond
        async with state.follow("stream") as parts, SqliteShared(path).open() as other:
            await other.append("stream", [b"1"], at_most=5)
            await anext(parts)
        await trio.testing.wait_all_tasks_blocked(0.1)
        async with state.follow("stream") as parts, SqliteShared(path).open() as other:
            await other.append("stream", [b"2"], at_most=5)
            assert await anext(parts) == StreamPart(2, (b"2",))
        await trio.testing.wait_all_tasks_blocked(0.1)


async def test_what_has_expired_is_dropped_from_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{MODULE}._SECONDS_BETWEEN_CLEANING", 0.0)

    def rows() -> dict[str, int]:
        connection = sqlite3.connect(path)
        tables = ("vals", "streams", "entries", "leases")
        found = {table: connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0] for table in tables}
        connection.close()
        return found

    with trio.fail_after(60):
        async with SqliteShared(path).open() as state:
            for number in range(5):
                name = f"{number}"
                await state.swap(name, None, b"1", seconds=0.001)
                await state.append(name, [b"1", b"2"], at_most=5, seconds=0.001)
                await state.lease("group", name, b"1", seconds=0.001)
            await state.swap("key", None, b"1")
            await state.append("stream", [b"1"], at_most=5)
            await state.lease("group", "name", b"1", seconds=60)
            while await state.last("4") or await state.leases("group") != {"name": b"1"}:  # noqa: ASYNC110 # each asks
                await trio.sleep(0.001)
            await state.swap("key", b"1", b"2")
    assert rows() == {"vals": 1, "streams": 1, "entries": 1, "leases": 1}


async def test_a_stream_that_has_expired_begins_anew_and_its_followers_learn_it(
    state: SharedState, monkeypatch: pytest.MonkeyPatch
) -> None:
    with trio.fail_after(60):
        async with state.follow("stream") as parts:
            await state.append("stream", [b"1"], at_most=5)
            assert await anext(parts) == StreamPart(1, (b"1",))
            await state.append("stream", [b"2"], at_most=5, seconds=0.001)
            while await state.last("stream"):  # noqa: ASYNC110 # each asks the clock of the backend
                await trio.sleep(0.001)
            assert await state.append("stream", [b"a"], at_most=5) == 1
            while (part := await anext(parts)).first == 2:
                assert part == StreamPart(2, (b"2",))  # it was seen before it expired
            assert part == StreamPart(1, (b"a",), is_gap=True)
        assert await state.read("stream", 2) == StreamPart(2, (), is_gap=True)


async def test_a_deleted_file_begins_anew_and_followers_learn_it(path: Path, state: SharedState) -> None:
    with trio.fail_after(60):
        async with state.follow("stream") as parts:
            await state.append("stream", [b"1"], at_most=5)
            assert await anext(parts) == StreamPart(1, (b"1",))
            remove(path)

            assert await state.get("key") is None
            async with SqliteShared(path).open() as other:
                await other.append("stream", [b"2"], at_most=5)
            assert await anext(parts) == StreamPart(1, (b"2",), is_gap=True)


@pytest.mark.usefixtures("impatient")
async def test_a_file_that_is_locked_for_too_long_is_unavailable(path: Path, state: SharedState) -> None:
    lock = sqlite3.connect(path, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")

    with pytest.raises(SharedUnavailable, match=r"shared\.db' cannot be used: database is locked"):
        await state.swap("key", None, b"1")
    assert await state.get("key") is None

    lock.execute("ROLLBACK")
    lock.close()
    assert await state.swap("key", None, b"1")


@pytest.mark.usefixtures("impatient")
async def test_a_file_that_another_program_uses_alone_cannot_be_opened(path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")

    with pytest.raises(SharedUnavailable, match=r"shared\.db' cannot be used: database is locked"):
        async with SqliteShared(path).open():
            raise AssertionError

    other.close()
    async with SqliteShared(path).open() as state:
        assert await state.get("key") is None


async def test_a_file_that_another_process_has_just_made_is_opened_at_the_next_attempt(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module(MODULE)
    prepare, attempts = module._prepare, 0

    def busy_at_first(connection: sqlite3.Connection) -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error
        prepare(connection)

    monkeypatch.setattr(module, "_prepare", busy_at_first)
    async with SqliteShared(path).open() as state:
        assert await state.get("key") is None
    assert attempts == 2


async def test_a_file_that_is_no_database_is_unavailable(path: Path) -> None:
    spoil(path)

    with pytest.raises(SharedUnavailable, match=r"shared\.db' cannot be used: file is not a database"):
        async with SqliteShared(path).open():
            raise AssertionError


async def test_a_folder_that_does_not_exist_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(SharedUnavailable, match=r"missing.shared\.db' cannot be used: .*No such file"):
        async with SqliteShared(tmp_path / "missing" / "shared.db").open():
            raise AssertionError


async def test_a_file_of_a_later_version_is_not_touched(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 7")
    connection.close()

    with pytest.raises(SharedUnavailable, match="tables of version 7, and this program knows version 1"):
        async with SqliteShared(path).open():
            raise AssertionError


@pytest.mark.usefixtures("impatient")
async def test_a_follower_waits_while_the_file_cannot_be_used(path: Path, state: SharedState) -> None:
    with trio.fail_after(60):
        async with state.follow("stream") as parts:
            await state.append("stream", [b"1"], at_most=5)
            spoil(path)

            with trio.move_on_after(0.3):  # some attempts
                await anext(parts)
                raise AssertionError
            with pytest.raises(SharedUnavailable, match="not a database"):
                await state.get("key")

            remove(path)
            await state.append("stream", [b"2"], at_most=5)
            assert (await anext(parts)).entries == (b"2",)


async def test_a_follower_that_is_cancelled_before_it_reads_reads_later(state: SharedState) -> None:
    limiter = cast("trio.CapacityLimiter", cast("Any", state)._file._one_at_a_time)
    with trio.fail_after(60):
        async with state.follow("stream") as parts:
            await state.append("stream", [b"1"], at_most=5)
            async with limiter, trio.open_nursery() as nursery:
                nursery.start_soon(anext, parts)
                await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
            assert await anext(parts) == StreamPart(1, (b"1",))


async def test_an_error_in_a_transaction_leaves_the_connection_usable(state: SharedState) -> None:
    with pytest.raises(SharedUnavailable, match="cannot be used"):
        await state.swap("key", None, object())  # type: ignore[arg-type] # on purpose

    assert await state.swap("key", None, b"1")


async def test_after_its_block_a_state_is_closed(path: Path) -> None:
    async with SqliteShared(path).open() as state:
        pass

    with pytest.raises(SharedUnavailable, match="the block of its state was left"):
        await state.get("key")
