"""What Hypercorn's protocols are told. Loaded when a server starts."""

from __future__ import annotations

from hypercorn.config import Config

from ._hypercorn_listening import HttpListening

__all__ = ["ProtocolConfig"]

_NEVER = 2**62


class ProtocolConfig(Config):
    """The settings that have an effect on a protocol: Hypercorn has many more, for the worker that we have replaced."""

    accesslog = None
    errorlog = None  # by default it takes standard error for a logger of Hypercorn's; what is left of that says nothing
    include_server_header = False
    keep_alive_max_requests = _NEVER

    def __init__(self, listening: HttpListening) -> None:
        self.h11_max_incomplete_size = listening.max_head_bytes
        self.h2_max_header_list_size = listening.max_head_bytes
        self.http2 = listening.http2
        self.write_seconds = listening.write_seconds
