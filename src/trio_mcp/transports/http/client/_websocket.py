"""A connection to a server over a WebSocket, each message in a text message of its own.

A link carries the messages by the rules of all streams, in every revision; see `ws`.

Rules of this file:

1. The connection is opened by a GET with the header fields and the credentials of a POST over HTTP. Redirects are not
   followed: credentials are for the origin that the caller named.
2. A server that refuses is named with its status or its error, of which no more is read than an error shows.

Specification: RFC 6455, https://www.rfc-editor.org/rfc/rfc6455 and
https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#custom-transports
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial

import trio
from attrs import define, field, frozen

from ...._errors import ConnectionBroken
from ...._util import owned_nursery
from ....abc import TokenSource, TransportClient
from ....peer import Link
from ..._stream import connect_link
from .._engine import EngineError, Place, place_of, read_refusal, user_agent
from .._http1_engine import Http1Connection, Http1Engine, NothingSentError
from ..h1 import HttpSyntaxError, ResponseReader, options_of, request_head
from ..ws import WebSocketStream, accept_token
from ._sender import authorization_errors

__all__ = ["open_websocket"]

_SUBPROTOCOL = "mcp"
_SWITCHING = 101
_HANDSHAKE_SECONDS = 30.0
"""The time for the server to answer the opening handshake."""
_SILENCE_SECONDS = 20.0
"""The time without a byte of the server after which it is asked for one; after another such time it counts as gone."""
_REFUSAL_BYTES = 64 * 1024
_SHOWN = 300
"""The most characters of a message of the server that an error shows."""
_BROKEN = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)


@define(eq=False)
class _SocketChannel:
    """A connection to a server, as a `ByteChannel`."""

    _connection: Http1Connection
    _first: bytes
    """The bytes that have arrived with the answer to the handshake."""
    _unsent: bytearray = field(factory=bytearray, init=False)
    _sending: trio.Lock = field(factory=trio.Lock, init=False)

    async def receive(self) -> bytes:
        """Wait for bytes; return none at the end of the connection."""
        data, self._first = self._first, b""
        try:
            return data or await self._connection.receive_first()
        except _BROKEN as exc:
            raise trio.BrokenResourceError from exc

    def put(self, data: bytes) -> bool:
        """Send what the connection takes at once; return False if `flush` has to send the rest."""
        if not self._unsent and not self._sending.locked():
            with suppress(NothingSentError):  # `flush` finds out too
                data = data[self._connection.write_now(data) :]
        self._unsent += data
        return not self._unsent

    async def flush(self) -> None:
        """Send what was put; raises `trio.BrokenResourceError`."""
        async with self._sending:
            try:
                while self._unsent:  # also what is put meanwhile
                    await (self._send_some() if self._connection.uses_descriptor else self._send_all())
            except (EngineError, NothingSentError, *_BROKEN) as exc:
                self.close()
                raise trio.BrokenResourceError(str(exc)) from exc

    async def _send_some(self) -> None:
        await self._connection.wait_writable()
        del self._unsent[: self._connection.write_now(self._unsent)]

    async def _send_all(self) -> None:
        """Send all under TLS, whose records cannot be taken up again in the middle."""
        data, self._unsent = bytes(self._unsent), bytearray()
        try:
            await self._connection.send_rest(data, 0)
        except trio.Cancelled:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection at once."""
        self._connection.close()


def _disconnect_reason(stream: WebSocketStream) -> ConnectionBroken:
    """Return the reason for the end of a stream, after it has ended."""
    closed, fault = stream.closed_by_peer, stream.fault
    if fault is not None:
        return ConnectionBroken(f"the server breaks the protocol of WebSockets: {fault}")
    if closed is None:
        return ConnectionBroken("the connection ended before the WebSocket was closed")
    why = f": {closed.reason}" if closed.reason else ""
    return ConnectionBroken(f"the server closed the WebSocket with the code {closed.code}{why}"[:_SHOWN])


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
        async with connect_link(stream, client, partial(_disconnect_reason, stream)) as link:
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
            reply = await _exchange_heads(connection, place, fields)
    except BaseException as exc:
        connection.close()
        if isinstance(exc, trio.TooSlowError):
            why = f"did not answer the handshake within {_HANDSHAKE_SECONDS:g} s"
        elif isinstance(exc, (*_BROKEN, HttpSyntaxError, ValueError)):
            why = f"does not open a WebSocket: {exc}"
        else:
            raise
        raise ConnectionBroken(f"{where} {why}"[:_SHOWN]) from exc
    if isinstance(reply, _Refused):
        connection.close()
    return reply


async def _exchange_heads(
    connection: Http1Connection, place: Place, fields: Mapping[str, str]
) -> WebSocketStream | _Refused:
    key = b64encode(os.urandom(16)).decode()
    head = request_head("GET", place.target, {"host": place.authority, **_opening_fields(key), **fields})
    await connection.stream.send_all(head)
    reader, body = ResponseReader(may_switch=True), bytearray()
    while not reader.is_complete and len(body) <= _REFUSAL_BYTES:
        reader.feed(await connection.receive())
        body += b"".join(reader.take_body())
    assert reader.head is not None
    headers = reader.head.headers
    if reader.head.status != _SWITCHING:
        return _Refused(reader.head.status, headers, bytes(body[:_REFUSAL_BYTES]))
    _check_acceptance(headers, key)
    channel = _SocketChannel(connection, reader.surplus)
    return WebSocketStream(channel, is_client=True, silence_seconds=_SILENCE_SECONDS)


def _opening_fields(key: str) -> Mapping[str, str]:
    return {
        "user-agent": user_agent(),
        "upgrade": "websocket",
        "connection": "Upgrade",
        "sec-websocket-version": "13",
        "sec-websocket-key": key,
        "sec-websocket-protocol": _SUBPROTOCOL,
    }


def _check_acceptance(headers: Mapping[str, str], key: str) -> None:
    """Raise HttpSyntaxError unless the header fields of a response with the status 101 open a WebSocket."""
    if headers.get("upgrade", "").lower() != "websocket" or "upgrade" not in options_of(headers):
        raise HttpSyntaxError("the server goes on with another protocol")
    if headers.get("sec-websocket-accept") != accept_token(key):
        raise HttpSyntaxError("the field Sec-WebSocket-Accept of the response is not that of the request")
    if headers.get("sec-websocket-protocol", _SUBPROTOCOL) != _SUBPROTOCOL or "sec-websocket-extensions" in headers:
        raise HttpSyntaxError("the server has chosen a subprotocol or an extension that was not offered")
