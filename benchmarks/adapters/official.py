"""The official SDK, `mcp`, on asyncio. It runs in an interpreter that has `mcp`, never in that of this project."""

from __future__ import annotations

import asyncio
import importlib
import logging
import warnings
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from .asyncio_loop import AsyncioLoop
from .tools import BLOB, BLOB_URI, Cancellations, dummy_description, dummy_name, usage
from .uvicorn_server import serve_asgi

# Imported by name, because the type checkers run where the official SDK is not installed.
mcp = importlib.import_module("mcp")
mcpserver = importlib.import_module("mcp.server.mcpserver")

if TYPE_CHECKING:
    Context: TypeAlias = Any
else:
    Context = mcpserver.Context  # the SDK finds the parameter by this name

__all__ = ["Official", "OfficialSession"]

MODES = {"2025": "legacy", "2026": "2026-07-28"}


class OfficialSession:
    """See `sides.Session`."""

    def __init__(self, client: Any) -> None:
        self.client = client

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Return the wrapped value."""
        return (await self.client.call_tool(name, arguments)).structured_content["result"]

    async def text(self, size: int) -> str:
        """Return the text of the only block."""
        (block,) = (await self.client.call_tool("text", {"size": size})).content
        text: str = block.text
        return text

    async def blob(self) -> str:
        """Read the resource; the client has no cache."""
        (contents,) = (await self.client.read_resource(BLOB_URI)).contents
        blob: str = contents.blob
        return blob

    async def tools(self) -> list[str]:
        """List all pages."""
        page = await self.client.list_tools()
        tools = list(page.tools)
        while page.next_cursor is not None:
            page = await self.client.list_tools(cursor=page.next_cursor)
            tools += page.tools
        assert all(tool.input_schema["type"] == "object" for tool in tools)
        return [tool.name for tool in tools]

    async def storm(self, count: int, on_progress: Callable[[float], None]) -> Any:
        """Call with a progress callback."""

        async def update(progress: float, _total: float | None, _message: str | None) -> None:
            on_progress(progress)

        result = await self.client.call_tool("storm", {"count": count}, progress_callback=update)
        return result.structured_content["result"]

    async def wait(self) -> None:
        """Call until cancelled."""
        await self.client.call_tool("wait", {})


class Official:
    """See `sides.Adapter`."""

    loop = AsyncioLoop()

    def __init__(self) -> None:
        warnings.simplefilter("ignore")  # the legacy era is deprecated there
        logging.disable()

    @asynccontextmanager
    async def stdio(self, command: Sequence[str], era: str) -> AsyncGenerator[OfficialSession]:
        """Connect to a child process."""
        parameters = mcp.StdioServerParameters(command=command[0], args=command[1:])
        async with mcp.Client(parameters, mode=MODES[era], cache=None) as client:
            yield OfficialSession(client)

    @asynccontextmanager
    async def memory(self, server: Any, era: str) -> AsyncGenerator[OfficialSession]:
        """Connect through streams of messages in 2025, and by direct calls in 2026."""
        async with mcp.Client(server, mode=MODES[era], cache=None) as client:
            yield OfficialSession(client)

    @asynccontextmanager
    async def http(self, url: str, era: str) -> AsyncGenerator[OfficialSession]:
        """Connect with the default HTTP client."""
        async with mcp.Client(url, mode=MODES[era], cache=None) as client:
            yield OfficialSession(client)

    def server(self, dummies: int) -> Any:
        """Return the high-level server."""
        server = mcpserver.MCPServer("bench")
        publish(server)
        for number in range(dummies):
            server.add_tool(_dummy, name=dummy_name(number), description=dummy_description(number))
        return server

    def serve_stdio(self, server: Any) -> None:
        """Serve until the input ends."""
        asyncio.run(server.run_stdio_async())

    def serve_http(self, server: Any, announce: Callable[[str], None]) -> None:
        """Serve with uvicorn, a dependency of the SDK."""
        serve_asgi(server.streamable_http_app(), "/mcp", announce)


def publish(server: Any) -> None:
    """Add the tools of the benchmark."""
    cancellations = Cancellations()

    async def wait() -> int:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancellations.took()
            raise
        return 0

    async def cancelled() -> list[float]:
        return cancellations.times

    for tool in (_add, _add_later, _storm, wait, cancelled, _usage):
        server.add_tool(tool, name=tool.__name__.lstrip("_"))
    server.add_tool(_text, name="text", structured_output=False)
    server.resource(BLOB_URI)(_blob)


async def _add(a: int, b: int) -> int:
    return a + b


async def _add_later(a: int, b: int) -> int:
    await asyncio.sleep(0)
    return a + b


async def _text(size: int) -> str:
    return "x" * size


async def _storm(count: int, ctx: Context) -> int:
    for number in range(1, count + 1):
        await ctx.report_progress(number, count)
    return count


async def _usage(collect: bool) -> list[float]:
    return usage(collect)


async def _blob() -> bytes:
    return BLOB


async def _dummy(name: str, limit: int = 10) -> int:
    return len(name) + limit
