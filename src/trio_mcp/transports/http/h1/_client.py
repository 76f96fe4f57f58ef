"""The client's half of HTTP/1.1, without I/O: writes the heads of requests, and reads responses.

llhttp parses, through httptools. A response that two readers could understand differently is refused, also where llhttp
would go on: this reader never guesses where a body ends.

Rules of this file:

1. The raw bytes of a head match one strict pattern before llhttp sees them: lines end in CR LF, no line is folded,
   names are tokens, and values have no control characters.
2. A body has at most one framing: one `Content-Length` of digits, or the transfer coding ``chunked`` alone, and that
   only in HTTP/1.1. A response without framing lasts until the connection ends.
3. Whatever follows a complete response without a request for it makes the connection unusable.
4. The head is bounded in bytes. Trailers are not header fields, and are dropped.
5. What does not belong into the head of a request is refused, so that nothing can be smuggled into one.

Specification: RFC 9112, https://www.rfc-editor.org/rfc/rfc9112
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import httptools
from attrs import define, field

from ._syntax import FIELD, FIELD_VALUE, LENGTH, TOKEN, ChunkedBody, Fields, HttpSyntaxError, joined_fields, options_of

__all__ = ["ResponseHead", "ResponseReader", "request_head"]

MAX_HEAD_BYTES: Final = 64 * 1024
_MAX_INTERIM: Final = 16
"""The number of interim responses (1xx) before one final response."""
_END: Final = b"\r\n"
_HEAD_END: Final = b"\r\n\r\n"
_HEAD: Final = re.compile(
    r"HTTP/1\.([01]) ([1-9][0-9]{2})(?: " + FIELD_VALUE + r")?\r\n((?:" + FIELD + r")*)\r\n",
)
_FIELD: Final = re.compile("(" + TOKEN + "):(" + FIELD_VALUE + r")\r\n")
_SPACE_AFTER_CODING: Final = re.compile(r"(?i)\r\ntransfer-encoding:[^\r]*[\t ]\r\n")
"""White space after a coding. Then some read no chunks, but a body that lasts until the connection ends: llhttp after a
tab, `http.client` also after a space."""
_FRAMING: Final = ("content-length", "transfer-encoding")
_SWITCHING, _NO_CONTENT, _NOT_MODIFIED = 101, 204, 304

_REQUEST_HEAD: Final = re.compile(
    TOKEN
    + r" [\x21-\x7e]+ HTTP/1\.1\r\n(?:"
    + TOKEN
    + r": (?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?\r\n)+"
)
_NAMES: Final = re.compile(TOKEN)


# --- Requests ---


def request_head(method: str, target: str, fields: Mapping[str, str]) -> bytes:
    """Return the head of a request, with its empty line.

    Args:
        method: such as ``"POST"``.
        target: the path, with the query.
        fields: the header fields, among them ``host`` and the framing.

    Raises:
        ValueError: a part of it does not belong into a head, such as a line break. The message holds no value.
    """
    lines = "".join([f"{name}: {value}\r\n" for name, value in fields.items()])
    head = f"{method} {target} HTTP/1.1\r\n{lines}"
    is_valid = _NAMES.fullmatch("".join(fields)) and _REQUEST_HEAD.fullmatch(head)
    if not is_valid or head.count("\r\n") != len(fields) + 1:  # a value with line breaks can be a valid head
        raise ValueError(f"the request has a method, a target or a header field that is not valid HTTP: {[*fields]}")
    return f"{head}\r\n".encode("latin-1")


# --- Responses ---


@define(eq=False)
class ResponseHead:
    """The head of a response. It is not changed, and may be shared by equal responses."""

    status: int
    fields: Fields = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    """The same by name, the values of repeated ones joined."""
    length: int | None
    """The announced size of the body in bytes; None if there is none."""
    is_chunked: bool
    """True if the body is chunked."""
    is_last: bool
    """True if the server closes the connection after the response."""
    raw: bytes = field(repr=False)
    """The bytes of the head, with the empty line."""


class ResponseReader:
    """Reads one response. `feed` takes what arrives; then `head`, `take_body` and `is_complete` tell what has arrived.

    Args:
        known: the head of an earlier response. The same bytes have the same meaning, and are not parsed again.
        has_body: False if the request was a HEAD, whose response has the framing of a body and no body.
        may_switch: True if the request lets the server go on with another protocol (101). Such a response is complete
            with its head.
    """

    def __init__(self, known: ResponseHead | None = None, *, has_body: bool = True, may_switch: bool = False) -> None:
        self.head: ResponseHead | None = None
        """The head of the final response; None before it has arrived."""
        self.is_complete = False
        """True when the response has arrived whole."""
        self.is_last = False
        """True if no other response can follow on this connection. Settled when the response is complete."""
        self._known = known
        self.surplus: bytes = b""
        """The begin of the other protocol, after a switch."""
        self._has_body = has_body
        self._may_switch = may_switch
        self._unread = bytearray()
        self._body: list[bytes] = []
        self._interim = 0
        self._left: int | None = None
        """The bytes of the body that have not arrived; None if its length is not declared."""
        self._chunks: ChunkedBody | None = None

    def feed(self, data: bytes) -> None:
        """Take received bytes; ``b""`` is the end of the connection.

        Raises:
            HttpSyntaxError: what has arrived is not one response with one meaning, or is cut off. The connection is
                unusable.
        """
        if not data:
            self._end()
            return
        if self.is_complete:
            self.is_last = True  # rule 3
            return
        known = self._known
        if known is not None and self.head is None and not self._unread and data.startswith(known.raw):
            self._take_head(known)
            data = data[len(known.raw) :]
        searched = max(0, len(self._unread) - len(_HEAD_END) + 1)
        while self.head is None:
            if self._unread:
                self._unread += data
                end = self._unread.find(_HEAD_END, searched)
            else:
                end = data.find(_HEAD_END)
            if end < 0 or end > MAX_HEAD_BYTES:
                self._unread = self._unread or bytearray(data)
                if end >= 0 or len(self._unread) >= MAX_HEAD_BYTES + len(_HEAD_END):
                    raise HttpSyntaxError(f"the head of the response has more than {MAX_HEAD_BYTES} bytes")
                return
            whole = bytes(self._unread) or data
            searched, self._unread = 0, bytearray()
            self._take_head(_read_head(whole[: end + len(_HEAD_END)]))
            data = whole[end + len(_HEAD_END) :]
        self._read_body(data)

    def take_body(self) -> list[bytes]:
        """Return the parts of the body that have arrived since the last call."""
        body = self._body
        if body:
            self._body = []
        return body

    def _end(self) -> None:
        if not self.is_complete and (self.head is None or self._left is not None or self._chunks is not None):
            raise HttpSyntaxError("the connection ended before the response did")
        self.is_complete = self.is_last = True

    def _take_head(self, head: ResponseHead) -> None:
        status = head.status
        if status < 200:
            self._interim += 1
            if self._interim > _MAX_INTERIM or (status == _SWITCHING and not self._may_switch):
                raise HttpSyntaxError(f"unexpected response with the status {status}")
            if status == _SWITCHING:
                self.head, self.is_complete, self.is_last = head, True, True
            return
        self.head, self.is_last = head, head.is_last
        if not self._has_body or status in {_NO_CONTENT, _NOT_MODIFIED}:
            self.is_complete = True
            self._left = 0
            if head.is_chunked or (head.length and status == _NO_CONTENT):
                self.is_last = True  # other readers may wait for a body
        elif head.is_chunked:
            self._chunks = ChunkedBody()
        elif head.length is not None:
            self._left = head.length
            self.is_complete = self._left == 0
        else:
            self.is_last = True

    def _read_body(self, data: bytes) -> None:
        if self.is_complete:
            self.is_last = self.is_last or bool(data)
            self.surplus = data
        elif self._chunks is not None:
            self._body += self._chunks.feed(data)
            self.is_complete = self._chunks.is_complete
            self.is_last = self.is_last or bool(self._chunks.surplus)
        elif self._left is None:
            if data:
                self._body.append(data)
        elif data:
            if len(data) > self._left:
                data, self.is_last = data[: self._left], True
            self._left -= len(data)
            self._body.append(data)
            self.is_complete = self._left == 0


def _read_head(raw: bytes) -> ResponseHead:
    text = raw.decode("latin-1")
    match = _HEAD.fullmatch(text)
    if match is None:
        raise HttpSyntaxError(f"the head of the response is malformed; it begins with {raw.split(_END)[0][:100]!r}")
    try:
        httptools.HttpResponseParser(None).feed_data(raw)
    except httptools.HttpParserUpgrade:
        pass  # after the status 101
    except httptools.HttpParserError as error:
        raise HttpSyntaxError(f"the response is malformed: {error}") from None
    fields = [(name.lower(), value.strip(" \t")) for name, value in _FIELD.findall(text, match.start(3))]
    status, is_old, headers = int(match[2]), match[1] == "0", joined_fields(fields)
    options, coding, length = options_of(headers), headers.get("transfer-encoding"), headers.get("content-length")
    if status < 200 and not headers.keys().isdisjoint(_FRAMING):
        raise HttpSyntaxError(f"unexpected response with the status {status}")
    if coding is not None:
        if length is not None or is_old or coding.lower() != "chunked":
            raise HttpSyntaxError(f"the framing of the response is ambiguous: {coding!r:.100}, {length!r:.100}")
        if _SPACE_AFTER_CODING.search(text):
            raise HttpSyntaxError("white space follows the transfer coding of the response")
    if length is not None and LENGTH.fullmatch(length) is None:
        raise HttpSyntaxError(f"the length of the response is malformed: {length!r:.100}")
    return ResponseHead(
        status=status,
        fields=fields,
        headers=headers,
        length=None if length is None else int(length),
        is_chunked=coding is not None,
        is_last="close" in options or (is_old and "keep-alive" not in options),
        raw=raw,
    )
