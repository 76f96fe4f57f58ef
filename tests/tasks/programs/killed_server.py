"""A server over stdio with tasks in an SQLite file, for tests that kill it: ``python killed_server.py FILE``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import trio

from trio_mcp import Server, SqliteTaskStore, TaskSettings, serve_stdio

server = Server(
    "killed", tasks=TaskSettings(ttl=600, poll_interval=0.05, max_tasks=10**6, store=SqliteTaskStore(sys.argv[1]))
)


@server.tool(task="required")
async def work(seconds: float) -> str:
    await trio.sleep(seconds)
    return f"worked {seconds:g} s"


if __name__ == "__main__":
    Path(f"{sys.argv[1]}.pid").write_text(str(os.getpid()))
    trio.run(serve_stdio, server)
