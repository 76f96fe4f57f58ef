"""One connection of an HTTP server: bytes, timeouts, and the choice between HTTP/1.1 and HTTP/2.

Replaces Hypercorn's `TCPServer`. HTTP/1.1 is our own (`_http1`), HTTP/2 is Hypercorn's. Loaded when a server starts.

Rules of this file:

1. No exception leaves a connection: it is logged, and ends that connection.
2. Waiting for a client is bounded: for the head of a request, between requests, and while it does not read. A timeout
   bounds only the wait: data that arrived while this process was suspended is served.
3. The bytes that a protocol has produced are written, whichever task is cancelled meanwhile: half a frame would break
   the connection, and a lost one would go unnoticed. The write is shielded, and bounded by the timeout for clients that
   do not read.
4. `abort` ends a connection at once, even during a write. So does the extension `CUT_EXTENSION` of a request, for an
   application that needs the memory of a response that is not read.

`Http2` differs from Hypercorn's protocol, where each of these ends the connection or the server, or hangs:

- A stream whose client grants no window makes its application wait, and is reset after a timeout. (In Hypercorn, the
  buffer grows without bound.)
- A response that is complete before the request has been received ends the stream; what arrives later is dropped.
- A request whose path is missing or not ASCII is refused, and no other request.
- An application that fails in the middle of its response, or sends one that HTTP/2 does not allow, has its stream
  reset, so the client notices.
- The header fields of responses are checked. A line break in one would become two fields behind a proxy that speaks
  HTTP/1.1.
- When the connection ends, tasks that wait to send continue.
- A stream that is refused because the server stops has an error code that allows the client to try elsewhere.
- Priorities, which are obsolete, are ignored. The limit for heads is configurable.
"""

from __future__ import annotations

import logging
import math
import re
import socket
import struct
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, cast

import h2.events
import trio
from attrs import define, field
from h2.connection import ConnectionState as Http2State
from h2.errors import ErrorCodes
from h2.events import DataReceived, RequestReceived
from h2.exceptions import ProtocolError
from h2.stream import StreamState
from hypercorn.events import Closed, RawData, Updated
from hypercorn.events import Event as ConnectionEvent
from hypercorn.protocol.events import Body, Data, EndBody, EndData, Event, Response
from hypercorn.protocol.h2 import BUFFER_LOW_WATER, H2Protocol
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper, ConnectionState

from ..._connection_bound import ConnectionBound, has_unread_data, socket_of
from ..._stream import sender_at
from ..server import AsgiApp
from ._application import AppTasks, Mailbox, contained
from ._http1 import Http1, ProtocolConfig, StartsHttp2
from ._sockets import HttpListening

__all__ = ["Connections"]

_log = logging.getLogger("trio_mcp.transports")
_Stream: TypeAlias = "trio.SocketStream | trio.SSLStream[trio.SocketStream]"
_READ_BYTES = 2**16
_WRITE_BYTES = 2**16
"""The number of bytes written at once, with `write_seconds` for each piece."""
_LATE_SECONDS = 1.0
"""The time to read data that arrived in time, and to wait for its rest, such as the last of many TLS records."""
_CUT_SECONDS = 1.0
"""The time for an application to leave a response that is cut, unless a write holds it."""
_ENDS_AT_ONCE = 16
_PASSES_OF_END = 3
"""The passes of the event loop in which most of the requests of a connection notice its end."""
_LINGER_SECONDS = 2.0
"""The time that a client which is still sending is read from after the last response. If the connection were closed at
once, the system would discard the unread part of that response."""
_NO_LINGER = struct.pack("ii", 1, 0)
"""The socket option for a client that reads nothing: the system drops unsent data."""
_PIECE_BYTES = 2**14
"""The size of the pieces for Hypercorn's buffer, which gets one when it holds less: so it never blocks by itself."""
_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-zA-Z]+")
_FORBIDDEN = re.compile(rb"[\x00\r\n]")


@define(eq=False)
class Connections:
    """The open connections of one server, and what they share."""

    app: AsgiApp
    listening: HttpListening
    lifespan_state: dict[str, Any]
    config: ProtocolConfig = field(init=False)
    context: WorkerContext = field(factory=lambda: WorkerContext(None), init=False)
    bound: ConnectionBound[_Connection] = field(init=False)
    ends: trio.CapacityLimiter = field(factory=lambda: trio.CapacityLimiter(_ENDS_AT_ONCE), init=False)
    """Limits how many connections end their requests at once, so that clients which leave together delay nobody."""
    _open: set[_Connection] = field(factory=set["_Connection"], init=False)
    _left: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def __attrs_post_init__(self) -> None:
        self.config = ProtocolConfig(self.listening)
        self.bound = ConnectionBound["_Connection"](self.listening.max_connections)

    @trio.lowlevel.enable_ki_protection  # an interrupt is for the main task of the program, not for one connection
    async def serve(self, stream: _Stream) -> None:
        """Serve one connection until it ends; close it at once if it is beyond the bound."""
        connection = _Connection(stream, self)
        if not self.bound.admit(sender_at(stream), connection, socket_of(stream)):
            connection.abort()
            await trio.lowlevel.checkpoint()
            return
        self._open.add(connection)
        try:
            with contained(connection.report):
                await connection.run()
        finally:
            self._open.discard(connection)
            self._left.unpark_all()

    async def stop(self) -> None:
        """End idle connections now, and the others after the responses they have begun."""
        await self.context.terminated.set()
        for connection in self._open:
            connection.end_if_idle()

    def abort(self) -> None:
        """End every connection now."""
        for connection in self._open:
            connection.abort()

    async def wait_left(self) -> None:
        """Wait until no connection is open."""
        while self._open:
            await self._left.park()


class _Connection:
    """One open connection; `run` is its task.

    Hypercorn's protocol and the application's tasks call the other methods.
    """

    def __init__(self, stream: _Stream, common: Connections) -> None:
        self._stream = stream
        self._socket = stream.transport_stream.socket if isinstance(stream, trio.SSLStream) else stream.socket
        self._common = common
        self._reading = trio.CancelScope()
        self._waiting = trio.CancelScope()
        self._has_timed_out = False
        self._excused = -math.inf
        self._excused_until = -math.inf
        self._writing = trio.Lock()
        self._is_idle = True
        """True while no request is answered."""
        self._is_ending = False
        self._is_lost = False
        self._first_deadline = trio.current_time() + common.listening.head_seconds
        self.client = _address(self._socket.getpeername)
        self._server = _address(self._socket.getsockname)
        self._tasks: AppTasks
        self._protocol: Http1 | Http2

    async def run(self) -> None:
        """Serve until either side ends the connection, and until all its requests have ended."""
        try:
            async with trio.open_nursery() as nursery:
                self._tasks = AppTasks(nursery, self._common.app, self._cut)
                self._protocol = self._new_protocol(Http1)
                self._waiting.deadline = self._first_deadline
                if self._common.context.terminated.is_set():  # it was accepted while the server was stopping
                    self._reading.cancel()
                with self._reading, suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    await self._greet()
                    await self._read()
                await self._end(by_us=self._reading.cancelled_caught or self._has_timed_out)
        finally:
            self.abort()
            del self._tasks, self._protocol  # they refer to this object, and a cycle waits for the garbage collector

    @property
    def is_idle(self) -> bool:
        """True if it may be closed to make room: no request is answered, and none has arrived that was not read yet."""
        return self._is_ending or (self._is_idle and not has_unread_data(self._stream))

    def report(self, failure: Exception) -> None:
        """Log the failure that ends the connection."""
        _log.warning("the connection from %s failed and is closed", self.client, exc_info=failure)

    def end_if_idle(self) -> None:
        """End now, unless a request is being answered."""
        if self._is_idle:
            self._reading.cancel()

    def _cut(self, request: Mailbox) -> None:
        """Break off a response that its client does not read, and which the application has cancelled.

        Over HTTP/2 the other streams go on, unless the application is still in a write, which is shielded: then the
        client takes nothing of any stream.
        """
        if self._is_lost:
            return
        if isinstance(self._protocol, Http2):
            self._tasks.spawn(self._abort_unless_ended, request)
        else:
            self.abort()

    async def _abort_unless_ended(self, request: Mailbox) -> None:
        with trio.move_on_after(_CUT_SECONDS) as timeout:
            await self._tasks.wait_ended(request)
        if timeout.cancelled_caught:
            self.abort()

    def abort(self) -> None:
        """End now, in any state."""
        self._is_lost = True
        self._common.bound.remove(self)
        self._socket.close()
        self._reading.cancel()

    def _new_protocol(self, kind: type[Http1 | Http2]) -> Http1 | Http2:
        return kind(
            cast("AppWrapper", self._common.app),  # not called: `AppTasks` calls the application
            self._common.config,
            self._common.context,
            cast("Any", self._tasks),  # it has all that protocols use of Hypercorn's `TaskGroup`
            ConnectionState(self._common.lifespan_state),
            self._common.listening.is_encrypted,
            self.client,
            self._server,
            self._emit,
        )

    async def _greet(self) -> None:
        """Negotiate TLS, and with it the protocol."""
        if isinstance(self._stream, trio.SSLStream):
            self._reading.deadline = self._first_deadline
            await self._stream.do_handshake()
            self._reading.deadline = math.inf
            if self._stream.selected_alpn_protocol() == "h2":
                await self._go_on_with_http2()

    async def _go_on_with_http2(self) -> None:
        self._is_idle = True
        self._waiting.deadline = self._first_deadline
        self._protocol = self._new_protocol(Http2)
        await self._protocol.initiate()

    async def _read(self) -> None:
        while data := await self._receive():
            try:
                await self._protocol.handle(RawData(data))
            except StartsHttp2 as preface:
                await self._go_on_with_http2()
                await self._protocol.handle(RawData(preface.data))
            if self._is_idle and self._protocol.has_part_of_head:
                latest = trio.current_time() + self._common.listening.head_seconds
                self._waiting.deadline = min(self._waiting.deadline, latest)

    async def _receive(self) -> bytes:
        """Wait for bytes; return none at the end, or after a timeout."""
        with trio.CancelScope(deadline=self._waiting.deadline) as self._waiting:
            return bytes(await self._stream.receive_some(_READ_BYTES))
        # After a suspension of the process the timeout expires before received data is read. It is read once for each
        # timeout, so a client that never stops sending gains no more than that moment.
        limit = self._waiting.deadline
        if self._excused < limit and self._socket.is_readable():
            self._excused, self._excused_until = limit, trio.current_time() + _LATE_SECONDS
        if self._excused == limit:
            with trio.move_on_at(self._excused_until):
                return bytes(await self._stream.receive_some(_READ_BYTES))
        self._has_timed_out = True
        return b""

    async def _emit(self, event: ConnectionEvent) -> None:
        """Execute an event of the protocol: write, become idle or busy, or end."""
        match event:
            case RawData(data=data):
                await self._write(data)
            case Updated(idle=True):
                self._is_idle = True
                self._common.bound.used(self)
                self._waiting.deadline = trio.current_time() + self._common.listening.keep_alive_seconds
                if self._common.context.terminated.is_set():
                    self._reading.cancel()
            case Updated():
                self._is_idle = False
                self._waiting.deadline = math.inf
            case _:
                self._reading.cancel()

    async def _write(self, data: bytes) -> None:
        with trio.CancelScope(shield=True) as timeouts:
            try:
                self._writing.acquire_nowait()  # usually free: `acquire` would let all other tasks run first
            except trio.WouldBlock:
                await self._writing.acquire()
            try:
                for start in range(0, len(data), _WRITE_BYTES):
                    if self._is_lost:
                        await trio.lowlevel.checkpoint()  # an application that keeps sending must not block other tasks
                        return
                    timeouts.deadline = trio.current_time() + self._common.listening.write_seconds
                    await self._stream.send_all(data[start : start + _WRITE_BYTES])
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self.abort()
            finally:
                self._writing.release()
        if timeouts.cancelled_caught:
            _log.info("the connection from %s is closed: its client does not read", self.client)
            with suppress(OSError):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            self.abort()

    async def _end(self, *, by_us: bool) -> None:
        """Tell the protocol and the application, and close the stream."""
        if by_us:
            await self._protocol.announce_close()
        async with self._common.ends:
            await self._protocol.handle(Closed())
            self._tasks.end()
            for _ in range(_PASSES_OF_END):
                await trio.lowlevel.checkpoint()
        self._is_ending = True
        with (
            trio.move_on_after(self._common.listening.write_seconds),
            suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError),
        ):
            async with self._writing:
                if by_us and self._protocol.expects_more:
                    await self._linger()
                if not self._is_lost:
                    await self._stream.aclose()
        self.abort()

    async def _linger(self) -> None:
        with trio.move_on_after(_LINGER_SECONDS):
            if isinstance(self._stream, trio.SocketStream):
                await self._stream.send_eof()
            while await self._stream.receive_some(_READ_BYTES):
                pass


def _address(look_up: Callable[[], Any]) -> tuple[str, int] | None:
    try:
        name: Any = look_up()
    except OSError:  # the client has left already
        return None
    return None if isinstance(name, (str, bytes)) else (str(name[0]), int(name[1]))  # a Unix socket has no address


class Http2(H2Protocol):
    """The HTTP/2 protocol of one connection."""

    config: ProtocolConfig
    has_part_of_head = False
    """False: frames are bounded, and idle connections are closed."""
    expects_more = False
    """False: the stream of what a client still sends is reset."""

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
        if stream is not None and stream.state_machine.state is StreamState.HALF_CLOSED_LOCAL:
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
        await super()._close_stream(stream_id)
        if was_open and not self.closed and stream_id in self.stream_buffers:
            await self._reset(stream_id, ErrorCodes.INTERNAL_ERROR)

    async def _reset(self, stream_id: int, code: ErrorCodes) -> None:
        with suppress(ProtocolError):  # the client has closed it already
            self.connection.reset_stream(stream_id, code)
            await self._flush()
        await super()._close_stream(stream_id)
        await self._window_updated(stream_id)  # wakes the sending task, which cleans up


def _check_fields(fields: Iterable[tuple[bytes, bytes]]) -> None:
    for name, value in fields:
        if not _NAME.fullmatch(name) or _FORBIDDEN.search(value):
            raise ValueError(f"the response has an invalid header field: {name!r}: {value!r}")


def _is_readable(request: RequestReceived) -> bool:
    head = dict[bytes | str, bytes | str](request.headers)
    path = head.get(b":path")
    return path is not None and path.isascii() and head[b":method"].isascii()
