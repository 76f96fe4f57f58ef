"""One connection of an HTTP server: bytes in, bytes out, and how long its client may take. Loaded when a server starts.

Stands in for Hypercorn's `TCPServer`, and drives its protocols. The rules of this file:

- Nothing that happens on a connection leaves it, but an interrupt: it is logged, and costs that connection.
- A client is waited for within limits: for the head of a request, between requests, and for what it does not read. A
  limit is on the wait alone: what has come while this process stood still is there, and is served.
- What a protocol has made into bytes is written, whoever is cancelled meanwhile: half a frame would ruin the
  connection, a lost one would go unnoticed. That is shielded, and within the limit for clients that do not read.
- `abort` ends a connection at once, also one that is being written to.
"""

from __future__ import annotations

import logging
import math
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias, cast

import trio
from attrs import define, field
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper, ConnectionState, TaskGroup

from ..server import AsgiApp
from ._application import AppTasks, contained
from ._protocols import Http1, Http2, ProtocolConfig, StartsHttp2
from ._sockets import HttpListening

__all__ = ["Connections"]

_log = logging.getLogger("trio_mcp.transports")

_Stream: TypeAlias = "trio.SocketStream | trio.SSLStream[trio.SocketStream]"

_READ_BYTES = 2**16
_WRITE_BYTES = 2**16
"""Written at once, with `write_seconds` for each."""
_LATE_SECONDS = 1.0
"""How long what had come in time is read, and its rest waited for: many records of TLS, say, the last not whole."""
_LINGER_SECONDS = 2.0
"""How long a client that is still sending is listened to after the last answer. Were the connection closed at once, the
system would throw away what the client has not read of that answer."""
_NO_LINGER = struct.pack("ii", 1, 0)
"""For a client that reads nothing: the system is not to keep what it was to be sent."""


@define(eq=False)
class Connections:
    """What the connections of one server have in common, and those that are open."""

    app: AsgiApp
    listening: HttpListening
    lifespan_state: dict[str, Any]
    config: ProtocolConfig = field(init=False)
    context: WorkerContext = field(factory=lambda: WorkerContext(None), init=False)
    _open: set[_Connection] = field(factory=set["_Connection"], init=False)
    _left: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def __attrs_post_init__(self) -> None:
        self.config = ProtocolConfig(self.listening)

    async def serve(self, stream: _Stream) -> None:
        """Serve one connection until it ends."""
        connection = _Connection(stream, self)
        self._open.add(connection)
        try:
            with contained(connection.report):
                await connection.run()
        finally:
            self._open.discard(connection)
            self._left.unpark_all()

    async def stop(self) -> None:
        """Let every connection end: now if it is idle, or else after the answers it has begun."""
        await self.context.terminated.set()
        for connection in self._open:
            connection.end_if_idle()

    def abort(self) -> None:
        """End every connection now."""
        for connection in self._open:
            connection.abort()

    async def wait_left(self) -> None:
        """Wait until there is none."""
        while self._open:
            await self._left.park()


class _Connection:
    """One of them. `run` is its task; Hypercorn's protocol and the application's tasks call the rest."""

    def __init__(self, stream: _Stream, common: Connections) -> None:
        self._stream = stream
        self._socket = stream.transport_stream.socket if isinstance(stream, trio.SSLStream) else stream.socket
        self._common = common
        self._reading = trio.CancelScope()
        self._waiting = trio.CancelScope()
        self._has_run_out = False
        self._excused = -math.inf
        self._excused_until = -math.inf
        self._writing = trio.Lock()
        self._is_idle = True
        self._is_lost = False
        self._first_deadline = trio.current_time() + common.listening.head_seconds
        self.client = _address(self._socket.getpeername)
        self._server = _address(self._socket.getsockname)
        self._tasks: AppTasks
        self._protocol: Http1 | Http2

    async def run(self) -> None:
        """Serve until either side ends it, and until the application has ended all it does for it."""
        try:
            async with trio.open_nursery() as nursery:
                self._tasks = AppTasks(nursery, self._common.app)
                self._protocol = self._new_protocol(Http1)
                self._waiting.deadline = self._first_deadline
                if self._common.context.terminated.is_set():  # it was accepted in the moment of the stop
                    self._reading.cancel()
                with self._reading, suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    await self._greet()
                    await self._read()
                await self._end(by_us=self._reading.cancelled_caught or self._has_run_out)
        finally:
            self.abort()

    def report(self, failure: BaseException) -> None:
        """Log why the connection is over."""
        _log.warning("the connection from %s failed and is closed", self.client, exc_info=failure)

    def end_if_idle(self) -> None:
        """End now, unless a request is being answered."""
        if self._is_idle:
            self._reading.cancel()

    def abort(self) -> None:
        """End now, whatever is being done."""
        self._is_lost = True
        self._socket.close()
        self._reading.cancel()

    def _new_protocol(self, kind: type[Http1 | Http2]) -> Http1 | Http2:
        return kind(
            cast("AppWrapper", self._common.app),  # not called: `AppTasks` has the application, too
            self._common.config,
            self._common.context,
            cast("TaskGroup", self._tasks),  # all of one that protocols use
            ConnectionState(self._common.lifespan_state),
            self._common.listening.is_encrypted,
            self.client,
            self._server,
            self._emit,
        )

    async def _greet(self) -> None:
        """Settle on TLS, and with it on a protocol."""
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
        """Wait for bytes; empty at the end, or when the client has had its time."""
        with trio.CancelScope(deadline=self._waiting.deadline) as self._waiting:
            return bytes(await self._stream.receive_some(_READ_BYTES))
        # A wait that a stop of the process interrupts ends without a look at what has come. Once for each limit: a
        # client that never stops sending gains no more than that moment.
        limit = self._waiting.deadline
        if self._excused < limit and self._socket.is_readable():
            self._excused, self._excused_until = limit, trio.current_time() + _LATE_SECONDS
        if self._excused == limit:
            with trio.move_on_at(self._excused_until):
                return bytes(await self._stream.receive_some(_READ_BYTES))
        self._has_run_out = True
        return b""

    async def _emit(self, event: Event) -> None:
        """Do what the protocol wants: write, be idle or busy, or end."""
        match event:
            case RawData(data=data):
                await self._write(data)
            case Updated(idle=True):
                self._is_idle = True
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
                self._writing.acquire_nowait()  # nearly always: `acquire` would let all other tasks go first
            except trio.WouldBlock:
                await self._writing.acquire()
            try:
                for start in range(0, len(data), _WRITE_BYTES):
                    if self._is_lost:
                        await trio.lowlevel.checkpoint()  # who goes on sending is not to keep others from running
                        return
                    timeouts.deadline = trio.current_time() + self._common.listening.write_seconds
                    await self._stream.send_all(data[start : start + _WRITE_BYTES])
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self.abort()
            finally:
                self._writing.release()
        if timeouts.cancelled_caught:
            _log.info("the connection from %s is closed: its client reads nothing", self.client)
            with suppress(OSError):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            self.abort()

    async def _end(self, *, by_us: bool) -> None:
        """Tell everybody, and close the stream as its client deserves."""
        if by_us:
            await self._protocol.farewell()
        await self._protocol.handle(Closed())
        self._tasks.end()
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
    except OSError:  # the client is gone already
        return None
    return None if isinstance(name, (str, bytes)) else (str(name[0]), int(name[1]))  # a Unix socket has no address
