"""The frames of a WebSocket, without I/O: bytes in, lines out, and lines in, bytes out.

A text message is shown as a line, so that a link carries WebSockets by the rules of all streams. wsproto would do the
same at a third of the speed (benchmark cell `websocket-64`); the tests compare with it.

Rules of this file:

1. Frames of a client are masked, and those of a server are not. No extension is negotiated, so no reserved bit is set.
   A length has its shortest form.
2. The parts of a message are passed on as they arrive: the reader of the lines bounds a message. Between them only
   control frames may come, which have at most 125 bytes, and are whole.
3. A message is text, and text is UTF-8.
4. A line break in a message is whitespace of JSON. It becomes a carriage return, which is the same to JSON, so that the
   lines are the messages.
5. Nothing is read after a close, or after a fault, which has a close code of its own.

Specification: RFC 6455, https://www.rfc-editor.org/rfc/rfc6455
"""

from __future__ import annotations

import codecs
import hashlib
import os
from base64 import b64encode
from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from attrs import frozen

__all__ = [
    "Close",
    "CloseCode",
    "FrameReader",
    "WebSocketError",
    "accept_token",
    "close_frame",
    "ping_frame",
    "pong_frame",
    "text_frames",
]

_FIN, _RESERVED, _OPCODE, _MASKED, _LENGTH = 0x80, 0x70, 0x0F, 0x80, 0x7F
_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
_SHORT, _TWO_BYTES, _EIGHT_BYTES = 125, 126, 127
_KEY_SUFFIX: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_BLOCK: Final = 64 * 1024
"""The number of bytes that are masked at once; a multiple of four."""


class CloseCode(IntEnum):
    """The codes with which this package closes a WebSocket, by the registry of RFC 6455."""

    NORMAL = 1000
    GOING_AWAY = 1001
    PROTOCOL_ERROR = 1002
    UNSUPPORTED_DATA = 1003
    INVALID_TEXT = 1007
    UNAUTHORIZED = 3000


_NO_CODE: Final = 1005
"""The code of a close that has none; it is not sent."""


@frozen
class Close:
    """The code and the reason with which a WebSocket was closed."""

    code: int
    reason: str = ""


class WebSocketError(Exception):
    """The peer has broken the protocol.

    Args:
        message: what is wrong.
        code: the code with which the WebSocket is closed.
    """

    def __init__(self, message: str, code: CloseCode = CloseCode.PROTOCOL_ERROR) -> None:
        super().__init__(message)
        self.code = code


def accept_token(key: str) -> str:
    """Return the value of ``Sec-WebSocket-Accept`` that answers a ``Sec-WebSocket-Key``."""
    digest = hashlib.sha1(key.encode("latin-1") + _KEY_SUFFIX, usedforsecurity=False).digest()
    return b64encode(digest).decode()


# --- Writing ---


def text_frames(lines: Iterable[bytes], *, masks: bool) -> bytes:
    """Return the frames of text messages.

    Args:
        lines: the messages, without line breaks, in UTF-8.
        masks: True for the frames of a client.
    """
    return b"".join([_frame(_FIN | _TEXT, line, masks=masks) for line in lines])


def close_frame(close: Close, *, masks: bool) -> bytes:
    """Return a frame that closes the WebSocket. A long reason is cut."""
    reason = close.reason.encode()[: _SHORT - 2].decode(errors="ignore").encode()
    payload = b"" if close.code == _NO_CODE else close.code.to_bytes(2, "big") + reason
    return _frame(_FIN | _CLOSE, payload, masks=masks)


def ping_frame(*, masks: bool) -> bytes:
    """Return a frame that asks the peer for a sign of life."""
    return _frame(_FIN | _PING, b"", masks=masks)


def pong_frame(payload: bytes, *, masks: bool) -> bytes:
    """Return the answer to a ping with *payload*."""
    return _frame(_FIN | _PONG, payload, masks=masks)


def _frame(first: int, payload: bytes, *, masks: bool) -> bytes:
    size, flag = len(payload), _MASKED if masks else 0
    if size <= _SHORT:
        head = bytes((first, flag | size))
    elif size < 2**16:
        head = bytes((first, flag | _TWO_BYTES)) + size.to_bytes(2, "big")
    else:
        head = bytes((first, flag | _EIGHT_BYTES)) + size.to_bytes(8, "big")
    if not masks:
        return head + payload
    key = os.urandom(4)
    return head + key + _masked(payload, key)


def _masked(data: bytes, key: bytes) -> bytes:
    """Return *data* masked, or unmasked, with *key*. As whole numbers, which takes a tenth of the time of bytes."""
    size = len(data)
    if size > _BLOCK:
        return b"".join([_masked(data[start : start + _BLOCK], key) for start in range(0, size, _BLOCK)])
    mask = (key * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "little") ^ int.from_bytes(mask, "little")).to_bytes(size, "little")


# --- Reading ---


class FrameReader:
    """Reads the frames of one direction.

    Args:
        masked: True for the frames of a client.
    """

    def __init__(self, *, masked: bool) -> None:
        self.close: Close | None = None
        """The close of the peer; None before it."""
        self.fault: WebSocketError | None = None
        """The fault of the peer against the protocol; None if there is none. Nothing is read after it."""
        self._masked = masked
        self._unread = b""
        """The begin of a frame, if that is less than a control frame or the head of another one."""
        self._ping: bytes | None = None
        self._left = 0
        """The bytes of the current frame that have not arrived."""
        self._key = b""
        """The key of the current frame, which begins with the byte that masks the next one."""
        self.is_in_message = False
        """True if a message has begun, and its last frame has not arrived."""
        self._is_last_frame = False
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._has_part_of_character = False

    def take_ping(self) -> bytes | None:
        """Return the payload of the latest ping since the last call; None if there was none."""
        ping, self._ping = self._ping, None
        return ping

    def feed(self, data: bytes) -> bytes:
        """Take received bytes; return the text in them, with a line break after each message."""
        if self._unread:
            data, self._unread = self._unread + data, b""
        text: list[bytes] = []
        try:
            self._read(data, text)
        except WebSocketError as fault:
            self.fault = fault
        return b"".join(text)

    def _read(self, data: bytes, text: list[bytes]) -> None:
        at, size = 0, len(data)
        while self.close is None and self.fault is None:
            if self._left:
                part = data[at : at + self._left]
                if not part:
                    break
                at += len(part)
                text.append(self._read_part(part))
            else:
                end = self._read_head(data, at, size)
                if end is None:
                    self._unread = data[at:]
                    break
                at = end
            if self._is_last_frame and not self._left:
                self._end_message()
                text.append(b"\n")

    def _read_head(self, data: bytes, at: int, size: int) -> int | None:
        """Read the head of a frame, or a whole control frame; return its end, or None if more has to arrive."""
        if size - at < 2:
            return None
        first, second = data[at], data[at + 1]
        if first & _RESERVED or bool(second & _MASKED) != self._masked:
            raise WebSocketError("a frame has a reserved bit, or is not masked as the protocol requires")
        opcode, length, end = first & _OPCODE, second & _LENGTH, at + 2
        if length > _SHORT:
            end += 2 if length == _TWO_BYTES else 8
            if opcode >= _CLOSE:
                raise WebSocketError("a control frame is too long")
            if size < end:
                return None
            length = _long_length(data[at + 2 : end])
        key = b""
        if self._masked:
            key, end = data[end : end + 4], end + 4
        if size < end:
            return None
        if opcode >= _CLOSE:
            if size < end + length:
                return None
            payload = data[end : end + length]
            self._read_control(first, _masked(payload, key) if key else payload)
            return end + length
        self._begin_part(first, length, key)
        return end

    def _begin_part(self, first: int, length: int, key: bytes) -> None:
        opcode = first & _OPCODE
        if opcode != (_CONTINUATION if self.is_in_message else _TEXT):
            if opcode == _BINARY:
                raise WebSocketError("messages are text", CloseCode.UNSUPPORTED_DATA)
            raise WebSocketError(f"a frame has the unexpected opcode {opcode}")
        self.is_in_message, self._is_last_frame = True, bool(first & _FIN)
        self._left, self._key = length, key

    def _read_part(self, part: bytes) -> bytes:
        """Return the text in a part of a data frame (rules 3 and 4)."""
        size, key = len(part), self._key
        self._left -= size
        if key:
            part = _masked(part, key)
            shift = size % 4
            self._key = key[shift:] + key[:shift]
        if self._has_part_of_character or not part.isascii():
            self._check_text(part)
        return part.replace(b"\n", b"\r") if b"\n" in part else part

    def _check_text(self, part: bytes, *, final: bool = False) -> None:
        try:
            self._decoder.decode(part, final)
        except UnicodeDecodeError:
            raise WebSocketError("a message is not UTF-8", CloseCode.INVALID_TEXT) from None
        self._has_part_of_character = bool(self._decoder.getstate()[0])

    def _end_message(self) -> None:
        if self._has_part_of_character:
            self._check_text(b"", final=True)
        self.is_in_message = self._is_last_frame = False

    def _read_control(self, first: int, payload: bytes) -> None:
        opcode = first & _OPCODE
        if not first & _FIN or opcode not in {_CLOSE, _PING, _PONG}:
            raise WebSocketError(f"a frame has the unexpected opcode {opcode}, or a control frame is in parts")
        if opcode == _PING:
            self._ping = payload
        elif opcode == _CLOSE:
            self.close = _read_close(payload)


def _long_length(encoded: bytes) -> int:
    length = int.from_bytes(encoded, "big")
    if length >> 63 or length < (_TWO_BYTES if len(encoded) == 2 else 2**16):
        raise WebSocketError("the length of a frame is malformed")
    return length


def _read_close(payload: bytes) -> Close:
    if not payload:
        return Close(_NO_CODE)
    code = int.from_bytes(payload[:2], "big")
    if len(payload) < 2 or not (1000 <= code <= 1003 or 1007 <= code <= 1014 or 3000 <= code < 5000):
        raise WebSocketError("the code of a close is malformed")
    try:
        return Close(code, payload[2:].decode())
    except UnicodeDecodeError:
        raise WebSocketError("the reason of a close is not UTF-8", CloseCode.INVALID_TEXT) from None
