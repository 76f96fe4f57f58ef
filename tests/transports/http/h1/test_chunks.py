"""The chunked transfer coding: what it reads, byte by byte and at once, and what it refuses."""

from __future__ import annotations

import pytest

from trio_mcp.transports.http.h1 import LAST_CHUNK, ChunkedBody, HttpSyntaxError, chunk


def one_by_one(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


@pytest.mark.parametrize(
    ("data", "body"),
    [
        (LAST_CHUNK, b""),
        (chunk(b"abc") + chunk(b"0123456789abcdef") + LAST_CHUNK, b"abc0123456789abcdef"),
        (b"3\r\n\r\n\r\r\n000\r\n\r\n", b"\r\n\r"),
        (b"003;name=value\r\nabc\r\n0;x\r\n\r\n", b"abc"),
        (b'3 \t; a="b c"\r\nabc\r\n0\r\nTrailer: one\r\nother:\r\n\r\n', b"abc"),
        (b'3;a="\\"\\\\;\xe4" ;b = c\r\nabc\r\n0\r\n\r\n', b"abc"),
        (b"A\r\n0123456789\r\n0\r\n\r\n", b"0123456789"),
    ],
)
@pytest.mark.parametrize("surplus", [b"", b"x", b"\r\n", b"GET / HTTP/1.1\r\n\r\n"])
def test_a_body_is_read_at_once_and_byte_by_byte_up_to_its_end(data: bytes, body: bytes, surplus: bytes) -> None:
    at_once, in_bytes = ChunkedBody(), ChunkedBody()

    assert b"".join(at_once.feed(data + surplus)) == body
    assert (at_once.is_complete, at_once.surplus) == (True, surplus)
    assert b"".join(part for byte in one_by_one(data) for part in in_bytes.feed(byte)) == body
    assert (in_bytes.is_complete, in_bytes.surplus) == (True, b"")


@pytest.mark.parametrize(
    "data",
    [
        b"\r\n",
        b"g\r\n",
        b"-1\r\n",
        b"+1\r\n",
        b"0x1\r\n",
        b" 1\r\n",
        b"1 \r\n",
        b"1_0\r\n",
        b"1\n",
        b"1000000000000000\r\n",
        b"3\r\nabcd\r\n",
        b"3\r\nabc\n\r\n",
        b"3\r\nabc0\r\n\r\n",
        b"3\r\nabc\rx",
        b"3\rabc\r\n0\r\n\r\n",
        b"3;a\x00b\r\nabc\r\n",
        b"3;a\nb\r\nabc\r\n",
        b"3;\r\nabc\r\n",
        b"3;a;;b\r\nabc\r\n",
        b"3;a=\r\nabc\r\n",
        b"3;a=b=c\r\nabc\r\n",
        b"3;a b\r\nabc\r\n",
        b"3;a ;\r\nabc\r\n",
        b'3;a="b\r\nabc\r\n',  # the quote could go on in the next line
        b'3;a="b\\"\r\nabc\r\n',
        b'3;a="b"c\r\nabc\r\n',
        b"0\r\ntrailer\r\n\r\n",
        b"0\r\n folded: x\r\n\r\n",
        b"0\r\na : b\r\n\r\n",
        b"0\r\na: b\nc: d\r\n\r\n",
    ],
)
def test_what_another_reader_could_read_otherwise_is_refused(data: bytes) -> None:
    for parts in ([data + b"\r\n" * 2], one_by_one(data + b"\r\n" * 2)):
        body = ChunkedBody()
        with pytest.raises(HttpSyntaxError):
            for part in parts:
                body.feed(part)


@pytest.mark.parametrize("data", [b"1", b"0" * 5000, b"1;" + b"x" * 5000, b"0\r\nt: " + b"x" * 5000])
def test_a_line_is_bounded(data: bytes) -> None:
    body = ChunkedBody()
    if len(data) < 4096:
        body.feed(data)
        assert not body.is_complete
    else:
        with pytest.raises(HttpSyntaxError, match="no end"):
            body.feed(data)


@pytest.mark.parametrize("line", [b"1;" + b"x" * 4000 + b"\r\na\r\n", b"0\r\n" + b"t: x\r\n" * 20_000])
def test_what_a_body_has_beside_its_data_is_bounded(line: bytes) -> None:
    body = ChunkedBody()
    with pytest.raises(HttpSyntaxError, match="too much beside its data"):
        for _ in range(100):
            body.feed(line)


def test_many_small_chunks_are_read() -> None:
    assert b"".join(ChunkedBody().feed(b"1\r\na\r\n" * 50_000)) == b"a" * 50_000
