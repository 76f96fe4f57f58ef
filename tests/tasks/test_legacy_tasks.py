"""The experimental tasks of 2025-11-25, with a scripted server that has them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from tests.tasks.legacy_peer import REVISION, TASKS, LegacyPeer
from trio_mcp import Client, ErrorResponse, LocalProtocolError, RemoteProtocolError, TaskCancelled, TimeLimits, types
from trio_mcp.testing import ScriptedPeer, open_scripted_server


async def say_yes(_: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={})


@asynccontextmanager
async def legacy_peer(
    capabilities: Any = TASKS, support: str | None = "optional", **options: Any
) -> AsyncGenerator[tuple[Client, LegacyPeer]]:
    declared: dict[str, Any] = {"tools": {}}
    if capabilities is not None:
        declared["tasks"] = capabilities

    async def welcome(peer: ScriptedPeer) -> None:
        await peer.answer_initialize(REVISION, capabilities=declared)

    async with (
        open_scripted_server(welcome, revision=REVISION, on_elicit=say_yes, **options) as (client, peer),
        trio.open_nursery() as nursery,
    ):
        served = LegacyPeer(peer, support)
        nursery.start_soon(served.serve)
        yield client, served
        nursery.cancel_scope.cancel()


async def test_a_task_of_the_experiment_has_the_same_handle(autojump_clock: object) -> None:
    async with legacy_peer() as (client, server):
        handle = await client.start_task("work", {"a": 1}, meta={"m": 1})
        assert server.calls == [{"name": "work", "arguments": {"a": 1}, "_meta": {"m": 1}, "task": {}}]
        assert (handle.id, handle.status) == ("t", "working")
        assert handle.state is not None
        assert (handle.state.ttl, handle.state.poll_interval) == (60.0, 0.5)

        async def finish() -> None:
            await trio.sleep(1)
            server.state = {"status": "working", "statusMessage": "half", "pollInterval": None, "ttl": None}
            await trio.sleep(2)
            server.state = {"status": "completed"}

        async with trio.open_nursery() as nursery:
            nursery.start_soon(finish)
            assert [state.message async for state in handle.states()] == [None, "half", None]
        assert (await handle.result()).content == [types.TextContent(text="done")]


async def test_the_callbacks_answer_the_questions_that_a_server_asks_before_the_result(autojump_clock: object) -> None:
    async with legacy_peer() as (client, server):
        handle = await client.start_task("work")
        server.state = {"status": "input_required"}

        assert (await handle.result()).content == [types.TextContent(text="done")]
        assert server.question == "q"
        with pytest.raises(LocalProtocolError, match="only the callbacks of the client"):
            await handle.answer({})


async def test_a_task_may_take_longer_than_a_request(autojump_clock: object) -> None:
    async with legacy_peer(time_limits=TimeLimits(idle=10)) as (client, server):
        handle = await client.start_task("work")
        server.state, server.is_slow = {"status": "completed"}, True

        assert (await handle.result()).content == [types.TextContent(text="done")]


async def test_the_error_of_a_failed_task_is_raised_and_a_cancelled_one_says_so(autojump_clock: object) -> None:
    async with legacy_peer() as (client, server):
        handle = await client.start_task("work")
        await handle.cancel()
        assert server.cancelled
        with pytest.raises(TaskCancelled, match="as you wish"):
            await handle.result()

        server.state, server.outcome = {"status": "failed"}, {"error": {"code": -32000, "message": "no quota"}}
        with pytest.raises(ErrorResponse, match="no quota"):
            await client.task("t").result()


@pytest.mark.parametrize(
    ("capabilities", "support"),
    [
        (None, "required"),
        ({"cancel": {}}, "required"),
        ({"requests": {"tools": {}}}, "required"),
        (TASKS, None),
        (TASKS, "forbidden"),
    ],
)
async def test_a_task_is_requested_only_where_server_and_tool_have_them(capabilities: Any, support: str | None) -> None:
    async with legacy_peer(capabilities, support) as (client, server):
        handle = await client.start_task("work")

        assert "task" not in server.calls[0]
        assert (await handle.result()).content == [types.TextContent(text="plain")]


async def test_an_unlisted_tool_is_called_without_a_task() -> None:
    async with legacy_peer() as (client, server):
        assert (await client.start_task("other")).id is None
        assert "task" not in server.calls[0]


async def test_a_state_that_does_not_fit_is_the_fault_of_the_server() -> None:
    async with legacy_peer() as (client, server):
        server.state = {"status": "odd"}
        with pytest.raises(RemoteProtocolError, match=r"the state of a task does not fit: \$\.status"):
            await client.start_task("work")


async def test_a_server_may_answer_at_once_although_a_task_was_requested() -> None:
    async with legacy_peer() as (client, server):
        server.answers_at_once = True
        handle = await client.start_task("work")

        assert "task" in server.calls[0]
        assert (handle.id, handle.status) == (None, "completed")
        assert (await handle.result()).content == [types.TextContent(text="plain")]
