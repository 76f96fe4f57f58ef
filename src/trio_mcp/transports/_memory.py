"""Connections inside one process, without bytes: an exchange goes directly from the caller to the handler.

Nothing is shared: params, updates and results are copied as if they were sent. A handler that changes its arguments
does not change those of its caller, and values that are not JSON are refused as on other transports.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from copy import copy
from typing import Any

import trio
from attrs import define, field

from .._errors import ConnectionClosed, ConnectionLost, ErrorResponse, LocalProtocolError, McpError
from ..abc import Answerer, Direction, Serving, Tap, Transport, TransportClient, TransportOpener
from ..peer import (
    Admission,
    ConnectionStatistics,
    ExchangeState,
    HandlerSlots,
    IncomingRequest,
    Limits,
    OutgoingRequest,
    UpdateBudget,
    note_arrival,
)
from ..wire import (
    INTERNAL_ERROR,
    JsonObject,
    NotJsonError,
    copy_json,
    decode,
    encode,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
)

__all__ = ["memory_transport"]

_log = logging.getLogger("trio_mcp.transports")

_UNREAD_BEFORE_YIELDING = 64
"""How many updates may wait before a handler lets other tasks run at each further update."""


def memory_transport(answerer: Answerer) -> TransportOpener:
    """Return an opener of direct connections to *answerer*. Each connection serves it while it is open."""

    @asynccontextmanager
    async def connect(client: TransportClient) -> AsyncGenerator[Transport]:
        async with answerer.serving() as serving:
            transport = _MemoryTransport(client, serving)
            try:
                yield transport
            finally:
                transport.close()

    return connect


@define(eq=False)
class _MemoryEnd:
    """One end of a connection, as the other end sees it."""

    admission: Admission
    """The admission of its requests at the other end."""
    limits: Limits
    """The limits that the other end sets for it."""
    answer: Callable[[IncomingRequest], None]
    """Answers its requests at the other end."""
    notified: Callable[[str, JsonObject], None]
    """Takes the notifications that are sent to it."""
    budget: UpdateBudget
    """The limits of its unread updates."""
    _tap: Tap | None
    _directions: Sequence[Direction]
    """The direction of its requests, and that of the responses, as the tap names them."""
    slots: HandlerSlots = field(init=False)
    listens: HandlerSlots = field(init=False)
    outgoing: dict[int, _OutgoingMemoryRequest] = field(factory=dict[int, "_OutgoingMemoryRequest"], init=False)
    lost: ConnectionLost | None = field(default=None, init=False)
    """The reason why the connection was closed; None while it is up."""
    other: _MemoryEnd | None = field(default=None, init=False)
    """The other end; None after the connection was closed, because references in a circle would outlive it."""
    _issued: int = field(default=0, init=False)
    _on_disconnect: list[Callable[[ConnectionLost], None]] = field(
        factory=list["Callable[[ConnectionLost], None]"], init=False
    )

    def __attrs_post_init__(self) -> None:
        self.slots = HandlerSlots(self.limits.max_in_flight, self.limits.max_queued)
        self.listens = HandlerSlots.for_listens(self.limits.max_listens)

    def has_room(self) -> bool:
        return self.lost is None

    async def room(self) -> None:
        await trio.lowlevel.checkpoint()
        if self.lost is not None:
            raise copy(self.lost)

    def notify_nowait(self, method: str, params: JsonObject) -> None:
        copied = copy_json(params)
        self.show_answer(encode_notification, method, copied)
        self.notified(method, copied)

    def standalone_request(self, method: str, params: JsonObject) -> OutgoingRequest | None:
        if self.other is None or not self.admission.operating:
            return None
        return _OutgoingMemoryRequest(method, params, False, self.other.budget, self.other, self)

    def show_request(self, encode: Callable[..., bytes], *message: Any) -> None:
        """Show the tap, if there is one, the message that this end would have sent."""
        if self._tap is not None:
            self._tap(self._directions[0], encode(*message)[:-1])

    def show_answer(self, encode: Callable[..., bytes], *message: Any) -> None:
        """Show the tap, if there is one, the message that this end would have received."""
        if self._tap is not None:
            self._tap(self._directions[1], encode(*message)[:-1])

    def on_disconnect(self, callback: Callable[[ConnectionLost], None]) -> None:
        if self.lost is None:
            self._on_disconnect.append(callback)
        else:
            callback(copy(self.lost))

    def issue(self, request: _OutgoingMemoryRequest) -> int:
        self._issued += 1
        self.outgoing[self._issued] = request
        return self._issued

    def disconnect(self, reason: ConnectionLost) -> None:
        """Close this end of the connection."""
        self.lost, self.other = reason, None
        for callback in self._on_disconnect:
            callback(copy(reason))
        for request in list(self.outgoing.values()):
            request.disconnect(reason)


@define(eq=False)
class _MemoryTransport:
    """The transport of one direct connection."""

    client: TransportClient
    serving: Serving
    ours: _MemoryEnd = field(init=False)
    """The client's end, as the server sees it."""
    theirs: _MemoryEnd = field(init=False)
    """The server's end, as the client sees it."""

    def __attrs_post_init__(self) -> None:
        client, serving = self.client, self.serving
        self.ours = _MemoryEnd(
            serving.admission(),
            serving.limits,
            serving.answer,
            client.notified,
            _budget(client.limits),
            client.tap,
            ("sent", "received"),
        )
        note_arrival(serving, self.ours, "memory")
        self.theirs = _MemoryEnd(
            client.admission,
            client.limits,
            client.answer,
            self._notified,
            _budget(serving.limits),
            client.tap,
            ("received", "sent"),
        )
        self.ours.other, self.theirs.other = self.theirs, self.ours

    @property
    def has_fields(self) -> bool:
        return False

    def ask(self, method: str, params: JsonObject | None, *, wants_updates: bool = False) -> OutgoingRequest:
        return _OutgoingMemoryRequest(method, params, wants_updates, self.ours.budget, self.ours, self.theirs)

    async def notify(self, method: str, params: JsonObject | None) -> None:
        await self.ours.room()
        self.theirs.notify_nowait(method, params or {})

    async def open_standalone_stream(self) -> None:
        await trio.lowlevel.checkpoint()  # notifications always arrive

    def _notified(self, method: str, params: JsonObject) -> None:
        self.ours.admission.notified(method)
        self.serving.notified(method, params, self.ours)

    def on_disconnect(self, callback: Callable[[ConnectionLost], None]) -> None:
        self.ours.on_disconnect(callback)

    def statistics(self) -> ConnectionStatistics:
        ours = self.ours
        return ConnectionStatistics(
            outgoing=len(ours.outgoing),
            incoming=len(ours.outgoing),
            running=ours.slots.running + ours.listens.running,
            queued=ours.slots.waiting,
            outbox_bytes=0,
            update_bytes=ours.budget.total,
            unmatched_responses=0,
            malformed=0,
        )

    def close(self) -> None:
        lost = ConnectionClosed("this side closed the connection")
        self.ours.disconnect(lost)
        self.theirs.disconnect(lost)


def _budget(limits: Limits) -> UpdateBudget:
    """Return the limits of the updates that one side keeps unread."""
    return UpdateBudget(limits.max_updates, limits.max_update_bytes, limits.max_link_update_bytes)


@define(eq=False)
class _OutgoingMemoryRequest(OutgoingRequest):
    """The requesting end of a request."""

    end: _MemoryEnd
    """The end that sends the request."""
    _other: _MemoryEnd
    _exchange: _IncomingMemoryRequest | None = field(default=None, init=False)

    def _has_room(self) -> bool:
        return self.end.lost is None

    async def _room(self) -> None:
        if self.end.lost is not None:
            raise copy(self.end.lost)

    def _send(self) -> None:
        end, params = self.end, self.params
        self.id = end.issue(self)
        if self.wants_updates or self.deadline != math.inf:
            params = self._stamped()
        try:
            params = copy_json(params)
        except NotJsonError as exc:
            self.ended()
            raise LocalProtocolError(f"the params of {self.method!r} cannot be sent: {exc}") from None
        end.show_request(encode_request, self.id, self.method, params)
        if self.span is not None:
            self.span.sent(self.id)
        try:
            context = end.admission.admit(self.method, params)
        except McpError as error:
            self.resolve(error)
            return
        self._exchange = _IncomingMemoryRequest(self.method, params, context, self.id, end, self, self._other)
        end.answer(self._exchange)

    def _cancel(self) -> None:
        exchange = self.ended()
        if self.method != "initialize":  # the protocol forbids to cancel it
            assert exchange is not None
            self.end.show_request(encode_notification, "notifications/cancelled", {"requestId": self.id})
            exchange.cancel("the caller left")

    def disconnect(self, reason: ConnectionLost) -> None:
        """Fail the request, because the connection was closed."""
        self.finish(copy(reason))
        exchange = self.ended()
        assert exchange is not None
        exchange.disconnect()

    def resolve(self, outcome: JsonObject | McpError) -> None:
        """Take the response."""
        if self.state is ExchangeState.CANCELLED:  # an `initialize` that its caller left
            return
        self.ended()
        if isinstance(outcome, McpError):
            self.end.show_answer(encode_error, self.id, outcome.code, outcome.message, outcome.data)
            self.finish(ErrorResponse(outcome.code, outcome.message, outcome.data))
        else:
            self.end.show_answer(encode_result, self.id, outcome)
            self.finish(outcome)

    def ended(self) -> _IncomingMemoryRequest | None:
        """Forget the request; return its answering end, which is not referred to from here any more."""
        self.end.outgoing.pop(self.id, None)
        exchange, self._exchange = self._exchange, None  # breaks a reference cycle, for the garbage collector
        return exchange


@define(eq=False)
class _IncomingMemoryRequest(IncomingRequest):
    """The answering end of a request."""

    _request: _OutgoingMemoryRequest
    _answering: _MemoryEnd
    """The end that answers, as the requesting end sees it."""

    def ask(self, method: str, params: JsonObject | None) -> OutgoingRequest:
        answering, asking = self._answering, self._request.end
        return _OutgoingMemoryRequest(method, params, False, answering.budget, answering, asking)

    def has_room(self) -> bool:
        return self._request.waiting < _UNREAD_BEFORE_YIELDING

    async def room(self) -> None:
        await trio.lowlevel.checkpoint()  # lets the reader run; a handler never waits for a reader that does not read

    def _send(self, outcome: JsonObject | McpError) -> None:
        try:
            copied = _copied_error(outcome) if isinstance(outcome, McpError) else copy_json(outcome)
        except NotJsonError as exc:
            _log.error("the answer to %r cannot be sent: %s", self.method, exc)
            copied = McpError(INTERNAL_ERROR, "the answer is not JSON; the server's log says where")
        if self.method == "initialize":
            self.peer.admission.answered_handshake(self.context, success=not isinstance(copied, McpError))
        self._request.resolve(copied)

    def _notify(self, method: str, params: JsonObject) -> None:
        data = encode(params)
        copied: JsonObject = decode(data)
        end = self._request.end
        end.show_answer(encode_notification, method, copied)
        if method == "notifications/progress":
            self._request.put((method, copied), len(data))
        elif not self._request.deliver(method, copied):  # as on a connection, only these name their request
            end.notified(method, copied)

    def _end(self) -> None:
        """Do nothing: the requesting end keeps the record."""


def _copied_error(error: McpError) -> McpError:
    return McpError(error.code, *copy_json([error.message, error.data]))
