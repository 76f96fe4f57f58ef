"""A minimal tasks extension, built on both sides with the public interface for extensions.

Specification: https://modelcontextprotocol.io/extensions/tasks/overview
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import msgspec
import pytest
import trio

from tests.interaction.openers import Opener
from trio_mcp import (
    Client,
    Context,
    ErrorResponse,
    Extension,
    ExtensionResult,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    Request,
    Server,
    types,
)
from trio_mcp.testing import ScriptedPeer, open_memory_client, open_scripted_client, open_scripted_server
from trio_mcp.wire import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, MISSING_CAPABILITY

TASKS = "io.modelcontextprotocol/tasks"
LEGACY, MODERN = "2025-11-25", "2026-07-28"
REQUIRED: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}


# The server's side.


class Task(msgspec.Struct, rename="camel"):
    """A task in its form on the wire."""

    task_id: str
    status: str = "working"
    created_at: str = "2026-07-28T00:00:00Z"
    last_updated_at: str = "2026-07-28T00:00:00Z"
    ttl_ms: int | None = None
    poll_interval_ms: int | msgspec.UnsetType = msgspec.UNSET
    result: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class TaskId(msgspec.Struct, rename="camel"):
    task_id: str


@attrs.define
class Tasks:
    """The tasks of one serving, and the nursery that runs them."""

    nursery: trio.Nursery
    by_id: dict[str, Task] = attrs.field(factory=dict[str, Task])
    scopes: dict[str, trio.CancelScope] = attrs.field(factory=dict[str, trio.CancelScope])

    def begin(self, seconds: float, text: str) -> Task:
        task = Task(secrets.token_urlsafe(), poll_interval_ms=round(seconds * 100))
        self.by_id[task.task_id], self.scopes[task.task_id] = task, trio.CancelScope()
        self.nursery.start_soon(self._work, task, seconds, text)
        return task

    async def _work(self, task: Task, seconds: float, text: str) -> None:
        with self.scopes[task.task_id]:
            await trio.sleep(seconds)
            task.status, task.result = "completed", {"content": [{"type": "text", "text": text}]}
            return
        task.status = "cancelled"

    def find(self, wanted: TaskId) -> Task:
        if wanted.task_id not in self.by_id:
            raise McpError(INVALID_PARAMS, "no such task")
        return self.by_id[wanted.task_id]


def found(ctx: Context, wanted: TaskId) -> Task:
    tasks: Tasks = ctx.state
    return tasks.find(wanted)


@asynccontextmanager
async def lifespan(_: Server) -> AsyncGenerator[Tasks]:
    async with trio.open_nursery() as nursery:
        yield Tasks(nursery)
        nursery.cancel_scope.cancel()


def make_server() -> Server:
    server = Server("digger", version="1", lifespan=lifespan, extensions={TASKS: {}})

    @server.tool
    async def dig(ctx: Context, seconds: float = 10) -> str | ExtensionResult:
        if ctx.extension(TASKS) is None or ctx.revision < MODERN:
            await trio.sleep(seconds)
            return "dug at once"
        return ExtensionResult(TASKS, "task", ctx.state.begin(seconds, "dug in the end"), meta={"mine": 1})

    @server.tool
    async def only_as_a_task(ctx: Context) -> ExtensionResult:
        ctx.require_extension(TASKS)
        return ExtensionResult(TASKS, "task", ctx.state.begin(1, "done"))

    @server.tool
    async def careless(ctx: Context) -> ExtensionResult:
        return ExtensionResult(TASKS, "task", ctx.state.begin(1, "done"))

    @server.method("tasks/get", extension=TASKS)
    async def get(params: TaskId, ctx: Context) -> Task:
        return found(ctx, params)

    @server.method("tasks/cancel", extension=TASKS)
    async def cancel(params: TaskId, ctx: Context) -> None:
        ctx.state.find(params)
        ctx.state.scopes[params.task_id].cancel()

    return server


# The client's side.


class TaskCancelled(Exception):
    """The task that a call became was cancelled."""


async def wait_for_task(client: Client, result: dict[str, Any]) -> dict[str, Any]:
    """Poll until the task has ended, and return the result that the call would have had."""
    task = msgspec.convert(result, Task)
    while task.status == "working":
        await trio.sleep((task.poll_interval_ms or 1000) / 1000)
        task = await client.request("tasks/get", TaskId(task.task_id), Task)
    if task.result is msgspec.UNSET:
        raise TaskCancelled(task.status)
    return task.result


UNDERSTOOD = Extension(TASKS, {}, {"task": wait_for_task})


@pytest.mark.requirement("D.2-P1")
async def test_a_call_that_became_a_task_returns_the_result_of_the_tool(opener: Opener, autojump_clock: object) -> None:
    async with opener(make_server(), extensions=[UNDERSTOOD]) as client:
        started = trio.current_time()
        result = await client.call_tool("dig", {"seconds": 10_000})  # longer than the timeout of a request
        assert result.content == [types.TextContent(text="dug in the end")]
        assert trio.current_time() - started >= 10_000
        async with client.open_call("dig") as call:
            assert (await call.result()).content == [types.TextContent(text="dug in the end")]
            assert await call.result() == await call.result()  # the second time returns at once


@pytest.mark.requirement("D.2-P1")
async def test_the_result_on_the_wire_is_flat_and_names_its_type(autojump_clock: object) -> None:
    messages: list[bytes] = []

    def keep(direction: str, message: bytes) -> None:
        if direction == "received" and b'"taskId"' in message:
            messages.append(message)

    async with open_memory_client(make_server(), extensions=[UNDERSTOOD], tap=keep) as client:
        await client.call_tool("dig", {"seconds": 0.1})

    created, *_, got = (msgspec.json.decode(message)["result"] for message in messages)
    assert created["resultType"] == "task"
    assert created["status"] == "working"
    assert created["_meta"]["mine"] == 1
    assert created["ttlMs"] is None
    assert "cacheScope" not in created
    assert got["resultType"] == "complete"
    assert got["taskId"] == created["taskId"]
    assert got["result"]["content"][0]["text"] == "dug in the end"


@pytest.mark.requirement("D.1-P2", "D.2-P1")
@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_a_client_without_the_extension_gets_an_ordinary_result(
    opener: Opener, revision: str, autojump_clock: object
) -> None:
    async with opener(make_server(), revision=revision) as client:
        assert (await client.call_tool("dig")).content == [types.TextContent(text="dug at once")]


@pytest.mark.requirement("D.2-P1")
async def test_a_legacy_client_gets_no_task_even_if_it_declares_the_extension(
    opener: Opener, autojump_clock: object
) -> None:
    async with opener(make_server(), revision=LEGACY, extensions=[UNDERSTOOD]) as client:
        assert (await client.call_tool("dig")).content == [types.TextContent(text="dug at once")]
        careless = await client.call_tool("careless")
        assert careless.is_error
        assert "revision 2025-11-25 has no results of type 'task'" in str(careless.content)
        with pytest.raises(ErrorResponse) as refusal:  # in that revision the specification defines the name
            await client.request("tasks/get", {"taskId": "x"}, dict)
        assert refusal.value.code == METHOD_NOT_FOUND


@pytest.mark.requirement("B.1-S4", "D.1-P2", "D.2-P1")
@pytest.mark.parametrize("tool", ["only_as_a_task", "careless"])
async def test_a_tool_that_requires_tasks_is_refused_if_the_request_does_not_declare_them(
    opener: Opener, tool: str
) -> None:
    async with opener(make_server(), revision=MODERN) as client:
        with pytest.raises(ErrorResponse) as refusal:
            await client.call_tool(tool)
        assert refusal.value.code == MISSING_CAPABILITY
        assert refusal.value.data == REQUIRED
    async with opener(make_server(), revision=LEGACY) as client:
        assert (await client.call_tool(tool)).is_error


@pytest.mark.requirement("B.1-S3", "B.1-S4", "D.2-P1")
@pytest.mark.parametrize("method", ["tasks/get", "tasks/cancel"])
async def test_every_request_for_a_method_of_the_extension_must_declare_it(method: str) -> None:
    """The server does not remember the declarations of an earlier request on the same connection."""
    plain = ScriptedPeer.envelope(MODERN)
    declared: dict[str, Any] = plain | {"io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS: {}}}}

    async with open_scripted_client(make_server()) as client:
        answers = [await client.request(method, {"taskId": "none"}, envelope=each) for each in (declared, plain)]

    unknown, refused = (each["error"] for each in answers)
    assert (unknown["code"], unknown["message"]) == (INVALID_PARAMS, "no such task")
    assert (refused["code"], refused["data"]) == (MISSING_CAPABILITY, REQUIRED)


@pytest.mark.requirement("D.2-P1")
async def test_a_task_is_cancelled_by_its_own_method(opener: Opener, autojump_clock: object) -> None:
    begun, ids = trio.Event(), list[str]()

    async def wait(client: Client, result: dict[str, Any]) -> dict[str, Any]:
        ids.append(result["taskId"])
        begun.set()
        return await wait_for_task(client, result)

    async with (
        opener(make_server(), extensions=[Extension(TASKS, {}, {"task": wait})]) as client,
        trio.open_nursery() as nursery,
    ):

        @nursery.start_soon
        async def _() -> None:
            with pytest.raises(TaskCancelled, match="cancelled"):
                await client.call_tool("dig")

        await begun.wait()
        await client.request("tasks/cancel", {"taskId": ids[0]}, types.EmptyResult)


@pytest.mark.requirement("D.2-P1")
async def test_a_task_outlives_the_cancellation_of_the_call_that_began_it(
    opener: Opener, autojump_clock: object
) -> None:
    ids: list[str] = []

    async def wait(client: Client, result: dict[str, Any]) -> dict[str, Any]:
        ids.append(result["taskId"])
        return await wait_for_task(client, result)

    async with opener(make_server(), extensions=[Extension(TASKS, {}, {"task": wait})]) as client:
        with trio.move_on_after(2):
            await client.call_tool("dig", {"seconds": 10})
        await trio.sleep(20)
        task = await client.request("tasks/get", {"taskId": ids[0]}, Task)

    assert task.status == "completed"


async def test_a_result_that_a_coroutine_completes_brings_no_updates(opener: Opener, autojump_clock: object) -> None:
    async with (
        opener(make_server(), extensions=[UNDERSTOOD]) as client,
        client.open_call("dig", {"seconds": 1}) as call,
    ):
        assert [update async for update in call.updates] == []
        assert (await call.result()).content == [types.TextContent(text="dug in the end")]


async def test_the_awaitable_of_an_extension_need_not_be_a_coroutine(opener: Opener, autojump_clock: object) -> None:
    class Later:
        def __init__(self, client: Client, result: dict[str, Any]) -> None:
            self.coroutine = wait_for_task(client, result)

        def __await__(self) -> Generator[Any, Any, dict[str, Any]]:
            return self.coroutine.__await__()

    async with opener(make_server(), extensions=[Extension(TASKS, {}, {"task": Later})]) as client:
        result = await client.call_tool("dig", {"seconds": 1})
        assert result.content == [types.TextContent(text="dug in the end")]
        with trio.move_on_after(2) as scope:
            await client.call_tool("dig", {"seconds": 10})
        assert scope.cancelled_caught


async def answer(server: Any, result: dict[str, Any]) -> None:
    await server.answer(result)


@pytest.mark.requirement("D.2-P1")
@pytest.mark.parametrize("extensions", [[], [Extension(TASKS)]])
async def test_a_result_of_an_unregistered_type_is_the_fault_of_the_server(extensions: list[Extension]) -> None:
    options: dict[str, Any] = {"extensions": extensions}
    async with open_scripted_server(**options) as (client, server), trio.open_nursery() as nursery:
        nursery.start_soon(answer, server, {"resultType": "task", "taskId": "1", "status": "working"})
        with pytest.raises(RemoteProtocolError, match="has the type 'task', which this client does not know"):
            await client.call_tool("any")


@pytest.mark.requirement("D.2-P1")
@pytest.mark.parametrize("kind", ["task", ["task"], None])
async def test_an_extension_result_for_a_method_without_extension_results_is_the_fault_of_the_server(
    kind: object,
) -> None:
    async with open_scripted_server(extensions=[UNDERSTOOD]) as (client, server), trio.open_nursery() as nursery:
        nursery.start_soon(answer, server, {"resultType": kind, "taskId": "1", "status": "working"})
        with pytest.raises(RemoteProtocolError):
            await client.get_prompt("any")


@pytest.mark.parametrize("made", [7, {"resultType": "task"}])
async def test_the_error_names_an_extension_that_does_not_return_a_complete_result(made: Any, opener: Opener) -> None:
    async def resolve(client: Client, result: dict[str, Any]) -> Any:
        return made

    async with opener(make_server(), extensions=[Extension(TASKS, {}, {"task": resolve})]) as client:
        with pytest.raises(LocalProtocolError, match="the extension returned an incomplete result for 'tools/call'"):
            await client.call_tool("dig")


async def test_a_result_of_the_extension_is_validated(opener: Opener) -> None:
    async def resolve(client: Client, result: dict[str, Any]) -> Any:
        return {"content": 7}

    async with opener(make_server(), extensions=[Extension(TASKS, {}, {"task": resolve})]) as client:
        with pytest.raises(RemoteProtocolError, match=r"\$\.content: expected array, got integer"):
            await client.call_tool("dig")


async def test_an_extension_result_of_an_undeclared_extension_is_an_internal_error(
    opener: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s")

    @server.method("acme/work")
    async def work() -> ExtensionResult:
        return ExtensionResult(TASKS, "task", {"taskId": "1"})

    async with opener(server, extensions=[UNDERSTOOD]) as client:
        with pytest.raises(ErrorResponse) as failure:
            await client.request("acme/work", None, dict)

    assert failure.value.code == INTERNAL_ERROR
    assert "this server does not declare the extension 'io.modelcontextprotocol/tasks'" in caplog.text


async def test_a_custom_method_can_return_an_extension_result(opener: Opener) -> None:
    server = Server("s", extensions={TASKS: {}})

    @server.method("acme/work")
    async def work() -> ExtensionResult:
        return ExtensionResult(TASKS, "task", Task("1"))

    async def resolve(client: Client, result: dict[str, Any]) -> dict[str, Any]:
        return {"done": result["taskId"]}

    async with opener(server, extensions=[Extension(TASKS, {}, {"task": resolve})]) as client:
        assert (await client.request("acme/work", None, dict))["done"] == "1"


async def test_middleware_can_turn_only_tool_calls_into_tasks(opener: Opener, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s", extensions={TASKS: {}})
    server.tool(name="t")(lambda: "t")

    @server.middleware
    async def divert(request: Request, call_next: Any) -> Any:
        if request.method in {"tools/call", "tools/list"}:
            return ExtensionResult(TASKS, "task", Task(request.method))
        return await call_next(request)

    async def resolve(client: Client, result: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": result["taskId"]}]}

    async with opener(server, extensions=[Extension(TASKS, {}, {"task": resolve})]) as client:
        assert (await client.call_tool("t")).content == [types.TextContent(text="tools/call")]
        with pytest.raises(ErrorResponse) as failure:
            await client.list_tools()

    assert failure.value.code == INTERNAL_ERROR
    assert "'tools/list' cannot be answered with a result of type 'task'" in caplog.text
