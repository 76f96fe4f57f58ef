"""One request as the asking side sees it: its updates in order, then its outcome.

The link's reader puts things in and never waits; whoever asked takes them out in its own task.

Rules of this file:

1. Updates come out in the order they came in, all of them before the outcome.
2. When too many wait, the oldest goes and is counted. The newest update and the outcome are never lost.
3. Without interest nothing is kept.
4. One task receives. A second one at the same time is a mistake of the caller, and is told so.
"""

from __future__ import annotations

import abc
from collections import deque
from collections.abc import Awaitable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias

import trio
from attrs import define, field

from .._errors import ConnectionLost, ErrorResponse, RemoteProtocolError
from .._tracing import RequestSpan
from ..wire import ASKING, ExchangeEvent, ExchangeState, JsonObject, advance
from ._context import NO_HEADERS

__all__ = ["OutgoingRequest", "PausableTimeouts", "Update", "UpdateBudget", "UpdateListener"]

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

    def _leaving(self) -> None:
        """The request goes out, and has its id; to be called by `_begin` before an answer can be there."""
        if self.span is not None:
            self.span.sent(self.id)

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
        """Send the request. If cancelled, nothing was sent."""

    @abc.abstractmethod
    def _cancel(self) -> None:
        """Tell the other side, if it can know of the exchange, that nobody waits any more."""


def _end_span(span: RequestSpan, outcome: JsonObject | Exception) -> None:
    if isinstance(outcome, Exception) and not isinstance(outcome, ErrorResponse):
        span.failed(type(outcome).__name__, str(outcome) if isinstance(outcome, RemoteProtocolError) else None)
    else:
        span.answered(outcome)


# Time limits of blocks that stand still together while a person is being asked: nobody can say how long that takes.


@define(eq=False)
class PausableTimeouts:
    """The limits of one connection's blocks."""

    pauses: int = field(default=0, init=False)
    """How often the limits have stood still."""
    _limits: dict[trio.CancelScope, float] = field(factory=dict[trio.CancelScope, float], init=False)
    """The blocks that are being waited for; and the seconds that each has left, as of when the limits stood still."""
    _persons: int = field(default=0, init=False)

    def within(self, seconds: float) -> AbstractContextManager[trio.CancelScope, bool]:
        """Cancel the block after *seconds*, not counting the time in which a person is being asked.

        The scope says afterwards whether it was.
        """
        return _Timeout(self, seconds)

    def begin(self, scope: trio.CancelScope, seconds: float) -> None:
        """A block begins, of which *scope* is the limit."""
        self._limits[scope] = seconds
        if not self._persons:
            scope.deadline = trio.current_time() + seconds

    def end(self, scope: trio.CancelScope) -> None:
        """A block ends."""
        del self._limits[scope]

    @contextmanager
    def paused(self) -> Generator[None]:
        """Have the limits stand still for as long as the block lasts; any number of such blocks may overlap."""
        if self._persons == 0:
            self._pause()
        self._persons += 1
        try:
            yield
        finally:
            self._persons -= 1
            if self._persons == 0:
                self._go_on()

    def _pause(self) -> None:
        self.pauses += 1
        now = trio.current_time()
        for scope in self._limits:
            self._limits[scope] = scope.deadline - now
            scope.deadline = float("inf")

    def _go_on(self) -> None:
        now = trio.current_time()
        for scope, seconds in self._limits.items():
            scope.deadline = now + seconds


@define(eq=False)
class _Timeout:
    """One block. A class, because type checkers know of no generator that it may swallow what it was left with."""

    _patience: PausableTimeouts
    _seconds: float
    _scope: trio.CancelScope = field(factory=trio.CancelScope, init=False)

    def __enter__(self) -> trio.CancelScope:
        self._scope.__enter__()
        self._patience.begin(self._scope, self._seconds)
        return self._scope

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        self._patience.end(self._scope)
        return self._scope.__exit__(kind, exc, traceback)
