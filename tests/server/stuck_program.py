"""A server in which something does not end: `python stuck_program.py [stdio | tcp | http] STOP_SECONDS [lifespan]`.

Over HTTP and TCP it prints its address on standard output.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import trio

from trio_mcp import Context, Limits, Server, serve_http, serve_listeners, serve_stdio

FOREVER = 1000  # seconds; each process is ended long before


async def stay() -> None:
    """Swallow every cancellation."""
    while True:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.01)


@asynccontextmanager
async def lifespan(_: Server) -> AsyncGenerator[None]:
    if "entering" in sys.argv:
        print("entering", flush=True, file=sys.stderr)
        await stay()
    yield
    if "leaving" in sys.argv:
        print("leaving", flush=True, file=sys.stderr)
        await stay()


server = Server("stuck", lifespan=lifespan, limits=Limits(drain_seconds=0.1, stop_seconds=float(sys.argv[2])))


@server.tool
async def swallow(ctx: Context) -> None:
    await ctx.report_progress(1)
    await stay()


@server.tool
async def block() -> None:
    print("blocking", flush=True, file=sys.stderr)
    time.sleep(FOREVER)


@server.tool
async def spin() -> None:
    print("blocking", flush=True, file=sys.stderr)
    while True:
        pass


@server.tool
async def block_at_the_end() -> None:
    try:
        await trio.sleep_forever()
    finally:
        time.sleep(FOREVER)


@server.tool
async def background(ctx: Context) -> str:
    server.background.start_soon(stay)
    return "started"


@server.tool
def thread(ctx: Context) -> None:
    trio.from_thread.run(ctx.report_progress, 1)
    threading.Event().wait()


def main() -> None:
    match sys.argv[1]:
        case "stdio":
            trio.run(serve_stdio, server)
        case "http":
            trio.run(run_http)
        case _:
            trio.run(run_tcp)


async def run_http() -> None:
    await serve_http(server, port=0)


async def run_tcp() -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    print(listeners[0].socket.getsockname()[1], flush=True)
    await serve_listeners(server, listeners)


if __name__ == "__main__":
    main()
