"""HTTP/1.1 as Hypercorn speaks it, without what is dangerous or rude. Loaded when a server starts.

Different from Hypercorn's own:

- `Upgrade: h2c` is ignored, as a server may (RFC 9113 no longer has it): a way round the rules of a proxy, which sees
  one request and lets pass whatever follows it.
- A WebSocket that is refused is closed, and not left open for ever.
- The answers of a server that stops say that the connection ends, so that nobody sends another request into it.
- The longest head is refused even if it comes all at once.
- The head of an answer of known length waits for the first part of its body, which comes at once. In one piece they
  cost a fifth less.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import h11
from hypercorn.events import Closed, RawData
from hypercorn.events import Event as ConnectionEvent
from hypercorn.protocol.events import Event, Response
from hypercorn.protocol.h11 import H2ProtocolAssumedError, H11Protocol, H11WSConnection

from ._hypercorn_config import ProtocolConfig

__all__ = ["Http1", "StartsHttp2"]

StartsHttp2 = H2ProtocolAssumedError
"""Raised by `Http1.handle`: the client speaks HTTP/2 from the start; `data` is what it has said."""

_HTTP2_PREFACE = (b"PRI", b"*", b"2.0")
"""How HTTP/2 begins, read as a request of HTTP/1."""
_MORE_MAY_COME = (h11.SEND_BODY, h11.ERROR)


class Http1(H11Protocol):
    """The protocol of one connection. The arguments are Hypercorn's."""

    config: ProtocolConfig

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._emit, self.send = self.send, self._send_or_hold
        self._holds = False
        self._held = b""

    @property
    def has_part_of_head(self) -> bool:
        """Whether the client is in the middle of the head of a request."""
        return self.stream is None and bool(self.connection.trailing_data[0])

    @property
    def expects_more(self) -> bool:
        """Whether the client may still be sending what nobody wants to read."""
        return self.connection.their_state in _MORE_MAY_COME or bool(self.connection.trailing_data[0])

    async def handle(self, event: ConnectionEvent) -> None:
        """Take what the client has sent, or the end of the connection."""
        await super().handle(event)
        connection = self.connection
        if isinstance(connection, H11WSConnection) and connection.h11_connection.our_state is h11.MUST_CLOSE:
            await self.send(Closed())

    async def stream_send(self, event: Event) -> None:
        """Send a part of an answer."""
        self._holds = isinstance(event, Response) and any(name == b"content-length" for name, _ in event.headers)
        if isinstance(event, Response) and event.status_code >= 200 and self.context.terminated.is_set():
            event = replace(event, headers=[*event.headers, (b"connection", b"close")])
        await super().stream_send(event)

    async def farewell(self) -> None:
        """There is nothing to say at the end of a connection."""

    async def _send_or_hold(self, event: ConnectionEvent) -> None:
        if isinstance(event, RawData):
            self._held += event.data
            if self._holds:
                return
        if self._held:
            data, self._held = self._held, b""
            await self._emit(RawData(data))
        if not isinstance(event, RawData):
            await self._emit(event)

    async def _create_stream(self, request: h11.Request) -> None:
        if _size(request) > self.config.h11_max_incomplete_size:
            await self._send_error_response(431)
            await self.send(Closed())
        else:
            await super()._create_stream(request)

    async def _check_protocol(self, event: h11.Request) -> None:
        if self.config.http2 and (event.method, event.target, event.http_version) == _HTTP2_PREFACE:
            raise StartsHttp2(b"PRI * HTTP/2.0\r\n\r\n" + self.connection.trailing_data[0])


def _size(request: h11.Request) -> int:
    """The bytes of a head, as if it were written without blanks: h11 counts only what it cannot read yet."""
    return len(request.target) + sum([len(name) + len(value) for name, value in request.headers])
