"""Links over any `trio.abc.Stream`: sockets, TLS, pipes, memory streams; newline-delimited JSON, as on stdio.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#custom-transports
"""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager

import trio
from attrs import define, field

from .._errors import ConnectionLost
from .._util import owned_nursery
from ..abc import Direction, Serving, Tap, Transport, TransportClient, TransportOpener
from ..peer import Link
from ..wire import JsonObject, LineFramer, Oversized, Undecodable, decode
from .stdio import ImmediateStream

__all__ = ["connect_link", "guarded_tap", "server_link", "stream_transport", "tapped"]


# A tap sees every message of a connection as it passes: for recording, debugging and tests.

_log = logging.getLogger("trio_mcp.transports")


def guarded_tap(tap: Tap | None) -> Tap | None:
    """Return *tap* as one that never raises: the first time it does, that is logged, and it sees nothing more."""
    return None if tap is None else _Guarded(tap)


@define(eq=False)
class _Guarded:
    _tap: Tap | None

    def __call__(self, direction: Direction, message: bytes) -> None:
        if self._tap is None:
            return
        try:
            self._tap(direction, message)
        except Exception:  # noqa: BLE001 # whatever a bug of the caller's raises
            self._tap = None
            _log.exception("the tap raised; it sees no more messages of this client")


def tapped(stream: trio.abc.Stream, tap: Tap | None, limit: int) -> trio.abc.Stream:
    """Return *stream* with *tap* listening; the stream itself where there is none.

    Args:
        limit: the longest message that is accepted, in bytes; a longer one is not received, so the tap misses it too.
    """
    return stream if tap is None else _TappedStream(stream, tap, LineFramer(limit))


@define(eq=False)
class _TappedStream(trio.abc.Stream):
    """Bytes pass as they are; the tap sees the lines they make.

    A line is shown as it came, be it a message or not. One that the end of the stream has cut off is half of something
    that nobody reads: it is not shown, as it is not over HTTP. Whoever reads the stream logs how it begins.
    """

    _stream: trio.abc.Stream
    _tap: Tap
    _received: LineFramer
    _sent: LineFramer = field(factory=lambda: LineFramer(sys.maxsize), init=False)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        # Told before they leave: afterwards, the answer might have been told first.
        self._notify("sent", self._sent.feed(bytes(data)))
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        chunk = await self._stream.receive_some(max_bytes)
        if chunk:
            self._notify("received", self._received.feed(bytes(chunk)))
        else:
            last = self._received.finish()
            self._notify("received", [line for line in last if isinstance(line, bytes) and _is_whole(line)])
        return chunk

    async def aclose(self) -> None:
        await self._stream.aclose()

    def _notify(self, direction: Direction, lines: Iterable[bytes | Oversized]) -> None:
        for line in lines:
            if isinstance(line, bytes):
                self._tap(direction, line.removesuffix(b"\r"))


def _is_whole(line: bytes) -> bool:
    """Tell whether a last line without a newline is all of a message, which is read as one."""
    try:
        decode(line)
    except Undecodable:
        return False
    return True


def stream_transport(stream: trio.abc.Stream) -> TransportOpener:
    """Return an opener that speaks over *stream*, once; the stream is closed at the end."""

    @asynccontextmanager
    async def connect(client: TransportClient) -> AsyncGenerator[Transport]:
        async with connect_link(stream, client) as link:
            yield link

    return connect


@asynccontextmanager
async def connect_link(
    stream: trio.abc.Stream, client: TransportClient, disconnect_reason: Callable[[], ConnectionLost] | None = None
) -> AsyncGenerator[Link]:
    """Run the client's end of a link over *stream* for as long as the block lasts.

    Args:
        why_lost: names the reason when the other side's output has ended.
    """
    stream = tapped(stream, client.tap, client.limits.max_message_bytes)
    link = Link(client.admission, client.answer, client.notified, client.limits, stream, send_now=_sender(stream))
    async with owned_nursery() as nursery:
        nursery.start_soon(lambda: link.run(drain=False, disconnect_reason=disconnect_reason), name="link")
        yield link


def server_link(stream: trio.abc.Stream, serving: Serving) -> Link:
    """Return the server's end of a link over *stream*, which it will close."""

    def notified(method: str, params: JsonObject) -> None:
        serving.notified(method, params, link)

    link = Link(serving.admission(), serving.answer, notified, serving.limits, stream, send_now=_sender(stream))
    return link


def _sender(stream: trio.abc.Stream) -> Callable[[bytes | memoryview], int] | None:
    """Return what sends without waiting; None where the stream has nothing of the kind."""
    return stream.send_now if isinstance(stream, ImmediateStream) else None
