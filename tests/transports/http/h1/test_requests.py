"""The reader of requests: what it reads, byte by byte and at once, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from trio_mcp.transports.http.h1 import HttpSyntaxError, RequestHead, RequestReader

MOST = 4096
GET = b"GET /a?b=c HTTP/1.1\r\nhost: a.test\r\n"
POST = b"POST / HTTP/1.1\r\nhost: a.test\r\n"


def one_by_one(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


def read(parts: Iterable[bytes]) -> tuple[RequestReader, bytes]:
    """Return the reader after it has read the parts, and the body."""
    reader, body = RequestReader(MOST), b""
    for part in parts:
        reader.feed(part)
        body += b"".join(reader.take_body())
    return reader, body


def head_of(data: bytes) -> RequestHead:
    reader, _ = read([data])
    assert reader.head is not None
    return reader.head


@pytest.mark.parametrize(
    ("data", "body"),
    [
        (GET + b"\r\n", b""),
        (b"\r\n" + GET + b"\r\n", b""),
        (POST + b"content-length: 0\r\n\r\n", b""),
        (POST + b"Content-Length:\t3 \r\n\r\nabc", b"abc"),
        (POST + b"Transfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n1;x\r\nd\r\n0\r\nt: u\r\n\r\n", b"abcd"),
        (b"GET / HTTP/1.0\r\n\r\n", b""),
        (b"POST / HTTP/1.0\r\ncontent-length: 1\r\n\r\na", b"a"),
    ],
)
@pytest.mark.parametrize("surplus", [b"", b"x", GET + b"\r\n"])
def test_a_request_is_read_at_once_and_byte_by_byte_and_what_follows_is_kept(
    data: bytes, body: bytes, surplus: bytes
) -> None:
    whole, found = read([data + surplus])
    assert (found, whole.is_complete, whole.surplus) == (body, True, surplus)

    pieces, found = read(one_by_one(data))
    assert (found, pieces.is_complete, pieces.surplus) == (body, True, b"")
    assert whole.head is not None
    assert pieces.head is not None
    assert pieces.head.fields == whole.head.fields


def test_the_parts_of_a_head_are_told() -> None:
    head = head_of(
        b"pOST /a%20b?c=d HTTP/1.1\r\nHost: a.test:1\r\nX-A: 1\r\nx-a:\t2, 3 \r\nEmpty:\r\n\r\n".replace(b"pO", b"PO")
    )

    assert (head.method, head.target, head.version, head.is_last) == ("POST", "/a%20b?c=d", "1.1", False)
    assert head.fields == [("host", "a.test:1"), ("x-a", "1"), ("x-a", "2, 3"), ("empty", "")]


@pytest.mark.parametrize(
    ("data", "is_last"),
    [
        (GET, False),
        (GET + b"connection: x, Close\r\n", True),
        (GET + b"connection: keep-alive\r\n", False),
        (b"GET / HTTP/1.0\r\n", True),
        (b"GET / HTTP/1.0\r\nconnection: Keep-Alive\r\n", False),
    ],
)
def test_the_client_decides_if_the_connection_is_kept(data: bytes, is_last: bool) -> None:
    assert head_of(data + b"\r\n").is_last is is_last


@pytest.mark.parametrize(
    ("data", "expects"),
    [
        (POST + b"expect: 100-Continue\r\ncontent-length: 3\r\n", True),
        (POST + b"expect: 100-continue\r\ntransfer-encoding: chunked\r\n", True),
        (POST + b"expect: 100-continue\r\n", False),
        (b"POST / HTTP/1.0\r\nexpect: 100-continue\r\ncontent-length: 3\r\n", False),
        (POST + b"content-length: 3\r\n", False),
    ],
)
def test_a_client_that_waits_with_its_body_is_recognized(data: bytes, expects: bool) -> None:
    assert head_of(data + b"\r\n").expects_continue is expects


@pytest.mark.parametrize(
    ("target", "expected", "host"),
    [
        (b"/", "/", "other.test"),
        (b"*", "*", "other.test"),
        (b"//a", "//a", "other.test"),
        (b"http://a.test", "/", "a.test"),
        (b"HTTPS://a.test:8/b?c", "/b?c", "a.test:8"),
        (b"http://[::1]?c", "/?c", "[::1]"),
    ],
)
def test_the_host_of_a_whole_url_counts(target: bytes, expected: str, host: str) -> None:
    head = head_of(b"OPTIONS " + target + b" HTTP/1.1\r\nx: y\r\nhost: other.test\r\n\r\n")

    assert head.target == expected
    assert [value for name, value in head.fields if name == "host"] == [host]


SMUGGLED = [
    b"DESCRIBE / HTTP/1.1\r\nhost: a.test\r\n\r\n",  # of another protocol, says llhttp
    POST + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n",
    POST + b"transfer-encoding: chunked\r\ncontent-length: 0\r\n\r\n",
    POST + b"content-length: 3\r\ncontent-length: 3\r\n\r\n",
    POST + b"content-length: 3\r\ncontent-length: 4\r\n\r\n",
    POST + b"content-length: 3, 3\r\n\r\n",
    POST + b"content-length: +3\r\n\r\n",
    POST + b"content-length: -3\r\n\r\n",
    POST + b"content-length: 0x3\r\n\r\n",
    POST + b"content-length: 3 3\r\n\r\n",
    POST + b"content-length: \r\n\r\n",
    POST + b"content-length: 1_0\r\n\r\n",
    POST + b"content-length: 010\r\n\r\n",
    POST + b"content-length: \xb2\r\n\r\n",
    POST + b"content-length: 9999999999999999999\r\n\r\n",
    POST + b"content-length : 3\r\n\r\n",
    POST + b"content-length\t: 3\r\n\r\n",
    POST + b"content-length: 3\n\r\n\r\n",
    POST + b"content-length: 3\r\r\n\r\n",
    POST + b"\rcontent-length: 3\r\n\r\n",
    POST + b" content-length: 3\r\n\r\n",
    POST + b"x: y\r\n content-length: 3\r\n\r\n",
    POST + b"x: y\ncontent-length: 3\r\n\r\n",
    POST + b"x: y\rcontent-length: 3\r\n\r\n",
    POST + b"x: y\x00content-length: 3\r\n\r\n",
    POST + b"x: y\x0bz\r\n\r\n",
    POST + b"x\x00: y\r\n\r\n",
    POST + b"x\xff: y\r\n\r\n",
    POST + b": y\r\n\r\n",
    POST + b"x\r\n\r\n",
    POST + b"x y: z\r\n\r\n",
    POST + b"(x): y\r\n\r\n",
    POST + b"transfer-encoding : chunked\r\n\r\n",
    POST + b"transfer-encoding:\x0bchunked\r\n\r\n",
    POST + b"transfer-encoding: chunked\n\r\n\r\n",
    POST + b"host: b.test\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: a test\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: a.test/b\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: a.test, b.test\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: a.test,b.test\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: u@a.test\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: a.test:80:81\r\n\r\n",
    b"GET http:///a HTTP/1.1\r\nhost: a.test\r\n\r\n",
    b"GET http://u@b.test/ HTTP/1.1\r\nhost: a.test\r\n\r\n",
    b"GET ftp://a.test/ HTTP/1.1\r\nhost: a.test\r\n\r\n",
    b"GET a.test:80 HTTP/1.1\r\nhost: a.test\r\n\r\n",
    b"GET  / HTTP/1.1\r\nhost: a.test\r\n\r\n",
    b"GET /  HTTP/1.1\r\nhost: a.test\r\n\r\n",
    b"GET\t/ HTTP/1.1\r\nhost: a.test\r\n\r\n",
    b" GET / HTTP/1.1\r\nhost: a.test\r\n\r\n",
    b"GET /a b HTTP/1.1\r\nhost: a.test\r\n\r\n",
    b"GET /\xe4 HTTP/1.1\r\nhost: a.test\r\n\r\n",
    b"GET /a#b HTTP/1.1\r\nhost: a.test\r\n\r\n",
    b"GET /\x7f HTTP/1.1\r\nhost: a.test\r\n\r\n",
    b"GET / HTTP/1.1 \r\nhost: a.test\r\n\r\n",
    b"GET / http/1.1\r\nhost: a.test\r\n\r\n",
    b"GET / HTTP/01.1\r\nhost: a.test\r\n\r\n",
    b"GET / HTTP/1.1\nhost: a.test\r\n\r\n",
    b"GET /\r\nhost: a.test\r\n\r\n",
    b"GET / HTTP/1.0\r\nhost: a.test\r\nhost: a.test\r\n\r\n",
    b"POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n",
    b"\n\r\nGET / HTTP/1.1\r\nhost: a.test\r\n\r\n",
    b"\r\n" * 20 + GET + b"\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
]
"""Requests that a proxy could read otherwise, in the manner of the public lists of request smuggling."""


@pytest.mark.parametrize("data", SMUGGLED)
def test_a_request_that_another_reader_could_read_otherwise_is_refused(data: bytes) -> None:
    for parts in ([data + b"abc"], one_by_one(data + b"abc")):
        with pytest.raises(HttpSyntaxError) as refused:
            read(parts)
        assert refused.value.status == 400


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (POST + b"transfer-encoding: gzip\r\n\r\n", 501),
        (POST + b"transfer-encoding: chunked, chunked\r\n\r\n", 501),
        (POST + b"transfer-encoding: xchunked\r\n\r\n", 501),
        (POST + b"transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n", 501),
        (POST + b"transfer-encoding: \r\n\r\n", 501),
        (POST + b"expect: gold\r\n\r\n", 417),
        (b"BREW / HTTP/1.1\r\nhost: a.test\r\n\r\n", 501),
        (b"get / HTTP/1.1\r\nhost: a.test\r\n\r\n", 501),
        (b"PRI / HTTP/1.1\r\nhost: a.test\r\n\r\n", 501),
        (b"PRI * HTTP/1.0\r\n\r\n", 501),  # llhttp waits for HTTP/2
        (b"CONNECT a.test:80 HTTP/1.1\r\nhost: a.test\r\n\r\n", 501),
        (b"CONNECT / HTTP/1.1\r\nhost: a.test\r\ncontent-length: 3\r\n\r\nabc", 501),  # llhttp: a tunnel follows
        (b"GET / HTTP/2.0\r\nhost: a.test\r\n\r\n", 505),
        (b"GET / HTTP/1.2\r\nhost: a.test\r\n\r\n", 505),
        (GET + b"x: " + b"y" * MOST + b"\r\n\r\n", 431),
        (GET + b"x: " + b"y" * MOST, 431),
        (b"G" * (MOST + 4), 431),
    ],
)
def test_what_is_refused_for_another_reason_has_its_status(data: bytes, status: int) -> None:
    with pytest.raises(HttpSyntaxError) as refused:
        read([data])

    assert refused.value.status == status


def test_a_head_of_the_maximum_size_is_read() -> None:
    data = GET + b"x: " + b"y" * (MOST - len(GET) - 3) + b"\r\n\r\n"

    for parts in ([data], one_by_one(data)):
        reader, _ = read(parts)
        assert reader.is_complete


def test_the_quote_of_a_malformed_head_is_short() -> None:
    with pytest.raises(HttpSyntaxError) as refused:
        read([b"G" * 1000 + b"\r\n\r\n"])

    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("begin", [b"\x16", b"\x16\x03\x01\x02", b"\x00", b" ", b"\n", b"{", b"\r\n\x16"])
def test_what_cannot_begin_a_request_is_refused_before_more_arrives(begin: bytes) -> None:
    with pytest.raises(HttpSyntaxError, match="not a request of HTTP"):
        read([begin])


@pytest.mark.parametrize(
    ("data", "has_part"), [(b"", False), (b"\r\n", False), (b"G", True), (GET, True), (GET + b"\r\n", False)]
)
def test_a_part_of_a_head_is_noticed(data: bytes, has_part: bool) -> None:
    reader, _ = read([data])

    assert reader.has_part_of_head is has_part


def test_the_begin_of_http2_is_no_request() -> None:
    reader, _ = read([b"PRI * HTTP/2.0\r\n", b"\r\nSM\r\n\r\n"])

    assert reader.starts_http2
    assert (reader.head, reader.surplus) == (None, b"SM\r\n\r\n")
    assert not RequestReader(MOST).starts_http2


def test_an_upgrade_is_a_request_like_any_other() -> None:
    reader, _ = read([GET + b"connection: upgrade\r\nupgrade: websocket\r\n\r\nframes"])

    assert reader.is_complete
    assert reader.surplus == b"frames"
