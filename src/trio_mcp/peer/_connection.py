"""A connection made of messages: makes exchanges out of JSON-RPC messages and back, on either side, on any transport.

A connection is fed the messages that arrive and puts its own into outlets. It owns no task, and everything it does with
a message is synchronous.

Rules of this file:

1. The ids of our requests count up and are never used again, as every revision requires.
2. The ids of the peer's requests mean something on this connection only, and only while the request is in flight.
3. A peer that bends a rule is served if its message has only one meaning. The log names each broken rule once.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic
"""

from __future__ import annotations

import abc
import logging
import re
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Generic, Protocol, TypeVar

import trio
from attrs import define, field, frozen

from .._errors import ConnectionClosed, ConnectionLost, ErrorResponse, McpError, RemoteProtocolError
from ..wire import (
    INVALID_REQUEST,
    LISTEN,
    BrokenResponse,
    ErrorReply,
    JsonObject,
    JsonRpcRequest,
    Line,
    Malformed,
    Message,
    Notification,
    Oversized,
    Reply,
    RequestId,
    encode_error,
    encode_notification,
    is_array,
    is_id,
    parse_line,
    parse_message,
    parse_reply,
    subscription_id,
)
from ._context import Admission, ExchangeContext
from ._exchange import IncomingMessageRequest, OutgoingMessageRequest, ResponseBatch, UpdateBudget
from ._limits import Limits
from ._slots import HandlerSlots

__all__ = ["ConnectionStatistics", "Ledger", "MessageConnection", "Outlet", "QueuedMessage"]


@define(eq=False)
class QueuedMessage:
    """A message in a queue. `line` is empty once the message was taken for sending, or withdrawn."""

    line: bytes
    urgent: bool


class Outlet(Protocol):
    """A queue of outgoing messages: that of a link, or that of one response stream of a session over HTTP.

    Takes whole messages, each a line with its newline, and keeps their order. Only `room` ever waits.
    """

    @property
    def is_read(self) -> bool:
        """True if something sends its messages, or reads them, at present."""
        ...

    def has_room(self) -> bool:
        """Return True if `room` would return at once."""
        ...

    async def room(self) -> None:
        """Wait until a message may be queued. If cancelled, nothing was queued.

        Raises:
            ConnectionLost: no message can be sent any more.
        """
        ...

    def put(self, line: bytes) -> QueuedMessage:
        """Queue a message. Call it after `room`, without a checkpoint in between."""
        ...

    def put_urgent(self, line: bytes) -> None:
        """Queue a message for which its sender could not wait for room: a response or a cancellation."""
        ...

    def put_pieces(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Queue a message that consists of these pieces, as `put_urgent` does."""
        ...

    def withdraw(self, entry: QueuedMessage) -> bool:
        """Remove a message from the queue; return False if it was sent already."""
        ...


_ISSUED = re.compile("[1-9][0-9]{0,15}")
"""The ids that `Ledger.issue` returns, as text."""

Outgoing = TypeVar("Outgoing")
Incoming = TypeVar("Incoming")


@define(eq=False)
class Ledger(Generic[Outgoing, Incoming]):
    """The record of the requests in flight on one connection, by their ids."""

    outgoing: dict[RequestId, Outgoing] = field(factory=dict[RequestId, Outgoing], init=False)
    """The requests of this side that wait for a response."""
    incoming: dict[RequestId, Incoming] = field(factory=dict[RequestId, Incoming], init=False)
    """The requests of the peer that this side has not answered."""
    unmatched: int = field(default=0, init=False)
    """The number of responses that matched no request: late ones, and ones to unknown ids."""
    issued: int = field(default=0, init=False)

    def issue(self, request: Outgoing) -> int:
        """Record a request of this side; return its new id."""
        self.issued += 1
        self.outgoing[self.issued] = request
        return self.issued

    def meant(self, id: str) -> RequestId:
        """Return the id of the request of this side that *id* stands for: our id 1 may come back as ``"1"``."""
        number = int(id) if id not in self.outgoing and _ISSUED.fullmatch(id) else 0
        return number if number in self.outgoing else id

    def resolve(self, id: RequestId) -> Outgoing | None:
        """Remove and return the request of this side that was answered; count the response if there is none."""
        request = self.outgoing.pop(id, None)
        if request is None:
            self.unmatched += 1
        return request

    def forget(self, id: RequestId) -> None:
        """Remove a request of this side that its caller left."""
        self.outgoing.pop(id, None)

    def begin(self, id: RequestId, request: Incoming) -> bool:
        """Record a request of the peer; return False, and record nothing, if *id* is in flight already."""
        return self.incoming.setdefault(id, request) is request

    def end(self, id: RequestId) -> None:
        """Remove a request of the peer that was answered or cancelled."""
        self.incoming.pop(id, None)


@frozen(kw_only=True)
class ConnectionStatistics:
    """The counts of a connection at one moment, for debugging."""

    outgoing: int
    """The number of requests of this side that wait for a response."""
    incoming: int
    """The number of requests of the peer that wait for a response."""
    running: int
    """The number of handlers that run for the peer, including those that clean up after a cancellation. Connections
    from one address share this number and the next one."""
    queued: int
    """The number of requests of the peer that wait for a handler to end."""
    outbox_bytes: int
    """The number of bytes that wait to be sent."""
    update_bytes: int
    """The number of bytes of updates that wait to be read by callers of this side."""
    unmatched_responses: int
    """The number of responses so far that matched no request: late, repeated or made-up ones."""
    malformed: int
    """The number of lines so far that were not a message, and of responses that broke a rule."""


_log = logging.getLogger("trio_mcp.peer")

_SHOWN = 80
"""How many bytes the log shows of a line that is not a message."""
_MAX_LOGGED_VIOLATIONS = 10
"""How many protocol violations are logged for each connection."""
_LARGE = 64 * 1024
"""The number of bytes from which a message may be worth a look before it is decoded."""
_MAX_REASON = 300
"""How many characters of the peer's reason for a cancellation are kept."""


@define(eq=False)
class MessageConnection(abc.ABC):
    """One side of a connection made of messages.

    Args:
        admission: admits or refuses the requests of the peer.
        answer: called synchronously with every admitted request of the peer. Must not raise.
        notified: called synchronously with the method and params of every notification that belongs to no exchange.
            Must not raise.
        limits: the bounds of the connection.
    """

    admission: Admission
    """Admits or refuses the requests of the peer."""
    _answer: Callable[[IncomingMessageRequest], None]
    _notified: Callable[[str, JsonObject], None]
    limits: Limits
    """The bounds of the connection."""
    ledger: Ledger[OutgoingMessageRequest, IncomingMessageRequest] = field(
        factory=Ledger["OutgoingMessageRequest", "IncomingMessageRequest"], init=False
    )
    """The requests in flight, by id."""
    budget: UpdateBudget = field(init=False)
    """The limits of the updates that wait unread."""
    slots: HandlerSlots = field(init=False)
    """The handler slots of all other requests."""
    listens: HandlerSlots = field(init=False)
    """The handler slots of requests that listen for changes."""
    lost: ConnectionLost | None = field(default=None, init=False)
    """The reason why no request can be sent any more; None while the connection is up."""
    _disconnected: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _on_disconnect: list[Callable[[ConnectionLost], None]] = field(
        factory=list["Callable[[ConnectionLost], None]"], init=False
    )
    _all_answered: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _malformed: int = field(default=0, init=False)
    _bent: set[str] = field(factory=set[str], init=False)
    """The rules that the peer has broken in messages that were understood."""

    def __attrs_post_init__(self) -> None:
        limits = self.limits
        self.budget = UpdateBudget(limits.max_updates, limits.max_update_bytes, limits.max_link_update_bytes)
        self.slots = HandlerSlots(limits.max_in_flight, limits.max_queued)
        self.listens = HandlerSlots.for_listens(limits.max_listens)

    @property
    def has_fields(self) -> bool:
        """True if requests carry header fields. Messages by themselves have none."""
        return False

    @property
    @abc.abstractmethod
    def outlet(self) -> Outlet:
        """The outlet of the messages that belong to no exchange of the peer."""

    def ask(self, method: str, params: JsonObject | None, *, wants_updates: bool = False) -> OutgoingMessageRequest:
        """Return a request: enter it to send it, leave it to end it."""
        return OutgoingMessageRequest(method, params, wants_updates, self.budget, self, self.outlet)

    def ask_in(self, outlet: Outlet, method: str, params: JsonObject | None) -> OutgoingMessageRequest:
        """Return a request that is sent through *outlet*: enter it to send it, leave it to end it."""
        return OutgoingMessageRequest(method, params, False, self.budget, self, outlet)

    def standalone_request(self, method: str, params: JsonObject) -> OutgoingMessageRequest | None:
        """Return a request that belongs to no exchange of the peer; None if it would not reach the peer now."""
        if self.lost is not None or not self.admission.operating or not self.outlet.is_read:
            return None
        return self.ask(method, params)

    async def notify(self, method: str, params: JsonObject | None) -> None:
        """Send a notification that belongs to no exchange. If cancelled, nothing was sent.

        Raises:
            ConnectionLost: the connection was lost.
            NotJsonError: *params* cannot be written as JSON.
        """
        line = encode_notification(method, params)
        await trio.lowlevel.checkpoint()  # if there is always room, a loop of notifications would let no other task run
        await self.room()
        self.outlet.put(line)

    async def open_standalone_stream(self) -> None:
        """Do nothing: the notifications of this connection are always fed in."""
        await trio.lowlevel.checkpoint()

    def has_room(self) -> bool:
        """Return True if `room` would return at once."""
        return self.outlet.has_room()

    def notify_nowait(self, method: str, params: JsonObject) -> None:
        """Queue a notification that belongs to no exchange. There must be room."""
        self.outlet.put(encode_notification(method, params))

    def on_disconnect(self, callback: Callable[[ConnectionLost], None]) -> None:
        """Call *callback* with the reason when the connection is lost, or at once if it was lost already."""
        if self.lost is None:
            self._on_disconnect.append(callback)
        else:
            callback(copy(self.lost))

    async def room(self) -> None:
        """Wait until a message that belongs to no exchange may be queued; see `room_in`."""
        await self.room_in(self.outlet)

    async def room_in(self, outlet: Outlet) -> None:
        """Wait until a message may be queued in *outlet*. If cancelled, nothing was queued.

        Raises:
            ConnectionLost: no message can be sent any more. A failed write is the first sign of that; this waits until
                the reason (for example the exit of a child process) is known.
        """
        try:
            await outlet.room()
        except ConnectionLost:
            raise copy(await self.wait_lost()) from None

    async def wait_lost(self) -> ConnectionLost:
        """Wait until the connection is lost; return the reason."""
        while self.lost is None:
            await self._disconnected.park()
        return self.lost

    async def drain(self) -> None:
        """End the endless requests of the peer, then wait for a bounded time until all others are answered."""
        self.abandon(lambda exchange: exchange.endless)
        with trio.move_on_after(self.limits.drain_seconds):
            while self.ledger.incoming:
                await self._all_answered.park()

    def abandon(self, is_affected: Callable[[IncomingMessageRequest], bool]) -> None:
        """End the requests of the peer for which *is_affected* returns True, because this side stops."""
        for exchange in list(self.ledger.incoming.values()):
            if is_affected(exchange):  # tested one by one: this may break the link, which ends the rest
                exchange.abandon()

    def disconnect(self, reason: ConnectionLost) -> None:
        """Fail every request in flight, and every later one, with *reason*. The first reason stands."""
        if self.lost is not None:
            return
        self.lost = reason
        self._disconnected.unpark_all()
        for request in list(self.ledger.outgoing.values()):
            if isinstance(reason, ConnectionClosed):
                request.withdraw()
            request.finish(copy(reason))
        self.ledger.outgoing.clear()
        while self._on_disconnect:  # those that were called are forgotten: they refer to this connection
            self._on_disconnect.pop(0)(copy(reason))

    def take(self, line: Line | Oversized, outlet: Outlet) -> None:
        """Process one message of the peer, or one batch of them. Synchronous, and never raises.

        Args:
            line: the message, with or without its newline.
            outlet: the outlet for the responses and all other messages of their exchanges.
        """
        if isinstance(line, Oversized):
            fault = f"a message may have at most {line.limit} bytes"
            self._on_malformed(Malformed(None, INVALID_REQUEST, fault), outlet)
            return
        is_kept = len(line) > _LARGE and any(request.keeps_text for request in self.ledger.outgoing.values())
        message = (parse_reply(line, self._keeps_text) if is_kept else None) or parse_line(line)
        if isinstance(message, list):
            self._on_batch(message, len(line), outlet)
        elif isinstance(message, Malformed):
            self._on_malformed(message, outlet, line=line)
        else:
            self._on_message(message, len(line), outlet)

    def _keeps_text(self, id: RequestId) -> bool:
        request = self.ledger.outgoing.get(id)
        return request is not None and request.keeps_text

    def take_value(self, value: Any, size: int, outlet: Outlet, message: Message | None = None) -> None:
        """Process a message that the caller has decoded, as `take` does.

        Args:
            value: the message, or an array of them.
            size: its length on the wire in bytes.
            outlet: see `take`.
            message: what `parse_message` has returned for it, if that is known.
        """
        if is_array(value):
            self._on_batch(value, size, outlet)
        else:
            self._on_message(message or parse_message(value), size, outlet)

    def fail_unsent(self, outlet: Outlet, reason: ConnectionLost) -> None:
        """Fail the requests that are queued in *outlet*, because it was closed while the connection is up."""
        for request in list(self.ledger.outgoing.values()):
            if request.is_queued_in(outlet):
                self.ledger.forget(request.id)
                request.finish(copy(reason))

    def detach(self, outlet: Outlet, retry_ms: int | None) -> None:
        """Let the reader of an outlet disconnect and reconnect later, if possible; see `IncomingRequest.detach`."""
        del outlet, retry_ms

    def _on_batch(self, values: list[Any], size: int, outlet: Outlet) -> None:
        if not self.admission.batches or not values:
            fault = "an empty batch" if self.admission.batches else "batches exist in revision 2025-03-26 only"
            self._on_malformed(Malformed(None, INVALID_REQUEST, fault), outlet)
            return
        if len(values) > self.limits.max_queued:  # because a response may be many times as long as its request
            fault = f"a batch may have at most {self.limits.max_queued} messages"
            self._on_malformed(Malformed(None, INVALID_REQUEST, fault), outlet)
            return
        batch, size = ResponseBatch(outlet), size // len(values)  # the average size of a message
        for value in values:
            message = parse_message(value)
            if isinstance(message, JsonRpcRequest) and message.method == "initialize":
                message = Malformed(message.id, INVALID_REQUEST, "'initialize' cannot be part of a batch")
            self._on_message(message, size, outlet, batch)
        batch.close()

    def _on_message(self, message: Message, size: int, outlet: Outlet, batch: ResponseBatch | None = None) -> None:
        match message:
            case JsonRpcRequest():
                self._on_request(message, outlet, batch)
            case Reply(id=id, result=result):
                self._on_outcome(id, result)
            case Notification(method=method, params=params):
                self._on_notification(method, params or {}, size)
            case ErrorReply(id=id):
                self._on_error(id, ErrorResponse(message.code, message.message, message.data))
            case BrokenResponse(id=id, fault=fault):
                self._log_violation("a broken response", fault)
                if id is not None:
                    self._on_outcome(id, RemoteProtocolError(f"the response breaks the protocol: {fault}"))
            case _:  # Malformed
                self._on_malformed(message, outlet, batch)

    def _on_malformed(
        self, fault: Malformed, outlet: Outlet, batch: ResponseBatch | None = None, line: Line = b""
    ) -> None:
        shown = f": {bytes(line[:_SHOWN])!r}" if line else ""  # most likely stray output of a program
        self._log_violation("not a message", fault.fault + shown)
        self._refuse(fault.id, McpError(fault.code, fault.fault), outlet, batch)

    def _log_violation(self, what: str, detail: str) -> None:
        """Count a protocol violation, and log it if it is one of the first, so that no peer can fill the log."""
        self._malformed += 1
        if self._malformed <= _MAX_LOGGED_VIOLATIONS:
            _log.warning("%s: %.300s", what, detail)
        if self._malformed == _MAX_LOGGED_VIOLATIONS:
            _log.warning("further protocol violations on this connection are only counted")

    def note_bent(self, rule: str, detail: str) -> None:
        """Log, once for each *rule*, that the peer breaks it in a message that is understood nevertheless."""
        if rule not in self._bent:
            self._bent.add(rule)
            _log.warning("the peer breaks the protocol, and is understood: %s: %.300s", rule, detail)

    def _refuse(self, id: RequestId | None, error: McpError, outlet: Outlet, batch: ResponseBatch | None) -> None:
        """Send an error for a request that became no exchange. Urgent, because the reader cannot wait for room."""
        if id is not None and id in self.ledger.incoming:
            id = None  # else the peer would take the error for the response to the request in flight
        if self.admission.may_respond and (id is not None or self.admission.answers_unreadable):
            line = encode_error(id, error.code, error.message, error.data, omit_id=self.admission.omits_unknown_id)
            if batch is None:
                outlet.put_urgent(line)
            else:
                batch.add(line)

    def _on_request(self, request: JsonRpcRequest, outlet: Outlet, batch: ResponseBatch | None) -> None:
        if not self.admission.may_respond:
            self._log_violation("a request that the server's revision does not allow", request.method)
            return
        try:
            context = self._admit(request, outlet)
        except McpError as error:
            self._refuse(request.id, error, outlet, batch)
            return
        exchange = IncomingMessageRequest(
            request.method, request.params, context, request.id, self, self, outlet, batch
        )
        if not self.ledger.begin(request.id, exchange):
            if request.method == "initialize":
                self.admission.answered_handshake(context, success=False)
            running = f"a request with the id {request.id!r} is in flight already"
            self._refuse(request.id, McpError(INVALID_REQUEST, running), outlet, batch)
            return
        if batch is not None:
            batch.expect()
        self.begun(exchange)
        self._answer(exchange)

    def _admit(self, request: JsonRpcRequest, outlet: Outlet) -> ExchangeContext:
        """Return the context of a request that arrived for *outlet*; raise `McpError` to refuse it."""
        del outlet
        return self.admission.admit(request.method, request.params)

    def _on_error(self, id: RequestId | None, error: ErrorResponse) -> None:
        if id is None:
            self._log_violation("the peer could not read a message", str(error))
        else:
            self._on_outcome(id, error)

    def _on_outcome(self, id: RequestId, outcome: JsonObject | Exception) -> None:
        request = self.ledger.resolve(self.meant_id(id) if isinstance(id, str) else id)
        if request is not None:
            request.finish(outcome)

    def meant_id(self, id: str) -> RequestId:
        """Return the id of the request that the peer answers with *id*, which may be no request of ours."""
        meant = self.ledger.meant(id)
        if meant != id:
            self.note_bent("a response has the id of its request as a string", f"{id!r} instead of {meant}")
        return meant

    def _on_notification(self, method: str, params: JsonObject, size: int) -> None:
        if method == "notifications/cancelled":
            id = params.get("requestId")
            if is_id(id):
                self._on_cancelled(id, params)
        elif method == "notifications/progress":
            token = params.get("progressToken")
            if is_id(token) and (request := self.ledger.outgoing.get(token)) is not None:
                request.put((method, params), size)
        else:
            subscription = subscription_id(params)
            request = None if subscription is None else self.ledger.outgoing.get(subscription)
            if request is None or not request.deliver(method, params):
                self.admission.notified(method)
                self._on_other_notification(method, params)

    def _on_other_notification(self, method: str, params: JsonObject) -> None:
        """Take a notification that names no exchange."""
        self._notified(method, params)

    def _on_cancelled(self, id: RequestId, params: JsonObject) -> None:
        exchange, request = self.ledger.incoming.get(id), self.ledger.outgoing.get(id)
        if exchange is not None:
            reason = f"the peer cancelled the request: {params.get('reason', 'no reason given')}"[:_MAX_REASON]
            _log.debug("%s %r: %s", exchange.method, id, reason)
            exchange.cancel(reason)
        elif request is not None and request.method == LISTEN:  # the only request that its receiver may end this way
            self._on_outcome(id, {})

    def begun(self, exchange: IncomingMessageRequest) -> None:
        """Do what a subclass needs when a request of the peer became an exchange, right before it is answered."""
        del exchange

    def ended(self, exchange: IncomingMessageRequest) -> None:
        """Forget a request of the peer that ended, answered or not. Called right before its response is queued."""
        self.ledger.end(exchange.id)
        if self._all_answered and not self.ledger.incoming:
            self._all_answered.unpark_all()

    def statistics(self) -> ConnectionStatistics:
        """Return the present counts of the connection."""
        return ConnectionStatistics(
            outgoing=len(self.ledger.outgoing),
            incoming=len(self.ledger.incoming),
            running=self.slots.running + self.listens.running,
            queued=self.slots.waiting,
            outbox_bytes=self._outbox_bytes(),
            update_bytes=self.budget.total,
            unmatched_responses=self.ledger.unmatched,
            malformed=self._malformed,
        )

    @abc.abstractmethod
    def _outbox_bytes(self) -> int:
        """Return the number of bytes that wait in the outlets of the connection."""
