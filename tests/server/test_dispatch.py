"""Where a request is answered: on the spot where nothing can wait, in a task of its own otherwise."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

import pytest
import trio
import trio.testing

from trio_mcp import Context, ErrorResponse, Limits, McpError, Server, open_client, types
from trio_mcp.server import AskingMode
from trio_mcp.server._serving import ROUTES

HANDLERS = "tools/call handler"


def text(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


def named_here() -> str:
    return trio.lowlevel.current_task().name


async def where() -> str:
    return named_here()


async def where_with_context(context: Context) -> str:
    return named_here()


async def where_after_waiting() -> str:
    await trio.lowlevel.checkpoint()
    return named_here()


@pytest.mark.parametrize(
    ("function", "options", "alone"),
    [
        (where, {}, False),
        (where_with_context, {}, False),
        (where_after_waiting, {}, True),
        (where, {"timeout": 5}, True),
        (where, {"max_concurrency": 2}, True),
    ],
)
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_tool_that_cannot_wait_for_anything_takes_no_task_of_its_own(
    function: Callable[..., Any], options: dict[str, Any], alone: bool, revision: str
) -> None:
    server = Server("s", revisions=[revision])
    server.tool(name="f", **options)(function)

    async with open_client(server) as client:
        answer = await client.call_tool("f")

    assert (text(answer) == HANDLERS) is alone


async def test_a_tool_that_cannot_wait_takes_a_task_where_middleware_may() -> None:
    async def pass_on(request: Any, call_next: Any) -> Any:
        return await call_next(request)

    server = Server("s", middleware=[pass_on])
    server.tool(where)

    async with open_client(server) as client:
        assert text(await client.call_tool("where")) == HANDLERS


async def test_a_tool_that_is_removed_while_a_call_waits_for_its_slot_is_not_called() -> None:
    server, begun, go_on = Server("s", limits=Limits(max_in_flight=1)), trio.Event(), trio.Event()
    server.tool(where)

    @server.tool
    async def block() -> None:
        begun.set()
        await go_on.wait()

    async def refused() -> None:
        with pytest.raises(ErrorResponse, match="no tool 'where'"):
            await client.call_tool("where")

    async with open_client(server) as client, trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "block")
        await begun.wait()
        nursery.start_soon(refused)
        await trio.testing.wait_all_tasks_blocked()
        server.tools.remove("where")
        go_on.set()


@pytest.mark.parametrize("waits", [False, True])
async def test_whatever_else_cannot_wait_takes_no_task_either(waits: bool) -> None:
    server, where_it_is = Server("s"), where_after_waiting if waits else where
    server.prompt(name="p")(where_it_is)
    server.resource("x://y")(where_it_is)

    @server.method("com.example/where")
    async def own() -> dict[str, str]:
        return {"task": named_here()}

    @server.method("com.example/there")
    async def other() -> dict[str, str]:
        return {"task": await where_after_waiting()}

    async with open_client(server) as client:
        (message,) = (await client.get_prompt("p")).messages
        (contents,) = (await client.read_resource("x://y")).contents
        method = "com.example/there" if waits else "com.example/where"
        answer = await client.request(method, {}, dict[str, Any])

    assert isinstance(message.content, types.TextContent)
    assert isinstance(contents, types.TextResourceContents)
    tasks = [message.content.text, contents.text, answer["task"]]
    assert [task.endswith(" handler") for task in tasks] == [waits] * 3


async def test_what_follows_a_template_is_read_in_a_task() -> None:
    server = Server("s")

    @server.resource("x://{name}")
    async def named(name: str) -> str:
        return named_here()

    async with open_client(server) as client:
        (contents,) = (await client.read_resource("x://y")).contents

    assert isinstance(contents, types.TextResourceContents)
    assert contents.text == "resources/read handler"


async def test_an_error_that_a_template_chooses_reaches_the_client_as_it_is() -> None:
    server = Server("s")

    @server.resource("x://{name}")
    async def named(name: str) -> str:
        raise McpError(7, f"{name} is not ready")

    async with open_client(server) as client:
        with pytest.raises(ErrorResponse, match="y is not ready") as refused:
            await client.read_resource("x://y")

    assert refused.value.code == 7


def test_methods_that_nobody_answers_have_no_route_and_none_is_kept_for_them() -> None:
    modern = ROUTES["2026-07-28"]
    before = len(modern)

    assert [modern[f"com.example/{number}"] for number in range(10)] == [None] * 10
    assert len(modern) == before
    assert modern["initialize"] is None  # there is such a method, and not in this revision


class _Method:
    async def __call__(self, params: dict[str, Any]) -> dict[str, Any]:
        return params


async def test_a_method_of_ones_own_that_runs_in_a_thread_takes_a_task_whatever_its_code_says() -> None:
    server = Server("s")
    server.method("com.example/method")(MethodType(_Method(), {}))  # nothing says that it is asynchronous

    async with open_client(server) as client:
        with pytest.raises(ErrorResponse):
            await client.request("com.example/method", {}, dict)
        assert server.custom.methods["com.example/method"].waits


@pytest.mark.parametrize("mode", ["parked", "replayed"])
async def test_a_handler_that_has_asked_goes_on_behind_middleware_as_well(mode: AskingMode) -> None:
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
        assert text(await client.call_tool("go_on")) == "Accepted"

    assert passed.count("tools/call") == {"parked": 1, "replayed": 2}[mode]
