"""Repeated requests of one client: each one is checked, and none leaves reference cycles."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from trio_mcp import (
    CallNext,
    Client,
    Context,
    MissingCapability,
    Request,
    RequestTimedOut,
    Server,
    TimeLimits,
    open_client,
    types,
)
from trio_mcp import testing as kit

REVISIONS = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
CALLS = 20


@REVISIONS
async def test_requests_for_undeclared_capabilities_are_refused_each_time(revision: str) -> None:
    server = Server("without tools")

    @server.prompt
    async def greeting() -> str:
        return "Hello"

    async with open_client(server, revision=revision) as client:
        for _ in range(2):
            assert [prompt.name for prompt in (await client.list_prompts(fresh=True)).prompts] == ["greeting"]
            with pytest.raises(MissingCapability, match="'tools', which 'tools/call' needs"):
                await client.call_tool("t")


@REVISIONS
@pytest.mark.parametrize("opener", [open_client, kit.open_memory_client], ids=["memory", "bytes"])
async def test_a_call_leaves_no_reference_cycles(opener: Any, revision: str) -> None:
    server = Server("of little use")

    @server.tool
    async def count(numbers: int, ctx: Context) -> int:
        for number in range(numbers):
            await ctx.report_progress(number)
        return numbers

    async def ignore(_: types.ProgressNotificationParams) -> None:
        await trio.lowlevel.checkpoint()

    found = 0
    async with opener(server, revision=revision) as client:
        for calls in (1, CALLS):  # the first call creates the objects that later calls share
            gc.collect()
            gc.disable()
            try:
                for _ in range(calls):
                    await client.call_tool("count", {"numbers": 3}, on_progress=ignore)
                found = gc.collect()
            finally:
                gc.enable()

    assert found < CALLS


LISTS: dict[str, tuple[str, Callable[[Client], Awaitable[Any]], Callable[[Client], Any]]] = {
    "tools": ("tools", lambda client: client.list_tools(), lambda client: client.tools()),
    "resources": ("resources", lambda client: client.list_resources(), lambda client: client.resources()),
    "resource templates": (
        "resource_templates",
        lambda client: client.list_resource_templates(),
        lambda client: client.resource_templates(),
    ),
    "prompts": ("prompts", lambda client: client.list_prompts(), lambda client: client.prompts()),
}


@REVISIONS
@pytest.mark.parametrize("kind", LISTS)
async def test_a_list_that_the_server_has_not_declared_is_empty_and_is_not_requested(kind: str, revision: str) -> None:
    member, request, walk = LISTS[kind]
    server = Server("with nothing")
    seen: list[str] = []

    @server.middleware
    async def see(message: Request, call_next: CallNext) -> Any:
        seen.append(message.method)
        return await call_next(message)

    async with open_client(server, revision=revision) as client:
        seen.clear()
        first = await request(client)
        getattr(first, member).append("changed by its owner")
        assert getattr(await request(client), member) == []
        assert [entry async for entry in walk(client)] == []

    assert first.next_cursor is None
    assert [method for method in seen if method.endswith("list")] == []


async def test_a_ping_of_a_modern_server_is_a_discovery_that_is_sent_each_time() -> None:
    async with (
        kit.open_scripted_server(time_limits=TimeLimits(idle=60)) as (client, server),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(client.ping)
        await server.answer_discover(client.revision)
        nursery.start_soon(client.ping)
        await server.refuse(-32603, method="server/discover")  # also a sign of life


@REVISIONS
async def test_a_ping_is_answered_in_every_revision(revision: str) -> None:
    async with open_client(Server("s"), revision=revision) as client:
        for _ in range(2):
            await client.ping()


async def test_a_ping_of_a_silent_modern_server_times_out(autojump_clock: object) -> None:
    async with kit.open_scripted_server(time_limits=TimeLimits(idle=5)) as (client, _):
        with pytest.raises(RequestTimedOut):
            await client.ping()
