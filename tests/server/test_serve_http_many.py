"""The stop of an HTTP server with 1,000 subscribed clients."""

from __future__ import annotations

import resource
from collections.abc import Generator
from functools import partial

import pytest
import trio

from tests.server.raw_http_client import connected, make_server
from tests.transports.http.asgi_caller import NEVER, request
from trio_mcp import HttpBound, Limits, serve_http

COUNT = 1000
LISTEN = request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})


@pytest.fixture
def descriptors() -> Generator[None]:
    """Let the process have a socket at both ends of each connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 3 * COUNT), hard), hard))
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
