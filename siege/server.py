"""The server under siege: ``python -m siege.server FOLDER PORT`` serves over HTTP with defaults, until a signal.

Its handlers fail in every way, wait, ask, answer at length, and one cannot be stopped.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import time
from functools import cache, partial
from pathlib import Path

import trio
from attrs import frozen

from trio_mcp import Accepted, Context, Server, SessionSettings, SqliteEventStore, serve_http
from trio_mcp.auth import IntrospectionVerifier, Registration, ResourceServer

from .people import SERVER_ID, Parties, url_at

__all__ = ["EVENTS", "FAILURES", "MAX_FILES", "make_server"]

MAX_FILES = 1024
"""The open files that the process may have: the usual limit of Linux for a process."""
EVENTS = "events.sqlite"
"""The file of the event store, in the folder of the run."""
FAILURES = ("foreign-cancelled", "native", "exit", "interrupt", "group")
"""The ways in which the tool `fail` fails."""


class NativePanic(BaseException):
    """The exception of a native module, which is no `Exception`."""


@frozen
class Identity:
    """The principal as the server knows it."""

    principal: str
    secret: str


@frozen
class Number:
    """The form for the user."""

    n: int


def make_server(parties: Parties) -> Server:
    """Return a server with the tools of the siege."""
    server = Server("siege", version="1.0")
    add_ordinary_tools(server, parties)
    add_long_tools(server)
    add_failing_tools(server)
    return server


def add_ordinary_tools(server: Server, parties: Parties) -> None:
    """Add the tools of the ordinary user."""

    @server.tool
    async def add(a: int, b: int) -> Number:
        return Number(a + b)

    @server.tool
    def add_in_thread(a: int, b: int) -> Number:
        return Number(a + b)

    @server.tool
    async def whoami(ctx: Context) -> Identity:
        assert ctx.access is not None
        principal = ctx.access.principal
        return Identity(principal, parties.secrets[principal])

    @server.tool
    async def ask(n: int, ctx: Context) -> Number:
        match await ctx.elicit(f"Which is the number? {n}", Number):
            case Accepted(value=number):
                return number
            case _:
                return Number(-1)


def add_long_tools(server: Server) -> None:
    """Add the tools that take long, or much."""

    @server.tool
    async def wait(seconds: float, ctx: Context) -> Number:
        """Report progress once, then wait."""
        await ctx.report_progress(1)
        await trio.sleep(seconds)
        return Number(0)

    @server.tool
    def wait_in_thread(seconds: float) -> Number:
        time.sleep(seconds)
        return Number(0)

    @server.tool
    async def big(megabytes: int) -> str:
        await trio.lowlevel.checkpoint()
        return _text(megabytes)

    @server.tool
    async def stubborn() -> Number:
        """Go on after a cancellation, for longer than any limit."""
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            with trio.CancelScope(shield=True):
                await trio.sleep(600)
        return Number(0)


def add_failing_tools(server: Server) -> None:
    """Add the tools whose exceptions are no ordinary ones."""

    @server.tool
    async def fail(how: str) -> Number:
        """Fail in one of `FAILURES`."""
        match how:
            case "foreign-cancelled":
                raise await _cancellation_of_another()
            case "native":
                raise NativePanic("the native module panicked")
            case "exit":
                sys.exit(3)
            case "interrupt":
                raise KeyboardInterrupt
            case _:
                raise BaseExceptionGroup("several", [NativePanic("one"), ValueError("another")])

    @server.tool
    def fail_in_asyncio() -> Number:
        asyncio.run(_cancel_oneself())
        return Number(0)


@cache
def _text(megabytes: int) -> str:
    """Return a large text. It is made once: what is under siege is the server, and not the speed of its handlers."""
    return "x" * (megabytes * 1_000_000)


async def _cancellation_of_another() -> trio.Cancelled:
    """Return the exception that a shared flight has kept of its first caller."""
    kept: list[trio.Cancelled] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.sleep_forever()
        except trio.Cancelled as exc:
            kept.append(exc)
            raise
    return kept[0]


async def _cancel_oneself() -> None:
    raise asyncio.CancelledError


def main(folder: Path, port: int) -> None:
    """Serve."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(MAX_FILES, hard), hard))
    os.umask(0o077)
    parties = Parties.read(folder)
    registration = Registration(SERVER_ID, secret=parties.server_secret)
    auth = ResourceServer(
        url_at(port), issuers=[parties.issuer], verifier=IntrospectionVerifier(client=registration), dpop="allowed"
    )
    sessions = SessionSettings(event_store=SqliteEventStore(folder / EVENTS))
    trio.run(partial(serve_http, make_server(parties), port=port, auth=auth, sessions=sessions))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
