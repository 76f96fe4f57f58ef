"""What a child says on standard error: shown on this process's own as it comes, and its last lines kept for the end.

The one rule: nothing here may hold anybody up. Not the child, which would stop in the middle of its work if nobody
read its words; not this process, whose own standard error may be a pipe nobody reads or a paused terminal.
"""

from __future__ import annotations

import codecs
import sys
from collections import deque
from contextlib import suppress

import trio

from ._child_platform import has_room

__all__ = ["StderrPump"]

_KEPT_LINES = 20
_KEPT_LINE_BYTES = 1000
"""The rest of a longer line is shown, but not kept."""
_PIECE_CHARACTERS = 1000
"""Written at once: in UTF-8 never more than the 4096 bytes that a pipe with room takes without waiting."""
_STALL_SECONDS = 1.0
"""How long our standard error may take nothing before text for it is left out."""
_RETRY_SECONDS = 0.02
_GAP = "\n[trio-mcp: output of a server is missing here, because standard error took nothing for a while]\n"


class StderrPump:
    """Reads *stream* to its end. `done` is set when it has, or when it was cancelled."""

    def __init__(self, stream: trio.abc.ReceiveStream) -> None:
        self.done = trio.Event()
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lines: deque[bytes] = deque(maxlen=_KEPT_LINES)
        self._open_line = b""
        self._has_gap = False

    @property
    def tail(self) -> tuple[str, ...]:
        """The last lines that are not empty, oldest first, one still unfinished included."""
        lines = [*self._lines, self._open_line] if self._open_line else [*self._lines]
        return tuple(line.decode("utf-8", "replace") for line in lines[-_KEPT_LINES:])

    async def run(self) -> None:
        """Read, keep and show."""
        try:
            async for chunk in self._stream:
                self._keep(bytes(chunk))
                await self._show(self._decoder.decode(bytes(chunk)))
        finally:
            self.done.set()

    def _keep(self, chunk: bytes) -> None:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            line = (self._open_line + end)[:_KEPT_LINE_BYTES].rstrip(b"\r")
            if line:
                self._lines.append(line)
            self._open_line = b""
        self._open_line = (self._open_line + rest)[:_KEPT_LINE_BYTES]

    async def _show(self, text: str) -> None:
        for start in range(0, len(text), _PIECE_CHARACTERS):
            if not await self._room():
                self._has_gap = True
                return
            if self._has_gap:
                self._has_gap = False
                _write(_GAP)
            _write(text[start : start + _PIECE_CHARACTERS])

    async def _room(self) -> bool:
        """Wait a little until our standard error takes text; where that was in vain already, only look."""
        if has_room(sys.stderr):
            return True
        if self._has_gap:
            return False
        with trio.move_on_after(_STALL_SECONDS):
            while not has_room(sys.stderr):  # noqa: ASYNC110 # a file Trio does not own raises no event
                await trio.sleep(_RETRY_SECONDS)
            return True
        return False


def _write(text: str) -> None:
    # None, closed, without a reader, or an object of the program's own that fails: there is nobody to show it to.
    with suppress(Exception):
        sys.stderr.write(text)
        sys.stderr.flush()
