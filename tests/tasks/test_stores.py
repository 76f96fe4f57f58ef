"""What every store of tasks promises, shown of the one in memory and the one in an SQLite file."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import evolve

from trio_mcp import MemoryTaskStore, SqliteTaskStore, TooManyTasks
from trio_mcp.tasks import TaskRecord, TaskReplay, TaskStore

NewStore = Callable[[], TaskStore]


@pytest.fixture(params=["memory", "sqlite"])
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> NewStore:
    """Return a function that opens the same tasks again each time, as another process would."""
    if request.param == "memory":
        store = MemoryTaskStore()
        return lambda: store
    return lambda: SqliteTaskStore(tmp_path / "tasks.db")


@pytest.fixture
async def store(new_store: NewStore) -> AsyncGenerator[TaskStore]:
    made = new_store()
    async with made.owner():
        yield made


def a_record(owner: str = "o", principal: str | None = None, **changes: Any) -> TaskRecord:
    record = TaskRecord(
        owner=owner, principal=principal, created_at=1.0, updated_at=1.0, ttl=60.0, poll_interval=1.0, expires_at=61.0
    )
    return evolve(record, **changes)


async def test_a_task_is_found_as_it_was_stored(store: TaskStore) -> None:
    replay = TaskReplay(params={"name": "t", "arguments": {"n": 2**70}}, state="s", answers={"a": None})
    record = a_record(
        principal="ada", status="input_required", outcome={"q": {"method": "m"}}, replay=replay, message="ünü"
    )

    await store.create(record, 10)

    assert await store.get(record.id) == record
    assert await store.get("another") is None


async def test_a_caller_has_at_most_so_many_tasks_and_others_are_not_affected(store: TaskStore) -> None:
    first = a_record(principal="ada")
    await store.create(first, 2)
    await store.create(a_record(principal="ada"), 2)

    with pytest.raises(TooManyTasks, match="has 2 tasks already"):
        await store.create(a_record(principal="ada"), 2)

    await store.create(a_record(principal="bob"), 2)
    await store.create(a_record(principal=None), 2)
    await store.delete(first.id)
    await store.create(a_record(principal="ada"), 2)


async def test_a_task_that_has_ended_is_not_changed_any_more(store: TaskStore) -> None:
    record, other = a_record(), a_record()
    await store.create(record, 10)
    await store.create(other, 10)
    done = record.changed(2.0, "completed", {"content": []}, None)

    assert await store.put([done]) == set()
    assert await store.put([record.failed(3.0, "no", 1), other.told(3.0, "half"), a_record(id="gone")]) == {
        record.id,
        "gone",
    }

    assert await store.get(record.id) == done
    assert await store.get(other.id) == other.told(3.0, "half")


async def test_a_task_is_swapped_only_if_it_has_not_changed(store: TaskStore) -> None:
    record = a_record(owner="a")
    changed = evolve(record, owner="b", message="new")
    await store.create(record, 10)

    assert await store.swap(record, changed)
    assert not await store.swap(record, evolve(record, owner="c"))
    assert not await store.swap(a_record(), a_record())
    assert await store.get(record.id) == changed
    done = changed.changed(2.0, "completed", {}, None)
    assert await store.swap(changed, done)
    assert not await store.swap(done, evolve(done, message="again"))


async def test_the_owner_of_a_task_learns_that_another_one_has_ended_it(store: TaskStore) -> None:
    record = a_record(owner="a")
    await store.create(record, 10)
    await store.put([record.told(2.0, "mine")])
    assert [*await store.changed_by_others("a")] == []

    await store.put([evolve(record.changed(3.0, "cancelled", None, None), owner="b")])

    assert await store.changed_by_others("b") == {}
    assert await store.changed_by_others("a") == {record.id: await store.get(record.id)}
    assert await store.changed_by_others("a") == {}


async def test_the_owner_of_a_task_learns_of_each_answer_that_another_one_has_taken(store: TaskStore) -> None:
    record = a_record(owner="a", status="input_required", outcome={"p": {}, "q": {}})
    await store.create(record, 10)

    answered = record
    for key in ("q", "p"):
        before, answered = answered, answered.answered(2.0, {key: 7})
        assert await store.swap(before, answered)
        assert await store.changed_by_others("a") == {record.id: answered}

    assert await store.changed_by_others("a") == {}
    assert not await store.swap(record, record.answered(3.0, {"q": 8}))
    assert await store.get(record.id) == answered


async def test_answers_stay_until_the_owner_stores_a_state_without_their_questions(store: TaskStore) -> None:
    record = a_record(owner="a", status="input_required", outcome={"p": {}, "q": {}})
    await store.create(record, 10)
    await store.swap(record, record.answered(2.0, {"p": 7, "q": 8}))

    assert await store.put([record.told(3.0, "half")]) == set()
    assert await store.get(record.id) == evolve(record.told(3.0, "half"), answers={"p": 7, "q": 8})
    asks = record.changed(4.0, "input_required", {"q": {}, "r": {}}, None)
    assert await store.put([asks]) == set()
    assert await store.get(record.id) == evolve(asks, answers={"q": 8})
    works = record.changed(5.0, "working", None, None)
    assert await store.put([works]) == set()
    assert await store.get(record.id) == works


async def test_a_task_that_was_ended_by_another_one_and_deleted_is_told_to_its_owner(new_store: NewStore) -> None:
    store = new_store()
    async with store.owner() as owner:
        record = a_record(owner=owner)
        await store.create(record, 10)
        await store.put([evolve(record.changed(3.0, "cancelled", None, None), owner="b")])
        await store.delete(record.id)
        assert await store.changed_by_others(owner) == {record.id: None}


async def test_tasks_expire_in_order(store: TaskStore) -> None:
    assert await store.next_expiry() is None
    late, early, never = a_record(expires_at=90.0), a_record(expires_at=30.0), a_record(expires_at=None)
    for record in (late, early, never):
        await store.create(record, 10)
    assert await store.next_expiry() == 30.0
    assert await store.due(29.9) == []
    assert await store.due(30.0) == [early]

    await store.put([evolve(early, expires_at=100.0)])
    assert await store.next_expiry() == 90.0
    await store.delete(late.id)
    assert await store.next_expiry() == 100.0
    assert await store.due(1000.0) == [evolve(early, expires_at=100.0)]
    await store.delete(early.id)
    await store.delete(early.id)
    assert await store.next_expiry() is None


async def test_tasks_are_abandoned_if_they_have_not_ended_and_their_owner_is_gone(new_store: NewStore) -> None:
    store = new_store()
    async with store.owner() as alive:
        async with store.owner() as gone:
            mine, working, done = a_record(alive), a_record(gone), a_record(gone)
            for record in (mine, working, done):
                await store.create(record, 10)
            await store.put([done.changed(2.0, "completed", {}, None)])
            assert await store.abandoned() == []

        assert await store.abandoned() == [working]

    again = new_store()
    async with again.owner():
        assert {record.id for record in await again.abandoned()} == {mine.id, working.id}


async def test_an_owner_that_is_alive_is_known_through_another_store_of_the_same_file(tmp_path: Path) -> None:
    first, second = SqliteTaskStore(tmp_path / "t.db"), SqliteTaskStore(tmp_path / "t.db")
    async with first.owner() as owner, second.owner():
        await first.create(a_record(owner), 10)

        assert await second.abandoned() == []


async def test_the_files_are_for_their_owner_only_and_those_of_the_locks_go(tmp_path: Path) -> None:
    path = tmp_path / "t.db"

    def modes() -> dict[str, int]:
        return {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}

    async with SqliteTaskStore(path).owner():
        assert len(modes()) == 4  # the database, its log and index, and the lock
        assert {*modes().values()} == {0o600}
    assert modes() == {"t.db": 0o600}


async def test_the_file_of_a_lock_that_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    store = SqliteTaskStore(tmp_path / "t.db")
    async with store.owner():
        (tmp_path / "t.db-owner-dead").touch()
        await store.create(a_record("dead"), 10)

        assert len(await store.abandoned()) == 1
        assert not (tmp_path / "t.db-owner-dead").exists()


async def test_the_error_names_the_file_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database" * 100)
    newer = sqlite3.connect(tmp_path / "newer.db")
    newer.execute("PRAGMA user_version = 7")
    newer.close()

    for name, cause in (("text.db", "not a database"), ("newer.db", "tables of version 7"), ("no/x.db", "No such")):
        with pytest.raises(OSError, match=f"{name}' cannot be used: .*{cause}"):
            async with SqliteTaskStore(tmp_path / name).owner():
                raise AssertionError


async def test_a_transaction_that_fails_changes_nothing(tmp_path: Path) -> None:
    store = SqliteTaskStore(tmp_path / "t.db")
    async with store.owner():
        good, bad = a_record(), a_record()
        await store.create(good, 10)
        await store.create(bad, 10)

        with pytest.raises(Exception, match="NaN"):
            await store.put([good.told(2.0, "new"), evolve(bad, outcome={"x": float("nan")})])

        assert await store.get(good.id) == good


async def test_two_owners_of_two_runs_in_one_process_use_one_store_at_once(tmp_path: Path) -> None:
    store = SqliteTaskStore(tmp_path / "t.db")

    async def other_run() -> None:
        async with store.owner() as owner:
            for _ in range(20):
                await store.create(a_record(owner), 100)

    async def in_thread() -> None:
        await trio.to_thread.run_sync(trio.run, other_run)

    async with store.owner() as owner, trio.open_nursery() as nursery:
        nursery.start_soon(in_thread)
        for _ in range(20):
            await store.create(a_record(owner), 100)

    connection = sqlite3.connect(tmp_path / "t.db")
    assert connection.execute("SELECT COUNT(*) FROM tasks").fetchone() == (40,)
    connection.close()


def test_the_path_may_be_a_string() -> None:
    assert SqliteTaskStore("tasks.db").path == Path("tasks.db")
