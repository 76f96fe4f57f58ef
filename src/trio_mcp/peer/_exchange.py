"""The two ends of one request: as the asking side sees it, and as the answering side does."""

from __future__ import annotations

import abc
import logging
import sys
from collections import deque
from collections.abc import Awaitable, Mapping
from copy import copy
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypeVar

import trio
from attrs import define, field

from .._errors import ConnectionLost, ErrorResponse, LocalProtocolError, McpError, RemoteProtocolError
from .._tracing import TRACING_MODULE, RequestSpan, server_span
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
    stamp,
)
from ._context import NO_HEADERS, ExchangeContext

if TYPE_CHECKING:
    from ._connection import MessageConnection, Outlet, QueuedMessage
    from ._context import Peer
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


class ExchangeState(Enum):
    """Where an exchange stands."""

    __hash__ = object.__hash__  # the one of Enum is a Python function, and every message looks some up

    OPEN = auto()
    """Asked, not answered."""
    ANSWERED = auto()
    """Its response was sent, or has arrived."""
    CANCELLED = auto()
    """Whoever asked does not want the answer any more."""
    LOST = auto()
    """The connection went away before the answer."""


class ExchangeEvent(Enum):
    """What can happen to an exchange."""

    __hash__ = object.__hash__

    RESPONSE = auto()
    """The response is sent (answering end) or has arrived (asking end)."""
    CANCEL = auto()
    """The asking end leaves, or its notice of that has arrived."""
    LOSS = auto()
    """The connection ends."""


_E, _S = ExchangeEvent, ExchangeState

ASKING: Mapping[ExchangeState, Mapping[ExchangeEvent, ExchangeState]] = {
    _S.OPEN: {_E.RESPONSE: _S.ANSWERED, _E.CANCEL: _S.CANCELLED, _E.LOSS: _S.LOST},
    _S.ANSWERED: {_E.CANCEL: _S.ANSWERED, _E.LOSS: _S.ANSWERED},
    _S.CANCELLED: {_E.LOSS: _S.CANCELLED},
    _S.LOST: {_E.CANCEL: _S.LOST, _E.LOSS: _S.LOST},
}
"""The end that sent the request. Leaving an answered or lost exchange changes nothing: there is nobody to tell."""

ANSWERING: Mapping[ExchangeState, Mapping[ExchangeEvent, ExchangeState]] = {
    _S.OPEN: {_E.RESPONSE: _S.ANSWERED, _E.CANCEL: _S.CANCELLED, _E.LOSS: _S.LOST},
    _S.ANSWERED: {_E.CANCEL: _S.ANSWERED, _E.LOSS: _S.ANSWERED},
    _S.CANCELLED: {_E.CANCEL: _S.CANCELLED, _E.LOSS: _S.CANCELLED},
    _S.LOST: {_E.CANCEL: _S.LOST, _E.LOSS: _S.LOST},
}
"""The end that received the request. Only an open exchange may respond or notify."""

_State = TypeVar("_State", bound=Enum)
_Event = TypeVar("_Event", bound=Enum)


def advance(table: Mapping[_State, Mapping[_Event, _State]], state: _State, event: _Event) -> _State:
    """Return the state that *event* leads to; raises `LocalProtocolError` where the table has no such move."""
    try:
        return table[state][event]
    except KeyError:
        raise LocalProtocolError(f"{event.name} is not possible in state {state.name}") from None


_OPEN = ExchangeState.OPEN
"""By a name of its own: to look up a member of an enumeration takes six times as long."""

Update: TypeAlias = tuple[str, JsonObject]
"""The method and the params of a notification that belongs to an exchange."""


class UpdateListener(Protocol):
    """Takes what arrives for a request that asks for news, in the task of whoever brings it."""

    def heard(self, method: str, params: JsonObject) -> None:
        """Take a notification of the subscription; synchronous, must not raise, and bounds what it keeps itself."""
        ...

    def ended(self, outcome: JsonObject | Exception) -> None:
        """Take the outcome; likewise."""
        ...


@define(eq=False)
class UpdateBudget:
    """How much may wait unread: in one exchange, and in all of a connection together."""

    max_updates: int
    max_bytes: int
    max_total_bytes: int
    total: int = field(default=0, init=False)
    """Bytes waiting now."""
    holders: set[OutgoingRequest] = field(factory=set["OutgoingRequest"], init=False)
    """The exchanges in which updates wait."""

    def relieve(self) -> None:
        """Drop the oldest update where most bytes wait, until the total fits or only newest ones are left."""
        while self.total > self.max_total_bytes:
            fullest = max(
                (holder for holder in self.holders if holder.waiting > 1), key=lambda h: h.waiting_bytes, default=None
            )
            if fullest is None:
                return
            fullest.drop_oldest()


@define(eq=False)
class OutgoingRequest(abc.ABC):
    """An exchange this side opened. Enter it to send the request; leave it to end it, early or not.

    Leaving it before the outcome has arrived cancels it: the other side is told to stop.
    """

    method: str
    params: JsonObject | None
    wants_updates: bool
    _budget: UpdateBudget
    skipped: int = field(init=False)
    """Updates that were dropped because too many waited."""
    waiting_bytes: int = field(init=False)
    """Bytes of the updates that wait."""
    state: ExchangeState = field(init=False)
    last_heard: float = field(init=False)
    """When the latest update arrived, on Trio's clock."""
    id: int = field(init=False)
    """Issued when the request is sent; 0 before."""
    span: RequestSpan | None = field(init=False)
    """What stands for it in a trace, if somebody traces."""
    fields: Mapping[str, str] = field(init=False)
    """Header fields that go with it, where the transport has any (`abc.Transport.has_fields`); set before it leaves."""
    repeatable: bool = field(init=False)
    """Whether it may be sent once more when its answer was lost, because doing it twice does no harm; set likewise."""
    listener: UpdateListener | None = field(init=False)
    """Whoever set it is told of what arrives, at once and as long as the exchange is open."""
    _updates: deque[tuple[Update, int]] | None = field(init=False)
    """Those that wait, each with its size. None until the first has come: most requests have none."""
    _outcome: JsonObject | Exception | None = field(init=False)
    _receiver: trio.lowlevel.Task | None = field(init=False)
    _interruption: Exception | None = field(init=False)

    def __attrs_post_init__(self) -> None:
        # Here, because attrs takes three times as long to set what is no argument, and each call makes one of these.
        self.skipped = 0
        self.waiting_bytes = 0
        self.state = _OPEN
        self.last_heard = 0.0
        self.id = 0
        self.span = None
        self.fields = NO_HEADERS
        self.repeatable = False
        self.listener = None
        self._updates = None
        self._outcome = None
        self._receiver = None
        self._interruption = None

    async def __aenter__(self) -> Self:
        await self.begin()
        return self

    def begin(self) -> Awaitable[None]:
        """Send the request; `leave` must follow. If it cannot be sent, or this is cancelled, it is over."""
        return self._begin() if self.span is None else self._begin_traced(self.span)

    async def _begin_traced(self, span: RequestSpan) -> None:
        try:
            await self._begin()
        except BaseException as exc:
            span.failed(type(exc).__name__)
            raise

    async def __aexit__(self, *exc_info: object) -> None:
        self.leave()

    def leave(self) -> None:
        """End the exchange: synchronous, and harmless when it has ended already."""
        if self._updates:
            self._forget_updates()
        if self.state is _OPEN:
            self.state = advance(ASKING, self.state, ExchangeEvent.CANCEL)
            self._cancel()
            self._wake()
            if self.span is not None:
                self.span.failed("cancelled")

    @abc.abstractmethod
    def begins_at_once(self) -> bool:
        """Whether entering it now would send the request without waiting."""

    @property
    def waiting(self) -> int:
        """How many updates wait."""
        return 0 if self._updates is None else len(self._updates)

    def put(self, update: Update, size: int) -> None:
        """Take an update that arrived; *size* is its length on the wire in bytes."""
        if not self.wants_updates or self.state is not _OPEN:
            return
        budget = self._budget
        self.last_heard = trio.current_time()
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
            budget.relieve()
        self._wake()

    def drop_oldest(self) -> None:
        """Make room: the oldest waiting update goes, and is counted."""
        self._pop()
        self.skipped += 1

    def finish(self, outcome: JsonObject | Exception) -> None:
        """Take the outcome: a result, or the exception that waiting for it raises."""
        event = ExchangeEvent.LOSS if isinstance(outcome, ConnectionLost) else ExchangeEvent.RESPONSE
        self.state = advance(ASKING, self.state, event)
        self._outcome = outcome
        if self.span is not None:
            _end_span(self.span, outcome)
        if self.listener is not None:
            self.listener.ended(outcome)
        self._wake()

    def hear(self, method: str, params: JsonObject) -> bool:
        """Take a notification that names this request as its subscription; False where that is none, or is over."""
        if self.listener is None or self.state is not _OPEN:
            return False
        self.listener.heard(method, params)
        return True

    @property
    def receiving(self) -> bool:
        """Whether a task waits for something to arrive."""
        return self._receiver is not None

    def interrupt(self, reason: Exception) -> None:
        """Raise *reason* in the task that waits, while one does. The exchange goes on until that task leaves it."""
        self._interruption = reason
        if self.span is not None:
            self.span.failed("timeout", str(reason))
        self._wake()

    async def next_update(self) -> Update | None:
        """Wait for the next update; None when there are no more, because the outcome has arrived.

        Raises:
            trio.BusyResourceError: another task receives from this exchange.
            trio.ClosedResourceError: the exchange was left before its outcome had arrived.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._updates:
            if self._outcome is not None:
                return None
            await self._wait()
        return self._pop()

    async def result(self) -> JsonObject:
        """Wait for the result; updates stay where they are.

        Raises:
            ErrorResponse: the other side answered with an error.
            RemoteProtocolError: the other side's response breaks the protocol.
            ConnectionLost: there will be no response.
            trio.BusyResourceError: another task receives from this exchange.
            trio.ClosedResourceError: the exchange was left before its outcome had arrived.
        """
        has_waited = self._outcome is None
        while self._outcome is None:
            await self._wait()
        outcome = self._outcome
        if isinstance(outcome, Exception):
            # One cancellation may take down the connection and its caller: the caller is cancelled, not surprised.
            await trio.lowlevel.checkpoint_if_cancelled()
            # An answer is raised as a copy: itself, it would hold this exchange, which holds it.
            raise copy(outcome) if isinstance(outcome, ErrorResponse) else outcome
        if not has_waited:
            await trio.lowlevel.checkpoint_if_cancelled()
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
        # By hand instead of by trio.Event: this is the one wait of every call, and costs half as much.
        if self.state is ExchangeState.CANCELLED:
            raise trio.ClosedResourceError("this exchange was left before its outcome had arrived")
        if self._receiver is not None:
            raise trio.BusyResourceError("another task is receiving from this exchange")
        self._receiver = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self._stop_waiting)
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

    @abc.abstractmethod
    async def _begin(self) -> None:
        """Send the request, and tell `span` its id before an answer can be there. If cancelled, nothing was sent."""

    @abc.abstractmethod
    def _cancel(self) -> None:
        """Tell the other side, if it can know of the exchange, that nobody waits any more."""


def _end_span(span: RequestSpan, outcome: JsonObject | Exception) -> None:
    if isinstance(outcome, Exception) and not isinstance(outcome, ErrorResponse):
        span.failed(type(outcome).__name__, str(outcome) if isinstance(outcome, RemoteProtocolError) else None)
    else:
        span.answered(outcome)


@define(eq=False)
class OutgoingMessageRequest(OutgoingRequest):
    """A request of ours."""

    _connection: MessageConnection
    _outlet: Outlet
    """Where it goes out."""
    _entry: QueuedMessage | None = field(default=None, init=False)

    def begins_at_once(self) -> bool:
        """Whether its lane has room."""
        return self._outlet.has_room()

    def goes_by(self, outlet: Outlet) -> bool:
        """Whether it is sent in a lane, or was."""
        return self._outlet is outlet

    def waits_in(self, outlet: Outlet) -> bool:
        """Whether it is in the queue of a lane, and has not left."""
        return self._outlet is outlet and self._entry is not None and bool(self._entry.line)

    async def _begin(self) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        if not self._outlet.has_room():
            await self._connection.room_in(self._outlet)  # cancelled here, nothing was sent
        if self._connection.lost is not None:
            await trio.lowlevel.checkpoint_if_cancelled()
            raise copy(self._connection.lost)
        self._entry = self._outlet.put(self._issue())
        if self.span is not None:
            self.span.sent(self.id)

    def _issue(self) -> bytes:
        """Take a new id, under which an answer is awaited from now on; return the line of the request."""
        ledger, params = self._connection.ledger, self.params
        self.id = ledger.issue(self)
        if self.wants_updates:
            params = stamp(params, {PROGRESS_TOKEN_KEY: self.id})
        try:
            return encode_request(self.id, self.method, params)
        except NotJsonError as exc:
            ledger.forget(self.id)
            raise LocalProtocolError(f"the params of {self.method!r} cannot be sent: {exc}") from None

    def _cancel(self) -> None:
        self._connection.ledger.forget(self.id)
        self.withdraw()

    def withdraw(self) -> None:
        """Take the request back if it has not left, and tell the other side to stop if it has."""
        sent = self._entry is not None and not self._outlet.withdraw(self._entry)
        if sent and self.method != "initialize":  # which is never cancelled
            self._outlet.put_urgent(encode_notification("notifications/cancelled", {"requestId": self.id}))


@define(eq=False)
class IncomingRequest(abc.ABC):
    """A request to be answered. Owns no task; responding and notifying put into somebody's queue and never wait."""

    method: str
    params: JsonObject | None
    context: ExchangeContext
    id: RequestId
    """What the other side calls it."""
    peer: Peer
    """The other end of the connection that it came by."""
    run: HandlerRun | None = field(default=None, init=False)
    """The handler that works for this exchange now."""
    state: ExchangeState = field(default=_OPEN, init=False)
    _span: RequestSpan | None = field(default=None, init=False)
    """What stands for it in a trace, if somebody traces."""

    def begin_span(self) -> RequestSpan | None:
        """Begin the span of this request, which ends with it; None where nobody traces."""
        context = self.context
        if TRACING_MODULE not in sys.modules:
            return None
        self._span = server_span(self.method, self.params, context.meta, context.revision, self.id)
        return self._span

    @property
    def open(self) -> bool:
        """Whether a response is still owed."""
        return self.state is _OPEN

    def respond(self, outcome: JsonObject | McpError) -> None:
        """Send the response. The caller has waited for `room`, or the response is small and made by the reader.

        Raises:
            LocalProtocolError: the exchange has been answered or cancelled before.
        """
        if self.run is not None and self.run.last_updates is not None:
            self.run.last_updates()
        self.state = advance(ANSWERING, self.state, ExchangeEvent.RESPONSE)
        self._untie()
        self._send(outcome)
        if self._span is not None:
            self._span.answered(outcome)

    def notify(self, method: str, params: JsonObject) -> None:
        """Send an update that belongs to this exchange; dropped when the exchange is over.

        Raises:
            NotJsonError: *params* hold something that JSON cannot say.
        """
        if self.open:
            self._notify(method, params)

    def cancel(self, reason: str) -> None:
        """Stop the run tied to this exchange: its asking side does not want the answer any more."""
        self._stop(ExchangeEvent.CANCEL, reason)

    def disconnect(self) -> None:
        """Stop the run tied to this exchange: there is nobody left to answer."""
        self._stop(ExchangeEvent.LOSS, "the connection is gone")

    def detach(self, retry_ms: int | None) -> None:
        """End what carries the answer, but not the exchange: the other side comes back for the rest.

        Does nothing where one connection carries everything, or where what is said meanwhile would be lost.

        Args:
            retry_ms: after how many milliseconds it shall come back; None leaves that to the transport.
        """
        del retry_ms

    @property
    def endless(self) -> bool:
        """Whether it is answered only when somebody ends it: nothing is gained by waiting for that."""
        return self.run is not None and self.run.last_words is not None

    def abandon(self) -> None:
        """Answer that the server stops, or what its run wants to have answered then, and stop the run."""
        run = self.run
        if run is not None and run.last_words is not None:
            self._conclude(run.last_words())
        else:
            self.respond(McpError(INTERNAL_ERROR, "the server stopped before the request was done"))
        if run is not None:
            run.stop("the server stops")

    def _stop(self, event: ExchangeEvent, reason: str) -> None:
        was_open, run = self.open, self.run
        self.state = advance(ANSWERING, self.state, event)
        self._untie()
        if was_open:
            self._end()
            if self._span is not None:
                self._span.failed("cancelled" if event is ExchangeEvent.CANCEL else "connection_lost")
        if run is not None:
            run.stop(reason)

    def _untie(self) -> None:
        run = self.run
        if run is not None:
            if not run.has_slot:
                run.slots.forget(run)
            run.exchange = self.run = None

    def _encoded(self, outcome: JsonObject | McpError) -> tuple[bytes, JsonObject | McpError]:
        """Return the line of the response, and what it says: an error where JSON cannot say *outcome*."""
        try:
            return self._line_of(outcome), outcome
        except NotJsonError as exc:
            _log.error("the answer to %r cannot be sent: %s", self.method, exc)  # the text says it all
        refusal = McpError(INTERNAL_ERROR, f"the answer to {self.method!r} is not JSON; the log says where")
        return self._line_of(refusal), refusal

    def _line_of(self, outcome: JsonObject | McpError) -> bytes:
        if isinstance(outcome, McpError):
            return encode_error(self.id, outcome.code, outcome.message, outcome.data)
        return encode_result(self.id, outcome)

    def _conclude(self, result: JsonObject) -> None:
        """Respond to an endless exchange, because this side ends it."""
        self.respond(result)

    @abc.abstractmethod
    def ask(self, method: str, params: JsonObject | None) -> OutgoingRequest:
        """Return a request to the other side that belongs to this exchange; enter it to send it, leave it to end it."""

    def may_be_answered_here(self) -> bool:
        """Whether a handler that cannot wait may run, and answer, before whoever brings the request goes on."""
        return self.has_room()

    @abc.abstractmethod
    def has_room(self) -> bool:
        """Whether a message may be queued now without waiting."""

    @abc.abstractmethod
    async def room(self) -> None:
        """Wait until a message may be queued; raises `ConnectionLost` where none ever will."""

    @abc.abstractmethod
    def _send(self, outcome: JsonObject | McpError) -> None:
        """Queue the response and forget the exchange."""

    @abc.abstractmethod
    def _notify(self, method: str, params: JsonObject) -> None:
        """Queue an update."""

    @abc.abstractmethod
    def _end(self) -> None:
        """Forget the exchange: it ended without a response."""


@define(eq=False)
class IncomingMessageRequest(IncomingRequest):
    """A request of the other side."""

    _connection: MessageConnection
    outlet: Outlet
    """Where its answer goes, and all that belongs to it."""
    _batch: ResponseBatch | None = None

    def ask(self, method: str, params: JsonObject | None) -> OutgoingRequest:
        """Return a request that goes out where this one's answer will."""
        return self._connection.ask_in(self.outlet, method, params)

    def has_room(self) -> bool:
        """Whether its lane has room."""
        return self.outlet.has_room()

    def may_be_answered_here(self) -> bool:
        """Not in an array, which may hold thousands of requests: others would have to wait for all of them."""
        return self._batch is None and self.outlet.has_room()

    async def room(self) -> None:
        """Wait for room in its lane."""
        await self.outlet.room()

    def detach(self, retry_ms: int | None) -> None:
        """Let whoever reads its lane go, if the connection can do without."""
        self._connection.detach(self.outlet, retry_ms)

    def _conclude(self, result: JsonObject) -> None:
        # Both pages are obeyed: that on subscriptions wants the result, that on cancellation demands the notice. The
        # result goes first, because there are clients that take a subscription for lost when the notice does.
        self.respond(result)
        params = {"requestId": self.id, "reason": "the server stops", "_meta": {SUBSCRIPTION_ID_KEY: self.id}}
        self.outlet.put_urgent(encode_notification("notifications/cancelled", params))

    def _send(self, outcome: JsonObject | McpError) -> None:
        line, outcome = self._encoded(outcome)
        self._connection.ended(self)
        self._connection.admission.responded(self.method, success=not isinstance(outcome, McpError))
        if self._batch is not None:
            self._batch.resolve(line)
        else:
            self.outlet.put_urgent(line)  # the reader itself may have answered, and it cannot wait

    def _notify(self, method: str, params: JsonObject) -> None:
        self.outlet.put(encode_notification(method, params))

    def _end(self) -> None:
        self._connection.ended(self)
        if self._batch is not None:
            self._batch.resolve(None)


@define(eq=False)
class ResponseBatch:
    """The answers to one array of requests: they leave together, as an array, when the last one is there.

    Specification: https://modelcontextprotocol.io/specification/2025-03-26/basic#batching
    """

    _outlet: Outlet
    _answers: list[bytes] = field(factory=list[bytes], init=False)
    _open: int = field(default=1, init=False)
    """Requests not answered yet, and one more while the array is being read."""

    def expect(self) -> None:
        """Wait for the answer to one more request."""
        self._open += 1

    def add(self, line: bytes) -> None:
        """Take an answer that nobody was expected to give."""
        self._answers.append(line.rstrip())

    def resolve(self, line: bytes | None) -> None:
        """Take the answer to an expected request; None where it was cancelled."""
        if line is not None:
            self.add(line)
        self._open -= 1
        if self._open == 0 and self._answers:  # urgent: the last one may have been refused, or cancelled, by the reader
            self._outlet.put_urgent(b"[" + b",".join(self._answers) + b"]\n")

    def close(self) -> None:
        """The array has been read."""
        self.resolve(None)
