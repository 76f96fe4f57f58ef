"""Pipes that take fewer passes of Trio's event loop than its own streams: a third of the time of a small call.

Trio's `FdStream` lets all other tasks run before it reads or writes, and looks for data before it waits. Here a task
writes its message at once if no other message could be sent with it, and a reader waits first, because it nearly always
has to. The benchmark cell `stdio-1` measures this.
"""

from __future__ import annotations

import abc
import os
import stat
import sys

import trio

__all__ = ["ImmediateStream", "read_pipe", "wake_reader", "write_now"]

_READ_BYTES = 64 * 1024


class ImmediateStream(trio.abc.Stream):
    """A stream that may take bytes without waiting."""

    @abc.abstractmethod
    def send_now(self, data: bytes | memoryview) -> int:
        """Send what can be sent without waiting; return the number of bytes sent.

        Never raises: `send_all` of the rest raises the error. No other task may be sending.
        """


if sys.platform == "win32":  # pragma: no cover # the tests run on POSIX
    _reading: dict[trio.abc.ReceiveStream, trio.CancelScope] = {}

    def write_now(stream: trio.abc.SendStream, data: bytes | memoryview) -> int:  # noqa: ARG001 # POSIX's signature
        """Return 0: nothing can be written to these pipes without waiting."""
        return 0

    async def read_pipe(stream: trio.abc.ReceiveStream, max_bytes: int | None = None) -> bytes:
        """Wait for bytes, and return them; see the function for POSIX."""
        with trio.CancelScope() as _reading[stream]:
            try:
                return bytes(await stream.receive_some(max_bytes))
            finally:
                del _reading[stream]
        raise trio.ClosedResourceError("woken")

    def wake_reader(stream: trio.abc.ReceiveStream) -> None:
        """Wake the task that waits in `read_pipe`."""
        if stream in _reading:
            _reading[stream].cancel(reason="woken")

else:

    def write_now(stream: trio.abc.SendStream, data: bytes | memoryview) -> int:
        """Write what the pipe takes at once; return the number of bytes written."""
        assert isinstance(stream, trio.lowlevel.FdStream)
        try:
            return os.write(stream.fileno(), data)
        except OSError:  # full, broken or closed: the next `send_all` finds out
            return 0

    async def read_pipe(stream: trio.abc.ReceiveStream, max_bytes: int | None = None) -> bytes:
        """Wait for bytes, and return at most *max_bytes*; empty at the end.

        Raises:
            trio.ClosedResourceError: the pipe was closed, or `wake_reader` was called.
            trio.BrokenResourceError: the system reports an error.
        """
        assert isinstance(stream, trio.lowlevel.FdStream)
        descriptor = stream.fileno()
        if descriptor < 0:
            await trio.lowlevel.checkpoint()
            raise trio.ClosedResourceError("the pipe was closed")
        try:
            await trio.lowlevel.wait_readable(descriptor)
            return os.read(stream.fileno(), max_bytes or _READ_BYTES)  # it may have been closed just now
        except OSError:  # it cannot be waited for, or another process has read it: the stream handles both
            return bytes(await stream.receive_some(max_bytes))

    def wake_reader(stream: trio.abc.ReceiveStream) -> None:
        """Wake the task that waits in `read_pipe`, with `trio.ClosedResourceError`."""
        assert isinstance(stream, trio.lowlevel.FdStream)
        if stream.fileno() >= 0:
            trio.lowlevel.notify_closing(stream.fileno())

    class PipeStream(ImmediateStream):
        """A stream of two descriptors, which it closes: pipes, sockets, terminals, files."""

        def __init__(self, sending: trio.lowlevel.FdStream, receiving: trio.lowlevel.FdStream) -> None:
            self._sending = sending
            self._receiving = receiving
            # Some systems never report the end of a file as readable.
            self._is_file = stat.S_ISREG(os.fstat(receiving.fileno()).st_mode)

        def send_now(self, data: bytes | memoryview) -> int:
            return write_now(self._sending, data)

        async def send_all(self, data: bytes | bytearray | memoryview) -> None:
            await self._sending.send_all(data)

        async def wait_send_all_might_not_block(self) -> None:
            await self._sending.wait_send_all_might_not_block()

        async def receive_some(self, max_bytes: int | None = None) -> bytes:
            if self._is_file:
                return bytes(await self._receiving.receive_some(max_bytes))
            return await read_pipe(self._receiving, max_bytes)

        async def aclose(self) -> None:
            self._sending.close()
            await self._receiving.aclose()
