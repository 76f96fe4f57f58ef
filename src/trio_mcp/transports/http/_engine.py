"""The interface of a client's HTTP engine, and the rules of its users: addresses, header fields, bodies and refusals.

The transport knows only `HttpEngine`. `_http1_engine` has the default one, and `_httpx_engine` that over httpx2.

Rules of this file:

1. An address that the server names (an endpoint, a redirect) must have the same origin, or it is refused. Otherwise a
   server could have the client's credentials sent anywhere, and have it probe its own network. Of the redirects within
   an origin, those that keep the method and the body (307, 308) are followed.
2. Addresses and header fields are checked before anything is sent; bodies are read within bounds.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from functools import lru_cache
from types import TracebackType
from typing import Protocol
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

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
    "Place",
    "Refused",
    "cannot_connect",
    "checked_endpoint",
    "checked_fields",
    "checked_url",
    "is_event_stream",
    "is_success",
    "may_have_proxies",
    "media_type",
    "origin_of",
    "place_of",
    "read_at_most",
    "read_body",
    "read_events",
    "read_refusal",
    "reason_of",
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


def user_agent() -> str:
    """Return the `User-Agent` of the client's requests."""
    return f"trio-mcp/{VERSION}"


def may_have_proxies() -> bool:
    """Return True if the environment may name proxies; this check takes a twentieth of the time of a real lookup."""
    return sys.platform in {"darwin", "win32"} or "_proxy" in " ".join(os.environ).lower()


def cannot_connect(exc: Exception, url: str, reason: str) -> EngineError:
    """Return the error of a connection that could not be made."""
    place = url.partition("?")[0]  # the query may hold a secret
    return EngineError(f"cannot connect to {place}: {reason}{_cure(exc, url)}", sent=False)


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


def reason_of(exc: Exception, *, self_explanatory: tuple[type[Exception], ...] = ()) -> str:
    """Return what happened; if an error has no message, that of its cause.

    Args:
        self_explanatory: the classes of errors whose messages need no name of the class.
    """
    cause: BaseException | None = exc
    while cause is not None and not str(cause):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        return type(exc).__name__
    return str(cause) if isinstance(cause, (ssl.SSLError, *self_explanatory)) else f"{type(cause).__name__}: {cause}"


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


_HOST = r"(?:[a-z0-9_-]+\.)*[a-z_][a-z0-9_-]*|(?:(?:0|[1-9][0-9]{0,2})\.){3}(?:0|[1-9][0-9]{0,2})|\[[0-9a-f:.]+\]"
_CHARACTERS = r"[A-Za-z0-9._~!$&'()*+,;=:@%/-]"
_PLAIN_URL = re.compile(
    rf"https?://(?:{_HOST})(?::[1-9][0-9]*)?(?![^?]*/\.\.?(?:[/?]|$))(?:/{_CHARACTERS}*)?(?:\?(?:{_CHARACTERS}|\?)*)?"
)
"""The URLs that need no normalization: in ASCII, with the host in lower case, and without the segments . and .. in the
path."""


@frozen
class Place:
    """The place of a URL, as a request needs it, in ASCII."""

    url: str
    """The normalized URL."""
    is_encrypted: bool
    host: str
    """The name or the address to connect to."""
    port: int
    authority: str
    """The value of the field ``Host``."""
    target: str
    """The path, with the query."""


@lru_cache(maxsize=64)  # most requests go to the same URL
def place_of(url: str) -> Place:
    """Return the place of an absolute ``http`` or ``https`` URL.

    Raises:
        ValueError: there is no such place; the message says why.
    """
    parts = urlsplit(url)
    if parts.netloc != parts.netloc.lower() or parts.port == _PORTS[parts.scheme]:
        parts = parts._replace(netloc=parts.netloc.lower().removesuffix(f":{_PORTS[parts.scheme]}"))
        url = urlunsplit(parts)
    if _PLAIN_URL.fullmatch(url) is None:
        url = _normalized(url)
        parts = urlsplit(url)
    assert parts.hostname is not None
    target = (parts.path or "/") + (f"?{parts.query}" if "?" in url.partition("#")[0] else "")
    authority = parts.netloc.rpartition("@")[2]
    port = parts.port or _PORTS[parts.scheme]
    return Place(url, parts.scheme == "https", parts.hostname, port, authority, target)


def _normalized(url: str) -> str:
    import httpx2  # noqa: PLC0415 # most URLs are plain

    try:
        return str(httpx2.URL(url))
    except httpx2.InvalidURL as exc:
        raise ValueError(str(exc)) from None


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
    origin, path = f"{place.scheme}://{place.netloc}", place.path.rstrip("/")
    usual = f"is it {origin}/mcp?"
    if path == "/mcp":
        return f"if the server is mounted at {path}, its endpoint is {origin}{path}/mcp"
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
