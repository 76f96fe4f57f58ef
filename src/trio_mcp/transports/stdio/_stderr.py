"""The standard error of a child process: its last lines, and where its output goes.

Rules of this file:

1. The last lines are always kept, because `ServerExited` shows them.
2. Output is passed on as it arrives. This never blocks the child, which would stop if its output was not read, nor this
   process, whose standard error may be a pipe without a reader or a paused terminal.
3. A file or a function that fails loses output, and has no other effect.
"""

from __future__ import annotations

import codecs
import io
import logging
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, TextIO, TypeAlias, TypeGuard, cast

import trio
from attrs import define, field

from ..._user_types import is_async

__all__ = ["StderrPump", "StderrSink", "StderrTarget", "check_stderr", "open_sink"]

StderrTarget: TypeAlias = "int | str | os.PathLike[str] | TextIO | Callable[[str], object] | None"
"""The destination of the standard error of a child: the standard error of this process (None), nowhere
(`subprocess.DEVNULL`), to the end of the file at a path, to an open file that takes text, or, line by line, to a
function.
"""

_log = logging.getLogger("trio_mcp.transports")

if sys.platform == "win32":  # pragma: no cover # the tests run on POSIX

    def has_room(file: Any) -> bool:  # noqa: ARG001 # the signature of POSIX
        """Return True: it is unknown for these files."""
        return True

else:
    import select

    def has_room(file: Any) -> bool:
        """Return True if *file* takes 4096 bytes at once, or if it is not an open file of the system."""
        poll = select.poll()
        try:
            poll.register(file, select.POLLOUT)
        except (AttributeError, OSError, TypeError, ValueError):
            return True
        return bool(poll.poll(0))


_KEPT_LINES = 20
_KEPT_LINE_BYTES = 1000
"""How many bytes of a line are kept. The rest of a longer line is passed on only."""
_PIECE_CHARACTERS = 1000
"""How many characters are written at once: in UTF-8 at most the 4096 bytes that a pipe with room takes at once."""
_STALL_SECONDS = 1.0
"""How long a file may take nothing before output is left out."""
_RETRY_SECONDS = 0.02
_LINE_CHARACTERS = 10_000
"""How many characters of an unfinished line are held back; then a function gets them without the rest."""
_GAP = "\n[trio-mcp: output of a server is missing here, because nothing was read for a while]\n"


class StderrSink(Protocol):
    """A receiver of the output of a child, decoded. It does not fail."""

    async def put(self, text: str) -> None:
        """Take some output; may wait briefly."""
        ...

    def finish(self) -> None:
        """Take note that the output has ended."""
        ...


def check_stderr(target: object) -> None:
    """Check where standard error shall go.

    Raises:
        TypeError: it is not a `StderrTarget`.
    """
    if isinstance(target, int):
        fits = target == subprocess.DEVNULL
    elif callable(target):
        fits = not is_async(target)
    else:
        fits = target is None or _is_path(target) or _takes_text(target)
    if not fits:
        raise TypeError(
            f"stderr={target!r}: expected subprocess.DEVNULL, a path, a file that takes text, or a plain function that "
            "takes a line"
        )


def _is_path(target: object) -> TypeGuard[str | os.PathLike[str]]:
    return isinstance(target, str | os.PathLike)


def _takes_text(target: object) -> bool:
    return hasattr(target, "write") and not isinstance(target, io.RawIOBase | io.BufferedIOBase)


@contextmanager
def open_sink(target: StderrTarget) -> Generator[StderrSink | None]:
    """Return what takes the output; None if nothing does. A file that is named by its path is open during the block.

    Raises:
        OSError: the file cannot be opened.
    """
    if target is None:
        yield _File(None)
    elif isinstance(target, int):
        yield None
    elif _is_path(target):
        with Path(target).open("a", encoding="utf-8") as file:
            yield _File(file)
    elif callable(target):
        yield _Lines(target)
    else:
        yield _File(cast("TextIO", target))


@define(eq=False)
class _File:
    """A file, or the standard error of this process, whichever file that is at the time."""

    _given: TextIO | None
    _has_gap: bool = field(default=False, init=False)

    async def put(self, text: str) -> None:
        for start in range(0, len(text), _PIECE_CHARACTERS):
            file = cast("TextIO", sys.stderr) if self._given is None else self._given
            if not await self._room(file):
                self._has_gap = True
                return
            if self._has_gap:
                self._has_gap = False
                _write(file, _GAP)
            _write(file, text[start : start + _PIECE_CHARACTERS])

    async def _room(self, file: TextIO) -> bool:
        """Return True if the file takes output. Wait briefly for that, unless the last wait failed."""
        if has_room(file):
            return True
        if self._has_gap:
            return False
        with trio.move_on_after(_STALL_SECONDS):
            while not has_room(file):  # noqa: ASYNC110 # Trio reports no event for such a file
                await trio.sleep(_RETRY_SECONDS)
            return True
        return False

    def finish(self) -> None:
        """Do nothing: all output is written."""


def _write(file: TextIO, text: str) -> None:
    # It may be None, closed, without a reader, or an object of the program that fails.
    with suppress(Exception):
        file.write(text)
        file.flush()


@define(eq=False)
class _Lines:
    """A function of the program that takes lines. If it raises, this is logged, and it is not called any more."""

    _take: Callable[[str], object] | None
    _rest: str = field(default="", init=False)
    """The beginning of the line that is not finished."""

    async def put(self, text: str) -> None:
        *lines, rest = (self._rest + text).split("\n")
        for line in lines:
            self._call(line.removesuffix("\r"))
        if len(rest) >= _LINE_CHARACTERS:
            self._call(rest)
            rest = ""
        self._rest = rest

    def finish(self) -> None:
        if self._rest:
            self._call(self._rest)

    def _call(self, line: str) -> None:
        if self._take is None:
            return
        try:
            self._take(line)
        except Exception:  # noqa: BLE001 # a bug of the caller may raise anything
            self._take = None
            _log.exception("the function of stderr= raised; it gets no more lines of this server")


class StderrPump:
    """The reader of a child's standard error. `done` is set at its end, or after a cancellation."""

    def __init__(self, stream: trio.abc.ReceiveStream, sink: StderrSink | None) -> None:
        self.done = trio.Event()
        self._stream = stream
        self._sink = sink
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lines: deque[bytes] = deque(maxlen=_KEPT_LINES)
        self._open_line = b""

    @property
    def tail(self) -> tuple[str, ...]:
        """The last lines that are not empty, oldest first, including an unfinished one."""
        lines = [*self._lines, self._open_line] if self._open_line else [*self._lines]
        return tuple(line.decode("utf-8", "replace") for line in lines[-_KEPT_LINES:])

    async def run(self) -> None:
        """Read, keep and pass on the output until its end."""
        try:
            async for chunk in self._stream:
                self._keep(bytes(chunk))
                if self._sink is not None:
                    await self._sink.put(self._decoder.decode(bytes(chunk)))
        finally:
            if self._sink is not None:
                self._sink.finish()
            self.done.set()

    def _keep(self, chunk: bytes) -> None:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            line = (self._open_line + end)[:_KEPT_LINE_BYTES].rstrip(b"\r")
            if line:
                self._lines.append(line)
            self._open_line = b""
        self._open_line = (self._open_line + rest)[:_KEPT_LINE_BYTES]
