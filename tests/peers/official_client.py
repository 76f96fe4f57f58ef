"""The official SDK's client, made to play a plan: run by that SDK's own interpreter, never imported by ours.

Usage: ``python official_client.py MODE PLAN COMMAND...``. MODE is what the official `Client` calls its mode
("auto", "legacy" or a modern revision), PLAN a JSON list of steps, COMMAND starts the server. Standard output
gets one JSON object: what was negotiated, and what came of each step. Nothing is judged here.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from typing import Any

# By name, because the checkers of this file run where the official SDK is not installed.
mcp = importlib.import_module("mcp")


class Player:
    """Plays steps on an open client; `step["do"]` names a method of this class, the rest are its arguments."""

    def __init__(self, client: Any) -> None:
        self.client = client

    async def play(self, step: dict[str, Any]) -> Any:
        """The outcome of one step."""
        arguments = {name: value for name, value in step.items() if name != "do"}
        return await getattr(self, step["do"])(**arguments)

    async def tools(self) -> list[str]:
        """The names of the tools, in the server's order."""
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def resources(self) -> list[str]:
        """The URIs of the resources."""
        return [str(resource.uri) for resource in (await self.client.list_resources()).resources]

    async def prompts(self) -> list[str]:
        """The names of the prompts."""
        return [prompt.name for prompt in (await self.client.list_prompts()).prompts]

    async def read(self, uri: str) -> Any:
        """The contents of one resource."""
        return plain(await self.client.read_resource(uri))["contents"]

    async def prompt(self, name: str, arguments: dict[str, str]) -> Any:
        """The messages of one prompt."""
        return plain(await self.client.get_prompt(name, arguments))["messages"]

    async def call(self, tool: str, arguments: dict[str, Any], cancel_after: int | None = None) -> dict[str, Any]:
        """Call a tool, listening to its progress; leave the call at report number `cancel_after`, if one is given."""
        reports: list[list[Any]] = []

        async def listen(progress: float, total: float | None, message: str | None) -> None:
            reports.append([progress, total, message])
            if len(reports) == cancel_after:
                calling.cancel()

        calling = asyncio.ensure_future(self.client.call_tool(tool, arguments, progress_callback=listen))
        await asyncio.wait([calling])
        cancelled = calling.cancelled()
        return {"result": None if cancelled else plain(calling.result()), "progress": reports, "cancelled": cancelled}


def plain(model: Any) -> Any:
    """What the model looks like on the wire."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


async def main(mode: str, plan: list[dict[str, Any]], command: list[str]) -> dict[str, Any]:
    """Connect, play the whole plan, close, and tell."""
    server = mcp.StdioServerParameters(command=command[0], args=command[1:])
    async with mcp.Client(server, mode=mode) as client:
        player = Player(client)
        outcomes = [await player.play(step) for step in plan]
        # A pinned modern client has asked the server nothing yet, and may not know its name.
        server_name = client.server_info.name if client.server_info else None
        return {"revision": client.protocol_version, "server": server_name, "steps": outcomes}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:]))))
