"""A WebSocket that is written frame by frame, also frames that no client may send."""

from __future__ import annotations

import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import trio
from attrs import define, field
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Event, Request, TextMessage
from wsproto.frame_protocol import Opcode

from .book import Book
from .places import HttpServer
from .raw_client import RawClient

__all__ = ["RawWebSocket", "frame", "raw_websocket", "request"]

_READ_BYTES = 2**16
_FINAL, _MASKED, _NO_MASK = 0x80, 0x80, bytes(4)
_TWO_BYTES, _EIGHT_BYTES = 126, 127


def frame(opcode: int, payload: bytes, *, first: int = _FINAL, mask: int = _MASKED, length: int | None = None) -> bytes:
    """Return a frame.

    Args:
        opcode: the kind of frame.
        payload: what it holds.
        first: the bits of the first byte beside the opcode.
        mask: `_MASKED`, or 0 for a frame that is not masked.
        length: the announced length of the payload, if it is not the real one.
    """
    size = len(payload) if length is None else length
    if size < _TWO_BYTES:
        head = struct.pack("!BB", first | opcode, mask | size)
    elif size < 2**16:
        head = struct.pack("!BBH", first | opcode, mask | _TWO_BYTES, size)
    else:
        head = struct.pack("!BBQ", first | opcode, mask | _EIGHT_BYTES, size)
    return head + (_NO_MASK if mask else b"") + payload


def request() -> bytes:
    """Return the request for a WebSocket."""
    return WSConnection(ConnectionType.CLIENT).send(Request(host="127.0.0.1", target="/mcp"))


@define(eq=False)
class RawWebSocket:
    """An open WebSocket."""

    stream: trio.SocketStream
    _wire: WSConnection = field(factory=lambda: WSConnection(ConnectionType.CLIENT), init=False)
    _events: list[Event] = field(factory=list[Event], init=False)

    async def open(self) -> None:
        """Shake hands.

        Raises:
            RuntimeError: the server refuses.
        """
        await self.stream.send_all(self._wire.send(Request(host="127.0.0.1", target="/mcp")))
        while not self._events:
            self._wire.receive_data(bytes(await self.stream.receive_some(_READ_BYTES)) or None)
            self._events += self._wire.events()
        if not isinstance(self._events.pop(0), AcceptConnection):
            raise RuntimeError("the server opened no WebSocket")

    async def send(self, message: bytes) -> None:
        """Send a message."""
        await self.stream.send_all(frame(Opcode.TEXT, message))

    async def messages(self) -> AsyncGenerator[bytes]:
        """Yield the messages of the server until it ends the connection."""
        text = ""
        while True:
            for event in self._events:
                if isinstance(event, TextMessage):
                    text += event.data
                    if event.message_finished:
                        yield text.encode()
                        text = ""
            self._events.clear()
            data = await self.stream.receive_some(_READ_BYTES)
            if not data:
                return
            self._wire.receive_data(bytes(data))
            self._events += self._wire.events()

    async def end(self) -> None:
        """Read until the server ends the connection."""
        with suppress(trio.BrokenResourceError):
            while await self.stream.receive_some(_READ_BYTES):
                pass


@asynccontextmanager
async def raw_websocket(server: HttpServer, book: Book) -> AsyncGenerator[tuple[RawWebSocket, RawClient]]:
    """Open a WebSocket, and yield it and its client; at the end the client leaves without closing it."""
    async with await trio.open_tcp_stream("127.0.0.1", server.port) as stream:
        websocket = RawWebSocket(stream)
        await websocket.open()
        yield websocket, RawClient(book, websocket.send, websocket.messages())
