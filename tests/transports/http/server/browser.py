"""A client of WebSockets that a test controls frame by frame."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import trio
from attrs import define, field
from wsproto import ConnectionType, WSConnection
from wsproto.events import CloseConnection, Event, Request, TextMessage

from trio_mcp import HttpBound

__all__ = ["Browser", "browsing"]


@define(eq=False)
class Browser:
    """One WebSocket."""

    stream: trio.abc.Stream
    wire: WSConnection = field(factory=lambda: WSConnection(ConnectionType.CLIENT))
    events: list[Event] = field(factory=list[Event])

    async def event(self) -> Event:
        """Return the next event of the server."""
        while not self.events:
            self.wire.receive_data(bytes(await self.stream.receive_some()) or None)
            self.events += self.wire.events()
        return self.events.pop(0)

    async def send(self, event: Event) -> None:
        await self.stream.send_all(self.wire.send(event))

    async def call(self, message: Any) -> Any:
        """Send a message; return the next one."""
        await self.send(TextMessage(json.dumps(message)))
        event = await self.event()
        assert isinstance(event, TextMessage)
        return json.loads(event.data)

    async def initialize(self) -> None:
        """Perform the handshake of a legacy client."""
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "b", "version": "1"}}
        await self.call({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        await self.send(TextMessage('{"jsonrpc": "2.0", "method": "notifications/initialized"}'))

    async def closed(self) -> int:
        """Return the close code of the server."""
        event = await self.event()
        assert isinstance(event, CloseConnection)
        return int(event.code)


@asynccontextmanager
async def browsing(bound: HttpBound, *, path: str = "/mcp", **fields: str) -> AsyncGenerator[Browser]:
    """Ask for a WebSocket; the first event is the answer."""
    assert bound.port is not None
    async with await trio.open_tcp_stream("127.0.0.1", bound.port) as stream:
        browser = Browser(stream)
        extra = [(name.replace("_", "-").encode(), value.encode()) for name, value in fields.items()]
        await browser.send(Request(host="localhost", target=path, extra_headers=extra, subprotocols=["mcp", "x"]))
        yield browser
