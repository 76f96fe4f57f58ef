"""Requests of a server that belong to no request of its client: whom they reach, on every transport."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.interaction.over_bridges import ALL_OPENERS, OVER_BRIDGES
from tests.interaction.over_http import over_http
from trio_mcp import Context, Server, types
from trio_mcp.lowlevel import Peer, run_of

LEGACY, MODERN = "2025-11-25", "2026-07-28"
everywhere = pytest.mark.parametrize("transport", ["memory", "bytes", "http", *OVER_BRIDGES])
HOME = types.Root(uri="file:///home")
ROOTS = {"roots": [{"uri": "file:///home"}]}


def make_server(peers: list[Peer]) -> Server:
    server = Server("s")

    @server.tool
    async def meet(ctx: Context) -> None:
        peers.append(run_of(ctx).peer)

    return server


async def roots_of(peer: Peer) -> Any:
    """Ask for the roots; None if the peer cannot be asked."""
    request = peer.standalone_request("roots/list", {})
    if request is None:
        return None
    with trio.fail_after(60):
        async with request as asked:
            return await asked.result()


@everywhere
async def test_a_legacy_client_answers_until_it_has_gone(transport: str) -> None:
    peers: list[Peer] = []
    async with ALL_OPENERS[transport](make_server(peers), revision=LEGACY, roots=[HOME]) as client:
        await client.call_tool("meet")
        assert await roots_of(peers[0]) == ROOTS
    await wait_all_tasks_blocked()
    assert await roots_of(peers[0]) is None


async def test_a_legacy_client_over_http_that_answers_nothing_has_no_stream_and_is_not_asked() -> None:
    peers: list[Peer] = []
    async with over_http("http", make_server(peers), {"revision": LEGACY}) as client:
        await client.call_tool("meet")
        assert await roots_of(peers[0]) is None


@everywhere
async def test_a_modern_client_is_not_asked(transport: str) -> None:
    peers: list[Peer] = []
    async with ALL_OPENERS[transport](make_server(peers), revision=MODERN, roots=[HOME]) as client:
        await client.call_tool("meet")
        assert await roots_of(peers[0]) is None
