"""A server in which something does not end: `python stuck_program.py [tcp]`, or `trio-mcp serve stuck_program.py`.

`STUCK_SECONDS` is its `Limits.stop_seconds`, and `STUCK_LIFESPAN` says whether it does not enter or not leave its
lifespan. Over TCP it prints its port on standard output.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

from trio_mcp import Context, Limits, Server, serve_listeners, serve_stdio

LIFESPAN = os.environ.get("STUCK_LIFESPAN")
FOREVER = 1000  # seconds; each process is ended long before


async def stay() -> None:
    """Swallow a cancellation, and go on."""
    try:
        await trio.sleep_forever()
    except trio.Cancelled:
        with trio.CancelScope(shield=True):
            await trio.sleep(FOREVER)


@asynccontextmanager
async def lifespan(_: Server) -> AsyncGenerator[None]:
    if LIFESPAN == "entering":
        sys.stderr.write("blocking\n")
        await stay()
    yield
    if LIFESPAN == "leaving":
        await trio.sleep_forever()


server = Server(
    "stuck", lifespan=lifespan, limits=Limits(drain_seconds=0.1, stop_seconds=float(os.environ["STUCK_SECONDS"]))
)


@server.tool
async def swallow(ctx: Context) -> None:
    await ctx.report_progress(1)
    await stay()


@server.tool
async def block() -> None:
    sys.stderr.write("blocking\n")
    time.sleep(FOREVER)  # noqa: ASYNC251 # the fault under test


@server.tool
async def spin() -> None:
    sys.stderr.write("blocking\n")
    while True:
        pass


@server.tool
async def block_at_the_end(ctx: Context) -> None:
    await ctx.report_progress(1)
    try:
        await trio.sleep_forever()
    finally:
        time.sleep(FOREVER)  # noqa: ASYNC251 # the fault under test


@server.tool
async def background() -> str:
    server.background.start_soon(stay)
    return "started"


@server.tool
def thread(ctx: Context) -> None:
    trio.from_thread.run(ctx.report_progress, 1)
    threading.Event().wait()


async def serve_tcp() -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    sys.stdout.write(f"{listeners[0].socket.getsockname()[1]}\n")
    sys.stdout.flush()
    await serve_listeners(server, listeners)


if __name__ == "__main__":
    if "tcp" in sys.argv:
        trio.run(serve_tcp)
    else:
        trio.run(serve_stdio, server)
