"""A client of `tasks_server.py` made with FastMCP: ``python fastmcp_tasks_client.py TARGET tasks|one|legacy``.

TARGET is a URL, or a command as a JSON array. The client uses every kind of task, or only one task, or it is of the
legacy era, which has none. It prints, as JSON, what it has seen.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import os
import sys
import warnings
from typing import Any

os.environ["FASTMCP_CHECK_FOR_UPDATES"] = "off"
warnings.simplefilter("ignore")  # the SDK deprecates the legacy era
# By name, because type checkers run where FastMCP is not installed. Once its tasks are imported, every client has them.
fastmcp = importlib.import_module("fastmcp")
tasks = importlib.import_module("fastmcp_tasks")
exceptions = importlib.import_module("mcp.shared.exceptions")
transports = importlib.import_module("fastmcp.client.transports")

NAMES = {"Who are you?": "Ada", "Who is your friend?": "Bob", "And the other?": "Cy"}


async def answer(message: str, _kind: Any, _params: Any, _context: Any) -> dict[str, str]:
    """Answer a question of a task."""
    return {"name": NAMES[message]}


def value_of(result: Any) -> Any:
    """Return the value in a result."""
    return result.structured_content["result"]


def texts_of(result: Any) -> dict[str, Any]:
    """Return the texts of a result, and whether it is an error."""
    return {"isError": result.is_error, "text": [each.text for each in result.content]}


async def error_of(request: Any) -> dict[str, Any]:
    """Return the error with which a request ends."""
    try:
        await request
    except exceptions.MCPError as error:
        return {"code": error.error.code, "data": error.error.data}
    except fastmcp.exceptions.ToolError as error:
        return {"tool_error": str(error)}
    raise AssertionError


async def start(client: Any, name: str, **arguments: Any) -> Any:
    """Call a tool as a task; return the handle."""
    return await tasks.call_tool_task(client, name, arguments)


async def follow_build(client: Any) -> dict[str, Any]:
    """Follow a task that reports progress, let it go, and cancel it when it has ended."""
    task = await start(client, "build", branch="main")
    created = task.create_result
    await client.call_tool("until_compiling")
    working = await task.status()
    await client.call_tool("release")
    final = await task.wait()
    await task.cancel()
    return {
        "created": [created.status, created.ttl_ms, created.poll_interval_ms],
        "working": [working.status, working.status_message],
        "final": [final.status, final.result["structuredContent"]],
        "result": value_of(await task.result()),
        "in the end": (await task.status()).status,
    }


async def follow_failures(client: Any) -> dict[str, Any]:
    """Follow tasks that fail, in calls and by handles."""
    seen: dict[str, Any] = {}
    for how in ("tool", "protocol"):
        task = await start(client, "broken", how=how)
        final = await task.wait()
        called = await client.call_tool("broken", {"how": how}, raise_on_error=False)
        error = await error_of(task.result())
        seen[how] = {"status": final.status, "error": final.error, "raised": error, "called": texts_of(called)}
    return seen


async def follow_questions(client: Any) -> dict[str, Any]:
    """Look at the questions of a task, and let the client answer them."""
    task = await start(client, "greet")
    parked = await task.wait(state="input_required")
    asked = [each["params"]["message"] for each in parked.input_requests.values()]
    return {
        "asked": asked,
        "result": value_of(await task.result()),
        "called": value_of(await client.call_tool("greet")),
    }


async def cancel(client: Any) -> dict[str, Any]:
    """Cancel a task that works, and one that asks."""
    working, asking = await start(client, "endless"), await start(client, "greet")
    await client.call_tool("until_running")
    await asking.wait(state="input_required")
    for task in (working, asking):
        await task.cancel()
    finals = [await task.wait() for task in (working, asking)]
    await client.call_tool("until_stopped")
    return {
        "statuses": [final.status for final in finals],
        "raised": "cancelled" in str(await error_of(asking.result())),
    }


async def use_unknown(client: Any) -> list[Any]:
    """Ask for a task that is not there, and cancel it."""
    task = await start(client, "nightly", count=1)
    task.create_result.task_id = "other"
    return [await error_of(task.status()), await error_of(task.cancel())]


async def use_tasks(client: Any) -> dict[str, Any]:
    """Use the tasks of the server."""
    return {
        "called": value_of(await client.call_tool("nightly", {"count": 21})),
        "followed": await follow_build(client),
        "failures": await follow_failures(client),
        "questions": await follow_questions(client),
        "cancelled": await cancel(client),
        "unknown": await use_unknown(client),
    }


async def use_one(client: Any) -> dict[str, Any]:
    """Start a task, and ask for its state."""
    task = await start(client, "nightly", count=21)
    return {"created": task.create_result.status, "asked": await error_of(task.status())}


async def use_none(client: Any) -> dict[str, Any]:
    """Call tools that can and that must be tasks."""
    await client.call_tool("release")
    return {
        "build": value_of(await client.call_tool("build", {"branch": "main"})),
        "nightly": await error_of(client.call_tool("nightly", {"count": 21})),
    }


USES = {"tasks": use_tasks, "one": use_one, "legacy": use_none}


async def use(target: str, what: str) -> dict[str, Any]:
    """Connect, and use the server; return what the client has seen."""
    if target.startswith("http"):
        transport = target
    else:
        command, *arguments = json.loads(target)
        transport = transports.StdioTransport(command, arguments, keep_alive=False)
    mode = "legacy" if what == "legacy" else "auto"
    async with fastmcp.Client(transport, mode=mode, elicitation_handler=answer, timeout=30) as client:
        return await USES[what](client)


def main(target: str, what: str) -> None:
    """Use the server, and print what was seen."""
    logging.disable()
    sys.stdout.write(json.dumps(asyncio.run(use(target, what))))


if __name__ == "__main__":
    main(*sys.argv[1:])
