"""The corpus of request smuggling for the role of the server: whole requests; see `smuggling`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tests.transports.http.h1 import smuggling
from tests.transports.http.h1.smuggling import Refused

__all__ = ["ACCEPTED_REQUESTS", "REFUSED_REQUESTS", "AcceptedRequest"]


class AcceptedRequest(NamedTuple):
    """A request that has exactly one reading."""

    origin: str
    trick: str
    data: bytes
    method: str
    target: str
    host: str
    body: bytes
    surplus: bytes = b""
    """What follows the request, and is no part of it."""
    is_last: bool = False
    """True if no other request may follow it."""


_HOST = b"Host: a.test\r\n"
_POST = b"POST / HTTP/1.1\r\n"
_LENGTH = b"Content-Length: 3\r\n\r\nabc"


def _line(line: bytes) -> bytes:
    return line + b"\r\n" + _HOST + b"\r\n"


def _hosts(lines: bytes) -> bytes:
    return b"GET / HTTP/1.1\r\n" + lines + b"\r\n"


_FIRST_LINES: Iterable[tuple[str, str, bytes, int]] = [
    ("RFC 9112", "two spaces after the method", _line(b"GET  / HTTP/1.1"), 400),
    ("RFC 9112", "two spaces before the version", _line(b"GET /  HTTP/1.1"), 400),
    ("RFC 9112", "a tab after the method", _line(b"GET\t/ HTTP/1.1"), 400),
    ("RFC 9112", "a tab before the version", _line(b"GET /\tHTTP/1.1"), 400),
    ("RFC 9112", "a space after the version", _line(b"GET / HTTP/1.1 "), 400),
    ("RFC 9112", "a space before the method", _line(b" GET / HTTP/1.1"), 400),
    ("RFC 9112", "a vertical tab between the words", _line(b"GET\x0b/\x0bHTTP/1.1"), 400),
    ("RFC 9112", "a form feed between the words", _line(b"GET\x0c/\x0cHTTP/1.1"), 400),
    ("RFC 9112", "carriage returns between the words", _line(b"GET\r/\rHTTP/1.1"), 400),
    ("HTTP Garden", "a line feed between the words", _line(b"GET /\nHTTP/1.1"), 400),
    ("h11", "words after the version", _line(b"HEAD /foo HTTP/1.1 xxxxxx"), 400),
    ("HTTP Garden", "two requests in one line", _line(b"GET / HTTP/1.1 GET /hidden HTTP/1.1"), 400),
    ("CVE-2019-16785 (Waitress)", "a line feed ends the line", b"GET / HTTP/1.1\n" + _HOST + b"\r\n", 400),
    ("RFC 9112", "a carriage return ends the line", b"GET / HTTP/1.1\r" + _HOST + b"\r\n", 400),
    ("RFC 9112", "two carriage returns end the line", b"GET / HTTP/1.1\r\r\n" + _HOST + b"\r\n", 400),
    ("llhttp", "line feeds alone", b"GET / HTTP/1.1\nHost: a.test\n\n", 400),
    (
        "llhttp",
        "line feeds alone, and chunks",
        _POST.replace(b"\r", b"") + b"Host: a.test\nTransfer-Encoding: chunked\n\n1\na\n0\n\n",
        400,
    ),
    ("RFC 9112", "carriage returns alone", b"GET / HTTP/1.1\rHost: a.test\r\r", 400),
    ("HTTP/0.9", "no version", _line(b"GET /"), 400),
    ("HTTP/0.9", "no version and no field", b"GET /\r\n\r\n", 400),
    ("HTTP/0.9", "no version, and a space", _line(b"GET / "), 400),
    ("RFC 9112", "no target", _line(b"GET HTTP/1.1"), 400),
    ("RFC 9112", "an empty target", _line(b"GET  HTTP/1.1"), 400),
    ("RFC 9112", "no method", _line(b"/ HTTP/1.1"), 400),
    ("RFC 9112", "a lower-case name of the protocol", _line(b"GET / http/1.1"), 400),
    ("RFC 9112", "another name of the protocol", _line(b"GET / HTTPS/1.1"), 400),
    ("llhttp", "the protocol ICE", _line(b"GET /music ICE/1.0"), 400),
    ("llhttp", "a letter before the protocol", _line(b"GET /music IHTTP/1.0"), 400),
    ("llhttp", "the protocol RTSP", _line(b"PUT /music RTSP/1.0"), 400),
    ("llhttp", "a method of RTSP", _line(b"ANNOUNCE /music HTTP/1.0"), 400),
    ("RFC 9112", "a space in the version", _line(b"GET / HTTP/ 1.1"), 400),
    ("HTTP Garden", "carriage returns in the version", _line(b"GET / HTTP/\r\r1.1"), 400),
    ("HTTP Garden", "a version of more digits", _line(b"GET / HTTP/1.32"), 400),
    ("RFC 9112", "the version 1.10", _line(b"GET / HTTP/1.10"), 400),
    ("RFC 9112", "the version 01.1", _line(b"GET / HTTP/01.1"), 400),
    ("RFC 9112", "the version 1,1", _line(b"GET / HTTP/1,1"), 400),
    ("RFC 9112", "the version 1", _line(b"GET / HTTP/1"), 400),
    ("CVE-2023-49081 (aiohttp)", "a version that is no number", _line(b"GET / HTTP/1.x"), 400),
    ("HTTP Garden", "a version that overflows", _line(b"GET / HTTP/4294967297.257"), 400),
    ("HTTP Garden", "a version of dots", b"\x00 / HTTP/....0596.7407.\r\n\r\n", 400),
    ("RFC 9112", "the version 0.9", _line(b"GET / HTTP/0.9"), 505),
    ("RFC 9112", "the version 1.2", _line(b"GET / HTTP/1.2"), 505),
    ("RFC 9112", "the version 2.0", _line(b"GET / HTTP/2.0"), 505),
    ("llhttp", "the version 5.6", _line(b"GET / HTTP/5.6"), 505),
    ("HTTP Garden", "a method that begins with another", _line(b'G=":<>(e),[T];?" /get HTTP/1.1'), 400),
    ("llhttp", "an unknown method", _line(b"MKCOLA / HTTP/1.1"), 501),
    ("http-request-smuggler", "a method with a letter before it", _line(b"GPOST / HTTP/1.1"), 501),
    ("RFC 9112", "a method in lower case", _line(b"get / HTTP/1.1"), 501),
    ("CVE-2023-49082 (aiohttp)", "a line end in the method", b"GET / HTTP/1.1\r\n" + _line(b"GET / HTTP/1.1"), 400),
    ("RFC 9112", "a method beyond ASCII", _line(b"G\xcbT / HTTP/1.1"), 400),
    ("RFC 9112", "a method with a colon", _line(b"GET: / HTTP/1.1"), 400),
    ("HTTP/2", "the preface without its rest", _line(b"PRI * HTTP/2.0"), 505),
    ("HTTP/2", "the method of the preface", _line(b"PRI * HTTP/1.1"), 501),
    ("HTTP/2", "the method of the preface in HTTP/1.0", b"PRI * HTTP/1.0\r\n\r\n", 501),
    ("RFC 9110", "CONNECT of a host", _line(b"CONNECT a.test:80 HTTP/1.1"), 501),
    ("RFC 9110", "CONNECT of a path, and a body", b"CONNECT / HTTP/1.1\r\n" + _HOST + _LENGTH, 501),
    (
        "RFC 9110",
        "CONNECT of a URL, and chunks",
        b"CONNECT http://a.test/ HTTP/1.1\r\n" + _HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        501,
    ),
    ("http-request-smuggler", "a host and no URL", _line(b"GET @other.test/ HTTP/1.1"), 400),
    ("HTTP Garden", "a target that is none", _line(b"GET ! HTTP/1.1"), 400),
    ("RFC 9112", "a target without a slash", _line(b"GET a HTTP/1.1"), 400),
    ("RFC 9112", "a host and a port", _line(b"GET a.test:80 HTTP/1.1"), 400),
    ("RFC 9112", "another scheme", _line(b"GET ftp://a.test/ HTTP/1.1"), 400),
    ("RFC 9112", "a URL without a host", _line(b"GET http:///a HTTP/1.1"), 400),
    ("RFC 9112", "a URL with one slash", _line(b"GET http:/a.test HTTP/1.1"), 400),
    ("RFC 9110", "a URL with a user", _line(b"GET http://a.test@other.test/ HTTP/1.1"), 400),
    ("RFC 9112", "a URL with a backslash", _line(b"GET http://a.test\\@other.test/ HTTP/1.1"), 400),
    ("RFC 9112", "a URL with a list of hosts", _line(b"GET http://a.test,other.test/ HTTP/1.1"), 400),
    ("Http11Probe", "a fragment", _line(b"GET /a#b HTTP/1.1"), 400),
    ("RFC 9112", "a fragment after a URL", _line(b"GET http://a.test/a#b HTTP/1.1"), 400),
    ("RFC 9112", "a fragment instead of a path", _line(b"GET http://a.test#@other.test/ HTTP/1.1"), 400),
    ("h11", "zero in the target", _line(b"GET /\x00 HTTP/1.1"), 400),
    ("h11", "a space in the target", _line(b"GET /a b HTTP/1.1"), 400),
    ("h11", "a deleted character in the target", _line(b"GET /\x7f HTTP/1.1"), 400),
    ("h11", "a target beyond ASCII", _line(b"GET /\xee HTTP/1.1"), 400),
    ("RFC 9112", "a carriage return in the target", _line(b"GET /a\rb HTTP/1.1"), 400),
    ("RFC 9112", "a tab in the target", _line(b"GET /a\tb HTTP/1.1"), 400),
    ("RFC 9112", "a carriage return before the line", b"\r" + _line(b"GET / HTTP/1.1"), 400),
    ("RFC 9112", "a line feed before the line", b"\n" + _line(b"GET / HTTP/1.1"), 400),
    ("RFC 9112", "a space before the line", b"\r\n " + _line(b"GET / HTTP/1.1"), 400),
    ("RFC 9112", "a mark of the byte order before the line", b"\xef\xbb\xbf" + _line(b"GET / HTTP/1.1"), 400),
    ("RFC 9112", "many empty lines before the line", 20 * b"\r\n" + _line(b"GET / HTTP/1.1"), 400),
    ("h11", "the begin of TLS", b"\x16\x03\x01\x00\xa5\r\n\r\n", 400),
    ("h11", "gibberish", b"gibberish\r\n\r\n", 400),
    ("HTTP Garden", "the rest of chunks", b"0\r\n\r\n", 400),
    ("Http11Probe", "a response instead of a request", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 400),
]

_FIRST_FIELDS: Iterable[tuple[str, str, bytes, int]] = [
    ("RFC 9112", "a folded line without a field", _POST + b" " + _HOST + _LENGTH, 400),
    ("llhttp", "a space before Host", b"GET / HTTP/1.1\r\n Host: a.test\r\n\r\n", 400),
    ("HTTP Garden", "a tab before the length", _POST + b"\tContent-Length: 3\r\n" + _HOST + b"\r\nabc", 400),
    ("smuggler", "a folded coding", _POST + b" Transfer-Encoding: chunked\r\n" + _HOST + b"\r\n0\r\n\r\n", 400),
    ("http-request-smuggler", "a malformed length", b"GET / HTTP/1.1\r\nContent-Length: Z\r\n" + _HOST + b"\r\n", 400),
    (
        "RFC 9112",
        "chunks in HTTP/1.0",
        b"POST / HTTP/1.0\r\n" + _HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    (
        "RFC 9112",
        "chunks in HTTP/1.0 that go on",
        b"POST / HTTP/1.0\r\n" + _HOST + b"Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    (
        "RFC 9112",
        "both framings in HTTP/1.0",
        b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc",
        400,
    ),
    ("RFC 9112", "an unknown coding in HTTP/1.0", b"POST / HTTP/1.0\r\nTransfer-Encoding: identity\r\n\r\n", 400),
    (
        "http-request-smuggler",
        "an expectation after a word",
        _POST + _HOST + b"Expect: x 100-continue\r\n" + _LENGTH,
        417,
    ),
    (
        "http-request-smuggler",
        "an expectation before a word",
        _POST + _HOST + b"Expect: 100-continue x\r\n" + _LENGTH,
        417,
    ),
    ("http-request-smuggler", "two expectations", _POST + _HOST + 2 * b"Expect: 100-continue\r\n" + _LENGTH, 417),
    ("http-request-smuggler", "an expectation in quotes", _POST + _HOST + b'Expect: "100-continue"\r\n' + _LENGTH, 417),
    ("http-request-smuggler", "a folded expectation", _POST + _HOST + b"Expect:\r\n 100-continue\r\n" + _LENGTH, 400),
    ("http-request-smuggler", "an empty expectation", _POST + _HOST + b"Expect:\r\n" + _LENGTH, 417),
    ("llhttp", "a carriage return in Connection", _POST + _HOST + b"Connection: keep\ralive\r\n\r\n", 400),
    ("llhttp", "a corrupted Connection", _POST + _HOST + b"Connection\r\x1b5\xd5eep-Alive\r\n\r\n", 400),
    ("llhttp", "a folded Connection", _POST + _HOST + b"Connection: a,\r\n upgrade\r\nUpgrade: websocket\r\n\r\n", 400),
    ("llhttp", "a space before the colon of Connection", _POST + _HOST + b"Connection : upgrade\r\n" + _LENGTH, 400),
]

_MALFORMED_HOSTS: Iterable[tuple[str, str, bytes]] = [
    ("RFC 9112", "no host", b""),
    ("RFC 9112", "two equal hosts", 2 * _HOST),
    ("RFC 9112", "two hosts", _HOST + b"Host: other.test\r\n"),
    ("RFC 9112", "two hosts between other fields", _HOST + b"a: b\r\nhOST: other.test\r\n"),
    ("RFC 9112", "an empty host, and another", b"Host:\r\n" + _HOST),
    ("Http11Probe", "a list of hosts", b"Host: a.test,other.test\r\n"),
    ("Http11Probe", "a list of hosts with a space", b"Host: a.test, other.test\r\n"),
    ("http-request-smuggler", "a path", b"Host: a.test/b\r\n"),
    ("RFC 9110", "a user", b"Host: a.test@other.test\r\n"),
    ("RFC 9112", "a space", b"Host: a test\r\n"),
    ("RFC 9112", "a tab", b"Host: a.test\tother.test\r\n"),
    ("RFC 9112", "a scheme", b"Host: http://a.test\r\n"),
    ("RFC 9112", "a query", b"Host: a.test?b\r\n"),
    ("RFC 9112", "a fragment", b"Host: a.test#b\r\n"),
    ("RFC 9112", "a backslash", b"Host: a.test\\other.test\r\n"),
    ("RFC 9112", "two ports", b"Host: a.test:80:81\r\n"),
    ("RFC 9112", "a port that is no number", b"Host: a.test:x\r\n"),
    ("RFC 9112", "a port and a host", b"Host: a.test:80@other.test\r\n"),
    ("RFC 9112", "an address without its end", b"Host: [::1\r\n"),
    ("RFC 9112", "an address without its begin", b"Host: ::1\r\n"),
    ("RFC 9112", "an address and a host", b"Host: [::1]other.test\r\n"),
    ("RFC 9112", "quotes", b'Host: "a.test"\r\n'),
    ("RFC 9112", "angle brackets", b"Host: <a.test>\r\n"),
    ("HTTP Garden", "zero", b"Host: a.test\x00.other.test\r\n"),
    ("HTTP Garden", "bytes beyond ASCII", b"Host: \xffa\xff\r\n"),
    ("HTTP Garden", "spaces beyond ASCII", b"Host: \xa0a.test\x85\r\n"),
    ("http-request-smuggler", "a folded line", b"Host:\r\n a.test\r\n"),
    ("http-request-smuggler", "a folded second host", _HOST + b" other.test\r\n"),
    ("http-request-smuggler", "a space before the colon", b"Host : a.test\r\n"),
    ("http-request-smuggler", "a second one with a space before the colon", _HOST + b"Host : other.test\r\n"),
    ("http-request-smuggler", "a second one with a space before it", _HOST + b" Host: other.test\r\n"),
    ("http-request-smuggler", "a second one after a carriage return", _HOST + b"a: b\rHost: other.test\r\n"),
    ("http-request-smuggler", "a second one after a line feed", _HOST + b"a: b\nHost: other.test\r\n"),
]

REFUSED_REQUESTS: list[Refused] = [
    *(Refused(origin, f"first line: {trick}", data, status) for origin, trick, data, status in _FIRST_LINES),
    *(Refused(origin, f"first fields: {trick}", data, status) for origin, trick, data, status in _FIRST_FIELDS),
    *(Refused(origin, f"host: {trick}", _hosts(lines)) for origin, trick, lines in _MALFORMED_HOSTS),
    *(each._replace(data=_POST + _HOST + each.data) for each in smuggling.REFUSED),
    *(
        each._replace(trick=f"{each.trick}, in a GET", data=b"GET / HTTP/1.1\r\n" + _HOST + each.data)
        for each in smuggling.REFUSED
        if each.origin != "smuggler"
    ),
]
"""The requests that a server must refuse."""


def _accepted(
    origin: str,
    trick: str,
    data: bytes,
    *,
    method: str = "GET",
    target: str = "/",
    host: str = "a.test",
    body: bytes = b"",
    surplus: bytes = b"",
    is_last: bool = False,
) -> AcceptedRequest:
    return AcceptedRequest(origin, trick, data, method, target, host, body, surplus, is_last)


_HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: a.test\r\n\r\n"
_WHOLE = b"Host: other.test\r\n\r\n"

ACCEPTED_REQUESTS: list[AcceptedRequest] = [
    _accepted("RFC 9112", "an empty line before it", b"\r\n" + _hosts(_HOST)),
    _accepted("RFC 9112", "an empty host", _hosts(b"Host:\r\n"), host=""),
    _accepted("RFC 9112", "spaces around the host", _hosts(b"Host: \t a.test:80 \t\r\n"), host="a.test:80"),
    _accepted("RFC 9112", "an address as the host", _hosts(b"Host: [::1]:80\r\n"), host="[::1]:80"),
    _accepted("RFC 9112", "a URL overrides the host", b"GET http://a.test HTTP/1.1\r\n" + _WHOLE),
    _accepted(
        "Http11Probe",
        "a URL with a port",
        b"GET HTTP://a.test:8/b?c HTTP/1.1\r\n" + _WHOLE,
        target="/b?c",
        host="a.test:8",
    ),
    _accepted("RFC 9112", "a URL with a query alone", b"GET http://a.test?/b HTTP/1.1\r\n" + _WHOLE, target="/?/b"),
    _accepted(
        "http-request-smuggler",
        "two slashes are a path",
        _line(b"GET //other.test/a HTTP/1.1"),
        target="//other.test/a",
    ),
    _accepted(
        "http-request-smuggler",
        "a URL in a query",
        _line(b"GET /?http://other.test/ HTTP/1.1"),
        target="/?http://other.test/",
    ),
    _accepted(
        "RFC 9112", "dots and codes of a path are kept", _line(b"GET /a/../%2e%2F HTTP/1.1"), target="/a/../%2e%2F"
    ),
    _accepted("RFC 9112", "the server as the target", _line(b"OPTIONS * HTTP/1.1"), method="OPTIONS", target="*"),
    _accepted("HTTP Garden", "the body of a GET", b"GET / HTTP/1.1\r\n" + _HOST + _LENGTH, body=b"abc"),
    _accepted(
        "Http11Probe", "the body of a HEAD", b"HEAD / HTTP/1.1\r\n" + _HOST + _LENGTH, method="HEAD", body=b"abc"
    ),
    _accepted(
        "Http11Probe",
        "the body of an OPTIONS",
        b"OPTIONS / HTTP/1.1\r\n" + _HOST + _LENGTH,
        method="OPTIONS",
        body=b"abc",
    ),
    _accepted(
        "http-request-smuggler",
        "CL.0: a request as the body",
        _POST + _HOST + b"Content-Length: %d\r\n\r\n" % len(_HIDDEN) + _HIDDEN,
        method="POST",
        body=_HIDDEN,
    ),
    _accepted(
        "http-request-smuggler",
        "0.CL: the length 0, and a request",
        _POST + _HOST + b"Content-Length: 0\r\n\r\n" + _HIDDEN,
        method="POST",
        surplus=_HIDDEN,
    ),
    _accepted(
        "http-request-smuggler",
        "no framing, and a request",
        _POST + _HOST + b"\r\n" + _HIDDEN,
        method="POST",
        surplus=_HIDDEN,
    ),
    _accepted(
        "http-request-smuggler",
        "an expectation",
        _POST + _HOST + b"Expect: 100-continue\r\n" + _LENGTH,
        method="POST",
        body=b"abc",
    ),
    _accepted(
        "Http11Probe",
        "a space after the coding",
        _POST + _HOST + b"Transfer-Encoding: chunked \r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        method="POST",
        body=b"abc",
    ),
    _accepted("smuggler", "a name with underscores alone", _POST + _HOST + b"Content_Length: 3\r\n\r\n", method="POST"),
    _accepted(
        "smuggler",
        "the coding of the content alone",
        _POST + _HOST + b"Content-Encoding: chunked\r\n\r\n0\r\n\r\n",
        method="POST",
        surplus=b"0\r\n\r\n",
    ),
    _accepted(
        "llhttp",
        "what follows after it closes",
        _hosts(_HOST + b"Connection: close\r\n") + _HIDDEN,
        surplus=_HIDDEN,
        is_last=True,
    ),
    _accepted(
        "llhttp", "one of many options closes", _hosts(_HOST + b"Connection: a, Close\t,keep-alive\r\n"), is_last=True
    ),
    _accepted("HTTP Garden", "an option that only begins alike", _hosts(_HOST + b"Connection: close\xa0\r\n")),
    _accepted("llhttp", "another name of Connection", _hosts(_HOST + b"Proxy-Connection: close\r\n")),
    _accepted(
        "llhttp",
        "HTTP/1.0 closes",
        b"POST / HTTP/1.0\r\n" + _HOST + _LENGTH + _HIDDEN,
        method="POST",
        body=b"abc",
        surplus=_HIDDEN,
        is_last=True,
    ),
    _accepted(
        "llhttp",
        "HTTP/1.0 that goes on",
        b"POST / HTTP/1.0\r\n" + _HOST + b"Connection: keep-alive\r\n" + _LENGTH,
        method="POST",
        body=b"abc",
    ),
    _accepted(
        "llhttp",
        "an upgrade with a body",
        _POST + _HOST + b"Connection: upgrade\r\nUpgrade: ws\r\n" + _LENGTH + b"efgh",
        method="POST",
        body=b"abc",
        surplus=b"efgh",
    ),
    _accepted(
        "http-request-smuggler",
        "the obsolete upgrade to HTTP/2",
        _hosts(_HOST + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n")
        + _HIDDEN,
        surplus=_HIDDEN,
    ),
    _accepted(
        "http-request-smuggler",
        "a range",
        _POST + _HOST + b"Range: bytes=0-0\r\n" + _LENGTH,
        method="POST",
        body=b"abc",
    ),
    _accepted(
        "http-request-smuggler", "a forwarded host is no host", _hosts(_HOST + b"X-Forwarded-Host: other.test\r\n")
    ),
    *(
        _accepted(
            each.origin, each.trick, _POST + _HOST + each.data, method="POST", body=each.body, surplus=each.surplus
        )
        for each in smuggling.ACCEPTED
    ),
]
"""The requests that look like a trick, and have one reading."""
