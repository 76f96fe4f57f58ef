"""The HTTP/2 protocol of one connection: Hypercorn's, where clients cannot crash, stall or fill it.

`Http2` differs from Hypercorn's protocol, where each of these ends the connection or the server, or hangs:

- A stream whose client grants no window makes its application wait, and is reset after a timeout. (In Hypercorn, the
  buffer grows without bound.)
- A response that is complete before the request has been received ends the stream; what arrives later is dropped. The
  stream is reset only if the rest is long: curl 7.88 takes a reset for a failure, and drops the response.
- A request whose path is missing or not ASCII is refused, and no other request.
- An application that fails in the middle of its response, or sends one that HTTP/2 does not allow, has its stream
  reset, so the client notices.
- The header fields of responses are checked. A line break in one would become two fields behind a proxy that speaks
  HTTP/1.1.
- When a client closes a WebSocket, it receives the close frame that answers its own. (Hypercorn drops it.)
- When the connection ends, tasks that wait to send continue.
- A stream that is refused because the server stops has an error code that allows the client to try elsewhere.
- Priorities, which are obsolete, are ignored. The limit for heads is configurable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import h2.events
import trio
from h2.connection import ConnectionState as Http2State
from h2.errors import ErrorCodes
from h2.events import DataReceived, RequestReceived
from h2.exceptions import ProtocolError
from h2.stream import H2Stream, StreamState
from hypercorn.config import Config
from hypercorn.events import Closed
from hypercorn.events import Event as ConnectionEvent
from hypercorn.protocol.events import Body, Data, EndBody, EndData, Event, Response, StreamClosed
from hypercorn.protocol.h2 import BUFFER_LOW_WATER, H2Protocol
from hypercorn.protocol.ws_stream import WSStream
from wsproto.connection import ConnectionState as WsState

from ._sockets import HttpListening

__all__ = ["Http2", "ProtocolConfig"]

_PIECE_BYTES = 2**14
"""The size of the pieces for Hypercorn's buffer, which gets one when it holds less: so it never blocks by itself."""
_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-zA-Z]+")
_FORBIDDEN = re.compile(rb"[\x00\r\n]")


class ProtocolConfig(Config):
    """The settings of Hypercorn that affect its protocols; the others are for the worker that this package replaces."""

    accesslog = None
    errorlog = None  # the default is a logger on standard error
    include_server_header = False
    keep_alive_max_requests = 2**62  # never

    def __init__(self, listening: HttpListening) -> None:
        self.h2_max_header_list_size = listening.max_head_bytes
        self.write_seconds = listening.write_seconds


class Http2(H2Protocol):
    """The HTTP/2 protocol of one connection."""

    config: ProtocolConfig

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._sent = trio.lowlevel.ParkingLot()
        self.connection.decoder.max_header_list_size = self.config.h2_max_header_list_size

    async def handle(self, event: ConnectionEvent) -> None:
        """Take received data, or the end of the connection."""
        await super().handle(event)
        if isinstance(event, Closed):
            for buffer in self.stream_buffers.values():
                await buffer.close()
            self._sent.unpark_all()

    async def announce_close(self) -> None:
        """Announce that the connection closes, and which requests were accepted."""
        if not self._is_over:  # otherwise it was announced already
            self.connection.close_connection()
            await self._flush()

    async def stream_send(self, event: Event) -> None:
        """Send a part of a response, as soon as the client grants a window for it."""
        if isinstance(event, (Body, Data)):
            for start in range(0, len(event.data), _PIECE_BYTES):
                await self._send_piece(type(event)(event.stream_id, event.data[start : start + _PIECE_BYTES]))
        elif isinstance(event, Response):
            await self._send_head(event)
        elif isinstance(event, (EndBody, EndData)):
            with trio.move_on_after(self.config.write_seconds) as timeouts:
                await super().stream_send(event)
                while event.stream_id in self.stream_buffers and not self.closed:
                    await self._sent.park()  # a stop must not overtake the last frame
            if timeouts.cancelled_caught:
                await self._reset(event.stream_id, ErrorCodes.CANCEL)
        else:
            stream_id = event.stream_id
            is_ending = isinstance(event, StreamClosed) and _is_closed_websocket(self.streams.get(stream_id))
            if is_ending and stream_id in self.stream_buffers:
                self.stream_buffers[stream_id].set_complete()  # it ends after its last frame
                await self._window_updated(stream_id)  # wakes the sending task
            await super().stream_send(event)

    async def _send_head(self, event: Response) -> None:
        """Send the head of a response; unlike Hypercorn, report a failure."""
        _check_fields(event.headers)
        if event.stream_id not in self.streams or self._is_over:
            return
        head = [(b":status", b"%d" % event.status_code), *event.headers, *self.config.response_headers("h2")]
        try:
            self.connection.send_headers(event.stream_id, head)
        except ProtocolError as error:
            await self._reset(event.stream_id, ErrorCodes.INTERNAL_ERROR)
            raise ValueError(f"HTTP/2 does not allow the head of the response: {error}") from error
        await self._flush()

    @property
    def _is_over(self) -> bool:
        return self.connection.state_machine.state is Http2State.CLOSED

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
        is_early = stream is not None and stream.state_machine.state is StreamState.HALF_CLOSED_LOCAL
        if stream is not None and is_early and not _ends_soon(stream):
            await self._reset(stream_id, ErrorCodes.NO_ERROR)  # RFC 9113, 8.1: the response is complete, stop sending

    async def _handle_events(self, events: Sequence[h2.events.Event]) -> None:
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
        """Do nothing: priorities are obsolete (RFC 9113, 5.3.2), and a thousand of them crash Hypercorn."""

    async def _close_stream(self, stream_id: int) -> None:
        was_open = stream_id in self.streams
        is_ending = _is_closed_websocket(self.streams.get(stream_id))
        await super()._close_stream(stream_id)
        if was_open and not is_ending and not self.closed and stream_id in self.stream_buffers:
            await self._reset(stream_id, ErrorCodes.INTERNAL_ERROR)

    async def _reset(self, stream_id: int, code: ErrorCodes) -> None:
        with suppress(ProtocolError):  # the client has closed it already
            self.connection.reset_stream(stream_id, code)
            await self._flush()
        await super()._close_stream(stream_id)
        await self._window_updated(stream_id)  # wakes the sending task, which cleans up


def _is_closed_websocket(stream: object) -> bool:
    """Return True if this is a WebSocket whose client and server have both sent a close frame."""
    return isinstance(stream, WSStream) and stream.handshake.accepted and stream.connection.state is WsState.CLOSED


def _ends_soon(stream: H2Stream) -> bool:
    """Return True if the client can send the rest of its request at once, because the window is open for it."""
    length, received = stream._expected_content_length, stream._actual_content_length  # noqa: SLF001 # h2 counts them
    return length is not None and length - received <= stream.inbound_flow_control_window


def _check_fields(fields: Iterable[tuple[bytes, bytes]]) -> None:
    for name, value in fields:
        if not _NAME.fullmatch(name) or _FORBIDDEN.search(value):
            raise ValueError(f"the response has an invalid header field: {name!r}: {value!r}")


def _is_readable(request: RequestReceived) -> bool:
    head = dict[bytes | str, bytes | str](request.headers)
    path = head.get(b":path")
    return path is not None and path.isascii() and head[b":method"].isascii()
