"""Our server of the tour, over standard input and output; see `tour.py`."""

from __future__ import annotations

import trio
from attrs import frozen

from trio_mcp import Accepted, Context, Server, ToolError, serve_stdio


@frozen
class Person:
    """The answer to the question."""

    name: str


def make_server(*, resumable: bool = False) -> Server:
    """Return the server.

    Args:
        resumable: True if `count` closes its event stream, so that the client has to come back for the rest.
    """
    server = Server("tour")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def count(to: int, ctx: Context) -> str:
        if resumable:
            await ctx.close_stream()
        for step in range(1, to + 1):
            await ctx.report_progress(step, total=to)
        return f"counted to {to}"

    @server.tool
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("Your name?", Person)
        return f"hello {answer.value.name}" if isinstance(answer, Accepted) else "hello"

    @server.tool
    async def fail() -> str:
        raise ToolError("it failed")

    @server.resource("memo://one")
    async def memo() -> str:
        return "one"

    @server.prompt
    async def greet(name: str) -> str:
        return f"Greet {name}"

    return server


if __name__ == "__main__":
    trio.run(serve_stdio, make_server())
