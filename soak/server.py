"""The server under load: ``python -m soak.server stdio FOLDER``, or with ``http FOLDER [PORT]`` or ``websocket ...``.

What its handlers do goes into a journal in FOLDER. Over HTTP and WebSocket it prints its URL and serves until its input
ends. Unused sessions expire soon, so that none is left when a run is at rest.
"""

from __future__ import annotations

import gc
import os
import sys
from functools import partial
from pathlib import Path

import trio
from attrs import frozen

from trio_mcp import (
    Accepted,
    Context,
    Limits,
    MemoryEventStore,
    Server,
    SessionSettings,
    serve_http,
    serve_stdio,
)

from . import apart
from .journal import Journal
from .log_faults import faults_go_to
from .vitals import release_garbage

__all__ = ["LIMITS", "make_server"]

LIMITS = Limits(drain_seconds=1.0, max_processes=1, max_message_bytes=2**22)
SESSIONS = SessionSettings(
    idle_seconds=4.0, half_open_seconds=4.0, retry_seconds=0.1, event_store=MemoryEventStore(max_age=2.0)
)
KEEP_ALIVE_SECONDS = 5.0
"""The keep-alive timeout, longer than that of clients: closing a connection during a request would lose the request."""
WRITE_SECONDS = 300.0
"""The write timeout: the server waits for clients that do not read, which must cost nothing."""


@frozen
class Reply:
    """An answer that names its call."""

    n: int
    fill: str = ""


@frozen
class Number:
    """The form for the user."""

    n: int


@frozen
class Inside:
    """The values that only the process itself can report."""

    pid: int
    tasks: int
    objects: int


def make_server(journal: Journal) -> Server:
    """Return a server whose every call has a number, *n*, which goes into *journal*."""
    server = Server("soak", version="1.0", limits=LIMITS)
    add_calls(server, journal)
    add_long_calls(server, journal)
    server.tool(isolate="process")(apart.compute)
    server.tool(isolate="process")(apart.spin)

    @server.tool
    async def inside() -> Inside:
        return look_inside()

    @server.resource("thing://{name}")
    async def thing(name: str) -> str:
        return name

    @server.prompt
    def review(code: str) -> str:
        return f"Please review {code}."

    return server


def add_calls(server: Server, journal: Journal) -> None:
    """Add the tools that answer at once."""

    @server.tool
    async def echo(n: int, size: int = 0) -> Reply:
        with journal.handling(n):
            return Reply(n, "x" * size)

    @server.tool
    def echo_in_a_thread(n: int) -> Reply:
        with journal.handling(n):
            return Reply(n)

    @server.tool
    async def touch(n: int, ctx: Context) -> Reply:
        """Notify the subscribers that the resource of this number has changed."""
        with journal.handling(n):
            ctx.resource_updated(f"thing://{n}")
            return Reply(n)

    @server.tool
    async def flip(n: int) -> Reply:
        """Change the list of tools."""
        with journal.handling(n):
            server.tool(name="passing")(lambda: None)
            server.tools.remove("passing")
            return Reply(n)


def add_long_calls(server: Server, journal: Journal) -> None:
    """Add the slow tools."""

    @server.tool
    async def count(n: int, steps: int, ctx: Context) -> Reply:
        with journal.handling(n):
            for done in range(1, steps + 1):
                await ctx.report_progress(done, total=steps)
            return Reply(n)

    @server.tool
    async def nap(n: int, seconds: float, size: int = 0) -> Reply:
        with journal.handling(n):
            await trio.sleep(seconds)
            return Reply(n, "x" * size)

    @server.tool
    async def hang(n: int, ctx: Context) -> Reply:
        """Report progress once, then run until cancelled."""
        with journal.handling(n):
            await ctx.report_progress(1)
            await trio.sleep_forever()

    @server.tool
    async def ask(n: int, ctx: Context) -> Reply:
        with journal.handling(n):
            match await ctx.elicit(f"Which is the number? {n}", Number):
                case Accepted(value=number):
                    return Reply(number.n)
                case _:
                    return Reply(-1)


def look_inside() -> Inside:
    """Return the resources of this process, after a garbage collection."""
    release_garbage()
    return Inside(os.getpid(), trio.lowlevel.current_statistics().tasks_living, len(gc.get_objects()))


async def serve_at_port(server: Server, over: str, port: int) -> None:
    """Serve over HTTP or WebSockets until standard input ends."""
    async with trio.open_nursery() as nursery:
        serving = partial(
            serve_http,
            server,
            port=port,
            sessions=SESSIONS,
            keep_alive_seconds=KEEP_ALIVE_SECONDS,
            write_seconds=WRITE_SECONDS,
            websocket=over == "websocket",
        )
        bound = await nursery.start(serving)
        print(bound.url.replace("http", "ws", 1) if over == "websocket" else bound.url, flush=True)
        stdin = trio.lowlevel.FdStream(os.dup(sys.stdin.fileno()))
        async with stdin:
            while await stdin.receive_some():
                pass
        await bound.stop()


def main(over: str, folder: str, port: str = "0") -> None:
    """Serve."""
    journal = Journal.open(Path(folder), f"server-{os.getpid()}")
    os.environ[apart.FOLDER] = folder
    server = make_server(journal)
    with faults_go_to(journal):
        if over == "stdio":
            trio.run(serve_stdio, server)
        else:
            trio.run(serve_at_port, server, over, int(port))


if __name__ == "__main__":
    main(*sys.argv[1:])
