"""HTTP+SSE, the transport of 2024-11-05: everything the server says goes out by one event stream.

A client opens the stream with a GET. Its first event, `endpoint`, says where to post; whatever is posted there is
answered with 202, and the rest comes by the stream. The conversation ends with it. The address is that of the stream
with a query, so that both live at the one path of an application, beside what later revisions have there.

Specification: https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse
"""

from __future__ import annotations

import math
from urllib.parse import parse_qs, quote, urlencode

import trio
from attrs import define, field

from .._errors import ConnectionBroken, McpError
from ..peer import NO_HEADERS
from ..wire import PARSE_ERROR, Refusal, Undecodable, decode, sse_event
from ._asgi import HttpRequest
from ._http_lanes import HttpLane
from ._http_response import Responding
from ._http_session import HttpSession

__all__ = ["SseConnection", "addressed_stream"]

_QUERY = "sessionId"
"""What the query of an address begins with; that of the reference implementation, which some logs and proxies know."""


def addressed_stream(request: HttpRequest) -> str | None:
    """Return which stream a POST is addressed to; None where it is none for this transport."""
    values = parse_qs(request.query).get(_QUERY)
    return values[0] if values else None


@define(eq=False)
class SseConnection(HttpSession):
    """One stream, and what is posted for it."""

    _stream: HttpLane = field(init=False)
    _begun_at: float = field(factory=trio.current_time, init=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._stream = HttpLane(self.limits, self.close, NO_HEADERS)

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
            with self.visit():
                async with responding.attending(), responding.stream() as stream:
                    await stream.send(sse_event(address.encode(), event="endpoint"))
                    while chunk := await reader.next_chunk():
                        await stream.send(chunk)
        finally:
            reader.leave()
            self.close(ConnectionBroken("the client has closed its event stream"))

    async def post(self, request: HttpRequest, responding: Responding) -> None:
        """Take what was posted."""
        try:
            value = decode(request.body)
        except Undecodable as exc:
            error = McpError(PARSE_ERROR, f"not a JSON message: {exc}")
            await responding.refuse(Refusal(400, error, null_id=not self.gate.omits_unknown_id))
            return
        self._stream.headers = request.shown_headers
        self.take_value(value, len(request.body), self._stream)
        await responding.empty()

    def _outbox_bytes(self) -> int:
        return self._stream.size
