"""A process of a service whose handlers pay once, and whose calls are limited: ``sharing.py REDIS PREFIX JOURNAL``."""

import os
import sys
from functools import partial
from pathlib import Path

import trio

from trio_mcp import Context, RateLimit, RedisShared, Server, serve_http

_, url, prefix, journal = sys.argv
limit = RateLimit(per_second=0.001, burst=40, methods={"tools/call"})
server = Server("sharing", asking="replayed", middleware=[limit])


def write(line: str) -> None:
    with Path(journal).open("a") as file:
        file.write(f"{line}\n")


async def pay() -> int:
    """Pay when the retry has reached both processes."""
    write("paid")
    path = trio.Path(journal)
    while (await path.read_text()).count("reached") < 2:  # noqa: ASYNC110 # of another process
        await trio.sleep(0.01)
    return os.getpid()


@server.tool
async def buy(ctx: Context) -> int:
    await ctx.list_roots()
    write("reached")
    return await ctx.once("pay", pay)


@server.tool
async def dig() -> None:
    """Do nothing."""


async def main() -> None:
    async with trio.open_nursery() as nursery:
        bound = await nursery.start(partial(serve_http, server, port=0, shared=RedisShared(url, prefix=prefix)))
        sys.stdout.write(f"{bound.url}\n")
        sys.stdout.flush()


trio.run(main)
