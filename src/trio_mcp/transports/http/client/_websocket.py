"""A connection to a server over a WebSocket, each message in a text message of its own.

A WebSocket carries messages in both directions, as a byte stream does. So `WebSocketStream` shows it as a stream of
lines, and a link carries the messages by the rules of all streams, in every revision.

Rules of this file:

1. Only whole frames are sent: a task that is cancelled meanwhile sends the rest, for a bounded time.
2. A line break in a message is whitespace of JSON. It becomes a carriage return, which is the same to JSON, so that the
   lines of the stream are the messages.
3. A server that has sent nothing for a while is asked for a sign of life. This also keeps proxies from closing the
   connection.
4. The connection is opened by a GET with the header fields and the credentials of a POST over HTTP. Redirects are not
   followed: credentials are for the origin that the caller named.

Specification: RFC 6455, https://www.rfc-editor.org/rfc/rfc6455 and
https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#custom-transports
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress

import trio
from attrs import define, field, frozen
from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from ...._errors import ConnectionBroken
from ...._util import owned_nursery
from ....abc import TokenSource, TransportClient
from ....peer import Link
from ..._stream import connect_link
from .._engine import EngineError, Place, place_of, read_refusal, user_agent
from .._http1_engine import Http1Engine
from ..h1 import joined_fields
from ._transport import authorization_errors

__all__ = ["WebSocketStream", "open_websocket"]

_SUBPROTOCOL = "mcp"
_READ_BYTES = 64 * 1024
_HANDSHAKE_SECONDS = 30.0
"""The time for the server to answer the opening handshake."""
_CONTROL_SECONDS = 5.0
"""The time for the server to take a frame that is no message."""
_SILENCE_SECONDS = 20.0
"""The time without a byte of the server after which it is asked for one; after another such time it counts as gone."""
_REFUSAL_BYTES = 64 * 1024
_SHOWN = 300
"""The most characters of a message of the server that an error shows."""
_BROKEN = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)


@define(eq=False)
class WebSocketStream(trio.abc.Stream):
    """The lines that are the messages of an open WebSocket.

    Args:
        transport: the connection, which this stream closes.
        wire: the state of the WebSocket, after its opening handshake.
    """

    _transport: trio.abc.Stream
    _wire: WSConnection
    closed_by_peer: CloseConnection | None = field(default=None, init=False)
    """The code and the reason with which the peer has closed the WebSocket; None if it has not."""
    _received: bytearray = field(factory=bytearray, init=False)
    _unfinished: bytearray = field(factory=bytearray, init=False)
    """The begin of a line whose rest was not sent yet."""
    _has_ended: bool = field(default=False, init=False)
    """True if nothing more is received."""
    _sending: trio.Lock = field(factory=trio.Lock, init=False)
    _is_silent: bool = field(default=False, init=False)
    """True if the peer has sent nothing since `keep_alive` looked."""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send each whole line as a message; keep the rest until its line break is sent.

        Raises:
            trio.BrokenResourceError: the WebSocket is closed.
        """
        self._unfinished += data
        *lines, rest = self._unfinished.split(b"\n")
        self._unfinished = rest
        await self._send(TextMessage(data=line.decode()) for line in lines if line)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until the connection takes bytes."""
        async with self._sending:
            await self._transport.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return bytes of lines as they arrive; none after either side has closed the WebSocket."""
        await self._take()
        while not self._received and not self._has_ended:
            try:
                data = await self._transport.receive_some(_READ_BYTES)
            except OSError as exc:
                raise trio.BrokenResourceError from exc
            self._is_silent = False
            if data:
                self._wire.receive_data(bytes(data))
                await self._take()
            else:
                self._has_ended = True
        await trio.lowlevel.checkpoint_if_cancelled()
        size = len(self._received) if max_bytes is None else max_bytes
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken

    async def _take(self) -> None:
        reply: Event | None = None
        for event in self._wire.events():
            match event:
                case TextMessage(data=data, message_finished=finished):
                    self._received += data.encode().replace(b"\n", b"\r")  # rule 2
                    self._received += b"\n" if finished else b""
                case Ping():
                    reply = event.response()  # the latest one answers them all
                case CloseConnection():
                    self.closed_by_peer, reply, self._has_ended = event, event.response(), True
                case BytesMessage():
                    why = "messages are text"
                    reply, self._has_ended = CloseConnection(CloseReason.UNSUPPORTED_DATA, why), True
                case _:
                    pass
            if self._has_ended:
                break
        if reply is not None:
            with suppress(*_BROKEN):
                await self._send_control(reply)

    async def keep_alive(self) -> None:
        """Find out if the peer is still there (rule 3); close the connection if not. To be run as a task."""
        is_asked = False
        while True:
            self._is_silent = True
            await trio.sleep(_SILENCE_SECONDS)
            if not self._is_silent:
                is_asked = False
            elif is_asked:
                await trio.aclose_forcefully(self._transport)
                return
            else:
                is_asked = True
                with suppress(*_BROKEN):
                    await self._send_control(Ping())

    async def _send_control(self, event: Event) -> None:
        """Send a frame that is no message, whether or not this task is cancelled (rule 1)."""
        with trio.move_on_after(_CONTROL_SECONDS, shield=True) as timeout:
            await self._send([event])
        if timeout.cancelled_caught:
            await trio.aclose_forcefully(self._transport)

    async def _send(self, events: Iterable[Event]) -> None:
        async with self._sending:
            try:
                data = b"".join(map(self._wire.send, events))
            except LocalProtocolError:
                raise trio.BrokenResourceError("the WebSocket is closed") from None
            try:
                await self._transport.send_all(data)
            except OSError as exc:
                raise trio.BrokenResourceError from exc

    async def aclose(self) -> None:
        """Tell the peer, and close the connection."""
        if self._wire.state is ConnectionState.OPEN:
            with suppress(*_BROKEN):
                await self._send_control(CloseConnection(CloseReason.NORMAL_CLOSURE))
        await self._transport.aclose()

    def disconnect_reason(self) -> ConnectionBroken:
        """Return the reason for the end of the stream, after it has ended."""
        closed = self.closed_by_peer
        if closed is None:
            return ConnectionBroken("the connection ended before the WebSocket was closed")
        why = f": {closed.reason}" if closed.reason else ""
        return ConnectionBroken(f"the server closed the WebSocket with the code {int(closed.code)}{why}"[:_SHOWN])


@asynccontextmanager
async def open_websocket(
    url: str, fields: Mapping[str, str], source: TokenSource | None, client: TransportClient
) -> AsyncGenerator[Link]:
    """Run the client's end of a link over a WebSocket for the duration of the block.

    Args:
        url: the address of the server, with the scheme of its HTTP equivalent.
        fields: the header fields of the caller.
        source: the source of credentials; None if there are none beyond the caller's header fields.
        client: the client to connect.

    Raises:
        ConnectionBroken: the server cannot be reached, or does not speak WebSocket.
        HttpStatusError: the server refuses to open a WebSocket.
        ErrorResponse: likewise, with the error of the response.
        AuthorizationFailed: the server requires authentication, and no token is available.
    """
    stream = await _opened(url, fields, source)
    async with owned_nursery() as nursery:
        nursery.start_soon(stream.keep_alive, name="WebSocket keep-alive")
        async with connect_link(stream, client, stream.disconnect_reason) as link:
            yield link


async def _opened(url: str, fields: Mapping[str, str], source: TokenSource | None) -> WebSocketStream:
    """Return an open WebSocket, after as many attempts as the source of credentials asks for."""
    place = place_of(url)
    with authorization_errors():
        attempt = None if source is None else source.attempt("GET", place.url)
    while True:
        given = dict(fields)
        with authorization_errors():
            if attempt is not None:
                given.update(await attempt.fields())
        reply = await _shake_hands(place, given)
        if isinstance(reply, WebSocketStream):
            return reply
        with authorization_errors():
            repeats = attempt is not None and attempt.on_response(reply.status, reply.headers)
        if attempt is None or not repeats:
            raise (await read_refusal(reply, url, _REFUSAL_BYTES)).error
        with authorization_errors():
            await attempt.resolve()


@frozen
class _Refused:
    """An `HttpResponse` that refuses to open a WebSocket."""

    status: int
    headers: Mapping[str, str]
    _body: bytes

    async def chunks(self) -> AsyncGenerator[bytes]:
        await trio.lowlevel.checkpoint()
        yield self._body


async def _shake_hands(place: Place, fields: Mapping[str, str]) -> WebSocketStream | _Refused:
    """Connect, and perform the opening handshake once."""
    where = place.url.partition("?")[0]
    try:
        connection = await Http1Engine().connect(place, None)
    except EngineError as exc:
        raise ConnectionBroken(str(exc)) from exc
    try:
        with trio.fail_after(_HANDSHAKE_SECONDS):
            reply = await _exchange_heads(connection.stream, place, fields)
    except BaseException as exc:
        connection.close()
        if isinstance(exc, trio.TooSlowError):
            why = f"did not answer the handshake within {_HANDSHAKE_SECONDS:g} s"
        elif isinstance(exc, (*_BROKEN, RemoteProtocolError)):
            why = f"does not open a WebSocket: {exc}"
        else:
            raise
        raise ConnectionBroken(f"{where} {why}"[:_SHOWN]) from exc
    if isinstance(reply, _Refused):
        connection.close()
    return reply


async def _exchange_heads(
    stream: trio.abc.Stream, place: Place, fields: Mapping[str, str]
) -> WebSocketStream | _Refused:
    wire = WSConnection(ConnectionType.CLIENT)
    extra = [(name.encode(), value.encode("latin-1")) for name, value in {"user-agent": user_agent(), **fields}.items()]
    request = Request(host=place.authority, target=place.target, extra_headers=extra, subprotocols=[_SUBPROTOCOL])
    await stream.send_all(wire.send(request))
    head: RejectConnection | None = None
    body = bytearray()
    while True:
        data = await stream.receive_some(_READ_BYTES)
        if not data:
            raise trio.BrokenResourceError("the connection ended")
        wire.receive_data(bytes(data))
        is_whole = False
        for event in wire.events():
            if isinstance(event, AcceptConnection):
                return WebSocketStream(stream, wire)
            if isinstance(event, RejectConnection):
                head, is_whole = event, not event.has_body
            else:
                assert isinstance(event, RejectData)
                body += event.data
                is_whole = event.body_finished
        if head is not None and (is_whole or len(body) > _REFUSAL_BYTES):
            fields = joined_fields([(name.decode("latin-1"), value.decode("latin-1")) for name, value in head.headers])
            return _Refused(head.status_code, fields, bytes(body[:_REFUSAL_BYTES]))
