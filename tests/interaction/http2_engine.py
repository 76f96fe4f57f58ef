"""An HTTP engine over HTTP/2 that tells the server when a response is closed early, as no client library does.

httpx2 closes no stream, so the server does not notice that a client leaves a request. Three streams that are open at
once can also keep an answer from it: a task that has read the answer of another one does not wake it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import trio
from attrs import define, field
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, Event, ResponseReceived, StreamEnded, StreamReset
from h2.exceptions import ProtocolError, StreamClosedError

from trio_mcp.transports import EngineError, HttpResponse

__all__ = ["Http2Engine", "http2_engine"]

_READ_BYTES = 2**16


@define(eq=False)
class _Response:
    """An `HttpResponse` whose body arrives."""

    status: int = field(default=0, init=False)
    headers: dict[str, str] = field(factory=dict[str, str], init=False)
    has_head: trio.Event = field(factory=trio.Event, init=False)
    is_whole: bool = field(default=False, init=False)
    has_ended: bool = field(default=False, init=False)
    """True once the body has ended or broken off."""
    _parts: list[bytes] = field(factory=list[bytes], init=False)
    _changed: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def begin(self, fields: Mapping[str, str]) -> None:
        """Take the head."""
        self.status = int(fields[":status"])
        self.headers.update(fields)
        self.has_head.set()

    def add(self, part: bytes) -> None:
        """Take a part of the body."""
        self._parts.append(part)
        self._changed.unpark_all()

    def end(self, *, is_whole: bool) -> None:
        """Take no more."""
        self.has_ended, self.is_whole = True, is_whole or self.is_whole
        self.has_head.set()
        self._changed.unpark_all()

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Yield the body; see `HttpResponse.chunks`."""
        while True:
            while self._parts:
                yield self._parts.pop(0)
            if self.has_ended:
                break
            await self._changed.park()
        await trio.lowlevel.checkpoint()
        if not self.is_whole:
            raise EngineError("the response broke off", sent=True)


@define(eq=False)
class Http2Engine:
    """An `HttpEngine` over one connection."""

    _stream: trio.SocketStream
    _wire: H2Connection = field(factory=lambda: H2Connection(H2Configuration(header_encoding="utf-8")), init=False)
    _responses: dict[int, _Response] = field(factory=dict[int, _Response], init=False)
    _writing: trio.Lock = field(factory=trio.Lock, init=False)
    _granted: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    """The tasks that wait until the server takes more of a request."""
    _has_ended: bool = field(default=False, init=False)

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        """Read until the server ends the connection."""
        self._wire.initiate_connection()
        await self._flush()
        task_status.started()
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError, ProtocolError):
            while data := await self._stream.receive_some(_READ_BYTES):
                for event in self._wire.receive_data(bytes(data)):
                    self._take(event)
                self._granted.unpark_all()
                await self._flush()
        self._has_ended = True
        self._granted.unpark_all()
        for response in self._responses.values():
            response.end(is_whole=False)

    def _take(self, event: Event) -> None:
        response = self._responses.get(getattr(event, "stream_id", None) or 0)
        if isinstance(event, DataReceived):
            self._wire.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        if response is None:
            return
        match event:
            case ResponseReceived():
                response.begin({str(name): str(value) for name, value in event.headers})
            case DataReceived():
                response.add(bytes(event.data))
            case StreamEnded() | StreamReset():
                response.end(is_whole=isinstance(event, StreamEnded))
            case _:
                pass

    @asynccontextmanager
    async def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes = b"",
        *,
        on_sent: Callable[[], None] | None = None,
    ) -> AsyncGenerator[HttpResponse]:
        """Make a request; see `HttpEngine.request`."""
        if self._has_ended:
            raise EngineError("the connection has ended", sent=False)
        number, response = self._begin(method, url, headers, content), _Response()
        self._responses[number] = response
        try:
            await self._send(number, content)
            if on_sent is not None:
                on_sent()
            await response.has_head.wait()
            if not response.status:
                raise EngineError("the connection ended before the response", sent=True)
            yield response
        finally:
            del self._responses[number]
            if not response.has_ended:
                with suppress(ProtocolError):  # the server has announced that it closes the connection
                    self._wire.reset_stream(number, ErrorCodes.CANCEL)
                await self._flush()

    def _begin(self, method: str, url: str, headers: Mapping[str, str], content: bytes) -> int:
        place = urlsplit(url)
        target = f"{place.path}?{place.query}" if place.query else place.path
        head = {":method": method, ":scheme": place.scheme, ":authority": place.netloc, ":path": target}
        size = {"content-length": str(len(content))} if content else {}
        number = self._wire.get_next_available_stream_id()
        self._wire.send_headers(number, [*(head | dict(headers) | size).items()], end_stream=not content)
        return number

    async def _send(self, number: int, content: bytes) -> None:
        """Send the head and the body, unless the response ends before."""
        with suppress(StreamClosedError):
            while content and not self._has_ended:
                size = min(self._wire.local_flow_control_window(number), self._wire.max_outbound_frame_size)
                if size:
                    self._wire.send_data(number, content[:size], end_stream=size >= len(content))
                    content = content[size:]
                    await self._flush()
                else:
                    await self._granted.park()
        await self._flush()

    async def _flush(self) -> None:
        """Write all frames, whether or not this task is cancelled: the others need them whole."""
        with trio.CancelScope(shield=True):
            async with self._writing:
                if data := self._wire.data_to_send():
                    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                        await self._stream.send_all(data)

    async def aclose(self) -> None:
        """Fail: the transport must not close an engine that it did not open."""
        raise AssertionError("an engine of the caller's is not closed")


@asynccontextmanager
async def http2_engine(url: str) -> AsyncGenerator[Http2Engine]:
    """Connect to the server at *url*, and speak HTTP/2 from the beginning."""
    place = urlsplit(url)
    assert place.hostname is not None
    assert place.port is not None
    async with await trio.open_tcp_stream(place.hostname, place.port) as stream, trio.open_nursery() as nursery:
        engine = Http2Engine(stream)
        await nursery.start(engine.run)
        yield engine
        nursery.cancel_scope.cancel()
