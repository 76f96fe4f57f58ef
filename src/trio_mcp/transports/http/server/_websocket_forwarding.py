"""Requests that came over a WebSocket, answered by other processes of the service.

A process takes from the others what it takes over HTTP. So a message is sent as the POST that it would have been over
HTTP, and the messages of the response, JSON or an event stream, go into the link.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import trio
from attrs import define, evolve, field

from ...._errors import McpError
from ....abc import HttpServing
from ....peer import BUSY, IncomingRequest
from ....wire import (
    EVENT_STREAM_TYPE,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    JSON_TYPE,
    MODERN_REVISIONS,
    ErrorReply,
    JsonObject,
    JsonRpcRequest,
    ModernPost,
    Notification,
    Reply,
    SseDecoder,
    encode_request,
    parse_line,
    request_fields,
)
from ._asgi import HttpRequest
from ._channel import ResponseHead
from ._modern import HeaderMirroring
from ._nodes import ANSWERER_ENDED, RequestOwners

__all__ = ["ForwardedMessages"]

_log = logging.getLogger("trio_mcp.transports")

_LONGEST_EVENT = 2**30
"""The processes of a service trust each other."""


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
class ForwardedMessages:
    """The requests of one WebSocket that other processes answer.

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
        owner = self._owners.of_post(post) if post.revision in MODERN_REVISIONS else None
        if owner is None:
            self._serving.answer(exchange)
        elif self._open >= self._serving.limits.max_in_flight:
            exchange.respond(McpError(BUSY, f"too busy: {self._open} requests wait for other processes"))
        else:
            self._forward(exchange, message, owner)

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
