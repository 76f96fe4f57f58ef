"""This project with its client for programs without async. The server is the same, on Trio."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from trio_mcp.sync import Client, open_stdio_client

from ..floors.calls_only import CallsOnlySession
from .ours import REVISIONS, Ours
from .threads_loop import ThreadsLoop

__all__ = ["OursSync"]


class OursSyncSession(CallsOnlySession):
    """See `sides.Session`; it only calls. Its coroutines block instead of suspending, as a `ThreadsLoop` requires."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Return the wrapped value."""
        content: Any = self.client.call_tool(name, arguments).structured_content
        return content["result"]

    async def tools(self) -> list[str]:
        """List all pages."""
        return [tool.name for tool in self.client.tools(fresh=True)]


class OursSync(Ours):
    """See `sides.Adapter`; it connects over stdio only."""

    loop = ThreadsLoop()

    @asynccontextmanager
    async def stdio(self, command: Sequence[str], era: str) -> AsyncGenerator[OursSyncSession]:
        """Connect to a child process."""
        with open_stdio_client(command, revision=REVISIONS[era]) as client:
            yield OursSyncSession(client)
