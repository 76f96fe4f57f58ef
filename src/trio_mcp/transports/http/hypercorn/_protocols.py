"""HTTP/1.1 as Hypercorn speaks it, without what is dangerous or rude. Loaded when a server starts.

Different from Hypercorn's own:

- `Upgrade: h2c` is ignored, as a server may (RFC 9113 no longer has it): a way round the rules of a proxy, which sees
  one request and lets pass whatever follows it.
- A WebSocket that is refused is closed, and not left open for ever.
- The answers of a server that stops say that the connection ends, so that nobody sends another request into it.
- The longest head is refused even if it comes all at once.
- The head of an answer of known length waits for the first part of its body, which comes at once. In one piece they
  cost a fifth less.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import h11
import trio
from h2.connection import ConnectionState
from h2.errors import ErrorCodes
from h2.events import DataReceived, RequestReceived
from h2.events import Event as H2Event
from h2.exceptions import ProtocolError
from h2.stream import StreamState
from hypercorn.config import Config
from hypercorn.events import Closed, RawData
from hypercorn.events import Event as ConnectionEvent
from hypercorn.protocol.events import Body, Data, EndBody, EndData, Event, Response
from hypercorn.protocol.h2 import BUFFER_LOW_WATER, H2Protocol
from hypercorn.protocol.h11 import H2ProtocolAssumedError, H11Protocol, H11WSConnection

from ._sockets import HttpListening

__all__ = ["Http1", "Http2", "ProtocolConfig", "StartsHttp2"]


# What Hypercorn's protocols are told. Loaded when a server starts.

_NEVER = 2**62


class ProtocolConfig(Config):
    """The settings that have an effect on a protocol: Hypercorn has many more, for the worker that we have replaced."""

    accesslog = None
    errorlog = None  # by default it takes standard error for a logger of Hypercorn's; what is left of that says nothing
    include_server_header = False
    keep_alive_max_requests = _NEVER

    def __init__(self, listening: HttpListening) -> None:
        self.h11_max_incomplete_size = listening.max_head_bytes
        self.h2_max_header_list_size = listening.max_head_bytes
        self.http2 = listening.http2
        self.write_seconds = listening.write_seconds


StartsHttp2 = H2ProtocolAssumedError
"""Raised by `Http1.handle`: the client speaks HTTP/2 from the start; `data` is what it has said."""

_HTTP2_PREFACE = (b"PRI", b"*", b"2.0")
"""How HTTP/2 begins, read as a request of HTTP/1."""
_MORE_MAY_COME = (h11.SEND_BODY, h11.ERROR)


class Http1(H11Protocol):
    """The protocol of one connection. The arguments are Hypercorn's."""

    config: ProtocolConfig

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._emit, self.send = self.send, self._send_or_hold
        self._holds = False
        self._held = b""

    @property
    def has_part_of_head(self) -> bool:
        """Whether the client is in the middle of the head of a request."""
        return self.stream is None and bool(self.connection.trailing_data[0])

    @property
    def expects_more(self) -> bool:
        """Whether the client may still be sending what nobody wants to read."""
        return self.connection.their_state in _MORE_MAY_COME or bool(self.connection.trailing_data[0])

    async def handle(self, event: ConnectionEvent) -> None:
        """Take what the client has sent, or the end of the connection."""
        await super().handle(event)
        connection = self.connection
        if isinstance(connection, H11WSConnection) and connection.h11_connection.our_state is h11.MUST_CLOSE:
            await self.send(Closed())

    async def stream_send(self, event: Event) -> None:
        """Send a part of an answer."""
        self._holds = isinstance(event, Response) and any(name == b"content-length" for name, _ in event.headers)
        if isinstance(event, Response) and event.status_code >= 200 and self.context.terminated.is_set():
            event = replace(event, headers=[*event.headers, (b"connection", b"close")])
        await super().stream_send(event)

    async def farewell(self) -> None:
        """There is nothing to say at the end of a connection."""

    async def _send_or_hold(self, event: ConnectionEvent) -> None:
        if isinstance(event, RawData):
            self._held += event.data
            if self._holds:
                return
        if self._held:
            data, self._held = self._held, b""
            await self._emit(RawData(data))
        if not isinstance(event, RawData):
            await self._emit(event)

    async def _create_stream(self, request: h11.Request) -> None:
        if _size(request) > self.config.h11_max_incomplete_size:
            await self._send_error_response(431)
            await self.send(Closed())
        else:
            await super()._create_stream(request)

    async def _check_protocol(self, event: h11.Request) -> None:
        if self.config.http2 and (event.method, event.target, event.http_version) == _HTTP2_PREFACE:
            raise StartsHttp2(b"PRI * HTTP/2.0\r\n\r\n" + self.connection.trailing_data[0])


def _size(request: h11.Request) -> int:
    """The bytes of a head, as if it were written without blanks: h11 counts only what it cannot read yet."""
    return len(request.target) + sum([len(name) + len(value) for name, value in request.headers])


# HTTP/2 as Hypercorn speaks it, with its streams kept apart and bounded. Loaded when a server starts.
#
# Different from Hypercorn's own, where each of these ends the connection, the server, or nothing ever:
#
# - A stream whose client grants no room keeps its application waiting, and is reset in the end. (There, what waits to
#   be sent grows without bound.)
# - An answer that comes before the request has been sent in full ends the stream; what arrives for it afterwards is
#   dropped.
# - A request whose path is missing, or is not ASCII, is refused, and no other.
# - An application that fails in the middle of its answer, or sends one that HTTP/2 does not allow, has its stream
#   reset, so that its client learns it.
# - Header fields of answers are checked. A line break in one would be two fields after a proxy that speaks HTTP/1.1.
# - When the connection ends, whoever waits to send goes on.
# - A stream refused because the server stops may be tried elsewhere: that is what its error code says.
# - Priorities, obsolete, are ignored. The longest head is the server's to set.

_PIECE_BYTES = 2**14
"""Given to Hypercorn's buffer at once, when it holds less than that: so it never holds what makes it wait by itself."""
_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-zA-Z]+")
_FORBIDDEN = re.compile(rb"[\x00\r\n]")


class Http2(H2Protocol):
    """The protocol of one connection."""

    config: ProtocolConfig
    has_part_of_head = False
    """Frames are bounded, and idle connections are cut: no head is waited for."""
    expects_more = False
    """What a client still sends has its stream reset."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._sent = trio.lowlevel.ParkingLot()
        self.connection.decoder.max_header_list_size = self.config.h2_max_header_list_size

    async def handle(self, event: ConnectionEvent) -> None:
        """Take what the client has sent, or the end of the connection."""
        await super().handle(event)
        if isinstance(event, Closed):
            for buffer in self.stream_buffers.values():
                await buffer.close()
            self._sent.unpark_all()

    async def farewell(self) -> None:
        """Say that the connection ends, and which requests were taken."""
        if not self._is_over:  # then it has been said
            self.connection.close_connection()
            await self._flush()

    async def stream_send(self, event: Event) -> None:
        """Send a part of an answer, as soon as the client has room for it."""
        if isinstance(event, (Body, Data)):
            for start in range(0, len(event.data), _PIECE_BYTES):
                await self._send_piece(type(event)(event.stream_id, event.data[start : start + _PIECE_BYTES]))
        elif isinstance(event, Response):
            await self._send_head(event)
        elif isinstance(event, (EndBody, EndData)):
            with trio.move_on_after(self.config.write_seconds) as timeouts:
                await super().stream_send(event)
                while event.stream_id in self.stream_buffers and not self.closed:
                    await self._sent.park()  # the last frame is still to be sent; a stop must not overtake it
            if timeouts.cancelled_caught:
                await self._reset(event.stream_id, ErrorCodes.CANCEL)
        else:
            await super().stream_send(event)

    async def _send_head(self, event: Response) -> None:
        """Send the head of an answer; unlike Hypercorn, do not keep it to ourselves if that fails."""
        _check_fields(event.headers)
        if event.stream_id not in self.streams or self._is_over:
            return
        head = [(b":status", b"%d" % event.status_code), *event.headers, *self.config.response_headers("h2")]
        try:
            self.connection.send_headers(event.stream_id, head)
        except ProtocolError as error:
            await self._reset(event.stream_id, ErrorCodes.INTERNAL_ERROR)
            raise ValueError(f"HTTP/2 does not allow the head of the answer: {error}") from error
        await self._flush()

    @property
    def _is_over(self) -> bool:
        return self.connection.state_machine.state is ConnectionState.CLOSED

    async def _send_piece(self, event: Body | Data) -> None:
        with trio.move_on_after(self.config.write_seconds) as timeouts:
            while self._is_full(event.stream_id):
                await self._sent.park()
        if timeouts.cancelled_caught:
            await self._reset(event.stream_id, ErrorCodes.CANCEL)
        else:
            await super().stream_send(event)

    def _is_full(self, stream_id: int) -> bool:
        buffer = self.stream_buffers.get(stream_id)
        return not self.closed and buffer is not None and len(buffer.buffer) >= BUFFER_LOW_WATER

    async def _send_data(self, stream_id: int) -> None:
        await super()._send_data(stream_id)
        self._sent.unpark_all()
        stream = self.connection.streams.get(stream_id)
        if stream is not None and stream.state_machine.state is StreamState.HALF_CLOSED_LOCAL:
            await self._reset(stream_id, ErrorCodes.NO_ERROR)  # RFC 9113, 8.1: all is answered, send no more

    async def _handle_events(self, events: Sequence[H2Event]) -> None:
        for event in events:
            match event:
                case RequestReceived() if self.context.terminated.is_set():
                    self.connection.reset_stream(event.stream_id, ErrorCodes.REFUSED_STREAM)
                case RequestReceived() if not _is_readable(event):
                    self.connection.reset_stream(event.stream_id, ErrorCodes.PROTOCOL_ERROR)
                case DataReceived() if event.stream_id not in self.streams:
                    self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                case _:
                    await super()._handle_events([event])
        await self._flush()

    async def _priority_updated(self, event: object) -> None:
        """Streams share alike: priorities are obsolete (RFC 9113, 5.3.2), and a thousand of them end Hypercorn."""

    async def _close_stream(self, stream_id: int) -> None:
        was_open = stream_id in self.streams
        await super()._close_stream(stream_id)
        if was_open and not self.closed and stream_id in self.stream_buffers:
            await self._reset(stream_id, ErrorCodes.INTERNAL_ERROR)

    async def _reset(self, stream_id: int, code: ErrorCodes) -> None:
        with suppress(ProtocolError):  # the client was quicker
            self.connection.reset_stream(stream_id, code)
            await self._flush()
        await super()._close_stream(stream_id)
        await self._window_updated(stream_id)  # the task that sends cleans up


def _check_fields(fields: Iterable[tuple[bytes, bytes]]) -> None:
    for name, value in fields:
        if not _NAME.fullmatch(name) or _FORBIDDEN.search(value):
            raise ValueError(f"the answer has a header field that cannot be: {name!r}: {value!r}")


def _is_readable(request: RequestReceived) -> bool:
    head = dict[bytes | str, bytes | str](request.headers)
    path = head.get(b":path")
    return path is not None and path.isascii() and head[b":method"].isascii()
