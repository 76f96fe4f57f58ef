"""A client of the tour (see `tour.py`) made with FastMCP: ``python fastmcp_client.py TARGET MODE [TOKEN]``.

TARGET is a URL, or a command as a JSON array. MODE is that of the client: "auto" or "legacy".
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
# By name, because type checkers run where FastMCP is not installed.
fastmcp = importlib.import_module("fastmcp")
transports = importlib.import_module("fastmcp.client.transports")

NAME = "Ada"


def text_of(result: Any) -> str:
    """Return the only text of a result."""
    (content,) = result.content
    text: str = content.text
    return text


async def tour(target: str, mode: str, token: str | None) -> dict[str, Any]:
    """Go on the tour; return what the client has seen."""
    progress: list[float] = []

    async def note(step: float, _total: float | None, _message: str | None) -> None:
        progress.append(step)

    async def answer(_message: str, _kind: Any, _params: Any, _context: Any) -> dict[str, str]:
        return {"name": NAME}

    if target.startswith("http"):
        transport = target
    else:
        command, *arguments = json.loads(target)
        transport = transports.StdioTransport(command, arguments, keep_alive=False)
    options = {} if token is None else {"auth": token}
    async with fastmcp.Client(transport, mode=mode, elicitation_handler=answer, timeout=30, **options) as client:
        (memo,) = await client.read_resource("memo://one")
        (greeting,) = (await client.get_prompt("greet", {"name": NAME})).messages
        return {
            "tools": sorted(tool.name for tool in await client.list_tools()),
            "sum": (await client.call_tool("add", {"a": 2, "b": 3})).structured_content["result"],
            "counted": text_of(await client.call_tool("count", {"to": 3}, progress_handler=note)),
            "progress": progress,
            "asked": text_of(await client.call_tool("ask", raise_on_error=False)),
            "failed": (await client.call_tool("fail", raise_on_error=False)).is_error,
            "memo": memo.text,
            "greeting": greeting.content.text,
        }


def main(target: str, mode: str, token: str | None = None) -> None:
    """Go on the tour, and print what was seen."""
    logging.disable()
    sys.stdout.write(json.dumps(asyncio.run(tour(target, mode, token))))


if __name__ == "__main__":
    main(*sys.argv[1:])
