"""HTTP/1.1 responses: what our reader accepts is the same for any chunking, and for other readers to the same end."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from fuzz.http_messages import Language, stream_of
from fuzz.http_readers import Message, assert_read_alike, understood
from fuzz.source import Source
from tests.transports.http.h1.smuggled_responses import ACCEPTED_RESPONSES, REFUSED_RESPONSES
from trio_mcp.transports.http.h1 import HttpSyntaxError, ResponseReader

_SHORT = 128
"""The length of a message of the corpus up to which it is spliced, so that inputs stay short."""
_LANGUAGE = Language(
    first_lines=(
        *(
            b"HTTP/1.1 200 OK\r\n",
            b"HTTP/1.1 404\r\n",
            b"HTTP/1.0 200 OK\r\n",
            b"HTTP/1.1 204 \r\n",
            b"HTTP/1.1 304 \r\n",
        ),
        *(b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\n", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"),
        *(
            b"HTTP/1.1 103 Early\r\nx: y\r\n\r\nHTTP/1.1 500 \xe4\r\n",
            b"HTTP/1.1 199 \r\n",
            b"HTTP/1.1 205 \r\n",
            b"HTTP/1.1 101 \r\n",
        ),
    ),
    corpus=[
        data
        for data in [*(each.data for each in ACCEPTED_RESPONSES), *(each.data for each in REFUSED_RESPONSES)]
        if len(data) <= _SHORT
    ],
)


class _Read(NamedTuple):
    """The response as our reader has read it."""

    status: int
    fields: list[tuple[str, str]]
    body: bytes
    is_complete: bool
    """True if it ends before the connection does."""
    is_last: bool


def target(data: bytes) -> None:
    """Read a stream that begins with a response as a whole, in pieces, and with other readers."""
    source = Source(data)
    has_body = source.below(8) != 7
    cuts = Source(source.take(source.below(32)))
    stream = stream_of(source, _LANGUAGE)
    ours = _read([stream], has_body=has_body)
    assert _read(cuts.cut(stream), has_body=has_body) == ours, "the chunking changes the response"
    if ours is None:
        return
    end = None
    if ours.is_complete:
        is_whole = partial(_is_whole, stream, has_body=has_body)
        end = bisect_left(range(len(stream) + 1), True, key=is_whole)
    message = Message(ours.status, understood(ours.fields), ours.body, end, goes_on=not ours.is_last)
    assert_read_alike("response", stream, message, has_body=has_body)


def _is_whole(stream: bytes, size: int, *, has_body: bool) -> bool:
    reader = ResponseReader(has_body=has_body)
    if size:
        reader.feed(stream[:size])
    return reader.is_complete


def _read(pieces: Sequence[bytes], *, has_body: bool) -> _Read | None:
    """Return the response; None if it is refused."""
    reader, body = ResponseReader(has_body=has_body), b""
    try:
        for piece in filter(None, pieces):
            reader.feed(piece)
            body += b"".join(reader.take_body())
        is_complete, is_last = reader.is_complete, reader.is_last
        reader.feed(b"")
    except HttpSyntaxError:
        return None
    assert reader.head is not None
    assert reader.is_complete
    return _Read(reader.head.status, [*reader.head.fields], body, is_complete, is_last)
