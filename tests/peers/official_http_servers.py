"""Servers made with the official SDK over HTTP, in every variant it has, in one process of that SDK's own interpreter.

Usage: ``python official_http_servers.py``. Prints one line, a JSON object of their URLs by name: `stateful`,
`stateless` and `json` are what the SDK calls so, `resumable` keeps its events, `sse` is the older transport, and
`changing` is the server of `official_server.py`. Serves until it is terminated.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import logging
import socket
from typing import Annotated, Any

import official_server

# By name, because the checkers of this file run where the official SDK is not installed.
mcp = importlib.import_module("mcp")
pydantic = importlib.import_module("pydantic")
resolve = importlib.import_module("mcp.server.mcpserver.resolve")
mcpserver = importlib.import_module("mcp.server.mcpserver")
streamable_http = importlib.import_module("mcp.server.streamable_http")
uvicorn = importlib.import_module("uvicorn")

Context: Any = mcpserver.Context
Seats: Any = pydantic.create_model("Seats", count=(int, ...))


class Events(streamable_http.EventStore):  # type: ignore[misc] # it is not installed where this is checked
    """All events, in the order of their ids."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        """Keep one."""
        self.kept.append((stream_id, message))
        return str(len(self.kept) - 1)

    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str | None:
        """Send those of the same stream that are later."""
        stream, _ = self.kept[int(last_event_id)]
        for number, (each, message) in enumerate(self.kept):
            if number > int(last_event_id) and each == stream and message is not None:
                await send_callback(streamable_http.EventMessage(message, str(number)))
        return stream


async def ask_seats() -> Any:
    """Ask the user."""
    return resolve.Elicit("How many seats?", Seats)


async def ask_roots() -> Any:
    """Ask for the folders."""
    return resolve.ListRoots()


async def ask_model() -> Any:
    """Ask the model."""
    content = mcp.types.TextContent(type="text", text="much")
    return resolve.Sample([mcp.types.SamplingMessage(role="user", content=content)], max_tokens=50)


def make_server() -> Any:
    """A server with something of everything."""
    server = mcpserver.MCPServer("official")
    stopped: list[str] = []

    async def add(a: int, b: int) -> int:
        return a + b

    async def count(steps: int, ctx: Context) -> str:
        for step in range(1, steps + 1):
            await ctx.report_progress(step, steps, f"step {step}")
        return "counted"

    async def hang(name: str, ctx: Context) -> str:
        await ctx.report_progress(1)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.append(name)
            raise
        return "hung"

    async def was_stopped(name: str) -> bool:
        return name in stopped

    async def book(seats: Annotated[Any, resolve.Resolve(ask_seats)]) -> str:
        return f"{seats.count} seats"

    async def folders(roots: Annotated[Any, resolve.Resolve(ask_roots)]) -> list[str]:
        return [str(root.uri) for root in roots.roots]

    async def summarise(said: Annotated[Any, resolve.Resolve(ask_model)]) -> str:
        return f"{said.model}: {said.content.text}"

    async def complain(ctx: Context) -> str:
        await ctx.warning("the pond is dry", logger_name="garden")
        return "complained"

    async def be_patient(steps: int, ctx: Context) -> str:
        for step in range(1, steps + 1):
            await ctx.close_sse_stream()
            await ctx.report_progress(step, steps)
        return "thank you"

    for tool in (add, count, hang, was_stopped, book, folders, summarise, complain, be_patient):
        server.add_tool(tool)

    @server.resource("memo://{name}")
    def memo(name: str) -> str:
        return f"about {name}"

    @server.prompt()
    def plan(topic: str) -> str:
        return f"Plan {topic}."

    @server.completion()
    async def complete(_ref: Any, argument: Any, _context: Any) -> Any:
        return mcp.types.Completion(values=[f"{argument.value}ing"], total=1, has_more=False)

    _ = memo, plan, complete
    return server


async def serve(app: Any, path: str, stack: contextlib.AsyncExitStack) -> str:
    """Serve an application until the stack is left, and return its URL."""
    listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    group = await stack.enter_async_context(asyncio.TaskGroup())
    group.create_task(uvicorn.Server(uvicorn.Config(app, log_level="error")).serve([listening]))
    return f"http://127.0.0.1:{listening.getsockname()[1]}{path}"


async def main() -> None:
    """Serve all of them."""
    told = official_server.server_module.NotificationOptions(
        prompts_changed=True, resources_changed=True, tools_changed=True
    )
    official_server.server.notification_options = told
    async with contextlib.AsyncExitStack() as stack:
        urls = {
            "stateful": await serve(make_server().streamable_http_app(), "/mcp", stack),
            "stateless": await serve(make_server().streamable_http_app(stateless_http=True), "/mcp", stack),
            "json": await serve(make_server().streamable_http_app(json_response=True), "/mcp", stack),
            "resumable": await serve(
                make_server().streamable_http_app(event_store=Events(), retry_interval=10), "/mcp", stack
            ),
            "sse": await serve(make_server().sse_app(), "/sse", stack),
            "changing": await serve(official_server.server.streamable_http_app(), "/mcp", stack),
        }
        print(json.dumps(urls), flush=True)


if __name__ == "__main__":
    logging.disable()
    asyncio.run(main())
