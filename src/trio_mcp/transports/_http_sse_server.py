"""HTTP+SSE, the transport of 2024-11-05: everything the server says goes out by one event stream.

A client opens the stream with a GET. Its first event, `endpoint`, says where to post; whatever is posted there is
answered with 202, and the rest comes by the stream. The conversation ends with it, and both end with the access of the
client, which each POST may extend. The address is that of the stream with a query, so that both live at the one path of
an application, beside what later revisions have there.

Specification: https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse
"""

from __future__ import annotations

import math
from urllib.parse import parse_qs, quote, urlencode

import trio
from attrs import define, field

from .._errors import ConnectionBroken, McpError
from ..peer import NO_ENVELOPE
from ..wire import PARSE_ERROR, Refusal, Undecodable, decode, sse_event
from ._asgi import HttpRequest
from ._http_lanes import HttpLane, LaneReader
from ._http_response import Responding
from ._http_session import HttpSession

__all__ = ["SseConnection", "addressed_stream"]

_QUERY = "sessionId"
"""What the query of an address begins with; that of the reference implementation, which some logs and proxies know."""
_PATIENCE = 15.0
"""After so many seconds it is looked again whether a call, for which alone a stream is still there, has ended."""


def addressed_stream(request: HttpRequest) -> str | None:
    """Return which stream a POST is addressed to; None where it is none for this transport."""
    values = parse_qs(request.query).get(_QUERY)
    return values[0] if values else None


@define(eq=False)
class SseConnection(HttpSession):
    """One stream, and what is posted for it."""

    _stream: HttpLane = field(init=False)
    _begun_at: float = field(factory=trio.current_time, init=False)
    _access_until: float = field(default=-math.inf, init=False)
    """Until when the access of its client lasts, as far as that has been shown."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._stream = HttpLane(self.limits, self.close, NO_ENVELOPE)

    @property
    def lane(self) -> HttpLane:
        """The stream."""
        return self._stream

    @property
    def deadline(self) -> float:
        """When it ends by itself: soon, unless there is a handshake; else with its stream."""
        return math.inf if self.gate.operating else self._begun_at + self.host.half_open_seconds

    async def get(self, request: HttpRequest, responding: Responding) -> None:
        """Answer the GET that has begun it, to the end."""
        path = request.path.lstrip("/")  # with two slashes at its beginning it would be an address of another host
        address = f"/{quote(path)}?{urlencode({_QUERY: self.id})}"
        reader = self._stream.attach()
        try:
            self._access_until = request.access_until
            with self.visit():
                async with responding.attending(), responding.stream() as stream:
                    await stream.send(sse_event(address.encode(), event="endpoint"))
                    while chunk := await self._next_chunk(reader):
                        await stream.send(chunk)
        finally:
            reader.leave()
            self.close(ConnectionBroken("the client has closed its event stream"))

    async def _next_chunk(self, reader: LaneReader) -> bytes:
        """Return what is to be sent next; empty when there is no more, or the access has ended, and all calls have."""
        while self.ledger.answering or trio.current_time() < self._access_until:
            with trio.CancelScope(deadline=max(self._access_until, trio.current_time() + _PATIENCE)):
                return await reader.next_chunk()
        return b""

    async def post(self, request: HttpRequest, responding: Responding) -> None:
        """Take what was posted."""
        self.speaks_in(responding)
        try:
            value = decode(request.body)
        except Undecodable as exc:
            error = McpError(PARSE_ERROR, f"not a JSON message: {exc}")
            await responding.refuse(Refusal(400, error))
            return
        refusal = self.refusal(value, request)
        if refusal is not None:
            await responding.refuse(refusal)
            return
        self._access_until = max(self._access_until, request.access_until)
        self._stream.envelope = request.envelope
        self.take_value(value, len(request.body), self._stream)
        await responding.empty()

    def _outbox_bytes(self) -> int:
        return self._stream.size
