"""An HTTP server at the port of its argument, whose tool returns how often it has run in this process."""

from __future__ import annotations

import sys
from functools import partial

import trio

from trio_mcp import Server, serve_http

server = Server("counting")
_runs = 0


@server.tool
async def count() -> int:
    global _runs  # noqa: PLW0603 # the calls of the whole process are counted
    _runs += 1
    return _runs


async def main() -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve_http, server, port=int(sys.argv[1])))
        print("ready", flush=True)  # noqa: T201 # its parent waits for this line


if __name__ == "__main__":
    trio.run(main)
