"""Tasks of a client: calls that follow a task to its end, and handles of tasks that run on."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
import trio
from attrs import define, field, frozen

from tests.interaction.openers import OPENERS, Opener
from tests.tasks.helpers import TASKS
from trio_mcp import (
    Client,
    ConsentRefused,
    Context,
    ErrorResponse,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    Server,
    TaskCancelled,
    TaskSettings,
    TaskState,
    ToolFailed,
    types,
)
from trio_mcp.testing import ScriptedPeer, open_memory_client, open_scripted_server


@pytest.fixture(params=[name for name in OPENERS if name != "http-sse"])
def opener(request: pytest.FixtureRequest) -> Opener:
    return OPENERS[request.param]


@frozen
class Sure:
    sure: bool


async def say_yes(_: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"sure": True})


def make_server() -> Server:
    server = Server("tasks", version="1", tasks=TaskSettings(after=2.0, poll_interval=1.0))

    @server.tool(task="optional")
    async def build(branch: str, ctx: Context) -> str:
        await ctx.report_progress(1, total=3, message="compiling")
        await trio.sleep(5)
        await ctx.report_progress(2, total=3, message="testing")
        await trio.sleep(5)
        answer = await ctx.elicit("Deploy as well?", Sure)
        return f"{branch}: {answer}"

    @server.tool(task="optional")
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool(task="required")
    async def broken(how: str) -> str:
        raise ValueError("the disk is full") if how == "tool" else McpError(-32000, "no quota", {"left": 0})

    return server


# --- Calls ---


async def test_a_call_follows_its_task_to_the_end(opener: Opener, autojump_clock: object) -> None:
    messages: list[str | None] = []

    async def on_progress(update: types.ProgressNotificationParams) -> None:
        messages.append(update.message)

    async with opener(make_server(), tasks=True, on_elicit=say_yes) as client:
        result = await client.call_tool("build", {"branch": "main"}, on_progress=on_progress)

        assert result.structured_content == {"result": "main: Accepted(value=Sure(sure=True))"}
        assert messages == ["compiling", "testing"]
        assert await client.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3


async def test_the_updates_of_an_open_call_include_the_messages_of_its_task(
    opener: Opener, autojump_clock: object
) -> None:
    async with (
        opener(make_server(), tasks=True, on_elicit=say_yes) as client,
        client.open_call("build", {"branch": "main"}) as call,
    ):
        assert [update.message async for update in call.updates] == ["compiling", "testing"]
        first = await call.result()
        assert await call.result() == first


async def test_a_task_that_fails_raises_the_error_as_the_call_would(opener: Opener, autojump_clock: object) -> None:
    async with opener(make_server(), tasks=True) as client:
        with pytest.raises(ErrorResponse) as failure:
            await client.call_tool("broken", {"how": "protocol"})
        assert (failure.value.code, failure.value.message, failure.value.data) == (-32000, "no quota", {"left": 0})
        with pytest.raises(ToolFailed, match="the disk is full"):
            await client.call_tool("broken", {"how": "tool"}, raise_on_error=True)


@pytest.mark.parametrize("leave", ["deadline", "block"])
async def test_a_call_that_is_left_cancels_its_task(opener: Opener, leave: str, autojump_clock: object) -> None:
    server, ended = make_server(), list[str]()

    @server.tool(task="required")
    async def endless() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append("cancelled")

    async with opener(server, tasks=True) as client:
        if leave == "deadline":
            with trio.move_on_after(10):
                await client.call_tool("endless")
        else:
            with trio.move_on_after(10):
                async with client.open_call("endless") as call:
                    async for _ in call.updates:
                        raise AssertionError
        assert ended == ["cancelled"]


async def test_an_exception_of_a_callback_ends_the_call_and_cancels_its_task(
    opener: Opener, autojump_clock: object
) -> None:
    server, ended = make_server(), list[str]()

    @server.tool(task="required")
    async def ask(ctx: Context) -> None:
        try:
            await ctx.elicit("Well?", Sure)
        finally:
            ended.append("ended")

    async def refuse(_: types.ElicitRequestParams) -> types.ElicitResult:
        raise OSError("nobody is there")

    async with opener(server, tasks=True, on_elicit=refuse) as client:
        with pytest.raises(OSError, match="nobody is there"):
            await client.call_tool("ask")
        await trio.sleep(1)
        assert ended == ["ended"]


async def test_questions_of_a_task_need_the_same_consent(autojump_clock: object) -> None:
    server, seen = make_server(), list[object]()

    @server.tool(task="required")
    async def ask(ctx: Context) -> str:
        return str(await ctx.elicit("Well?", Sure))

    async def consent(request: Any) -> Any:
        seen.append(request)
        if isinstance(request, types.ElicitRequestFormParams):
            raise ConsentRefused("no")
        return request

    async with open_memory_client(server, tasks=True, on_elicit=say_yes, consent=consent) as client:
        result = await client.call_tool("ask")
        assert result.structured_content == {"result": "Declined()"}
        assert [type(each).__name__ for each in seen] == ["CallToolRequestParams", "ElicitRequestFormParams"]


async def test_no_time_limit_applies_to_a_task(autojump_clock: object) -> None:
    server = Server("s", tasks=TaskSettings(ttl=None))

    @server.tool(task="required")
    async def slow() -> str:
        await trio.sleep(50_000)
        return "done"

    async with open_memory_client(server, tasks=True) as client:
        assert (await client.call_tool("slow")).structured_content == {"result": "done"}


# --- How often a client asks ---


@define
class TaskPeer:
    """A scripted server with one task, in a state that the test sets."""

    peer: ScriptedPeer
    pushes: bool = False
    state: dict[str, Any] = field(factory=dict[str, Any])
    asked_at: list[float] = field(factory=list[float])
    """The times of the requests for the state, and of the creation of the task."""
    listening: list[Any] = field(factory=list[Any])
    """The ids of the subscriptions."""
    answers: list[Any] = field(factory=list[Any])
    cancelled: list[str] = field(factory=list[str])
    honors: bool = True
    """True if the server agrees to report the task."""
    refuses_to_cancel: bool = False

    def task(self) -> dict[str, Any]:
        times = {"createdAt": "2026-07-28T10:00:00Z", "lastUpdatedAt": "2026-07-28T10:00:00Z"}
        return {"taskId": "t", "status": "working", "ttlMs": None, "pollIntervalMs": 300, **times, **self.state}

    async def serve(self) -> None:
        while (message := await self.peer.receive()) is not None:
            if "id" in message:
                await self.answer(message["id"], message["method"], message.get("params", {}))

    async def answer(self, id: Any, method: str, params: dict[str, Any]) -> None:
        result: dict[str, Any] = {"resultType": "complete"}
        match method:
            case "tools/call":
                self.asked_at.append(trio.current_time())
                result = {**self.task(), "resultType": "task"}
            case "tasks/get":
                self.asked_at.append(trio.current_time())
                result |= self.task()
            case "tasks/update":
                self.answers.append(params["inputResponses"])
            case "tasks/cancel":
                self.cancelled.append(params["taskId"])
                if self.refuses_to_cancel:
                    await self.refuse(id)
                    return
            case "subscriptions/listen":
                self.listening.append(id)
                if not self.pushes:
                    await self.refuse(id)
                    return
                await self.notify(
                    "notifications/subscriptions/acknowledged",
                    {"notifications": {"taskIds": ["t"] if self.honors else []}},
                )
                return
            case _:
                raise AssertionError(method)
        await self.peer.send({"jsonrpc": "2.0", "id": id, "result": result})

    async def refuse(self, id: Any) -> None:
        await self.peer.send({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no such method"}})

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        meta = {"io.modelcontextprotocol/subscriptionId": self.listening[-1]}
        await self.peer.notify(method, {**params, "_meta": meta})

    async def push(self, **state: Any) -> None:
        self.state = state
        await self.notify("notifications/tasks", self.task())


@asynccontextmanager
async def task_peer(**options: Any) -> AsyncGenerator[tuple[Client, TaskPeer]]:
    pushes = options.pop("pushes", False)
    async with (
        open_scripted_server(tasks=True, on_elicit=say_yes, **options) as (client, peer),
        trio.open_nursery() as nursery,
    ):
        served = TaskPeer(peer, pushes)
        nursery.start_soon(served.serve)
        yield client, served
        nursery.cancel_scope.cancel()


def gaps(times: list[float]) -> list[float]:
    return [round(later - earlier, 3) for earlier, later in pairwise(times)]


DONE: dict[str, Any] = {"status": "completed", "result": {"content": []}}


async def test_a_client_asks_no_more_often_than_the_server_wants(autojump_clock: object) -> None:
    async with task_peer() as (client, server), trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "any")
        await trio.sleep(1)
        server.state = {"pollIntervalMs": 1000}
        await trio.sleep(3)
        server.state = DONE

    assert gaps(server.asked_at)[:3] == [0.3, 0.3, 0.3]
    assert set(gaps(server.asked_at)[5:-1]) == {1.0}


async def test_a_client_hardly_asks_where_the_server_sends_notifications(autojump_clock: object) -> None:
    messages: list[str | None] = []

    async def on_progress(update: types.ProgressNotificationParams) -> None:
        messages.append(update.message)

    async def call() -> None:
        await client.call_tool("any", on_progress=on_progress)
        ended_at.append(trio.current_time())

    ended_at: list[float] = []
    async with task_peer(pushes=True) as (client, server), trio.open_nursery() as nursery:
        nursery.start_soon(call)
        await trio.sleep(2)
        for step in range(5):
            await server.push(statusMessage=f"step {step}")
            await trio.sleep(0.5)
        await server.push(**DONE)
        pushed_at = trio.current_time()

    assert messages == [f"step {step}" for step in range(5)]
    assert ended_at == [pushed_at]
    assert len(server.asked_at) == 2  # the creation, and once to see what was missed before the subscription


async def test_a_client_still_asks_now_and_then_because_notifications_may_be_lost(autojump_clock: object) -> None:
    async with task_peer(pushes=True) as (client, server), trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "any")
        await trio.sleep(1)
        server.state = DONE  # without a notification

    assert gaps(server.asked_at) == [0.3, 9.0]


async def test_a_client_asks_again_when_the_stream_of_notifications_ends(autojump_clock: object) -> None:
    async with task_peer(pushes=True) as (client, server), trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "any")
        await trio.sleep(2)
        result = {"resultType": "complete", "_meta": {"io.modelcontextprotocol/subscriptionId": server.listening[0]}}
        await server.peer.send({"jsonrpc": "2.0", "id": server.listening[0], "result": result})
        await trio.sleep(2)
        server.state = DONE

    assert 0.3 in gaps(server.asked_at)[2:]


async def test_a_client_polls_a_task_that_the_server_does_not_agree_to_report(autojump_clock: object) -> None:
    async with task_peer(pushes=True) as (client, server), trio.open_nursery() as nursery:
        server.honors = False
        nursery.start_soon(client.call_tool, "any")
        await trio.sleep(1)
        server.state = DONE

    assert gaps(server.asked_at) == [0.3, 0.3, 0.3, 0.3]


async def test_a_call_that_is_left_does_not_need_the_server_to_agree(autojump_clock: object) -> None:
    async with task_peer() as (client, server):
        server.refuses_to_cancel = True
        with trio.move_on_after(1):
            await client.call_tool("any")
        assert server.cancelled == ["t"]


async def test_a_question_is_answered_once_however_often_it_is_seen(autojump_clock: object) -> None:
    question: dict[str, Any] = {
        "method": "elicitation/create",
        "params": {"mode": "form", "message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}},
    }
    async with task_peer() as (client, server), trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "any")
        server.state = {"status": "input_required", "inputRequests": {"a": question}}
        await trio.sleep(5)
        server.state = {"status": "input_required", "inputRequests": {"a": question, "b": question}}
        await trio.sleep(5)
        server.state = DONE

    assert [[*each] for each in server.answers] == [["a"], ["b"]]


@pytest.mark.parametrize(
    "state",
    [
        {"status": "finished"},
        {"status": "completed"},
        {"status": "input_required", "inputRequests": {"a": {"method": "tools/list"}}},
        {"status": "input_required", "inputRequests": {"a": {"method": "roots/list"}}},
        {"ttlMs": "x"},
    ],
)
async def test_a_state_that_breaks_the_protocol_is_the_fault_of_the_server_and_ends_the_call(
    state: dict[str, Any], autojump_clock: object
) -> None:
    async with task_peer() as (client, server), trio.open_nursery() as nursery:
        nursery.start_soon(set_later, server, state)
        with pytest.raises(RemoteProtocolError):
            await client.call_tool("any")
        assert server.cancelled == ["t"]
        assert await client.request("tasks/cancel", {"taskId": "u"}, dict)


async def set_later(server: TaskPeer, state: dict[str, Any]) -> None:
    await trio.sleep(0.1)
    server.state = state


async def test_only_a_call_of_a_tool_can_become_a_task(autojump_clock: object) -> None:
    async with open_scripted_server(tasks=True) as (client, server), trio.open_nursery() as nursery:

        async def answer() -> None:
            request = await server.expect_request("prompts/get")
            result = {"resultType": "task", "taskId": "t", "status": "working"}
            await server.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

        nursery.start_soon(answer)
        with pytest.raises(RemoteProtocolError, match="'task', which this client does not know"):
            await client.get_prompt("any")
        await server.expect_silence(10)


async def test_a_client_declares_tasks_only_if_it_takes_them() -> None:
    def declared(request: Any) -> Any:
        return request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"].get("extensions", {})

    async def seen(*, tasks: bool, start: bool) -> Any:
        async with open_scripted_server(tasks=tasks) as (client, server), trio.open_nursery() as nursery:
            nursery.start_soon(client.start_task if start else client.call_tool, "any")
            request = await server.expect_request("tools/call")
            nursery.cancel_scope.cancel()
        return declared(request)

    assert await seen(tasks=False, start=False) == {}
    assert await seen(tasks=True, start=False) == {TASKS: {}}
    assert await seen(tasks=False, start=True) == {TASKS: {}}


# --- Handles ---


async def test_a_started_task_returns_at_once_and_shows_each_state(opener: Opener, autojump_clock: object) -> None:
    async with opener(make_server(), on_elicit=say_yes) as client:
        handle = await client.start_task("build", {"branch": "main"})
        assert (handle.status, handle.message, handle.tool) == ("working", "compiling", "build")
        assert handle.id

        states = [state async for state in handle.states()]

        assert {(type(state), state.id) for state in states} == {(TaskState, handle.id)}
        assert [state.message for state in states][:2] == ["compiling", "testing"]
        assert [state.status for state in states][-1] == "completed"
        assert "input_required" in [state.status for state in states]
        result = await handle.result()
        assert result.structured_content == {"result": "main: Accepted(value=Sure(sure=True))"}


async def test_a_state_that_differs_only_in_its_time_is_not_shown_again(autojump_clock: object) -> None:
    async with task_peer() as (client, server), trio.open_nursery() as nursery:
        handle = await client.start_task("any")
        seen: list[TaskState] = []

        async def follow() -> None:
            seen.extend([state async for state in handle.states()])

        nursery.start_soon(follow)
        for second in range(1, 5):
            server.state = {"lastUpdatedAt": f"2026-07-28T10:00:0{second}Z"}
            await trio.sleep(1)
        server.state = {**server.state, **DONE}

    assert len(server.asked_at) > 5
    assert [(state.status, state.updated_at[-2:]) for state in seen] == [("working", "1Z"), ("completed", "4Z")]


async def test_a_task_is_found_again_by_its_id(autojump_clock: object) -> None:
    server = make_server()
    async with open_memory_client(server) as client:
        id = (await client.start_task("broken", {"how": "protocol"})).id
        assert id is not None
    async with open_memory_client(server) as client:
        handle = client.task(id)
        assert (handle.status, handle.message, handle.tool) == (None, None, None)
        state = await handle.refresh()
        assert (state.status, state.outcome) == ("failed", {"code": -32000, "message": "no quota", "data": {"left": 0}})
        assert handle.status == "failed"
        with pytest.raises(ErrorResponse, match="no quota"):
            await handle.result()
        assert [each.status async for each in client.task(id).states()] == ["failed"]
        with pytest.raises(ErrorResponse, match="there is no task"):
            await client.task("other").result()


async def test_leaving_a_handle_leaves_its_task_alone(opener: Opener, autojump_clock: object) -> None:
    async with opener(make_server(), on_elicit=say_yes) as client:
        handle = await client.start_task("build", {"branch": "main"})
        with trio.move_on_after(3):
            await handle.result()
        states = handle.states()
        async for _ in states:
            break
        await states.aclose()
        await states.aclose()
        assert [state async for state in states] == []
        await trio.sleep(5)
        assert "main" in str(await handle.result())


async def test_a_cancelled_task_raises_where_its_result_is_awaited(opener: Opener, autojump_clock: object) -> None:
    async with opener(make_server(), on_elicit=say_yes) as client:
        handle = await client.start_task("build", {"branch": "main"})
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                with pytest.raises(TaskCancelled, match="the client cancelled the task"):
                    await handle.result()

            nursery.start_soon(wait)
            await trio.sleep(1)
            await handle.cancel()
            await handle.cancel()
        with pytest.raises(TaskCancelled):
            await handle.result()


async def test_questions_are_answered_through_a_handle_if_the_program_wants_that(
    opener: Opener, autojump_clock: object
) -> None:
    server = make_server()

    @server.tool(task="required")
    async def ask(ctx: Context) -> str:
        return str(await ctx.elicit("Well?", Sure, key="well"))

    async with opener(server, on_elicit=say_yes) as client:
        handle = await client.start_task("ask")
        async for state in handle.states(answering=False):
            if state.questions:
                assert state.questions["well"]["params"]["message"] == "Well?"
                await handle.answer({"well": types.ElicitResult(action="decline")})
        assert (await handle.result()).structured_content == {"result": "Declined()"}


async def test_a_call_that_is_answered_at_once_has_a_handle_without_a_task(opener: Opener) -> None:
    async with opener(make_server()) as client:
        handle = await client.start_task("add", {"a": 1, "b": 2})

        assert (handle.id, handle.status, handle.message) == (None, "completed", None)
        assert (await handle.result()).structured_content == {"result": 3}
        assert [state async for state in handle.states()] == []
        for request in (handle.refresh(), handle.cancel(), handle.answer({})):
            with pytest.raises(LocalProtocolError, match="answered at once, without a task"):
                await request


async def test_the_result_of_a_handle_can_raise_a_tool_error(opener: Opener, autojump_clock: object) -> None:
    async with opener(make_server()) as client:
        handle = await client.start_task("broken", {"how": "tool"})
        assert (await handle.result()).is_error
        with pytest.raises(ToolFailed, match="the disk is full"):
            await handle.result(raise_on_error=True)


async def test_handles_and_calls_work_in_every_revision(autojump_clock: object) -> None:
    for revision in types.REVISIONS:
        async with open_memory_client(make_server(), revision=revision, tasks=True, on_elicit=say_yes) as client:
            handle = await client.start_task("add", {"a": 1, "b": 2})
            assert handle.id is None
            assert (await handle.result()).content == [types.TextContent(text="3")]
