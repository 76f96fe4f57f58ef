"""The HTTP/1.1 protocol of one connection: requests for the application, and its responses as bytes.

The task of the connection answers one request after the other. An application that is made for it (`DirectApp`) runs in
that task. Any other ASGI application has a task for each request, because its context variables belong to one request,
and because it may go on after its response.

Rules of this file:

1. Requests that a client sends ahead are answered in order. While they wait, the connection is not read.
2. A request that cannot be read is refused, and is the last of its connection. If its response has begun, that breaks
   off instead.
3. A response announces that the connection closes if no other request can follow on it: the client said so, the server
   stops, or the body of the request has not arrived whole.
4. The head of a response of known length is held until the first part of its body, which follows at once. Written in
   one piece they cost a fifth less (benchmark cell `http-1`).
5. The application cannot choose the framing: a response without length is chunked. One that has a length and another
   number of bytes fails, because its client would take the next response for a part of it.
6. `Upgrade: h2c` is ignored, as a server may (RFC 9113 no longer has it): it bypasses the rules of a proxy, which sees
   one request and forwards everything after it.
7. A client that waits before it sends the body of its request is told to continue when the body is read. The MCP
   endpoint does that after the head was accepted, so a refused request transfers no body. For an ASGI application it is
   read at once.
8. The task of the connection answers the MCP endpoint, one request after the other, each with the context variables
   that the connection began with: what a request sets in them is for that request.
9. A client that ends its side of the connection has left, as it has for most servers: its request is cancelled. A
   response that is complete is still sent.
10. A request whose small body has arrived, and which the MCP endpoint can answer without waiting, is answered in one
    step: most calls are. This takes half the time (benchmark cell `http-64`).

Specification: RFC 9112, https://www.rfc-editor.org/rfc/rfc9112 and
https://asgi.readthedocs.io/en/stable/specs/www.html
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from email.utils import formatdate
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote

import trio
from attrs import define, field
from hypercorn.typing import ConnectionState

from ...._util import failure_of
from ..h1 import (
    LAST_CHUNK,
    Fields,
    HttpSyntaxError,
    RequestHead,
    RequestReader,
    chunk,
    field_lines,
    options_of,
    response_head,
    status_line,
)
from ..server import (
    AsgiMessage,
    BegunRequest,
    HttpChannel,
    HttpRequest,
    ResponseHead,
    UpgradableChannel,
    as_bytes,
    as_text,
    json_fields,
)
from ..ws import ByteChannel
from ._application import AppTasks

if TYPE_CHECKING:
    from ._connection import Connections

__all__ = ["ByteStream", "DirectApp", "Http1", "HttpExchange"]

_log = logging.getLogger("trio_mcp.transports")

_CLOSE = ("connection", "close")
_CLOSE_LINE, _KEEP_ALIVE_LINE = b"connection: close\r\n", b"connection: keep-alive\r\n"
_CHUNKED_LINE, _END = b"transfer-encoding: chunked\r\n", b"\r\n"
_SWITCHING, _OK, _NO_CONTENT, _NOT_MODIFIED = 101, 200, 204, 304
_WITHOUT_BODY = frozenset({_NO_CONTENT, _NOT_MODIFIED})
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_HTTP2_HEAD = b"PRI * HTTP/2.0\r\n\r\n"
_LONGEST_KNOWN = 2048
"""The size of the largest head of a request that is remembered."""
_SECRET = frozenset({"authorization", "cookie", "dpop", "proxy-authorization"})
_SMALL_BYTES = 16 * 2**10
"""The size of the largest bodies of rule 10."""
_MOST_AHEAD = 2**16
"""The number of bytes of following requests above which the connection is not read."""


class ByteStream(Protocol):
    """The part of a connection that the protocol needs; see `_connection`."""

    client: tuple[str, int] | None
    server: tuple[str, int] | None
    is_lost: bool

    @property
    def is_stopping(self) -> bool: ...
    def become_idle(self) -> None: ...
    def become_busy(self) -> None: ...
    def await_rest_of_head(self) -> None: ...
    async def receive(self) -> bytes: ...
    async def receive_during_request(self) -> bytes: ...
    def put(self, data: bytes) -> bool: ...
    async def flush(self) -> None: ...
    async def write(self, data: bytes) -> None: ...
    async def wait_lost(self) -> None: ...
    def abort(self) -> None: ...
    def reset(self) -> None: ...


class DirectApp(Protocol):
    """An application that can answer requests without ASGI."""

    def answers_directly(self, request: HttpRequest) -> bool:
        """Return True if `answer` takes a request."""
        ...

    async def answer(self, request: HttpRequest, channel: HttpChannel) -> None:
        """Answer a request."""
        ...

    def begin(self, request: HttpRequest, body: bytes) -> BegunRequest | None:
        """Begin to answer a request at once; return None, with nothing done, if `answer` has to."""
        ...

    async def go_on(self, begun: BegunRequest, request: HttpRequest, channel: HttpChannel) -> None:
        """Answer a request that was begun, and has no answer yet."""
        ...

    def takes_websocket(self, request: HttpRequest) -> bool:
        """Return True if a request may open a WebSocket."""
        ...

    async def serve_websocket(self, request: HttpRequest, channel: UpgradableChannel) -> None:
        """Answer a request to open a WebSocket, and serve it."""
        ...


@lru_cache(1)
def _date(_second: int) -> tuple[str, str]:
    return "date", formatdate(usegmt=True)


def _json_head(status: int, size: int) -> bytes:
    """Return the head of a response with JSON, after which the connection goes on."""
    lines, _, _ = _known_fields(json_fields(size))
    return status_line(status) + lines + _date_line(int(time.time())) + _END


@lru_cache(1)
def _date_line(second: int) -> bytes:
    return field_lines([_date(second)])


def _is_upgrade_to_websocket(exchange: HttpExchange) -> bool:
    head = exchange.head
    upgrade = head.headers.get("upgrade")
    if upgrade is None or head.method != "GET" or head.version == "1.0" or head.length != 0:  # no body
        return False
    return upgrade.partition(",")[0].lower() == "websocket" and "upgrade" in options_of(head.headers)


@define(eq=False, repr=False)
class HttpExchange(UpgradableChannel):
    """One request of a connection and its response."""

    _stream: ByteStream
    reader: RequestReader
    head: RequestHead
    has_whole_body: bool = field(init=False)
    has_begun: bool = field(default=False, init=False)
    """True once the head of the response was sent."""
    is_complete: bool = field(default=False, init=False)
    """True once the response was sent whole."""
    is_last: bool = field(default=False, init=False)
    """True if the connection ends with this exchange."""
    _left: int | None = field(default=None, init=False)
    """The bytes that the body of the response still lacks; None if its length was not announced."""
    _is_chunked: bool = field(default=False, init=False)
    _sends_body: bool = field(default=True, init=False)
    """False if the response has no body, whatever the application sends."""
    _awaits_continue: bool = field(init=False)
    is_switched: bool = field(default=False, init=False)
    """True once the connection goes on with another protocol."""

    def __attrs_post_init__(self) -> None:
        self._awaits_continue = self.head.expects_continue
        self.has_whole_body = self.reader.is_complete and not self.reader.has_body

    # --- The request ---

    @property
    def has_arrived(self) -> bool:
        """True if the whole body has arrived."""
        return self.reader.is_complete

    async def read(self) -> bytes | None:
        """Return the next part of the body; see `HttpChannel`."""
        while not (self.reader.has_body or self.reader.is_complete):
            if self._awaits_continue:
                self._awaits_continue = False
                await self._stream.write(_CONTINUE)
            if not await self._receive():
                return None
        body = b"".join(self.reader.take_body())
        self.has_whole_body = self.reader.is_complete
        return body

    async def wait_left(self) -> None:
        """Wait until the client has left, or the response is complete."""
        while await self._receive():
            self.reader.take_body()
            if len(self.reader.surplus) >= _MOST_AHEAD:  # rule 1
                await self._stream.wait_lost()

    async def _receive(self) -> bool:
        """Receive a part of the body, or of the next request; return False if the client has left."""
        if self.is_complete or self._stream.is_lost:
            await trio.lowlevel.checkpoint()
            return False
        data = await self._stream.receive_during_request()
        if not data:
            self.is_last = True
            if not self.is_complete:  # else the rest of the response is still written
                self._stream.abort()
            return False
        if self.reader.is_complete:
            self.reader.surplus += data
            return True
        try:
            self.reader.feed(data)
        except HttpSyntaxError as error:
            await self.refuse(error.status)
            return False
        return True

    async def refuse(self, status: int) -> None:
        """Answer a request that cannot be read; if the response has begun, break it off (rule 2)."""
        self.is_last = True
        if not self.has_begun:
            self.put((status, [("content-length", "0")]), b"", more=False)
            await self._stream.flush()
        self.is_complete = True

    # --- The response ---

    def put(self, head: ResponseHead | None, data: bytes, *, more: bool) -> bool:
        """Send a part of the response; see `HttpChannel`.

        Raises:
            ValueError: the response is malformed, or does not have the length that its head announced.
        """
        if self.is_complete or self._stream.is_lost:
            return True
        lines = b"" if head is None else self._begin(*head)
        if not self._sends_body:
            data = b""
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0 or (self._left and not more):
                self.is_last = True
                raise ValueError("the body of the response does not have the length that its head announced")
        elif self._is_chunked:
            data = (chunk(data) if data else b"") + (b"" if more else LAST_CHUNK)
        self.has_begun = True
        self.is_complete = not more
        data = lines + data if lines else data
        return not data or self._stream.put(data)

    async def flush(self) -> None:
        """Send the rest of what was put."""
        await self._stream.flush()

    def cut(self) -> None:
        """Break the response off."""
        self._stream.abort()

    def _begin(self, status: int, given: Fields) -> bytes:
        """Return the head of the response; decide how its body is framed, and if the connection goes on (rule 3)."""
        if status < _OK:
            raise ValueError(f"the response has the status {status}, which is not that of a final response")
        lines, length, closes = _known_fields(given) if isinstance(given, tuple) else _fields_of(given, status)
        head = self.head
        self._sends_body = head.method != "HEAD" and status not in _WITHOUT_BODY
        if self._sends_body:
            self._left = length
            self._is_chunked = length is None and head.version == "1.1"
            if self._is_chunked:
                lines += _CHUNKED_LINE
        is_unbounded = self._sends_body and length is None and not self._is_chunked
        is_last = closes or is_unbounded or head.is_last or not self.reader.is_complete or self._stream.is_stopping
        if is_last or self.is_last:
            self.is_last = True
            lines += _CLOSE_LINE
        elif head.version == "1.0":
            lines += _KEEP_ALIVE_LINE
        return status_line(status) + lines + _date_line(int(time.time())) + _END

    def switch(self, fields: Fields) -> ByteChannel:
        """Let the connection go on with another protocol; see `UpgradableChannel`."""
        self.has_begun = self.is_complete = self.is_last = self.is_switched = True
        switched = _SwitchedConnection(self._stream, self.reader.surplus)
        switched.put(response_head(_SWITCHING, [*fields, _date(int(time.time()))]))
        return switched

    async def finish(self) -> None:
        """Answer for an application that has returned without a response; break an incomplete one off."""
        if self._stream.is_lost or self.is_complete:
            return
        if self.has_begun:
            self.is_last = self.is_complete = True
            if self._left is None and not self._is_chunked:  # its body ends with the connection
                self._stream.reset()
        else:
            self._left = None
            await self.refuse(500)


@define(eq=False)
class _SwitchedConnection:
    """The rest of a connection that goes on with another protocol, as a `ByteChannel`."""

    _stream: ByteStream
    _surplus: bytes
    """The bytes that have arrived behind the request."""

    async def receive(self) -> bytes:
        """Wait for bytes; return none at the end of the connection."""
        data, self._surplus = self._surplus, b""
        return data or await self._stream.receive_during_request()

    def put(self, data: bytes) -> bool:
        """Send what the connection takes at once; return False if `flush` has to send the rest."""
        return self._stream.put(data)

    async def flush(self) -> None:
        """Send what was put; raises `trio.BrokenResourceError`."""
        await self._stream.flush()
        if self._stream.is_lost:
            raise trio.BrokenResourceError("the client has left, or does not read")

    def close(self) -> None:
        """Close the connection at once."""
        self._stream.abort()


@define(eq=False)
class Http1:
    """The HTTP/1.1 protocol of one connection.

    Args:
        stream: the connection.
        tasks: run the ASGI application.
        common: what the connections of a server share.
    """

    _stream: ByteStream
    _tasks: AppTasks
    _common: Connections
    _ahead: bytes = field(default=b"", init=False)
    """The bytes that the client has sent after the last request."""
    _known: RequestHead | None = field(default=None, init=False)
    """The head of the latest request, unless it is long or holds a secret: idle connections are many."""
    _exchange: HttpExchange | None = field(default=None, init=False)
    """The request that is answered now, or was answered last."""
    _begun_head: RequestHead | None = field(default=None, init=False)
    """The head in ``_known``, if the server application began its request at once."""
    _context: Context = field(factory=copy_context, init=False)
    """The context variables with which each request begins."""
    _has_failed: bool = field(default=False, init=False)
    """True after a request that could not be read."""

    @property
    def expects_more(self) -> bool:
        """True if the client may still be sending data that is not read."""
        exchange = self._exchange
        return self._has_failed or (
            exchange is not None
            and (not exchange.reader.is_complete or bool(exchange.reader.surplus) or exchange.is_switched)
        )

    async def serve(self) -> bytes:
        """Serve requests until the connection ends; return what begins HTTP/2, if it goes on with that."""
        is_first = True
        while True:
            reader = RequestReader(self._common.listening.max_head_bytes, self._known)
            try:
                head = await self._read_head(reader)
            except HttpSyntaxError as error:
                await self._refuse(error.status)
                return b""
            if head is None and reader.starts_http2:
                if is_first and self._common.listening.http2:
                    return _HTTP2_HEAD + reader.surplus
                await self._refuse(505)
            if head is None:
                return b""
            is_first = False
            if head is not self._known:
                is_short = len(head.raw) <= _LONGEST_KNOWN and _SECRET.isdisjoint(head.headers)
                self._known = head if is_short else None
            if not await self._answer(head, reader):
                return b""
            self._ahead = reader.surplus
            del head, reader  # they hold a token, and idle connections are many
            if self._ahead:  # it has arrived, so the connection gives way to no other one
                self._stream.become_busy()
            else:
                self._stream.become_idle()

    async def _read_head(self, reader: RequestReader) -> RequestHead | None:
        """Return the head of the next request; None if there is none."""
        data, self._ahead = self._ahead, b""
        is_idle = not data
        if data:
            await trio.lowlevel.checkpoint()  # a client that sends many requests at once must not delay others
        while True:
            if data:
                reader.feed(data)
                if reader.head is not None or reader.is_complete:
                    return reader.head
                if not is_idle:
                    is_idle = True
                    self._stream.become_idle()
                if reader.has_part_of_head:
                    self._stream.await_rest_of_head()
            data = await self._stream.receive()
            if not data:
                return None

    async def _refuse(self, status: int) -> None:
        self._has_failed = True
        fields = [("content-length", "0"), _date(int(time.time())), _CLOSE]
        await self._stream.write(response_head(status, fields))

    # --- Applications ---

    async def _answer(self, head: RequestHead, reader: RequestReader) -> bool:
        """Answer a request; return True if another one may follow on the connection."""
        raw_path, _, query = head.target.partition("?")
        path = unquote(raw_path) if "%" in raw_path else raw_path
        direct, client, stream = self._common.direct, self._stream.client, self._stream
        request: HttpRequest | None = None
        begun: BegunRequest | None = None
        if direct is not None:
            request = HttpRequest(
                method=head.method,
                path=path,
                local_path=path,
                query=query,
                headers=head.headers,
                client=None if client is None else client[0],
            )
            if self._may_begin(head, reader):
                request.has_known_head = head is self._begun_head
                begun = self._context.copy().run(direct.begin, request, reader.body())
                self._begun_head = self._known if begun is not None else None
                answer = None if begun is None else begun.take_answer(_SMALL_BYTES)
                if answer is not None:
                    if not stream.put(_json_head(answer[0], len(answer[1])) + answer[1]):
                        stream.become_busy()
                        await stream.flush()
                    return not stream.is_lost
        stream.become_busy()
        trio.lowlevel.current_task().context = self._context.copy()
        exchange = self._exchange = HttpExchange(stream, reader, head)
        if direct is None or request is None:
            await self._answer_asgi(exchange, path, raw_path, query)
        elif begun is not None:
            await _answer_directly(partial(direct.go_on, begun, request), request, exchange)
        elif _is_upgrade_to_websocket(exchange) and direct.takes_websocket(request):
            await _answer_directly(partial(direct.serve_websocket, request), request, exchange)
        elif direct.answers_directly(request):
            await _answer_directly(partial(direct.answer, request), request, exchange)
        else:
            await self._answer_asgi(exchange, path, raw_path, query)
        if exchange.is_last or stream.is_lost or stream.is_stopping or not reader.is_complete:
            return False
        reader.take_body()
        self._exchange = None
        return True

    def _may_begin(self, head: RequestHead, reader: RequestReader) -> bool:
        """Return True if rule 10 may apply to a request."""
        is_usual = head.method == "POST" and head.version == "1.1" and not head.is_last
        is_small = head.length is not None and head.length <= _SMALL_BYTES  # chunks are measured by `answer`
        return is_usual and is_small and reader.is_complete and not self._stream.is_stopping

    async def _answer_asgi(self, exchange: HttpExchange, path: str, raw_path: str, query: str) -> None:
        """Let the ASGI application answer, in a task of its own; return when the response is complete."""
        head = exchange.head
        scope = {
            "type": "http",
            "http_version": head.version,
            "asgi": {"spec_version": "2.1", "version": "3.0"},
            "method": head.method,
            "scheme": "https" if self._common.listening.is_encrypted else "http",
            "path": path,
            "raw_path": raw_path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": as_bytes(head.fields),
            "client": self._stream.client,
            "server": self._stream.server,
            "state": ConnectionState(self._common.lifespan_state).copy(),
            "extensions": {},
        }
        answering = trio.CancelScope()
        sender = _AsgiSender(exchange, answering)
        put = await self._tasks.spawn_app(self._common.app, None, scope, sender.send)
        with answering:
            data = b"" if exchange.has_whole_body else await exchange.read()
            while data is not None:
                await put({"type": "http.request", "body": data, "more_body": not exchange.has_whole_body})
                data = None if exchange.has_whole_body else await exchange.read()
            await exchange.wait_left()
        await put({"type": "http.disconnect"})


async def _answer_directly(
    answer: Callable[[HttpExchange], Awaitable[None]], request: HttpRequest, exchange: HttpExchange
) -> None:
    try:
        await answer(exchange)
    except BaseException as error:  # noqa: BLE001 # `failure_of` raises it again unless it is a failure
        failure = failure_of(error, "the application", _log)
        _log.error("the application failed at %s %r", request.method, request.path, exc_info=failure)
    await exchange.finish()


@define(eq=False, repr=False)
class _AsgiSender:
    """Takes what an ASGI application sends for one request."""

    _exchange: HttpExchange
    _answering: trio.CancelScope
    """Cancelled when the response is complete."""
    _held: ResponseHead | None = field(default=None, init=False)
    """The head, which waits for the first part of the body (rule 4)."""
    _has_head: bool = field(default=False, init=False)

    async def send(self, message: AsgiMessage | None) -> None:
        """Take a message; None reports that the application has returned."""
        exchange = self._exchange
        if message is None:
            await exchange.finish()
            self._answering.cancel()
        elif exchange.is_complete:
            pass
        elif not self._has_head and message["type"] == "http.response.start":
            fields = as_text(message.get("headers", ()))
            self._held, self._has_head = (int(message["status"]), fields), True
            if not any(name == "content-length" for name, _ in fields):
                await self._put(b"", more=True)
        elif self._has_head and message["type"] == "http.response.body":
            more = message.get("more_body", False)
            await self._put(bytes(message.get("body", b"")), more=more)
            if not more:
                self._answering.cancel()
        else:
            state = "begun" if self._has_head else "awaited"
            raise ValueError(f"the application sent {message['type']!r} while its response was {state}")

    async def _put(self, data: bytes, *, more: bool) -> None:
        head, self._held = self._held, None
        self._exchange.put(head, data, more=more)
        await self._exchange.flush()
        await trio.lowlevel.cancel_shielded_checkpoint()  # an application that keeps sending must not block other tasks


@lru_cache(maxsize=256)
def _known_fields(given: Fields) -> tuple[bytes, int | None, bool]:
    """Do the same as `_fields_of` for fields that many responses have, which are a tuple."""
    return _fields_of(given, _OK)


def _fields_of(given: Fields, status: int) -> tuple[bytes, int | None, bool]:
    """Return the lines of the fields of an application; the rest is that of `_application_fields`."""
    fields, length, closes = _application_fields(given)
    if status == _NO_CONTENT:
        fields = [each for each in fields if each[0] != "content-length"]
    return field_lines(fields), length, closes


def _application_fields(given: Fields) -> tuple[list[tuple[str, str]], int | None, bool]:
    """Return the fields of an application without its framing, the announced length, and if the connection closes.

    Raises:
        ValueError: the length is not a number, or there are several.
    """
    fields: list[tuple[str, str]] = []
    lengths: list[str] = []
    closes = False
    for field_ in given:
        name, value = field_
        if name == "content-length":
            lengths.append(value)
        elif name == "connection" and value.lower() == "close":
            closes = True
            continue
        elif name == "transfer-encoding":
            continue  # rule 5
        fields.append(field_)
    if len(lengths) > 1 or (lengths and not (lengths[0].isascii() and lengths[0].isdigit())):
        raise ValueError(f"the response has an invalid content-length: {lengths!r:.100}")
    return fields, int(lengths[0]) if lengths else None, closes
