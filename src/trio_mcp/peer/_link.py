"""Exchanges made of messages: one duplex connection that carries JSON-RPC lines, used in both roles.

A link owns two tasks: its reader and its outbox's writer. The reader waits for bytes and for nothing else;
everything it does with a message is synchronous.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from copy import copy
from typing import Any

import trio
from attrs import define, field

from .._errors import ConnectionBroken, ConnectionClosed, ConnectionLost, ErrorResponse, McpError, RemoteProtocolError
from ..wire import (
    INVALID_REQUEST,
    LISTEN,
    BrokenResponse,
    ErrorReply,
    JsonObject,
    Ledger,
    LineFramer,
    Malformed,
    Message,
    Notification,
    Oversized,
    Reply,
    Request,
    RequestId,
    encode_error,
    encode_notification,
    is_id,
    parse_line,
    parse_message,
    subscription_id,
)
from ._asked import UpdateBudget
from ._gate import Gate
from ._limits import Limits
from ._link_exchanges import AskedOverLink, Batch, ExchangeOverLink
from ._outbox import Outbox
from ._slots import Slots
from ._statistics import ConnectionStatistics

__all__ = ["Link"]

_log = logging.getLogger("trio_mcp.peer")

_READ_BYTES = 64 * 1024
_MAX_READ_BYTES = 1024 * 1024
_SHOWN = 80
"""Bytes of a line which is no message that the log shows."""
_MAX_COMPLAINTS = 10
"""Breaches of the protocol that are logged, of each connection."""
_MAX_REASON = 300
"""Characters of the other side's reason for a cancellation that are kept."""
_LINES_AT_ONCE = 16
"""After so many lines of one read, what they have begun may go out: else the two processes work in turns."""
_FLUSH_SECONDS = 1.0
"""How long a link that is closed from our side may take to send what is queued."""


@define(eq=False)
class Link:
    """One connection that carries lines, from its first byte to its last.

    Args:
        stream: carries the bytes. The link closes it.
        gate: on which terms the other side's messages are admitted.
        answer: called synchronously with every admitted request of the other side. Must not raise.
        notified: called synchronously with the method and params of every notification that belongs to no exchange.
            Must not raise.
        limits: what the connection may cost.
    """

    stream: trio.abc.Stream
    gate: Gate
    _answer: Callable[[ExchangeOverLink], None]
    _notified: Callable[[str, JsonObject], None]
    limits: Limits
    ledger: Ledger[AskedOverLink, ExchangeOverLink] = field(
        factory=Ledger["AskedOverLink", "ExchangeOverLink"], init=False
    )
    outbox: Outbox = field(init=False)
    budget: UpdateBudget = field(init=False)
    slots: Slots = field(init=False)
    listens: Slots = field(init=False)
    """The room for requests that listen for changes."""
    lost: ConnectionLost | None = field(default=None, init=False)
    """Why nothing can be asked any more; None while the link is up."""
    _stopped: bool = field(default=False, init=False)
    _reading: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _losing: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _when_lost: list[Callable[[ConnectionLost], None]] = field(
        factory=list["Callable[[ConnectionLost], None]"], init=False
    )
    _settled: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _malformed: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        limits = self.limits
        self.outbox = Outbox(limits.outbox_bytes, limits.outbox_urgent_bytes, self._on_outbox_failure)
        self.budget = UpdateBudget(limits.max_updates, limits.max_update_bytes, limits.max_link_update_bytes)
        self.slots = Slots(limits.max_in_flight, limits.max_queued)
        self.listens = Slots.for_listens(limits.max_listens)

    def ask(self, method: str, params: JsonObject | None, *, wants_updates: bool = False) -> AskedOverLink:
        """Return an exchange to enter; entering sends the request, leaving ends it."""
        return AskedOverLink(method, params, wants_updates, self.budget, self)

    async def notify(self, method: str, params: JsonObject | None) -> None:
        """Send a notification that belongs to no exchange. If cancelled, nothing was sent.

        Raises:
            ConnectionLost: the connection is gone.
            NotJsonError: *params* hold something that JSON cannot say.
        """
        line = encode_notification(method, params)
        await self.room()
        self.outbox.put(line)

    def has_room(self) -> bool:
        """Whether `room` would return at once."""
        return self.outbox.has_room()

    def tell(self, method: str, params: JsonObject) -> None:
        """Queue a notification that belongs to no exchange; there must be room."""
        self.outbox.put(encode_notification(method, params))

    def when_lost(self, tell: Callable[[ConnectionLost], None]) -> None:
        """Call *tell* with the reason when nothing can be asked any more; now, if that is so already."""
        if self.lost is None:
            self._when_lost.append(tell)
        else:
            tell(copy(self.lost))

    async def room(self) -> None:
        """Wait until a message may be queued. If cancelled, nothing was queued.

        Raises:
            ConnectionLost: no message will ever leave again, and why: a write that failed is the first sign, and the
                reason (the exit of a child process, say) is known a little later.
        """
        try:
            await self.outbox.room()
        except ConnectionLost:
            while self.lost is None:
                await self._losing.park()
            raise copy(self.lost) from None

    async def run(self, *, drain: bool, why_lost: Callable[[], ConnectionLost] | None = None) -> None:
        """Carry messages until the other side's input ends, the link breaks, or `stop`; then close the stream.

        Cancelled, it closes the stream after a bounded flush; what waits for an answer is told `ConnectionClosed`.

        Args:
            drain: let accepted requests of the other side go on for `Limits.drain_seconds` after the input has ended.
            why_lost: names the reason for an unexpected end; asked for when it has come.
        """
        sending, flush_seconds = trio.CancelScope(shield=True), _FLUSH_SECONDS
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send, sending)
                try:
                    await self._read()
                    self._lose(self._reason(why_lost))
                    if drain and self.outbox.failure is None:
                        flush_seconds = self.limits.drain_seconds
                        await self._drain()
                finally:
                    self._lose(ConnectionClosed("this side closed the connection"))
                    await self._wind_down(flush_seconds)
                    sending.cancel()
        finally:
            # Shielded, because a `Cancelled` raised here would take the place of a stream's own exception. It is
            # forceful, so it does not wait.
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(self.stream)

    async def _send(self, sending: trio.CancelScope) -> None:
        # Shielded, because the last words are said after a cancellation, too; `run` ends it after a bounded time.
        with sending:
            await self.outbox.drain(self.stream.send_all, self.limits.stall_seconds)

    def stop(self) -> None:
        """Accept no more messages: `run` drains, flushes and returns. Synchronous; harmless when repeated."""
        self._stopped = True
        self._reading.cancel(reason="stopped")

    def _reason(self, why_lost: Callable[[], ConnectionLost] | None) -> ConnectionLost:
        if self._stopped:
            return ConnectionClosed("this side closed the connection")
        if self.outbox.failure is not None and self._reading.cancelled_caught:
            return self.outbox.failure
        return why_lost() if why_lost else ConnectionBroken("the other side ended the connection")

    async def _drain(self) -> None:
        """Wait until every accepted request is answered, for a bounded time; those without an end are ended."""
        self._abandon(lambda exchange: exchange.endless)
        with trio.move_on_after(self.limits.drain_seconds):
            while self.ledger.answering:
                await self._settled.park()

    async def _wind_down(self, flush_seconds: float) -> None:
        self._abandon(lambda exchange: exchange.open)
        with trio.move_on_after(flush_seconds, shield=True):
            await self.outbox.flush()
        assert self.lost is not None
        self.outbox.fail(self.lost)

    def _abandon(self, is_meant: Callable[[ExchangeOverLink], bool]) -> None:
        for exchange in list(self.ledger.answering.values()):
            if is_meant(exchange):  # asked of each in its turn: abandoning one may break the link, which loses the rest
                exchange.abandon()

    def _lose(self, reason: ConnectionLost) -> None:
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
        for tell in self._when_lost:
            tell(copy(reason))

    def _on_outbox_failure(self, failure: ConnectionLost) -> None:
        for exchange in list(self.ledger.answering.values()):
            exchange.lose()
        if self.outbox.deaf:
            self._reading.cancel(reason=str(failure))
        else:  # it closed its input, but may have answered before: what is under way is still read
            self._reading.deadline = trio.current_time() + self.limits.drain_seconds

    async def _read(self) -> None:
        framer, size = LineFramer(self.limits.max_message_bytes), _READ_BYTES
        with self._reading:
            try:
                while chunk := await self.stream.receive_some(size):
                    for count, line in enumerate(framer.feed(bytes(chunk)), 1):
                        self._on_line(line)
                        if count % _LINES_AT_ONCE == 0:
                            await trio.lowlevel.cancel_shielded_checkpoint()
                    size = min(2 * size, _MAX_READ_BYTES) if len(chunk) == size else _READ_BYTES
                for line in framer.finish():
                    self._on_line(line)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass

    def _on_line(self, line: bytes | Oversized) -> None:
        if isinstance(line, Oversized):
            self._on_malformed(Malformed(None, INVALID_REQUEST, f"a message may have at most {line.limit} bytes"))
            return
        message = parse_line(line)
        if isinstance(message, list):
            self._on_batch(message, len(line))
        elif isinstance(message, Malformed):
            self._on_malformed(message, line=line)
        else:
            self._on_message(message, len(line))

    def _on_batch(self, values: list[Any], size: int) -> None:
        if not self.gate.batches or not values:
            fault = "an empty batch" if self.gate.batches else "batches exist in revision 2025-03-26 only"
            self._on_malformed(Malformed(None, INVALID_REQUEST, fault))
            return
        if len(values) > self.limits.max_queued:  # each may need an answer many times its own size
            fault = f"a batch may have at most {self.limits.max_queued} messages"
            self._on_malformed(Malformed(None, INVALID_REQUEST, fault))
            return
        batch, size = Batch(self.outbox), size // len(values)  # what each of them takes, on average
        for value in values:
            message = parse_message(value)
            if isinstance(message, Request) and message.method == "initialize":
                message = Malformed(message.id, INVALID_REQUEST, "'initialize' cannot be part of a batch")
            self._on_message(message, size, batch)
        batch.close()

    def _on_message(self, message: Message, size: int, batch: Batch | None = None) -> None:
        match message:
            case Request():
                self._on_request(message, batch)
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
                self._on_malformed(message, batch)

    def _on_malformed(self, fault: Malformed, batch: Batch | None = None, line: bytes = b"") -> None:
        shown = f": {line[:_SHOWN]!r}" if line else ""  # somebody's stray output, most likely
        self._complain("not a message", fault.fault + shown)
        self._refuse(fault.id, McpError(fault.code, fault.fault), batch)

    def _complain(self, what: str, text: str) -> None:
        """Count what breaks the protocol, and log the first of it: a peer that goes on shall not fill our log."""
        self._malformed += 1
        if self._malformed <= _MAX_COMPLAINTS:
            _log.warning("%s: %.300s", what, text)
        if self._malformed == _MAX_COMPLAINTS:
            _log.warning("whatever else on this connection breaks the protocol is only counted")

    def _refuse(self, id: RequestId | None, error: McpError, batch: Batch | None) -> None:
        """Answer a request that never became an exchange; the reader cannot wait, so the answer is urgent."""
        if id is not None and id in self.ledger.answering:
            id = None  # with it, the answer would be taken for the one to the request that runs
        if self.gate.may_respond and (id is not None or self.gate.answers_unreadable):
            line = encode_error(id, error.code, error.message, error.data, omit_id=self.gate.omits_unknown_id)
            if batch is None:
                self.outbox.put_urgent(line)
            else:
                batch.add(line)

    def _on_request(self, request: Request, batch: Batch | None) -> None:
        if not self.gate.may_respond:
            self._complain("a request that the server's revision does not allow", request.method)
            return
        try:
            context = self.gate.admit(request.method, request.params)
        except McpError as error:
            self._refuse(request.id, error, batch)
            return
        exchange = ExchangeOverLink(request.method, request.params, context, request.id, self, self, batch)
        if not self.ledger.begin(request.id, exchange):
            self.gate.responded(request.method, success=False)
            running = f"a request with the id {request.id!r} is running already"
            self._refuse(request.id, McpError(INVALID_REQUEST, running), batch)
            return
        if batch is not None:
            batch.expect()
        self._answer(exchange)

    def _on_error(self, id: RequestId | None, error: ErrorResponse) -> None:
        if id is None:
            self._complain("the other side could not read a message", str(error))
        else:
            self._on_outcome(id, error)

    def _on_outcome(self, id: RequestId, outcome: JsonObject | Exception) -> None:
        asked = self.ledger.settle(id)
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
                self.gate.notified(method)
                self._notified(method, params)

    def _on_cancelled(self, id: RequestId, params: JsonObject) -> None:
        exchange, asked = self.ledger.answering.get(id), self.ledger.asked.get(id)
        if exchange is not None:
            reason = f"the other side cancelled the request: {params.get('reason', 'no reason given')}"[:_MAX_REASON]
            _log.debug("%s %r: %s", exchange.method, id, reason)
            exchange.cancel(reason)
        elif asked is not None and asked.method == LISTEN:  # the one request of ours that the other side may end so
            self._on_outcome(id, {})

    def ended(self, exchange: ExchangeOverLink) -> None:
        """Called by an exchange of this link at its end, answered or not."""
        self.ledger.end(exchange.id)
        if not self.ledger.answering:
            self._settled.unpark_all()

    def statistics(self) -> ConnectionStatistics:
        """Return what the link holds now."""
        return ConnectionStatistics(
            asked=len(self.ledger.asked),
            answering=len(self.ledger.answering),
            running=self.slots.running + self.listens.running,
            queued=self.slots.waiting,
            outbox_bytes=self.outbox.size,
            update_bytes=self.budget.total,
            unmatched_responses=self.ledger.unmatched,
            malformed=self._malformed,
        )
