"""This project: its client and its server, with default options unless the work needs others."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import trio

import trio_mcp
from trio_mcp import (
    Client,
    Context,
    HttpBound,
    Limits,
    Server,
    serve_http,
    serve_stdio,
    types,
)

from .sides import Loop, Session
from .tools import BLOB, BLOB_URI, Cancellations, dummy_description, dummy_name, usage
from .trio_loop import TrioLoop

__all__ = ["Ours", "OursSession"]

REVISIONS = {"2025": "2025-11-25", "2026": "2026-07-28"}


class OursSession:
    """See `sides.Session`."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Return the wrapped value."""
        content: Any = (await self.client.call_tool(name, arguments)).structured_content
        return content["result"]

    async def text(self, size: int) -> str:
        """Return the text of the only block."""
        (block,) = (await self.client.call_tool("text", {"size": size})).content
        assert isinstance(block, types.TextContent)
        return block.text

    async def blob(self) -> str:
        """Read the resource without the cache."""
        (contents,) = (await self.client.read_resource(BLOB_URI, fresh=True)).contents
        assert isinstance(contents, types.BlobResourceContents)
        return contents.blob

    async def tools(self) -> list[str]:
        """List all pages."""
        tools = [tool async for tool in self.client.tools(fresh=True)]
        assert all(tool.input_schema["type"] == "object" for tool in tools)
        return [tool.name for tool in tools]

    async def storm(self, count: int, on_progress: Callable[[float], None]) -> Any:
        """Call with a progress callback, like the other SDKs."""

        async def update(progress: types.ProgressNotificationParams) -> None:
            on_progress(progress.progress)

        content: Any = (await self.client.call_tool("storm", {"count": count}, on_progress=update)).structured_content
        return content["result"]

    async def wait(self) -> None:
        """Call until cancelled."""
        await self.client.call_tool("wait")


class Ours:
    """See `sides.Adapter`."""

    loop: Loop = TrioLoop()
    openers: Any = trio_mcp
    """The module whose openers make the clients."""

    def stdio(self, command: Sequence[str], era: str) -> AbstractAsyncContextManager[Session]:
        """Connect to a child process."""
        return _session(self.openers.open_stdio_client(command, revision=REVISIONS[era]))

    def memory(self, server: Any, era: str) -> AbstractAsyncContextManager[OursSession]:
        """Connect with `open_client`, which passes no bytes in memory."""
        return _session(self.openers.open_memory_client(server, revision=REVISIONS[era]))

    def http(self, url: str, era: str) -> AbstractAsyncContextManager[OursSession]:
        """Connect with the bundled HTTP client, or over a WebSocket."""
        opening = self.openers.open_client if url.startswith("ws:") else self.openers.open_http_client
        return _session(opening(url, revision=REVISIONS[era]))

    def server(self, dummies: int) -> Server:
        """Publish the tools on a new server."""
        server = self.new_server()
        publish(server)
        for number in range(dummies):
            server.tool(name=dummy_name(number), description=dummy_description(number))(_dummy)
        return server

    def new_server(self) -> Server:
        """Return a server without a progress limit, because the other SDKs have none."""
        return Server("bench", version="1", limits=Limits(max_progress_per_second=math.inf))

    def serve_stdio(self, server: Any) -> None:
        """Serve until the input ends."""
        trio.run(serve_stdio, server)

    def serve_http(self, server: Any, announce: Callable[[str], None]) -> None:
        """Serve with the bundled HTTP server."""

        async def main() -> None:
            async with trio.open_nursery() as nursery:
                bound: HttpBound = await nursery.start(partial(serve_http, server, port=0, websocket=True))
                announce(bound.url)

        trio.run(main)


def publish(server: Server) -> None:
    """Add the tools of the benchmark."""
    cancellations = Cancellations()

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def add_later(a: int, b: int) -> int:
        await trio.lowlevel.checkpoint()
        return a + b

    @server.tool
    async def text(size: int) -> types.TextContent:
        return types.TextContent(text="x" * size)

    @server.tool
    async def storm(count: int, ctx: Context) -> int:
        for number in range(1, count + 1):
            await ctx.report_progress(number, total=count)
        return count

    @server.tool
    async def wait() -> int:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            cancellations.took()
            raise

    @server.tool
    async def cancelled() -> list[float]:
        return cancellations.times

    server.tool(name="usage")(_usage)

    @server.resource(BLOB_URI)
    async def blob() -> bytes:
        return BLOB


async def _usage(collect: bool) -> list[float]:
    return usage(collect)


async def _dummy(name: str, limit: int = 10) -> int:
    return len(name) + limit


@asynccontextmanager
async def _session(opening: AbstractAsyncContextManager[Client]) -> AsyncGenerator[OursSession]:
    async with opening as client:
        yield OursSession(client)
