"""The two ends of one request: the request that this side sends, and the request that this side answers.

`OutgoingRequest` and `IncomingRequest` do not depend on a transport. `OutgoingMessageRequest` and
`IncomingMessageRequest` are the ends of an exchange that is made of messages; other transports write their own.
Everything here is synchronous, and therefore atomic, except sending a request and waiting for room, updates or results.

Rules of this file:

1. An exchange has one response. The answering side sends it once, and nothing after it.
2. An exchange that the requester cancelled is over on both sides: nothing more is sent for it, and what still arrives
   for it is dropped.
3. A transition that is not in the state table is a bug of this package and raises `LocalProtocolError`. A mistake of
   the peer (a response that no caller waits for, a late cancellation) never reaches the table, because the ledger does
   not find the request.
4. Updates are received in the order in which they arrived, all of them before the outcome.
5. When too many updates wait, the oldest is dropped and counted. The newest update and the outcome are never dropped.
   No updates are kept for a request that did not ask for any.
6. One task receives from an outgoing request. A second task that receives at the same time gets an error.
7. An incoming request owns no task. It is tied to at most one handler run.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation
"""

from __future__ import annotations

import abc
import logging
import math
from collections import deque
from collections.abc import Callable, Mapping
from copy import copy
from enum import Enum, IntEnum, auto
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self, TypeAlias, TypeVar

import trio
from attrs import define, field

from .._errors import ConnectionLost, ErrorResponse, LocalProtocolError, McpError, RemoteProtocolError
from .._tracing import RequestSpan, server_span
from ..wire import (
    INTERNAL_ERROR,
    PROGRESS_TOKEN_KEY,
    SUBSCRIPTION_ID_KEY,
    JsonObject,
    NotJsonError,
    RequestId,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
    encode_result_in_pieces,
    stamp,
    with_deadline,
)
from ._context import NO_HEADERS, ExchangeContext

if TYPE_CHECKING:
    from ._connection import MessageConnection, Outlet, QueuedMessage
    from ._context import Peer, RequestWatch
    from ._handler_pool import HandlerRun

__all__ = [
    "ANSWERING",
    "ASKING",
    "ExchangeEvent",
    "ExchangeState",
    "IncomingMessageRequest",
    "IncomingRequest",
    "OutgoingMessageRequest",
    "OutgoingRequest",
    "ResponseBatch",
    "Update",
    "UpdateBudget",
    "UpdateListener",
    "advance",
]

_log = logging.getLogger("trio_mcp.peer")


class ExchangeState(IntEnum):
    """The state of an exchange, at either end."""

    OPEN = auto()
    """The request was made and not answered."""
    ANSWERED = auto()
    """The response was sent or has arrived."""
    CANCELLED = auto()
    """The requester cancelled the request."""
    LOST = auto()
    """The connection was lost before the response."""


class ExchangeEvent(IntEnum):
    """The events that change the state of an exchange."""

    RESPONSE = auto()
    """The response is sent (answering side) or has arrived (requesting side)."""
    CANCEL = auto()
    """The requester leaves, or its cancellation has arrived."""
    LOSS = auto()
    """The connection is lost."""


_E, _S = ExchangeEvent, ExchangeState

ASKING: Mapping[ExchangeState, Mapping[ExchangeEvent, ExchangeState]] = {
    _S.OPEN: {_E.RESPONSE: _S.ANSWERED, _E.CANCEL: _S.CANCELLED, _E.LOSS: _S.LOST},
    _S.ANSWERED: {_E.CANCEL: _S.ANSWERED, _E.LOSS: _S.ANSWERED},
    _S.CANCELLED: {_E.LOSS: _S.CANCELLED},
    _S.LOST: {_E.CANCEL: _S.LOST, _E.LOSS: _S.LOST},
}
"""The transitions of the side that sent the request. Leaving an answered or lost exchange changes nothing."""

ANSWERING: Mapping[ExchangeState, Mapping[ExchangeEvent, ExchangeState]] = {
    _S.OPEN: {_E.RESPONSE: _S.ANSWERED, _E.CANCEL: _S.CANCELLED, _E.LOSS: _S.LOST},
    _S.ANSWERED: {_E.CANCEL: _S.ANSWERED, _E.LOSS: _S.ANSWERED},
    _S.CANCELLED: {_E.CANCEL: _S.CANCELLED, _E.LOSS: _S.CANCELLED},
    _S.LOST: {_E.CANCEL: _S.LOST, _E.LOSS: _S.LOST},
}
"""The transitions of the side that received the request. Only an open exchange may respond or notify."""

_State = TypeVar("_State", bound=Enum)
_Event = TypeVar("_Event", bound=Enum)


def advance(table: Mapping[_State, Mapping[_Event, _State]], state: _State, event: _Event) -> _State:
    """Return the state that follows *state* on *event*.

    Raises:
        LocalProtocolError: the table has no such transition.
    """
    try:
        return table[state][event]
    except KeyError:
        raise LocalProtocolError(f"{event.name} is not possible in state {state.name}") from None


_OPEN = ExchangeState.OPEN
"""A constant, because looking up a member of an enumeration is slow in Python 3.11 (benchmark cell `stdio-64`)."""

Update: TypeAlias = tuple[str, JsonObject]
"""The method and params of a notification that belongs to an exchange."""


class UpdateListener(Protocol):
    """A receiver of the notifications of a subscription. It is called in the task that reads them."""

    def on_notification(self, method: str, params: JsonObject) -> None:
        """Take a notification of the subscription. Must not raise, and must bound what it keeps."""
        ...

    def on_outcome(self, outcome: JsonObject | Exception) -> None:
        """Take the outcome of the request. Must not raise."""
        ...


@define(eq=False)
class UpdateBudget:
    """The limits of the updates that wait unread, for one exchange and for all exchanges of a connection together."""

    max_updates: int
    max_bytes: int
    max_total_bytes: int
    total: int = field(default=0, init=False)
    """The number of bytes that wait now."""
    holders: set[OutgoingRequest] = field(factory=set["OutgoingRequest"], init=False)
    """The requests for which updates wait."""

    def drop_excess(self) -> None:
        """Drop the oldest update of the request that holds the most bytes, until the total fits.

        The newest update of each request stays.
        """
        while self.total > self.max_total_bytes:
            fullest = max(
                (holder for holder in self.holders if holder.waiting > 1), key=lambda h: h.waiting_bytes, default=None
            )
            if fullest is None:
                return
            fullest.drop_oldest()


@define(eq=False)
class OutgoingRequest(abc.ABC):
    """A request that this side sends. Enter it to send the request; leave it to end the exchange.

    Leaving it before the outcome has arrived cancels it, and the peer is told to stop.
    """

    method: str
    """The method of the request."""
    params: JsonObject | None
    """The params of the request; None if it has none."""
    wants_updates: bool
    """True to receive the updates that belong to the request."""
    _budget: UpdateBudget
    skipped: int = field(init=False)
    """The number of updates that were dropped because too many waited."""
    waiting_bytes: int = field(init=False)
    """The number of bytes of the updates that wait."""
    state: ExchangeState = field(init=False)
    """The state of the exchange: open, or the way in which it ended."""
    last_update_at: float = field(init=False)
    """The time at which the latest update arrived, on Trio's clock."""
    id: int = field(init=False)
    """The id of the request; 0 until it is sent."""
    span: RequestSpan | None = field(init=False)
    """The span of the request; None unless the application traces."""
    fields: Mapping[str, str] = field(init=False)
    """Header fields of the request, if the transport has any (`abc.Transport.has_fields`). Set before sending."""
    repeatable: bool = field(init=False)
    """True if the request may be sent again after its response was lost, because repeating it is harmless. Set before
    sending."""
    is_awaited_at_once: bool = field(init=False)
    """True if a task waits for the outcome from the moment on at which the request was sent. Set before sending. Such a
    task may read from the connection itself."""
    keeps_text: bool = field(init=False)
    """True if long members of the result may be `wire.JsonText`, because they are passed on. Set before sending."""
    on_outcome: Callable[[JsonObject | Exception], None] | None = field(init=False)
    """Called with the outcome, in the task that reads it; None if a task waits for it. Must not raise."""
    on_notification: Callable[[str, JsonObject], bool] | None = field(init=False)
    """Called with each notification that the transport knows to belong to this request, but for its progress: over
    HTTP, those of its response. It takes the notification and returns True, or leaves it to the connection. It must
    not raise. Set before sending."""
    listener: UpdateListener | None = field(init=False)
    """The receiver of the notifications of a subscription. It is called at once, while the exchange is open."""
    deadline: float = field(init=False)
    """The deadline of the caller on Trio's clock, of which the peer is told; infinite if it is told of none. Set before
    sending. It does not end the request: the caller leaves the request when its deadline passes."""
    _updates: deque[tuple[Update, int]] | None = field(init=False)
    """The updates that wait, each with its size. None until the first arrives, because most requests have none."""
    _outcome: JsonObject | Exception | None = field(init=False)
    _receiver: trio.lowlevel.Task | None = field(init=False)
    _interruption: BaseException | None = field(init=False)

    def __attrs_post_init__(self) -> None:
        # Set here, because attrs takes three times as long for fields that are not arguments: 5 % of the client's
        # processor time in the benchmark cell `stdio-64`.
        self.skipped = 0
        self.waiting_bytes = 0
        self.state = _OPEN
        self.last_update_at = 0.0
        self.id = 0
        self.span = None
        self.fields = NO_HEADERS
        self.repeatable = False
        self.is_awaited_at_once = False
        self.keeps_text = False
        self.on_outcome = None
        self.on_notification = None
        self.listener = None
        self.deadline = math.inf
        self._updates = None
        self._outcome = None
        self._receiver = None
        self._interruption = None

    async def __aenter__(self) -> Self:
        await self.begin()
        return self

    async def begin(self) -> None:
        """Send the request; `leave` must follow. If this fails or is cancelled, the exchange is over."""
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
            await self._room()
            self._send()
        except BaseException as exc:
            self._fail_span(exc)
            raise

    def begin_nowait(self) -> bool:
        """Send the request if that needs no waiting; return False, with nothing sent, if it needs to wait.

        If this returns True, `leave` must follow. If it raises, the exchange is over.
        """
        if not self._has_room():
            return False
        try:
            self._send()
        except BaseException as exc:
            self._fail_span(exc)
            raise
        return True

    def _fail_span(self, exc: BaseException) -> None:
        if self.span is not None:
            self.span.failed(type(exc).__name__)

    async def __aexit__(self, *exc_info: object) -> None:
        self.leave()

    def leave(self) -> None:
        """End the exchange. Harmless if it has ended already."""
        if self._updates:
            self._forget_updates()
        if self.state is _OPEN:
            self.state = advance(ASKING, self.state, ExchangeEvent.CANCEL)
            self._cancel()
            self._wake()
            if self.span is not None:
                self.span.failed("cancelled")

    @property
    def waiting(self) -> int:
        """The number of updates that wait."""
        return 0 if self._updates is None else len(self._updates)

    def put(self, update: Update, size: int) -> None:
        """Queue an update that arrived; *size* is its length on the wire in bytes."""
        if not self.wants_updates or self.state is not _OPEN:
            return
        budget = self._budget
        self.last_update_at = trio.current_time()
        if self._updates is None:
            self._updates = deque()
        updates = self._updates
        updates.append((update, size))
        self.waiting_bytes += size
        budget.total += size
        if len(updates) == 1:
            budget.holders.add(self)
        while len(updates) > budget.max_updates or (self.waiting_bytes > budget.max_bytes and len(updates) > 1):
            self.drop_oldest()
        if budget.total > budget.max_total_bytes:
            budget.drop_excess()
        self._wake()

    def drop_oldest(self) -> None:
        """Drop the oldest waiting update, and count it."""
        self._pop()
        self.skipped += 1

    def finish(self, outcome: JsonObject | Exception) -> None:
        """Take the outcome: the result, or the exception that the waiting task gets."""
        event = ExchangeEvent.LOSS if isinstance(outcome, ConnectionLost) else ExchangeEvent.RESPONSE
        self.state = advance(ASKING, self.state, event)
        self._outcome = outcome
        if self.span is not None:
            _end_span(self.span, outcome)
        if self.listener is not None:
            self.listener.on_outcome(outcome)
        if self.on_outcome is not None:
            self.on_outcome(outcome)
        self._wake()

    def deliver(self, method: str, params: JsonObject) -> bool:
        """Take a notification of the subscription that this request opened; False if it opened none, or is over.

        Args:
            method: the method of the notification.
            params: its params.
        """
        if self.listener is None or self.state is not _OPEN:
            return False
        self.listener.on_notification(method, params)
        return True

    @property
    def receiving(self) -> bool:
        """True if a task waits for an update or the outcome."""
        return self._receiver is not None

    def interrupt(self, reason: BaseException, error_type: str | None = None) -> None:
        """Raise *reason* in the task that waits now. The exchange stays open until that task leaves it.

        Args:
            error_type: the type of the error for the span of the request; by default the class of *reason*.
        """
        self._interruption = reason
        if self.span is not None:
            self.span.failed(error_type or type(reason).__name__, str(reason))
        self._wake()

    async def next_update(self) -> Update | None:
        """Wait for the next update; return None if the outcome has arrived and no update is left.

        Raises:
            trio.BusyResourceError: another task receives from this request.
            trio.ClosedResourceError: the request was left before its outcome arrived.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._updates:
            if self._outcome is not None:
                return None
            await self._wait()
        return self._pop()

    async def result(self) -> JsonObject:
        """Wait for the result. Waiting updates stay queued.

        Raises:
            ErrorResponse: the peer answered with an error.
            RemoteProtocolError: the peer's response breaks the protocol.
            ConnectionLost: the connection was lost before the response.
            trio.BusyResourceError: another task receives from this request.
            trio.ClosedResourceError: the request was left before its outcome arrived.
        """
        has_waited = self._outcome is None
        while self._outcome is None:
            await self._wait()
        outcome = self._outcome
        if self.deadline != math.inf and self.deadline <= trio.current_time():
            # Trio may not have noticed that yet. The answer is that the deadline has passed, or it is too late.
            await trio.lowlevel.checkpoint()
        if isinstance(outcome, Exception):
            # One cancellation may end both the connection and its caller: then the caller shall see the cancellation.
            await trio.lowlevel.checkpoint_if_cancelled()
            # A copy, because the traceback of the original would refer to this request, which refers to the original.
            raise copy(outcome) if isinstance(outcome, ErrorResponse) else outcome
        if not has_waited:  # so that a loop of calls that need no waiting lets other tasks run
            await trio.lowlevel.checkpoint()
        return outcome

    def _pop(self) -> Update:
        assert self._updates is not None
        update, size = self._updates.popleft()
        self.waiting_bytes -= size
        self._budget.total -= size
        if not self._updates:
            self._budget.holders.discard(self)
        return update

    def _forget_updates(self) -> None:
        self._budget.total -= self.waiting_bytes
        self._budget.holders.discard(self)
        self.waiting_bytes = 0
        self._updates = None

    async def _wait(self) -> None:
        """Wait until `_wake` is called.

        It uses the scheduler itself instead of `trio.Event`, because every call waits here: that takes 5 % of the time
        of a call less (benchmark cell `stdio-64`).
        """
        self._check_wait()
        self._receiver = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self._stop_waiting)
        self._raise_interruption()

    def _check_wait(self) -> None:
        if self.state is ExchangeState.CANCELLED:
            raise trio.ClosedResourceError("the request was left before its outcome arrived")
        if self.receiving:
            raise trio.BusyResourceError("another task already receives from this request; only one task may")

    def _raise_interruption(self) -> None:
        if self._interruption is not None:
            interruption, self._interruption = self._interruption, None
            raise interruption

    def _stop_waiting(self, _: Any) -> trio.lowlevel.Abort:
        self._receiver = None
        return trio.lowlevel.Abort.SUCCEEDED

    def _wake(self) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            trio.lowlevel.reschedule(receiver)

    def _stamped(self) -> JsonObject | None:
        """Return the params with what differs in each attempt: the progress token, and the seconds to the deadline."""
        params = stamp(self.params, {PROGRESS_TOKEN_KEY: self.id}) if self.wants_updates else self.params
        return params if self.deadline == math.inf else with_deadline(params, self.deadline, trio.current_time())

    @abc.abstractmethod
    def _has_room(self) -> bool:
        """Return True if `_room` would return at once."""

    @abc.abstractmethod
    async def _room(self) -> None:
        """Wait until the request may be sent. Raise `ConnectionLost` if the connection was lost."""

    @abc.abstractmethod
    def _send(self) -> None:
        """Send the request, without a checkpoint after `_room`; tell `span` its id before an answer can be there."""

    @abc.abstractmethod
    def _cancel(self) -> None:
        """Tell the peer to stop, if it can know of the request."""


def _end_span(span: RequestSpan, outcome: JsonObject | Exception) -> None:
    if isinstance(outcome, Exception) and not isinstance(outcome, ErrorResponse):
        span.failed(type(outcome).__name__, str(outcome) if isinstance(outcome, RemoteProtocolError) else None)
    else:
        span.answered(outcome)


@define(eq=False)
class OutgoingMessageRequest(OutgoingRequest):
    """A request that this side sends as a message."""

    _connection: MessageConnection
    _outlet: Outlet
    """The outlet that the request is sent through."""
    _entry: QueuedMessage | None = field(default=None, init=False)

    def uses(self, outlet: Outlet) -> bool:
        """Return True if the request is, or was, sent through *outlet*."""
        return self._outlet is outlet

    def is_queued_in(self, outlet: Outlet) -> bool:
        """Return True if the request is in the queue of *outlet* and was not sent yet."""
        return self._outlet is outlet and self._entry is not None and bool(self._entry.line)

    def _has_room(self) -> bool:
        return self._connection.lost is None and self._outlet.has_room()

    async def _room(self) -> None:
        await self._connection.room_in(self._outlet)
        if self._connection.lost is not None:
            await trio.lowlevel.checkpoint_if_cancelled()
            raise copy(self._connection.lost)

    def _send(self) -> None:
        self._entry = self._outlet.put(self._issue())

    def _issue(self) -> bytes:
        """Take a new id and expect a response to it from now on; return the line of the request."""
        ledger, params = self._connection.ledger, self.params
        self.id = ledger.issue(self)
        if self.span is not None:
            self.span.sent(self.id)
        if self.wants_updates or self.deadline != math.inf:
            params = self._stamped()
        try:
            return encode_request(self.id, self.method, params)
        except NotJsonError as exc:
            ledger.forget(self.id)
            raise LocalProtocolError(f"the params of {self.method!r} cannot be sent: {exc}") from None

    def _cancel(self) -> None:
        self._connection.ledger.forget(self.id)
        self.withdraw()

    def withdraw(self) -> None:
        """Remove the request from the queue if it was not sent yet; otherwise tell the peer to stop."""
        sent = self._entry is not None and not self._outlet.withdraw(self._entry)
        if sent and self.method != "initialize":  # the protocol forbids to cancel it
            self._outlet.put_urgent(encode_notification("notifications/cancelled", {"requestId": self.id}))


@define(eq=False)
class IncomingRequest(abc.ABC):
    """A request that this side answers. Responding and notifying only queue a message, and never wait."""

    line_end: ClassVar[Literal[b"", b"\n"]] = b"\n"
    """The bytes that follow a message: messages on a stream are lines."""
    is_notification: ClassVar[bool] = False
    """True if it is a notification, which is handled like a request but has no id and no response."""
    outlasts: ClassVar[bool] = False
    """True if it belongs to no connection, so that no transport waits for its handler when the server stops."""

    method: str
    """The method of the request."""
    params: JsonObject | None
    """The params of the request; None if it has none."""
    context: ExchangeContext
    """The revision, the capabilities and the caller, as the admission has found them."""
    id: RequestId
    """The id that the peer gave it."""
    peer: Peer
    """The other end of the connection on which it arrived."""
    run: HandlerRun | None = field(init=False)
    """The handler run that works on this request now."""
    state: ExchangeState = field(init=False)
    """The state of the exchange: open, or the way in which it ended."""
    may_have_texts: bool = field(init=False)
    """True if the result may have parts that are `wire.JsonText`, because it is passed on. Set before it is sent."""
    _watches: tuple[RequestWatch, ...] = field(init=False)
    """The span of the request, if the application traces, and its measures."""

    def __attrs_post_init__(self) -> None:
        # Set here for the reason given in `OutgoingRequest`.
        self.run, self.state, self.may_have_texts = None, _OPEN, False
        self._watches = ()

    @property
    def shows_questions(self) -> bool:
        """True if the peer sees the questions of the run while this request stays open, and answers them one by one."""
        return False

    @property
    def question_seconds(self) -> float | None:
        """The seconds for which a question to the peer stays open; None for `Limits.ask_seconds`."""
        return None

    def questions_changed(self) -> None:  # noqa: B027 # most exchanges show none
        """Take note that a question of the run was asked or has ended. Called only if it `shows_questions`."""

    def begin_span(self) -> RequestSpan | None:
        """Begin the span of this request, which ends with it; return None unless the application traces.

        Callers call it only if `TRACING_MODULE` is loaded, because almost no request is traced.
        """
        context = self.context
        span = server_span(self.method, self.params, context.meta, context.revision, self.id)
        if span is not None:
            self.watch(span)
        return span

    def watch(self, watch: RequestWatch) -> None:
        """Tell *watch* how this request ends."""
        self._watches = (*self._watches, watch)

    @property
    def open(self) -> bool:
        """True if the request was neither answered nor cancelled, and the connection was not lost."""
        return self.state is _OPEN

    def respond(self, outcome: JsonObject | McpError) -> None:
        """Send the response. The caller has waited for `room`, or it is the reader, which sends only small responses.

        Args:
            outcome: the JSON of the result, or the error.

        Raises:
            LocalProtocolError: the request was answered or cancelled before.
        """
        if self.run is not None and self.run.flush_updates is not None:
            self.run.flush_updates()
        self.state = advance(ANSWERING, self.state, ExchangeEvent.RESPONSE)
        self._untie()
        self._send(outcome)
        for watch in self._watches:
            watch.answered(outcome)

    def notify(self, method: str, params: JsonObject) -> None:
        """Send an update that belongs to this exchange. It is dropped if the exchange is over.

        Args:
            method: the method of the notification.
            params: its params as JSON.

        Raises:
            NotJsonError: *params* cannot be written as JSON.
        """
        if self.open:
            self._notify(method, params)

    def cancel(self, reason: str) -> None:
        """Stop the handler run of this request, because the requester cancelled it. No response is sent.

        Args:
            reason: the cause, for the `trio.Cancelled` of the handler.
        """
        run = self._cut(ExchangeEvent.CANCEL)
        if run is not None:
            run.stop(reason)

    def deadline_passed(self) -> None:
        """Record that the deadline of the caller has passed: it does not wait for the response."""
        for watch in self._watches:
            watch.failed("cancelled")

    def disconnect(self) -> None:
        """Stop the handler run of this request soon, because the connection was lost."""
        run = self._cut(ExchangeEvent.LOSS)
        if run is not None:
            run.stop_soon("the connection was lost")

    def detach(self, retry_ms: int | None) -> None:
        """End the HTTP response that carries the answer, but not the exchange: the client reconnects for the rest.

        Does nothing if one connection carries everything, or if messages sent in between would be lost.

        Args:
            retry_ms: the delay in milliseconds after which the client shall reconnect. None: the transport chooses.
        """
        del retry_ms

    @property
    def endless(self) -> bool:
        """True if the request lasts until one side ends it, so that waiting for its answer is pointless."""
        return self.run is not None and self.run.closing_result is not None

    def abandon(self) -> None:
        """Answer with the closing result of the run, or with an error that says that the server stops; stop the run."""
        run = self.run
        if run is not None and run.closing_result is not None:
            self._conclude(run.closing_result())
        else:
            self.respond(McpError(INTERNAL_ERROR, "the server stopped before the request was done"))
        if run is not None:
            run.stop("the server stops")

    def _cut(self, event: ExchangeEvent) -> HandlerRun | None:
        """End the exchange without a response; return the run that worked on it."""
        was_open, run = self.open, self.run
        self.state = advance(ANSWERING, self.state, event)
        self._untie()
        if was_open:
            self._end()
            for watch in self._watches:
                watch.failed("cancelled" if event is ExchangeEvent.CANCEL else "connection_lost")
        return run

    def _untie(self) -> None:
        run, self.run = self.run, None
        if run is not None:
            run.exchange = None
            if not run.has_slot:
                run.leave_queue()

    def _encoded(self, outcome: JsonObject | McpError) -> tuple[bytes, JsonObject | McpError]:
        """Return the line of the response, and its content: an error if *outcome* cannot be written as JSON."""
        try:
            return self._line_of(outcome), outcome
        except NotJsonError as exc:
            _log.error("the answer to %r cannot be sent: %s", self.method, exc)  # the message is enough, no traceback
            outcome = McpError(INTERNAL_ERROR, f"the answer to {self.method!r} is not JSON; the log says where")
            return self._line_of(outcome), outcome

    def _line_of(self, outcome: JsonObject | McpError) -> bytes:
        if isinstance(outcome, McpError):
            return encode_error(self.id, outcome.code, outcome.message, outcome.data, end=self.line_end)
        return encode_result(self.id, outcome, end=self.line_end)

    def _conclude(self, result: JsonObject) -> None:
        """Respond to an endless request, because this side ends it."""
        self.respond(result)

    @abc.abstractmethod
    def ask(self, method: str, params: JsonObject | None) -> OutgoingRequest:
        """Return a request to the peer that belongs to this exchange; enter it to send it, leave it to end it.

        Args:
            method: the method of the request.
            params: its params as JSON; None to send none.
        """

    def may_run_inline(self) -> bool:
        """Return True if a handler that never waits may run, and answer, before the reader continues."""
        return self.has_room()

    @abc.abstractmethod
    def has_room(self) -> bool:
        """Return True if a message may be queued now without waiting."""

    @abc.abstractmethod
    async def room(self) -> None:
        """Wait until a message may be queued; raise `ConnectionLost` if the connection was lost."""

    @abc.abstractmethod
    def _send(self, outcome: JsonObject | McpError) -> None:
        """Queue the response and forget the exchange."""

    @abc.abstractmethod
    def _notify(self, method: str, params: JsonObject) -> None:
        """Queue an update."""

    @abc.abstractmethod
    def _end(self) -> None:
        """Forget the exchange, which ended without a response."""


@define(eq=False)
class IncomingMessageRequest(IncomingRequest):
    """A request of the peer that arrived as a message."""

    _connection: MessageConnection
    outlet: Outlet
    """The outlet that the response and all other messages of the exchange are sent through."""
    _batch: ResponseBatch | None = None

    def ask(self, method: str, params: JsonObject | None) -> OutgoingRequest:
        """Return a request that is sent through the outlet of this one."""
        return self._connection.ask_in(self.outlet, method, params)

    def has_room(self) -> bool:
        """Return True if its outlet has room."""
        return self.outlet.has_room()

    def may_run_inline(self) -> bool:
        """Return False for a request of a batch, because others would wait for its thousands of requests."""
        return self._batch is None and self.outlet.has_room()

    async def room(self) -> None:
        """Wait for room in its outlet."""
        await self.outlet.room()

    def detach(self, retry_ms: int | None) -> None:
        """Let the reader of its outlet disconnect, if the connection supports that."""
        self._connection.detach(self.outlet, retry_ms)

    def _conclude(self, result: JsonObject) -> None:
        # The specification of subscriptions wants a result, that of cancellation a notification: send both. The result
        # goes first, because some clients treat the subscription as lost if the notification does.
        self.respond(result)
        params = {"requestId": self.id, "reason": "the server stops", "_meta": {SUBSCRIPTION_ID_KEY: self.id}}
        self.outlet.put_urgent(encode_notification("notifications/cancelled", params))

    def _send(self, outcome: JsonObject | McpError) -> None:
        is_passed = self.may_have_texts and self._batch is None
        pieces = encode_result_in_pieces(self.id, outcome) if is_passed and not isinstance(outcome, McpError) else None
        line, outcome = (b"", outcome) if pieces else self._encoded(outcome)
        self._connection.ended(self)
        if self.method == "initialize":
            self._connection.admission.answered_handshake(self.context, success=not isinstance(outcome, McpError))
        if self._batch is not None:
            self._batch.resolve(line)
        elif pieces:
            self.outlet.put_pieces(pieces)
        else:
            self.outlet.put_urgent(line)  # the reader may have answered, which cannot wait

    def _notify(self, method: str, params: JsonObject) -> None:
        self.outlet.put(encode_notification(method, params))

    def _end(self) -> None:
        self._connection.ended(self)
        if self._batch is not None:
            self._batch.resolve(None)


@define(eq=False)
class ResponseBatch:
    """The responses to one batch of requests. They are sent together, as an array, when the last one is there.

    Specification: https://modelcontextprotocol.io/specification/2025-03-26/basic#batching
    """

    _outlet: Outlet
    _answers: list[bytes] = field(factory=list[bytes], init=False)
    _open: int = field(default=1, init=False)
    """The number of requests not answered yet, and one more while the batch is being read."""

    def expect(self) -> None:
        """Expect the response to one more request."""
        self._open += 1

    def add(self, line: bytes) -> None:
        """Add a response that was not expected."""
        self._answers.append(line.rstrip())

    def resolve(self, line: bytes | None) -> None:
        """Add the response to an expected request; None if the request was cancelled."""
        if line is not None:
            self.add(line)
        self._open -= 1
        if self._open == 0 and self._answers:  # the reader may have refused or cancelled the last one
            self._outlet.put_urgent(b"[" + b",".join(self._answers) + b"]\n")

    def close(self) -> None:
        """Note that the whole batch was read."""
        self.resolve(None)
