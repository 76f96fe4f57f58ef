"""A server for the tests of the bridges: its tools note in files what becomes of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

import trio
from attrs import frozen

from trio_mcp import Accepted, Context, Server, TaskSettings, ToolError


def mark(folder: str, event: str) -> None:
    """Make a file that tells a test of an event."""
    Path(folder, event).touch()


async def until(path: Path) -> None:
    """Wait on asyncio until a file exists."""
    while not path.exists():  # noqa: ASYNC110, ASYNC240 # made by another process
        await asyncio.sleep(0.01)


def two_calls() -> dict[str, Any]:
    """Return the message of a model that calls two tools of the server."""
    calls = [{"id": name, "function": {"name": name, "arguments": "{}"}} for name in ("report", "fail")]
    return {"role": "assistant", "tool_calls": calls}


server = Server("bridged", tasks=TaskSettings())


@server.tool
async def add(a: int, b: int) -> int:
    return a + b


@server.tool
async def wait(folder: str) -> str:
    """Wait until the call is cancelled; the folder then has files of both events."""
    mark(folder, "started")
    try:
        await trio.sleep_forever()
    finally:
        mark(folder, "cancelled")


@server.tool
async def hang() -> None:
    await trio.sleep_forever()


@server.tool
async def report(ctx: Context) -> str:
    await ctx.report_progress(1, total=2, message="half")
    await ctx.log("info", "halfway")
    await ctx.report_progress(2, total=2, message="all")
    return "done"


@frozen
class Answer:
    color: Literal["red", "blue"]


@server.tool
async def ask(ctx: Context) -> str:
    match await ctx.elicit("Which color?", Answer):
        case Accepted(answer):
            return answer.color
        case _:
            return "none"


@server.tool
async def fail() -> str:
    raise ToolError("it is broken")


@server.tool(task="required")
async def build(name: str) -> str:
    return f"built {name}"


@server.tool
async def change(ctx: Context) -> str:
    ctx.resource_updated("note://a")
    return "changed"


@server.resource("note://a")
async def note() -> str:
    return "a note"


if __name__ == "__main__":
    server.run()
