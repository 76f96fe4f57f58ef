"""A server that a test stops while it works: `python stopping_server.py FOLDER [unix | tcp | http]`.

Over sockets and HTTP it prints its address on standard output.
"""

from __future__ import annotations

import logging
import os
import sys
from functools import partial
from pathlib import Path

import trio
from attrs import frozen

from trio_mcp import AskExpired, Context, Limits, Server, serve_http, serve_listeners, serve_stdio

FOLDER = Path(sys.argv[1])

server = Server("stopping", limits=Limits(drain_seconds=20))


@server.tool
async def pid() -> int:
    return os.getpid()


@server.tool
async def finish(ctx: Context) -> str:
    """Report the start, and return when the test requests it."""
    await ctx.report_progress(1)
    while not (FOLDER / "release").exists():  # noqa: ASYNC110 # another process makes it
        await trio.sleep(0.01)
    return "done"


@frozen
class Name:
    name: str


@server.tool
async def ask(ctx: Context) -> None:
    """Ask, and record in an async clean-up that no answer arrived."""
    try:
        await ctx.elicit("Who are you?", Name)
    except AskExpired:
        await trio.lowlevel.checkpoint()
        await trio.Path(FOLDER / "expired").write_text("cleaned up")
        raise


async def over_unix() -> None:
    listening = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM)
    await listening.bind(str(FOLDER / "socket"))
    listening.listen()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await serve_listeners(server, [trio.SocketListener(listening)])


async def over_tcp() -> None:
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    sys.stdout.write(f"{listener.socket.getsockname()[1]}\n")
    sys.stdout.flush()
    await serve_listeners(server, [listener])


if __name__ == "__main__":
    match sys.argv[2:]:
        case ["unix"]:
            trio.run(over_unix)
        case ["tcp"]:
            trio.run(over_tcp)
        case ["http"]:
            logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
            trio.run(partial(serve_http, server, port=0))
        case _:
            trio.run(serve_stdio, server)
