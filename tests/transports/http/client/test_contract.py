"""The HTTP client fulfils the transport contract, with the server of this package at the other end."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing

from trio_mcp import McpError, Server, http_app, open_http_client, serve_http, types
from trio_mcp._util import owned_nursery
from trio_mcp.abc import Answerer, HttpAnswerer, TransportOpener
from trio_mcp.testing import AsgiEngine, TransportContract, cancel_everywhere, contract_server
from trio_mcp.testing._contract import call, check, text_of, working_tasks
from trio_mcp.transports import http_transport
from trio_mcp.wire import CAPABILITIES_KEY, REVISION_KEY, JsonObject

MAX_BODY_BYTES = 8 * 2**20


class HttpContract(TransportContract):
    async def test_notifications_reach_the_server_in_order(self) -> None:
        """Check the clause with notifications that name their revision, because no handshake does."""
        async with self._opened() as transport:
            methods = [f"notifications/{number}" for number in range(5)]
            meta: JsonObject = {REVISION_KEY: types.REVISIONS[-1], CAPABILITIES_KEY: {}}
            for number, method in enumerate(methods):
                await transport.notify(method, {"number": number, "_meta": meta})
            check(json.loads(text_of(await call(transport, "notified"))), methods, "what the server was notified of")


class TestInThisProcess(HttpContract):
    @asynccontextmanager
    async def served(self, server: Answerer) -> AsyncGenerator[TransportOpener]:
        assert isinstance(server, HttpAnswerer)
        engine = AsgiEngine(http_app(server, max_body_bytes=MAX_BODY_BYTES))
        async with engine.lifespan():
            yield http_transport("http://localhost/mcp", engine=engine)


class TestThroughASocket(HttpContract):
    @asynccontextmanager
    async def served(self, server: Answerer) -> AsyncGenerator[TransportOpener]:
        assert isinstance(server, HttpAnswerer)
        async with owned_nursery() as nursery:
            serve = partial(serve_http, server, port=0, max_body_bytes=MAX_BODY_BYTES)
            bound = await nursery.start(serve)
            await trio.testing.wait_all_tasks_blocked()  # a clause counts its tasks
            yield http_transport(bound.url)
            with trio.CancelScope(shield=True):
                await bound.stop()


async def test_the_contract_server_cannot_serve_a_single_request_without_its_lifespan() -> None:
    with pytest.raises(McpError, match="lifespan is not running"):
        contract_server().serving_one()


async def test_a_client_in_a_session_may_be_cancelled_at_every_step(autojump_clock: object) -> None:
    server = Server("s")

    @server.tool
    async def slow() -> str:
        await trio.sleep(3)
        return "done"

    engine = AsgiEngine(http_app(server))

    async def attempt() -> None:
        async with open_http_client("http://localhost/mcp", engine=engine, revision="2025-11-25") as client:
            await client.call_tool("slow")
            with trio.move_on_after(1):
                await client.call_tool("slow")

    async with engine.lifespan():
        before = working_tasks()
        assert await cancel_everywhere(attempt) > 50
        assert working_tasks() == before
