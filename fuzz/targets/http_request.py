"""HTTP/1.1 requests: what our reader accepts is the same for any chunking, and for other readers to the same end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fuzz.http_messages import Language, stream_of
from fuzz.http_readers import Message, assert_read_alike, understood
from fuzz.source import Source
from tests.transports.http.h1.smuggled_requests import ACCEPTED_REQUESTS, REFUSED_REQUESTS
from trio_mcp.transports.http.h1 import HttpSyntaxError, RequestHead, RequestReader

_MOST_HEAD_BYTES = 512
_SHORT = 128
"""The length of a message of the corpus up to which it is spliced, so that inputs stay short."""
_LANGUAGE = Language(
    first_lines=(
        *(
            b"POST / HTTP/1.1\r\nhost: a\r\n",
            b"GET /a?b=c HTTP/1.1\r\nHost: a:1\r\n",
            b"POST http://b/ HTTP/1.1\r\nhost: a\r\n",
        ),
        *(
            b"POST / HTTP/1.0\r\n",
            b"OPTIONS * HTTP/1.1\r\nhost: a\r\n",
            b"HEAD //a HTTP/1.1\r\nhost:\r\n",
            b"PUT http://b?c HTTP/1.0\r\n",
        ),
        *(b"POST / HTTP/1.0\r\nconnection: keep-alive\r\n", b"\r\nDELETE / HTTP/1.1\r\nhost: [::1]:8\r\n"),
    ),
    corpus=[
        data
        for data in [*(each.data for each in ACCEPTED_REQUESTS), *(each.data for each in REFUSED_REQUESTS)]
        if len(data) <= _SHORT
    ],
)


class _Read(NamedTuple):
    """A request as far as our reader has read it; the places are those in the stream."""

    begin: int
    stop: int
    """The end of the request, or of what has been read if it is incomplete."""
    is_complete: bool
    first: tuple[str, str]
    fields: list[tuple[str, str]]
    body: bytes
    is_last: bool


class _Found(NamedTuple):
    requests: list[_Read]
    """The requests; the last one may be incomplete."""
    is_refused: bool
    """True if what follows the requests is none."""


def target(data: bytes) -> None:
    """Read a stream of requests as a whole, in pieces, and each request with other readers."""
    source = Source(data)
    cuts = Source(source.take(source.below(32)))
    stream = stream_of(source, _LANGUAGE)
    found = _read([stream])
    assert _read(cuts.cut(stream)) == found, "the chunking changes the requests"
    for each in found.requests:
        begin = each.begin
        while stream.startswith(b"\r\n", begin):  # h11 does not ignore empty lines
            begin += 2
        end = each.stop - begin if each.is_complete else None
        message = Message(each.first, understood(each.fields), each.body, end, goes_on=not each.is_last)
        assert_read_alike("request", stream[begin : None if each.is_complete else each.stop], message)


def _read(pieces: Sequence[bytes]) -> _Found:
    """Read requests up to the first one that is refused, or incomplete, or the last of its connection."""
    requests: list[_Read] = []
    reader, body, begin, given = RequestReader(_MOST_HEAD_BYTES), b"", 0, 0
    try:
        for piece in filter(None, pieces):
            data = piece
            given += len(piece)
            while data:
                reader.feed(data)
                body += b"".join(reader.take_body())
                if not reader.is_complete or reader.head is None:
                    break
                requests.append(_request(reader, reader.head, body, begin, given))
                if reader.head.is_last:
                    return _Found(requests, is_refused=False)
                begin, data = given - len(reader.surplus), reader.surplus
                reader, body = RequestReader(_MOST_HEAD_BYTES), b""
            if reader.starts_http2:
                return _Found(requests, is_refused=True)
    except HttpSyntaxError:
        return _Found(requests, is_refused=True)
    if reader.head is not None:
        requests.append(_request(reader, reader.head, body, begin, given))
    return _Found(requests, is_refused=False)


def _request(reader: RequestReader, head: RequestHead, body: bytes, begin: int, given: int) -> _Read:
    # The begin of a line of a chunked body has not been read: it may still be refused.
    unread = 0 if reader._chunks is None else len(reader._chunks._unread)
    stop = given - (len(reader.surplus) if reader.is_complete else unread)
    first = (head.method, head.target)
    return _Read(begin, stop, reader.is_complete, first, [*head.fields], body, head.is_last)
