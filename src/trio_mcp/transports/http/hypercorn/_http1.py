"""The HTTP/1.1 protocol of one connection: requests for the application, and its responses as bytes.

It has the interface of Hypercorn's protocols, so that a connection can go on with HTTP/2, and so that Hypercorn's
WebSocket stream can use it.

Rules of this file:

1. Requests that a client sends ahead are answered in order. While they wait, the connection is not read.
2. A request that cannot be read is refused, and is the last of its connection. If its response has begun, that breaks
   off instead.
3. A response announces that the connection closes if no other request can follow on it: the client said so, the server
   stops, or the body of the request has not arrived whole.
4. The head of a response of known length is held until the first part of its body, which follows at once. Written in
   one piece they cost a fifth less (benchmark cell `http-1`).
5. The application cannot choose the framing: a response without length is chunked. One that has a length and another
   number of bytes fails, because its client would take the next response for a part of it.
6. `Upgrade: h2c` is ignored, as a server may (RFC 9113 no longer has it): it bypasses the rules of a proxy, which sees
   one request and forwards everything after it.

Specification: RFC 9112, https://www.rfc-editor.org/rfc/rfc9112 and
https://asgi.readthedocs.io/en/stable/specs/www.html
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from email.utils import formatdate
from enum import Enum, auto
from functools import lru_cache
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import unquote

import trio
from attrs import define, field
from hypercorn.config import Config
from hypercorn.events import Closed, RawData, Updated
from hypercorn.events import Event as ConnectionEvent
from hypercorn.protocol.events import Body, Data, EndBody, Event, Request, Response, StreamClosed
from hypercorn.protocol.h11 import H2ProtocolAssumedError
from hypercorn.protocol.ws_stream import WSStream
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper, ConnectionState, TaskGroup

from ..h1 import (
    LAST_CHUNK,
    HttpSyntaxError,
    RequestHead,
    RequestReader,
    chunk,
    options_of,
    response_head,
    values_of,
)
from ..server import AsgiMessage
from ._application import AppTasks
from ._sockets import HttpListening

__all__ = ["Http1", "ProtocolConfig", "StartsHttp2"]

StartsHttp2 = H2ProtocolAssumedError
"""Raised by `Http1.handle`: the client speaks HTTP/2 from the start; `data` is what it has sent."""
_STREAM_ID = 1
_CLOSE = (b"connection", b"close")
_WITHOUT_BODY = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class ProtocolConfig(Config):
    """The settings of Hypercorn that affect its protocols; the others are for the worker that this package replaces."""

    accesslog = None
    errorlog = None  # the default is a logger on standard error
    include_server_header = False
    keep_alive_max_requests = 2**62  # never

    def __init__(self, listening: HttpListening) -> None:
        self.max_head_bytes = listening.max_head_bytes
        self.h2_max_header_list_size = listening.max_head_bytes
        self.http2 = listening.http2
        self.write_seconds = listening.write_seconds


class _Progress(Enum):
    """How far a response is."""

    AWAITED = auto()
    HELD = auto()
    """The application has sent its head, which waits for the first part of the body (rule 4)."""
    BEGUN = auto()
    BROKEN = auto()
    """It cannot be completed."""


@lru_cache(1)
def _date(_second: int) -> tuple[bytes, bytes]:
    return b"date", formatdate(usegmt=True).encode()


def _is_upgrade_to_websocket(head: RequestHead) -> bool:
    upgrades = values_of(head.fields, b"upgrade")
    if head.method != "GET" or not upgrades:
        return False
    return upgrades[0].lower() == b"websocket" and b"upgrade" in options_of(head.fields)


@define(eq=False)
class _Answering:
    """One request and its response."""

    reader: RequestReader
    head: RequestHead
    put: Callable[[AsgiMessage], Awaitable[None]]
    """Hands an event to the application."""
    state: _Progress = field(default=_Progress.AWAITED, init=False)
    held: bytes = field(default=b"", init=False)
    left: int | None = field(default=None, init=False)
    """The bytes that the body of the response still lacks; None if its length was not announced."""
    is_chunked: bool = field(default=False, init=False)
    has_body: bool = field(default=True, init=False)
    """False if the response has no body, whatever the application sends."""
    is_last: bool = field(default=False, init=False)
    """True if the response has announced that the connection closes."""


@define(eq=False)
class Http1:
    """The HTTP/1.1 protocol of one connection. The arguments are those of Hypercorn's protocols."""

    _app: AppWrapper
    _config: ProtocolConfig
    _context: WorkerContext
    _tasks: AppTasks
    _lifespan_state: ConnectionState
    _is_encrypted: bool
    _client: tuple[str, int] | None
    _server: tuple[str, int] | None
    _send: Callable[[ConnectionEvent], Awaitable[None]]
    _reader: RequestReader = field(init=False)
    _exchange: _Answering | None = field(default=None, init=False)
    """The request that is answered now."""
    _websocket: WSStream | None = field(default=None, init=False)
    _is_first: bool = field(default=True, init=False)
    """True before the first request."""
    _is_over: bool = field(default=False, init=False)
    """True if nothing more is read or written."""
    _has_failed: bool = field(default=False, init=False)
    """True after a request that could not be read."""
    _is_ahead: bool = field(default=False, init=False)
    """True if the client has sent the next request already."""
    _ready: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    """Wakes the task that waits for the end of a response."""

    def __attrs_post_init__(self) -> None:
        self._reader = RequestReader(self._config.max_head_bytes)

    @property
    def has_part_of_head(self) -> bool:
        """True if a part of the head of a request has been received."""
        return self._reader.has_part_of_head

    @property
    def expects_more(self) -> bool:
        """True if the client may still be sending data that is not read."""
        if self._websocket is not None:
            return True  # its last frame
        reader = self._reader
        return self._has_failed or self._is_ahead or (reader.head is not None and not reader.is_complete)

    async def initiate(self) -> None:
        """Do nothing: the client begins."""

    async def announce_close(self) -> None:
        """Do nothing: HTTP/1.1 announces the close in the last response."""

    async def handle(self, event: ConnectionEvent) -> None:
        """Take received data, or the end of the connection.

        Raises:
            StartsHttp2: the connection goes on with HTTP/2.
        """
        if isinstance(event, RawData):
            if self._websocket is not None:
                await self._websocket.handle(Data(_STREAM_ID, event.data))
            elif not self._is_over:
                await self._read(event.data)
        else:  # the end
            self._is_over = True
            if self._websocket is not None:
                await self._websocket.handle(StreamClosed(_STREAM_ID))
            elif self._exchange is not None:
                await self._exchange.put({"type": "http.disconnect"})

    # --- Requests ---

    async def _read(self, data: bytes) -> None:
        """Take received data: one request after the other (rule 1)."""
        while data and not self._is_over:
            if self._reader.is_complete:
                self._is_ahead = True
                await self._ready.park()
                continue
            self._is_ahead = False
            reader = self._reader
            try:
                reader.feed(data)
            except HttpSyntaxError as error:
                await self._refuse(error.status)
                return
            if reader.starts_http2:
                if not (self._is_first and self._config.http2):
                    await self._refuse(505)
                    return
                raise StartsHttp2(b"PRI * HTTP/2.0\r\n\r\n" + reader.surplus)
            if reader.head is None:
                return
            if self._exchange is None:
                self._is_first = False
                await self._send(Updated(idle=False))
                if _is_upgrade_to_websocket(reader.head):
                    await self._begin_websocket(reader, reader.head)
                    return
                self._exchange = await self._begin(reader, reader.head)
            await _hand_on(self._exchange)
            data = reader.surplus

    async def _begin(self, reader: RequestReader, head: RequestHead) -> _Answering:
        """Start the application for a request whose head has arrived."""
        if head.expects_continue:
            await self._send(RawData(_CONTINUE))

        async def respond(message: AsgiMessage | None) -> None:
            await self._respond(exchange, message)

        exchange = _Answering(
            reader, head, await self._tasks.spawn_app(self._app, self._config, self._scope(head), respond)
        )
        return exchange

    def _scope(self, head: RequestHead) -> Any:
        path, _, query = head.target.partition(b"?")
        return {
            "type": "http",
            "http_version": head.version,
            "asgi": {"spec_version": "2.1", "version": "3.0"},
            "method": head.method,
            "scheme": "https" if self._is_encrypted else "http",
            "path": unquote(path.decode("ascii")),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": head.fields,
            "client": self._client,
            "server": self._server,
            "state": self._lifespan_state.copy(),
            "extensions": {},
        }

    async def _refuse(self, status: int) -> None:
        """Answer what cannot be read (rule 2)."""
        self._has_failed = True
        exchange = self._exchange
        if exchange is None or exchange.state in {_Progress.AWAITED, _Progress.HELD}:
            fields = [(b"content-length", b"0"), _date(int(time.time())), _CLOSE]
            await self._send(RawData(response_head(status, fields)))
        await self._close()

    async def _close(self) -> None:
        self._is_over = True
        self._ready.unpark_all()
        await self._send(Closed())

    # --- Responses ---

    async def _respond(self, exchange: _Answering, message: AsgiMessage | None) -> None:
        """Take what the application sends; None reports that it has returned."""
        if self._is_over or self._exchange is not exchange:
            return
        if message is None:
            if exchange.state in {_Progress.AWAITED, _Progress.HELD}:
                await self._refuse_to_answer(exchange)
            else:
                await self._close()
        elif exchange.state is _Progress.AWAITED and message["type"] == "http.response.start":
            await self._respond_with_head(exchange, message)
        elif exchange.state in {_Progress.HELD, _Progress.BEGUN} and message["type"] == "http.response.body":
            is_end = not message.get("more_body", False)
            await self._respond_with_body(exchange, bytes(message.get("body", b"")), is_end=is_end)
        else:
            raise ValueError(f"the application sent {message['type']!r} while its response was {exchange.state.name}")

    async def _refuse_to_answer(self, exchange: _Answering) -> None:
        """Answer for an application that has returned without a response."""
        await self._respond_with_head(exchange, {"status": 500, "headers": [(b"content-length", b"0"), _CLOSE]})
        await self._respond_with_body(exchange, b"", is_end=True)

    async def _respond_with_head(self, exchange: _Answering, message: AsgiMessage) -> None:
        status = int(message["status"])
        if status < HTTPStatus.OK:
            raise ValueError(f"the response has the status {status}, which is not that of a final response")
        fields, length, closes = _application_fields(message.get("headers", ()))
        head = exchange.head
        exchange.has_body = head.method != "HEAD" and status not in _WITHOUT_BODY
        if status == HTTPStatus.NO_CONTENT:
            fields = [each for each in fields if each[0] != b"content-length"]
        if exchange.has_body:
            exchange.left = length
            exchange.is_chunked = length is None and head.version == "1.1"
            if exchange.is_chunked:
                fields.append((b"transfer-encoding", b"chunked"))
        is_unbounded = exchange.has_body and length is None and not exchange.is_chunked
        exchange.is_last = (
            closes
            or is_unbounded
            or head.is_last
            or not exchange.reader.is_complete
            or self._context.terminated.is_set()
        )
        if exchange.is_last:
            fields.append(_CLOSE)
        elif head.version == "1.0":
            fields.append((b"connection", b"keep-alive"))
        fields.append(_date(int(time.time())))
        exchange.held = response_head(status, fields)
        exchange.state = _Progress.HELD
        if length is None:
            await self._write(exchange, b"")

    async def _respond_with_body(self, exchange: _Answering, data: bytes, *, is_end: bool) -> None:
        if not exchange.has_body:
            data = b""
        if exchange.left is not None:
            exchange.left -= len(data)
            if exchange.left < 0 or (is_end and exchange.left):
                exchange.state = _Progress.BROKEN
                raise ValueError("the body of the response does not have the length that its head announced")
        elif exchange.is_chunked:
            data = (chunk(data) if data else b"") + (LAST_CHUNK if is_end else b"")
        if data or is_end:
            await self._write(exchange, data)
        if is_end and not self._is_over:
            await self._finish(exchange)

    async def _write(self, exchange: _Answering, data: bytes) -> None:
        held, exchange.held = exchange.held, b""
        exchange.state = _Progress.BEGUN
        if held or data:
            await self._send(RawData(held + data if data else held))

    async def _finish(self, exchange: _Answering) -> None:
        """Be ready for the next request, or close."""
        self._exchange = None
        await exchange.put({"type": "http.disconnect"})
        if exchange.is_last or self._context.terminated.is_set() or not exchange.reader.is_complete:
            await self._close()
            return
        self._reader = RequestReader(self._config.max_head_bytes)
        self._ready.unpark_all()
        await self._send(Updated(idle=True))

    # --- WebSocket ---

    async def _begin_websocket(self, reader: RequestReader, head: RequestHead) -> None:
        self._websocket = WSStream(
            self._app,
            self._config,
            self._context,
            cast("TaskGroup", self._tasks),
            self._is_encrypted,
            self._client,
            self._server,
            self._stream_send,
            _STREAM_ID,
        )
        request = Request(
            stream_id=_STREAM_ID,
            headers=list(head.fields),
            http_version=head.version,
            method=head.method,
            raw_path=head.target,
            state=self._lifespan_state,
        )
        await self._websocket.handle(request)
        early = b"".join(reader.take_body()) + reader.surplus
        if early:
            await self._websocket.handle(Data(_STREAM_ID, early))

    async def _stream_send(self, event: Event) -> None:
        """Take what Hypercorn's WebSocket stream sends."""
        if self._is_over:
            return
        match event:
            case Response(status_code=status, headers=headers):
                fields, _, _ = _application_fields(headers)
                if status != HTTPStatus.SWITCHING_PROTOCOLS:
                    fields = [*(each for each in fields if each[0] != b"connection"), _CLOSE]
                await self._send(RawData(response_head(status, [*fields, _date(int(time.time()))])))
            case Body(data=data) | Data(data=data):
                await self._send(RawData(data))
            case EndBody() | StreamClosed():  # after a refusal, or a closing handshake
                await self._close()
            case _:  # nothing is left to send
                pass


async def _hand_on(exchange: _Answering) -> None:
    """Hand the part of the body that has arrived to the application."""
    body, is_complete = b"".join(exchange.reader.take_body()), exchange.reader.is_complete
    if body or is_complete:
        await exchange.put({"type": "http.request", "body": body, "more_body": not is_complete})


def _application_fields(
    given: Iterable[tuple[bytes, bytes]],
) -> tuple[list[tuple[bytes, bytes]], int | None, bool]:
    """Return the fields of an application without its framing, the announced length, and if the connection closes.

    Raises:
        ValueError: the length is not a number, or there are several.
    """
    fields: list[tuple[bytes, bytes]] = []
    lengths: list[bytes] = []
    closes = False
    for raw_name, raw_value in given:
        name, value = bytes(raw_name).lower(), bytes(raw_value).strip()
        if name == b"content-length":
            lengths.append(value)
        elif name == b"connection" and value.lower() == b"close":
            closes = True
            continue
        elif name == b"transfer-encoding":
            continue  # rule 5
        fields.append((name, value))
    if len(lengths) > 1 or (lengths and not lengths[0].isdigit()):
        raise ValueError(f"the response has an invalid content-length: {lengths!r:.100}")
    return fields, int(lengths[0]) if lengths else None, closes
