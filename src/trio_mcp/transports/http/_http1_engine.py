"""The HTTP engine of a client: HTTP/1.1 over Trio's streams, with a pool of connections.

Rules of this file:

1. A connection carries one request at a time. It returns to the pool when its response has arrived whole, and is closed
   in every other case, so that the server notices that the client has left.
2. A request is sent again, on a new connection, only if the kept connection had ended before any byte of it was sent.
   What a kept connection has to say between two requests, even its end, makes it unusable.
3. A connection belongs to an origin, and to the address if one was given: it is never used for another name.
4. Waiting is bounded for connecting and sending. A response may be silent for any time: the client's own timeouts bound
   a request.
5. Whatever the server sends, `EngineError` is what the caller gets.

Proxies, HTTP/2 and clients that users configure are for `_httpx_engine`.

Specification: RFC 9110 and RFC 9112, https://www.rfc-editor.org/rfc/rfc9112
"""

from __future__ import annotations

import math
import os
import select
import socket
import ssl
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from functools import cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.request import Request

import trio
from attrs import define, field

from ._engine import EngineError, HttpResponse, Place, cannot_connect, place_of, reason_of, user_agent
from .h1 import HttpSyntaxError, ResponseHead, ResponseReader, request_head, values_of

if TYPE_CHECKING:
    from http.cookiejar import CookieJar

__all__ = ["Http1Connection", "Http1Engine", "NothingSentError", "SentExchange"]

_CONNECT_SECONDS = 30.0
_WRITE_SECONDS = 30.0
"""The time for the server to take a piece of a request."""
_MOST_IDLE, _IDLE_SECONDS = 100, 4.0
"""The number of idle connections, so that calls which are made together again need no new ones; and the seconds in
which one may be used again: less than the 5 s after which many servers close them. Later requests close it."""
_PIECE_BYTES = 64 * 1024
_READ_BYTES = 64 * 1024
_LAST_READS = 100
"""The number of reads of a body that is not read to its end: it may have arrived already."""
_MOMENT_SECONDS = 0.001
"""The time to wait for bytes that have probably arrived: under TLS only reading tells."""
_Stream: TypeAlias = "trio.SocketStream | trio.SSLStream[trio.SocketStream]"
_Key: TypeAlias = "tuple[bool, str, int, str | None]"
_BROKEN = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)


class NothingSentError(Exception):
    """The connection had ended before any byte of the request was sent."""


@define(eq=False, repr=False)
class _Cookies:
    """The cookies that servers have set: load balancers send a client to the same process with them.

    The rules are those of `http.cookiejar`, which asks for requests of `urllib` and a response like those.
    """

    _jar: CookieJar | None = field(default=None, init=False)
    """Made when a server sets the first cookie."""

    @property
    def are_set(self) -> bool:
        """True once a server has set one."""
        return self._jar is not None

    def note(self, url: str, values: Sequence[str]) -> None:
        """Keep the cookies in the ``Set-Cookie`` fields of the response from *url*."""
        from email.message import Message  # noqa: PLC0415 # few servers set cookies
        from http.cookiejar import CookieJar  # noqa: PLC0415 # likewise
        from types import SimpleNamespace  # noqa: PLC0415 # likewise

        fields = Message()
        for value in values:
            fields["set-cookie"] = value
        if self._jar is None:
            self._jar = CookieJar()
        response: Any = SimpleNamespace(info=lambda: fields)
        self._jar.extract_cookies(response, Request(url))  # noqa: S310 # it only holds the URL

    def fields(self, url: str) -> dict[str, str]:
        """Return the header field ``cookie`` of a request to *url*; nothing if it has no cookies."""
        if self._jar is None:
            return {}
        request = Request(url)  # noqa: S310 # likewise
        self._jar.add_cookie_header(request)
        value = request.get_header("Cookie")
        return {} if value is None else {"cookie": value}


@define(eq=False, repr=False)
class Http1Engine:
    """An `HttpEngine` of our own.

    Args:
        most_idle: the number of idle connections that are kept.
        connect_seconds: the maximum time to make a connection.
        cookies: True to send the cookies back that servers set.
    """

    most_idle: int = field(default=_MOST_IDLE, kw_only=True)
    _connect_seconds: float = field(default=_CONNECT_SECONDS, kw_only=True, alias="connect_seconds")
    _takes_cookies: bool = field(default=True, kw_only=True, alias="cookies")
    reached_at: str | None = field(default=None, init=False)
    """The address of the server of the latest response."""
    _idle: dict[_Key, list[Http1Connection]] = field(factory=dict["_Key", "list[Http1Connection]"], init=False)
    """The idle connections of each place; that which was used last is the last one."""
    _cookies: _Cookies = field(factory=_Cookies, init=False)

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes = b"",
        *,
        on_sent: Callable[[], None] | None = None,
        address: str | None = None,
    ) -> Http1Exchange:
        """Make a request; see `HttpEngine.request`.

        Args:
            address: the address to connect to; by default that of the host in *url*, which TLS verifies in any case.
        """
        return Http1Exchange(self, method, url, headers, content, on_sent, address)

    @property
    def has_cookies(self) -> bool:
        """True once a server has set a cookie."""
        return self._cookies.are_set

    async def aclose(self) -> None:
        """Close the idle connections."""
        kept, self._idle = self._idle, {}
        for connection in [each for connections in kept.values() for each in connections]:
            connection.close()
        await trio.lowlevel.checkpoint()

    def head(self, method: str, place: Place, headers: Mapping[str, str], size: int) -> bytes:
        """Return the head of a request."""
        lasts = "keep-alive" if self.most_idle else "close"
        fields = {"host": place.authority, "connection": lasts, "user-agent": user_agent(), **headers}
        fields["accept-encoding"] = "identity"
        if size or method == "POST":
            fields["content-length"] = str(size)
        if "cookie" not in fields:
            fields |= self._cookies.fields(place.url)
        return request_head(method, place.target, fields)

    def answered(self, connection: Http1Connection, place: Place, head: ResponseHead) -> None:
        """Note the sender of a response, and the cookies that it sets."""
        self.reached_at = connection.peer
        if "set-cookie" in head.headers and self._takes_cookies:
            self._cookies.note(place.url, values_of(head.fields, "set-cookie"))

    async def connect(self, place: Place, address: str | None) -> Http1Connection:
        """Return a new connection; raises `EngineError`."""
        try:
            with trio.fail_after(self._connect_seconds):
                stream, peer = await _opened(place, address)
        except trio.TooSlowError:
            raise EngineError(
                f"cannot connect to {place.url.partition('?')[0]} within {self._connect_seconds:g} s", sent=False
            ) from None
        except (*_BROKEN, UnicodeError) as exc:
            raise cannot_connect(exc, place.url, reason_of(exc)) from exc
        return Http1Connection(stream, peer, (place.is_encrypted, place.host, place.port, address))

    def kept(self, place: Place, address: str | None) -> Http1Connection | None:
        """Return an idle connection, which is no longer idle; None if there is none."""
        connections = self._idle.get((place.is_encrypted, place.host, place.port, address))
        while connections:
            connection = connections.pop()
            if connection.is_usable():
                return connection
            connection.close()
        return None

    def keep(self, connection: Http1Connection) -> None:
        """Keep a connection whose response has arrived whole."""
        now = connection.become_idle()
        connections = self._idle.get(connection.key)
        if connections is None:
            self._idle[connection.key] = connections = []
        connections.append(connection)
        if len(self._idle) > 1 or len(connections) > self.most_idle or connections[0].has_expired(now):
            self._close_surplus(now)

    def _close_surplus(self, now: float) -> None:
        """Close the connections that are idle for too long, and the oldest ones beyond the bound."""
        everything = sum(map(len, self._idle.values()))
        for key, connections in [*self._idle.items()]:
            while connections and (connections[0].has_expired(now) or everything > self.most_idle):
                connections.pop(0).close()
                everything -= 1
            if not connections:
                del self._idle[key]


@cache
def _trust() -> ssl.SSLContext:
    """Return the TLS context of all engines of the process, cached because reading the certificates takes 20 ms."""
    paths = ssl.get_default_verify_paths()
    if sys.platform in {"darwin", "win32"} or not (paths.cafile or paths.capath):
        import httpx2  # noqa: PLC0415 # it finds the certificates where OpenSSL does not look

        context = httpx2.create_ssl_context()
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # as strict with certificates as httpx2 is
        context.load_default_certs()
    context.set_alpn_protocols(["http/1.1"])
    return context


async def _connected(host: str, port: int) -> trio.SocketStream:
    """Return a TCP connection: to an address at once, to a name by the first of its addresses that answers."""
    try:
        family = socket.AF_INET6 if ip_address(host).version == 6 else socket.AF_INET
    except ValueError:
        return await trio.open_tcp_stream(host, port)
    connecting = trio.socket.socket(family, socket.SOCK_STREAM)
    try:
        await connecting.connect((host, port))
    except BaseException:
        connecting.close()
        raise
    return trio.SocketStream(connecting)


async def _opened(place: Place, address: str | None) -> tuple[_Stream, str]:
    """Return a new connection, and the address of its other end."""
    stream = await _connected(address or place.host, place.port)
    try:
        peer = str(stream.socket.getpeername()[0])
        if not place.is_encrypted:
            return stream, peer
        encrypted = trio.SSLStream(stream, _trust(), server_hostname=place.host, https_compatible=True)
        await encrypted.do_handshake()
    except BaseException:
        stream.socket.close()
        raise
    return encrypted, peer


@contextmanager
def _takes_something() -> Generator[None]:
    with trio.move_on_after(_WRITE_SECONDS) as timeout:
        yield
    if timeout.cancelled_caught:
        raise EngineError(f"the server has taken nothing for {_WRITE_SECONDS:g} s", sent=True)


@define(eq=False)
class Http1Connection:
    """One connection to a server."""

    stream: _Stream
    peer: str
    """The address of the server."""
    key: _Key
    _idle_since: float = field(default=-math.inf, init=False)
    """The time since which it waits for a request, on Trio's clock."""
    _socket: trio.socket.SocketType = field(init=False)
    uses_descriptor: bool = field(default=False, init=False)
    """True if bytes can be written to its descriptor."""
    _descriptor: int = field(default=-1, init=False)
    """The descriptor, if it is used and the connection is open. Asking Trio's socket for it takes longer."""
    _poll: select.poll | None = field(default=None, init=False)
    """Tells if anything has arrived; None if only Trio can tell, as under TLS. Made once, because making one takes
    longer than asking it."""

    def __attrs_post_init__(self) -> None:
        if isinstance(self.stream, trio.SSLStream):
            self._socket = self.stream.transport_stream.socket
            return
        self._socket = self.stream.socket
        if sys.platform != "win32":  # pragma: no branch # poll is not available there
            self._poll, self.uses_descriptor, self._descriptor = select.poll(), True, self._socket.fileno()
            self._poll.register(self._descriptor, select.POLLIN)

    def is_usable(self) -> bool:
        """Return True if another request may be sent."""
        if self.has_expired(trio.current_time()):
            return False
        if self._poll is not None:
            return not self._poll.poll(0)
        if self._socket.is_readable():
            return False
        if not isinstance(self.stream, trio.SSLStream):  # pragma: no cover # Windows
            return True
        unread = getattr(self.stream, "_incoming", None)  # records that were received and not decrypted
        return unread is not None and not unread.pending

    def become_idle(self) -> float:
        """Note that the connection waits for a request; return the time."""
        self._idle_since = trio.current_time()
        return self._idle_since

    def has_expired(self, now: float) -> bool:
        """Return True if it was idle for too long to be used again."""
        return now - self._idle_since >= _IDLE_SECONDS

    def close(self) -> None:
        """Close the connection at once; a task that waits for the server gets `trio.ClosedResourceError`."""
        self._descriptor = -1
        self._socket.close()

    def stop_waiting(self) -> None:
        """Let a task that waits for the server get `trio.ClosedResourceError`, and keep the connection."""
        trio.lowlevel.notify_closing(self._socket)

    async def send(self, head: bytes, content: bytes) -> None:
        """Send a request.

        Raises:
            NothingSentError: the connection had ended before.
            EngineError: the server takes nothing.
            trio.BrokenResourceError: the connection has ended.
        """
        parts = [head + content] if len(content) <= _PIECE_BYTES else [head, content]
        written = self.write_now(parts[0])
        for part in parts:
            await self.send_rest(part, written)
            written = 0

    async def send_rest(self, data: bytes, written: int) -> None:
        """Send *data* after its first *written* bytes; raises what `send` does."""
        for start in range(written, len(data), _PIECE_BYTES):
            await self._send_piece(memoryview(data)[start : start + _PIECE_BYTES])

    def write_now(self, data: bytes | bytearray) -> int:
        """Write without waiting, which saves a pass of the event loop; return the number of bytes.

        Raises:
            NothingSentError: the connection had ended before.
        """
        if not self.uses_descriptor:
            return 0
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:
            return 0
        except OSError as exc:
            raise NothingSentError from exc

    async def wait_writable(self) -> None:
        """Wait until `write_now` takes bytes; raises what `send` does."""
        if self._descriptor < 0:
            raise trio.ClosedResourceError
        with _takes_something():
            await trio.lowlevel.wait_writable(self._descriptor)

    async def _send_piece(self, piece: memoryview) -> None:
        with _takes_something():
            await self.stream.send_all(piece)

    async def wait_arrived(self) -> None:
        """Wait until bytes have arrived, or the connection has ended. It has to use a descriptor."""
        if self._descriptor < 0:
            raise trio.ClosedResourceError
        await trio.lowlevel.wait_readable(self._descriptor)

    def read_now(self) -> bytes | None:
        """Return bytes that have arrived, ``b""`` at the end of the connection; None if nothing has arrived."""
        try:
            return os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return None

    async def receive_first(self) -> bytes:
        """Do the same as `receive` at the begin of a response, without the attempt to read before it can have come."""
        if not self.uses_descriptor:
            return await self.receive()
        data: bytes | None = None
        while data is None:
            await self.wait_arrived()
            data = self.read_now()
        return data

    async def receive(self) -> bytes:
        """Wait for bytes of the response; return ``b""`` at the end of the connection."""
        return bytes(await self.stream.receive_some(_READ_BYTES))

    async def receive_now(self) -> bytes:
        """Return bytes that have arrived, or arrive at once; ``b""`` if there are none. Is not cancelled."""
        with trio.move_on_after(_MOMENT_SECONDS, shield=True), suppress(*_BROKEN):
            return await self.receive()
        return b""


@define(eq=False, repr=False)
class Http1Exchange(AbstractAsyncContextManager["HttpResponse"]):
    """One request and its response; entering waits for the head of the response."""

    _engine: Http1Engine
    _method: str
    _url: str
    _headers: Mapping[str, str]
    _content: bytes
    _on_sent: Callable[[], None] | None
    _address: str | None
    _connection: Http1Connection = field(init=False)
    _reader: ResponseReader = field(init=False)
    _is_broken: bool = field(default=False, init=False)
    """True if the request was not sent whole."""

    async def __aenter__(self) -> _Http1Response:
        try:
            place = place_of(self._url)
            head = self._engine.head(self._method, place, self._headers, len(self._content))
        except ValueError as exc:
            raise EngineError(f"{exc}", sent=False) from exc
        self._reader = ResponseReader(has_body=self._method != "HEAD")
        await self._send(place, head)
        return await self._response(place)

    async def _response(self, place: Place) -> _Http1Response:
        """Wait for the head of the response to the request that was sent."""
        reader = self._reader
        try:
            if self._on_sent is not None and not self._is_broken:
                self._on_sent()
            if reader.head is None:
                await self._read(self._connection.receive_first)
            while reader.head is None:
                await self.read_more()
            self._engine.answered(self._connection, place, reader.head)
            return _Http1Response(self, reader.head)
        except BaseException:
            self._connection.close()
            raise

    async def _send(self, place: Place, head: bytes) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        while True:
            kept = self._engine.kept(place, self._address)
            self._connection = connection = kept or await self._engine.connect(place, self._address)
            try:
                await connection.send(head, self._content)
            except NothingSentError as exc:
                connection.close()
                if kept is None:
                    raise cannot_connect(exc, place.url, reason_of(exc)) from exc
                continue  # rule 2
            except _BROKEN as exc:
                await self._read_refusal(exc)
            except BaseException:
                connection.close()
                raise
            return

    async def _read_refusal(self, failure: Exception) -> None:
        """Read the head of a response that has arrived although the request could not be sent whole."""
        reader, self._is_broken = self._reader, True
        try:
            while reader.head is None:
                reader.feed(await self._connection.receive_now())
        except HttpSyntaxError:
            self._connection.close()
            raise EngineError(reason_of(failure), sent=True) from failure

    async def read_more(self) -> None:
        """Read from the connection; raises `EngineError`."""
        await self._read(self._connection.receive)

    async def _read(self, receive: Callable[[], Awaitable[bytes]]) -> None:
        try:
            self._reader.feed(await receive())
        except HttpSyntaxError as exc:
            raise EngineError(f"{exc}", sent=True) from None
        except _BROKEN as exc:
            raise EngineError(reason_of(exc), sent=True) from exc

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Yield the body as it arrives."""
        reader = self._reader
        while True:
            for chunk in reader.take_body():
                yield chunk
            if reader.is_complete:
                return
            await self.read_more()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        reader, connection = self._reader, self._connection
        if kind is None and not reader.is_complete and not reader.is_last:
            await self._drain()
        if reader.is_complete and not reader.is_last and not self._is_broken:
            self._engine.keep(connection)
        else:
            connection.close()

    async def _drain(self) -> None:
        """Read the rest of the body, mostly empty, which has usually arrived with the head."""
        with suppress(HttpSyntaxError):
            for _ in range(_LAST_READS):
                data = await self._connection.receive_now()
                if not data:
                    return
                self._reader.feed(data)
                self._reader.take_body()
                if self._reader.is_complete:
                    return


class SentExchange(Http1Exchange):
    """A request that was sent already, and the rest of its response.

    Args:
        engine: keeps the connection afterwards.
        url: the URL of the request.
        connection: the connection on which it was sent.
        reader: has read what has arrived.
        failure: the reason why nothing more arrives; None if there is none.
        is_whole: False if the request was not sent whole.
    """

    def __init__(
        self,
        engine: Http1Engine,
        url: str,
        connection: Http1Connection,
        reader: ResponseReader,
        failure: Exception | None,
        *,
        is_whole: bool,
    ) -> None:
        super().__init__(engine, "POST", url, {}, b"", None, None)
        self._connection, self._reader, self._failure, self._is_broken = connection, reader, failure, not is_whole

    @property
    def is_whole(self) -> bool:
        """True if the request was sent whole."""
        return not self._is_broken

    def close(self) -> None:
        """Close the connection, because nobody reads the response, so that the server notices it."""
        self._connection.close()

    async def __aenter__(self) -> _Http1Response:
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
        except trio.Cancelled:
            self.close()
            raise
        failure, self._failure = self._failure, None
        if failure is not None:
            self._connection.close()
            raise EngineError(reason_of(failure, self_explanatory=(HttpSyntaxError,)), sent=True) from failure
        return await self._response(place_of(self._url))


class _Http1Response:
    """An `HttpResponse` of this engine."""

    def __init__(self, exchange: Http1Exchange, head: ResponseHead) -> None:
        self._exchange = exchange
        self.status = head.status
        self.headers = head.headers

    def chunks(self) -> AsyncGenerator[bytes]:
        return self._exchange.chunks()
