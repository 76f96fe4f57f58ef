"""The client over HTTP keeps the contract of transports in sessions as well: of each kind, and of HTTP+SSE.

The clauses speak the newest revision, and know nothing of handshakes. So each connection is shaken hands over before a
clause gets it, and what its requests say about themselves is taken out of them.
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
class Quiet:
    """A client whose tap is shown nothing of the handshake."""

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
class Handshaken:
    """A connection over which requests say nothing about themselves."""

    _transport: Transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def ask(self, method: str, params: JsonObject | None, *, wants_updates: bool = False) -> Any:
        told: JsonObject | None = None if params is None else {**params, "_meta": {}}
        return self._transport.ask(method, told, wants_updates=wants_updates)


async def shake_hands(transport: Transport, admission: Any, revision: str) -> None:
    info = {"name": "contract", "version": "0"}
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": info}
    async with transport.ask("initialize", params) as asked:
        answer = await asked.result()
    admission.agree(revision, answer["capabilities"], answer["serverInfo"])
    await transport.notify("notifications/initialized", None)


class InSessions(TransportContract):
    """Not collected by itself: it does not say which."""

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
                if not isinstance(client, Caller):  # a real client, which shakes hands itself
                    async with opener(client) as transport:
                        yield transport
                    return
                quiet: Any = Quiet(client)
                async with opener(quiet) as transport:
                    await shake_hands(transport, client.admission, self.revision)
                    quiet.is_open = True
                    handshaken: Any = Handshaken(transport)
                    yield handshaken

            yield connect

    async def test_notifications_reach_the_server_in_order(self) -> None:
        """As on every transport, after the one that belongs to the handshake."""
        async with self._opened() as transport:
            methods = [f"notifications/{number}" for number in range(5)]
            for number, method in enumerate(methods):
                await transport.notify(method, {"number": number} if number else None)
            told = json.loads(text_of(await call(transport, "notified")))
            check(told, ["notifications/initialized", *methods], "what the server was notified of")


class TestInASession(InSessions):
    __test__ = True
    transport = "http"


class TestInASessionThatIsKept(InSessions):
    __test__ = True
    transport = "http-resumable"


class TestOverHttpAndSse(InSessions):
    __test__ = True
    transport, revision = "http-sse", types.REVISIONS[0]

    async def test_a_client_works_in_every_revision(self) -> None:
        """There is one that has it."""
        async with self._opener() as opener, open_client(opener, revision=self.revision) as client:
            async with client.open_call("count", {"steps": 3}) as counting:
                check([update.progress async for update in counting.updates], [1, 2, 3], "progress")
            async with client.open_call("hang", {"key": "k"}) as hanging:
                await anext(hanging.updates)
            stopped = await client.call_tool("when_stopped", {"key": "k"})
            check(text_of(types.unstructure(stopped)), "stopped", "the handler")
