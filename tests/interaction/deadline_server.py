"""The server of the tests of deadlines, in this process or as a child: `python deadline_server.py`.

Its handlers tell the seconds that their callers have left.
"""

from __future__ import annotations

import json
import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import trio
from attrs import define, field, frozen

from trio_mcp import Client, Context, Server, open_client, serve_stdio, types

CUSTOM = "com.example/left"


@frozen
class Sure:
    sure: bool


@define
class State:
    """What the handlers of one serving share."""

    next_server: Client | None
    """A client of another server of this kind; None for the last one of a chain."""
    events: list[str] = field(factory=list[str])
    stopped: trio.Event = field(factory=trio.Event)
    """Set when the handler of `hang` was stopped."""


def seconds_left(ctx: Context) -> float | None:
    """Return the seconds until the deadline of a handler; None if it has no deadline."""
    return None if math.isinf(ctx.deadline) else ctx.deadline - trio.current_time()


def make_server(hops: int = 0, **options: Any) -> Server:  # noqa: C901 # a list of tools, not a decision
    """Return a server; *hops* is the number of servers behind it, to which it passes calls on."""

    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[State]:
        if hops == 0:
            yield State(None)
            return
        async with open_client(make_server(hops - 1)) as client:
            yield State(client)

    server = Server("deadlines", lifespan=lifespan, **options)

    @server.tool
    async def left(ctx: Context) -> float | None:
        await trio.lowlevel.checkpoint()
        return seconds_left(ctx)

    @server.tool
    async def left_at_once(ctx: Context) -> float | None:
        return seconds_left(ctx)

    @server.tool
    def left_in_a_thread(ctx: Context) -> float | None:
        return trio.from_thread.run_sync(lambda at: None if math.isinf(at) else at - trio.current_time(), ctx.deadline)

    @server.tool(timeout=7)
    async def left_of_seven(ctx: Context) -> float | None:
        await trio.lowlevel.checkpoint()
        return seconds_left(ctx)

    @server.tool
    async def chain(ctx: Context, pause: float = 0) -> list[float | None]:
        """Return the seconds left here, and at each further server after a pause."""
        own = seconds_left(ctx)
        await trio.sleep(pause)
        if ctx.state.next_server is None:
            return [own]
        further = await ctx.state.next_server.call_tool("chain", {"pause": pause})
        return [own, *further.structured_content["result"]]

    @server.tool
    async def ask(ctx: Context, pause: float = 0) -> list[float | None]:
        """Return the seconds left before and after a question."""
        await trio.sleep(pause)
        before = seconds_left(ctx)
        await ctx.elicit("Sure?", Sure)
        return [before, seconds_left(ctx)]

    @server.tool
    async def hang(ctx: Context) -> None:
        try:
            await trio.sleep_forever()
        finally:
            ctx.state.events.append("cleaned up")
            ctx.state.stopped.set()

    @server.tool
    async def events(ctx: Context) -> list[str]:
        await ctx.state.stopped.wait()
        return list(ctx.state.events)

    @server.prompt
    async def left_of_prompt(ctx: Context, name: str = "") -> str:
        return repr(seconds_left(ctx))

    @server.completion(prompt="left_of_prompt", argument="name")
    async def left_of_completion(typed: str, ctx: Context) -> list[str]:
        return [repr(seconds_left(ctx))]

    @server.resource("left://now")
    async def left_of_resource(ctx: Context) -> str:
        return repr(seconds_left(ctx))

    @server.method(CUSTOM)
    async def left_of_method(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
        return {"left": seconds_left(ctx)}

    return server


def value_of(result: types.CallToolResult) -> Any:
    """Return what a tool has returned."""
    assert not result.is_error, result
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return json.loads(block.text)


if __name__ == "__main__":
    trio.run(serve_stdio, make_server(hops=2))
