"""The tools that the scenarios of the tasks extension call.

Each is an ordinary function; whether its call becomes a task is said where it is registered.
"""

from __future__ import annotations

from typing import Any

import trio
from attrs import frozen

from trio_mcp import Accepted, Context, Elicit, McpError, Server, TaskSettings, ToolError
from trio_mcp.wire import INTERNAL_ERROR

__all__ = ["TASK_SETTINGS", "add_task_tools"]

TASK_SETTINGS = TaskSettings(after=0.05, ttl=60.0, poll_interval=0.1)
_UNTIL_A_TASK = 0.3
"""Seconds after which a call has become a task."""


@frozen
class Confirmation:
    confirm: bool
    name: str = ""


@frozen
class Named:
    name: str
    confirm: bool = True


def add_task_tools(server: Server) -> None:
    """Register the tools."""
    server.tool(greet)
    server.tool(task="optional")(slow_compute)
    server.tool(task="optional")(test_tool_with_task)
    for function in (failing_job, protocol_error_job, confirm_delete, multi_input):
        server.tool(task="required")(function)


async def greet(name: str) -> str:
    """Greet somebody, at once."""
    await trio.lowlevel.checkpoint()
    return f"Hello, {name}!"


async def slow_compute(seconds: float, label: str = "") -> str:
    """Work for some seconds."""
    await trio.sleep(seconds)
    return f"Computed {label} in {seconds:g} s"


async def failing_job() -> str:
    """Fail as a tool does."""
    await trio.sleep(_UNTIL_A_TASK)
    raise ToolError("The job has failed")


async def protocol_error_job() -> str:
    """Fail with a protocol error."""
    await trio.sleep(_UNTIL_A_TASK)
    raise McpError(INTERNAL_ERROR, "The job broke the protocol")


async def confirm_delete(filename: str, ctx: Context) -> str:
    """Ask for a confirmation, then delete nothing."""
    match await ctx.elicit(f"Delete {filename}?", Confirmation):
        case Accepted(value=Confirmation(confirm=True)):
            return f"Deleted {filename}"
        case _:
            return f"Kept {filename}"


async def multi_input(ctx: Context) -> str:
    """Ask two questions at once."""
    answers: Any = await ctx.ask_all(Elicit("Your name?", Named, key="name"), Elicit("Sure?", Confirmation, key="sure"))
    return f"Got {answers}"


async def test_tool_with_task(ctx: Context) -> str:
    """Ask for a name as any call does, and become a task then."""
    match await ctx.elicit("Your name?", Named):
        case Accepted(value=Named(name=name)):
            await trio.sleep(_UNTIL_A_TASK)
            return f"Hello, {name}, from a task"
        case _:
            return "Nobody"
