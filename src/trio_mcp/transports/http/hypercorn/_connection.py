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
"""

from __future__ import annotations

import heapq
import logging
import math
import socket
import struct
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias, cast

import trio
from attrs import define, field
from hypercorn.events import Closed, RawData, Updated
from hypercorn.events import Event as ConnectionEvent
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper, ConnectionState

from ..._connection_bound import ConnectionBound, has_unread_data, socket_of
from ..._stream import sender_at
from ..server import AsgiApp
from ._application import AppTasks, Mailbox, contained
from ._http1 import DirectApp, Http1
from ._http2 import Http2, ProtocolConfig
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


@define(order=True)
class _DeadlineAlarm:
    """A time at which the deadline of a connection is looked at."""

    time: float
    connection: _Connection | None = field(order=False)
    """The connection; None once it has ended, or has an earlier alarm."""


@define(eq=False)
class _Deadlines:
    """The times until which the clients of HTTP/1.1 without TLS may be silent.

    A cancel scope for each wait costs a tenth of a small request (benchmark cell `http-1`). Nearly always the deadline
    has moved before it is reached. So a connection has one alarm, which is not later than its deadline, and another one
    only when that has gone off.
    """

    _alarms: list[_DeadlineAlarm] = field(factory=list[_DeadlineAlarm], init=False)
    """A heap."""
    _dropped: int = field(default=0, init=False)
    """The number of alarms in it without a connection, at most half of them."""
    _sleeping: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _is_stopped: bool = field(default=False, init=False)

    def enter(self, connection: _Connection) -> None:
        """Expire a connection at its deadline."""
        connection.drop_alarm()
        connection.alarm = alarm = _DeadlineAlarm(connection.deadline, connection)
        heapq.heappush(self._alarms, alarm)
        if alarm.time < self._sleeping.deadline:  # noqa: PLR1730 # setting it costs more than the rest
            self._sleeping.deadline = alarm.time

    async def watch(self) -> None:
        """Expire connections until `stop`."""
        while not self._is_stopped:
            self._forget_dropped()
            until = self._alarms[0].time if self._alarms else math.inf
            with trio.CancelScope(deadline=until) as self._sleeping:
                await trio.sleep_forever()
            now = trio.current_time()
            while self._alarms and self._alarms[0].time <= now:
                connection = heapq.heappop(self._alarms).connection
                if connection is None:
                    self._dropped -= 1
                else:
                    connection.look_at_deadline(now)

    def dropped(self) -> None:
        """Note that an alarm has lost its connection; such alarms wake nobody, and are no more than the others."""
        self._dropped += 1
        if 2 * self._dropped > len(self._alarms):
            self._alarms = [alarm for alarm in self._alarms if alarm.connection is not None]
            heapq.heapify(self._alarms)
            self._dropped = 0

    def _forget_dropped(self) -> None:
        """Remove the alarms without a connection that would be the next ones."""
        while self._alarms and self._alarms[0].connection is None:
            heapq.heappop(self._alarms)
            self._dropped -= 1

    def stop(self) -> None:
        """End `watch`."""
        self._is_stopped = True
        self._sleeping.cancel()


@define(eq=False)
class Connections:
    """The open connections of one server, and what they share."""

    app: AsgiApp
    listening: HttpListening
    lifespan_state: dict[str, Any]
    direct: DirectApp | None = None
    """Answers requests without ASGI; None if the application cannot."""
    config: ProtocolConfig = field(init=False)
    context: WorkerContext = field(factory=lambda: WorkerContext(None), init=False)
    bound: ConnectionBound[_Connection] = field(init=False)
    is_stopping: bool = field(default=False, init=False)
    """True if the server stops: a response is the last of its connection."""
    ends: trio.CapacityLimiter = field(factory=lambda: trio.CapacityLimiter(_ENDS_AT_ONCE), init=False)
    """Limits how many connections end their requests at once, so that clients which leave together delay nobody."""
    deadlines: _Deadlines = field(factory=_Deadlines, init=False)
    _open: set[_Connection] = field(factory=set["_Connection"], init=False)
    _left: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def __attrs_post_init__(self) -> None:
        self.config = ProtocolConfig(self.listening)
        self.bound = ConnectionBound["_Connection"](self.listening.max_connections)

    @trio.lowlevel.enable_ki_protection  # an interrupt is for the main task of the program, not for one connection
    async def serve(self, stream: _Stream) -> None:
        """Serve one connection until it ends; close it at once if it is beyond the bound."""
        connection = _Connection(stream, self)  # the stream may be closed already, to make room for another
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
        self.is_stopping = True
        await self.context.terminated.set()
        for connection in self._open:
            connection.end_if_idle()

    async def watch(self) -> None:
        """Expire connections whose clients are silent for too long, until `abort`; to be run as a task."""
        await self.deadlines.watch()

    def abort(self) -> None:
        """End every connection now."""
        self.deadlines.stop()
        for connection in self._open:
            connection.abort()

    async def wait_left(self) -> None:
        """Wait until no connection is open."""
        while self._open:
            await self._left.park()


class _Connection:
    """One open connection; `run` is its task.

    The protocols, and the application's tasks, call the other methods.
    """

    def __init__(self, stream: _Stream, common: Connections) -> None:
        self._stream = stream
        self._socket = stream.transport_stream.socket if isinstance(stream, trio.SSLStream) else stream.socket
        self._common = common
        self._descriptor: socket.socket | None = None
        self._waiting = trio.CancelScope()
        self._is_stopped = False
        """True if nothing more is read."""
        self._has_client_left = False
        self._is_http2 = False
        self._excused = -math.inf
        self._excused_until = -math.inf
        self._writing = trio.Lock()
        self._unsent: deque[bytes] = deque()
        """The bytes that were put, and have to be flushed."""
        self._is_idle = True
        """True while no request is answered."""
        self._is_ending = False
        self.is_lost = False
        """True if nothing more is read or written."""
        self._lost = trio.lowlevel.ParkingLot()
        self.deadline = trio.current_time() + common.listening.head_seconds
        """The time until which the client may be silent."""
        self.alarm: _DeadlineAlarm | None = None
        """Looks at the deadline, in HTTP/1.1 without TLS."""
        self.client = _address(self._socket.getpeername)
        self.server = _address(self._socket.getsockname)
        self._tasks: AppTasks

    async def run(self) -> None:
        """Serve until either side ends the connection, and until all its requests have ended."""
        try:
            self._descriptor = _sharing_descriptor(self._stream)
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                self._tasks = AppTasks(nursery, self._common.app, self._cut)
                if self.is_stopping:  # it was accepted while the server was stopping
                    self.stop_reading()
                protocol: Http1 | Http2 | None = None
                try:
                    if await self._negotiates_http2():
                        protocol = self._new_http2()
                        await self._serve_http2(protocol, b"")
                    else:
                        protocol = Http1(self, self._tasks, self._common)
                        preface = await protocol.serve()
                        if preface:
                            protocol = self._new_http2()
                            await self._serve_http2(protocol, preface)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    self._has_client_left = True
                await self._end(protocol)
        finally:
            self.abort()
            del self._tasks, self._nursery  # they refer to this object, and a cycle waits for the garbage collector

    @property
    def is_idle(self) -> bool:
        """True if it may be closed to make room: no request is answered, and none has arrived that was not read yet."""
        return self._is_ending or (self._is_idle and not has_unread_data(self._stream))

    @property
    def is_stopping(self) -> bool:
        """True if the server stops: a response is the last of its connection."""
        return self._common.is_stopping

    def report(self, failure: Exception) -> None:
        """Log the failure that ends the connection."""
        _log.warning("the connection from %s failed and is closed", self.client, exc_info=failure)

    def end_if_idle(self) -> None:
        """End now, unless a request is being answered."""
        if self._is_idle:
            self.stop_reading()

    def _cut(self, request: Mailbox) -> None:
        """Break off a response that its client does not read, and which the application has cancelled.

        Over HTTP/2 the other streams go on, unless the application is still in a write, which is shielded: then the
        client takes nothing of any stream.
        """
        if self.is_lost:
            return
        if self._is_http2:
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
        self.is_lost = True
        self.drop_alarm()
        self._common.bound.remove(self)
        self._release_descriptor()
        self._socket.close()
        self.stop_reading()
        self._lost.unpark_all()

    def reset(self) -> None:
        """End now, so that the client cannot take what it has received for the whole; unsent data is dropped."""
        with suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.abort()

    async def wait_lost(self) -> None:
        """Wait until the connection is aborted."""
        while not self.is_lost:
            await self._lost.park()

    def _release_descriptor(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            descriptor.detach()

    # --- Reading ---

    def stop_reading(self) -> None:
        """Let the task that waits for the next request, or for any bytes of HTTP/2, continue without them."""
        self._is_stopped = True
        self._waiting.cancel()
        self._wake()

    def _wake(self) -> None:
        """Let the task that waits for a request of HTTP/1.1 continue."""
        if self._descriptor is not None and not self._is_http2:
            trio.lowlevel.notify_closing(self._socket)

    def look_at_deadline(self, now: float) -> None:
        """Let the waiting task continue if its client is silent for too long; take another alarm otherwise."""
        self.alarm = None
        if self.deadline <= now:
            self._wake()
        elif self.deadline < math.inf:
            self._common.deadlines.enter(self)

    def drop_alarm(self) -> None:
        """Forget the alarm."""
        alarm, self.alarm = self.alarm, None
        if alarm is not None:
            alarm.connection = None
            self._common.deadlines.dropped()

    def become_busy(self) -> None:
        """A request has arrived: the client may be silent."""
        self._is_idle = False
        self._set_deadline(math.inf)

    def become_idle(self) -> None:
        """All requests are answered: the next one has to arrive in time."""
        self._is_idle = True
        self._common.bound.used(self)
        self._set_deadline(trio.current_time() + self._common.listening.keep_alive_seconds)
        if self.is_stopping:
            self.stop_reading()

    def _set_deadline(self, deadline: float) -> None:
        self.deadline = deadline
        if self._is_http2:  # whose task waits for bytes at any time
            self._waiting.deadline = deadline

    def await_rest_of_head(self) -> None:
        """The head of a request has begun to arrive: the rest has to follow in time."""
        self.deadline = min(self.deadline, trio.current_time() + self._common.listening.head_seconds)

    async def receive(self) -> bytes:
        """Wait for bytes; return none at the end, after a timeout, or if the connection is to end."""
        if self._is_stopped:
            await trio.lowlevel.checkpoint()
            return b""
        if self._descriptor is None or self._is_http2:
            with trio.CancelScope(deadline=self.deadline) as self._waiting:
                return await self._receive_some()
            return await self._receive_late(self._waiting.deadline)
        if self.deadline < (math.inf if self.alarm is None else self.alarm.time):
            self._common.deadlines.enter(self)
        try:
            return await self._receive_some()
        except trio.ClosedResourceError:  # `_wake`
            return await self._receive_late(self.deadline)

    async def _receive_late(self, limit: float) -> bytes:
        """Return bytes that have arrived before a timeout, or none.

        After a suspension of the process the timeout expires before received data is read. It is read once for each
        timeout, so a client that never stops sending gains no more than that moment.
        """
        if self._is_stopped:
            return b""
        if self._excused < limit and self._socket.is_readable():
            self._excused, self._excused_until = limit, trio.current_time() + _LATE_SECONDS
        if self._excused == limit:
            with suppress(trio.ClosedResourceError), trio.move_on_at(self._excused_until) as self._waiting:
                return await self._receive_some()
        return b""

    async def receive_during_request(self) -> bytes:
        """Wait for bytes while a request is answered, without a limit; return none after the client has left."""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            data = await self._receive_some()
            if data:
                return data
        await self._depart()
        return b""

    async def _receive_some(self) -> bytes:
        """Wait for bytes; return none after the client has left.

        From a descriptor without the attempt that Trio makes before it waits: a client sends nothing before its
        response.
        """
        descriptor, data = self._descriptor, None
        if descriptor is None:
            data = bytes(await self._stream.receive_some(_READ_BYTES))
        while data is None and descriptor is not None:
            try:
                await trio.lowlevel.wait_readable(descriptor)
                data = descriptor.recv(_READ_BYTES)
            except BlockingIOError:
                pass
            except OSError as error:
                raise trio.BrokenResourceError from error
        if not data:
            self._has_client_left = True
        return data or b""

    async def _depart(self) -> None:
        """Let the request notice that its client has left, a few of them at a time."""
        self._has_client_left = True
        place, ends = object(), self._common.ends
        try:
            ends.acquire_on_behalf_of_nowait(place)  # `acquire_on_behalf_of` would let all other tasks run first
        except trio.WouldBlock:
            await ends.acquire_on_behalf_of(place)
        self._nursery.start_soon(self._leave_place, place)

    async def _leave_place(self, place: object) -> None:
        try:
            for _ in range(_PASSES_OF_END):
                await trio.lowlevel.checkpoint()
        finally:
            self._common.ends.release_on_behalf_of(place)

    # --- Writing ---

    def put(self, data: bytes) -> bool:
        """Write what the client takes at once; return True if that is all, or the client has left.

        Otherwise await `flush`.
        """
        if self.is_lost:
            return True
        if self._descriptor is not None and not self._unsent and not self._writing.locked():
            try:
                sent = self._descriptor.send(data)
            except BlockingIOError:
                sent = 0
            except OSError:
                self.abort()
                return True
            if sent == len(data):
                return True
            data = data[sent:]
        self._unsent.append(data)
        return False

    async def flush(self) -> None:
        """Write what was put, whether or not this task is cancelled (rule 3)."""
        with trio.CancelScope(shield=True) as timeouts:
            try:
                self._writing.acquire_nowait()  # usually free: `acquire` would let all other tasks run first
            except trio.WouldBlock:
                await self._writing.acquire()
            try:
                while self._unsent and not self.is_lost:
                    data = self._unsent.popleft()
                    for start in range(0, len(data), _WRITE_BYTES):
                        timeouts.deadline = trio.current_time() + self._common.listening.write_seconds
                        await self._stream.send_all(data[start : start + _WRITE_BYTES])
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self.abort()
            finally:
                self._writing.release()
        if timeouts.cancelled_caught:
            _log.info("the connection from %s is closed: its client does not read", self.client)
            self.reset()

    async def write(self, data: bytes) -> None:
        """Write all of *data*."""
        if not self.put(data):
            await self.flush()

    # --- HTTP/2 ---

    async def _negotiates_http2(self) -> bool:
        """Negotiate TLS, and with it the protocol."""
        if isinstance(self._stream, trio.SSLStream):
            with trio.CancelScope(deadline=self.deadline) as self._waiting:
                await self._stream.do_handshake()
                return bool(self._stream.selected_alpn_protocol() == "h2")
            self.stop_reading()
        return False

    def _new_http2(self) -> Http2:
        return Http2(
            cast("AppWrapper", self._common.app),  # not called: `AppTasks` calls the application
            self._common.config,
            self._common.context,
            cast("Any", self._tasks),  # it has all that protocols use of Hypercorn's `TaskGroup`
            ConnectionState(self._common.lifespan_state),
            self._common.listening.is_encrypted,
            self.client,
            self.server,
            self._emit,
        )

    async def _serve_http2(self, protocol: Http2, data: bytes) -> None:
        self._is_http2 = self._is_idle = True
        self.deadline = trio.current_time() + self._common.listening.head_seconds
        await protocol.initiate()
        if data:
            await protocol.handle(RawData(data))
        while data := await self.receive():
            await protocol.handle(RawData(data))

    async def _emit(self, event: ConnectionEvent) -> None:
        """Execute an event of the protocol: write, become idle or busy, or end."""
        match event:
            case RawData(data=data):
                await self.write(data)
                if self.is_lost:
                    await trio.lowlevel.checkpoint()  # an application that keeps sending must not block other tasks
            case Updated(idle=True):
                self.become_idle()
            case Updated():
                self.become_busy()
            case _:
                self.stop_reading()

    # --- The end ---

    async def _end(self, protocol: Http1 | Http2 | None) -> None:
        """Tell the protocol and the application, and close the stream."""
        if isinstance(protocol, Http2):
            if not self._has_client_left:
                await protocol.announce_close()
            async with self._common.ends:
                await protocol.handle(Closed())
                self._tasks.end()
                for _ in range(_PASSES_OF_END):
                    await trio.lowlevel.checkpoint()
        self._tasks.end()
        self._is_ending = True
        async with self._writing:  # a response may still be written, which has a timeout of its own
            self._release_descriptor()
            with (
                trio.move_on_after(self._common.listening.write_seconds),
                suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError),
            ):
                if isinstance(protocol, Http1) and protocol.expects_more and not self._has_client_left:
                    await self._linger()
                if not self.is_lost:
                    await self._stream.aclose()
        self.abort()

    async def _linger(self) -> None:
        with trio.move_on_after(_LINGER_SECONDS):
            if isinstance(self._stream, trio.SocketStream):
                await self._stream.send_eof()
            while await self._stream.receive_some(_READ_BYTES):
                pass


def _sharing_descriptor(stream: _Stream) -> socket.socket | None:
    """Return a socket of the standard library for the descriptor of an unencrypted stream, which stays its owner."""
    if not isinstance(stream, trio.SocketStream):
        return None
    of = stream.socket
    shared = socket.socket(of.family, of.type, of.proto, fileno=of.fileno())
    shared.setblocking(False)
    return shared


def _address(look_up: Callable[[], Any]) -> tuple[str, int] | None:
    try:
        name: Any = look_up()
    except OSError:  # the client has left already
        return None
    return None if isinstance(name, (str, bytes)) else (str(name[0]), int(name[1]))  # a Unix socket has no address
