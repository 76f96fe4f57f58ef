"""The syntax that both roles of HTTP/1.1 share: the patterns of a head, the chunked transfer coding, and the error.

llhttp does not tell where a message ended in what it was fed. So it cannot hand over what follows a chunked message,
such as the next request of a client that does not wait.

Rules of this file, for chunks:

1. Lines end in CR LF. A size is hexadecimal digits and nothing else, so no two readers find different chunks.
2. A line is bounded, and so is all that a body has beside its data: sizes, extensions, trailers.
3. Extensions and trailers are checked, and dropped. A quote that does not end in its line is refused: for some readers
   it goes on in the next one.

Specification: RFC 9112, https://www.rfc-editor.org/rfc/rfc9112
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

__all__ = [
    "FIELD",
    "FIELD_VALUE",
    "LAST_CHUNK",
    "LENGTH",
    "TOKEN",
    "ChunkedBody",
    "Fields",
    "HttpSyntaxError",
    "chunk",
    "joined_fields",
    "options_of",
    "values_of",
]

TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 # no secret
FIELD_VALUE: Final = r"[\t\x20-\x7e\x80-\xff]*"
FIELD: Final = TOKEN + ":" + FIELD_VALUE + r"\r\n"
"""The pattern of a field line: nothing is folded, no space precedes the colon, values have no control characters."""
LENGTH: Final = re.compile("0|[1-9][0-9]{0,17}")
"""The pattern of `Content-Length`. `str.isdigit` accepts other digits as well. Some read ``010`` as an octal number."""

Fields = Sequence[tuple[str, str]]
"""The names in lower case, and the values without outer whitespace, in the order of the message. Bytes are Latin-1."""


class HttpSyntaxError(Exception):
    """The other side has not spoken HTTP/1.1, or not in a way that has one meaning only.

    Args:
        message: what is wrong; it quotes at most 100 bytes of what was received.
        status: the status with which a server refuses the request.
    """

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def joined_fields(fields: Fields) -> Mapping[str, str]:
    """Return the fields by name, the values of repeated ones joined."""
    joined = dict(fields)
    if len(joined) < len(fields):
        joined.clear()
        for name, value in fields:
            joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined


def values_of(fields: Fields, name: str) -> list[str]:
    """Return the values of the fields with this name, which is in lower case."""
    return [value for each, value in fields if each == name]


def options_of(headers: Mapping[str, str]) -> Sequence[str]:
    """Return the options of the field `Connection`, in lower case."""
    options = headers.get("connection")
    return () if options is None else [option.strip(" \t") for option in options.lower().split(",")]


# --- Chunks ---

_END: Final = b"\r\n"
_MAX_LINE_BYTES: Final = 4096
_OVERHEAD_BYTES: Final = 64 * 1024
_OVERHEAD_OF_CHUNK: Final = 32
"""The bytes beside its data that a body may have, and in addition for each chunk."""
_QUOTED: Final = r'"(?:[\t\x20\x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e\x80-\xff])*"'
_EXTENSION: Final = rf"[\t ]*;[\t ]*{TOKEN}(?:[\t ]*=[\t ]*(?:{TOKEN}|{_QUOTED}))?"
_SIZE: Final = re.compile(f"([0-9A-Fa-f]{{1,15}})(?:{_EXTENSION})*".encode("latin-1"))
_TRAILER: Final = re.compile(FIELD.encode())

LAST_CHUNK: Final = b"0\r\n\r\n"
"""The end of a chunked body, without trailers."""


def chunk(data: bytes) -> bytes:
    """Return a chunk with *data*, which is not empty."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class ChunkedBody:
    """Reads one chunked body."""

    def __init__(self) -> None:
        self.is_complete = False
        """True when the last chunk and the trailers have arrived."""
        self.surplus: bytes = b""
        """The bytes that follow the body; settled when it is complete."""
        self._unread: bytes = b""
        """The begin of a line."""
        self._left = 0
        """The bytes of the current chunk that have not arrived."""
        self._is_after_data = False
        """True between the data of a chunk and its line end."""
        self._is_in_trailers = False
        self._overhead = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Take received bytes; return the parts of the body in them.

        Raises:
            HttpSyntaxError: they are no chunks, or have too much beside their data.
        """
        data, self._unread = self._unread + data, b""
        parts: list[bytes] = []
        at = 0
        while not self.is_complete:
            if self._left:
                part = data[at : at + self._left]
                if not part:
                    break
                parts.append(part)
                at += len(part)
                self._left -= len(part)
                self._is_after_data = not self._left
                continue
            end = data.find(_END, at)
            if end < 0 or end - at > _MAX_LINE_BYTES:
                self._unread = data[at:]
                if len(self._unread) > _MAX_LINE_BYTES or (self._is_after_data and not _END.startswith(self._unread)):
                    raise HttpSyntaxError("a line of a chunked body has no end")
                break
            self._read_line(data[at:end])
            at = end + len(_END)
        if self.is_complete:
            self.surplus += data[at:]
        return parts

    def _read_line(self, line: bytes) -> None:
        self._overhead += len(line) + len(_END)
        if self._overhead > _OVERHEAD_BYTES:
            raise HttpSyntaxError("a chunked body has too much beside its data")
        if self._is_after_data:
            if line:
                raise HttpSyntaxError("a chunk is longer than its size")
            self._is_after_data = False
        elif self._is_in_trailers:
            if line and _TRAILER.fullmatch(line + _END) is None:
                raise HttpSyntaxError("a trailer of a chunked body is malformed")
            self.is_complete = not line
        else:
            size = _SIZE.fullmatch(line)
            if size is None:
                raise HttpSyntaxError(f"the size of a chunk is malformed: {line[:32]!r}")
            self._left = int(size[1], 16)
            self._is_in_trailers = not self._left
            self._overhead = max(0, self._overhead - _OVERHEAD_OF_CHUNK)
