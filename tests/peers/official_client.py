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

LISTS = {
    "tools": "list_tools",
    "resources": "list_resources",
    "resource_templates": "list_resource_templates",
    "prompts": "list_prompts",
}
LOG_LEVEL = "io.modelcontextprotocol/logLevel"


class Player:
    """Plays steps on an open client; `step["do"]` names a method of this class, the rest are its arguments."""

    def __init__(self) -> None:
        self.client: Any = None
        self.meta: dict[str, Any] | None = None
        self.questions: list[Any] = []
        self.messages: list[Any] = []
        self.message_came = asyncio.Event()

    async def on_log(self, message: Any) -> None:
        """Keep a log message of the server."""
        self.messages.append(plain(message))
        self.message_came.set()

    def callbacks(self, plan: list[dict[str, Any]]) -> dict[str, Any]:
        """Take what is to be answered to questions of the server out of a plan, as callbacks; no step, none of it."""
        if not plan or plan[0]["do"] != "answers":
            return {}
        answers = {name: value for name, value in plan.pop(0).items() if name != "do"}
        results = {
            "elicitation": mcp.types.ElicitResult,
            "sampling": mcp.types.CreateMessageResult,
            "list_roots": mcp.types.ListRootsResult,
        }

        def answering(name: str) -> Any:
            async def answer(_: Any, params: Any = None) -> Any:
                self.questions.append(None if params is None else plain(params))
                return results[name].model_validate(answers[name])

            return answer

        return {f"{name}_callback": answering(name) for name in answers}

    async def asked(self) -> list[Any]:
        """The questions of the server so far."""
        return self.questions

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

    async def pages(self, kind: str) -> list[Any]:
        """The pages of a list, from the first to the last."""
        pages: list[Any] = []
        cursor: str | None = None
        while cursor is not None or not pages:
            page = await getattr(self.client, LISTS[kind])(cursor=cursor)
            pages.append(plain(page)[to_camel_case(kind)])
            cursor = page.next_cursor
        return pages

    async def page(self, kind: str, cursor: str) -> Any:
        """The page of a list at a cursor."""
        return plain(await getattr(self.client, LISTS[kind])(cursor=cursor))

    async def complete(self, ref: dict[str, str], name: str, value: str, settled: dict[str, str] | None = None) -> Any:
        """What is suggested for an argument."""
        kinds = {"ref/prompt": mcp.types.PromptReference, "ref/resource": mcp.types.ResourceTemplateReference}
        result = await self.client.complete(kinds[ref["type"]](**ref), {"name": name, "value": value}, settled)
        return plain(result)["completion"]

    async def log_level(self, level: str) -> None:
        """Ask for log messages: once for the whole connection, or, in a modern revision, with each later call."""
        if self.client.protocol_version >= "2026":
            self.meta = {LOG_LEVEL: level}
        else:
            await self.client.set_logging_level(level)

    async def logged(self, count: int) -> list[Any]:
        """So many log messages; waits for them."""
        while len(self.messages) < count:
            self.message_came.clear()
            await self.message_came.wait()
        return self.messages

    async def attempt(self, step: dict[str, Any]) -> Any:
        """The error that answers another step."""
        try:
            return {"answered": await self.play(step)}
        except mcp.MCPError as refused:
            return plain(refused.error)

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

        calling = asyncio.ensure_future(
            self.client.call_tool(tool, arguments, progress_callback=listen, meta=self.meta)
        )
        await asyncio.wait([calling])
        cancelled = calling.cancelled()
        return {"result": None if cancelled else plain(calling.result()), "progress": reports, "cancelled": cancelled}


def to_camel_case(name: str) -> str:
    """The name of a member as it is on the wire."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def plain(model: Any) -> Any:
    """What the model looks like on the wire."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


async def main(mode: str, plan: list[dict[str, Any]], command: list[str]) -> dict[str, Any]:
    """Connect, play the whole plan, close, and tell."""
    server = mcp.StdioServerParameters(command=command[0], args=command[1:])
    player = Player()
    callbacks = player.callbacks(plan)
    async with mcp.Client(server, mode=mode, logging_callback=player.on_log, **callbacks) as player.client:
        client = player.client
        outcomes = [await player.play(step) for step in plan]
        # A pinned modern client has asked the server nothing yet, and may not know its name.
        server_name = client.server_info.name if client.server_info else None
        return {"revision": client.protocol_version, "server": server_name, "steps": outcomes}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:]))))
