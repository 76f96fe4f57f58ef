"""The stream of lines over an open WebSocket, which a link reads and writes.

Rules of this file:

1. Only whole frames are handed to the channel, which sends them whole or ends, whichever task is cancelled meanwhile.
2. What the channel does not take at once waits in it. The link is told that one byte was not taken, so it has its
   writer send that, and wait for the rest with it.
3. A peer that has sent nothing for a while is asked for a sign of life, and after another such time it counts as gone.
   This also keeps proxies from closing the connection.
4. A ping is answered at once, or when the channel takes bytes again; of many pings the latest one.
5. Each side that closes tells why, in a close code. The other side answers with the same code.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

import trio
from attrs import define, field

from ...stdio import ImmediateStream
from ._frames import Close, CloseCode, FrameReader, WebSocketError, close_frame, ping_frame, pong_frame, text_frames

__all__ = ["ByteChannel", "WebSocketStream"]

_CLOSING_SECONDS = 5.0
"""The time for the peer to take the close."""


class ByteChannel(Protocol):
    """The bytes of a connection that has become a WebSocket."""

    async def receive(self) -> bytes:
        """Wait for bytes; return none at the end of the connection. Raises `trio.BrokenResourceError`, if at all."""
        ...

    def put(self, data: bytes) -> bool:
        """Send what the connection takes at once; return False if `flush` has to send the rest. Never raises."""
        ...

    async def flush(self) -> None:
        """Send what was put. If cancelled, send it nevertheless, or leave the rest to the next call, or close.

        Raises:
            trio.BrokenResourceError: the connection has ended, or the peer does not read.
        """
        ...

    def close(self) -> None:
        """Close the connection at once."""
        ...


@define(eq=False)
class WebSocketStream(ImmediateStream):
    """The lines that are the messages of an open WebSocket.

    Args:
        channel: the connection.
        is_client: True for the client's end.
        silence_seconds: the time of rule 3.
    """

    _channel: ByteChannel
    _is_client: bool = field(kw_only=True, alias="is_client")
    _silence_seconds: float = field(kw_only=True, alias="silence_seconds")
    closed_by_peer: Close | None = field(default=None, init=False)
    """The close of the peer; None if it has not closed the WebSocket."""
    _reader: FrameReader = field(init=False)
    _unfinished: bytearray = field(factory=bytearray, init=False)
    """The begin of a line whose rest was not sent yet."""
    _is_blocked: bool = field(default=False, init=False)
    """True while the channel has not sent all that was put."""
    _has_untold_byte: bool = field(default=False, init=False)
    """True if the next byte to send was put already (rule 2)."""
    _pong: bytes | None = field(default=None, init=False)
    """The answer that waits until the channel takes bytes again."""
    _has_ended: bool = field(default=False, init=False)
    """True if nothing more is received."""
    _has_sent_close: bool = field(default=False, init=False)
    _is_silent: bool = field(default=False, init=False)
    """True if the peer has sent nothing since `keep_alive` looked."""
    _control_waits: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    """Wakes `keep_alive` when the channel does not take a frame that is no message: no writer waits for those."""

    def __attrs_post_init__(self) -> None:
        self._reader = FrameReader(masked=not self._is_client)

    @property
    def fault(self) -> WebSocketError | None:
        """The fault of the peer against the protocol, which has ended the stream; None if there is none."""
        return self._reader.fault

    # --- Sending ---

    def send_now(self, data: bytes | memoryview) -> int:
        """Send lines; return the number of bytes sent (rule 2)."""
        if self._is_blocked or self._has_untold_byte or self._has_sent_close or self._unfinished:
            return 0
        *lines, rest = bytes(data).split(b"\n")
        self._unfinished += rest
        if self._put(self._frames(lines)):
            return len(data)
        self._has_untold_byte = True
        return len(data) - 1

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send each whole line as a message; keep the rest until its line break is sent.

        Raises:
            trio.BrokenResourceError: the WebSocket is closed.
        """
        if self._has_untold_byte:
            data, self._has_untold_byte = memoryview(data)[1:], False
        self._unfinished += data
        *lines, self._unfinished = self._unfinished.split(b"\n")
        await self._flush()
        if self._has_sent_close or self.closed_by_peer is not None:
            raise trio.BrokenResourceError("the WebSocket is closed")
        if not self._put(self._frames(lines)):
            await self._flush()

    def _frames(self, lines: list[bytes] | list[bytearray]) -> bytes:
        return text_frames([bytes(line) for line in lines if line], masks=self._is_client)

    def _put(self, frames: bytes) -> bool:
        if frames and not self._channel.put(frames):
            self._is_blocked = True
        return not self._is_blocked

    def _put_control(self, frame: bytes) -> None:
        if not self._put(frame):
            self._control_waits.unpark()

    async def _flush(self) -> None:
        if not self._is_blocked:
            await trio.lowlevel.checkpoint()
        while self._is_blocked:
            await self._channel.flush()
            self._is_blocked = False
            pong, self._pong = self._pong, None
            if pong is not None and not self._has_sent_close:
                self._put(pong)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until what was put is sent."""
        await self._flush()

    # --- Receiving ---

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return the lines that arrive together, of any length; none after the end of the WebSocket.

        Raises:
            trio.BrokenResourceError: it has ended within a message, whose begin is no message.
        """
        del max_bytes
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._has_ended:
            data = await self._channel.receive()
            if not data:
                self._has_ended = True
                break
            self._is_silent = False
            text = self._reader.feed(data)
            self._react()
            if text:
                return text
        if self._reader.is_in_message:
            raise trio.BrokenResourceError("the WebSocket has ended within a message")
        return b""

    def _react(self) -> None:
        """Answer the frames that are no messages."""
        ping, close, fault = self._reader.take_ping(), self._reader.close, self._reader.fault
        if ping is not None:
            self._answer(ping)
        if close is not None:
            self.closed_by_peer, self._has_ended = close, True
            self._send_close(Close(close.code))
        elif fault is not None:
            self._has_ended = True
            self._send_close(Close(fault.code, str(fault)))

    def _answer(self, ping: bytes) -> None:
        pong = pong_frame(ping, masks=self._is_client)
        if self._is_blocked:
            self._pong = pong
        elif not self._has_sent_close:
            self._put_control(pong)

    async def keep_alive(self) -> None:
        """Find out if the peer is still there (rule 3); close the connection if not. To be run as a task.

        It also sends what the channel has not taken of the frames that are no messages.
        """
        is_asked = False
        with suppress(trio.BrokenResourceError):  # the channel has closed the connection then
            while True:
                if self._is_blocked:  # the peer could not be asked; the channel bounds how long it takes nothing
                    await self._flush()
                    is_asked = False
                self._is_silent = True
                with trio.move_on_after(self._silence_seconds):
                    await self._flush_controls()
                if not self._is_silent:
                    is_asked = False
                elif is_asked:
                    break
                else:
                    is_asked = True
                    if not (self._is_blocked or self._has_sent_close):
                        self._put(ping_frame(masks=self._is_client))
        self._channel.close()

    async def _flush_controls(self) -> None:
        while True:
            if self._is_blocked:
                await self._flush()
            else:
                await self._control_waits.park()

    # --- The end ---

    def _send_close(self, close: Close) -> None:
        if not self._has_sent_close:
            self._has_sent_close = True
            self._put_control(close_frame(close, masks=self._is_client))

    async def close_websocket(self, close: Close) -> None:
        """Tell the peer why the WebSocket is closed, unless either side has closed it; wait until that is sent."""
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _CLOSING_SECONDS):
            self._send_close(close)
            with suppress(trio.BrokenResourceError):
                await self._flush()

    async def aclose(self) -> None:
        """Tell the peer, and close the connection."""
        await self.close_websocket(Close(CloseCode.NORMAL))
        self._channel.close()
        await trio.lowlevel.checkpoint()
