"""What a child server says on standard error: shown to our user as it comes, and its last lines kept for the obituary.

The one rule: nothing here may hold anything up. Not the child, which would block in the middle of its work if nobody
read what it writes; not this program, whose own standard error may be a pipe that nobody reads or a paused terminal.
"""

from __future__ import annotations

import codecs
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import suppress

import trio

__all__ = ["StderrTail"]

_LINES = 20
_LINE_BYTES = 1000
_READ_BYTES = 16 * 1024

_PIECE_CHARACTERS = 1024
"""At most 4096 bytes: a pipe that says it is writable takes that many at once."""

_STALL_SECONDS = 1.0
"""How long our own standard error may be full until text is dropped instead of written there."""
_STALL_STEP_SECONDS = 0.01


class StderrTail:
    """Reads a child's standard error to its end."""

    def __init__(self) -> None:
        self._complete: deque[bytes] = deque(maxlen=_LINES)
        self._line = bytearray()
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._stalled = False

    @property
    def lines(self) -> tuple[str, ...]:
        """The last 20 lines, each cut at 1000 bytes and without its end; undecodable bytes replaced."""
        lines = [*self._complete, *([bytes(self._line)] if self._line else [])][-_LINES:]
        return tuple(line.decode("utf-8", "replace").rstrip("\r") for line in lines)

    async def pump(self, stream: trio.abc.ReceiveStream) -> None:
        """Read *stream* until it ends, keeping its last lines and writing everything to `sys.stderr`."""
        with suppress(trio.BrokenResourceError):
            async for chunk in _chunks(stream):
                self._keep(chunk)
                await self._forward(self._decoder.decode(chunk))
        await self._forward(self._decoder.decode(b"", final=True))
