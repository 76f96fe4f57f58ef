"""HTTP/1.1 requests: what our reader accepts is the same for any chunking, and for another reader, h11."""

from __future__ import annotations

from typing import NamedTuple

import h11

from fuzz.source import Source
from trio_mcp.transports.http.h1 import HttpSyntaxError, RequestReader

_MOST_HEAD_BYTES = 2**14
_WORDS: tuple[bytes, ...] = (
    *(b"GET / HTTP/1.1\r\n", b"POST /a?b=c HTTP/1.1\r\n", b"POST / HTTP/1.0\r\n", b"OPTIONS * HTTP/1.1\r\n"),
    *(b"host: a\r\n", b"Host:a:1 \r\n", b"\r\n", b"\r\n\r\n", b"\r", b"\n", b" ", b"\t", b"HTTP/1.1", b"GET /"),
    *(b"content-length: 0\r\n", b"content-length: 3\r\n", b"Content-Length:3 \r\n", b"content-length", b"3, 3"),
    *(b"transfer-encoding: chunked\r\n", b"Transfer-Encoding: CHUNKED\r\n", b"transfer-encoding: gzip\r\n", b"chunked"),
    *(
        b"0\r\n\r\n",
        b"3\r\nabc\r\n",
        b"3;x=y\r\nabc\r\n",
        b"a\r\n0123456789\r\n",
        b"0\r\nx: y\r\n\r\n",
        b"0\r\n",
        b"abc",
    ),
    *(b"connection: close\r\n", b"connection: keep-alive\r\n", b"expect: 100-continue\r\n", b"upgrade: websocket\r\n"),
    *(b"x: y\r\n", b"x:\r\n", b"x : y\r\n", b" folded\r\n", b": ", b":", b",", b"http://b/", b"PRI * HTTP/2.0\r\n"),
    *(b"\0", b"\x7f", b"\x80", b"\xff", b"\x0b", b"-1", b"+1", b"0x1", b"00", b"9999999999999999999", b"1, 1"),
)


class _Found(NamedTuple):
    method: str
    target: str
    fields: list[tuple[str, str]]
    body: bytes


def target(data: bytes) -> None:
    """Read a stream of requests as a whole, in pieces, and with h11."""
    source = Source(data)
    cuts = Source(source.take(source.below(32)))
    parts: list[bytes] = []
    for _ in range(source.below(4)):  # most random beginnings are refused at once
        parts += [source.choose(_WORDS[:4]), b"host: a\r\n", source.choose(_WORDS), b"\r\n", source.choose(_WORDS)]
    while not source.used_up:
        parts.append(source.binary(8) if source.below(4) == 0 else source.choose(_WORDS))
    stream = b"".join(parts)
    ours = _read([stream])
    assert _read(cuts.cut(stream)) == ours, "the chunking changes the requests"
    for our, their in zip(ours, _read_with_h11(stream), strict=False):
        assert our == their, "another reader reads another request"


def _read(pieces: list[bytes]) -> list[_Found]:
    """Return the requests before the first one that is refused, or incomplete, or the last of its connection."""
    found: list[_Found] = []
    reader, body = RequestReader(_MOST_HEAD_BYTES), b""
    try:
        for piece in filter(None, pieces):
            data = piece
            while data:
                reader.feed(data)
                body += b"".join(reader.take_body())
                if not reader.is_complete:
                    break
                if reader.head is None:
                    return found
                head, data = reader.head, reader.surplus
                # h11 writes the transfer coding in lower case.
                fields = [
                    (name, value.lower() if name == "transfer-encoding" else value) for name, value in head.fields
                ]
                found.append(_Found(head.method, head.target, fields, body))
                if head.is_last:
                    return found
                reader, body = RequestReader(_MOST_HEAD_BYTES), b""
    except HttpSyntaxError:
        pass
    return found


def _read_with_h11(stream: bytes) -> list[_Found]:
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(stream)
    connection.receive_data(b"")
    found: list[_Found] = []
    head: h11.Request | None = None
    body = b""
    try:
        while connection.their_state not in {h11.MUST_CLOSE, h11.CLOSED, h11.ERROR}:
            event = connection.next_event()
            if isinstance(event, h11.Request):
                head, body = event, b""
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                assert head is not None
                found.append(_found(head, body))
                connection.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
                connection.send(h11.EndOfMessage())
                connection.start_next_cycle()
            else:
                break
    except h11.ProtocolError:
        pass
    return found


def _found(head: h11.Request, body: bytes) -> _Found:
    fields = [(name.decode(), value.decode("latin-1")) for name, value in head.headers]
    target = head.target.decode("latin-1")
    if target.startswith("http://b/"):  # our reader takes the host from a whole URL
        target = target.removeprefix("http://b")
        fields = [("host", "b"), *(each for each in fields if each[0] != "host")]
    return _Found(head.method.decode(), target, fields, body)
