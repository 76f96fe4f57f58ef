"""The experimental tasks of 2025-11-25, with a scripted server that has them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from attrs import define, field

from trio_mcp import Client, ErrorResponse, LocalProtocolError, RemoteProtocolError, TaskCancelled, TimeLimits, types
from trio_mcp.testing import ScriptedPeer, open_scripted_server

REVISION = "2025-11-25"
TASKS: dict[str, Any] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}


@define
class LegacyPeer:
    """A scripted server with one task, which ends when the test says so."""

    peer: ScriptedPeer
    support: str | None = "optional"
    state: dict[str, Any] = field(factory=dict[str, Any])
    calls: list[dict[str, Any]] = field(factory=list[dict[str, Any]])
    cancelled: bool = False
    outcome: dict[str, Any] = field(factory=lambda: {"result": {"content": [{"type": "text", "text": "done"}]}})
    is_slow: bool = False
    answers_at_once: bool = False
    question: Any = None
    """The id of the question that the server has asked."""

    def task(self) -> dict[str, Any]:
        times = {"createdAt": "2025-11-25T10:00:00Z", "lastUpdatedAt": "2025-11-25T10:00:00Z"}
        return {"taskId": "t", "status": "working", "ttl": 60_000, "pollInterval": 500, **times, **self.state}

    async def serve(self) -> None:
        while (message := await self.peer.receive()) is not None:
            if "method" in message and "id" in message:
                await self.answer(message["id"], message["method"], message.get("params", {}))
            elif message.get("id") == self.question and self.question is not None:
                self.state = {"status": "completed"}
                await self.peer.send({"jsonrpc": "2.0", "id": self.waiting, **self.outcome})

    waiting: Any = None
    """The id of the request for the result that waits."""

    async def answer(self, id: Any, method: str, params: dict[str, Any]) -> None:
        result: dict[str, Any] = {}
        match method:
            case "tools/list":
                execution = {} if self.support is None else {"execution": {"taskSupport": self.support}}
                result = {"tools": [{"name": "work", "inputSchema": {"type": "object"}, **execution}]}
            case "tools/call":
                self.calls.append(params)
                becomes_task = "task" in params and not self.answers_at_once
                result = {"task": self.task()} if becomes_task else {"content": [{"type": "text", "text": "plain"}]}
            case "tasks/get":
                result = self.task()
            case "tasks/cancel":
                self.cancelled, self.state = True, {"status": "cancelled", "statusMessage": "as you wish"}
                result = self.task()
            case "tasks/result" if self.task()["status"] == "input_required":
                self.waiting, self.question = id, "q"
                form: dict[str, Any] = {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
                await self.peer.send({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": form})
                return
            case "tasks/result" if self.is_slow:
                self.is_slow = False
                return
            case "tasks/result":
                await self.peer.send({"jsonrpc": "2.0", "id": id, **self.outcome})
                return
            case _:
                raise AssertionError(method)
        await self.peer.send({"jsonrpc": "2.0", "id": id, "result": result})


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
