"""What the client's side of HTTP needs of a library for it: one request, a response that streams, and an early end.

The transport knows this and nothing else of HTTP/1.1, sockets and TLS, so another library takes no change of it.
"""

from __future__ import annotations

import logging
import os
import re
import ssl
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from contextvars import ContextVar
from functools import cache, lru_cache
from typing import Any, Protocol, TypeAlias
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

import httpx2
import trio
from attrs import define, field, frozen

from ..._errors import ErrorResponse, HttpStatusError, RemoteProtocolError
from ..._version import VERSION
from ...wire import (
    EVENT_STREAM_TYPE,
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
    parse_message,
)

__all__ = [
    "EngineError",
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
    """A request could not be made, or its response broke off.

    Args:
        message: what happened, for people.
        sent: False where surely nothing has reached the server, as when it could not be connected to.
    """

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class HttpResponse(Protocol):
    """The head of a response, and its body as it comes."""

    @property
    def status(self) -> int:
        """The status, 200 say."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The header fields by lower-case name; the values of repeated ones are joined with ``", "``."""
        ...

    def chunks(self) -> AsyncGenerator[bytes]:
        """Yield the body as it arrives, without its transfer encoding, but not decompressed; once.

        Close the generator with `contextlib.aclosing` where the body may not be read to its end.

        Raises:
            EngineError: the connection ended before the body did.
        """
        ...


class HttpEngine(Protocol):
    """Makes any number of requests at once; each has one response, and no redirect is followed."""

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

        Leaving it before the body has ended closes the connection: the server sees that its client has left.

        Args:
            method: in capitals.
            url: absolute, ``http`` or ``https``.
            headers: all of them but those that say how the message is framed and whom it is for.
            content: the body.
            on_sent: called synchronously when the whole request has left, which may be long before the response.

        Raises:
            EngineError: the server cannot be reached, or the connection ended before the head was there.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections that are kept for later. No request is open any more."""
        ...


# HTTP requests over httpx2. Imported when the first client opens, because the library takes its time to load.
#
# Only HTTP/1.1: over HTTP/2 httpx2 does not tell the server when a response is left early, and that is what cancels a
# request. httpx, its ancestor, is of no use here: it loses connections when responses are left early.

HttpxClient: TypeAlias = httpx2.AsyncClient
"""What users may configure and bring along."""

_TIMEOUT = httpx2.Timeout(connect=30.0, read=None, write=30.0, pool=30.0)
"""Seconds. A stream may be silent for as long as it likes; the client's own limits bound a request."""
_LIMITS = _TIMEOUT.as_dict()
_MOST_IDLE, _IDLE_SECONDS = 20, 4.0
"""Connections that nobody uses, and for how long: less than the 5 s after which many servers close them. Each costs a
look at every request."""
_LAST_CHUNKS = 100
"""How many are taken of a body that nobody reads to its end, which may have come already."""
_NOT_SENT_ERRORS = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
    httpx2.LocalProtocolError,
    httpx2.InvalidURL,
)
"""What can only happen before anything was sent."""
_is_ours = ContextVar("_is_ours", default=False)
"""Whether the request that is being made is one of this module's."""


class _WithoutQueries(logging.Filter):
    """Keeps the queries of our requests out of httpx2's log: there are keys in some, and the ids of sessions."""

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
    """Return what all clients of the process verify servers with: to read the certificates takes 20 ms."""
    return httpx2.create_ssl_context()


def new_httpx_client(*, most_idle: int = _MOST_IDLE) -> httpx2.AsyncClient:
    """Return a client made for MCP: proxies and certificates as the environment says, no HTTP/2, no redirects.

    Args:
        most_idle: how many connections are kept for later requests.
    """
    return httpx2.AsyncClient(
        verify=_trust(),
        timeout=_TIMEOUT,
        # Streams last, and what ends them must get through: so the transport bounds how many there are, not the pool.
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=most_idle, keepalive_expiry=_IDLE_SECONDS),
        headers={"user-agent": user_agent()},
        trust_env=_may_have_proxies(),
    )


def _may_have_proxies() -> bool:
    """Tell whether to have httpx2 look for proxies, which takes it a twentieth of what opening a client does."""
    return sys.platform in {"darwin", "win32"} or "_proxy" in " ".join(os.environ).lower()


@define(eq=False)
class HttpxEngine:
    """An `HttpEngine` over one `httpx2.AsyncClient`.

    Args:
        client: carries the requests. Its time limits hold, but for that on reading.
        closes: whether `aclose` closes the client: not if it is somebody else's.
        notes_address: whether somebody wants to know `reached_at`.
    """

    _client: httpx2.AsyncClient
    closes: bool = field(kw_only=True)
    notes_address: bool = field(default=False, kw_only=True)
    reached_at: str | None = field(default=None, init=False)
    """The address to which the latest request went that was answered: of the server, or of a proxy before it."""

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
        """Return a request of a client of ours: what such a client would make of it, in a quarter of the time."""
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
        """Close the client, if it is ours."""
        if self.closes:
            await self._client.aclose()


@lru_cache(maxsize=16)  # most requests go to one and the same
def _parsed(url: str) -> tuple[httpx2.URL, str]:
    """Return an address, and what it is called in the field `Host`."""
    address = httpx2.URL(url)
    return address, address.netloc.decode("ascii")


@define
class _Body(httpx2.AsyncByteStream):
    """The body of a request, which says when it has left: what is sent is asked for more only afterwards."""

    _content: bytes
    _on_sent: Callable[[], None]

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        yield self._content
        self._on_sent()


@define(eq=False)
class Sending(AbstractAsyncContextManager["SentResponse"]):
    """Sends a request by *client*, and waits for the head of its response; raises `EngineError`.

    Args:
        url: how errors name where it goes.
        build: returns the request.
        heard: called with the response.
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
        except Exception as exc:  # a client that is not ours may raise what it likes: its hooks, its authentication
            raise _engine_error(exc, self._url) from exc
        finally:
            _is_ours.reset(before)
        response = SentResponse(self._response)
        if self._heard is not None:
            self._heard(response)
        return response

    async def __aexit__(self, *_: object) -> None:
        if not self._response.is_stream_consumed:  # its body, most likely none, has nearly always come with its head
            await _end(self._response.aiter_raw())  # else httpcore2 would close a connection that can be used again
        await self._response.aclose()


class SentResponse:
    """An `HttpResponse` of httpx2's."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.headers: Mapping[str, str] = dict(response.headers.items())  # by lower-case name, joined

    def peer(self) -> str | None:
        """Return the address that it comes from; None where a transport of the user's does not tell."""
        with suppress(Exception):
            return str(self._response.extensions["network_stream"].get_extra_info("server_addr")[0])
        return None

    async def chunks(self) -> AsyncGenerator[bytes]:
        if self._response.is_stream_consumed:  # by a hook of the user's client, or because it is made up
            yield self._response.content
            return
        body, is_left = self._response.aiter_raw(), True
        try:
            async for chunk in body:
                yield chunk
            is_left = False
        except Exception as exc:  # likewise
            raise _engine_error(exc, str(self._response.url)) from exc
        finally:
            if is_left:
                await _end(body)


async def _end(body: AsyncGenerator[bytes, None]) -> None:
    """End a generator of httpx2 that may be left between two chunks, with those inside it.

    To close it would leave the inner ones to the garbage collector. Cancelled where it waits for the network, each of
    them ends. At most what has been read already comes before that, unless a transport of the user's makes it up.
    """
    with trio.CancelScope() as scope, suppress(Exception):
        scope.cancel()
        for _ in range(_LAST_CHUNKS):
            await anext(body)
        await body.aclose()


def _engine_error(exc: Exception, url: str) -> EngineError:
    if isinstance(exc, _NOT_SENT_ERRORS):
        place = url.partition("?")[0]  # what follows may be a secret
        return EngineError(f"cannot connect to {place}: {_reason(exc)}", sent=False)
    return EngineError(_reason(exc), sent=True)


def _reason(exc: Exception) -> str:
    """Return what happened; where an error has no text, its cause may."""
    cause: BaseException | None = exc
    while cause is not None and not str(cause):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        return type(exc).__name__
    return str(cause) if isinstance(cause, httpx2.HTTPError | ssl.SSLError) else f"{type(cause).__name__}: {cause}"


# Where a client may send to, and what header fields of the caller's it sends along: checked before anything leaves.
#
# An address that the other side names (an endpoint, a redirect) is one of the same origin, or it is refused: else a
# server could have the client's credentials sent anywhere, and the client's network looked around in.

_PORTS = {"http": 80, "https": 443}
_NOT_IN_URLS = re.compile(r"[\x00-\x20\x7f]")
_CREDENTIALS = re.compile(r"(?<=//)[^/?#]*@")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"(?:[!-~](?:[\t -~]*[!-~])?)?")
_PROTOCOL_FIELDS = {
    *("accept", "accept-encoding", "connection", "content-length", "content-type", "transfer-encoding"),
    *(LAST_EVENT_FIELD, METHOD_FIELD, NAME_FIELD, SESSION_FIELD, VERSION_FIELD),
}
"""What the protocol says in header fields, for which there is nothing to add."""
_SHOWN = 200
"""Characters of an address of the other side's that an error shows."""


def checked_url(url: str) -> str:
    """Return the address of a server without its fragment.

    Raises:
        ValueError: it is none of ``http`` or ``https``, or holds a password.
    """
    try:
        parts = split_url(url)
    except ValueError as exc:
        raise ValueError(f"{_CREDENTIALS.sub('', url)!r} is no address of a server: {exc}") from None
    if parts.username is not None or parts.password is not None:
        raise ValueError(
            f"the address of {parts.hostname!r} holds a user name or a password, and addresses are written to logs; "
            "send credentials in headers={'Authorization': ...}"
        )
    return urlunsplit(parts._replace(fragment=""))


def split_url(url: str) -> SplitResult:
    """Divide a complete address; raises `ValueError` with what is wrong."""
    if _NOT_IN_URLS.search(url):
        raise ValueError("it holds a space or a control character")
    parts = urlsplit(url)
    if parts.scheme not in _PORTS:
        raise ValueError("it does not begin with http:// or https://")
    if not parts.hostname:
        raise ValueError("it names no host")
    _ = parts.port  # which raises for what is no port
    return parts


def origin_of(parts: SplitResult) -> tuple[str, str | None, int]:
    """Return what must be the same for an address to be as trusted as another."""
    return parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme]


def checked_endpoint(url: str, reference: str) -> str:
    """Return the address that a server at *url* names for messages, which may be relative to its own.

    Raises:
        RemoteProtocolError: it is no address, or one of another origin.
    """
    try:
        endpoint = urljoin(url, reference)
        parts = split_url(endpoint)
    except ValueError as exc:
        raise RemoteProtocolError(f"the server names {reference[:_SHOWN]!r} as its endpoint: {exc}") from None
    if origin_of(parts) != origin_of(urlsplit(url)):
        raise RemoteProtocolError(f"the server names an endpoint of another origin, {reference[:_SHOWN]!r}: refused")
    return endpoint


def redirection(url: str, location: str) -> str:
    """Say where a redirect leads, and what to make of it; none is followed."""
    try:
        target, source = split_url(urljoin(url, location)), urlsplit(url)
    except ValueError:
        return "redirects to what is no address"
    place = f"{target.scheme}://{target.netloc.rpartition('@')[2]}{target.path}"[:_SHOWN]
    if target.hostname == source.hostname and (source.scheme, target.scheme) == ("http", "https"):
        return f"redirects to {place}: connect to the https address"
    return f"redirects to {place}; redirects are not followed: connect to that address if it is the right one"


def checked_fields(headers: Mapping[str, str]) -> dict[str, str]:
    """Return header fields of the caller's by lower-case name.

    Raises:
        ValueError: one is no header field, or the protocol's own.
    """
    fields: dict[str, str] = {}
    for name, value in headers.items():
        lower = name.lower()
        if not _TOKEN.fullmatch(name):
            raise ValueError(f"headers: {name!r} is no name of a header field")
        if lower in _PROTOCOL_FIELDS or lower.startswith(PARAM_PREFIX):
            raise ValueError(f"headers: {name!r} is a field of the protocol, which the client sets itself")
        if not _VALUE.fullmatch(value):
            raise ValueError(f"headers: the value of {name!r} holds characters that no header field may have")
        fields[lower] = value
    return fields


# What comes back over HTTP, as far as one response goes: a body within bounds, events, or a status and why.

_CREDENTIAL_STATUSES = (401, 403)
"""The statuses that are about who asks, whatever comes with them."""
_REFUSAL_SECONDS = 5.0
"""How long the body of a refusal is waited for: the status has said what matters."""


def media_type(response: HttpResponse) -> str:
    """Return what the body is said to be, in lower case and without parameters; empty where nothing is said."""
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


def is_success(response: HttpResponse) -> bool:
    """Tell whether the request was accepted."""
    return 200 <= response.status < 300


def is_event_stream(response: HttpResponse) -> bool:
    """Tell whether the body is events, of whatever request."""
    return is_success(response) and media_type(response) == EVENT_STREAM_TYPE


async def read_body(response: HttpResponse, limit: int) -> bytes:
    """Return the whole body.

    Raises:
        RemoteProtocolError: it has more than *limit* bytes, of which no more are read, or is compressed.
        EngineError: the connection ended before the body did.
    """
    body = await read_at_most(response, limit)
    if body is None:
        raise _too_long(limit)
    return body


async def read_at_most(response: HttpResponse, limit: int) -> bytes | None:
    """Return the whole body; None where it has more than *limit* bytes, of which no more are read.

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
    """Give each event to *take*, until the stream ends.

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
    # Each request says that it wants none: a small compressed body can unpack to more memory than there is.
    encoding = response.headers.get("content-encoding", "identity")
    if encoding.strip().lower() not in {"", "identity"}:
        raise RemoteProtocolError(f"the response is compressed ({encoding[:_SHOWN]!r}), which the request ruled out")


def _too_long(limit: int) -> RemoteProtocolError:
    return RemoteProtocolError(f"the server sends a message of more than {limit} bytes (Limits.max_message_bytes)")


@frozen
class Refused:
    """A response whose status is no success, or that holds no message."""

    status: int
    error: ErrorResponse | HttpStatusError
    """What it comes down to for whoever asked."""
    body: bytes = b""
    """The message that says so; empty where there is none."""


async def read_refusal(response: HttpResponse, url: str, limit: int, id: RequestId | None = None) -> Refused:
    """Read why a request was refused. An error without an id is the one of the request that the body answers.

    Args:
        url: what was requested.
        limit: bytes of the body that are read at most.
        id: of the request; None for what is none.
    """
    status = response.status
    if 300 <= status < 400 and "location" in response.headers:
        return Refused(status, HttpStatusError(status, redirection(url, response.headers["location"])))
    body = b""
    with trio.move_on_after(_REFUSAL_SECONDS), suppress(EngineError, RemoteProtocolError):
        body = await read_body(response, limit)
    reply = _error_in(body)
    if reply is None:
        return Refused(status, HttpStatusError(status, _excerpt(response, body)))
    if status in _CREDENTIAL_STATUSES or reply.id not in {None, id}:
        return Refused(status, HttpStatusError(status, reply.message[:_SHOWN]), body)
    return Refused(status, ErrorResponse(reply.code, reply.message, reply.data), body)


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
