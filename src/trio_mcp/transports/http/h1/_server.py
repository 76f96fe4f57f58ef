"""The server's half of HTTP/1.1, without I/O: reads requests, and writes the heads of responses.

A request that two readers could understand differently is refused: a proxy in front could have found other requests in
the same bytes. llhttp, through httptools, reads each head as well, and what it refuses is refused.

Rules of this file:

1. The raw bytes of a head match one strict pattern: lines end in CR LF, no line is folded,
   names are tokens, and values have no control characters. A target has no fragment, which some cut off.
2. A request of HTTP/1.1 has exactly one `Host`, and one of HTTP/1.0 at most one. If the target is a whole URL, that
   names the host instead (RFC 9112, 3.2.2). The methods CONNECT and PRI are refused.
3. A body has at most one framing: one `Content-Length` of digits, or the transfer coding ``chunked`` alone, and that
   only in HTTP/1.1. A request without framing has no body.
4. The head is bounded in bytes. Before it, an empty line is ignored, as some clients send one too many. What cannot
   begin a request, such as TLS, is refused at its first byte, so that its client need not wait for a timeout.
5. What follows a complete request is kept for the reader of the next one.
6. What does not belong into the head of a response is refused, so that nothing can be smuggled into one.

Specification: RFC 9112, https://www.rfc-editor.org/rfc/rfc9112
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from http import HTTPStatus
from typing import Final

import httptools
from attrs import define, field

from ._syntax import (
    FIELD,
    FIELD_VALUE,
    LENGTH,
    TOKEN,
    ChunkedBody,
    Fields,
    HttpSyntaxError,
    joined_fields,
    options_of,
    values_of,
)

__all__ = ["HTTP2_PREFACE", "RequestHead", "RequestReader", "field_lines", "response_head", "status_line"]

HTTP2_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\n"
"""The begin of HTTP/2, which looks like the head of a request."""
_END: Final = b"\r\n"
_HEAD_END: Final = b"\r\n\r\n"
_MAX_EMPTY_LINES: Final = 8
_NO_REQUESTS: Final = ("CONNECT", "PRI")
"""The methods after which some readers read another protocol: that of a tunnel, and HTTP/2."""
_HEAD: Final = re.compile(
    "(" + TOKEN + r") ([\x21\x22\x24-\x7e]+) HTTP/([0-9]\.[0-9])\r\n((?:" + FIELD + r")*)\r\n",
)
_FIRST_BYTE: Final = re.compile(rb"\r|" + TOKEN.encode().removesuffix(b"+"))
_FIELD: Final = re.compile("(" + TOKEN + "):(" + FIELD_VALUE + r")\r\n")
_WHOLE_URL: Final = re.compile(r"(?i:https?)://([^/?#]+)(.*)")
# Without a comma, which could join two hosts:
_HOST: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+;=%-]*)(?::[0-9]*)?")
_RESPONSE_FIELDS: Final = re.compile("(?:" + TOKEN + ": " + FIELD_VALUE + r"\r\n)*")
_NAMES: Final = re.compile("(?:" + TOKEN + ")?")
_REASONS: Final = {each.value: each.phrase for each in HTTPStatus}


# --- Requests ---


@define(eq=False)
class RequestHead:
    """The head of a request. It is not changed, and may be shared by equal requests."""

    method: str
    """As it was sent: methods are case-sensitive."""
    target: str = field(repr=False)
    """The path with its query; or ``*``."""
    version: str
    """``1.1`` or ``1.0``."""
    fields: Fields = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    """The same by name, the values of repeated ones joined."""
    length: int | None
    """The size of the body in bytes; None if it is chunked."""
    is_last: bool
    """True if the client expects that the connection closes after the response."""
    expects_continue: bool
    """True if the client waits for an interim response before it sends the body."""
    raw: bytes = field(repr=False)
    """The bytes of the head, with the empty line."""


class RequestReader:
    """Reads one request. `feed` takes what arrives; then `head`, `take_body` and `is_complete` tell what has arrived.

    Args:
        max_head_bytes: the size of the largest head.
        known: the head of an earlier request. The same bytes have the same meaning, and are not parsed again.
    """

    def __init__(self, max_head_bytes: int, known: RequestHead | None = None) -> None:
        self.head: RequestHead | None = None
        """The head; None before it has arrived."""
        self.is_complete = False
        """True when the request has arrived whole."""
        self.surplus: bytes = b""
        """The bytes that follow the request; settled when it is complete."""
        self._max_head_bytes = max_head_bytes
        self._known = known
        self._unread = bytearray()
        """The begin of the head, if that has not arrived whole."""
        self._empty_lines = 0
        self._chunks: ChunkedBody | None = None
        self._left = 0
        """The bytes of a body of known length that have not arrived."""
        self._body: list[bytes] = []

    @property
    def has_part_of_head(self) -> bool:
        """True if the head has begun to arrive, and has not arrived whole."""
        return bool(self._unread)

    @property
    def has_body(self) -> bool:
        """True if a part of the body has arrived that was not taken."""
        return bool(self._body)

    @property
    def starts_http2(self) -> bool:
        """True if these are the first bytes of HTTP/2; they are not a request. Then `surplus` is what follows."""
        return self.is_complete and self.head is None

    def feed(self, data: bytes) -> None:
        """Take received bytes. Must not be called after the request is complete.

        Raises:
            HttpSyntaxError: what has arrived is not one request with one meaning, or too large a head. The connection
                is unusable.
        """
        if self.head is not None:
            self._read_body(data)
            return
        known = self._known
        if known is not None and not self._unread and data.startswith(known.raw):
            self._take_head(known)
            self._read_body(data[len(known.raw) :])
            return
        searched = max(0, len(self._unread) - len(_HEAD_END) + 1)
        whole: bytes | bytearray = data
        if self._unread:
            self._unread += data
            whole = self._unread
        while whole.startswith(_END):
            self._empty_lines += 1
            if self._empty_lines > _MAX_EMPTY_LINES:
                raise HttpSyntaxError("the request begins with too many empty lines")
            whole, searched = whole[len(_END) :], 0
        if whole and _FIRST_BYTE.match(whole) is None:
            raise HttpSyntaxError(f"this is not a request of HTTP; it begins with {bytes(whole[:1])!r}")
        end = whole.find(_HEAD_END, searched)
        if (end if end >= 0 else len(whole) - len(_HEAD_END) + 1) > self._max_head_bytes:
            raise HttpSyntaxError(f"the head of the request has more than {self._max_head_bytes} bytes", 431)
        if end < 0:
            self._unread = whole if isinstance(whole, bytearray) else bytearray(whole)
            return
        whole, self._unread = bytes(whole), bytearray()
        end += len(_HEAD_END)
        if whole[:end] == HTTP2_PREFACE:
            self.is_complete, self.surplus = True, whole[end:]
        else:
            self._take_head(_read_head(whole[:end]))
            self._read_body(whole[end:])

    def body(self) -> bytes:
        """Return what has arrived of the body, and was not taken, without taking it."""
        return b"".join(self._body)

    def take_body(self) -> list[bytes]:
        """Return the parts of the body that have arrived since the last call."""
        body = self._body
        if body:
            self._body = []
        return body

    def _take_head(self, head: RequestHead) -> None:
        self.head = head
        if head.length is None:
            self._chunks = ChunkedBody()
        else:
            self._left = head.length

    def _read_body(self, data: bytes) -> None:
        if self._chunks is not None:
            self._body += self._chunks.feed(data)
            self.is_complete, self.surplus = self._chunks.is_complete, self._chunks.surplus
            return
        if len(data) > self._left:
            data, self.surplus = data[: self._left], data[self._left :]
        if data:
            self._body.append(data)
            self._left -= len(data)
        self.is_complete = not self._left


def _read_head(raw: bytes) -> RequestHead:
    text = raw.decode("latin-1")
    match = _HEAD.fullmatch(text)
    if match is None:
        raise HttpSyntaxError(f"the head of the request is malformed; it begins with {raw.split(_END)[0][:100]!r}")
    method, target, version = match[1], match[2], match[3]
    if version not in {"1.0", "1.1"}:
        raise HttpSyntaxError(f"the version {version} of HTTP is not supported", 505)
    if method in _NO_REQUESTS:
        raise HttpSyntaxError(f"the method {method} is not supported", 501)
    fields = [(name.lower(), value.strip(" \t")) for name, value in _FIELD.findall(text, match.start(4))]
    target = _check_host(target, version, fields)
    headers = joined_fields(fields)
    options = options_of(headers)
    length = _length_of(version, headers)
    _ask_llhttp(raw, method)
    return RequestHead(
        method=method,
        target=target,
        version=version,
        fields=fields,
        headers=headers,
        length=length,
        is_last="close" in options or (version == "1.0" and "keep-alive" not in options),
        expects_continue=_expects_continue(version, headers) and length != 0,
        raw=raw,
    )


def _length_of(version: str, headers: Mapping[str, str]) -> int | None:
    """Return the size of the body; None if it is chunked (rule 3)."""
    coding, length = headers.get("transfer-encoding"), headers.get("content-length")
    if coding is not None:
        if length is not None or version == "1.0":
            raise HttpSyntaxError(f"the framing of the request is ambiguous: {coding!r:.50}, {length!r:.50}")
        if coding.lower() != "chunked":
            raise HttpSyntaxError(f"the transfer coding is not supported: {coding!r:.100}", 501)
        return None
    if length is None:
        return 0
    if LENGTH.fullmatch(length) is None:
        raise HttpSyntaxError(f"the length of the request is malformed: {length!r:.100}")
    return int(length)


def _expects_continue(version: str, headers: Mapping[str, str]) -> bool:
    expectation = headers.get("expect")
    if expectation is None or version == "1.0":
        return False
    if expectation.lower() != "100-continue":
        raise HttpSyntaxError(f"the expectation is not supported: {expectation!r:.100}", 417)
    return True


def _ask_llhttp(head: bytes, method: str) -> None:
    """Refuse a head that llhttp refuses."""
    try:
        httptools.HttpRequestParser(None).feed_data(head)
    except httptools.HttpParserInvalidMethodError:
        raise HttpSyntaxError(f"the method {method[:100]} is unknown", 501) from None
    except httptools.HttpParserUpgrade:
        pass  # the server decides whether it obeys
    except httptools.HttpParserError as error:
        raise HttpSyntaxError(f"the request is malformed: {error}") from None


def _check_host(target: str, version: str, fields: list[tuple[str, str]]) -> str:
    """Return the target without a host, which becomes that of *fields* (rule 2)."""
    hosts = values_of(fields, "host")
    if len(hosts) > 1 or (not hosts and version == "1.1"):
        raise HttpSyntaxError(f"the request has {len(hosts)} Host fields")
    if not target.startswith("/") and target != "*":
        url = _WHOLE_URL.fullmatch(target)
        if url is None:
            raise HttpSyntaxError(f"the target of the request is malformed: {target[:100]!r}")
        fields[:] = [("host", url[1]), *(each for each in fields if each[0] != "host")]
        hosts, target = [url[1]], url[2] if url[2].startswith("/") else f"/{url[2]}"
    if hosts and _HOST.fullmatch(hosts[0]) is None:
        raise HttpSyntaxError(f"the Host of the request is malformed: {hosts[0][:100]!r}")
    return target


# --- Responses ---


def response_head(status: int, fields: Fields) -> bytes:
    """Return the head of a response, with its empty line.

    Args:
        status: from 100 to 599.
        fields: the header fields, among them the framing.

    Raises:
        ValueError: a part of it does not belong into a head, such as a line break. The message holds no value.
    """
    return status_line(status) + field_lines(fields) + _END


@lru_cache(maxsize=32)
def status_line(status: int) -> bytes:
    """Return the first line of a response; raises what `response_head` does."""
    if not 100 <= status < 600:
        raise ValueError(f"the response has an invalid status: {status!r}")
    return f"HTTP/1.1 {status} {_REASONS.get(status, '')}\r\n".encode()


def field_lines(fields: Fields) -> bytes:
    """Return the lines of header fields; raises what `response_head` does."""
    lines = "".join([f"{name}: {value}\r\n" for name, value in fields])
    # A name with a colon, or a value with line breaks, can look like other fields that are valid.
    is_valid = _RESPONSE_FIELDS.fullmatch(lines) is not None and lines.count("\r\n") == len(fields)
    if not is_valid or _NAMES.fullmatch("".join([name for name, _ in fields])) is None:
        raise ValueError(f"the response has an invalid header field: {[name[:100] for name, _ in fields]}")
    return lines.encode("latin-1")
