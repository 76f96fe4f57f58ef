"""The HTTP client fulfils the transport contract in sessions of each kind as well, and over HTTP+SSE.

The clauses are written for the newest revision, which has no handshake. So each connection performs the handshake
before a clause gets it, and the metadata of the newest revision are removed from its requests.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from attrs import define, field

from tests.interaction.over_http import URL, bridged
from trio_mcp import open_client, types
from trio_mcp.abc import Answerer, Direction, HttpAnswerer, Tap, Transport, TransportClient, TransportOpener
from trio_mcp.testing import TransportContract
from trio_mcp.testing._contract import Caller, call, check, text_of
from trio_mcp.transports import http_transport
from trio_mcp.wire import CAPABILITIES_KEY, LOG_LEVEL_KEY, REVISION_KEY, JsonObject

ENVELOPE = {CAPABILITIES_KEY, LOG_LEVEL_KEY, REVISION_KEY}
MAX_BODY_BYTES = 8 * 2**20


@define(eq=False)
class HandshakeHidingClient:
    """A client whose tap does not see the handshake."""

    _client: TransportClient
    is_open: bool = field(default=False, init=False)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    @property
    def tap(self) -> Tap:
        def show(direction: Direction, message: bytes) -> None:
            if self.is_open and self._client.tap is not None:
                self._client.tap(direction, message)

        return show


@define(eq=False)
class SessionTransport:
    """A transport that removes the metadata of the newest revision from each request."""

    _transport: Transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def ask(self, method: str, params: JsonObject | None, *, wants_updates: bool = False) -> Any:
        methods_received: JsonObject | None = None if params is None else {**params, "_meta": {}}
        return self._transport.ask(method, methods_received, wants_updates=wants_updates)


async def perform_handshake(transport: Transport, admission: Any, revision: str) -> None:
    info = {"name": "contract", "version": "0"}
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": info}
    async with transport.ask("initialize", params) as outgoing:
        answer = await outgoing.result()
    admission.agree(revision, answer["capabilities"], answer["serverInfo"])
    await transport.notify("notifications/initialized", None)


class SessionContract(TransportContract):
    """The contract in a session; a subclass names the transport and is collected."""

    __test__ = False
    transport: ClassVar[str]
    revision: ClassVar[str] = types.REVISIONS[-2]

    @asynccontextmanager
    async def served(self, server: Answerer) -> AsyncGenerator[TransportOpener]:
        assert isinstance(server, HttpAnswerer)
        async with bridged(self.transport, server, max_body_bytes=MAX_BODY_BYTES) as engine:
            opener = http_transport(URL, engine=engine)

            @asynccontextmanager
            async def connect(client: TransportClient) -> AsyncGenerator[Transport]:
                if not isinstance(client, Caller):  # a real client, which performs the handshake itself
                    async with opener(client) as transport:
                        yield transport
                    return
                hiding: Any = HandshakeHidingClient(client)
                async with opener(hiding) as transport:
                    await perform_handshake(transport, client.admission, self.revision)
                    hiding.is_open = True
                    in_session: Any = SessionTransport(transport)
                    yield in_session

            yield connect

    async def test_notifications_reach_the_server_in_order(self) -> None:
        """Check the clause after the notification that belongs to the handshake."""
        async with self._opened() as transport:
            methods = [f"notifications/{number}" for number in range(5)]
            for number, method in enumerate(methods):
                await transport.notify(method, {"number": number} if number else None)
            methods_received = json.loads(text_of(await call(transport, "notified")))
            check(methods_received, ["notifications/initialized", *methods], "what the server was notified of")


class TestInASession(SessionContract):
    __test__ = True
    transport = "http"


class TestInAResumableSession(SessionContract):
    __test__ = True
    transport = "http-resumable"


class TestOverHttpAndSse(SessionContract):
    __test__ = True
    transport, revision = "http-sse", types.REVISIONS[0]

    async def test_a_client_works_in_every_revision(self) -> None:
        """Check the clause with the only revision that has HTTP+SSE."""
        async with self._opener() as opener, open_client(opener, revision=self.revision) as client:
            async with client.open_call("count", {"steps": 3}) as counting:
                check([update.progress async for update in counting.updates], [1, 2, 3], "progress")
            async with client.open_call("hang", {"key": "k"}) as hanging:
                await anext(hanging.updates)
            stopped = await client.call_tool("when_stopped", {"key": "k"})
            check(text_of(types.unstructure(stopped)), "stopped", "the handler")
