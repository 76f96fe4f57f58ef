"""What comes back over HTTP, as far as one response goes: a body within bounds, events, or a status and why."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing, suppress

import trio
from attrs import frozen

from .._errors import ErrorResponse, HttpStatusError, RemoteProtocolError
from ..wire import (
    EVENT_STREAM_TYPE,
    ErrorReply,
    RequestId,
    SseDecoder,
    SseEvent,
    SseOverflowError,
    Undecodable,
    decode,
    parse_message,
)
from ._http_client_address import redirection
from ._http_engine import EngineError, HttpResponse

__all__ = [
    "Refused",
    "is_event_stream",
    "is_success",
    "media_type",
    "read_at_most",
    "read_body",
    "read_events",
    "read_refusal",
]

_WHO_ASKS = (401, 403)
"""The statuses that are about who asks, whatever comes with them."""
_REFUSAL_SECONDS = 5.0
"""How long the body of a refusal is waited for: the status has said what matters."""
_SHOWN = 200
"""Characters of a refusal's text that the error shows."""


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
        return Refused(status, HttpStatusError(status, _text(response, body)))
    if status in _WHO_ASKS or reply.id not in {None, id}:
        return Refused(status, HttpStatusError(status, reply.message[:_SHOWN]), body)
    return Refused(status, ErrorResponse(reply.code, reply.message, reply.data), body)


def _error_in(body: bytes) -> ErrorReply | None:
    try:
        message = parse_message(decode(body))
    except Undecodable:
        return None
    return message if isinstance(message, ErrorReply) else None


def _text(response: HttpResponse, body: bytes) -> str:
    kind = media_type(response)
    if not (kind.startswith("text/") or kind.endswith("json")):
        return ""
    words = body[: 4 * _SHOWN].decode(errors="replace").split()
    return " ".join("".join(filter(str.isprintable, word)) for word in words).strip()[:_SHOWN]
