"""The HTTP engine of a client: one request, one streaming response, and an early end; over httpx2 by default.

The transport knows only `HttpEngine`, so another HTTP library can replace httpx2 without any change to it.

Rules of this file:

1. Only HTTP/1.1 is spoken. Over HTTP/2, httpx2 does not tell the server that a response was closed early, which is what
   cancels a request. (httpx, its ancestor, loses connections if responses are closed early.)
2. An address that the server names (an endpoint, a redirect) must have the same origin, or it is refused. Otherwise a
   server could have the client's credentials sent anywhere, and have it probe its own network. Of the redirects within
   an origin, those that keep the method and the body (307, 308) are followed.
3. Addresses and header fields are checked before anything is sent; bodies are read within bounds.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import ssl
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from contextvars import ContextVar
from functools import cache, lru_cache
from types import TracebackType
from typing import Any, Protocol, TypeAlias
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

import httpx2
import trio
from attrs import define, field, frozen

from ..._errors import ErrorResponse, HttpStatusError, RemoteProtocolError
from ..._misuse import did_you_mean
from ..._version import VERSION
from ...wire import (
    EVENT_STREAM_TYPE,
    JSON_TYPE,
    LAST_EVENT_FIELD,
    METHOD_FIELD,
    NAME_FIELD,
    PARAM_PREFIX,
    SESSION_FIELD,
    VERSION_FIELD,
    ErrorReply,
    RequestId,
    SseDecoder,
    SseEvent,
    SseOverflowError,
    Undecodable,
    decode,
    is_array,
    is_object,
    parse_message,
)

__all__ = [
    "EngineError",
    "FollowedRequest",
    "HttpEngine",
    "HttpResponse",
    "HttpxClient",
    "HttpxEngine",
    "Refused",
    "Sending",
    "checked_endpoint",
    "checked_fields",
    "checked_url",
    "is_event_stream",
    "is_success",
    "media_type",
    "new_httpx_client",
    "origin_of",
    "read_at_most",
    "read_body",
    "read_events",
    "read_refusal",
    "redirection",
    "split_url",
    "user_agent",
]


class EngineError(Exception):
    """A request that could not be made, or whose response broke off.

    Args:
        message: what happened, for people.
        sent: False if certainly nothing has reached the server, for example because the connection failed.
    """

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class HttpResponse(Protocol):
    """The head of a response, and its body as it arrives."""

    @property
    def status(self) -> int:
        """The status code, such as 200."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The header fields by lower-case name; the values of repeated ones are joined with ``", "``."""
        ...

    def chunks(self) -> AsyncGenerator[bytes]:
        """Yield the body as it arrives, once: without its transfer encoding, but not decompressed.

        Close the generator with `contextlib.aclosing` if the body may not be read to its end.

        Raises:
            EngineError: the connection ended before the body did.
        """
        ...


class HttpEngine(Protocol):
    """Makes any number of requests at once; each has one response, which may be a redirect: it follows none itself."""

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes = b"",
        *,
        on_sent: Callable[[], None] | None = None,
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """Make a request; entering the block waits for the head of the response.

        Leaving it before the body has ended closes the connection, so the server notices that the client has left.

        Args:
            method: in capitals.
            url: absolute, ``http`` or ``https``.
            headers: all header fields except those about the framing and the host.
            content: the body.
            on_sent: called synchronously when the whole request has been sent, which may be long before the response.

        Raises:
            EngineError: the server cannot be reached, or the connection ended before the head arrived.
        """
        ...

    async def aclose(self) -> None:
        """Close the idle connections. No request is open any more."""
        ...


HttpxClient: TypeAlias = httpx2.AsyncClient
"""The client that users may configure and pass in."""

_TIMEOUT = httpx2.Timeout(connect=30.0, read=None, write=30.0, pool=30.0)
"""Seconds. A stream may be silent for any time; the client's own timeouts bound a request."""
_LIMITS = _TIMEOUT.as_dict()
_MOST_IDLE, _IDLE_SECONDS = 20, 4.0
"""The number of idle connections, and how long they are kept: less than the 5 s after which many servers close them.
Each one costs a check per request."""
_LAST_CHUNKS = 100
"""The number of chunks that are read of a body that is not read to its end: they may have arrived already."""
_NOT_SENT_ERRORS = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
    httpx2.LocalProtocolError,
    httpx2.InvalidURL,
)
"""The errors that can only happen before anything was sent."""
_is_ours = ContextVar("_is_ours", default=False)
"""True while a request of this module is being made."""


class _WithoutQueries(logging.Filter):
    """A log filter that removes the queries of our own requests from httpx2's log.

    Queries may hold keys and session ids.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if _is_ours.get() and isinstance(record.args, tuple):
            record.args = tuple(
                each.copy_with(query=None) if isinstance(each, httpx2.URL) else each for each in record.args
            )
        return True


logging.getLogger("httpx2").addFilter(_WithoutQueries())


def user_agent() -> str:
    """Return the `User-Agent` of the client's requests."""
    return f"trio-mcp/{VERSION}"


@cache
def _trust() -> ssl.SSLContext:
    """Return the TLS context of all clients of the process, cached because reading the certificates takes 20 ms."""
    return httpx2.create_ssl_context()


def new_httpx_client(*, most_idle: int = _MOST_IDLE) -> httpx2.AsyncClient:
    """Return a client for MCP: proxies and certificates of the environment, no HTTP/2, no redirects.

    Args:
        most_idle: the number of idle connections that are kept.
    """
    return httpx2.AsyncClient(
        verify=_trust(),
        timeout=_TIMEOUT,
        # The transport bounds the number of streams, not the pool: a cancellation must not wait for a connection.
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=most_idle, keepalive_expiry=_IDLE_SECONDS),
        headers={"user-agent": user_agent()},
        trust_env=_may_have_proxies(),
    )


def _may_have_proxies() -> bool:
    """Return True if httpx2 must look for proxies; this check takes a twentieth of the time of that lookup."""
    return sys.platform in {"darwin", "win32"} or "_proxy" in " ".join(os.environ).lower()


@define(eq=False)
class HttpxEngine:
    """An `HttpEngine` over one `httpx2.AsyncClient`.

    Args:
        client: makes the requests. Its timeouts apply, except that on reading.
        closes: True if `aclose` closes the client: not if the caller owns it.
        notes_address: True if `reached_at` is needed.
    """

    _client: httpx2.AsyncClient
    closes: bool = field(kw_only=True)
    notes_address: bool = field(default=False, kw_only=True)
    reached_at: str | None = field(default=None, init=False)
    """The address of the peer, server or proxy, of the latest request that was answered."""

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes = b"",
        *,
        on_sent: Callable[[], None] | None = None,
    ) -> Sending:
        """Make a request; see `HttpEngine.request`."""

        def build() -> httpx2.Request:
            return (self._built if self.closes else self._built_by_client)(method, url, headers, content, on_sent)

        return Sending(self._client, url, build, self._note_address if self.notes_address else None)

    def _built(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes, on_sent: Callable[[], None] | None
    ) -> httpx2.Request:
        """Return a request as our own client would build it, in a quarter of the time."""
        address, host = _parsed(url)
        usual = {"host": host, "connection": "keep-alive", "user-agent": user_agent()}
        size = {"content-length": str(len(content))} if content or method == "POST" else {}
        body = httpx2.ByteStream(content) if on_sent is None else _Body(content, on_sent)
        return httpx2.Request(
            method,
            address,
            headers={**usual, **headers, "accept-encoding": "identity", **size},
            cookies=self._client.cookies,
            stream=body,
            extensions={"timeout": _LIMITS},
        )

    def _built_by_client(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes, on_sent: Callable[[], None] | None
    ) -> httpx2.Request:
        limits = self._client.timeout
        unhurried = httpx2.Timeout(connect=limits.connect, read=None, write=limits.write, pool=limits.pool)
        fields = {**headers, "accept-encoding": "identity"}
        request = self._client.build_request(method, url, headers=fields, content=content, timeout=unhurried)
        if on_sent is not None:
            request.stream = _Body(content, on_sent)
        return request

    def _note_address(self, response: SentResponse) -> None:
        self.reached_at = response.peer()

    async def aclose(self) -> None:
        """Close the client, if the engine owns it."""
        if self.closes:
            await self._client.aclose()


@lru_cache(maxsize=16)  # most requests go to the same URL
def _parsed(url: str) -> tuple[httpx2.URL, str]:
    """Return a URL, and its value in the field `Host`."""
    address = httpx2.URL(url)
    return address, address.netloc.decode("ascii")


@define
class _Body(httpx2.AsyncByteStream):
    """The body of a request, which reports when it has been sent: only then does httpx2 ask for more."""

    _content: bytes
    _on_sent: Callable[[], None]

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        yield self._content
        self._on_sent()


@define(eq=False)
class Sending(AbstractAsyncContextManager["SentResponse"]):
    """A request that *client* sends; entering waits for the head of the response, and raises `EngineError`.

    Args:
        client: sends the request.
        url: the address that errors name.
        build: returns the request.
        on_response: called with the response.
        auth: of `httpx2.AsyncClient.send`.
    """

    _client: httpx2.AsyncClient
    _url: str
    _build: Callable[[], httpx2.Request]
    _heard: Callable[[SentResponse], None] | None = None
    auth: Any = field(default=httpx2.USE_CLIENT_DEFAULT, kw_only=True)
    _response: httpx2.Response = field(init=False)

    async def __aenter__(self) -> SentResponse:
        before = _is_ours.set(True)
        try:
            self._response = await self._client.send(self._build(), stream=True, follow_redirects=False, auth=self.auth)
        except Exception as exc:  # hooks and authentication of a user's client may raise anything
            raise _engine_error(exc, self._url) from exc
        finally:
            _is_ours.reset(before)
        response = SentResponse(self._response)
        if self._heard is not None:
            self._heard(response)
        return response

    async def __aexit__(self, *_: object) -> None:
        if not self._response.is_stream_consumed:  # the body, mostly empty, has usually arrived with the head
            await _end(self._response.aiter_raw())  # otherwise httpcore2 closes a reusable connection
        await self._response.aclose()


class SentResponse:
    """An `HttpResponse` of httpx2."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.headers: Mapping[str, str] = dict(response.headers.items())  # by lower-case name, joined

    def peer(self) -> str | None:
        """Return the address of the peer; None if a custom transport does not tell."""
        with suppress(Exception):
            return str(self._response.extensions["network_stream"].get_extra_info("server_addr")[0])
        return None

    async def chunks(self) -> AsyncGenerator[bytes]:
        if self._response.is_stream_consumed:  # by a hook of the user's client, or a mocked response
            yield self._response.content
            return
        body, is_left = self._response.aiter_raw(), True
        try:
            async for chunk in body:
                yield chunk
            is_left = False
        except Exception as exc:  # a user's transport may raise anything
            raise _engine_error(exc, str(self._response.url)) from exc
        finally:
            if is_left:
                await _end(body)


async def _end(body: AsyncGenerator[bytes, None]) -> None:
    """End a generator of httpx2 that may have been left between two chunks, with the generators inside it.

    Closing it would leave the inner ones to the garbage collector. Cancelled while waiting for the network, each of
    them ends. Before that, at most what has been received already is read, unless a custom transport makes it up.
    """
    with trio.CancelScope() as scope, suppress(Exception):
        scope.cancel()
        for _ in range(_LAST_CHUNKS):
            await anext(body)
        await body.aclose()


def _engine_error(exc: Exception, url: str) -> EngineError:
    if isinstance(exc, _NOT_SENT_ERRORS):
        place = url.partition("?")[0]  # the query may hold a secret
        return EngineError(f"cannot connect to {place}: {_reason(exc)}{_cure(exc, url)}", sent=False)
    return EngineError(_reason(exc), sent=True)


def _cure(exc: Exception, url: str) -> str:
    """Return what the user may do about a connection that could not be made; empty if that is unknown."""
    place = urlsplit(url)
    for cause in _causes(exc):
        if isinstance(cause, ConnectionRefusedError):
            port = place.port or _PORTS[place.scheme]
            return f"; nothing accepts connections at {place.hostname}, port {port}: is the server running there?"
        if isinstance(cause, socket.gaierror):
            return f"; is {place.hostname!r} the right name, and is there a network?"
        if isinstance(cause, ssl.SSLError) and cause.reason in _NO_TLS:
            return "; the server answers without TLS: does its URL begin with http://?"
    return ""


def _causes(exc: BaseException) -> Iterable[BaseException]:
    """Return an exception, what caused it, and what is in groups, each once."""
    found: list[BaseException] = [exc]
    for each in found:  # it grows meanwhile
        inside: Sequence[BaseException] = getattr(each, "exceptions", ())
        found += [other for other in (*inside, each.__cause__, each.__context__) if other and other not in found]
    return found


def _reason(exc: Exception) -> str:
    """Return what happened; if an error has no message, that of its cause."""
    cause: BaseException | None = exc
    while cause is not None and not str(cause):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        return type(exc).__name__
    return str(cause) if isinstance(cause, httpx2.HTTPError | ssl.SSLError) else f"{type(cause).__name__}: {cause}"


_PORTS = {"http": 80, "https": 443}
_NO_TLS = frozenset({"HTTP_REQUEST", "RECORD_LAYER_FAILURE", "WRONG_VERSION_NUMBER"})
"""What OpenSSL says, by its version, of an answer that is not TLS."""
_NOT_IN_URLS = re.compile(r"[\x00-\x20\x7f]")
_CREDENTIALS = re.compile(r"(?<=//)[^/?#]*@")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"(?:[!-~](?:[\t -~]*[!-~])?)?")
_PROTOCOL_FIELDS = {
    *("accept", "accept-encoding", "connection", "content-length", "content-type", "transfer-encoding"),
    *(LAST_EVENT_FIELD, METHOD_FIELD, NAME_FIELD, SESSION_FIELD, VERSION_FIELD),
}
"""The header fields of the protocol, which a caller cannot set."""
_SHOWN = 200
"""The number of characters of a server's address that an error shows."""
_SAME_REQUEST = (307, 308)
"""The statuses of redirects that keep the method and the body."""
_MOST_REDIRECTS = 3
"""The number of redirects of one request that are followed."""


def checked_url(url: str) -> str:
    """Return the address of a server without its fragment.

    Raises:
        ValueError: it is not an ``http`` or ``https`` URL, or it holds a password.
    """
    try:
        parts = split_url(url)
    except ValueError as exc:
        raise ValueError(f"{_CREDENTIALS.sub('', url)!r} is not the address of a server: {exc}") from None
    if parts.username is not None or parts.password is not None:
        raise ValueError(
            f"the address of {parts.hostname!r} holds a user name or a password, and addresses are logged; "
            "send credentials in headers={'Authorization': ...}"
        )
    return urlunsplit(parts._replace(fragment=""))


def split_url(url: str) -> SplitResult:
    """Split a complete URL; raises `ValueError` with the reason if it is invalid."""
    if _NOT_IN_URLS.search(url):
        raise ValueError("it holds a space or a control character")
    parts = urlsplit(url)
    if parts.scheme not in _PORTS:
        raise ValueError("it does not begin with http:// or https://")
    if not parts.hostname:
        raise ValueError("it names no host")
    _ = parts.port  # raises ValueError if invalid
    return parts


def origin_of(parts: SplitResult) -> tuple[str, str | None, int]:
    """Return the origin of a URL: two URLs of one origin are equally trusted."""
    return parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme]


def checked_endpoint(url: str, reference: str) -> str:
    """Return the address for messages that the server at *url* names, which may be relative to its own.

    Raises:
        RemoteProtocolError: it is not a URL, or has another origin.
    """
    try:
        endpoint = urljoin(url, reference)
        parts = split_url(endpoint)
    except ValueError as exc:
        raise RemoteProtocolError(f"the server names {reference[:_SHOWN]!r} as its endpoint: {exc}") from None
    if origin_of(parts) != origin_of(urlsplit(url)):
        raise RemoteProtocolError(f"the server names an endpoint of another origin: {reference[:_SHOWN]!r}")
    return endpoint


def _redirected(url: str, response: HttpResponse) -> str | None:
    """Return the address, of the same origin as *url*, where the same request is to be made; None if there is none."""
    if response.status not in _SAME_REQUEST or "location" not in response.headers:
        return None
    try:
        target = split_url(urljoin(url, response.headers["location"]))
    except ValueError:
        return None
    is_there = origin_of(target) == origin_of(urlsplit(url)) and target.username is None and target.password is None
    return urlunsplit(target._replace(fragment="")) if is_there else None


@define(eq=False)
class FollowedRequest(AbstractAsyncContextManager["HttpResponse"]):
    """A request that follows redirects; entering waits for the head of the last response."""

    _send: Callable[[str], AbstractAsyncContextManager[HttpResponse]]
    _url: str
    _on_redirect: Callable[[str, str], None]
    _sent: AbstractAsyncContextManager[HttpResponse] = field(init=False)

    async def __aenter__(self) -> HttpResponse:
        url, left = self._url, _MOST_REDIRECTS
        while True:
            self._sent = self._send(url)
            response = await self._sent.__aenter__()
            target = _redirected(url, response) if left and response.status >= 300 else None
            if target is None:
                return response
            await self._sent.__aexit__(None, None, None)
            self._on_redirect(url, target)
            url, left = target, left - 1

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await self._sent.__aexit__(kind, exc, traceback)


def redirection(url: str, location: str) -> str:
    """Describe a redirect that is not followed, and what to do about it."""
    try:
        target, source = split_url(urljoin(url, location)), urlsplit(url)
    except ValueError:
        return "redirects to an invalid address"
    place = f"{target.scheme}://{target.netloc.rpartition('@')[2]}{target.path}"[:_SHOWN]
    if target.hostname == source.hostname and (source.scheme, target.scheme) == ("http", "https"):
        return f"redirects to {place}: connect to the https address"
    return f"redirects to {place}; redirects are not followed: connect to that address if it is the right one"


def checked_fields(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the header fields that the application adds to each HTTP request, by lower-case name.

    Raises:
        ValueError: one is not a valid header field, or is set by the protocol.
    """
    fields: dict[str, str] = {}
    for name, value in headers.items():
        lower = name.lower()
        if not _TOKEN.fullmatch(name):
            raise ValueError(f"headers: {name!r} is not a valid name of a header field")
        if lower in _PROTOCOL_FIELDS or lower.startswith(PARAM_PREFIX):
            raise ValueError(f"headers: {name!r} belongs to the protocol, and the client sets it itself")
        if not _VALUE.fullmatch(value):
            raise ValueError(f"headers: the value of {name!r} holds characters that are not allowed in a header field")
        fields[lower] = value
    return fields


_CREDENTIAL_STATUSES = (401, 403)
"""The statuses that are about authentication, with any message."""
_NOTHING_STATUSES = (404, 405)
"""The statuses of a server that has nothing at a path, or nothing that takes a POST."""
_REFUSAL_SECONDS = 5.0
"""The time to wait for the body of a refusal, which only adds details to the status."""


def media_type(response: HttpResponse) -> str:
    """Return the media type of the body in lower case, without parameters; empty if none is given."""
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


def is_success(response: HttpResponse) -> bool:
    """Return True if the request was accepted."""
    return 200 <= response.status < 300


def is_event_stream(response: HttpResponse) -> bool:
    """Return True if the body consists of events."""
    return is_success(response) and media_type(response) == EVENT_STREAM_TYPE


async def read_body(response: HttpResponse, limit: int) -> bytes:
    """Return the whole body.

    Raises:
        RemoteProtocolError: it has more than *limit* bytes, of which the rest is not read, or is compressed.
        EngineError: the connection ended before the body did.
    """
    body = await read_at_most(response, limit)
    if body is None:
        raise _too_long(limit)
    return body


async def read_at_most(response: HttpResponse, limit: int) -> bytes | None:
    """Return the whole body; None if it has more than *limit* bytes, of which the rest is not read.

    Raises:
        RemoteProtocolError: it is compressed.
        EngineError: the connection ended before the body did.
    """
    _check_plain(response)
    declared = response.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and len(declared) < 20 and int(declared) > limit:
        return None
    body = bytearray()
    async with aclosing(response.chunks()) as chunks:
        async for chunk in chunks:
            body += chunk
            if len(body) > limit:
                return None
    return bytes(body)


async def read_events(response: HttpResponse, decoder: SseDecoder, take: Callable[[SseEvent], None]) -> None:
    """Pass each event to *take*, until the stream ends.

    Raises:
        RemoteProtocolError: an event is longer than the decoder allows, or the stream is compressed.
        EngineError: the connection ended before the stream did.
    """
    _check_plain(response)
    async with aclosing(response.chunks()) as chunks:
        async for chunk in chunks:
            try:
                events = decoder.feed(chunk)
            except SseOverflowError:
                raise _too_long(decoder.limit) from None
            for event in events:
                take(event)


def _check_plain(response: HttpResponse) -> None:
    # Each request rules compression out: a small compressed body can unpack to more than the memory holds.
    encoding = response.headers.get("content-encoding", "identity")
    if encoding.strip().lower() not in {"", "identity"}:
        raise RemoteProtocolError(
            f"the response is compressed ({encoding[:_SHOWN]!r}), although the request rules that out"
        )


def _too_long(limit: int) -> RemoteProtocolError:
    return RemoteProtocolError(f"the server sends a message of more than {limit} bytes (Limits.max_message_bytes)")


@frozen
class Refused:
    """A response whose status is not a success, or that holds no message."""

    status: int
    error: ErrorResponse | HttpStatusError
    """The error that the caller gets."""
    body: bytes = b""
    """The message that holds the error; empty if there is none."""
    id: RequestId | None = None
    """The id in that message."""


async def read_refusal(response: HttpResponse, url: str, limit: int, id: RequestId | None = None) -> Refused:
    """Read the body of an HTTP response that refuses a request. An error without an id belongs to that request.

    Args:
        response: the refusal.
        url: the address of the request.
        limit: the maximum number of bytes of the body that are read.
        id: the id of the request; None for a message without one.
    """
    status = response.status
    if _redirected(url, response) is not None:
        return Refused(status, HttpStatusError(status, f"redirects more than {_MOST_REDIRECTS} times"))
    if 300 <= status < 400 and "location" in response.headers:
        return Refused(status, HttpStatusError(status, redirection(url, response.headers["location"])))
    body = b""
    with trio.move_on_after(_REFUSAL_SECONDS), suppress(EngineError, RemoteProtocolError):
        body = await read_body(response, limit)
    reply = _error_in(body)
    if reply is None and is_success(response) and _is_json(body):
        named = response.headers.get("content-type")
        under = "without a Content-Type" if named is None else f"under the Content-Type {named[:_SHOWN]!r}"
        return Refused(status, HttpStatusError(status, f"the answer is JSON {under}; it must be {JSON_TYPE!r}"))
    if reply is None:
        return Refused(status, HttpStatusError(status, _excerpt(response, body), hint=_path_hint(status, url)))
    if status in _CREDENTIAL_STATUSES or reply.id not in {None, id, str(id)}:
        return Refused(status, HttpStatusError(status, reply.message[:_SHOWN]), body, reply.id)
    return Refused(status, ErrorResponse(reply.code, reply.message, reply.data), body, reply.id)


def _is_json(body: bytes) -> bool:
    """Return True if *body* is an object or an array in JSON."""
    try:
        value = decode(body)
    except Undecodable:
        return False
    return is_object(value) or is_array(value)


def _path_hint(status: int, url: str) -> str:
    """Return what may be wrong with the path of a URL at which the server has nothing; empty if that is unknown."""
    if status not in _NOTHING_STATUSES:
        return ""
    place = urlsplit(url)
    usual = f"is it {place.scheme}://{place.netloc}/mcp?"
    if place.path in {"", "/"}:
        return f"the URL has no path: {usual}"
    return usual if did_you_mean(place.path, ["/mcp"]) else ""


def _error_in(body: bytes) -> ErrorReply | None:
    try:
        message = parse_message(decode(body))
    except Undecodable:
        return None
    return message if isinstance(message, ErrorReply) else None


def _excerpt(response: HttpResponse, body: bytes) -> str:
    kind = media_type(response)
    if not (kind.startswith("text/") or kind.endswith("json")):
        return ""
    words = body[: 4 * _SHOWN].decode(errors="replace").split()
    return " ".join("".join(filter(str.isprintable, word)) for word in words).strip()[:_SHOWN]
