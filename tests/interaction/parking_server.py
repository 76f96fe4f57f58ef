"""A server that is stopped while many handlers are parked: `python parking_server.py FILE`.

The clean-up of each handler awaits once, and then adds a line to FILE.
"""

from __future__ import annotations

import sys

import trio

from trio_mcp import AskExpired, Context, Limits, Server, serve_stdio

MOST = 100
DRAIN_SECONDS = 0.5

server = Server("parking", limits=Limits(max_parked=MOST, drain_seconds=DRAIN_SECONDS))


@server.tool
async def book(show: str, ctx: Context) -> None:
    form = {"type": "object", "properties": {"count": {"type": "integer"}}}
    try:
        await ctx.elicit(f"How many seats for {show}?", form)
    except AskExpired as exc:
        await trio.sleep(0.1)
        async with await trio.open_file(sys.argv[1], "a") as file:
            await file.write(f"{show}: {exc}\n")
        raise


if __name__ == "__main__":
    trio.run(serve_stdio, server)
