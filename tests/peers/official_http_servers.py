"""Every variant of an HTTP server that the official SDK has, in one process of that SDK's interpreter.

Usage: ``python official_http_servers.py``. Prints one line, a JSON object of their URLs by name: `stateful`,
`stateless` and `json` are modes of the SDK, `resumable` stores its events, `sse` is the legacy transport, and
`changing` is the server of `official_server.py`. Serves until it is terminated.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import json
import logging
import socket
import sys
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

# By name, because type checkers run where the official SDK is not installed.
mcp = importlib.import_module("mcp")
pydantic = importlib.import_module("pydantic")
resolve = importlib.import_module("mcp.server.mcpserver.resolve")
official_server = importlib.import_module("official_server")
mcpserver = importlib.import_module("mcp.server.mcpserver")
server_module = importlib.import_module("mcp.server")
streamable_http = importlib.import_module("mcp.server.streamable_http")
uvicorn = importlib.import_module("uvicorn")

if TYPE_CHECKING:
    Context: TypeAlias = Any
else:
    Context = mcpserver.Context  # the SDK finds the parameter by this name
Seats: Any = pydantic.create_model("Seats", count=(int, ...))


class Events:
    """A store of all events, in the order of their ids."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        """Store one event."""
        self.kept.append((stream_id, message))
        return str(len(self.kept) - 1)

    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str | None:
        """Send the later events of the same stream."""
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


stopped: list[str] = []
"""The names of the work that was stopped."""


async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def count(steps: int, ctx: Context) -> str:
    """Report steps."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step}")
    return "counted"


async def hang(name: str, ctx: Context) -> str:
    """Work until cancelled."""
    await ctx.report_progress(1)
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        stopped.append(name)
        raise
    return "hung"


async def was_stopped(name: str) -> bool:
    """True if the work of that name was stopped."""
    return name in stopped


async def book(seats: Annotated[Any, resolve.Resolve(ask_seats)]) -> str:
    """Ask the user."""
    return f"{seats.count} seats"


async def folders(roots: Annotated[Any, resolve.Resolve(ask_roots)]) -> list[str]:
    """Ask for the roots."""
    return [str(root.uri) for root in roots.roots]


async def summarise(answer: Annotated[Any, resolve.Resolve(ask_model)]) -> str:
    """Ask the model."""
    return f"{answer.model}: {answer.content.text}"


async def complain(ctx: Context) -> str:
    """Log."""
    await ctx.warning("the pond is dry", logger_name="garden")
    return "complained"


async def be_patient(steps: int, ctx: Context) -> str:
    """Close the stream, so that the client reconnects."""
    for step in range(1, steps + 1):
        await ctx.close_sse_stream()
        await ctx.report_progress(step, steps)
    return "thank you"


def memo(name: str) -> str:
    """A resource."""
    return f"about {name}"


def plan(topic: str) -> str:
    """A prompt."""
    return f"Plan {topic}."


async def complete(_ref: Any, argument: Any, _context: Any) -> Any:
    """The suggestions for any argument."""
    return mcp.types.Completion(values=[f"{argument.value}ing"], total=1, has_more=False)


def make_server() -> Any:
    """A server with every feature."""
    server = mcpserver.MCPServer("official")
    for tool in (add, count, hang, was_stopped, book, folders, summarise, complain, be_patient):
        server.add_tool(tool)
    server.resource("memo://{name}")(memo)
    server.prompt()(plan)
    server.completion()(complete)
    return server


async def serve(app: Any, path: str, stack: contextlib.AsyncExitStack) -> str:
    """Serve an application until the stack is left, and return its URL."""
    listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    group = await stack.enter_async_context(asyncio.TaskGroup())
    group.create_task(uvicorn.Server(uvicorn.Config(app, log_level="error")).serve([listening]))
    return f"http://127.0.0.1:{listening.getsockname()[1]}{path}"


async def main() -> None:
    """Serve all of them."""
    # Over HTTP the SDK cannot declare that lists change, and its client would not listen.
    notification_options = server_module.NotificationOptions(
        prompts_changed=True, resources_changed=True, tools_changed=True
    )
    server = official_server.server
    server.create_initialization_options = functools.partial(server.create_initialization_options, notification_options)
    async with contextlib.AsyncExitStack() as stack:
        urls = {
            "stateful": await serve(make_server().streamable_http_app(), "/mcp", stack),
            "stateless": await serve(make_server().streamable_http_app(stateless_http=True), "/mcp", stack),
            "json": await serve(make_server().streamable_http_app(json_response=True), "/mcp", stack),
            "resumable": await serve(
                make_server().streamable_http_app(event_store=Events(), retry_interval=10), "/mcp", stack
            ),
            "sse": await serve(make_server().sse_app(), "/sse", stack),
            "changing": await serve(server.streamable_http_app(), "/mcp", stack),
        }
        sys.stdout.write(json.dumps(urls) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    logging.disable()
    asyncio.run(main())
