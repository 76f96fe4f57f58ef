"""The reader of responses: what it reads, byte by byte and at once, and what it refuses."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from trio_mcp.transports.http.h1 import HttpSyntaxError, ResponseReader

OK = b"HTTP/1.1 200 OK\r\n"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\na: b\r\n\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"


def read(*parts: bytes, has_body: bool = True) -> tuple[ResponseReader, bytes]:
    """Return the reader after it has read the parts, and the body."""
    reader, body = ResponseReader(has_body=has_body), b""
    for part in parts:
        reader.feed(part)
        body += b"".join(reader.take_body())
    return reader, body


def one_by_one(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


WHOLE: Sequence[tuple[bytes, int, bytes, bool]] = [
    (OK + b"Content-Length: 3\r\n\r\nabc", 200, b"abc", False),
    (OK + b"content-length:3 \t\r\n\r\nabc", 200, b"abc", False),
    (OK + b"content-length: 0\r\n\r\n", 200, b"", False),
    (b"HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n", 200, b"", False),
    (b"HTTP/1.1 404 \xfcber\r\ncontent-length: 0\r\n\r\n", 404, b"", False),
    (OK + b"connection: x, Close\r\ncontent-length: 0\r\n\r\n", 200, b"", True),
    (b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n", 200, b"", True),
    (b"HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\ncontent-length: 1\r\n\r\na", 200, b"a", False),
    (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", False),
    (b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n", 204, b"", False),
    (b"HTTP/1.1 204 No Content\r\ncontent-length: 3\r\n\r\n", 204, b"", True),
    (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 3\r\n\r\n", 304, b"", False),
    (b"HTTP/1.1 304 Not Modified\r\ntransfer-encoding: chunked\r\n\r\n", 304, b"", True),
    (INTERIM + OK + b"content-length: 1\r\n\r\na", 200, b"a", False),
    (CHUNKED + b"0\r\n\r\n", 200, b"", False),
    (CHUNKED + b'3\r\nabc\r\n00a;x="y"\r\n0123456789\r\n0\r\nt: v\r\n\r\n', 200, b"abc0123456789", False),
    (OK + b"Transfer-Encoding: Chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", 200, b"a", False),
]  # fmt: skip


@pytest.mark.parametrize(("data", "status", "body", "is_last"), WHOLE)
def test_a_response_is_read_at_once_and_byte_by_byte(data: bytes, status: int, body: bytes, is_last: bool) -> None:
    for parts in ([data], one_by_one(data)):
        reader, found = read(*parts)
        assert reader.head is not None
        assert (reader.head.status, found, reader.is_complete, reader.is_last) == (status, body, True, is_last)


def test_the_fields_of_the_head_have_lower_case_names_and_trailers_are_no_fields() -> None:
    reader, _ = read(OK + b"X-A: 1\r\nTransfer-Encoding: chunked\r\nx-a:\t2, 3 \r\nEmpty:\r\n\r\n0\r\nX-A: 4\r\n\r\n")

    assert reader.head is not None
    expected = [("x-a", "1"), ("transfer-encoding", "chunked"), ("x-a", "2, 3"), ("empty", "")]
    assert reader.head.fields == expected


def test_a_response_without_framing_lasts_until_the_connection_ends() -> None:
    reader, body = read(OK + b"\r\n", b"ab", b"cd")
    assert (body, reader.is_complete, reader.is_last) == (b"abcd", False, True)

    reader.feed(b"")
    assert reader.is_complete


def test_the_response_to_a_head_request_has_no_body() -> None:
    reader, body = read(OK + b"content-length: 3\r\n\r\n", has_body=False)

    assert (body, reader.is_complete, reader.is_last) == (b"", True, False)


@pytest.mark.parametrize(
    "data",
    [
        OK + b"content-length: 3\r\n\r\nabc",
        CHUNKED + b"3\r\nabc\r\n0\r\n\r\n",
        OK + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
    ],
)
@pytest.mark.parametrize("surplus", [b"x", OK + b"content-length: 5\r\n\r\nother", b"HTTP/1.1 200 OK\r\n\r\nother"])
@pytest.mark.parametrize("is_apart", [False, True])
def test_what_follows_a_response_is_not_part_of_it_and_ends_the_use_of_the_connection(
    data: bytes, surplus: bytes, is_apart: bool
) -> None:
    reader, body = read(data, surplus) if is_apart else read(data + surplus)

    assert (body, reader.is_complete, reader.is_last) == (b"abc" if b"abc" in data else b"", True, True)


MALFORMED: Sequence[bytes] = [
    b"ICY 200 OK\r\n\r\n",
    b"HTTP/2.0 200 OK\r\n\r\n",
    b"HTTP/1.2 200 OK\r\n\r\n",
    b"HTTP/1.1 20 OK\r\n\r\n",
    b"HTTP/1.1 099 OK\r\n\r\n",
    b"HTTP/1.1  200 OK\r\n\r\n",
    b"http/1.1 200 OK\r\n\r\n",
    b"\r\nHTTP/1.1 200 OK\r\n\r\n",
    b"HTTP/1.1 200 O\x00K\r\n\r\n",
    b"HTTP/1.1 200 OK\nx: y\r\n\r\n",
    OK + b"x: y\nz: w\r\n\r\n",
    OK + b"x: y\rz: w\r\n\r\n",
    OK + b"x: y\r\n z\r\n\r\n",
    OK + b" x: y\r\n\r\n",
    OK + b"x : y\r\n\r\n",
    OK + b"x\r\n\r\n",
    OK + b": y\r\n\r\n",
    OK + b"x y: z\r\n\r\n",
    OK + b"x: \x00\r\n\r\n",
    OK + b"x: \x7f\r\n\r\n",
    OK + b"content-length: 1\r\ncontent-length: 1\r\n\r\na",
    OK + b"content-length: 1, 1\r\n\r\na",
    OK + b"content-length: +1\r\n\r\na",
    OK + b"content-length: -1\r\n\r\na",
    OK + b"content-length: 0x1\r\n\r\na",
    OK + b"content-length: 01\r\n\r\na",
    OK + b"content-length: 1 1\r\n\r\na",
    OK + b"content-length:\r\n\r\na",
    OK + b"content-length: \xb2\r\n\r\na",
    OK + b"content-length: 9999999999999999999\r\n\r\na",
    OK + b"content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    OK + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    OK + b"transfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    OK + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    OK + b"transfer-encoding: identity\r\n\r\na",
    OK + b"transfer-encoding: xchunked\r\n\r\na",
    OK + b"transfer-encoding:\r\n\r\na",
    OK + b"transfer-encoding: chunked\t\r\n\r\n1\r\na\r\n0\r\n\r\n",
    OK + b"x: y\r\nTransfer-Encoding: chunked \r\n\r\n1\r\na\r\n0\r\n\r\n",
    b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    b"HTTP/1.1 101 Switching\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\ncontent-length: 3\r\n\r\nabc",
    b"HTTP/1.1 100 Continue\r\n\r\n" * 17,
    CHUNKED + b"3\nabc\r\n0\r\n\r\n",
    CHUNKED + b"3\r\nabc0\r\n\r\n",
    CHUNKED + b"3\r\nabcd\r\n0\r\n\r\n",
    CHUNKED + b"g\r\n",
    CHUNKED + b"-1\r\n",
    CHUNKED + b"+1\r\na\r\n0\r\n\r\n",
    CHUNKED + b"0x1\r\na\r\n0\r\n\r\n",
    CHUNKED + b"\r\n",
    CHUNKED + b"fffffffffffffffff\r\n",
    CHUNKED + b"0\r\nx y: z\r\n\r\n",
    CHUNKED + b"1;" + b"x" * 70_000 + b"\r\na\r\n",
    CHUNKED + b"0\r\n" + b"t: v\r\n" * 20_000,
    OK + b"x: " + b"y" * 65_536 + b"\r\n\r\n",
    OK + b"x: " + b"y" * 65_536,
]


@pytest.mark.parametrize("data", MALFORMED)
def test_what_two_readers_could_understand_differently_is_refused(data: bytes) -> None:
    with pytest.raises(HttpSyntaxError):
        read(data)
    if len(data) < 1000:
        with pytest.raises(HttpSyntaxError):
            read(*one_by_one(data))


def test_a_head_of_the_maximum_size_is_read() -> None:
    head = OK + b"content-length: 0\r\nx: "
    data = head + b"y" * (65_536 - len(head)) + b"\r\n\r\n"

    for parts in ([data], [data[:-1], data[-1:]]):
        reader, _ = read(*parts)
        assert reader.is_complete


@pytest.mark.parametrize(
    "data", [b"", b"HTTP/1.1 200 OK\r\n", OK + b"content-length: 3\r\n\r\nab", CHUNKED, CHUNKED + b"3\r\nabc\r\n"]
)
def test_a_response_that_is_cut_off_is_refused(data: bytes) -> None:
    reader = ResponseReader()
    if data:
        reader.feed(data)

    with pytest.raises(HttpSyntaxError, match="the connection ended before the response did"):
        reader.feed(b"")


def test_many_small_chunks_are_read() -> None:
    _, body = read(CHUNKED + b"1\r\na\r\n" * 50_000 + b"0\r\n\r\n")

    assert body == b"a" * 50_000
