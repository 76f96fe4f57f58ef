"""A client of the tour (see `tour.py`) made with the official SDK 1.x: ``python official_1_client.py TARGET [TOKEN]``.

TARGET is a URL, or a command as a JSON array. It prints what it has seen.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from contextlib import AsyncExitStack
from typing import Any

# By name, because type checkers run where this SDK is not installed.
mcp = importlib.import_module("mcp")
stdio = importlib.import_module("mcp.client.stdio")
streamable_http = importlib.import_module("mcp.client.streamable_http")

NAME = "Ada"


async def answer(_context: Any, question: Any) -> Any:
    """Answer the question of `ask`."""
    content = dict.fromkeys(question.requestedSchema["properties"], NAME)
    return mcp.types.ElicitResult(action="accept", content=content)


async def tour(target: str, token: str | None) -> dict[str, Any]:
    """Go on the tour; return what the client has seen."""
    progress: list[float] = []

    async def note(step: float, _total: float | None, _message: str | None) -> None:
        progress.append(step)

    if target.startswith("http"):
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        connection = streamable_http.streamablehttp_client(target, headers=headers)
    else:
        command, *arguments = json.loads(target)
        connection = stdio.stdio_client(mcp.StdioServerParameters(command=command, args=arguments))
    async with AsyncExitStack() as stack:
        read, write, *_ = await stack.enter_async_context(connection)
        session = await stack.enter_async_context(mcp.ClientSession(read, write, elicitation_callback=answer))
        await session.initialize()
        (memo,) = (await session.read_resource("memo://one")).contents
        (greeting,) = (await session.get_prompt("greet", {"name": NAME})).messages
        counted = await session.call_tool("count", {"to": 3}, progress_callback=note)
        return {
            "tools": sorted(tool.name for tool in (await session.list_tools()).tools),
            "sum": (await session.call_tool("add", {"a": 2, "b": 3})).structuredContent["result"],
            "counted": counted.content[0].text,
            "progress": progress,
            "asked": (await session.call_tool("ask", {})).content[0].text,
            "failed": (await session.call_tool("fail", {})).isError,
            "memo": memo.text,
            "greeting": greeting.content.text,
        }


def main(target: str, token: str | None = None) -> None:
    """Go on the tour, and print what was seen."""
    sys.stdout.write(json.dumps(asyncio.run(tour(target, token))))


if __name__ == "__main__":
    main(*sys.argv[1:])
