"""WebSockets of both roles: frames without I/O, and the stream of lines that a link reads and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...._facade import lazy_names

if TYPE_CHECKING:
    from ._frames import Close as Close
    from ._frames import CloseCode as CloseCode
    from ._frames import FrameReader as FrameReader
    from ._frames import WebSocketError as WebSocketError
    from ._frames import accept_token as accept_token
    from ._frames import close_frame as close_frame
    from ._frames import ping_frame as ping_frame
    from ._frames import pong_frame as pong_frame
    from ._frames import text_frames as text_frames
    from ._stream import ByteChannel as ByteChannel
    from ._stream import WebSocketStream as WebSocketStream
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "_frames": (
                *("Close", "CloseCode", "FrameReader", "WebSocketError"),
                *("accept_token", "close_frame", "ping_frame", "pong_frame", "text_frames"),
            ),
            "_stream": ("ByteChannel", "WebSocketStream"),
        },
    )
