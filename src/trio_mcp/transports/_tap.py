"""A tap sees every message of a connection as it passes: for recording, debugging and tests."""

from __future__ import annotations

import logging
import sys

import trio
from attrs import define, field

from ..abc import Direction, Tap
from ..wire import LineFramer

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
    """Bytes pass as they are; the tap sees the lines they make."""

    _stream: trio.abc.Stream
    _tap: Tap
    _received: LineFramer
    _sent: LineFramer = field(factory=lambda: LineFramer(sys.maxsize), init=False)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        # Told before they leave: afterwards, the answer might have been told first.
        for line in self._sent.feed(bytes(data)):
            self._tell("sent", line)
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        chunk = await self._stream.receive_some(max_bytes)
        for line in self._received.feed(bytes(chunk)) if chunk else self._received.finish():
            self._tell("received", line)
        return chunk

    async def aclose(self) -> None:
        await self._stream.aclose()

    def _tell(self, direction: Direction, line: object) -> None:
        if isinstance(line, bytes):
            self._tap(direction, line.removesuffix(b"\r"))
