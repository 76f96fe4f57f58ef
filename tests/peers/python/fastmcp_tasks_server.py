"""A server of tasks made with FastMCP: ``python fastmcp_tasks_server.py stdio|http``. Over HTTP it prints its URL."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import socket
import sys
import warnings
from datetime import timedelta
from typing import Any

os.environ |= {"FASTMCP_CHECK_FOR_UPDATES": "off", "FASTMCP_SHOW_SERVER_BANNER": "false"}
warnings.simplefilter("ignore")
# By name, because type checkers run where FastMCP is not installed.
fastmcp = importlib.import_module("fastmcp")
dependencies = importlib.import_module("fastmcp.dependencies")
exceptions = importlib.import_module("mcp.shared.exceptions")
tasks = importlib.import_module("fastmcp_tasks")
types = importlib.import_module("mcp_types")
utilities = importlib.import_module("fastmcp.utilities.tasks")

running, released, stopped = asyncio.Event(), asyncio.Event(), asyncio.Event()


def question(message: str) -> Any:
    """Return a question for a name."""
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    params = types.ElicitRequestFormParams(message=message, requested_schema=schema)
    return types.ElicitRequest(params=params)


def questions(state: str | None = None, **messages: str) -> Any:
    """Return the result with which a tool asks. FastMCP calls the tool again, with the answers and with *state*."""
    asked = {key: question(message) for key, message in messages.items()}
    return types.InputRequiredResult(result_type="input_required", input_requests=asked, request_state=state)


async def build(branch: str, progress: Any) -> str:
    """Report progress, and go on when `release` is called."""
    await progress.set_message("compiling")
    await released.wait()
    return f"{branch} is built"


async def release() -> None:
    """Let `build` go on."""
    released.set()


async def nightly(count: int) -> int:
    """Double a number."""
    return 2 * count


async def broken(how: str) -> str:
    """Fail as a tool, or with an error of the protocol."""
    if how == "tool":
        raise fastmcp.exceptions.ToolError("the disk is full")
    raise exceptions.MCPError(code=-32000, message="no quota", data={"left": 0})


async def greet(ctx: Any) -> Any:
    """Ask once, and then for two answers at once."""
    match ctx.input_responses:
        case None:
            return questions(me="Who are you?")
        case {"me": answer} if answer.action == "accept":
            return questions(answer.content["name"], first="Who is your friend?", second="And the other?")
        case {"me": _}:
            return "nobody"
        case answers:
            first, second = answers["first"], answers["second"]
            return f"{ctx.request_state}, {first.content['name']}, {second.content['name']}"


async def endless() -> None:
    """Wait to be cancelled."""
    running.set()
    try:
        await asyncio.Event().wait()
    finally:
        stopped.set()


async def until_running() -> None:
    """Wait until `endless` runs."""
    await running.wait()


async def until_stopped() -> None:
    """Wait until `endless` has been cancelled."""
    await stopped.wait()


def make_server() -> Any:
    """Return the server."""
    # The annotations and defaults by which FastMCP finds what it has to provide.
    build.__annotations__["progress"], build.__defaults__ = dependencies.Progress, (dependencies.Progress(),)
    greet.__annotations__.update({"ctx": fastmcp.Context, "return": "str"})
    server = fastmcp.FastMCP("tasks")
    server.add_extension(tasks.TasksExtension(url="memory://"))
    for tool in (build, nightly, broken, greet, endless):
        mode = "optional" if tool is build else "required"
        server.tool(task=utilities.TaskConfig(mode=mode, poll_interval=timedelta(milliseconds=50)))(tool)
    for plain in (release, until_running, until_stopped):
        server.tool()(plain)
    return server


async def serve_http(server: Any) -> None:
    """Serve on a free port, and print the URL."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sys.stdout.write(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp\n")
        sys.stdout.flush()
        await server.run_http_async(show_banner=False, sockets=[listening], log_level="error")


def main(transport: str) -> None:
    """Serve."""
    logging.disable()
    server = make_server()
    if transport == "stdio":
        server.run("stdio", show_banner=False)
    else:
        asyncio.run(serve_http(server))


if __name__ == "__main__":
    main(sys.argv[1])
