"""Dispatch of requests: handlers that cannot wait run inline, all others in their own task."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

import pytest
import trio
import trio.testing

from tests.server.helpers import text_of
from trio_mcp import Context, ErrorResponse, Limits, McpError, Server, open_client, types
from trio_mcp.server import AskingMode
from trio_mcp.server._routes import ROUTES
from trio_mcp.testing import ScriptedPeer, open_scripted_client

HANDLERS = "tools/call handler"


def task_name() -> str:
    return trio.lowlevel.current_task().name


async def current_task() -> str:
    return task_name()


async def current_task_with_context(context: Context) -> str:
    return task_name()


async def current_task_after_waiting() -> str:
    await trio.lowlevel.checkpoint()
    return task_name()


@pytest.mark.parametrize(
    ("function", "options", "alone"),
    [
        (current_task, {}, False),
        (current_task_with_context, {}, False),
        (current_task_after_waiting, {}, True),
        (current_task, {"timeout": 5}, True),
        (current_task, {"max_concurrency": 2}, True),
    ],
)
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_tool_that_cannot_wait_runs_without_its_own_task(
    function: Callable[..., Any], options: dict[str, Any], alone: bool, revision: str
) -> None:
    server = Server("s", revisions=[revision])
    server.tool(name="f", **options)(function)

    async with open_client(server) as client:
        answer = await client.call_tool("f")

    assert (text_of(answer) == HANDLERS) is alone


async def test_a_tool_that_cannot_wait_runs_in_a_task_if_there_is_middleware() -> None:
    async def pass_on(request: Any, call_next: Any) -> Any:
        return await call_next(request)

    server = Server("s", middleware=[pass_on])
    server.tool(current_task)

    async with open_client(server) as client:
        assert text_of(await client.call_tool("current_task")) == HANDLERS


async def test_a_tool_that_is_removed_while_a_call_waits_for_its_slot_is_not_called() -> None:
    server, begun, go_on = Server("s", limits=Limits(max_in_flight=1)), trio.Event(), trio.Event()
    server.tool(current_task)

    @server.tool
    async def block() -> None:
        begun.set()
        await go_on.wait()

    async def refused() -> None:
        with pytest.raises(ErrorResponse, match="no tool 'current_task'"):
            await client.call_tool("current_task")

    async with open_client(server) as client, trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "block")
        await begun.wait()
        nursery.start_soon(refused)
        await trio.testing.wait_all_tasks_blocked()
        server.tools.remove("current_task")
        go_on.set()


@pytest.mark.parametrize("waits", [False, True])
async def test_prompts_resources_and_custom_methods_that_cannot_wait_run_without_a_task(waits: bool) -> None:
    server, handler = Server("s"), current_task_after_waiting if waits else current_task
    server.prompt(name="p")(handler)
    server.resource("x://y")(handler)

    @server.method("com.example/current_task")
    async def custom() -> dict[str, str]:
        return {"task": task_name()}

    @server.method("com.example/there")
    async def other() -> dict[str, str]:
        return {"task": await current_task_after_waiting()}

    async with open_client(server) as client:
        (message,) = (await client.get_prompt("p")).messages
        (contents,) = (await client.read_resource("x://y")).contents
        method = "com.example/there" if waits else "com.example/current_task"
        answer = await client.request(method, {}, dict[str, Any])

    assert isinstance(message.content, types.TextContent)
    assert isinstance(contents, types.TextResourceContents)
    tasks = [message.content.text, contents.text, answer["task"]]
    assert [task.endswith(" handler") for task in tasks] == [waits] * 3


async def test_a_resource_of_a_template_is_read_in_a_task() -> None:
    server = Server("s")

    @server.resource("x://{name}")
    async def named(name: str) -> str:
        return task_name()

    async with open_client(server) as client:
        (contents,) = (await client.read_resource("x://y")).contents

    assert isinstance(contents, types.TextResourceContents)
    assert contents.text == "resources/read handler"


async def test_an_mcp_error_of_a_template_reaches_the_client_unchanged() -> None:
    server = Server("s")

    @server.resource("x://{name}")
    async def named(name: str) -> str:
        raise McpError(7, f"{name} is not ready")

    async with open_client(server) as client:
        with pytest.raises(ErrorResponse, match="y is not ready") as refused:
            await client.read_resource("x://y")

    assert refused.value.code == 7


def test_unknown_methods_have_no_route_and_are_not_stored() -> None:
    modern = ROUTES["2026-07-28"]
    before = len(modern)

    assert [modern[f"com.example/{number}"] for number in range(10)] == [None] * 10
    assert len(modern) == before
    assert modern["initialize"] is None  # a method of other revisions only


class _Method:
    async def __call__(self, params: dict[str, Any]) -> dict[str, Any]:
        return params


async def test_a_custom_method_that_runs_in_a_thread_runs_in_a_task() -> None:
    server = Server("s")
    server.method("com.example/method")(MethodType(_Method(), {}))  # not recognized as asynchronous

    async with open_client(server) as client:
        with pytest.raises(ErrorResponse):
            await client.request("com.example/method", {}, dict)
        assert server._internals.custom.methods["com.example/method"].waits


@pytest.mark.parametrize("mode", ["parked", "replayed"])
async def test_a_handler_that_asked_the_client_continues_behind_middleware(mode: AskingMode) -> None:
    passed: list[str] = []

    async def pass_on(request: Any, call_next: Any) -> Any:
        passed.append(request.method)
        return await call_next(request)

    server = Server("s", middleware=[pass_on], asking=mode)

    @server.tool
    async def go_on(context: Context) -> str:
        answer = await context.elicit("Go on?", {"type": "object", "properties": {}})
        return type(answer).__name__

    async def accept(_: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={})

    async with open_client(server, on_elicit=accept) as client:
        assert text_of(await client.call_tool("go_on")) == "Accepted"

    assert passed.count("tools/call") == {"parked": 1, "replayed": 2}[mode]


async def test_another_handshake_on_a_connection_is_answered_and_breaks_nothing_that_is_in_flight() -> None:
    """A gateway that starts one child for all its clients passes on the handshake of each of them."""
    server = Server("s")

    @server.tool
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("Sure?", {"type": "object", "properties": {"sure": {"type": "boolean"}}})
        return f"{type(answer).__name__} in {ctx.revision}"

    async with open_scripted_client(server, "2025-06-18") as gateway:
        asked: dict[str, Any] = {"capabilities": {"elicitation": {}}, "clientInfo": ScriptedPeer.INFO}
        params = {"protocolVersion": "2025-06-18", **asked}
        assert (await gateway.request("initialize", params))["result"]["protocolVersion"] == "2025-06-18"
        call = await gateway.begin("tools/call", {"name": "ask"})
        question = await gateway.expect_request("elicitation/create")

        newer = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": ScriptedPeer.INFO}
        answer = await gateway.request("initialize", newer)
        await gateway.respond(question, {"action": "decline"})
        result = (await gateway.expect_response(call))["result"]
        later = (await gateway.request("tools/call", {"name": "ask"}))["result"]

    assert answer["result"]["protocolVersion"] == "2025-11-25"
    assert result["content"] == [{"type": "text", "text": "Declined in 2025-06-18"}]
    assert later["isError"]  # the second client has not declared that it can be asked
