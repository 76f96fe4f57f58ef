"""What a child server says on standard error: shown to our user as it comes, and its last lines kept for the obituary.

The one rule: nothing here may hold anything up. Not the child, which would stop in the middle of its work if nobody
read what it writes; not this program, whose own standard error may be a pipe that nobody reads or a paused terminal.
"""

from __future__ import annotations

import codecs
import select
import sys
from collections import deque
from contextlib import suppress
from typing import TextIO

import trio

__all__ = ["StderrTail"]

_LINES = 20
_LINE_BYTES = 1000

_PIECE_CHARACTERS = 1024
"""At most 4096 bytes of UTF-8: a pipe that calls itself writable takes that many without waiting."""

_STALL_SECONDS = 1.0
"""How long our standard error may take nothing until text for it is dropped."""
_STALL_STEP_SECONDS = 0.01

_GAP = "\n[trio-mcp: here some of a server's output is missing, because standard error took nothing for a while]\n"


class StderrTail:
    """Reads a child's standard error to its end."""

    def __init__(self) -> None:
        self._complete: deque[bytes] = deque(maxlen=_LINES)
        self._line = b""
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._has_gap = False

    @property
    def lines(self) -> tuple[str, ...]:
        """The last 20 lines that were not empty, without their ends, each cut at 1000 bytes."""
        lines = [*self._complete, self._line] if self._line else [*self._complete]
        return tuple(line.decode("utf-8", "replace").rstrip("\r") for line in lines[-_LINES:])

    async def pump(self, stream: trio.abc.ReceiveStream) -> None:
        """Read *stream* until it ends, keep its last lines and write everything to `sys.stderr`."""
        async for chunk in stream:
            self._keep(bytes(chunk))
            await self._show(self._decoder.decode(chunk))
        await self._show(self._decoder.decode(b"", final=True))

    def _keep(self, chunk: bytes) -> None:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            line = (self._line + end)[:_LINE_BYTES]
            if line:
                self._complete.append(line)
            self._line = b""
        self._line = (self._line + rest)[:_LINE_BYTES]

    async def _show(self, text: str) -> None:
        for start in range(0, len(text), _PIECE_CHARACTERS):
            if await self._has_room():
                piece = text[start : start + _PIECE_CHARACTERS]
                _write(_GAP + piece if self._has_gap else piece)
                self._has_gap = False
            else:
                self._has_gap = True

    async def _has_room(self) -> bool:
        """Wait until our standard error takes text; not for long, and not at all where it took none last time."""
        give_up_at = trio.current_time() + (0 if self._has_gap else _STALL_SECONDS)
        while not _is_writable(sys.stderr):
            if trio.current_time() >= give_up_at:
                return False
            await trio.sleep(_STALL_STEP_SECONDS)
        return True


def _is_writable(stream: TextIO | None) -> bool:
    if sys.platform == "win32":  # pragma: no cover  # needs Windows, where a pipe cannot be asked
        return True
    try:
        descriptor = stream.fileno() if stream else -1
    except (OSError, ValueError):  # no file at all, such as io.StringIO: writing never waits
        return True
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(0))


def _write(text: str) -> None:
    if sys.stderr is not None:
        # A standard error that is closed or broken is no reason to lose the server.
        with suppress(OSError, ValueError):
            sys.stderr.write(text)
            sys.stderr.flush()
