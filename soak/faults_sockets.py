"""The faults of HTTP and WebSockets: cut connections, a network that is down, and killed or suspended servers."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import trio

from trio_mcp import Changes, ConnectionLost, ResponseLost

from .accounting import CUT, KILL, SAFE
from .book import TIMEOUT_SECONDS, Book
from .cuttable import cuttable
from .load import call_number, start_many_calls
from .places import ERAS, Fault, HttpPlace, Place, Watched, lasting_port

__all__ = ["SOCKET_FAULTS"]


@asynccontextmanager
async def sockets_cut(place: Place) -> AsyncGenerator[Watched]:
    """Reset all connections of a client with in-flight calls and a listener: each call fails, the client continues."""
    revision, here = place.rng.choice(ERAS), HttpPlace.of(place)
    async with (
        cuttable(here.server) as network,
        here.client_of(network.url, revision) as client,
        client.listen(tools=True) as changes,
    ):
        async with trio.open_nursery() as nursery:
            start_many_calls(nursery, client, place.book, peril=CUT)
            await trio.sleep(place.rng.uniform(0, 0.2))
            network.cut()
        async with here.after_loss(client, network.url, revision) as next_client:
            await place.book.ask("change", lambda n: call_number(next_client, n, "flip"))
            await _expect_change(place.book, changes)
            yield {}


async def _expect_change(book: Book, changes: Changes) -> None:
    """Check that a listener gets the change, or a notice that it may have missed changes."""
    try:
        with trio.fail_after(TIMEOUT_SECONDS):
            await anext(changes)
    except (ConnectionLost, ResponseLost):
        pass
    except trio.TooSlowError:
        book.fault("a listener whose connection was cut received neither a change nor a notice")


@asynccontextmanager
async def sessions_abandoned(place: Place) -> AsyncGenerator[Watched]:
    """Cut the network permanently with calls in flight: the server must detect it."""
    here = HttpPlace.of(place)
    async with cuttable(here.server) as network:
        for revision in ERAS:
            async with here.client_of(network.url, revision) as client, trio.open_nursery() as nursery:
                start_many_calls(nursery, client, place.book, peril=KILL)
                await trio.sleep(place.rng.uniform(0, 0.1))
                network.is_plugged_in = False
                network.cut()
                await trio.sleep(0.05)
                nursery.cancel_scope.cancel()
            network.is_plugged_in = True
    yield {}


@asynccontextmanager
async def server_killed(place: Place) -> AsyncGenerator[Watched]:
    """Kill a server with calls in flight and restart it: the client continues with the new one."""
    revision, port, here = place.rng.choice(ERAS), lasting_port(place.rng), HttpPlace.of(place)
    async with AsyncExitStack() as stack:
        async with here.another_server(port) as server:
            client = await stack.enter_async_context(here.client_of(server.url, revision))
            async with trio.open_nursery() as nursery:
                start_many_calls(nursery, client, place.book, peril=KILL)
                await trio.sleep(place.rng.uniform(0, 0.2))
                server.process.kill()
        yield {}
        async with here.another_server(port):
            async with here.after_loss(client, server.url, revision) as next_client:
                await place.book.ask("call", lambda n: call_number(next_client, n, "echo"))
            await stack.aclose()


@asynccontextmanager
async def server_frozen(place: Place) -> AsyncGenerator[Watched]:
    """Suspend a server with calls in flight and resume it: every call is answered."""
    revision, here = place.rng.choice(ERAS), HttpPlace.of(place)
    async with (
        here.another_server() as server,
        here.client_of(server.url, revision) as client,
        trio.open_nursery() as nursery,
    ):
        start_many_calls(nursery, client, place.book, peril=SAFE)
        await trio.sleep(place.rng.uniform(0, 0.1))
        os.kill(server.process.pid, signal.SIGSTOP)
        try:
            yield {"frozen server": server.process.pid}
        finally:
            os.kill(server.process.pid, signal.SIGCONT)


SOCKET_FAULTS: Mapping[str, Fault] = {
    "sockets cut": sockets_cut,
    "sessions abandoned": sessions_abandoned,
    "server killed": server_killed,
    "server frozen": server_frozen,
}
