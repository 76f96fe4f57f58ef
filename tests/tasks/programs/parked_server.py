"""A server over stdio whose tasks wait for answers in its memory: ``python parked_server.py sqlite|shared FILE``."""

from __future__ import annotations

import os
import sys

import trio
from attrs import frozen

from trio_mcp import Context, Server, SqliteShared, SqliteTaskStore, TaskSettings, serve_stdio
from trio_mcp.tasks import SharedTaskStore, TaskStore


@frozen
class Sure:
    sure: bool


def make_server(kind: str, path: str) -> Server:
    store: TaskStore = SqliteTaskStore(path) if kind == "sqlite" else SharedTaskStore(SqliteShared(path))
    server = Server("parked", tasks=TaskSettings(poll_interval=0.05, store=store))

    @server.tool(task="required")
    async def deploy(ctx: Context) -> str:
        return str(await ctx.elicit("Deploy?", Sure, key="sure"))

    @server.tool
    async def process_id() -> int:
        return os.getpid()

    return server


if __name__ == "__main__":
    trio.run(serve_stdio, make_server(*sys.argv[1:]))
