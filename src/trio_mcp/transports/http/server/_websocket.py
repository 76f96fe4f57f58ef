"""MCP over WebSockets, at the path of the endpoint: each message is a text message of its own.

A WebSocket is shown as a stream of lines to a link, so the rules of all streams apply, in every revision.

Rules of this file:

1. Opening a WebSocket is a request: its host, its origin and its access are checked like those of a POST, before it is
   accepted. Browsers send the origin with it, and no page of another origin can read what is sent.
2. Each request needs its scopes, as over HTTP.
3. The connection is closed when its access expires. Its close code tells why: 1001 if the server stops, 3000 if the
   access has expired, 1003 for binary messages, and 1000 otherwise. What breaks the protocol has the codes of `ws`.
4. A process takes from the others of its service what it takes over HTTP. So a message that belongs to another one is
   sent as the POST that it would have been, and the messages of the response, JSON or events, go into the link.

Specification: RFC 6455, https://www.rfc-editor.org/rfc/rfc6455 and
https://asgi.readthedocs.io/en/stable/specs/www.html#websocket
"""

from __future__ import annotations

import binascii
import logging
from collections.abc import Sequence

import trio
from attrs import define, evolve, field

from ...._errors import McpError
from ....abc import HttpServing
from ....peer import BUSY, ExchangeContext, IncomingRequest, Link, Outlet, SenderSlots, note_arrival
from ....wire import (
    EVENT_STREAM_TYPE,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    JSON_TYPE,
    MODERN_REVISIONS,
    ErrorReply,
    Headers,
    JsonObject,
    JsonRpcRequest,
    ModernPost,
    Notification,
    Refusal,
    Reply,
    SseDecoder,
    encode_request,
    parse_line,
    request_fields,
)
from ..ws import Close, CloseCode, WebSocketStream, accept_token
from ._asgi import HttpRequest, RequestAuthorizer
from ._channel import Receive, ResponseHead, Scope, Send, as_bytes
from ._modern import HeaderMirroring
from ._nodes import ANSWERER_ENDED, RequestOwners

__all__ = ["AsgiWebSocket", "DirectWebSocket", "WebSocketLinks", "accept_asgi", "read_opening", "refuse_websocket"]

_log = logging.getLogger("trio_mcp.transports")

_SUBPROTOCOL = "mcp"
_VERSION = "13"
_KEY_BYTES = 16
_RESPONSE_EXTENSION = "websocket.http.response"
_LONGEST_EVENT = 2**30
"""The processes of a service trust each other."""


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


# --- Without ASGI ---


def read_opening(headers: Headers) -> Sequence[tuple[str, str]] | Refusal:
    """Return the header fields that accept a WebSocket, or the refusal of a request that opens none.

    Args:
        headers: the header fields of a GET whose connection is to become a WebSocket.
    """
    if headers.get("sec-websocket-version") != _VERSION:
        return Refusal(426, headers={"upgrade": "websocket", "sec-websocket-version": _VERSION})
    key = headers.get("sec-websocket-key", "")
    try:
        is_key = len(binascii.a2b_base64(key, strict_mode=True)) == _KEY_BYTES
    except ValueError:  # also if it is not ASCII
        is_key = False
    if not is_key:
        return Refusal(400, McpError(INVALID_REQUEST, "the header field Sec-WebSocket-Key is missing or malformed"))
    fields = [("upgrade", "websocket"), ("connection", "upgrade"), ("sec-websocket-accept", accept_token(key))]
    offered = [each.strip() for each in headers.get("sec-websocket-protocol", "").split(",")]
    return [*fields, ("sec-websocket-protocol", _SUBPROTOCOL)] if _SUBPROTOCOL in offered else fields


@define(eq=False)
class DirectWebSocket(WebSocketStream):
    """A WebSocket on a connection of `serve_http`."""

    async def aclose(self) -> None:
        """Do nothing: `WebSocketLinks` closes the WebSocket, and the server the connection."""
        await trio.lowlevel.checkpoint()


# --- ASGI ---


@define(eq=False, repr=False)
class AsgiWebSocket(trio.abc.Stream):
    """The lines that are the messages of a WebSocket of an ASGI server, which looks after its connection."""

    _receive: Receive
    _send: Send
    has_client_closed: bool = field(default=False, init=False)
    """True once the client has closed the WebSocket, or has left."""
    _fault: Close | None = field(default=None, init=False)
    """The close that answers a fault of the client; None if there is none."""
    _has_ended: bool = field(default=False, init=False)
    """True if nothing more is received."""
    _unfinished: bytearray = field(factory=bytearray, init=False)
    """The begin of a line whose rest was not sent yet."""

    async def keep_alive(self) -> None:
        """Return at once: servers of applications look after their connections."""
        await trio.lowlevel.checkpoint()

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
            return text.encode().replace(b"\n", b"\r") + b"\n"  # as in `ws`
        else:
            self._fault = Close(CloseCode.UNSUPPORTED_DATA, "messages are text")
        self._has_ended = True
        return b""

    async def aclose(self) -> None:
        """Receive nothing more; `WebSocketLinks` closes the WebSocket."""
        self._has_ended = True
        await trio.lowlevel.checkpoint()

    async def close_websocket(self, close: Close) -> None:
        """Tell the client why the WebSocket is closed, unless it has closed it."""
        if not self.has_client_closed:
            close = self._fault or close
            await self._send({"type": "websocket.close", "code": int(close.code), "reason": close.reason})


async def accept_asgi(scope: Scope, receive: Receive, send: Send) -> AsgiWebSocket:
    """Accept a WebSocket of an ASGI server."""
    offered = scope.get("subprotocols") or ()
    await send({"type": "websocket.accept", "subprotocol": _SUBPROTOCOL if _SUBPROTOCOL in offered else None})
    return AsgiWebSocket(receive, send)


# --- Requests that other processes answer ---


@define
class _ResponseReader:
    """Finds the messages in a response."""

    _decoder: SseDecoder | None = field(default=None, init=False)
    _body: bytearray = field(factory=bytearray, init=False)

    def feed(self, head: ResponseHead | None, data: bytes, *, more: bool) -> Sequence[bytes]:
        """Return the messages that a part of the response completes."""
        if head is not None and dict(head[1]).get("content-type") == EVENT_STREAM_TYPE:
            self._decoder = SseDecoder(_LONGEST_EVENT)
        if self._decoder is not None:
            return [event.data for event in self._decoder.feed(data) if event.data]
        self._body += data
        return [] if more else [bytes(self._body)]


@define
class _ExchangeEnd:
    """Ends the task of a request with the request, as a `peer.RequestWatch`."""

    _scope: trio.CancelScope

    def answered(self, outcome: JsonObject | McpError) -> None:
        del outcome
        self._scope.cancel(reason="the request was answered")

    def failed(self, kind: str, description: str | None = None) -> None:
        del description
        self._scope.cancel(reason=kind)


@define(eq=False)
class _ForwardedMessages:
    """The requests of one WebSocket, of which other processes answer some (rule 4).

    Args:
        owners: finds these processes.
        serving: answers the requests whose process is gone.
        mirroring: knows the header fields of a request.
        opening: the request that has opened the WebSocket.
        nursery: the nursery of the tasks that wait for responses.
    """

    _owners: RequestOwners
    _serving: HttpServing
    _mirroring: HeaderMirroring
    _opening: HttpRequest
    _nursery: trio.Nursery
    _open: int = field(default=0, init=False)
    """The number of requests that are forwarded now."""

    def answer(self, exchange: IncomingRequest) -> None:
        """Begin to answer a request, here or in its process; synchronous, and never raises."""
        message = JsonRpcRequest(exchange.id, exchange.method, exchange.params)
        post = ModernPost(message, exchange.context.revision)
        destination = self._owners.of_post(post) if post.revision in MODERN_REVISIONS else None
        if destination is None:
            self._serving.answer(exchange)
        elif self._open >= self._serving.limits.max_in_flight:
            exchange.respond(McpError(BUSY, f"too busy: {self._open} requests wait for other processes"))
        else:
            self._forward(exchange, message, destination.owner)

    def _forward(self, exchange: IncomingRequest, message: JsonRpcRequest, owner: str) -> None:
        try:
            request = self._post_of(message)
        except ValueError as fault:
            exchange.respond(McpError(INVALID_PARAMS, str(fault)))
            return
        self._open += 1
        self._nursery.start_soon(self._relay, exchange, owner, request)

    def _post_of(self, message: JsonRpcRequest) -> HttpRequest:
        """Return the POST of a message; raise `ValueError` if it cannot be one."""
        opening = self._opening
        fields = {
            **opening.headers,
            "content-type": JSON_TYPE,
            "accept": f"{JSON_TYPE}, {EVENT_STREAM_TYPE}",
            **request_fields(message.method, message.params),
            **self._mirroring.fields(message, opening.access),
        }
        body = encode_request(message.id, message.method, message.params)
        return evolve(opening, method="POST", query="", headers=fields, body=body)

    async def _relay(self, exchange: IncomingRequest, owner: str, request: HttpRequest) -> None:
        try:
            with trio.CancelScope() as scope:
                exchange.watch(_ExchangeEnd(scope))
                if exchange.open:  # its client has not cancelled it meanwhile
                    await self._answer_through(exchange, owner, request)
        except Exception:  # noqa: BLE001 # a bug must not end the other requests
            _log.exception("forwarding a request of a WebSocket failed")
            _fail(exchange, "the request failed; the server's log says why")
        finally:
            self._open -= 1

    async def _answer_through(self, exchange: IncomingRequest, owner: str, request: HttpRequest) -> None:
        forwarded, reader = self._owners.begin(owner, request), _ResponseReader()
        try:
            while (part := await forwarded.next_part()) is not None:
                head, data, more = part
                for line in reader.feed(head, data, more=more):
                    await self._pass_on(exchange, line)
                forwarded.taken()
                if not more:
                    break
        finally:
            forwarded.leave()
        if forwarded.outcome == "gone" and exchange.open:
            self._serving.answer(exchange)
        else:
            _fail(exchange, ANSWERER_ENDED)

    async def _pass_on(self, exchange: IncomingRequest, line: bytes) -> None:
        """Put a message of the owner into the link, when there is room."""
        message = parse_line(line)
        await exchange.room()
        if isinstance(message, Notification):
            exchange.notify(message.method, message.params or {})
        elif isinstance(message, Reply) and exchange.open:
            exchange.respond(message.result)
        elif isinstance(message, ErrorReply) and exchange.open:
            exchange.respond(McpError(message.code, message.message, message.data))


def _fail(exchange: IncomingRequest, why: str) -> None:
    """Answer with an error, unless the request was answered."""
    if exchange.open:
        exchange.respond(McpError(INTERNAL_ERROR, why))


# --- Links ---


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
    _owners: RequestOwners | None
    """Finds the requests that other processes of the service answer; None if there are no others."""
    _links: set[_WebSocketLink] = field(factory=set[_WebSocketLink], init=False)
    _left: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _is_stopping: bool = field(default=False, init=False)
    _mirroring: HeaderMirroring = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._mirroring = HeaderMirroring(self._serving)

    @property
    def open(self) -> int:
        """The number of open WebSockets."""
        return len(self._links)

    async def serve(self, request: HttpRequest, websocket: DirectWebSocket | AsgiWebSocket) -> None:
        """Serve a WebSocket until either side closes it.

        Args:
            request: the admitted request that has opened it.
            websocket: accepted already.
        """
        async with trio.open_nursery() as nursery:
            link = self._link(request, websocket, nursery)
            self._links.add(link)
            if self._is_stopping:
                link.stop()
            try:
                nursery.start_soon(websocket.keep_alive)
                link.running.deadline = request.access_until
                with link.running:
                    await link.run(drain=True)
                nursery.cancel_scope.cancel()
            finally:
                self._links.discard(link)
                self._left.unpark_all()
        await websocket.close_websocket(self._close_of(link))

    def _close_of(self, link: _WebSocketLink) -> Close:
        """Return why the server closes a WebSocket (rule 3)."""
        if self._is_stopping:
            return Close(CloseCode.GOING_AWAY, "the server stops")
        if link.running.cancelled_caught:
            return Close(CloseCode.UNAUTHORIZED, "the access has expired")
        return Close(CloseCode.NORMAL)

    def _link(
        self, request: HttpRequest, stream: DirectWebSocket | AsgiWebSocket, nursery: trio.Nursery
    ) -> _WebSocketLink:
        serving, answer = self._serving, self._serving.answer
        if self._owners is not None:
            answer = _ForwardedMessages(self._owners, serving, self._mirroring, request, nursery).answer
        envelope = request.envelope

        def notified(method: str, params: JsonObject) -> None:
            serving.notified(method, params, link, envelope)

        link = _WebSocketLink(
            serving.admission(),
            answer,
            notified,
            serving.limits,
            stream,
            send_now=stream.send_now if isinstance(stream, DirectWebSocket) else None,
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
