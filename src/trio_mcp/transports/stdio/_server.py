"""Standard input and output of this process as a private byte stream that `print` cannot reach.

Rules of this file:

1. The protocol uses private descriptors that only this module knows. While they are claimed, descriptor 0 is the null
   device and descriptor 1 is standard error, so that neither a library that prints, nor C code, nor a child process can
   read the protocol's input or write to its output.
2. Non-blocking mode, which Trio needs, belongs to the *open file*, which the parent and the standard error of this
   process may share, and which outlives this process if it is killed. Pipes and character devices are therefore
   reopened; all other files are duplicated.
3. A regular file is never reopened, because it would start again at its beginning.
4. No private descriptor is numbered 0, 1 or 2, even if one of these is free: other code would use it as its own.

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

_claim = threading.Lock()  # descriptors belong to the process, not to a thread or a Trio run


if sys.platform == "win32":  # pragma: no cover # the tests run on POSIX

    def claim_stdio() -> AbstractAsyncContextManager[trio.abc.Stream]:
        """Refuse: a pipe of standard input cannot be awaited on Windows."""
        raise NotImplementedError("a server on standard input and output needs POSIX; on Windows serve over HTTP")

else:
    import fcntl

    from ._pipes import PipeStream

    @asynccontextmanager
    async def claim_stdio() -> AsyncGenerator[trio.abc.Stream]:
        """Claim standard input and output for the protocol for the duration of the block.

        Text that the program prints in the block goes to standard error, the first time after a line that names the
        place of the `print`; so does unwritten text of `sys.stdout`. Standard input reads as empty.

        Yields:
            A stream that receives from standard input and sends to standard output. Receiving returns ``b""`` when the
            client has closed its end; sending raises `trio.BrokenResourceError` if the client reads no more.

        Raises:
            OSError: standard input or output is closed (as by ``server <&-``); the message says which.
            trio.BusyResourceError: they are claimed already in this process.
            NotImplementedError: this is Windows, where a pipe of standard input cannot be awaited.

        Cancellation: entering is a checkpoint, and changes nothing if it is cancelled; leaving never waits.

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
        # A descriptor that was closed at the start may by now belong to other code, such as Trio itself.
        if opened_at_start is None:
            return False
        try:
            os.fstat(descriptor)
        except OSError:
            return False
        return True

    def _private_stream(stack: ExitStack, descriptor: int, access: int) -> trio.lowlevel.FdStream:
        """Return a private stream for the file of *descriptor*, closed at the end."""
        # FdStream restores the mode that it found, and if both streams share one open file, the second one
        # finds the mode of the first.
        stack.callback(os.set_blocking, descriptor, os.get_blocking(descriptor))
        stream = trio.lowlevel.FdStream(_open_privately(descriptor, access))
        stack.callback(stream.close)
        return stream

    def _open_privately(descriptor: int, access: int) -> int:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
            for path in _paths(descriptor):
                # It fails if the file belongs to another user, like a terminal after `su`, if the pipe has no reader,
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
        """Point 0 at the null device, 1 at standard error, and `sys.stdout` at a file that reports its use."""
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
        # Descriptor 2 if it is open: a logging handler may keep this object, and use it after 1 is restored.
        stray = _StrayOutput(_STDERR if has_stderr else _STDOUT)
        sys.stdout = stray
        stack.callback(_restore, stray, former)

    def _restore(stray: _StrayOutput, former: TextIO) -> None:
        _flush(stray)
        if sys.stdout is stray:  # else the program has redirected it, and will restore it
            sys.stdout = former

    def _flush(file: TextIO | None) -> None:
        if file is not None:  # a program may have silenced its prints by setting sys.stdout to None
            with suppress(OSError, ValueError):  # its reader is gone, or it is closed
                file.flush()

    def _flush_c() -> None:
        """Flush the buffers of the C library while descriptor 1 is standard error."""
        with suppress(ImportError, OSError, AttributeError):  # no ctypes, or no access to the C library
            import ctypes  # noqa: PLC0415 # at the end of a server, not in its start

            flush: Callable[[None], int] = ctypes.CDLL(None).fflush
            flush(None)

    class _StrayOutput(io.TextIOWrapper):
        """A `sys.stdout` that writes to standard error, and reports this once."""

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
