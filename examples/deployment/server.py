"""A server for the deployments of this folder."""

from trio_mcp import Server

server = Server("notes")


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
