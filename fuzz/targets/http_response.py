"""HTTP/1.1 responses: a response that our reader accepts is the same for any chunking, and for another reader, h11."""

from __future__ import annotations

from typing import NamedTuple

import h11

from fuzz.source import Source
from trio_mcp.transports.http.h1 import HttpSyntaxError, ResponseReader

_WORDS: tuple[bytes, ...] = (
    *(b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 200 OK\r\n", b"HTTP/1.1 204 \r\n", b"HTTP/1.1 304\r\n", b"\r\n", b"\r\n\r\n"),
    *(b"HTTP/1.1 100 Continue\r\n", b"HTTP/1.1 101 Switching\r\n", b"HTTP/1.1 ", b"HTTP/", b"\r", b"\n", b" ", b"\t"),
    *(
        b"content-length: 0\r\n",
        b"content-length: 3\r\n",
        b"Content-Length:3 \r\n",
        b"content-length",
        b": ",
        b":",
        b",",
    ),
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
    *(b"connection: close\r\n", b"connection: keep-alive\r\n", b"x: y\r\n", b"x:\r\n", b"x : y\r\n", b" folded\r\n"),
    *(b": ", b":", b",", b"abc"),
    *(b"\0", b"\x7f", b"\x80", b"\xff", b"\x0b", b"-1", b"+1", b"0x1", b"00", b"9999999999999999999", b"1, 1"),
)


class _Found(NamedTuple):
    status: int
    fields: list[tuple[str, str]]
    body: bytes


def target(data: bytes) -> None:
    """Read a stream as a whole, in pieces, and with h11."""
    source = Source(data)
    cuts = Source(source.take(source.below(32)))
    parts: list[bytes] = []
    if source.below(4):  # most random beginnings are refused at once
        parts += [source.choose(_WORDS[:4]), source.choose(_WORDS), b"\r\n"]
    while not source.used_up:
        parts.append(source.binary(8) if source.below(4) == 0 else source.choose(_WORDS))
    stream = b"".join(parts)
    ours = _read([stream])
    assert _read(cuts.cut(stream)) == ours, "the chunking changes the response"
    if ours is not None:
        theirs = _read_with_h11(stream)
        assert theirs is None or theirs == ours, "another reader reads another response"


def _read(pieces: list[bytes]) -> _Found | None:
    reader, body = ResponseReader(), b""
    try:
        for piece in [*filter(None, pieces), b""]:
            reader.feed(piece)
            body += b"".join(reader.take_body())
    except HttpSyntaxError:
        return None
    assert reader.head is not None
    assert reader.is_complete
    # h11 writes the transfer coding in lower case.
    fields = [(name, value.lower() if name == "transfer-encoding" else value) for name, value in reader.head.fields]
    return _Found(reader.head.status, fields, body)


def _read_with_h11(stream: bytes) -> _Found | None:
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="GET", target="/", headers=[("host", "a")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(stream)
    connection.receive_data(b"")
    head: h11.Response | None = None
    body = b""
    try:
        while not isinstance(event := connection.next_event(), h11.EndOfMessage):
            if isinstance(event, h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif not isinstance(event, h11.InformationalResponse):
                return None
    except h11.RemoteProtocolError:
        return None
    assert head is not None
    return _Found(head.status_code, [(name.decode(), value.decode("latin-1")) for name, value in head.headers], body)
