"""A server whose main module has isolated tools: `python isolated_program.py [SOCKET]`.

Without a socket it serves standard input and output; with one it connects to it, serves the connection, and does not
handle signals.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Any

import trio

from tests.server.isolated_tools import connect, leave_a_session, say, spin, spin_with_another_session, wait
from trio_mcp import Context, Limits, Server, serve_stdio, serve_stream

server = Server("isolated", limits=Limits(drain_seconds=0.2))
server.tool(isolate="process")(leave_a_session)
server.tool(isolate="process")(say)
server.tool(isolate="process")(spin)
server.tool(isolate="process")(spin_with_another_session)
server.tool(isolate="process")(wait)


@dataclass
class Message:
    content: str


@server.tool(isolate="process")
def answer(message: Message) -> Message:
    return Message(f"{message.content}, {__name__}")


@server.tool
def poll(path: str) -> None:
    """Run in a thread and check for cancellation until it comes."""
    with connect(path):
        while True:
            trio.from_thread.check_cancelled()


@server.tool
async def facts(ctx: Context) -> list[int]:
    """Return the id of this process, and the numbers of running handlers, threads and processes."""
    serving: Any = ctx._serving
    statistics = serving.statistics()
    return [os.getpid(), statistics.running, statistics.threads, statistics.processes]


async def serve_socket(path: str) -> None:
    await serve_stream(server, await trio.open_unix_socket(path))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        trio.run(serve_socket, sys.argv[1])
    else:
        trio.run(serve_stdio, server)
