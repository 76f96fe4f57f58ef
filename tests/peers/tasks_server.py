"""Our server of tasks: ``python tasks_server.py stdio|http``. Over HTTP it prints its URL."""

from __future__ import annotations

import sys
from functools import partial

import trio
from attrs import frozen

from trio_mcp import (
    Accepted,
    Context,
    Elicit,
    McpError,
    Server,
    TaskSettings,
    ToolError,
    serve_http,
    serve_stdio,
)

server = Server("tasks", tasks=TaskSettings(after=0, ttl=600, poll_interval=0.05))
compiling, released, running, stopped = trio.Event(), trio.Event(), trio.Event(), trio.Event()


@frozen
class Person:
    """The answer to a question."""

    name: str


@server.tool(task="optional")
async def build(branch: str, ctx: Context) -> str:
    """Report progress, and go on when `release` is called."""
    await ctx.report_progress(1, total=2, message="compiling")
    compiling.set()
    await released.wait()
    return f"{branch} is built"


@server.tool
async def until_compiling() -> None:
    """Wait until `build` has reported its progress."""
    await compiling.wait()


@server.tool
async def release() -> None:
    """Let `build` go on."""
    released.set()


@server.tool(task="required")
async def nightly(count: int) -> int:
    """Double a number, in a task only."""
    return 2 * count


@server.tool(task="required")
async def broken(how: str) -> str:
    """Fail as a tool, or with an error of the protocol."""
    raise ToolError("the disk is full") if how == "tool" else McpError(-32000, "no quota", {"left": 0})


@server.tool(task="required")
async def greet(ctx: Context) -> str:
    """Ask once, and then for two answers at once."""
    match await ctx.elicit("Who are you?", Person):
        case Accepted(value=person):
            friends = await ctx.ask_all(Elicit("Who is your friend?", Person), Elicit("And the other?", Person))
            names = [friend.value.name for friend in friends if isinstance(friend, Accepted)]
            return ", ".join([person.name, *names])
        case _:
            return "nobody"


@server.tool(task="required")
async def endless() -> None:
    """Wait to be cancelled."""
    running.set()
    try:
        await trio.sleep_forever()
    finally:
        stopped.set()


@server.tool
async def until_running() -> None:
    """Wait until `endless` runs."""
    await running.wait()


@server.tool
async def until_stopped() -> None:
    """Wait until `endless` has been cancelled."""
    await stopped.wait()


async def main(transport: str) -> None:
    """Serve; over HTTP on a free port."""
    if transport == "stdio":
        await serve_stdio(server)
        return
    async with trio.open_nursery() as nursery:
        bound = await nursery.start(partial(serve_http, server, port=0))
        sys.stdout.write(f"{bound.url}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
