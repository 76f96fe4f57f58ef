"""MCP over WebSockets, at the path of the endpoint: each message is a text message of its own.

A WebSocket is shown as a stream of lines to a link, so the rules of all streams apply, in every revision.

Rules of this file:

1. Opening a WebSocket is a request: its host, its origin and its access are checked like those of a POST, before it is
   accepted. Browsers send the origin with it, and no page of another origin can read what is sent.
2. Each request needs its scopes, as over HTTP.
3. The connection is closed when its access expires. Its close code tells why: 1001 if the server stops, 3000 if the
   access has expired, 1003 for binary messages, and 1000 otherwise.
4. A line break in a message is whitespace of JSON. It becomes a carriage return, which is the same to JSON, so that the
   lines of the stream are the messages.

Specification: RFC 6455, https://www.rfc-editor.org/rfc/rfc6455 and
https://asgi.readthedocs.io/en/stable/specs/www.html#websocket
"""

from __future__ import annotations

import logging

import trio
from attrs import define, field

from ...._errors import McpError
from ....abc import HttpServing
from ....peer import ExchangeContext, Link, Outlet, SenderSlots, note_arrival
from ....wire import INVALID_REQUEST, JSON_TYPE, JsonObject, JsonRpcRequest, Refusal
from ._asgi import HttpRequest, RequestAuthorizer
from ._channel import Receive, Scope, Send, as_bytes

__all__ = ["WebSocketLinks", "refuse_websocket"]

_log = logging.getLogger("trio_mcp.transports")

_SUBPROTOCOL = "mcp"
_NORMAL, _STOPPING, _BINARY, _EXPIRED = 1000, 1001, 1003, 3000
"""The close codes of rule 3, by the registry of RFC 6455."""
_RESPONSE_EXTENSION = "websocket.http.response"


async def refuse_websocket(refusal: Refusal, scope: Scope, send: Send) -> None:
    """Refuse to open a WebSocket, with the response to its request if the server of the application can send one.

    Nothing is raised, because servers fail at what a hostile client sends before the response.
    """
    try:
        if _RESPONSE_EXTENSION in (scope.get("extensions") or {}):
            body = refusal.body()
            fields = {**refusal.headers, "content-type": JSON_TYPE, "content-length": str(len(body))}
            start = {"type": f"{_RESPONSE_EXTENSION}.start", "status": refusal.status}
            await send({**start, "headers": as_bytes(fields.items())})
            await send({"type": f"{_RESPONSE_EXTENSION}.body", "body": body})
        else:
            await send({"type": "websocket.close"})
    except Exception:  # noqa: BLE001 # the server of the application may raise anything
        _log.debug("refusing a WebSocket failed", exc_info=True)


@define(eq=False, repr=False)
class _WebSocketStream(trio.abc.Stream):
    """The lines that are the messages of a WebSocket of an ASGI server."""

    _receive: Receive
    _send: Send
    close_code: int = field(default=_NORMAL, init=False)
    """The code with which this side closes the WebSocket."""
    has_client_closed: bool = field(default=False, init=False)
    """True once the client has closed the WebSocket, or has left."""
    _has_ended: bool = field(default=False, init=False)
    """True if nothing more is received."""
    _unfinished: bytearray = field(factory=bytearray, init=False)
    """The begin of a line whose rest was not sent yet."""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send each whole line as a message; keep the rest until its line break is sent."""
        self._unfinished += data
        *lines, self._unfinished = self._unfinished.split(b"\n")
        await trio.lowlevel.checkpoint()
        for line in lines:
            if self.has_client_closed:
                raise trio.BrokenResourceError("the client has closed the WebSocket")
            try:
                await self._send({"type": "websocket.send", "text": line.decode()})
            except OSError as exc:
                raise trio.BrokenResourceError from exc

    async def wait_send_all_might_not_block(self) -> None:
        """Return at once: servers of applications do not tell."""
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return the next message as a line, of any length; nothing after the end of the WebSocket."""
        del max_bytes
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._has_ended:
            return b""
        message = await self._receive()
        text: str | None = message.get("text")
        if message["type"] == "websocket.disconnect":
            self.has_client_closed = True
        elif text is not None:
            return text.encode().replace(b"\n", b"\r") + b"\n"  # rule 4
        else:
            self.close_code = _BINARY
        self._has_ended = True
        return b""

    async def aclose(self) -> None:
        """Receive nothing more; `WebSocketLinks` closes the WebSocket."""
        self._has_ended = True
        await trio.lowlevel.checkpoint()

    async def close_websocket(self) -> None:
        """Send the close code, unless the client has closed the WebSocket."""
        if not self.has_client_closed:
            await self._send({"type": "websocket.close", "code": self.close_code})


@define(eq=False)
class _WebSocketLink(Link):
    """The server's end of a link over a WebSocket."""

    request: HttpRequest = field(kw_only=True)
    """The request that has opened it."""
    authorizer: RequestAuthorizer = field(kw_only=True)
    serving: HttpServing = field(kw_only=True)
    running: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    """The scope in which it runs."""

    def _admit(self, request: JsonRpcRequest, outlet: Outlet) -> ExchangeContext:
        context = super()._admit(request, outlet)
        refusal = self.authorizer.refusal([request], self.request, self.serving)
        if refusal is not None:  # rule 2
            raise refusal.error or McpError(INVALID_REQUEST, "the access does not have the scopes of this request")
        return context.arrived_by(self.request.envelope)


@define(eq=False)
class WebSocketLinks:
    """The open WebSockets of one run of an application."""

    _serving: HttpServing
    _authorizer: RequestAuthorizer
    _links: set[_WebSocketLink] = field(factory=set[_WebSocketLink], init=False)
    _left: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _is_stopping: bool = field(default=False, init=False)

    async def serve(self, request: HttpRequest, scope: Scope, receive: Receive, send: Send) -> None:
        """Accept a WebSocket, and serve it until either side closes it.

        Args:
            request: the admitted request that opens it.
            scope: of ASGI, like the next two.
            receive: of ASGI.
            send: of ASGI.
        """
        offered = scope.get("subprotocols") or ()
        await send({"type": "websocket.accept", "subprotocol": _SUBPROTOCOL if _SUBPROTOCOL in offered else None})
        stream = _WebSocketStream(receive, send)
        link = self._link(request, stream)
        self._links.add(link)
        if self._is_stopping:
            link.stop()
        try:
            link.running.deadline = request.access_until
            with link.running:
                await link.run(drain=True)
        finally:
            self._links.discard(link)
            self._left.unpark_all()
        if self._is_stopping:
            stream.close_code = _STOPPING
        elif link.running.cancelled_caught:
            stream.close_code = _EXPIRED
        await stream.close_websocket()

    def _link(self, request: HttpRequest, stream: _WebSocketStream) -> _WebSocketLink:
        serving = self._serving
        envelope = request.envelope

        def notified(method: str, params: JsonObject) -> None:
            serving.notified(method, params, link, envelope)

        link = _WebSocketLink(
            serving.admission(),
            serving.answer,
            notified,
            serving.limits,
            stream,
            request=request,
            authorizer=self._authorizer,
            serving=serving,
        )
        slots = SenderSlots.of(serving, serving.limits)
        link.slots, link.listens = slots.for_requests(request.sender), slots.for_listens(request.sender)
        note_arrival(serving, link, "websocket")
        return link

    def stop(self) -> None:
        """Accept no more messages; synchronous."""
        self._is_stopping = True
        for link in self._links:
            link.stop()

    async def drained(self) -> None:
        """Wait until all have ended, which each does within a bounded time after `stop`."""
        while self._links:
            await self._left.park()

    def close(self) -> None:
        """End those that are still open; synchronous."""
        for link in self._links:
            link.running.cancel(reason="the server stops")
