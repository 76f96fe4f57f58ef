"""Exchanges made of messages, whoever carries these: one side of a JSON-RPC conversation, used in both roles.

A correspondent is fed the messages that come in, and puts those that go out into lanes. It owns no task: everything
it does with a message is synchronous.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic
"""

from __future__ import annotations

import abc
import logging
from collections.abc import Callable
from copy import copy
from typing import Any, Generic, Protocol, TypeVar

import trio
from attrs import define, field

from .._errors import ConnectionClosed, ConnectionLost, ErrorResponse, McpError, RemoteProtocolError
from ..wire import (
    INVALID_REQUEST,
    LISTEN,
    BrokenResponse,
    ErrorReply,
    JsonObject,
    JsonRpcRequest,
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
    subscription_id,
)
from ._context import Admission, ExchangeContext
from ._exchange import IncomingMessageRequest, OutgoingMessageRequest, ResponseBatch, UpdateBudget
from ._handler_pool import HandlerSlots
from ._limits import ConnectionStatistics, Limits

__all__ = ["Ledger", "MessageConnection", "Outlet", "QueuedMessage"]


@define(eq=False)
class QueuedMessage:
    """A message in the queue; `line` is empty once it was taken or withdrawn."""

    line: bytes
    urgent: bool


class Outlet(Protocol):
    """Takes whole messages, each a line with its newline, and keeps their order. Only `room` ever waits."""

    def has_room(self) -> bool:
        """Whether `room` would return at once."""
        ...

    async def room(self) -> None:
        """Wait until a message may be queued. If cancelled, nothing was queued.

        Raises:
            ConnectionLost: no message will ever leave again.
        """
        ...

    def put(self, line: bytes) -> QueuedMessage:
        """Queue a message; after `room`, without a checkpoint in between."""
        ...

    def put_urgent(self, line: bytes) -> None:
        """Queue a message that may have had nobody to wait for room: an answer, or a cancellation."""
        ...

    def withdraw(self, entry: QueuedMessage) -> bool:
        """Take back a message; False if it has left already."""
        ...


Asked = TypeVar("Asked")
Answering = TypeVar("Answering")


@define(eq=False)
class Ledger(Generic[Asked, Answering]):
    """Who waits for which id."""

    asked: dict[RequestId, Asked] = field(factory=dict[RequestId, Asked], init=False)
    """Our requests that wait for a response."""
    answering: dict[RequestId, Answering] = field(factory=dict[RequestId, Answering], init=False)
    """The peer's requests that wait for ours."""
    unmatched: int = field(default=0, init=False)
    """Responses that nobody waited for: late ones, and ones never asked for."""
    _issued: int = field(default=0, init=False)

    def issue(self, asked: Asked) -> int:
        """Record a request of ours; return its new id."""
        self._issued += 1
        self.asked[self._issued] = asked
        return self._issued

    def resolve(self, id: RequestId) -> Asked | None:
        """Strike out a request of ours that was answered; None (and a count) where nobody waits for *id*."""
        asked = self.asked.pop(id, None)
        if asked is None:
            self.unmatched += 1
        return asked

    def forget(self, id: RequestId) -> None:
        """Strike out a request of ours that its caller left."""
        self.asked.pop(id, None)

    def begin(self, id: RequestId, answering: Answering) -> bool:
        """Record a request of the peer; False, and nothing recorded, where *id* is running already."""
        return self.answering.setdefault(id, answering) is answering

    def end(self, id: RequestId) -> None:
        """Strike out a request of the peer that was answered or cancelled."""
        self.answering.pop(id, None)


_log = logging.getLogger("trio_mcp.peer")

_SHOWN = 80
"""Bytes of a line which is no message that the log shows."""
_MAX_COMPLAINTS = 10
"""Breaches of the protocol that are logged, of each connection."""
_MAX_REASON = 300
"""Characters of the other side's reason for a cancellation that are kept."""


@define(eq=False)
class MessageConnection(abc.ABC):
    """One side of a conversation made of messages, from its first to its last.

    Args:
        gate: on which terms the other side's messages are admitted.
        answer: called synchronously with every admitted request of the other side. Must not raise.
        notified: called synchronously with the method and params of every notification that belongs to no exchange.
            Must not raise.
        limits: what the connection may cost.
    """

    admission: Admission
    _answer: Callable[[IncomingMessageRequest], None]
    _notified: Callable[[str, JsonObject], None]
    limits: Limits
    ledger: Ledger[OutgoingMessageRequest, IncomingMessageRequest] = field(
        factory=Ledger["OutgoingMessageRequest", "IncomingMessageRequest"], init=False
    )
    budget: UpdateBudget = field(init=False)
    slots: HandlerSlots = field(init=False)
    listens: HandlerSlots = field(init=False)
    """The room for requests that listen for changes."""
    lost: ConnectionLost | None = field(default=None, init=False)
    """Why nothing can be asked any more; None while the connection is up."""
    _losing: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _on_disconnect: list[Callable[[ConnectionLost], None]] = field(
        factory=list["Callable[[ConnectionLost], None]"], init=False
    )
    _resolved: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _malformed: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        limits = self.limits
        self.budget = UpdateBudget(limits.max_updates, limits.max_update_bytes, limits.max_link_update_bytes)
        self.slots = HandlerSlots(limits.max_in_flight, limits.max_queued)
        self.listens = HandlerSlots.for_listens(limits.max_listens)

    @property
    def has_fields(self) -> bool:
        """Whether requests carry header fields: messages by themselves have none."""
        return False

    @property
    @abc.abstractmethod
    def outlet(self) -> Outlet:
        """Where what belongs to no exchange of the other side's goes out."""

    def ask(self, method: str, params: JsonObject | None, *, wants_updates: bool = False) -> OutgoingMessageRequest:
        """Return an exchange to enter; entering sends the request, leaving ends it."""
        return OutgoingMessageRequest(method, params, wants_updates, self.budget, self, self.outlet)

    def ask_in(self, outlet: Outlet, method: str, params: JsonObject | None) -> OutgoingMessageRequest:
        """Return a request to enter that goes out in *lane*, to whoever asked what it belongs to."""
        return OutgoingMessageRequest(method, params, False, self.budget, self, outlet)

    async def notify(self, method: str, params: JsonObject | None) -> None:
        """Send a notification that belongs to no exchange. If cancelled, nothing was sent.

        Raises:
            ConnectionLost: the connection is gone.
            NotJsonError: *params* hold something that JSON cannot say.
        """
        line = encode_notification(method, params)
        await trio.lowlevel.checkpoint()  # there may always be room, and whoever tells on and on shall let others run
        await self.room()
        self.outlet.put(line)

    async def hear_news(self) -> None:
        """Hear what belongs to no exchange: what comes is fed in anyway."""
        await trio.lowlevel.checkpoint()

    def has_room(self) -> bool:
        """Whether `room` would return at once."""
        return self.outlet.has_room()

    def notify_nowait(self, method: str, params: JsonObject) -> None:
        """Queue a notification that belongs to no exchange; there must be room."""
        self.outlet.put(encode_notification(method, params))

    def on_disconnect(self, callback: Callable[[ConnectionLost], None]) -> None:
        """Call *callback* with the reason when nothing can be asked any more; now, if that is so already."""
        if self.lost is None:
            self._on_disconnect.append(callback)
        else:
            callback(copy(self.lost))

    async def room(self) -> None:
        """Wait until a message that belongs to no exchange may be queued; see `room_in`."""
        await self.room_in(self.outlet)

    async def room_in(self, outlet: Outlet) -> None:
        """Wait until a message may be queued in a lane. If cancelled, nothing was queued.

        Raises:
            ConnectionLost: no message will ever leave again, and why: a write that failed is the first sign, and the
                reason (the exit of a child process, say) is known a little later.
        """
        try:
            await outlet.room()
        except ConnectionLost:
            while self.lost is None:
                await self._losing.park()
            raise copy(self.lost) from None

    async def drain(self) -> None:
        """Wait until every accepted request is answered, for a bounded time; those without an end are ended."""
        self.abandon(lambda exchange: exchange.endless)
        with trio.move_on_after(self.limits.drain_seconds):
            while self.ledger.answering:
                await self._resolved.park()

    def abandon(self, is_meant: Callable[[IncomingMessageRequest], bool]) -> None:
        """End those of the other side's requests that are meant: this side stops."""
        for exchange in list(self.ledger.answering.values()):
            if is_meant(exchange):  # asked of each in its turn: abandoning one may break the link, which loses the rest
                exchange.abandon()

    def disconnect(self, reason: ConnectionLost) -> None:
        """Tell all who wait for a response, or will ask for one, that there is none. The first reason stands."""
        if self.lost is not None:
            return
        self.lost = reason
        self._losing.unpark_all()
        for asked in list(self.ledger.asked.values()):
            if isinstance(reason, ConnectionClosed):
                asked.withdraw()
            asked.finish(copy(reason))
        self.ledger.asked.clear()
        for callback in self._on_disconnect:
            callback(copy(reason))

    def take(self, line: bytes | Oversized, outlet: Outlet) -> None:
        """Take one message of the other side, or one array of them; synchronous, and never raises.

        Args:
            line: the message, with or without its newline.
            lane: where the answers go, and all that belongs to their exchanges.
        """
        if isinstance(line, Oversized):
            fault = f"a message may have at most {line.limit} bytes"
            self._on_malformed(Malformed(None, INVALID_REQUEST, fault), outlet)
            return
        message = parse_line(line)
        if isinstance(message, list):
            self._on_batch(message, len(line), outlet)
        elif isinstance(message, Malformed):
            self._on_malformed(message, outlet, line=line)
        else:
            self._on_message(message, len(line), outlet)

    def take_value(self, value: Any, size: int, outlet: Outlet) -> None:
        """Take what somebody else has decoded, as `take` does; *size* is its length on the wire in bytes."""
        if is_array(value):
            self._on_batch(value, size, outlet)
        else:
            self._on_message(parse_message(value), size, outlet)

    def desert(self, outlet: Outlet, reason: ConnectionLost) -> None:
        """Nothing leaves by a lane any more, though the connection is up: what waits in it to be asked fails."""
        for asked in list(self.ledger.asked.values()):
            if asked.waits_in(outlet):
                self.ledger.forget(asked.id)
                asked.finish(copy(reason))

    def detach(self, outlet: Outlet, retry_ms: int | None) -> None:
        """Let the reader of an outlet leave and come back later, if possible; see `IncomingRequest.detach`."""
        del outlet, retry_ms

    def _on_batch(self, values: list[Any], size: int, outlet: Outlet) -> None:
        if not self.admission.batches or not values:
            fault = "an empty batch" if self.admission.batches else "batches exist in revision 2025-03-26 only"
            self._on_malformed(Malformed(None, INVALID_REQUEST, fault), outlet)
            return
        if len(values) > self.limits.max_queued:  # each may need an answer many times its own size
            fault = f"a batch may have at most {self.limits.max_queued} messages"
            self._on_malformed(Malformed(None, INVALID_REQUEST, fault), outlet)
            return
        batch, size = ResponseBatch(outlet), size // len(values)  # what each of them takes, on average
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
                self._complain("a broken response", fault)
                if id is not None:
                    self._on_outcome(id, RemoteProtocolError(f"the response breaks the protocol: {fault}"))
            case _:  # Malformed
                self._on_malformed(message, outlet, batch)

    def _on_malformed(
        self, fault: Malformed, outlet: Outlet, batch: ResponseBatch | None = None, line: bytes = b""
    ) -> None:
        shown = f": {line[:_SHOWN]!r}" if line else ""  # somebody's stray output, most likely
        self._complain("not a message", fault.fault + shown)
        self._refuse(fault.id, McpError(fault.code, fault.fault), outlet, batch)

    def _complain(self, what: str, text: str) -> None:
        """Count what breaks the protocol, and log the first of it: a peer that goes on shall not fill our log."""
        self._malformed += 1
        if self._malformed <= _MAX_COMPLAINTS:
            _log.warning("%s: %.300s", what, text)
        if self._malformed == _MAX_COMPLAINTS:
            _log.warning("whatever else on this connection breaks the protocol is only counted")

    def _refuse(self, id: RequestId | None, error: McpError, outlet: Outlet, batch: ResponseBatch | None) -> None:
        """Answer a request that never became an exchange; the reader cannot wait, so the answer is urgent."""
        if id is not None and id in self.ledger.answering:
            id = None  # with it, the answer would be taken for the one to the request that runs
        if self.admission.may_respond and (id is not None or self.admission.answers_unreadable):
            line = encode_error(id, error.code, error.message, error.data, omit_id=self.admission.omits_unknown_id)
            if batch is None:
                outlet.put_urgent(line)
            else:
                batch.add(line)

    def _on_request(self, request: JsonRpcRequest, outlet: Outlet, batch: ResponseBatch | None) -> None:
        if not self.admission.may_respond:
            self._complain("a request that the server's revision does not allow", request.method)
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
            self.admission.responded(request.method, success=False)
            running = f"a request with the id {request.id!r} is running already"
            self._refuse(request.id, McpError(INVALID_REQUEST, running), outlet, batch)
            return
        if batch is not None:
            batch.expect()
        self.begun(exchange)
        self._answer(exchange)

    def _admit(self, request: JsonRpcRequest, outlet: Outlet) -> ExchangeContext:
        """Return the terms of a request that came by a lane; raises `McpError` where it is refused."""
        del outlet
        return self.admission.admit(request.method, request.params)

    def _on_error(self, id: RequestId | None, error: ErrorResponse) -> None:
        if id is None:
            self._complain("the other side could not read a message", str(error))
        else:
            self._on_outcome(id, error)

    def _on_outcome(self, id: RequestId, outcome: JsonObject | Exception) -> None:
        asked = self.ledger.resolve(id)
        if asked is not None:
            asked.finish(outcome)

    def _on_notification(self, method: str, params: JsonObject, size: int) -> None:
        if method == "notifications/cancelled":
            id = params.get("requestId")
            if is_id(id):
                self._on_cancelled(id, params)
        elif method == "notifications/progress":
            token = params.get("progressToken")
            if is_id(token) and (asked := self.ledger.asked.get(token)) is not None:
                asked.put((method, params), size)
        else:
            subscription = subscription_id(params)
            asked = None if subscription is None else self.ledger.asked.get(subscription)
            if asked is None or not asked.hear(method, params):
                self.admission.notified(method)
                self._notified(method, params)

    def _on_cancelled(self, id: RequestId, params: JsonObject) -> None:
        exchange, asked = self.ledger.answering.get(id), self.ledger.asked.get(id)
        if exchange is not None:
            reason = f"the other side cancelled the request: {params.get('reason', 'no reason given')}"[:_MAX_REASON]
            _log.debug("%s %r: %s", exchange.method, id, reason)
            exchange.cancel(reason)
        elif asked is not None and asked.method == LISTEN:  # the one request of ours that the other side may end so
            self._on_outcome(id, {})

    def begun(self, exchange: IncomingMessageRequest) -> None:
        """Called when a request of the other side has become an exchange, right before it is begun to be answered."""
        del exchange

    def ended(self, exchange: IncomingMessageRequest) -> None:
        """Called by an exchange of the other side at its end, answered or not, right before its answer is queued."""
        self.ledger.end(exchange.id)
        if self._resolved and not self.ledger.answering:
            self._resolved.unpark_all()

    def statistics(self) -> ConnectionStatistics:
        """Return what the connection holds now."""
        return ConnectionStatistics(
            asked=len(self.ledger.asked),
            answering=len(self.ledger.answering),
            running=self.slots.running + self.listens.running,
            queued=self.slots.waiting,
            outbox_bytes=self._outbox_bytes(),
            update_bytes=self.budget.total,
            unmatched_responses=self.ledger.unmatched,
            malformed=self._malformed,
        )

    @abc.abstractmethod
    def _outbox_bytes(self) -> int:
        """Return how many bytes wait in its lanes."""
