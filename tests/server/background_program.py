"""A server whose calls start work that outlives them: `python background_program.py FILE`."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import trio

from trio_mcp import Context, Server, serve_stdio


@asynccontextmanager
async def lifespan(_: Server) -> AsyncGenerator[trio.Path]:
    file = trio.Path(sys.argv[1])
    try:
        yield file
    finally:
        with trio.CancelScope(shield=True):
            await write(file, "lifespan left")


server = Server("background", lifespan=lifespan)
go = trio.Event()


async def write(file: trio.Path, line: str) -> None:
    async with await file.open("a") as opened:
        await opened.write(line + "\n")


@server.tool
async def begin(ctx: Context, then_wait: bool) -> None:
    """Start a background task; if `then_wait` is true, run until the call is cancelled."""
    server.background.start_soon(work, ctx.state)
    await ctx.report_progress(1)
    if then_wait:
        await trio.sleep_forever()


async def work(file: trio.Path) -> None:
    await go.wait()
    await write(file, "work done")


@server.tool
async def finish_work() -> None:
    go.set()


@server.tool
async def running(ctx: Context) -> int:
    serving: Any = ctx._serving
    return int(serving.statistics().background)


if __name__ == "__main__":
    trio.run(serve_stdio, server)
