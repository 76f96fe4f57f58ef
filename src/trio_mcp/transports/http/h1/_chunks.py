"""The chunked transfer coding, without I/O: what both halves of HTTP/1.1 need, as strict for one as for the other.

llhttp does not tell where a message ended in what it was fed. So it cannot hand over what follows a chunked message,
such as the next request of a client that does not wait.

Rules of this file:

1. Lines end in CR LF. A size is hexadecimal digits and nothing else, so no two readers find different chunks.
2. A line is bounded, and so is all that a body has beside its data: sizes, extensions, trailers.
3. Extensions and trailers are checked, and dropped. A quote that does not end in its line is refused: for some readers
   it goes on in the next one.

Specification: RFC 9112, 7.1, https://www.rfc-editor.org/rfc/rfc9112#section-7.1
"""

from __future__ import annotations

import re
from typing import Final

from ._syntax import FIELD, TOKEN, HttpSyntaxError

__all__ = ["LAST_CHUNK", "ChunkedBody", "chunk"]

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
