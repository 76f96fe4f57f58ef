"""Links over any `trio.abc.Stream` (sockets, TLS, pipes, memory streams), with newline-delimited JSON as on stdio.

A tap sees every message of a connection as it passes, for recording, debugging and tests.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#custom-transports
"""

from __future__ import annotations

import logging
import os
import socket
import struct
import sys
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial

import trio
from attrs import define, field

from .._errors import ConnectionLost, McpError
from .._shares import Sender, sender_of
from .._util import owned_nursery
from ..abc import Direction, Serving, Tap, Transport, TransportClient, TransportOpener
from ..peer import Admission, IncomingMessageRequest, Limits, Link, SenderSlots, note_arrival
from ..wire import METHOD_NOT_FOUND, JsonObject, Line, LineFramer, Oversized, Undecodable, decode
from ._connection_bound import socket_of
from .stdio import ImmediateStream

__all__ = ["connect_link", "guarded_tap", "sender_at", "server_link", "stream_link", "stream_transport", "tapped"]


_log = logging.getLogger("trio_mcp.transports")
_CREDENTIALS = struct.Struct("3i")
"""The process, user and group at the other end of a Unix socket, as Linux returns them."""


def guarded_tap(tap: Tap | None) -> Tap | None:
    """Return a tap that never raises. If *tap* raises, this is logged, and *tap* is not called any more."""
    return None if tap is None else _Guarded(tap)


@define(eq=False)
class _Guarded:
    _tap: Tap | None

    def __call__(self, direction: Direction, message: bytes) -> None:
        if self._tap is None:
            return
        try:
            self._tap(direction, message)
        except Exception:  # noqa: BLE001 # a bug of the caller may raise anything
            self._tap = None
            _log.exception("the tap raised; it sees no more messages of this client")


def tapped(stream: trio.abc.Stream, tap: Tap | None, limit: int) -> trio.abc.Stream:
    """Return *stream* with *tap* attached; the stream itself without a tap.

    Args:
        limit: the longest message that is accepted, in bytes. A longer one is not received, so the tap does not see it.
    """
    return stream if tap is None else _TappedStream(stream, tap, LineFramer(limit))


@define(eq=False)
class _TappedStream(trio.abc.Stream):
    """A stream that passes bytes unchanged, and shows the tap the lines in them.

    A line is shown as it arrived, even if it is not a message. An incomplete line at the end of the stream is not
    shown, as over HTTP; the reader of the stream logs its beginning.
    """

    _stream: trio.abc.Stream
    _tap: Tap
    _received: LineFramer
    _sent: LineFramer = field(factory=lambda: LineFramer(sys.maxsize), init=False)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        # Shown before they are sent: afterwards the answer might be shown first.
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
            self._notify("received", [line for line in last if not isinstance(line, Oversized) and _is_whole(line)])
        return chunk

    async def aclose(self) -> None:
        await self._stream.aclose()

    def _notify(self, direction: Direction, lines: Iterable[Line | Oversized]) -> None:
        for line in lines:
            if not isinstance(line, Oversized):
                self._tap(direction, bytes(line).removesuffix(b"\r"))


def _is_whole(line: Line) -> bool:
    """Return True if a last line without a newline is a complete message, which is read as one."""
    try:
        decode(line)
    except Undecodable:
        return False
    return True


def stream_transport(stream: trio.abc.Stream) -> TransportOpener:
    """Return an opener that connects once, over *stream*, and closes the stream at the end."""

    @asynccontextmanager
    async def connect(client: TransportClient) -> AsyncGenerator[Transport]:
        async with connect_link(stream, client) as link:
            yield link

    return connect


@asynccontextmanager
async def connect_link(
    stream: trio.abc.Stream, client: TransportClient, disconnect_reason: Callable[[], ConnectionLost] | None = None
) -> AsyncGenerator[Link]:
    """Run the client's end of a link over *stream* for the duration of the block.

    Args:
        disconnect_reason: returns the reason after the output of the peer has ended.
    """
    stream = tapped(stream, client.tap, client.limits.max_message_bytes)
    link = Link(client.admission, client.answer, client.notified, client.limits, stream, send_now=_immediate(stream))
    async with owned_nursery() as nursery:
        nursery.start_soon(lambda: link.run(drain=False, disconnect_reason=disconnect_reason), name="link")
        yield link


def server_link(stream: trio.abc.Stream, serving: Serving, used: Callable[[], None] | None = None) -> Link:
    """Return the server's end of a link over *stream*, which the link closes.

    Args:
        used: called at each request of the client.
    """

    def notified(method: str, params: JsonObject) -> None:
        serving.notified(method, params, link)

    answer = serving.answer if used is None else _preceded(serving.answer, used)
    link = Link(serving.admission(), answer, notified, serving.limits, stream, send_now=_immediate(stream))
    sender = sender_at(stream)
    if sender is not None:
        slots = SenderSlots.of(serving, serving.limits)
        link.slots, link.listens = slots.for_requests(sender), slots.for_listens(sender)
    note_arrival(serving, link, _kind_of(stream))
    return link


def _kind_of(stream: trio.abc.Stream) -> str:
    """Return the kind of a stream, for `Server.snapshot`."""
    end = socket_of(stream)
    if end is None:
        return "stdio" if isinstance(stream, ImmediateStream) else "stream"
    return "tcp" if end.family in (socket.AF_INET, socket.AF_INET6) else "unix"


def _preceded(
    answer: Callable[[IncomingMessageRequest], None], used: Callable[[], None]
) -> Callable[[IncomingMessageRequest], None]:
    """Return a function that calls *used* and then *answer*."""

    def call(exchange: IncomingMessageRequest) -> None:
        used()
        answer(exchange)

    return call


def sender_at(stream: trio.abc.Stream) -> Sender | None:
    """Return the sender at the other end of a socket; None if the stream has no address.

    That of a TCP connection is the address. That of a Unix socket is the user, if the system tells.
    """
    end = socket_of(stream)
    if end is None:
        return None
    try:
        if end.family in (socket.AF_INET, socket.AF_INET6):
            return sender_of(None, str(end.getpeername()[0]))
        if sys.platform == "linux":  # pragma: no branch # other systems do not tell the user
            credentials = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            return "user", _CREDENTIALS.unpack(credentials)[1]
    except OSError:  # the peer has left already
        pass
    return None


def stream_link(
    stream: trio.abc.Stream, admission: Admission, notified: Callable[[str, JsonObject], None], limits: Limits
) -> Link:
    """Return one end of a link over *stream* that takes notifications, and refuses every request of its peer.

    `Link.run` carries the messages, and closes the stream.

    Args:
        stream: the stream, on which each message is a line of JSON.
        admission: decides how messages of the peer are read; a `ClientSession` or a `ServerSession`.
        notified: called synchronously with the method and the params of each notification; it must not raise.
        limits: the limits of the link.
    """
    return Link(admission, _refuse, notified, limits, stream, send_now=_immediate(stream))


def _refuse(exchange: IncomingMessageRequest) -> None:
    exchange.respond(McpError(METHOD_NOT_FOUND, "this side answers no requests"))


def _immediate(stream: trio.abc.Stream) -> Callable[[bytes | memoryview], int] | None:
    """Return the function that sends without waiting; None if the stream has none."""
    if isinstance(stream, ImmediateStream):
        return stream.send_now
    if isinstance(stream, trio.SocketStream) and sys.platform != "win32":
        return partial(_write_now, stream.socket)
    return None


def _write_now(end: trio.socket.SocketType, data: bytes | memoryview) -> int:
    descriptor = end.fileno()
    if descriptor < 0:
        return 0
    try:
        return os.write(descriptor, data)
    except OSError:  # it is full, or broken, which the writer notices
        return 0
