"""The corpus of response smuggling for the role of the client: whole responses; see `smuggling`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tests.transports.http.h1 import smuggling
from tests.transports.http.h1.smuggling import Refused

__all__ = ["ACCEPTED_RESPONSES", "CUT_RESPONSES", "REFUSED_RESPONSES", "AcceptedResponse"]


class AcceptedResponse(NamedTuple):
    """A response that has exactly one reading."""

    origin: str
    trick: str
    data: bytes
    status: int
    body: bytes
    is_last: bool = False
    """True if the connection must not be used again."""
    has_body: bool = True
    """False if it answers a HEAD."""


_OK = b"HTTP/1.1 200 OK\r\n"
_LENGTH = b"Content-Length: 3\r\n\r\nabc"
_CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
_CHUNKS = b"3\r\nabc\r\n0\r\n\r\n"
_HIDDEN = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhidden"
_INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"


def _line(line: bytes) -> bytes:
    return line + b"\r\n" + _LENGTH


_FIRST_LINES: Iterable[tuple[str, str, bytes]] = [
    ("llhttp", "a letter less in the protocol", _line(b"HTP/1.1 200 OK")),
    ("RFC 9112", "another protocol", _line(b"ICY 200 OK")),
    ("RFC 9112", "a lower-case name of the protocol", _line(b"http/1.1 200 OK")),
    ("llhttp", "the version 01.1", _line(b"HTTP/01.1 200 OK")),
    ("llhttp", "the version 11.1", _line(b"HTTP/11.1 200 OK")),
    ("llhttp", "the version 1.01", _line(b"HTTP/1.01 200 OK")),
    ("RFC 9112", "the version 1.10", _line(b"HTTP/1.10 200 OK")),
    ("RFC 9112", "the version 1.2", _line(b"HTTP/1.2 200 OK")),
    ("RFC 9112", "the version 0.9", _line(b"HTTP/0.9 200 OK")),
    ("RFC 9112", "the version 2.0", _line(b"HTTP/2.0 200 OK")),
    ("RFC 9112", "the version 2", _line(b"HTTP/2 200 OK")),
    ("llhttp", "the version 5.6", _line(b"HTTP/5.6 200 OK")),
    ("llhttp", "a tab after the version", _line(b"HTTP/1.1\t200 OK")),
    ("llhttp", "two spaces after the version", _line(b"HTTP/1.1  200 OK")),
    ("RFC 9112", "no space after the version", _line(b"HTTP/1.1200 OK")),
    ("RFC 9112", "a space before the line", _line(b" HTTP/1.1 200 OK")),
    ("RFC 9112", "an empty line before the line", b"\r\n" + _line(b"HTTP/1.1 200 OK")),
    ("llhttp", "a carriage return before the line", b"\r" + _line(b"HTTP/1.1 200 OK")),
    ("RFC 9112", "a line feed before the line", b"\n" + _line(b"HTTP/1.1 200 OK")),
    ("RFC 9112", "a mark of the byte order before the line", b"\xef\xbb\xbf" + _line(b"HTTP/1.1 200 OK")),
    ("llhttp", "a status of one digit", _line(b"HTTP/1.1 2 OK")),
    ("RFC 9112", "a status of two digits", _line(b"HTTP/1.1 20 OK")),
    ("RFC 9112", "a status of four digits", _line(b"HTTP/1.1 2000 OK")),
    ("RFC 9112", "a status that begins with zero", _line(b"HTTP/1.1 020 OK")),
    ("RFC 9112", "a status with a plus", _line(b"HTTP/1.1 +20 OK")),
    ("RFC 9112", "a status with an underscore", _line(b"HTTP/1.1 2_0 OK")),
    ("RFC 9112", "a status that is no number", _line(b"HTTP/1.1 abc OK")),
    ("RFC 9112", "a status of digits beyond ASCII", _line("HTTP/1.1 \uff12\uff10\uff10 OK".encode())),
    ("RFC 9112", "no status", _line(b"HTTP/1.1 OK")),
    ("RFC 9112", "nothing after the version", _line(b"HTTP/1.1")),
    ("RFC 9112", "a tab after the status", _line(b"HTTP/1.1 200\tOK")),
    ("RFC 9112", "a letter after the status", _line(b"HTTP/1.1 200OK")),
    ("h11", "zero in the reason", _line(b"HTTP/1.1 200 OK\x00xxxx")),
    ("RFC 9112", "a deleted character in the reason", _line(b"HTTP/1.1 200 O\x7fK")),
    ("llhttp", "a field in the reason, after a carriage return", _line(b"HTTP/1.1 200 OK\rContent-Length: 0")),
    ("llhttp", "a field in the reason, after two carriage returns", _line(b"HTTP/1.1 200 OK\r\rContent-Length: 0")),
    ("RFC 9112", "a field in the reason, after a line feed", _line(b"HTTP/1.1 200 OK\nContent-Length: 0")),
    ("llhttp", "line feeds alone", b"HTTP/1.1 200 OK\nContent-Length: 0\n\n"),
    ("h11", "a line feed after a field", b"HTTP/1.1 200 OK\r\na: b\n\r\n"),
    ("RFC 9112", "a carriage return ends the line", b"HTTP/1.1 200 OK\rContent-Length: 0\r\n\r\n"),
    ("llhttp", "a space before the first field", b"HTTP/1.1 200 OK\r\n Host: foo\r\n\r\n"),
    ("HTTP/0.9", "a body alone", b"<html>hello</html>\r\n\r\n"),
    ("RFC 9112", "a request instead of a response", b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"),
    ("h11", "the begin of TLS", b"\x16\x03\x03\x001\r\n\r\n"),
]

_FIRST_RESPONSES: Iterable[tuple[str, str, bytes]] = [
    ("RFC 9112", "chunks in HTTP/1.0", b"HTTP/1.0 200 OK\r\n" + _CHUNKED + _CHUNKS),
    ("RFC 9112", "both framings in HTTP/1.0", b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n" + _CHUNKED + b"abc"),
    ("http.client", "a space after the coding", _OK + b"Transfer-Encoding: chunked \r\n\r\n" + _CHUNKS),
    ("RFC 9110", "an interim response with a body", b"HTTP/1.1 100 Continue\r\n" + _LENGTH + _HIDDEN),
    ("RFC 9110", "an interim response with the length 0", b"HTTP/1.1 103 Early\r\nContent-Length: 0\r\n\r\n" + _HIDDEN),
    ("RFC 9110", "an interim response with chunks", b"HTTP/1.1 102 Processing\r\n" + _CHUNKED + _CHUNKS + _HIDDEN),
    (
        "RFC 9110",
        "an interim response with both",
        b"HTTP/1.1 100 Continue\r\nContent-Length: 3\r\n" + _CHUNKED + _CHUNKS,
    ),
    ("RFC 9110", "an interim response with bytes after it", _INTERIM + b"abc" + _HIDDEN),
    ("RFC 9110", "an interim response with an empty line after it", _INTERIM + b"\r\n" + _HIDDEN),
    ("RFC 9110", "many interim responses", 17 * _INTERIM + _HIDDEN),
    (
        "llhttp",
        "an upgrade that nobody asked for",
        b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\nproto",
    ),
    (
        "llhttp",
        "an upgrade with a length",
        b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: h2c\r\n" + _LENGTH,
    ),
    (
        "llhttp",
        "an upgrade with chunks",
        b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: h2c\r\n" + _CHUNKED + _CHUNKS,
    ),
    ("h11", "an upgrade that names no protocol", b"HTTP/1.1 101 Upgrade\r\n\r\n"),
    (
        "http-request-smuggler",
        "a malformed length after an interim response",
        _INTERIM + _OK + b"Content-Length: +3\r\n\r\nabc",
    ),
]

REFUSED_RESPONSES: list[Refused] = [
    *(Refused(origin, f"first line: {trick}", data) for origin, trick, data in _FIRST_LINES),
    *(Refused(origin, f"first response: {trick}", data) for origin, trick, data in _FIRST_RESPONSES),
    *(each._replace(data=_OK + each.data) for each in smuggling.REFUSED),
    *(
        each._replace(trick=f"{each.trick}, in an error", data=b"HTTP/1.1 404 \r\n" + each.data)
        for each in smuggling.REFUSED
        if each.origin != "smuggler"
    ),
]
"""The responses that a client must refuse."""

CUT_RESPONSES: list[Refused] = [
    Refused("RFC 9112", f"cut off {where}", data)
    for where, data in [
        ("before its first byte", b""),
        ("in its first line", b"HTTP/1.1 200"),
        ("after its first line", _OK),
        ("in a field", _OK + b"Content-Length: 3"),
        ("before the empty line", _OK + b"Content-Length: 3\r\n"),
        ("in the empty line", _OK + b"Content-Length: 3\r\n\r"),
        ("after an interim response", _INTERIM),
        ("before its body", _OK + b"Content-Length: 3\r\n\r\n"),
        ("in its body", _OK + b"Content-Length: 3\r\n\r\nab"),
        ("before its first chunk", _OK + _CHUNKED),
        ("in the size of a chunk", _OK + _CHUNKED + b"3"),
        ("after the size of a chunk", _OK + _CHUNKED + b"3\r\n"),
        ("in a chunk", _OK + _CHUNKED + b"3\r\nab"),
        ("after the data of a chunk", _OK + _CHUNKED + b"3\r\nabc"),
        ("after a chunk", _OK + _CHUNKED + b"3\r\nabc\r\n"),
        ("in the last chunk", _OK + _CHUNKED + b"3\r\nabc\r\n0"),
        ("after the last chunk", _OK + _CHUNKED + b"3\r\nabc\r\n0\r\n"),
        ("in the last line end", _OK + _CHUNKED + b"3\r\nabc\r\n0\r\n\r"),
        ("in a trailer", _OK + _CHUNKED + b"0\r\na: b"),
        ("after a trailer", _OK + _CHUNKED + b"0\r\na: b\r\n"),
    ]
]
"""The responses that are refused when the connection ends."""


def _accepted(
    origin: str,
    trick: str,
    data: bytes,
    *,
    status: int = 200,
    body: bytes = b"",
    is_last: bool = False,
    has_body: bool = True,
) -> AcceptedResponse:
    return AcceptedResponse(origin, trick, data, status, body, is_last, has_body)


ACCEPTED_RESPONSES: list[AcceptedResponse] = [
    _accepted("RFC 9112", "no reason", _line(b"HTTP/1.1 200 "), body=b"abc"),
    _accepted("h11", "no reason and no space", _line(b"HTTP/1.1 200"), body=b"abc"),
    _accepted("llhttp", "two spaces before the reason", _line(b"HTTP/1.1 200  OK"), body=b"abc"),
    _accepted("llhttp", "a reason beyond ASCII", _line(b"HTTP/1.1 200 \xd6K"), body=b"abc"),
    _accepted("RFC 9110", "an unknown status", _line(b"HTTP/1.1 299 What"), status=299, body=b"abc"),
    _accepted(
        "llhttp", "no content, and a response", b"HTTP/1.1 204 No Content\r\n\r\n" + _HIDDEN, status=204, is_last=True
    ),
    _accepted("RFC 9110", "no content, and a length", _line(b"HTTP/1.1 204 No Content"), status=204, is_last=True),
    _accepted(
        "RFC 9110",
        "no content, and chunks",
        b"HTTP/1.1 204 No Content\r\n" + _CHUNKED + _CHUNKS,
        status=204,
        is_last=True,
    ),
    _accepted(
        "llhttp", "not modified, and a length", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n", status=304
    ),
    _accepted(
        "llhttp",
        "not modified, and a response",
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n" + _HIDDEN,
        status=304,
        is_last=True,
    ),
    _accepted(
        "llhttp", "not modified, and chunks", b"HTTP/1.1 304 Not Modified\r\n" + _CHUNKED, status=304, is_last=True
    ),
    _accepted("RFC 9110", "the length of a HEAD", _OK + b"Content-Length: 3\r\n\r\n", has_body=False),
    _accepted("http-request-smuggler", "the body of a HEAD", _OK + _LENGTH, is_last=True, has_body=False),
    _accepted("http-request-smuggler", "the chunks of a HEAD", _OK + _CHUNKED, is_last=True, has_body=False),
    _accepted("llhttp", "an interim response", _INTERIM + _line(b"HTTP/1.1 404 Not Found"), status=404, body=b"abc"),
    _accepted(
        "llhttp",
        "an interim response with fields",
        b"HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\n" + _OK + _LENGTH,
        body=b"abc",
    ),
    _accepted("RFC 9110", "sixteen interim responses", 16 * _INTERIM + _OK + _LENGTH, body=b"abc"),
    _accepted("llhttp", "two responses", _OK + _LENGTH + _HIDDEN, body=b"abc", is_last=True),
    _accepted(
        "llhttp", "two responses, the first in chunks", _OK + _CHUNKED + _CHUNKS + _HIDDEN, body=b"abc", is_last=True
    ),
    _accepted(
        "RFC 9112", "an interim response after the final one", _OK + _LENGTH + _INTERIM, body=b"abc", is_last=True
    ),
    _accepted("RFC 9112", "a line end after the body", _OK + _LENGTH + b"\r\n", body=b"abc", is_last=True),
    _accepted("llhttp", "no framing, and a response", _OK + b"\r\n" + _HIDDEN, body=_HIDDEN, is_last=True),
    _accepted(
        "llhttp",
        "no framing in HTTP/1.0 that goes on",
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n" + _HIDDEN,
        body=_HIDDEN,
        is_last=True,
    ),
    _accepted("llhttp", "HTTP/1.0 closes", _line(b"HTTP/1.0 200 OK"), body=b"abc", is_last=True),
    _accepted(
        "llhttp", "HTTP/1.0 that goes on", b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n" + _LENGTH, body=b"abc"
    ),
    _accepted(
        "llhttp",
        "it closes, and more follows",
        _OK + b"Connection: close\r\n" + _LENGTH + b"more",
        body=b"abc",
        is_last=True,
    ),
    _accepted("llhttp", "another name of Connection", _OK + b"Proxy-Connection: close\r\n" + _LENGTH, body=b"abc"),
    _accepted(
        "llhttp",
        "an upgrade in a final response",
        _OK + b"Connection: upgrade\r\nUpgrade: h2c\r\n" + _LENGTH,
        body=b"abc",
    ),
    *(
        _accepted(each.origin, each.trick, _OK + each.data, body=each.body, is_last=bool(each.surplus))
        for each in smuggling.ACCEPTED
    ),
]
"""The responses that look like a trick, and have one reading."""
