"""An HTTP server with 1,000 event streams: what reaches them, what they cost, and its stop."""

from __future__ import annotations

import gc
import re
import resource
import tracemalloc
from collections.abc import Awaitable, Callable, Generator
from functools import partial

import pytest
import trio
from attrs import define, field

from tests.server.raw_http_client import RawClient, body_of, connected, head_of, make_server
from tests.transports.http.asgi_caller import NEVER, request
from trio_mcp import HttpBound, Limits, serve_http

COUNT = 1000
TRACED = 100
"""The number of streams whose memory is measured, while the others are open: to trace an allocation takes time."""
MOST_BYTES = 100_000
"""The memory of a stream; half of it is that of its client here."""
LEGACY = "2025-11-25"
CHANGED = b"notifications/tools/list_changed"
LISTEN = request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})


@pytest.fixture
def descriptors() -> Generator[None]:
    """Let the process have a socket at both ends of each connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 3 * COUNT:
        pytest.skip(f"{3 * COUNT} open files are needed, and this system allows {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 3 * COUNT), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_all_1000_subscriptions_end_at_once_when_the_server_stops(descriptors: None) -> None:
    server, listening, ended = make_server(limits=Limits(max_listens=COUNT, drain_seconds=NEVER)), 0, 0
    all_listen = trio.Event()

    async def listen(bound: HttpBound) -> None:
        nonlocal listening, ended
        async with connected(bound) as client:
            await client.post(LISTEN)
            await client.until(b"notifications/subscriptions/acknowledged")
            listening += 1
            if listening == COUNT:
                all_listen.set()
            received = await client.rest()
            assert b'"resultType":"complete"' in received
            assert received.endswith(b"0\r\n\r\n")
            ended += 1

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            bound: HttpBound = await nursery.start(partial(serve_http, server, port=0))
            for _ in range(COUNT):
                nursery.start_soon(listen, bound)
            await all_listen.wait()
            await bound.stop()

    assert ended == COUNT


async def listen(client: RawClient) -> None:
    """Listen for changes, as a modern client does."""
    await client.post(LISTEN)
    await client.until(b"notifications/subscriptions/acknowledged")


async def get_stream(client: RawClient) -> None:
    """Open a session and its stream, as a legacy client does."""
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    await client.post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    head = await client.until(b'"serverInfo"')
    session = re.search(rb"mcp-session-id: (\S+)", head, re.IGNORECASE)
    assert session is not None
    fields = {"mcp-session-id": session[1].decode(), "mcp-protocol-version": LEGACY}
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    await client.stream.send_all(head_of(initialized, **fields) + body_of(initialized))
    await client.until(b"202 Accepted")
    lines = ["GET /mcp HTTP/1.1", "host: localhost", "accept: text/event-stream"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    await client.stream.send_all("\r\n".join([*lines, "", ""]).encode())
    await client.until(b"content-type: text/event-stream")


@define(eq=False)
class Followers:
    """Clients with one stream each."""

    bound: HttpBound
    open_stream: Callable[[RawClient], Awaitable[None]]
    open: int = 0
    told: int = 0
    ended: int = 0
    _changed: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot)

    async def follow(self) -> None:
        """Open a stream, receive one change, and read to the end."""
        async with connected(self.bound) as client:
            await self.open_stream(client)
            self.open += 1
            self._changed.unpark_all()
            await client.until(CHANGED)
            self.told += 1
            self._changed.unpark_all()
            assert (await client.rest()).count(CHANGED) == 1
            self.ended += 1

    async def until(self, is_true: Callable[[], bool]) -> None:
        """Wait until the clients have come so far."""
        while not is_true():
            await self._changed.park()


@pytest.mark.parametrize("open_stream", [listen, get_stream])
async def test_a_change_reaches_each_of_1000_streams_once_and_each_costs_little(
    open_stream: Callable[[RawClient], Awaitable[None]], descriptors: None
) -> None:
    server = make_server(limits=Limits(max_listens=COUNT))
    tasks = trio.lowlevel.current_statistics().tasks_living
    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            bound: HttpBound = await nursery.start(partial(serve_http, server, port=0))
            followers = Followers(bound, open_stream)
            for _ in range(COUNT - TRACED):
                nursery.start_soon(followers.follow)
            await followers.until(lambda: followers.open == COUNT - TRACED)
            gc.collect()
            tracemalloc.start()
            try:
                before, _ = tracemalloc.get_traced_memory()
                for _ in range(TRACED):
                    nursery.start_soon(followers.follow)
                await followers.until(lambda: followers.open == COUNT)
                gc.collect()
                after, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            server.tool(name="new")(lambda: None)
            await followers.until(lambda: followers.told == COUNT)
            await bound.stop()

    assert after - before < TRACED * MOST_BYTES
    assert followers.ended == COUNT
    assert trio.lowlevel.current_statistics().tasks_living == tasks
