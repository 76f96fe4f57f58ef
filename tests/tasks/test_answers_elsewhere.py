"""Tasks whose handlers wait for answers in the memory of one process, and are answered through another one."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import define, evolve, field

from tests.tasks.helpers import DECLARED, RawTasks, accepted
from tests.tasks.test_replayed_tasks import say_yes
from trio_mcp import (
    ConnectionLost,
    Context,
    CustomChange,
    Elicit,
    ErrorResponse,
    MemoryShared,
    MemoryTaskStore,
    Server,
    SqliteTaskStore,
    TaskSettings,
    open_client,
)
from trio_mcp.tasks import SharedTaskStore, TaskRecord, TaskStore
from trio_mcp.testing import open_memory_client
from trio_mcp.wire import INTERNAL_ERROR, INVALID_PARAMS

PROGRAM = Path(__file__).parent / "programs" / "parked_server.py"
GONE = "the server that ran this task ended before the task did"
YES, NO = accepted(sure=True), accepted(sure=False)


@define
class Sure:
    sure: bool


def is_even(_: object, attribute: object, value: int) -> None:
    """Check what no schema of a form expresses."""
    if value % 2:
        raise ValueError(f"{value} is odd")


@define
class Even:
    number: int = field(validator=is_even)


def make_server(store: TaskStore, **settings: Any) -> Server:
    server = Server("s", tasks=TaskSettings(store=store, **settings))

    @server.tool(task="required")
    async def deploy(ctx: Context) -> str:
        return str(await ctx.elicit("Deploy?", Sure, key="sure"))

    @server.tool(task="required")
    async def both(ctx: Context) -> str:
        return str(await ctx.ask_all(Elicit("One?", Sure, key="one"), Elicit("Two?", Sure, key="two")))

    @server.tool(task="required")
    async def twice(ctx: Context) -> str:
        return str([await ctx.elicit("Sure?", Sure, key="sure") for _ in range(2)])

    @server.tool(task="required")
    async def even(ctx: Context) -> str:
        return str(await ctx.elicit("Which?", Even, key="number"))

    @server.tool(task="required")
    async def reporting(ctx: Context) -> str:
        async def report() -> None:
            for step in range(1, 1000):
                await trio.sleep(0.5)
                await ctx.report_progress(step)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(report)
            answer = await ctx.elicit("Sure?", Sure, key="sure")
            nursery.cancel_scope.cancel()
        return str(answer)

    return server


async def until(tasks: RawTasks, id: str, status: str) -> dict[str, Any]:
    """Ask for the state of a task until it has this status."""
    with trio.fail_after(60):
        while (got := await tasks.get(id))["status"] != status:  # noqa: ASYNC110 # nothing tells the test
            await trio.sleep(0.05)
    return got


@define(eq=False)
class Service:
    """Two servers with the same tasks, and their clients; the handlers are in the first one."""

    one: RawTasks
    two: RawTasks

    async def ask(self, tool: str) -> str:
        """Begin a task that asks; return its id when both servers show the questions."""
        id = await self.one.begin(tool)
        await until(self.two, id, "input_required")
        return id

    async def text(self, id: str) -> str:
        """Return the result of a task as it is in the end."""
        result = (await until(self.two, id, "completed"))["result"]
        text: str = result["content"][0]["text"]
        return text


@asynccontextmanager
async def open_service(new_store: Callable[[], TaskStore], **settings: Any) -> AsyncGenerator[Service]:
    first, second = (make_server(new_store(), **settings) for _ in range(2))
    async with (
        open_memory_client(first, on_elicit=say_yes) as one,
        open_memory_client(second, on_elicit=say_yes) as two,
    ):
        with trio.fail_after(120):
            yield Service(RawTasks(one), RawTasks(two))


def shared_stores() -> Callable[[], TaskStore]:
    shared = MemoryShared()
    return lambda: SharedTaskStore(shared)


@pytest.fixture(params=["shared", "sqlite"])
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], TaskStore]:
    """Return a function that opens the same tasks each time, as another process does."""
    return shared_stores() if request.param == "shared" else lambda: SqliteTaskStore(tmp_path / "tasks.db")


async def test_a_handler_goes_on_with_the_answer_that_another_process_has_taken(
    new_store: Callable[[], TaskStore],
) -> None:
    async with open_service(new_store, poll_interval=0.01) as service:
        id = await service.ask("deploy")
        await service.two.update(id, {"sure": YES})
        got = await service.two.get(id)
        assert got["status"] in {"working", "completed"}  # answered, so nobody is asked any more
        assert "inputRequests" not in got

        assert await service.text(id) == "Accepted(value=Sure(sure=True))"
        assert (await service.one.get(id))["status"] == "completed"


async def test_the_answers_to_several_questions_may_come_through_several_processes(
    new_store: Callable[[], TaskStore],
) -> None:
    async with open_service(new_store, poll_interval=0.01) as service:
        id = await service.ask("both")
        await service.two.update(id, {"one": YES})
        got = await service.two.get(id)
        assert (got["status"], [*got["inputRequests"]]) == ("input_required", ["two"])
        await service.one.update(id, {"two": NO})

        assert await service.text(id) == "(Accepted(value=Sure(sure=True)), Accepted(value=Sure(sure=False)))"


async def test_the_first_answer_to_a_question_is_the_one_that_counts(autojump_clock: object) -> None:
    async with open_service(shared_stores()) as service:
        id = await service.ask("both")
        await service.two.update(id, {"one": YES})
        for late in (service.two, service.one):
            await late.update(id, {"one": NO})
        await service.one.update(id, {"one": NO, "two": YES})
        await service.two.update(id, {"two": NO})

        assert await service.text(id) == "(Accepted(value=Sure(sure=True)), Accepted(value=Sure(sure=True)))"


@pytest.mark.parametrize("times", [1, 3])
async def test_answers_that_several_processes_take_at_once_are_one_answer(times: int, autojump_clock: object) -> None:
    async with open_service(shared_stores()) as service:
        id = await service.ask("twice")
        for key in ("sure", "sure-2"):
            await until(service.two, id, "input_required")
            async with trio.open_nursery() as nursery:
                for _ in range(times):
                    for tasks, each in ((service.two, YES), (service.one, NO)):
                        nursery.start_soon(tasks.update, id, {key: each})
            await trio.sleep(2)

        assert (await service.text(id)).count("Accepted") == 2


async def test_an_answer_to_an_earlier_question_does_not_answer_a_later_one(autojump_clock: object) -> None:
    async with open_service(shared_stores()) as service:
        id = await service.ask("twice")
        await service.two.update(id, {"sure": YES})
        got = await until(service.two, id, "input_required")
        assert [*got["inputRequests"]] == ["sure-2"]
        await service.two.update(id, {"sure": NO, "sure-2": NO})

        assert await service.text(id) == "[Accepted(value=Sure(sure=True)), Accepted(value=Sure(sure=False))]"


async def test_reports_of_progress_do_not_lose_an_answer(autojump_clock: object) -> None:
    async with open_service(shared_stores(), poll_interval=10) as service:
        id = await service.ask("reporting")
        await service.two.update(id, {"sure": YES})
        await trio.sleep(5)
        got = await service.two.get(id)
        assert (got["status"], got["statusMessage"]) == ("working", "9")

        assert await service.text(id) == "Accepted(value=Sure(sure=True))"


async def test_the_process_with_the_handler_learns_of_an_answer_within_a_second(autojump_clock: object) -> None:
    async with open_service(shared_stores()) as service:
        id, asked = await service.ask("deploy"), trio.current_time()
        await service.two.update(id, {"sure": YES})
        await service.text(id)
        assert trio.current_time() - asked <= 1.1  # and the pause between two looks of this test


async def test_the_answers_are_told_to_clients_that_listen(autojump_clock: object) -> None:
    async with open_service(shared_stores()) as service:
        id = await service.ask("deploy")
        async with service.two.client.listen(custom={"taskIds": [id]}, extensions=DECLARED) as changes:
            await service.two.update(id, {"sure": YES})
            async for each in changes:
                assert isinstance(each, CustomChange)
                assert each.params["status"] == "working"
                assert "inputRequests" not in each.params
                break


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ({"action": "perhaps"}, r"\$\.inputResponses\.sure\.action: "),
        (accepted(sure="yes"), r"\$\.inputResponses\.sure\.content\.sure: "),
        (7, r"\$\.inputResponses\.sure: expected object"),
    ],
)
async def test_an_invalid_answer_is_refused_by_the_process_that_gets_it_and_the_question_stays_open(
    answer: Any, fault: str, autojump_clock: object
) -> None:
    async with open_service(shared_stores()) as service:
        id = await service.ask("deploy")
        with pytest.raises(ErrorResponse, match=fault) as refusal:
            await service.two.update(id, {"sure": answer})
        assert refusal.value.code == INVALID_PARAMS
        assert (await service.two.get(id))["status"] == "input_required"
        await service.two.update(id, {"sure": YES})
        await service.text(id)


async def test_an_answer_that_only_the_handler_can_refuse_fails_the_task(autojump_clock: object) -> None:
    async with open_service(shared_stores()) as service:
        id = await service.ask("even")
        await service.two.update(id, {"number": accepted(number=3)})
        got = await until(service.two, id, "failed")
        assert got["error"]["code"] == INVALID_PARAMS
        assert "3 is odd" in got["error"]["message"]
        await service.two.update(id, {"number": accepted(number=4)})  # ignored, as for every task that has ended
        assert (await service.one.get(id))["status"] == "failed"


async def test_answers_to_no_open_question_are_ignored(autojump_clock: object) -> None:
    async with open_service(shared_stores()) as service:
        id = await service.ask("both")
        before = await service.two.get(id)
        await service.two.update(id, {"three": YES})
        assert await service.two.get(id) == before


async def test_a_task_that_waits_for_an_answer_is_cancelled_through_another_process(
    new_store: Callable[[], TaskStore],
) -> None:
    async with open_service(new_store, poll_interval=0.01) as service:
        id = await service.ask("deploy")
        await service.two.cancel(id)
        await service.two.update(id, {"sure": YES})
        await until(service.one, id, "cancelled")
        assert (await service.two.get(id))["status"] == "cancelled"


async def test_an_answer_is_ignored_if_the_task_is_gone_before_it_is_stored(autojump_clock: object) -> None:
    class Forgetful(SharedTaskStore):
        forgets = False

        async def abandoned(self) -> Any:
            if self.forgets:
                for id in [*self._kept]:
                    await self.delete(id)
            return await super().abandoned()

    shared = MemoryShared()
    one, two = SharedTaskStore(shared), Forgetful(shared)
    stores = iter([one, two])
    async with open_service(lambda: next(stores)) as service:
        id = await service.ask("deploy")
        record = await one.get(id)
        assert record is not None
        two.forgets = True
        two._kept[id] = one._kept[id]  # so that it can be deleted here
        await service.two.update(id, {"sure": YES})
        with pytest.raises(ErrorResponse, match="there is no task"):
            await service.two.get(id)


async def test_an_answer_here_to_a_task_that_was_deleted_elsewhere_changes_nothing(autojump_clock: object) -> None:
    shared = MemoryShared()
    other = SharedTaskStore(shared)
    async with open_service(lambda: SharedTaskStore(shared)) as service, other.owner():
        id = await service.ask("deploy")
        await other.delete(id)
        await service.one.update(id, {"sure": YES})
        for tasks in (service.one, service.two):
            with pytest.raises(ErrorResponse, match="there is no task"):
                await tasks.get(id)


async def test_an_answer_to_a_handler_that_has_ended_changes_nothing_although_its_end_is_not_stored(
    autojump_clock: object,
) -> None:
    class Failing(MemoryTaskStore):
        fails = False

        async def put(self, records: Collection[TaskRecord]) -> Collection[str]:
            if self.fails:
                raise OSError("the disk is full")
            return await super().put(records)

    store = Failing()
    async with open_memory_client(make_server(store), on_elicit=say_yes) as client:
        tasks = RawTasks(client)
        id = await tasks.begin("deploy")
        await until(tasks, id, "input_required")
        store.fails = True
        with trio.move_on_after(1):
            await tasks.update(id, {"sure": YES})  # it waits until its effect is stored
        await tasks.update(id, {"sure": NO})
        assert (await tasks.get(id))["status"] == "input_required"
        store.fails = False
        got = await until(tasks, id, "completed")
        assert got["result"]["content"][0]["text"] == "Accepted(value=Sure(sure=True))"


async def test_an_answer_to_a_task_whose_process_is_gone_is_refused_with_the_reason(tmp_path: Path) -> None:
    store = SqliteTaskStore(tmp_path / "tasks.db")
    async with open_service(lambda: SqliteTaskStore(tmp_path / "tasks.db")) as service, store.owner() as owner:
        id = await service.ask("deploy")
        record = await store.get(id)
        assert record is not None
        assert await store.swap(record, evolve(record, owner="gone"))
        with pytest.raises(ErrorResponse, match=f"failed before it had this answer: {GONE}") as refusal:
            await service.two.update(id, {"sure": YES})
        assert refusal.value.code == INTERNAL_ERROR
        assert (await service.two.get(id))["error"]["message"] == GONE
        assert owner


async def test_an_answer_through_another_serving_is_refused_if_its_store_is_not_shared() -> None:
    store = MemoryTaskStore()
    async with open_service(lambda: store) as service:
        id = await service.ask("deploy")
        with pytest.raises(ErrorResponse, match="waits in another serving, without a shared store") as refusal:
            await service.two.update(id, {"sure": YES})
        assert refusal.value.code == INTERNAL_ERROR
        await service.one.update(id, {"sure": YES})
        await service.text(id)


# --- Real processes ---


@asynccontextmanager
async def open_processes(kind: str, path: Path) -> AsyncGenerator[Service]:
    command = [sys.executable, str(PROGRAM), kind, str(path)]
    with trio.fail_after(120):
        async with (
            open_client(command, on_elicit=say_yes) as one,
            open_client(command, on_elicit=say_yes) as two,
        ):
            yield Service(RawTasks(one), RawTasks(two))


@pytest.mark.parametrize("kind", ["sqlite", "shared"])
async def test_one_process_answers_and_cancels_what_waits_in_another_one(kind: str, tmp_path: Path) -> None:
    async with open_processes(kind, tmp_path / "tasks.db") as service:
        answered, cancelled = await service.ask("deploy"), await service.ask("deploy")
        await service.two.update(answered, {"sure": YES})
        await service.two.cancel(cancelled)

        assert await service.text(answered) == "Accepted(value=Sure(sure=True))"
        await until(service.one, cancelled, "cancelled")


async def test_one_process_says_that_the_handler_was_in_another_one_that_was_killed(tmp_path: Path) -> None:
    async with open_processes("sqlite", tmp_path / "tasks.db") as service:
        id = await service.ask("deploy")
        process = await service.one.client.call_tool("process_id", returns=int)
        os.kill(process, signal.SIGKILL)
        with pytest.raises(ConnectionLost):
            await service.one.get(id)
        with suppress(ErrorResponse):  # the system may take a moment to drop the lock of the process
            await service.two.update(id, {"sure": YES})
        assert (await until(service.two, id, "failed"))["error"]["message"] == GONE
