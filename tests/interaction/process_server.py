"""A server to be killed, interrupted and redirected: `python process_server.py FILE [HOW]`.

Its clean-up writes to FILE. HOW embeds it into a larger program.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import trio

from trio_mcp import Context, Limits, Server, serve_stdio

GRANDCHILD = """
import socket, sys
held = socket.socket(socket.AF_UNIX)
held.connect(sys.argv[1])
held.sendall(b"here")
held.recv(1)
"""


@asynccontextmanager
async def lifespan(_: Server) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        with trio.CancelScope(shield=True):
            await trio.Path(sys.argv[1]).write_text("cleaned up")


server = Server("process", lifespan=lifespan, limits=Limits(drain_seconds=0.2))


@server.tool
async def pid() -> int:
    return os.getpid()


@server.tool
async def hang(ctx: Context) -> None:
    await ctx.report_progress(1)
    await trio.sleep_forever()


@server.tool
def mutter(text: str) -> None:
    """Print something on standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


@server.tool
def spawn(socket: str) -> None:
    """Start a child process that keeps a socket and our standard output open until it is killed."""
    subprocess.Popen([sys.executable, "-S", "-c", GRANDCHILD, socket])


async def embedded(how: str) -> None:
    """Serve as a part of a program that handles signals itself."""
    with trio.open_signal_receiver(signal.SIGTERM) as received:
        async with trio.open_nursery() as nursery:
            if how == "started":
                await nursery.start(serve_stdio, server)
            else:
                nursery.start_soon(partial(serve_stdio, server, signals=False))
            async for _ in received:
                break
            nursery.cancel_scope.cancel()
    sys.exit(5)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        trio.run(embedded, sys.argv[2])
    else:
        trio.run(serve_stdio, server)
