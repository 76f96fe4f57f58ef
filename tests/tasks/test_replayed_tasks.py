"""Tasks of a server whose handlers are replayed: those that wait for answers survive a restart of the server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import frozen

from tests.tasks.helpers import RawTasks, accepted
from trio_mcp import Context, Elicit, ErrorResponse, MemoryTaskStore, Server, SqliteTaskStore, TaskSettings, types
from trio_mcp.tasks import TaskRecord, TaskStore
from trio_mcp.testing import open_memory_client
from trio_mcp.wire import INVALID_PARAMS

KEY = b"a key that every process has"
NewServer = Callable[..., Server]


@frozen
class Sure:
    sure: bool


async def say_yes(_: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"sure": True})


def make_server(store: TaskStore, done: list[str], **options: Any) -> Server:
    settings: dict[str, Any] = {"keys": [KEY], "asking": "replayed", "tasks": TaskSettings(store=store), **options}
    server = Server("s", **settings)

    @server.tool(task="required")
    async def deploy(ctx: Context, target: str) -> str:
        await ctx.once("build", lambda: done.append("built"))
        done.append("begun")
        answer = await ctx.elicit(f"Deploy to {target}?", Sure, key="sure")
        return f"{target}: {answer}"

    @server.tool(task="required")
    async def both(ctx: Context) -> str:
        return str(await ctx.ask_all(Elicit("One?", Sure, key="one"), Elicit("Two?", Sure, key="two")))

    @server.tool(task="required")
    async def endless() -> None:
        await trio.sleep_forever()

    return server


@pytest.fixture(params=["memory", "sqlite"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], TaskStore]:
    """Return a function that opens the same tasks again each time, as a restarted server does."""
    if request.param == "memory":
        store = MemoryTaskStore()
        return lambda: store
    return lambda: SqliteTaskStore(tmp_path / "tasks.db")


async def until(tasks: RawTasks, id: str, status: str) -> dict[str, Any]:
    """Ask for the state of a task until it has this status."""
    with trio.fail_after(60):
        while (got := await tasks.get(id))["status"] != status:
            await trio.lowlevel.checkpoint()
    return got


async def test_a_task_that_waits_for_an_answer_survives_a_restart_and_goes_on_by_replay(
    stores: Callable[[], TaskStore],
) -> None:
    done: list[str] = []
    async with open_memory_client(make_server(stores(), done), on_elicit=say_yes) as client:
        tasks = RawTasks(client)
        id = await tasks.begin("deploy", {"target": "live"})
        await until(tasks, id, "input_required")

    async with open_memory_client(make_server(stores(), done), on_elicit=say_yes) as client:
        tasks = RawTasks(client)
        got = await tasks.get(id)
        assert got["status"] == "input_required"
        assert got["inputRequests"]["sure"]["params"]["message"] == "Deploy to live?"
        await tasks.update(id, {"sure": accepted(sure=True)})
        got = await until(tasks, id, "completed")
        assert got["result"]["structuredContent"] == {"result": "live: Accepted(value=Sure(sure=True))"}

    assert done == ["built", "begun", "begun"]


async def test_answers_may_come_one_by_one_and_from_several_processes(stores: Callable[[], TaskStore]) -> None:
    first, second = make_server(stores(), []), make_server(stores(), [])
    async with (
        open_memory_client(first, on_elicit=say_yes) as one,
        open_memory_client(second, on_elicit=say_yes) as two,
    ):
        id = await RawTasks(one).begin("both")
        await until(RawTasks(one), id, "input_required")
        await RawTasks(two).update(id, {"one": accepted(sure=True)})
        got = await RawTasks(one).get(id)
        assert (got["status"], [*got["inputRequests"]]) == ("input_required", ["two"])
        await RawTasks(one).update(id, {"one": accepted(sure=False), "two": accepted(sure=True)})
        got = await until(RawTasks(two), id, "completed")
        assert got["result"]["content"][0]["text"].count("sure=True") == 2


async def test_the_same_answers_sent_twice_at_once_run_the_handler_once(stores: Callable[[], TaskStore]) -> None:
    done: list[str] = []
    first, second = make_server(stores(), done), make_server(stores(), done)
    async with (
        open_memory_client(first, on_elicit=say_yes) as one,
        open_memory_client(second, on_elicit=say_yes) as two,
    ):
        id = await RawTasks(one).begin("deploy", {"target": "live"})
        await until(RawTasks(one), id, "input_required")
        async with trio.open_nursery() as nursery:
            for client in (one, two, one, two):
                nursery.start_soon(RawTasks(client).update, id, {"sure": accepted(sure=True)})
        await until(RawTasks(one), id, "completed")

    assert done.count("begun") == 2  # the first time, and its replay


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ({"action": "perhaps"}, r"\$\.inputResponses\.sure\.action: "),
        (accepted(sure="yes"), r"\$\.inputResponses\.sure\.content\.sure: "),
        (accepted(), r"\$\.inputResponses\.sure\.content: .*required"),
        (7, r"\$\.inputResponses\.sure: expected object"),
        ({"roots": []}, r"\$\.inputResponses\.sure: required member 'action'"),
    ],
)
async def test_an_invalid_answer_is_refused_with_its_path_and_the_question_stays_open(answer: Any, fault: str) -> None:
    async with open_memory_client(make_server(MemoryTaskStore(), []), on_elicit=say_yes) as client:
        tasks = RawTasks(client)
        id = await tasks.begin("deploy", {"target": "live"})
        await until(tasks, id, "input_required")
        with pytest.raises(ErrorResponse, match=fault) as refusal:
            await tasks.update(id, {"sure": answer})
        assert refusal.value.code == INVALID_PARAMS
        assert (await tasks.get(id))["status"] == "input_required"


async def test_a_task_that_waits_is_cancelled_without_its_handler(stores: Callable[[], TaskStore]) -> None:
    async with open_memory_client(make_server(stores(), []), on_elicit=say_yes) as client:
        id = await RawTasks(client).begin("both")
        await until(RawTasks(client), id, "input_required")
    async with open_memory_client(make_server(stores(), []), on_elicit=say_yes) as client:
        tasks = RawTasks(client)
        await tasks.cancel(id)
        assert (await tasks.get(id))["status"] == "cancelled"
        await tasks.update(id, {"one": accepted(sure=True)})  # ignored
        assert (await tasks.get(id))["status"] == "cancelled"


async def test_a_task_that_was_cancelled_through_another_process_cancels_its_handler(tmp_path: Path) -> None:
    ended = trio.Event()
    settings = {"tasks": TaskSettings(store=SqliteTaskStore(tmp_path / "t.db"), poll_interval=0.01)}
    first, second = (
        make_server(MemoryTaskStore(), [], **settings),
        make_server(MemoryTaskStore(), [], tasks=TaskSettings(store=SqliteTaskStore(tmp_path / "t.db"))),
    )

    @first.tool(task="required")
    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    async with open_memory_client(first) as one, open_memory_client(second) as two:
        id = await RawTasks(one).begin("work")
        await RawTasks(two).cancel(id)
        assert (await RawTasks(two).get(id))["status"] == "cancelled"
        with trio.fail_after(60):
            await ended.wait()
        assert (await RawTasks(one).get(id))["status"] == "cancelled"


async def test_a_retry_that_waits_longer_than_any_question_is_replayed_all_the_same(autojump_clock: object) -> None:
    """The state of a question in a task is valid until the task expires, not for `Limits.ask_seconds`."""
    async with open_memory_client(make_server(MemoryTaskStore(), []), on_elicit=say_yes) as client:
        tasks = RawTasks(client)
        id = await tasks.begin("deploy", {"target": "live"})
        await trio.sleep(3000)
        await tasks.update(id, {"sure": accepted(sure=True)})
        await trio.sleep(1)
        assert (await tasks.get(id))["status"] == "completed"


async def test_a_task_that_waits_fails_when_it_expires(autojump_clock: object) -> None:
    store = MemoryTaskStore()
    async with open_memory_client(
        make_server(store, [], tasks=TaskSettings(ttl=60, store=store)), on_elicit=say_yes
    ) as client:
        tasks = RawTasks(client)
        id = await tasks.begin("both")
        await trio.sleep(61)
        assert (await tasks.get(id))["status"] == "failed"


async def test_answers_to_questions_that_are_not_open_change_nothing() -> None:
    async with open_memory_client(make_server(MemoryTaskStore(), []), on_elicit=say_yes) as client:
        tasks = RawTasks(client)
        id = await tasks.begin("both")
        before = await until(tasks, id, "input_required")
        await tasks.update(id, {"three": accepted(sure=True)})
        assert await tasks.get(id) == before


async def test_samplings_and_roots_are_asked_in_a_replayed_task_too() -> None:
    async def on_sample(_: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        return types.CreateMessageResult(role="assistant", content=types.TextContent(text="Paris"), model="m")

    async def roots() -> list[types.Root]:
        return [types.Root(uri="file:///home")]

    server = make_server(MemoryTaskStore(), [])

    @server.tool(task="required")
    async def everything(ctx: Context) -> str:
        answer = await ctx.sample("Capital of France?", max_tokens=5)
        return f"{answer.content} {[root.uri for root in await ctx.list_roots()]} {await ctx.elicit('Sure?', Sure)}"

    async def decline(_: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="decline")

    async with open_memory_client(server, on_elicit=decline, on_sample=on_sample, roots=roots) as client:
        result = await (await client.start_task("everything")).result()
        text = str(result.structured_content)
        assert "Paris" in text
        assert "file:///home" in text
        assert "Declined" in text


async def test_a_task_that_is_deleted_while_answers_arrive_is_left_alone() -> None:
    class Racing(MemoryTaskStore):
        async def swap(self, record: TaskRecord, changed: TaskRecord) -> bool:
            await self.delete(record.id)
            return await super().swap(record, changed)

    async with open_memory_client(make_server(Racing(), []), on_elicit=say_yes) as client:
        tasks = RawTasks(client)
        id = await tasks.begin("both")
        await until(tasks, id, "input_required")
        await tasks.update(id, {"one": accepted(sure=True)})
        with pytest.raises(ErrorResponse, match="there is no task"):
            await tasks.get(id)
