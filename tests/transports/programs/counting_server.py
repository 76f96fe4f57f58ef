"""A server over HTTP at the port it is told, with one tool, which says how often it has run in this process."""

from __future__ import annotations

import sys
from functools import partial

import trio

from trio_mcp import Server, serve_http

server = Server("counting")
_runs = 0


@server.tool
async def count() -> int:
    global _runs  # noqa: PLW0603 # what is counted is the process
    _runs += 1
    return _runs


async def main() -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve_http, server, port=int(sys.argv[1])))
        print("ready", flush=True)  # noqa: T201 # what its parent waits for


if __name__ == "__main__":
    trio.run(main)
