"""Helpers of the tests of the server: a server with one lasting serving, and the text of tool results."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from trio_mcp import types
from trio_mcp.server import ActiveServer


class SharedServing:
    """A server whose connections share one serving, which outlasts them."""

    def __init__(self, serving: ActiveServer) -> None:
        self._serving = serving

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[ActiveServer]:
        yield self._serving


def text_of(result: types.CallToolResult) -> str:
    """Return the text of a result that consists of one text block."""
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text
