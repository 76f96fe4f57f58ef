"""The store on a backend that processes share: what every store promises, and what holds when processes and lines fail.

The store is tested by the tests of the other stores, over backends that are shared: see `NewStore` and `stores`.
"""

from __future__ import annotations

import itertools
import logging
import math
import os
import random
import secrets
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import pytest
import trio
import trio.testing
from attrs import define, evolve, field

from tests.shared.redis_process import SERVER, RedisProcess
from tests.tasks import test_replayed_tasks, test_stores
from tests.tasks.helpers import RawTasks, accepted
from tests.tasks.test_replayed_tasks import make_server, say_yes, until
from tests.tasks.test_stores import NewStore, a_record
from trio_mcp import (
    ErrorResponse,
    MemoryShared,
    MemoryTaskStore,
    RedisShared,
    SharedUnavailable,
    SqliteShared,
    TaskSettings,
    TooManyTasks,
)
from trio_mcp.abc import Shared, SharedState, StreamPart
from trio_mcp.tasks import SharedTaskStore, TaskRecord, TaskReplay, TaskStore
from trio_mcp.tasks._shared import _MOST_AT_ONCE, _SEATS
from trio_mcp.testing import open_memory_client
from trio_mcp.wire import INTERNAL_ERROR

T = TypeVar("T")

GONE = 20.0
"""Seconds after which a process that gives no sign of life is known to be gone."""


# --- What every store promises ---


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Generator[RedisProcess]:
    if SERVER is None and "CI" not in os.environ:
        pytest.skip("redis-server is not installed here")
    server = RedisProcess(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(params=["memory", "sqlite", "redis"])
def new_shared(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Shared]:
    """Return a function that opens the same backend again each time, as another process would."""
    if request.param == "memory":
        shared = MemoryShared()
        return lambda: shared
    if request.param == "redis":
        server: RedisProcess = request.getfixturevalue("redis")
        prefix = secrets.token_hex(8)
        return lambda: RedisShared(f"redis://{server.name}", prefix=prefix)
    return lambda: SqliteShared(tmp_path / "shared.db")


@pytest.fixture
def new_store(new_shared: Callable[[], Shared]) -> NewStore:
    return lambda: SharedTaskStore(new_shared())


@pytest.fixture
def stores(new_store: NewStore) -> NewStore:
    return new_store


@pytest.fixture
async def store(new_store: NewStore) -> AsyncGenerator[TaskStore]:
    made = new_store()
    async with made.owner():
        yield made


test_a_task_is_found_as_it_was_stored = test_stores.test_a_task_is_found_as_it_was_stored
test_a_caller_has_at_most_so_many_tasks = (
    test_stores.test_a_caller_has_at_most_so_many_tasks_and_others_are_not_affected
)
test_a_task_that_has_ended_is_not_changed_any_more = test_stores.test_a_task_that_has_ended_is_not_changed_any_more
test_a_task_is_swapped_only_if_it_has_not_changed = test_stores.test_a_task_is_swapped_only_if_it_has_not_changed
test_the_owner_of_a_task_learns_that_another_one_has_ended_it = (
    test_stores.test_the_owner_of_a_task_learns_that_another_one_has_ended_it
)
test_the_owner_of_a_task_learns_of_each_answer_that_another_one_has_taken = (
    test_stores.test_the_owner_of_a_task_learns_of_each_answer_that_another_one_has_taken
)
test_answers_stay_until_the_owner_stores_a_state_without_their_questions = (
    test_stores.test_answers_stay_until_the_owner_stores_a_state_without_their_questions
)
test_tasks_expire_in_order = test_stores.test_tasks_expire_in_order
test_tasks_are_abandoned_if_they_have_not_ended_and_their_owner_is_gone = (
    test_stores.test_tasks_are_abandoned_if_they_have_not_ended_and_their_owner_is_gone
)

test_a_task_that_waits_for_an_answer_survives_a_restart_and_goes_on_by_replay = (
    test_replayed_tasks.test_a_task_that_waits_for_an_answer_survives_a_restart_and_goes_on_by_replay
)
test_answers_may_come_one_by_one_and_from_several_processes = (
    test_replayed_tasks.test_answers_may_come_one_by_one_and_from_several_processes
)
test_the_same_answers_sent_twice_at_once_run_the_handler_once = (
    test_replayed_tasks.test_the_same_answers_sent_twice_at_once_run_the_handler_once
)
test_a_task_that_waits_is_cancelled_without_its_handler = (
    test_replayed_tasks.test_a_task_that_waits_is_cancelled_without_its_handler
)


# --- A line that fails ---

Fate = Literal["passes", "fails", "is lost", "is late"]
"""What becomes of a call: it is made; it is not made; it is made and fails; it fails and is made later."""


def passes(method: str, name: str) -> Fate:
    return "passes"


def fails(method: str, name: str) -> Fate:
    return "fails"


def fails_to_write(method: str, name: str) -> Fate:
    return "passes" if method in {"get", "leases"} else "fails"


@define(eq=False)
class Line:
    """The line of one process to a backend, as an `abc.Shared`."""

    shared: Shared
    fate: Callable[[str, str], Fate] = passes
    """Decides on each call, by its method and its key or group."""
    before: Callable[[str, str], Awaitable[None]] | None = None
    """Awaited before each call."""
    late: list[Callable[[], Awaitable[object]]] = field(factory=list[Callable[[], Awaitable[object]]])
    """The calls that are to be made later."""

    def cut_after(self, calls: int, last: Fate = "passes") -> None:
        """Let so many calls pass, but the last of them with this fate, and no more."""
        numbers = itertools.count(1)

        def fate(method: str, name: str) -> Fate:
            number = next(numbers)
            if number < calls:
                return "passes"
            return last if number == calls else "fails"

        self.fate = fate

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[SharedState]:
        async with self.shared.open() as state:
            yield LineState(self, state)

    async def pass_on(self, call: Callable[[], Awaitable[T]], method: str, name: str) -> T:
        await trio.lowlevel.checkpoint()
        if self.before is not None:
            await self.before(method, name)
        fate = self.fate(method, name)
        if fate == "is late":
            self.late.append(call)
        elif fate != "fails":
            result = await call()
            if fate == "passes":
                return result
        raise SharedUnavailable("the line is cut")


@define(eq=False)
class LineState:
    """A state at the other end of a line. Streams are not used by stores of tasks."""

    line: Line
    state: SharedState

    @property
    def host(self) -> str:
        raise NotImplementedError

    async def get(self, key: str) -> bytes | None:
        return await self.line.pass_on(partial(self.state.get, key), "get", key)

    async def swap(self, key: str, old: bytes | None, new: bytes | None, *, seconds: float = math.inf) -> bool:
        return await self.line.pass_on(partial(self.state.swap, key, old, new, seconds=seconds), "swap", key)

    async def append(self, stream: str, entries: Sequence[bytes], *, at_most: int, seconds: float = math.inf) -> int:
        raise NotImplementedError

    async def read(self, stream: str, after: int) -> StreamPart:
        raise NotImplementedError

    async def last(self, stream: str) -> int:
        raise NotImplementedError

    def follow(self, stream: str) -> AbstractAsyncContextManager[AsyncIterator[StreamPart]]:
        raise NotImplementedError

    async def lease(self, group: str, name: str, value: bytes, *, seconds: float) -> None:
        await self.line.pass_on(partial(self.state.lease, group, name, value, seconds=seconds), "lease", group)

    async def release(self, group: str, name: str) -> None:
        await self.line.pass_on(partial(self.state.release, group, name), "release", group)

    async def leases(self, group: str) -> Mapping[str, bytes]:
        return await self.line.pass_on(partial(self.state.leases, group), "leases", group)


async def group_in(shared: Shared, *parts: str) -> Mapping[str, bytes]:
    """Return the leases of a group of the tasks in a backend."""
    async with shared.open() as state:
        return await state.leases("/".join(("tasks", "1", *parts)))


async def end_abandoned(store: SharedTaskStore, owner: str) -> None:
    """Do what a serving does for the tasks of processes that are gone, until nothing is left to do."""
    for _ in range(2):  # processes are looked at only if they were seen before
        await trio.sleep(GONE / 2)
        while found := await store.abandoned():
            assert not await store.put([evolve(each.failed(2.0, "gone", 1), owner=owner) for each in found])


WAITING: dict[str, Any] = {"status": "input_required", "outcome": {"q": {}}, "replay": TaskReplay(params={}, state="s")}


async def make(store: SharedTaskStore, owner: str) -> None:
    await store.create(a_record(owner, "ada", id="t"), 1)


async def delete(store: SharedTaskStore, owner: str) -> None:
    await store.delete("t")


async def end(store: SharedTaskStore, owner: str) -> None:
    record = await store.get("t")
    assert record is not None
    await store.put([evolve(record.changed(2.0, "completed", {}, None), owner=owner)])


async def take(store: SharedTaskStore, owner: str) -> None:
    record = await store.get("t")
    assert record is not None
    assert await store.swap(record, evolve(record.changed(2.0, "working", None, None), owner=owner))


async def known(store: TaskStore) -> TaskRecord:
    record = await store.get("t")
    assert record is not None
    return record


async def answer(store: SharedTaskStore, owner: str) -> None:
    record = await known(store)
    assert await store.swap(record, record.answered(2.0, {"q": 7}))


OPERATIONS = {"make": make, "delete": delete, "end": end, "take": take, "answer": answer}


@define(eq=False)
class Two:
    """Two processes that share tasks, the first of them over a line."""

    shared: MemoryShared
    line: Line
    one: SharedTaskStore
    owner: str
    two: SharedTaskStore
    other: str

    async def prepare(self, operation: str) -> None:
        """Make the task with which the first process is going to do something."""
        if operation == "delete":
            await self.one.create(a_record(self.owner, "ada", id="t"), 1)
        elif operation == "answer":
            parked = a_record(self.other, "ada", id="t", status="input_required", outcome={"p": {}, "q": {}})
            await self.two.create(parked, 1)
        elif operation != "make":
            await self.two.create(a_record(self.other, "ada", id="t", **WAITING), 1)

    async def keeper(self) -> str:
        """Return the newest keeper of the first process."""
        return [name for name in await group_in(self.shared, "keepers") if name.startswith(self.owner)][-1]

    async def has_room(self) -> bool:
        """Return True if the caller with the task, who may have one, may have another when it is deleted."""
        await self.two.delete("t")
        await self.two.create(a_record(self.other, "ada", id="new"), 1)
        with pytest.raises(TooManyTasks):
            await self.two.create(a_record(self.other, "ada"), 1)
        return True


@asynccontextmanager
async def open_two() -> AsyncGenerator[Two]:
    shared = MemoryShared()
    line = Line(shared)
    one, two = SharedTaskStore(line), SharedTaskStore(shared)
    async with two.owner() as other, one.owner() as owner:
        yield Two(shared, line, one, owner, two, other)


@pytest.mark.parametrize("calls", range(8))
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_process_that_dies_at_any_moment_leaves_a_task_or_none_and_no_seat_without_task(
    operation: str, calls: int, autojump_clock: object
) -> None:
    async with open_two() as both:
        keeper = await both.keeper()
        await both.prepare(operation)
        both.line.cut_after(calls)
        with suppress(SharedUnavailable):
            await OPERATIONS[operation](both.one, both.owner)
        both.line.fate = fails
        await end_abandoned(both.two, both.other)

        left = await both.two.get("t")
        assert left is None or left.is_final or left.owner == both.other
        assert await both.two.due(61.0) == ([] if left is None else [left])
        assert await both.has_room()
        assert await group_in(both.shared, "kept", keeper) == {}
        assert len(await group_in(both.shared, "keepers")) == 1


@pytest.mark.parametrize("fate", ["fails", "is lost", "is late"])
@pytest.mark.parametrize("call", range(1, 7))
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_what_was_interrupted_at_any_moment_is_as_if_it_had_not_begun_or_is_done_again(
    operation: str, call: int, fate: Fate, autojump_clock: object
) -> None:
    async with open_two() as both:
        await both.prepare(operation)
        before = await both.two.get("t")
        both.line.cut_after(call, fate)
        try:
            await OPERATIONS[operation](both.one, both.owner)
        except SharedUnavailable:
            is_interrupted = True
        else:
            is_interrupted = False
        if is_interrupted:
            await trio.sleep(3)
        both.line.fate = passes
        await trio.sleep(3)
        for late in both.line.late:
            await late()

        after = await both.two.get("t")
        assert await both.one.get("t") == after
        if is_interrupted and operation in {"make", "take", "answer"}:
            assert after == before
        elif is_interrupted and operation == "end":
            await end(both.one, both.owner)
        elif operation == "delete":
            assert after == (before if call == 1 else None)  # what has begun is done after a while
            await both.one.delete("t")
        assert await both.has_room()


# --- Which processes are gone ---


async def test_an_interruption_of_the_backend_makes_no_process_gone(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    shared = MemoryShared()
    lines = [Line(shared), Line(shared)]
    one, two = (SharedTaskStore(line) for line in lines)
    async with one.owner() as owner, two.owner():
        await one.create(a_record(owner), 1)
        await trio.sleep(7)
        for line in lines:
            line.fate = fails
        await trio.sleep(1000)
        for line in lines:
            line.fate = passes
        for _ in range(20):
            assert await two.abandoned() == []
            await trio.sleep(1)
    assert caplog.text.count("tasks cannot be kept until their backend can be reached again: the line is cut") == 2


async def test_a_process_that_was_taken_for_gone_loses_its_tasks_and_goes_on(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_two() as both:
        old, new = a_record(both.owner), a_record(both.owner)
        await both.one.create(old, 9)
        keeper = await both.keeper()
        both.line.fate = fails
        await end_abandoned(both.two, both.other)
        both.line.fate = passes
        await both.one.create(new, 9)

        assert await both.one.put([old.told(3.0, "half"), new.told(3.0, "half")]) == {old.id}
        assert [*await both.one.changed_by_others(both.owner)] == [old.id]
        assert "this process was paused or cut off for so long" in caplog.text
        assert keeper != await both.keeper()
        await end_abandoned(both.two, both.other)
        assert await both.two.get(new.id) == new.told(3.0, "half")


async def test_a_process_may_find_the_tasks_itself_that_it_has_abandoned(autojump_clock: object) -> None:
    async with open_two() as both:
        record = a_record(both.owner)
        await both.one.create(record, 9)
        both.line.fate = fails
        await trio.sleep(GONE)
        assert await both.two.abandoned() == [record]
        both.line.fate = passes
        await trio.sleep(GONE)
        assert await both.one.abandoned() == [record]


async def test_a_process_that_is_paused_while_it_makes_a_task_makes_none_if_it_was_taken_for_gone(
    autojump_clock: object,
) -> None:
    async with open_two() as both:

        async def pause(method: str, name: str) -> None:
            if method == "swap" and name.endswith("/task/t"):
                both.line.before = None
                both.line.fate = lambda method, other: "passes" if other == name else "fails"
                await end_abandoned(both.two, both.other)

        both.line.before = pause
        with pytest.raises(SharedUnavailable, match="could not be kept, because its process was paused or cut off"):
            await make(both.one, both.owner)
        assert await both.one.get("t") is None
        assert await both.has_room()


async def test_a_process_that_gives_a_sign_of_life_in_the_last_moment_is_not_gone(autojump_clock: object) -> None:
    shared = MemoryShared()
    lines = Line(shared), Line(shared)
    one, two = (SharedTaskStore(line) for line in lines)
    async with one.owner() as owner, two.owner():
        await one.create(a_record(owner), 1)
        lines[0].fate = fails
        await trio.sleep(GONE)

        async def come_back(method: str, name: str) -> None:
            if method == "swap" and f"/keeper/{owner}" in name:
                lines[1].before, lines[0].fate = None, passes
                await trio.sleep(3)

        lines[1].before = come_back
        assert await two.abandoned() == []
        assert lines[1].before is None
        await end_abandoned(two, "-")
        (record,) = [await one.get(id) for id in await group_in(shared, "kept", await keeper_of(shared, owner))]
        assert record is not None
        assert not record.is_final


async def keeper_of(shared: Shared, owner: str) -> str:
    (keeper,) = [name for name in await group_in(shared, "keepers") if name.startswith(owner)]
    return keeper


@pytest.mark.parametrize("calls", range(6))
async def test_a_process_that_dies_between_its_signs_of_life_is_gone_all_the_same(
    calls: int, autojump_clock: object
) -> None:
    """Also one that dies while it begins."""
    shared = MemoryShared()
    line = Line(shared)
    one, two, three = SharedTaskStore(line), SharedTaskStore(shared), SharedTaskStore(shared)
    async with two.owner() as other, three.owner():
        line.cut_after(calls)
        with suppress(SharedUnavailable):
            async with one.owner():
                await trio.sleep(GONE)
        await trio.sleep(GONE)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(end_abandoned, two, other)
            nursery.start_soon(three.abandoned)
        assert len(await group_in(shared, "keepers")) == 2


async def test_a_sign_of_life_of_which_the_process_does_not_know_counts(autojump_clock: object) -> None:
    async with open_two() as both:
        keeper = await both.keeper()
        both.line.fate = lambda method, name: "is lost" if method == "swap" else "passes"
        await trio.sleep(2)
        both.line.fate = passes
        await trio.sleep(GONE)

        assert await both.keeper() == keeper
        await end_abandoned(both.two, both.other)
        assert len(await group_in(both.shared, "keepers")) == 2


async def test_an_owner_without_tasks_leaves_nothing_and_one_that_is_cut_off_says_so(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    shared = MemoryShared()
    line = Line(shared)
    store = SharedTaskStore(line)
    async with store.owner():
        pass
    assert await group_in(shared, "keepers") == {}
    async with store.owner():
        line.fate = fails
    assert "could not say that it leaves; others notice it soon: the line is cut" in caplog.text


async def test_a_process_of_which_a_sign_of_life_was_written_late_is_gone_when_it_gives_no_more(
    autojump_clock: object,
) -> None:
    """A late lease says that it has had an older beat than it really had."""
    async with open_two() as both:
        record = a_record(both.owner)
        await both.one.create(record, 1)
        await trio.sleep(4)
        async with both.shared.open() as state:
            both.line.fate = fails
            await state.lease("tasks/1/keepers", await both.keeper(), b"1", seconds=math.inf)
        await trio.sleep(GONE)
        assert await both.two.abandoned() == []
        await trio.sleep(GONE / 4)
        assert await both.two.abandoned() == []
        await trio.sleep(GONE / 4)
        assert await both.two.abandoned() == [record]


async def test_a_process_that_is_heard_again_is_not_gone_because_an_earlier_sign_of_life_was_late(
    autojump_clock: object,
) -> None:
    async with open_two() as both:
        await make(both.one, both.owner)
        both.line.fate = lambda method, name: "is late" if method == "lease" else "fails"
        await trio.sleep(2)
        both.line.fate = fails
        for call in both.line.late:
            await call()
        await trio.sleep(GONE * 0.6)
        both.line.fate = passes
        keeper = both.one._keepers[both.owner]
        beat = keeper.beat
        while keeper.beat == beat:  # noqa: ASYNC110 # nothing tells of a beat
            await trio.sleep(0.1)
        assert await both.two.abandoned() == []


async def test_a_change_that_is_made_while_it_is_being_undone_is_undone(autojump_clock: object) -> None:
    async with open_two() as both:
        await both.prepare("take")
        before = await both.two.get("t")
        both.line.fate = lambda method, name: "is late" if method == "swap" and "/task/" in name else "passes"
        with pytest.raises(SharedUnavailable):
            await take(both.one, both.owner)
        both.line.fate = passes

        async def be_late(method: str, name: str) -> None:
            if method == "swap" and "/task/" in name:
                both.line.before = None
                assert [await call() for call in both.line.late] == [True]

        both.line.before = be_late
        await trio.sleep(3)
        assert both.line.before is None
        assert await both.two.get("t") == before


async def test_an_owner_that_leaves_during_a_sign_of_life_has_left_all_the_same(autojump_clock: object) -> None:
    async with open_two() as both:
        async with both.one.owner() as owner:
            record = a_record(owner)
            await both.one.create(record, 1)
            both.line.fate = lambda method, name: "is lost" if method == "swap" and owner in name else "passes"
            await trio.sleep(2)
            both.line.fate = passes
        assert await both.two.abandoned() == [record]


async def test_a_process_does_not_take_itself_for_gone(autojump_clock: object) -> None:
    async with open_two() as both:
        keeper = await both.keeper()
        await make(both.one, both.owner)
        both.line.fate = lambda method, name: "fails" if method == "lease" else "passes"
        for _ in range(10):
            await trio.sleep(2)
            assert await both.one.abandoned() == []
        both.line.fate = passes
        await trio.sleep(2)
        assert await both.keeper() == keeper


async def test_a_backend_that_has_lost_its_data_has_no_tasks_and_takes_new_ones(autojump_clock: object) -> None:
    async with open_two() as both:
        lost = a_record(both.owner, "ada")
        await both.one.create(lost, 1)
        both.shared._data._values.clear()
        both.shared._data._leases.clear()
        await trio.sleep(3)

        assert await both.one.put([lost.told(2.0, "half")]) == {lost.id}
        assert await both.one.due(61.0) == []
        await both.one.create(a_record(both.owner, "ada"), 1)
        await end_abandoned(both.two, both.other)
        assert len(await group_in(both.shared, "keepers")) == 2


async def test_a_machine_that_was_paused_together_with_its_clock_loses_no_task(autojump_clock: object) -> None:
    async with open_two() as both:
        both.line.fate = fails
        await end_abandoned(both.two, both.other)
        both.line.fate = passes
        both.one._keepers[both.owner].beaten_at = trio.current_time()
        await make(both.one, both.owner)
        await trio.sleep(3)
        both.line.fate = fails
        await end_abandoned(both.two, both.other)

        left = await both.two.get("t")
        assert left is not None
        assert left.is_final
        assert await both.has_room()


async def test_a_backend_that_fails_in_another_way_does_not_end_the_server(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks(method: str, name: str) -> Fate:
        raise OSError("odd")

    async with open_two() as both:
        both.line.fate = breaks
        await trio.sleep(3)
        both.line.fate = passes
        await make(both.one, both.owner)
    assert "a sign of life of this process has failed" in caplog.text


# --- Tasks ---


async def test_the_limit_of_a_caller_holds_over_all_processes_that_make_tasks_at_once(
    new_shared: Callable[[], Shared],
) -> None:
    one, two = SharedTaskStore(new_shared()), SharedTaskStore(new_shared())
    made: list[str] = []

    async def make_one(store: SharedTaskStore, owner: str) -> None:
        record = a_record(owner, "ada")
        with suppress(TooManyTasks):
            await store.create(record, 7)
            made.append(record.id)

    async with one.owner() as owner, two.owner() as other:
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(make_one, one, owner)
                nursery.start_soon(make_one, two, other)
        assert len(made) == 7
        await two.delete(made.pop())
        await make_one(one, owner)
        await make_one(two, other)
        assert len(made) == 7
        assert {record.id for record in await one.due(61.0)} | {record.id for record in await two.due(61.0)} == {*made}


async def test_a_caller_may_have_more_tasks_than_one_value_has_seats(autojump_clock: object) -> None:
    async with open_two() as both:
        records = [a_record(both.owner, "ada") for _ in range(_SEATS + 3)]
        for record in records:
            await both.one.create(record, len(records))
        with pytest.raises(TooManyTasks):
            await both.two.create(a_record(both.other, "ada"), len(records))
        await both.one.delete(records[0].id)
        await both.two.create(a_record(both.other, "ada"), len(records))


async def test_tasks_that_expire_are_read_some_at_a_time_and_each_of_them_is_found(autojump_clock: object) -> None:
    async with open_two() as both:
        ids = {f"t{number}" for number in range(_MOST_AT_ONCE + 1)}
        for id in ids:
            await both.one.create(a_record(both.owner, id=id), 1000)
        first = {record.id for record in await both.one.due(61.0)}
        assert len(first) == _MOST_AT_ONCE
        for id in first:
            await both.one.delete(id)
        assert [record.id for record in await both.one.due(61.0)] == [*ids - first]


async def test_a_task_that_another_process_has_deleted_or_prolonged_does_not_expire(autojump_clock: object) -> None:
    async with open_two() as both:
        deleted, prolonged, endless = (a_record(both.owner) for _ in range(3))
        for record in (deleted, prolonged, endless):
            await both.one.create(record, 9)
        await both.two.delete(deleted.id)
        ended = evolve(prolonged.overdue(100.0, 1), owner=both.other)
        await both.two.put([ended, evolve(endless.failed(2.0, "no", 1), owner=both.other, expires_at=None)])

        assert await both.one.next_expiry() == 61.0
        assert await both.one.due(61.0) == []
        assert await both.one.next_expiry() == ended.expires_at
        assert await both.one.due(1000.0) == [ended]
        assert len(await group_in(both.shared, "kept", await both.keeper())) == 2
        await both.two.delete(ended.id)
        await both.one.delete(ended.id)
        assert len(await group_in(both.shared, "kept", await both.keeper())) == 1


async def test_a_task_that_is_deleted_here_while_it_is_found_to_expire_is_left_alone(autojump_clock: object) -> None:
    async with open_two() as both:
        await make(both.one, both.owner)

        async def delete_first(method: str, name: str) -> None:
            both.line.before = None
            await both.one.delete("t")

        both.line.before = delete_first
        assert await both.one.due(61.0) == []
        assert await both.one.next_expiry() is None


async def test_a_task_that_is_deleted_here_while_it_is_taken_over_is_left_alone(autojump_clock: object) -> None:
    async with open_two() as both:
        left = SharedTaskStore(both.shared)
        async with left.owner() as owner:
            await left.create(a_record(owner, "ada", id="t", **WAITING), 1)

        async def delete_first(method: str, name: str) -> None:
            if method == "lease" and "/kept/" in name:
                both.line.before = None
                await both.one.delete("t")

        both.line.before = delete_first
        assert await both.one.abandoned() == []
        assert await both.one.next_expiry() is None
        assert await both.has_room()


async def test_a_state_that_is_stored_already_counts_as_stored(autojump_clock: object) -> None:
    async with open_two() as both:
        await make(both.one, both.owner)
        done = a_record(both.owner, "ada", id="t").changed(2.0, "completed", {}, None)
        both.line.fate = lambda method, name: "is lost" if method == "swap" else "passes"
        with pytest.raises(SharedUnavailable):
            await both.one.put([done])
        both.line.fate = passes
        assert await both.one.put([done]) == set()
        assert await both.one.put([evolve(done, message="again")]) == {"t"}


async def test_a_state_of_an_owner_that_has_lost_the_task_is_refused(autojump_clock: object) -> None:
    async with open_two() as both:
        waiting = a_record(both.owner, id="t", **WAITING)
        await both.one.create(waiting, 9)
        await take(both.two, both.other)
        assert await both.one.put([waiting]) == {"t"}
        working = await both.one.get("t")
        assert working is not None
        assert working.owner == both.other


async def test_an_end_is_told_to_the_owner_when_it_is_stored_and_again_if_the_line_fails(
    autojump_clock: object,
) -> None:
    async with open_two() as both:
        await both.two.create(a_record(both.other, "ada", id="t"), 1)
        both.line.fate = lambda method, name: "fails" if method == "swap" else "passes"
        with pytest.raises(SharedUnavailable):
            await end(both.one, both.owner)
        assert await both.two.changed_by_others(both.other) == {}
        both.line.fate = passes
        await end(both.one, both.owner)

        both.line.fate = lambda method, name: "fails" if method == "release" else "passes"
        ended = {"t": await both.two.get("t")}
        assert await both.one.changed_by_others(both.other) == ended
        assert await both.two.changed_by_others(both.other) == ended
        assert await both.two.changed_by_others(both.other) == {}


async def test_answers_are_told_to_the_owner_when_they_are_stored_and_each_of_them_is(autojump_clock: object) -> None:
    async with open_two() as both:
        await both.prepare("answer")
        both.line.fate = lambda method, name: "fails" if method == "swap" else "passes"
        with pytest.raises(SharedUnavailable):
            await answer(both.one, both.owner)
        assert await both.two.changed_by_others(both.other) == {}
        both.line.fate = passes
        await trio.sleep(3)
        await answer(both.one, both.owner)

        both.line.fate = lambda method, name: "fails" if method == "release" else "passes"
        answered = {"t": await both.two.get("t")}
        assert await both.one.changed_by_others(both.other) == answered
        assert await both.two.changed_by_others(both.other) == answered
        assert await both.two.changed_by_others(both.other) == {}


async def test_an_answer_that_comes_while_the_owner_takes_another_one_is_not_lost(autojump_clock: object) -> None:
    async with open_two() as both:
        await both.prepare("answer")
        await both.two.swap(record := await known(both.two), record.answered(2.0, {"p": 1}))

        async def meanwhile(method: str, name: str) -> None:
            if method == "release":
                both.line.before = None
                await answer(both.two, both.other)

        both.line.before = meanwhile
        assert (await both.one.changed_by_others(both.other))["t"] == record.answered(2.0, {"p": 1})
        assert (await both.one.changed_by_others(both.other))["t"] == record.answered(2.0, {"p": 1, "q": 7})
        assert await both.one.changed_by_others(both.other) == {}


@pytest.mark.parametrize(("operation", "place"), [("end", "task"), ("delete", "task"), ("delete", "seats")])
async def test_a_write_that_another_process_forestalls_is_made_again(
    operation: str, place: str, autojump_clock: object
) -> None:
    async with open_two() as both:
        await both.prepare(operation)

        async def write_first(method: str, name: str) -> None:
            if method == "swap" and f"/{place}/" in name:
                both.line.before = None
                record = await both.two.get("t")
                if record is not None:
                    assert not await both.two.put([evolve(record, message="half")])
                await both.two.create(a_record(both.other, "ada", id="second"), 2)

        both.line.before = write_first
        await OPERATIONS[operation](both.one, both.owner)
        assert both.line.before is None
        record = await both.two.get("t")
        assert (record is not None and record.is_final) == (operation == "end")
        await both.two.delete("second")
        assert await both.has_room()


@pytest.mark.parametrize("id", ["", "no spaces", "ünü", "x" * 500, "line\n"])
async def test_an_id_that_no_task_can_have_is_that_of_no_task(id: str) -> None:
    store = SharedTaskStore(MemoryShared())
    async with store.owner():
        assert await store.get(id) is None
        await store.delete(id)


@pytest.mark.parametrize("name", ["", "no spaces", "ünü", "x" * 61])
def test_the_error_names_a_name_that_is_not_valid(name: str) -> None:
    with pytest.raises(ValueError, match=r"SharedTaskStore\(name='.*'\): must be 1 to 60 printable ASCII"):
        SharedTaskStore(MemoryShared(), name=name)


async def test_stores_of_different_names_have_different_tasks() -> None:
    shared = MemoryShared()
    one, two = SharedTaskStore(shared), SharedTaskStore(shared, name="others")
    async with one.owner() as owner, two.owner():
        await make(one, owner)
        assert await two.get("t") is None


async def test_servers_of_one_process_may_share_a_store() -> None:
    store = SharedTaskStore(MemoryShared())
    async with store.owner() as first:
        async with store.owner() as second:
            await make(store, second)
        assert [record.id for record in await store.abandoned()] == ["t"]
        await store.create(a_record(first), 1)
        assert await store.next_expiry() == 61.0


async def test_a_backend_that_cannot_be_reached_is_no_place_for_an_owner() -> None:
    line = Line(MemoryShared(), fails)
    with pytest.raises(SharedUnavailable, match="the line is cut"):
        async with SharedTaskStore(line).owner():
            raise AssertionError


# --- Servers ---


@define(eq=False)
class Service:
    """Two servers of one service, the first of them with a line to the backend that may fail, and their clients."""

    line: Line
    one: RawTasks
    two: RawTasks
    ended: trio.Event
    """Set when a handler of ``work`` has ended."""


@asynccontextmanager
async def open_service(shared: Shared, *, asking: str = "replayed", **others: Any) -> AsyncGenerator[Service]:
    line = Line(shared)
    ended = trio.Event()
    first, second = (
        make_server(MemoryTaskStore(), [], asking=asking, tasks=TaskSettings(store=SharedTaskStore(each), **others))
        for each in (line, shared)
    )

    @first.tool(task="required")
    async def work(seconds: float) -> str:
        try:
            await trio.sleep(seconds)
        finally:
            ended.set()
        return "worked"

    async with (
        open_memory_client(first, on_elicit=say_yes) as one,
        open_memory_client(second, on_elicit=say_yes) as two,
    ):
        yield Service(line, RawTasks(one), RawTasks(two), ended)


async def test_a_task_of_one_server_is_seen_through_the_other(autojump_clock: object) -> None:
    async with open_service(MemoryShared()) as service:
        id = await service.one.begin("work", {"seconds": 10})
        assert (await service.two.get(id))["status"] == "working"
        result = await service.two.client.task(id).result()
        assert result.structured_content == {"result": "worked"}
        assert await service.two.get(id) == await service.one.get(id)


async def test_a_task_of_one_server_is_cancelled_through_the_other(autojump_clock: object) -> None:
    async with open_service(MemoryShared()) as service:
        id = await service.one.begin("work", {"seconds": 1000})
        began = trio.current_time()
        await service.two.cancel(id)
        assert (await service.two.get(id))["status"] == "cancelled"
        await service.ended.wait()
        assert trio.current_time() - began <= 1.0
        assert (await service.one.get(id))["status"] == "cancelled"


async def test_a_task_of_one_server_goes_on_in_the_other_when_it_is_answered_there(autojump_clock: object) -> None:
    async with open_service(MemoryShared()) as service:
        id = await service.one.begin("deploy", {"target": "live"})
        await until(service.one, id, "input_required")
        await service.two.update(id, {"sure": accepted(sure=True)})
        for tasks in (service.one, service.two):
            got = await until(tasks, id, "completed")
            assert got["result"]["structuredContent"] == {"result": "live: Accepted(value=Sure(sure=True))"}


async def test_a_task_of_a_server_that_died_is_ended_by_the_other_and_deleted_when_it_expires(
    autojump_clock: object,
) -> None:
    async with open_service(MemoryShared(), ttl=600) as service:
        id = await service.one.begin("work", {"seconds": 1000})
        waiting = await service.one.begin("both")
        await until(service.two, waiting, "input_required")
        service.line.fate = fails
        await trio.sleep(9)
        assert (await service.two.get(id))["status"] == "working"
        await trio.sleep(11)
        got = await service.two.get(id)
        assert got["status"] == "failed"
        assert got["error"]["message"] == "the server that ran this task ended before the task did"
        assert (await service.two.get(waiting))["status"] == "input_required"
        await trio.sleep(600)
        with pytest.raises(ErrorResponse, match="there is no task"):
            await service.two.get(id)
        assert "did not end within 600 s" in (await service.two.get(waiting))["error"]["message"]


async def test_a_server_that_was_cut_off_cancels_what_others_have_ended_and_serves_on(autojump_clock: object) -> None:
    async with open_service(MemoryShared()) as service:
        id = await service.one.begin("work", {"seconds": 1000})
        service.line.fate = fails
        await trio.sleep(2 * GONE)
        assert not service.ended.is_set()
        service.line.fate = passes
        await service.ended.wait()
        assert (await service.one.get(id))["status"] == "failed"

        id = await service.one.begin("work", {"seconds": 100})
        await trio.sleep(150)
        assert (await service.two.get(id))["status"] == "completed"


async def test_a_server_whose_heir_dies_ends_its_old_tasks_itself(autojump_clock: object) -> None:
    shared = MemoryShared()
    line, heir = Line(shared), SharedTaskStore(shared)
    async with heir.owner():
        store = SharedTaskStore(line)
        async with open_memory_client(make_server(store, [])) as client:
            tasks = RawTasks(client)
            id = await tasks.begin("endless")
            line.fate = fails
            await trio.sleep(GONE)
            assert [record.id for record in await heir.abandoned()] == [id]
            line.fate = passes
            await trio.sleep(3 * GONE)  # its loops pause for 30 s after a failure
            got = await tasks.get(id)
            assert got["error"]["message"] == "the server that ran this task ended before the task did"


async def test_requests_fail_while_the_backend_cannot_be_reached_and_later_all_is_well(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_service(MemoryShared()) as service:
        tasks = service.one
        mine, others = await tasks.begin("work", {"seconds": 5}), await service.two.begin("endless")
        waiting = await tasks.begin("deploy", {"target": "live"})
        await until(tasks, waiting, "input_required")
        requests = (
            partial(tasks.get, others),
            partial(tasks.cancel, others),
            partial(tasks.update, waiting, {"sure": accepted(sure=True)}),
        )
        for fate, failing in ((fails, requests), (fails_to_write, requests[1:])):
            service.line.fate = fate
            for request in failing:
                with pytest.raises(ErrorResponse, match="cannot be reached at the moment; try again later") as failure:
                    await request()
                assert failure.value.code == INTERNAL_ERROR
        service.line.fate = fails
        with pytest.raises(ErrorResponse, match="could not become a task"):
            await tasks.call("work", {"seconds": 5})
        await trio.sleep(7)
        assert (await tasks.get(mine))["status"] == "working"  # it has ended, but that is not stored
        service.line.fate = passes

        await trio.sleep(30)
        assert (await service.two.get(mine))["status"] == "completed"
        assert (await tasks.get(others))["status"] == "working"
        await tasks.update(waiting, {"sure": accepted(sure=True)})
        await until(service.two, waiting, "completed")
    assert "a request about a task failed: the line is cut" in caplog.text


async def test_the_answers_of_an_interrupted_request_may_be_given_again(autojump_clock: object) -> None:
    async with open_service(MemoryShared()) as service:
        id = await service.two.begin("deploy", {"target": "live"})
        await until(service.two, id, "input_required")
        service.line.fate = lambda method, name: "is lost" if method == "swap" and "/task/" in name else "passes"
        with pytest.raises(ErrorResponse, match="cannot be reached"):
            await service.one.update(id, {"sure": accepted(sure=True)})
        service.line.fate = passes
        await trio.sleep(3)
        assert (await service.one.get(id))["status"] == "input_required"
        await service.one.update(id, {"sure": accepted(sure=True)})
        await until(service.two, id, "completed")


async def test_a_change_that_was_interrupted_is_not_undone_when_others_have_changed_the_task(
    autojump_clock: object,
) -> None:
    async with open_two() as both:
        await both.prepare("take")
        both.line.fate = lambda method, name: "fails" if method == "swap" else "passes"
        with pytest.raises(SharedUnavailable):
            await take(both.one, both.owner)
        await end(both.two, both.other)
        ended = await both.two.get("t")
        both.line.fate = passes
        await trio.sleep(3)
        assert await both.one.get("t") == ended


async def test_a_task_is_cancelled_through_the_other_server_over_every_backend(
    new_shared: Callable[[], Shared],
) -> None:
    async with open_service(new_shared(), poll_interval=0.01) as service:
        id = await service.one.begin("work", {"seconds": 3600})
        assert (await service.two.get(id))["status"] == "working"
        await service.two.cancel(id)
        with trio.fail_after(60):
            await service.ended.wait()
        assert (await service.one.get(id))["status"] == "cancelled"


async def test_a_task_is_answered_through_the_other_server_over_every_backend(
    new_shared: Callable[[], Shared],
) -> None:
    async with open_service(new_shared(), asking="parked", poll_interval=0.01) as service:
        id = await service.one.begin("both")
        await until(service.one, id, "input_required")
        await service.two.update(id, {"one": accepted(sure=True)})
        await service.two.update(id, {"one": accepted(sure=False), "two": accepted(sure=True)})
        got = await until(service.two, id, "completed")
        assert got["result"]["content"][0]["text"].count("sure=True") == 2


# --- Everything at once ---


@define(eq=False)
class Turmoil:
    """Processes that use tasks at random, over lines that fail at random; each state that is seen is checked.

    ``python -m tests.tasks.test_shared_store 200`` does so 200 times.
    """

    dice: random.Random
    shared: MemoryShared = field(factory=MemoryShared)
    most: int = 30
    made: list[str] = field(factory=list[str])
    ends: dict[str, TaskRecord] = field(factory=dict[str, TaskRecord])
    """The tasks that were seen to have ended."""
    deleted: set[str] = field(factory=set[str])
    """The tasks that some process has begun to delete."""
    is_over: bool = False

    def fate(self, method: str, name: str) -> Fate:
        chance = self.dice.random()
        return "passes" if chance < 0.95 else "fails" if chance < 0.965 else "is lost" if chance < 0.985 else "is late"

    def count(self) -> int:
        """Return the number of tasks in the backend."""
        values, now = self.shared._data._values, trio.current_time()
        return sum("/task/" in key and each.content != b"" and each.expires_at > now for key, each in values.items())

    async def live(self) -> None:
        """Be one process after another, each of which ends, is killed, or is cut off for a while."""
        while not self.is_over:
            line = Line(self.shared, self.fate)
            store = SharedTaskStore(line)
            with suppress(SharedUnavailable):
                async with store.owner() as owner, trio.open_nursery() as nursery:
                    for work in (self.use, self.use, self.look_after):
                        nursery.start_soon(work, store, owner, nursery)
                    nursery.start_soon(self.be_late, line)
                    for _ in range(self.dice.randrange(6)):
                        await trio.sleep(self.dice.uniform(1, 30))
                        line.fate = fails if self.dice.random() < 0.3 else self.fate
                    line.fate = self.dice.choice([passes, fails])
                    nursery.cancel_scope.cancel()
            for call in line.late:
                await call()

    async def be_late(self, line: Line) -> None:
        while True:
            await trio.sleep(self.dice.uniform(0, 4))
            for call in [*line.late]:
                line.late.remove(call)
                await call()

    async def use(self, store: SharedTaskStore, owner: str, nursery: trio.Nursery) -> None:
        """Make tasks, look at those of all processes, cancel some, and go on with some that wait."""
        while True:
            await trio.sleep(self.dice.uniform(0.1, 3))
            with suppress(SharedUnavailable, TooManyTasks):
                now = trio.current_time()
                if self.dice.random() < 0.4:
                    seconds = self.dice.choice([30.0, 90.0])
                    times = {"created_at": now, "updated_at": now, "ttl": seconds, "expires_at": now + seconds}
                    record = a_record(owner, "ada", **times)
                    try:
                        await store.create(record, self.most)
                    finally:
                        assert self.count() <= self.most
                    self.made.append(record.id)
                    nursery.start_soon(self.handle, store, record)
                elif self.made:
                    found = await self.see(store, self.dice.choice(self.made))
                    if found is not None and not found.is_final:
                        await self.change(store, found, owner, nursery)

    async def change(self, store: SharedTaskStore, record: TaskRecord, owner: str, nursery: trio.Nursery) -> None:
        now = trio.current_time()
        if self.dice.random() < 0.2:
            await self.put(store, evolve(record.changed(now, "cancelled", None, None), owner=owner))
        elif record.replay is not None:
            taken = evolve(record.changed(now, "working", None, None), owner=owner)
            if await store.swap(record, taken):
                nursery.start_soon(self.handle, store, taken)

    async def handle(self, store: SharedTaskStore, record: TaskRecord) -> None:
        """Report progress, wait for answers, or end; or do nothing until the task expires."""
        for _ in range(3):
            await trio.sleep(self.dice.uniform(0.1, 15))
            now, is_put = trio.current_time(), None
            record = self.dice.choice(
                [
                    record.told(now, "half"),
                    record.changed(now, "completed", {}, None),
                    evolve(record.changed(now, "input_required", {"q": {}}, None), replay=WAITING["replay"]),
                ]
            )
            while is_put is None:
                try:
                    is_put = await self.put(store, record)
                except SharedUnavailable:
                    await trio.sleep(1)
            if not is_put or record.status != "working":
                return

    async def look_after(self, store: SharedTaskStore, owner: str, nursery: trio.Nursery) -> None:
        while True:
            await trio.sleep(self.dice.uniform(1, 5))
            with suppress(SharedUnavailable):
                await self.end_abandoned(store, owner)
            with suppress(SharedUnavailable):
                await self.expire(store, owner)
            with suppress(SharedUnavailable):
                await store.changed_by_others(owner)

    async def end_abandoned(self, store: SharedTaskStore, owner: str) -> None:
        for record in await store.abandoned():
            await self.put(store, evolve(record.failed(trio.current_time(), "gone", 1), owner=owner))

    async def expire(self, store: SharedTaskStore, owner: str) -> None:
        for record in await store.due(trio.current_time()):
            if record.is_final:
                self.deleted.add(record.id)
                await store.delete(record.id)
            else:
                await self.put(store, evolve(record.overdue(trio.current_time(), 1), owner=owner))

    async def put(self, store: SharedTaskStore, record: TaskRecord) -> bool:
        if record.id in await store.put([record]):
            return False
        if record.is_final:
            assert self.ends.setdefault(record.id, record) == record
        return True

    async def see(self, store: SharedTaskStore, id: str) -> TaskRecord | None:
        record = await store.get(id)
        if record is None:
            assert id in self.deleted, "a task is lost"
        elif record.is_final:
            assert self.ends.setdefault(id, record) == record
        else:
            assert id not in self.ends
        return record

    async def run(self, seconds: float) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(self.live)
            await trio.sleep(seconds)
            self.is_over = True
        store = SharedTaskStore(self.shared)
        async with store.owner() as owner:
            for _ in range(20):
                await trio.sleep(30)
                await self.end_abandoned(store, owner)
                await self.expire(store, owner)
            for id in self.made:
                await self.see(store, id)
            assert self.count() == 0
            assert len(await group_in(self.shared, "keepers")) == 1
            for _ in range(self.most):
                await store.create(a_record(owner, "ada"), self.most)


async def test_whatever_fails_no_task_is_lost_or_ends_twice_and_no_seat_is_taken_for_ever(
    autojump_clock: object, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trio_mcp.tasks._shared._SEATS", 7)
    caplog.set_level(logging.ERROR)
    turmoil = Turmoil(random.Random(7))
    await turmoil.run(400)
    assert len(turmoil.made) > 50


def main() -> None:
    logging.disable(logging.CRITICAL)
    made = 0
    for seed in range(int(sys.argv[1])):
        turmoil = Turmoil(random.Random(seed))
        trio.run(turmoil.run, 1500, clock=trio.testing.MockClock(autojump_threshold=0))
        made += len(turmoil.made)
    sys.stdout.write(f"{made} tasks\n")


if __name__ == "__main__":
    main()
