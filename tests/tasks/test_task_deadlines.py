"""Tasks and deadlines of callers: a call that has become a task does not end at the deadline of its request."""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio

from tests.tasks.helpers import DECLARED, MODERN, RawTasks, accepted
from trio_mcp import Context, MemoryTaskStore, Server, TaskSettings, open_client, types
from trio_mcp.tasks import TaskRecord
from trio_mcp.testing import ScriptedPeer, open_memory_client, open_scripted_client
from trio_mcp.wire import DEADLINE_KEY

FORM = {"type": "object", "properties": {"sure": {"type": "boolean"}}}


def seconds_left(ctx: Context) -> float | None:
    return None if math.isinf(ctx.deadline) else round(ctx.deadline - trio.current_time(), 3)


async def say_yes(_: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"sure": True})


def make_server(store: MemoryTaskStore | None = None, **options: Any) -> Server:
    settings = TaskSettings(after=2.0, poll_interval=1.0, store=store or MemoryTaskStore())
    server = Server("tasks", tasks=settings, **options)

    @server.tool(task="required")
    async def nightly(ctx: Context) -> list[float | None]:
        before = seconds_left(ctx)
        await trio.sleep(100)
        return [before, seconds_left(ctx)]

    @server.tool(task="optional")
    async def work(ctx: Context) -> list[float | None]:
        before = seconds_left(ctx)
        await trio.sleep(100)
        return [before, seconds_left(ctx)]

    @server.tool(task="optional", timeout=30)
    async def limited() -> None:
        await trio.sleep(100)

    @server.tool(task="required")
    async def deploy(ctx: Context) -> list[float | None]:
        before = seconds_left(ctx)
        await ctx.elicit("Sure?", FORM)
        await trio.sleep(100)
        return [before, seconds_left(ctx)]

    return server


@pytest.mark.parametrize(("tool", "left"), [("nightly", None), ("work", 20)])
async def test_a_task_does_not_have_the_deadline_of_the_call_that_made_it(
    tool: str, left: float | None, autojump_clock: object
) -> None:
    async with open_client(make_server()) as client:
        with trio.fail_after(20):
            task = await client.start_task(tool)
        assert task.id is not None
        result = await task.result()
    assert result.structured_content == {"result": [left, None]}


async def test_a_task_keeps_the_timeout_of_its_tool(autojump_clock: object) -> None:
    async with open_client(make_server()) as client:
        with trio.fail_after(20):
            task = await client.start_task("limited")
        began = trio.current_time()
        result = await task.result()
    assert trio.current_time() - began == pytest.approx(28, abs=1)
    assert result.is_error
    assert "limited timed out after 30 s" in str(result.content)


@pytest.mark.parametrize("asking", ["parked", "replayed"])
async def test_a_task_does_not_have_the_deadline_of_the_request_that_answers_its_question(
    asking: str, autojump_clock: object
) -> None:
    async with open_memory_client(make_server(asking=asking), on_elicit=say_yes) as client:
        tasks = RawTasks(client)
        with trio.fail_after(20):
            id = await tasks.begin("deploy")
            await trio.sleep(5)
            (key,) = (await tasks.get(id))["inputRequests"]
            await tasks.update(id, {key: accepted(sure=True)})
        await trio.sleep(200)
        state = await tasks.get(id)
    assert state["status"] == "completed"
    assert state["result"]["structuredContent"] == {"result": [None, None]}


async def test_a_call_that_does_not_become_a_task_is_cancelled_at_its_deadline(autojump_clock: object) -> None:
    async with open_scripted_client(make_server()) as client:
        meta = {**ScriptedPeer.envelope(MODERN), DEADLINE_KEY: 5}
        answer = await client.request("tools/call", {"name": "work", "_meta": meta})
    assert "the deadline of the caller has passed" in answer["result"]["content"][0]["text"]


class SlowStore(MemoryTaskStore):
    """A store that takes ten seconds to keep a new task."""

    async def create(self, record: TaskRecord, most: int) -> None:
        await trio.sleep(10)
        await super().create(record, most)


@pytest.mark.parametrize("tool", ["nightly", "work"])
async def test_a_call_whose_deadline_passes_while_its_task_is_being_stored_leaves_none(
    tool: str, autojump_clock: object
) -> None:
    store = SlowStore()
    capable = {"io.modelcontextprotocol/clientCapabilities": {"extensions": DECLARED}}
    async with open_scripted_client(make_server(store)) as client:
        meta = {**ScriptedPeer.envelope(MODERN), **capable, DEADLINE_KEY: 5}
        answer = await client.request("tools/call", {"name": tool, "_meta": meta})
        assert "the deadline of the caller has passed" in answer["result"]["content"][0]["text"]
        await trio.sleep(50)
        assert await store.next_expiry() is None
