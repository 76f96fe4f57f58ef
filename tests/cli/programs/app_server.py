"""A server with an app, for tests of `trio-mcp app`."""

from __future__ import annotations

from trio_mcp import Csp, McpError, Server

server = Server("charts", title="The charts", version="1")
calls = 0


@server.app("ui://chart", csp=Csp(connect=["https://api.example.com"]), permissions=["clipboard_write"])
def chart() -> str:
    """Return a page that says nothing, because tests play it."""
    return "<!doctype html><title>Chart</title>"


@server.tool(app="ui://chart")
async def sales(year: int) -> dict[str, int]:
    """Count the sales of a year, and the calls."""
    global calls  # noqa: PLW0603 # a small program
    calls += 1
    if year < 0:
        raise McpError(-32050, "no such year")
    return {"year": year, "calls": calls}


@server.tool
async def plain() -> str:
    """Return text, without an app."""
    return "plain"


@server.resource("report://text/{name}", mime_type="text/csv")
def text(name: str) -> str:
    """Return a file of text."""
    return f"{name};ä"


@server.resource("report://bytes")
def data() -> bytes:
    """Return a file of bytes."""
    return b"\xff\x00"


if __name__ == "__main__":
    server.run()
