"""Where a message ends on a byte stream: at the newline. Used by every link, whatever carries its bytes.

Rules of this file:

1. One line is one message; a line may end in CR LF; blank lines mean nothing.
2. The work is linear in the bytes fed: only new bytes are searched, and a line is joined once.
3. A line over the limit costs no memory beyond the limit. It is reported once, skipped to its newline, and the
   lines after it are read as ever.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field, frozen

__all__ = ["LineFramer", "Oversized"]

_SMALL = 4096
"""Bytes up to which a piece of a line grows: kept one by one, many tiny ones would take forty times their size."""


@frozen
class Oversized:
    """A line longer than the limit stood here; it was skipped."""

    limit: int
    """Bytes a line may have."""


@define(eq=False)
class LineFramer:
    """Cuts a stream of chunks into lines.

    Args:
        limit: the longest line accepted, in bytes, its newline not counted.
    """

    limit: int
    _pieces: list[bytes] = field(factory=list[bytes], init=False)
    """Of the line that has begun, to be joined once, when it is whole."""
    _size: int = field(default=0, init=False)
    """Bytes of them."""
    _skipping: bool = field(default=False, init=False)

    def feed(self, chunk: bytes) -> Sequence[bytes | Oversized]:
        """Take the next bytes; return the lines they complete, in order, without their newlines."""
        head, newline, rest = chunk.rpartition(b"\n")
        if not newline:
            return self._keep(rest)
        lines = head.split(b"\n")
        if self._skipping:  # the first newline ends the line being skipped
            self._skipping = False
            del lines[0]
        elif self._pieces:
            lines[0] = self._joined(lines[0])
        checked = self._checked(lines)
        return [*checked, *self._keep(rest)] if rest else checked

    def finish(self) -> Sequence[bytes | Oversized]:
        """Say that the stream has ended; return the last line where its newline is missing."""
        return self._checked([self._joined(b"")])

    def _keep(self, rest: bytes) -> Sequence[Oversized]:
        if self._skipping:
            return ()
        self._size += len(rest)
        if self._size > self.limit:
            self._pieces, self._size, self._skipping = [], 0, True
            return (Oversized(self.limit),)
        if self._pieces and len(self._pieces[-1]) < _SMALL:
            self._pieces[-1] += rest
        else:
            self._pieces.append(rest)
        return ()

    def _joined(self, last: bytes) -> bytes:
        line = b"".join((*self._pieces, last))
        self._pieces, self._size = [], 0
        return line

    def _checked(self, lines: list[bytes]) -> Sequence[bytes | Oversized]:
        return [
            line if len(line) <= self.limit else Oversized(self.limit)
            for line in lines
            if len(line) > self.limit or (line and not line.isspace())  # length first, as for a line in pieces
        ]
