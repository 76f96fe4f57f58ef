"""A tap sees every message of a connection as it passes: for recording, debugging and tests."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable

import trio
from attrs import define, field

from ..abc import Direction, Tap
from ..wire import LineFramer, Oversized, Undecodable, decode

__all__ = ["guarded_tap", "tapped"]

_log = logging.getLogger("trio_mcp.transports")


def guarded_tap(tap: Tap | None) -> Tap | None:
    """Return *tap* as one that never raises: the first time it does, that is logged, and it sees nothing more."""
    return None if tap is None else _Guarded(tap)


@define(eq=False)
class _Guarded:
    _tap: Tap | None

    def __call__(self, direction: Direction, message: bytes) -> None:
        if self._tap is None:
            return
        try:
            self._tap(direction, message)
        except Exception:  # noqa: BLE001 # whatever a bug of the caller's raises
            self._tap = None
            _log.exception("the tap raised; it sees no more messages of this client")


def tapped(stream: trio.abc.Stream, tap: Tap | None, limit: int) -> trio.abc.Stream:
    """Return *stream* with *tap* listening; the stream itself where there is none.

    Args:
        limit: the longest message that is accepted, in bytes; a longer one is not received, so the tap misses it too.
    """
    return stream if tap is None else _TappedStream(stream, tap, LineFramer(limit))


@define(eq=False)
class _TappedStream(trio.abc.Stream):
    """Bytes pass as they are; the tap sees the lines they make.

    A line is shown as it came, be it a message or not. One that the end of the stream has cut off is half of something
    that nobody reads: it is not shown, as it is not over HTTP. Whoever reads the stream logs how it begins.
    """

    _stream: trio.abc.Stream
    _tap: Tap
    _received: LineFramer
    _sent: LineFramer = field(factory=lambda: LineFramer(sys.maxsize), init=False)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        # Told before they leave: afterwards, the answer might have been told first.
        self._tell("sent", self._sent.feed(bytes(data)))
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        chunk = await self._stream.receive_some(max_bytes)
        if chunk:
            self._tell("received", self._received.feed(bytes(chunk)))
        else:
            last = self._received.finish()
            self._tell("received", [line for line in last if isinstance(line, bytes) and _is_whole(line)])
        return chunk

    async def aclose(self) -> None:
        await self._stream.aclose()

    def _tell(self, direction: Direction, lines: Iterable[bytes | Oversized]) -> None:
        for line in lines:
            if isinstance(line, bytes):
                self._tap(direction, line.removesuffix(b"\r"))


def _is_whole(line: bytes) -> bool:
    """Tell whether a last line without a newline is all of a message, which is read as one."""
    try:
        decode(line)
    except Undecodable:
        return False
    return True
