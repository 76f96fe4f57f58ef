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
    _tail: bytearray = field(factory=bytearray, init=False)
    _skipping: bool = field(default=False, init=False)

    def feed(self, chunk: bytes) -> Sequence[bytes | Oversized]:
        """Take the next bytes; return the lines they complete, in order, without their newlines."""
        head, newline, rest = chunk.rpartition(b"\n")
        if not newline:
            return self._keep(rest)
        if self._skipping:  # the first newline ends the line being skipped
            self._skipping = False
            _, _, head = head.partition(b"\n")
        elif self._tail:
            self._tail += head
            head, self._tail = bytes(self._tail), bytearray()
        lines = self._checked(head.split(b"\n"))
        return [*lines, *self._keep(rest)] if rest else lines

    def finish(self) -> Sequence[bytes | Oversized]:
        """Say that the stream has ended; return the last line where its newline is missing."""
        head, self._tail = bytes(self._tail), bytearray()
        return self._checked([head])

    def _keep(self, rest: bytes) -> Sequence[Oversized]:
        if self._skipping:
            return ()
        self._tail += rest
        if len(self._tail) <= self.limit:
            return ()
        self._tail, self._skipping = bytearray(), True
        return (Oversized(self.limit),)

    def _checked(self, lines: list[bytes]) -> Sequence[bytes | Oversized]:
        return [
            line if len(line) <= self.limit else Oversized(self.limit)
            for line in lines
            if len(line) > self.limit or (line and not line.isspace())  # length first, as for a line in pieces
        ]
