"""What a forwarded call has used is free at once, without the garbage collector, which would interrupt all calls."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

import pytest
import trio

from tests.garbage import garbage_of
from tests.gateway.helpers import ERAS, Way, text_of
from tests.gateway.upstreams import CountedServer, gateway_of
from trio_mcp import Accepted, Client, Context, ErrorResponse, Server, types
from trio_mcp.testing import open_memory_client

MANY = 30


def register(server: Server) -> None:
    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def fail() -> None:
        raise ValueError("always")

    @server.tool
    async def report(ctx: Context) -> None:
        await ctx.report_progress(1)

    @server.tool
    async def say(ctx: Context) -> None:
        await ctx.log("info", "said")

    @server.tool
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("Which one?", {"type": "object", "properties": {"name": {"type": "string"}}})
        assert isinstance(answer, Accepted)
        return str(answer.value)

    @server.resource("notes://one")
    async def note() -> str:
        return "one"


async def answer(_: object) -> types.ElicitResult:
    await trio.lowlevel.checkpoint()
    return types.ElicitResult(action="accept", content={"name": "x"})


async def ignore(_: object) -> None:
    await trio.lowlevel.checkpoint()


async def refused(client: Client) -> None:
    with suppress(ErrorResponse):
        await client.read_resource("notes://two", fresh=True)


USES: dict[str, Callable[[Client], Awaitable[object]]] = {
    "answered": lambda client: client.call_tool("add", {"a": 1, "b": 2}),
    "failed": lambda client: client.call_tool("fail"),
    "with progress": lambda client: client.call_tool("report", on_progress=ignore),
    "with a log message": lambda client: client.call_tool("say"),
    "with a question": lambda client: client.call_tool("ask"),
    "read": lambda client: client.read_resource("notes://one", fresh=True),
    "refused": refused,
}


@asynccontextmanager
async def caller(way: Way) -> AsyncGenerator[Client]:
    upstream = CountedServer(register, make=lambda: Server("counted", revisions=[way.upstream]))
    async with open_memory_client(
        gateway_of(upstream), revision=way.downstream, on_elicit=answer, on_log=ignore
    ) as client:
        yield client


@pytest.mark.parametrize("kind", USES)
@pytest.mark.parametrize("way", ERAS, ids=str)
async def test_a_forwarded_request_leaves_nothing_to_the_garbage_collector(way: Way, kind: str) -> None:
    use = USES[kind]
    async with caller(way) as client:
        assert text_of(await client.call_tool("add", {"a": 1, "b": 2})) == "3"
        assert await garbage_of(partial(use, client), MANY) < MANY
