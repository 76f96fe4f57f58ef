"""A server with one example of each feature that the command line shows: `python sample_server.py [CANCELLED_FILE]`."""

from __future__ import annotations

import sys
from pathlib import Path

import trio
from attrs import frozen

from trio_mcp import Context, Image, Server, serve_stdio, types

server = Server("sample", version="2.5", instructions="Read this first.\nThen that.")


def record(event: str) -> None:
    Path(sys.argv[1]).write_text(event)


@frozen
class Place:
    name: str
    height: float | None = None


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
async def crunch(steps: int, ctx: Context) -> str:
    """Work for a while and report progress."""
    for done in range(steps):
        await ctx.report_progress(done + 1, total=steps, message=f"step {done + 1}")
    return "crunched"


@server.tool
async def hang(ctx: Context) -> None:
    """Run until cancelled, then record the cancellation in a file."""
    await ctx.report_progress(1, total=7)
    try:
        await trio.sleep_forever()
    finally:
        record("stopped")


@server.tool
async def fail(why: str = "no reason") -> None:
    """Fail."""
    raise ValueError(why)


@server.tool
async def picture() -> Image:
    """A picture of four bytes."""
    return Image(b"\x89PNG", "image/png")


@server.tool
async def place(where: Place, tags: list[str]) -> Place:
    """Return the place."""
    return Place(f"{where.name} {'+'.join(tags)}", where.height)


@server.tool
async def chatter(ctx: Context) -> str:
    """Log."""
    await ctx.log("info", "all is well")
    await ctx.log("warning", {"disk": "full"}, logger="disk")
    return "logged"


@server.resource("greeting://{name}")
async def greeting(name: str) -> str:
    """A greeting for one person."""
    return f"Hello, {name}!"


@server.resource("bytes://all", mime_type="application/octet-stream")
async def all_bytes() -> bytes:
    """Every byte."""
    return bytes(range(256))


@server.prompt
def review(code: str, tone: str = "kind") -> list[types.PromptMessage]:
    """Ask for a code review."""
    return [
        types.PromptMessage(role="user", content=types.TextContent(text=f"Be {tone}.")),
        types.PromptMessage(role="user", content=types.TextContent(text=code)),
    ]


if __name__ == "__main__":
    trio.run(serve_stdio, server)
