"""Our own standard input and output as a byte stream that nothing else in the process can touch or corrupt.

The rules of this file:

1. The wire is carried by descriptors that only this module knows. While it is claimed, descriptor 0 is the null
   device and descriptor 1 is standard error, so that neither a `print`, nor C code, nor a child process that
   inherits them can read from the wire or write to it.
2. Non-blocking mode belongs to the open file, which the parent and our standard error may share. Pipes and
   terminals are therefore opened anew; what cannot be is duplicated.
3. A regular file is never opened anew: reading would begin at its start again.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#stdio
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import threading
import traceback
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, redirect_stdout, suppress
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import TextIO

import trio

__all__ = ["claim_stdio"]

_STDIN, _STDOUT, _STDERR = 0, 1, 2

_OWN_DESCRIPTORS = "/proc/self/fd"

_CLAIM = threading.Lock()  # descriptors belong to the process, whichever thread or Trio run claims them


@asynccontextmanager
async def claim_stdio() -> AsyncGenerator[trio.abc.Stream, None]:
    """Take standard input and output for the wire: a stream that receives from the one and sends to the other.

    Until the block is left, whatever else the program writes to standard output goes to standard error, what
    `sys.stdout` still holds unwritten included; the first such text is announced there with the place it came
    from. Standard input reads as empty. Leaving the block, in whatever way, puts everything back.

    Receiving ends with `b""` when the client closes its end; sending then raises `trio.BrokenResourceError`.

    Raises:
        OSError: standard input or standard output is closed.
        trio.BusyResourceError: both are claimed already.
        NotImplementedError: the platform is Windows.

    Cancellation: entering is a checkpoint and has done nothing if it is cancelled; leaving never waits.

    Concurrency: one claim at a time in a process.
    """
    if sys.platform == "win32":  # pragma: no cover  # needs Windows
        raise NotImplementedError("serving over standard input and output needs a POSIX system; serve over HTTP here")
    await trio.lowlevel.checkpoint()
    with ExitStack() as stack:
        if not _CLAIM.acquire(blocking=False):
            raise trio.BusyResourceError("standard input and output are being served already in this process")
        stack.callback(_CLAIM.release)
        _check_open(_STDIN, sys.__stdin__, "input")
        _check_open(_STDOUT, sys.__stdout__, "output")
        receiving = stack.enter_context(_private_stream(_STDIN, os.O_RDONLY))
        # Closed before the other: where both are one socket, the first to be opened knows its original mode.
        sending = stack.enter_context(_private_stream(_STDOUT, os.O_WRONLY))
        stack.enter_context(_diverted())
        yield trio.StapledStream(sending, receiving)


def _is_open(descriptor: int, opened_at_start: TextIO | None) -> bool:
    # Where it was closed, the number may by now belong to something else: Python notices at its start only.
    if opened_at_start is None:
        return False
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _check_open(descriptor: int, opened_at_start: TextIO | None, name: str) -> None:
    if not _is_open(descriptor, opened_at_start):
        raise OSError(
            errno.EBADF,
            f"standard {name} is closed; whoever starts a stdio server connects its standard input and output",
        )


@contextmanager
def _private_stream(descriptor: int, access: int) -> Generator[trio.lowlevel.FdStream, None, None]:
    stream = trio.lowlevel.FdStream(_open_privately(descriptor, access))
    try:
        yield stream
    finally:
        stream.close()


def _open_privately(descriptor: int, access: int) -> int:
    """Return a descriptor for the same file, with an open file of its own where that is possible (rule 2)."""
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        for path in _paths(descriptor):
            # Without O_NONBLOCK, opening a FIFO waits for its other end. It fails where the file belongs to another
            # user, as a terminal does after `su`, and on systems whose pipes have no path.
            with suppress(OSError):
                return os.open(path, access | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    return os.dup(descriptor)


def _paths(descriptor: int) -> Iterator[str]:
    yield f"{_OWN_DESCRIPTORS}/{descriptor}"
    if os.isatty(descriptor):
        yield os.ttyname(descriptor)


@contextmanager
def _diverted() -> Generator[None, None, None]:
    """Point descriptor 0 at the null device, and descriptor 1 and `sys.stdout` at standard error."""
    original = sys.stdout
    has_stderr = _is_open(_STDERR, sys.__stderr__)
    with _replaced(_STDIN), _replaced(_STDOUT, _STDERR if has_stderr else None):
        # By number 2, not 1: a logging handler that keeps this object writes there for the rest of its life.
        stray = _StrayOutput(_STDERR if has_stderr else _STDOUT)
        _flush(original)
        try:
            with redirect_stdout(stray):
                yield
        finally:
            _flush(stray)
            _flush(original)


@contextmanager
def _replaced(descriptor: int, replacement: int | None = None) -> Generator[None, None, None]:
    """Let *descriptor* stand for *replacement*, or for the null device, until the block is left."""
    kept = os.dup(descriptor)
    try:
        if replacement is None:
            null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            os.dup2(null, descriptor)
            os.close(null)
        else:
            os.dup2(replacement, descriptor)
        yield
    finally:
        os.dup2(kept, descriptor)
        os.close(kept)


def _flush(stream: TextIO | None) -> None:
    # A standard error that nobody reads any more, or a replaced sys.stdout that is closed, must not end the serving.
    if stream is not None:
        with suppress(OSError, ValueError):
            stream.flush()


class _StrayOutput(TextIOWrapper):
    """What `sys.stdout` is while the real one carries the protocol: writes to standard error, and says so once."""

    def __init__(self, descriptor: int) -> None:
        raw = FileIO(descriptor, "wb", closefd=False)
        super().__init__(BufferedWriter(raw), encoding="utf-8", errors="backslashreplace")
        self._announced = False

    def write(self, text: str, /) -> int:
        if not self._announced and text:
            self._announced = True
            place = traceback.extract_stack(limit=2)[0]
            super().write(
                "trio-mcp: standard output carries the protocol; text printed there goes to standard error instead. "
                f"First seen from {place.filename}:{place.lineno}\n"
            )
        written = super().write(text)
        self.flush()
        return written
