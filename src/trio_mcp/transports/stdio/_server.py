"""This process's own standard input and output as a private byte stream, out of reach of every `print`.

The rules of this file:

1. Only descriptors that this module alone knows carry the wire. While it is claimed, descriptor 0 is the null device
   and descriptor 1 is standard error, so that neither a library that prints, nor C code, nor a child process can
   read from the wire or write to it.
2. Non-blocking mode, which Trio needs, belongs to the *open file*, which the parent and our own standard error may
   share, and which outlives us if we are killed. Pipes and character devices are therefore opened anew; the rest is
   duplicated.
3. A regular file is never opened anew: it would start at its beginning again.
4. No descriptor of ours is numbered 0, 1 or 2, even where one of these is free: others would take it for their own.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio
"""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, suppress
from typing import TextIO

import trio

__all__ = ["claim_stdio"]

_STDIN, _STDOUT, _STDERR = 0, 1, 2
_FIRST_PRIVATE = 3

_claim = threading.Lock()  # descriptors belong to the process, whichever thread or Trio run claims them


if sys.platform == "win32":  # pragma: no cover # the tests run on POSIX

    def claim_stdio() -> AbstractAsyncContextManager[trio.abc.Stream]:
        """Refuse: a pipe of standard input cannot be awaited on Windows."""
        raise NotImplementedError("a server on standard input and output needs POSIX; on Windows serve over HTTP")

else:
    import fcntl

    from ._pipes import PipeStream

    @asynccontextmanager
    async def claim_stdio() -> AsyncGenerator[trio.abc.Stream]:
        """Take standard input and output for the protocol; give them back when the block is left, in whatever way.

        What the program prints meanwhile appears on standard error, the first time after a line that says where it was
        printed; so does what lay unwritten in `sys.stdout`. Standard input reads as empty.

        Yields:
            A stream that receives from standard input and sends to standard output. Receiving returns ``b""`` when the
            client has closed its end; sending raises `trio.BrokenResourceError` when it reads no more.

        Raises:
            OSError: standard input or output is closed (as by ``server <&-``); the text says which.
            trio.BusyResourceError: they are claimed already in this process.
            NotImplementedError: this is Windows, where a pipe of standard input cannot be awaited.

        Cancellation: entering is a checkpoint, and has changed nothing if it is cancelled; leaving never waits.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio
        """
        await trio.lowlevel.checkpoint()
        if not _claim.acquire(blocking=False):
            raise trio.BusyResourceError("standard input and output are claimed already in this process")
        with ExitStack() as stack:
            stack.callback(_claim.release)
            _refuse_closed(_STDIN, sys.__stdin__, "standard input")
            _refuse_closed(_STDOUT, sys.__stdout__, "standard output")
            receiving = _private_stream(stack, _STDIN, os.O_RDONLY)
            sending = _private_stream(stack, _STDOUT, os.O_WRONLY)
            _divert(stack)
            yield PipeStream(sending, receiving)

    def _refuse_closed(descriptor: int, opened_at_start: TextIO | None, name: str) -> None:
        if not _is_open(descriptor, opened_at_start):
            raise OSError(errno.EBADF, f"{name} (descriptor {descriptor}) is closed, but it has to carry the protocol")

    def _is_open(descriptor: int, opened_at_start: TextIO | None) -> bool:
        # A number that was free at the start may by now belong to something else, such as Trio's own machinery.
        if opened_at_start is None:
            return False
        try:
            os.fstat(descriptor)
        except OSError:
            return False
        return True

    def _private_stream(stack: ExitStack, descriptor: int, access: int) -> trio.lowlevel.FdStream:
        """Return a stream of our own for what *descriptor* refers to, closed at the end."""
        # FdStream restores the mode it has met; where both streams share one open file, the second has met the first's.
        stack.callback(os.set_blocking, descriptor, os.get_blocking(descriptor))
        stream = trio.lowlevel.FdStream(_open_privately(descriptor, access))
        stack.callback(stream.close)
        return stream

    def _open_privately(descriptor: int, access: int) -> int:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
            for path in _paths(descriptor):
                # It fails where the file is another user's, as a terminal is after `su`, where nobody reads the pipe,
                # and on systems whose pipes have no path.
                with suppress(OSError):
                    # Without O_NONBLOCK, opening a FIFO waits for its other end.
                    opened = os.open(path, access | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
                    try:
                        return _duplicate(opened)
                    finally:
                        os.close(opened)
        return _duplicate(descriptor)

    def _paths(descriptor: int) -> Iterator[str]:
        if os.isatty(descriptor):
            with suppress(OSError):  # a terminal of another mount namespace has no name here
                yield os.ttyname(descriptor)
        yield f"/proc/self/fd/{descriptor}"

    def _duplicate(descriptor: int) -> int:
        """Return a duplicate that no child process inherits, above the standard ones (rule 4)."""
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_PRIVATE)

    def _divert(stack: ExitStack) -> None:
        """Point 0 at the null device, 1 at standard error, and `sys.stdout` at what reports its use."""
        for descriptor in (_STDIN, _STDOUT):
            kept = _duplicate(descriptor)
            stack.callback(os.close, kept)
            stack.callback(os.dup2, kept, descriptor)
        has_stderr = _is_open(_STDERR, sys.__stderr__)
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        stack.callback(os.close, null)
        os.dup2(null, _STDIN)
        os.dup2(_STDERR if has_stderr else null, _STDOUT)
        former = sys.stdout
        _flush(former)
        stack.callback(_flush, former)
        stack.callback(_flush_c)
        # By number 2 where there is one: a logging handler may keep this object, and use it when 1 is the wire again.
        stray = _StrayOutput(_STDERR if has_stderr else _STDOUT)
        sys.stdout = stray
        stack.callback(_restore, stray, former)

    def _restore(stray: _StrayOutput, former: TextIO) -> None:
        _flush(stray)
        if sys.stdout is stray:  # somebody may have redirected it meanwhile, and will put back what they found
            sys.stdout = former

    def _flush(file: TextIO | None) -> None:
        if file is not None:  # a program may have silenced its prints by setting sys.stdout to None
            with suppress(OSError, ValueError):  # its reader is gone, or it is closed
                file.flush()

    def _flush_c() -> None:
        """Write what C code has printed and its library still holds, while descriptor 1 is standard error."""
        with suppress(ImportError, OSError, AttributeError):  # a Python without ctypes, a C library out of sight
            import ctypes  # noqa: PLC0415 # at the end of a server, not in its start

            flush: Callable[[None], int] = ctypes.CDLL(None).fflush
            flush(None)

    class _StrayOutput(io.TextIOWrapper):
        """A `sys.stdout` that writes to standard error, and says so once."""

        def __init__(self, descriptor: int) -> None:
            raw = io.FileIO(descriptor, "wb", closefd=False)
            super().__init__(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace")
            self._reported = False

        def write(self, text: str, /) -> int:
            if text and not self._reported:
                self._reported = True
                caller = sys._getframe(1)  # noqa: SLF001 # documented; pyright knows no better name for the caller
                super().write(
                    "trio-mcp: standard output carries the protocol; text printed there goes to standard error "
                    f"instead. Printed first by {caller.f_code.co_filename}:{caller.f_lineno}\n"
                )
            written = super().write(text)
            _flush(self)
            return written
