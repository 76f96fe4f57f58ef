"""The handler pool of a server or client, and its handler runs.

A Trio task never changes its nursery. A handler that may outlive the request that started it must therefore be started
in a nursery that outlives every request: that of the pool. Cancelling a request stops its handler through the cancel
scope of the run, not through a parent task.

Rules of handler runs:

1. A run is tied to at most one exchange at a time. Either side may cut the tie, synchronously.
2. Whatever a handler raises is the failure of its call, unless the pool itself is being cancelled; see `failure_of`.
   The boundary that turns the failure into a response is outside the cancel scope of the run. A handler whose clean-up
   fails while it is cancelled raises a group that contains `Cancelled`, which only the scope can tell apart.
3. A run always gives its slot back.
4. A run may move from one exchange to another: when it asks a question (see `_parking.py`), and when it is handed over
   to an exchange that outlives its request.
5. A handler that never waits needs no task. It runs from start to end where its request is read, which takes half the
   time (benchmark cells `stdio-1` and `memory-1`). Nothing could cancel it in a task of its own either. It gets a task
   only if it has to wait for its slot or for room for its response.
6. A handler has two deadlines: the end of the time that it may work, which is paused while it asks, and the deadline of
   its caller, which belongs to the request and ends with it. The earlier one is that of its cancel scope.
7. Large results and the cancellations of many handlers are spread over time; see `_pacing.py`. How many handlers run
   at once is decided in `_slots.py`.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

import trio
from attrs import define, field

from .._errors import AskExpired, ConnectionLost, McpError
from .._util import exc_info_of, failure_of
from ..wire import INTERNAL_ERROR, JsonObject
from ._holds import Hold, Holds
from ._limits import Limits
from ._pacing import Cancellations, LargeResults, is_large
from ._parking import ParkedRuns, Question, QuestionBatch
from ._slots import FairLimiter, HandlerSlots

if TYPE_CHECKING:
    from ._context import ExchangeContext, Peer
    from ._exchange import IncomingRequest
    from ._parking import PendingQuestions

__all__ = [
    "CallerDeadlineError",
    "Explain",
    "Forwarding",
    "ForwardingRun",
    "Handler",
    "HandlerPool",
    "HandlerRun",
    "OutOfTimeError",
]


_log = logging.getLogger("trio_mcp.peer")

Handler: TypeAlias = "Callable[[HandlerRun], Awaitable[JsonObject]]"
"""A function that does the work of one request. It returns the JSON object of the result, or raises."""
Explain: TypeAlias = "Callable[[Exception], JsonObject | McpError]"
"""A function that turns the exception of a handler into the response."""


class Forwarding(Protocol):
    """The work of answering one request elsewhere.

    Its outcome is told to the run of the request, once: by `ForwardingRun.answered`, or by `ForwardingRun.needs_task`
    if the answer has to wait for something after all.
    """

    def begin(self) -> bool:
        """Begin, if that needs no waiting; otherwise return False, with nothing begun. Never raises.

        The run may have been told the outcome when this returns.
        """
        ...

    def give_up(self) -> None:
        """Give up what was begun: the run is told nothing any more."""
        ...

    async def handle(self, run: HandlerRun) -> JsonObject:
        """Do the work in a task, or what is left of it; see `Handler`."""
        ...

    def explain(self, failure: Exception) -> JsonObject | McpError:
        """Return the response for an exception of `handle`; see `Explain`."""
        ...


@define(eq=False)
class HandlerPool:
    """The nursery of all handlers of one server or client, their number, and the parked ones."""

    nursery: trio.Nursery
    """The nursery in which handlers that wait get a task."""
    limits: Limits = field(factory=Limits)
    """The limits of the server or client."""
    running: int = field(default=0, init=False)
    """The number of handlers that have started and not ended, including those that clean up or wait for answers."""
    live: dict[HandlerRun, trio.lowlevel.Task] = field(factory=dict["HandlerRun", trio.lowlevel.Task], init=False)
    """The handlers that have a task."""
    parking: ParkedRuns = field(init=False)
    """The handlers that wait for answers."""
    limiter: FairLimiter = field(init=False)
    """The limit on how many handlers run at once, shared by all senders."""
    _fewer: trio.Event | None = field(default=None, init=False)
    """Set when a handler ends; None unless `drained` waits."""
    _large_results: LargeResults | None = field(default=None, init=False)
    _cancellations: Cancellations | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.limiter = FairLimiter(self.limits.max_running, leaves_places=True)
        self.parking = ParkedRuns(self.limits.max_parked, self.limits.ask_seconds)

    async def drained(self) -> None:
        """Wait until no handler is left that belongs to no connection."""
        while any(run.exchange is not None and run.exchange.outlasts for run in self.live):
            self._fewer = trio.Event()
            await self._fewer.wait()

    def ended(self, run: HandlerRun) -> None:
        """Forget the task of a run."""
        del self.live[run]
        if not self.live:
            self.live.clear()  # frees the memory of many former entries
        if self._fewer is not None:
            self._fewer.set()

    # The next two are made when needed, because together they are 1 KB (benchmark cell `idle`).
    @property
    def large_results(self) -> LargeResults:
        """The turns of large results, shared by all senders."""
        if self._large_results is None:
            self._large_results = LargeResults(FairLimiter(1))
        return self._large_results

    @property
    def cancellations(self) -> Cancellations:
        """The handlers that are to be cancelled."""
        if self._cancellations is None:
            self._cancellations = Cancellations(self.nursery)
        return self._cancellations

    def begin_forwarding(
        self, exchange: IncomingRequest, forwarding: Forwarding, slots: HandlerSlots, deadline: float = math.inf
    ) -> None:
        """Answer *exchange* with the outcome of *forwarding*, as soon as a slot is free; see `ForwardingRun`.

        Args:
            exchange: the request, which was admitted.
            forwarding: sends the request on, and returns its outcome.
            slots: the places of the connection, of which the run takes one.
            deadline: the deadline of the caller, on Trio's clock; *forwarding* keeps it, or its handler is cancelled.
        """
        run = ForwardingRun(
            self,
            exchange,
            exchange.context,
            exchange.peer,
            exchange.method,
            slots,
            True,
            deadline,
            forwarding=forwarding,
        )
        exchange.run, run.request = run, exchange
        slots.take(run)

    def begin(
        self,
        exchange: IncomingRequest,
        handler: Handler,
        explain: Explain,
        slots: HandlerSlots | None = None,
        *,
        waits: bool = True,
        deadline: float = math.inf,
    ) -> None:
        """Answer *exchange* with the result of *handler*, as soon as a slot is free.

        Args:
            explain: turns an exception of the handler into the response. It gets `OutOfTimeError` if the handler used
                up the time that `HandlerRun.allow` gave it, and `CallerDeadlineError` if the caller's deadline passed.
            slots: the slots that the handler takes one of; by default those of the connection.
            waits: True if the handler may wait for something. If False, the handler may have run, and its exchange may
                be answered, when this returns (rule 5).
            deadline: the deadline of the caller, on Trio's clock, at which the handler is cancelled.
        """
        peer = exchange.peer
        slots = slots or peer.slots
        exchange.run = run = HandlerRun(
            self,
            exchange,
            exchange.context,
            peer,
            exchange.method,
            slots,
            waits,
            deadline,
            handler=handler,
            explain=explain,
        )
        run.request = exchange
        slots.take(run)


class OutOfTimeError(Exception):
    """The handler used up the time that `HandlerRun.allow` gave it, or the deadline of its caller has passed."""


class CallerDeadlineError(OutOfTimeError):
    """The deadline of the caller has passed."""

    def __init__(self) -> None:
        super().__init__("cancelled, because the deadline of the caller has passed")


@define(eq=False)
class HandlerRun:
    """One handler at work, from its first exchange to its last. `Context` is a view of it."""

    pool: HandlerPool
    """The pool that runs it."""
    exchange: IncomingRequest | None
    """The exchange it works for now; None after that was answered, cancelled or lost."""
    context: ExchangeContext
    """The context of its exchange, or of the latest one."""
    peer: Peer
    """The other end of the connection on which the request arrived."""
    method: str
    """The method of the request."""
    request: IncomingRequest = field(init=False)
    """The request that it was started for."""
    _handler: Handler = field(kw_only=True, alias="handler")
    _explain: Explain = field(kw_only=True, alias="explain")
    slots: HandlerSlots
    """The slots that it has one of, or waits for one of."""
    _waits: bool = True
    """False if the handler never waits for anything (rule 5)."""
    caller_deadline: float = math.inf
    """The deadline of the caller, on Trio's clock; infinite if it has told of none, or the request is over (rule 6)."""
    _own_deadline: float = field(init=False)
    _holds: Holds | None = field(init=False)
    pending: PendingQuestions | None = field(init=False)
    """The open questions, if they are sent in the response; None if they are sent to the peer as requests. Set by the
    server when the handler asks for the first time."""
    open: tuple[QuestionBatch, ...] = field(init=False)
    """The batches of questions whose answers it waits for."""
    _task: trio.lowlevel.Task | None = field(init=False)
    has_slot: bool = field(init=False)
    """True while it has one of `slots`."""
    _slot_taken: trio.Event | None = field(init=False)
    """Set when it has a slot again after a question; None unless it waits for one."""
    has_ended: bool = field(init=False)
    """True if the handler has ended. A worker thread that it left may still ask something."""
    since: float = field(init=False)
    """The time at which it began, or began to wait for that, as `time.perf_counter` counts. Not set without a task."""
    _context: Context = field(init=False)
    """The context variables of the task that made the request. Another task may start the run later."""
    _scope: trio.CancelScope | None = field(init=False)
    flush_updates: Callable[[], None] | None = field(init=False)
    """Sends the updates that are held back; called right before the exchange is answered. None if there are none."""
    closing_result: Callable[[], JsonObject] | None = field(init=False)
    """Returns the result of an endless handler when the server stops; None for all other handlers."""

    def __attrs_post_init__(self) -> None:
        # Set here, because attrs takes three times as long for fields that are not arguments.
        self._own_deadline = math.inf
        self._holds = None
        self.pending = None
        self.open = ()
        self._task = None
        self.has_slot = False
        self._slot_taken = None
        self.has_ended = False
        self._context = copy_context()
        self._scope = None
        self.flush_updates = None
        self.closing_result = None

    @property
    def holds(self) -> Holds:
        """The resources that it holds. Made when needed, because most runs hold none and ask nothing."""
        if self._holds is None:
            self._holds = Holds()
        return self._holds

    @property
    def scope(self) -> trio.CancelScope:
        """The cancel scope of the handler. Made when needed, because a handler that never waits needs none."""
        if self._scope is None:
            self._scope = trio.CancelScope(deadline=self.caller_deadline)
        return self._scope

    @property
    def deadline(self) -> float:
        """The time at which the time that `allow` gave is used up; infinite without a limit, and while it is paused."""
        return self._own_deadline

    @deadline.setter
    def deadline(self, deadline: float) -> None:
        self._own_deadline = deadline
        self.scope.deadline = min(deadline, self.caller_deadline)

    def work_until(self, caller_deadline: float) -> None:
        """Work until *caller_deadline*, because the request that it works for is another one, or none."""
        self.caller_deadline = caller_deadline
        self.scope.deadline = min(self._own_deadline, caller_deadline)

    def tie(self, exchange: IncomingRequest) -> None:
        """Work for *exchange* from now on."""
        self.exchange, exchange.run = exchange, self
        self.context, self.peer, self.slots = exchange.context, exchange.peer, exchange.peer.slots

    def hand_over(self, exchange: IncomingRequest, answer: JsonObject) -> None:
        """Answer the request with *answer*, and work for *exchange* from now on.

        The run has an open exchange and a slot. It takes a slot of the peer of *exchange* instead, which has a free
        one.
        """
        assert self.exchange is not None
        assert self.has_slot
        self.exchange.respond(answer)
        self.work_until(math.inf)
        self.release_slot()
        self.tie(exchange)
        self.request = exchange
        self.slots.adopt(self)

    async def tied(self) -> IncomingRequest | None:
        """Return the exchange that it works for; wait while it is parked. None if the exchange is over."""
        while self.exchange is None:
            if self.pending is None or self.pending.token is None:
                return None
            await self.pending.resumed.wait()
        return self.exchange

    def begin(self) -> None:
        """Run the handler without a task if it never waits, and start it otherwise. The run has its slot."""
        assert self.exchange is not None
        if self._waits or not self.exchange.may_run_inline():
            self.start()
        else:
            self.has_slot = True
            self.pool.running += 1
            self._context.run(self._run_inline)

    def start(self) -> None:
        """Start the task of the run, or let it continue if it was parked. The run has its slot."""
        self.has_slot = True
        if self._slot_taken is not None:
            self._slot_taken.set()
            return
        if self.pending is not None:
            self.pending.wake()
            return
        self.since = time.perf_counter()
        self.pool.running += 1
        start = partial(self.pool.nursery.start_soon, self._drive, name=f"{self.method} handler")
        self._context.run(start)

    def release_slot(self) -> None:
        """Give the slot back, if the run has one."""
        if self.has_slot:
            self.has_slot = False
            self.slots.release()

    def share_slot(self) -> None:
        """Treat the slot as one of the held resources, which are given back while a question is open."""
        if not self.holds.has_slot:
            self.holds.add_slot(Hold(self._take_slot, self.release_slot))

    async def _take_slot(self) -> None:
        self._slot_taken = taken = trio.Event()
        try:
            self.slots.take_again(self)
            await taken.wait()
        except BaseException:
            if self.has_slot:
                self.release_slot()
            else:
                self.slots.forget(self)
            raise
        finally:
            self._slot_taken = None

    def leave_queue(self) -> None:
        """Begin no more, if the handler has not begun."""
        if self._slot_taken is None:
            self.slots.forget(self)

    @property
    def has_task(self) -> bool:
        """True if the handler has a task of its own (rule 5)."""
        return self._task is not None

    @property
    def has_several_tasks(self) -> bool:
        """True if the handler has started tasks that have not all ended."""
        return self._task is not None and bool(self._task.child_nurseries)

    def allow(self, seconds: float) -> None:
        """Cancel the handler if it works for more than *seconds* from now."""
        self.deadline = trio.current_time() + seconds

    def end_limit(self) -> None:
        """Lift the limit of `allow`. A parked run keeps the deadline of its questions."""
        if self.pending is None or self.pending.token is None:
            self.deadline = math.inf

    @contextmanager
    def asking(self, questions: Sequence[Question]) -> Generator[QuestionBatch]:
        """Open a batch of questions for the duration of the block. Its answers fail if the handler ends meanwhile.

        Args:
            questions: the questions of the batch.

        Raises:
            AskExpired: the handler has ended already.
        """
        if self.has_ended:
            raise AskExpired("the call is over")
        asking = QuestionBatch(questions)
        self.open = (*self.open, asking)
        try:
            yield asking
        finally:
            self.open = tuple(each for each in self.open if each is not asking)

    def fail_all(self, failure: Exception) -> None:
        """Raise *failure* in every task that waits for an answer."""
        for asking in self.open:
            asking.fail(failure)

    def stop(self, reason: str) -> None:
        """Cancel the handler. The questions of a shielded clean-up fail with `AskExpired`.

        Args:
            reason: the cause, for the `trio.Cancelled` of the handler.
        """
        self.scope.cancel(reason=reason)
        self.fail_all(AskExpired("the call is over"))

    def stop_soon(self, reason: str) -> None:
        """Cancel the handler when its turn comes: the cancellations of many handlers are spread over time (rule 7).

        Args:
            reason: the cause, for the `trio.Cancelled` of the handler.
        """
        if self.has_task or self.has_slot:
            self.pool.cancellations.add(partial(self.stop, reason))
        else:
            self.stop(reason)

    @trio.lowlevel.enable_ki_protection  # an interrupt is for the main task of the program, not for one call
    def _run_inline(self) -> None:
        """Run the handler in this task (rule 5)."""
        try:
            outcome = self._outcome_without_task()
            self.has_ended = True
            if self.exchange is not None:
                self.exchange.respond(outcome)
            del outcome  # it may be an exception, whose traceback refers to this frame
        finally:
            self._end()

    def _outcome_without_task(self) -> JsonObject | McpError:
        steps = self._handler(self).__await__()
        try:
            next(steps)
        except StopIteration as returned:
            outcome: JsonObject = returned.value
            return outcome
        except BaseException as exc:  # noqa: BLE001 # `failure_of` raises it again unless it is a failure
            return self._explained(failure_of(exc, "the handler", _log))
        steps.close()
        return self._explained(RuntimeError(f"a handler of {self.method} that was declared never to wait has waited"))

    @trio.lowlevel.enable_ki_protection  # as above
    async def _drive(self) -> None:
        self._task = self.pool.live[self] = trio.lowlevel.current_task()
        try:
            try:
                outcome = await self._work()
            finally:
                self.has_ended = True
                if self.open:  # a worker thread that the handler left still waits
                    self.fail_all(AskExpired("the call is over"))
            if self.pending is not None and self.pending.token is not None:
                await self._keep(self.pending)
            exchange = self.exchange
            if exchange is not None and not exchange.has_room():
                await self._wait_for_room(exchange)
            if not self.slots.is_alone and is_large(outcome):
                while (full := await self._respond_in_turn(outcome)) is not None:
                    await self._wait_for_room(full)
            elif self.exchange is not None:
                self.exchange.respond(outcome)
            del outcome  # as in `_run_inline`
        finally:
            self.pool.ended(self)
            self._end()

    def _end(self) -> None:
        self.pool.running -= 1
        self.release_slot()
        if self.pending is not None:
            self.pool.parking.forget(self.pending)
            self.pending = None  # it refers to the run, and a cycle would wait for the garbage collector
        if self._holds is not None:
            self._holds.forget_slot()  # likewise
        if self.exchange is not None:
            self.exchange.abandon()

    async def _keep(self, waiting: PendingQuestions) -> None:
        """Keep the outcome of a parked run until the client retries, or until the questions expire."""
        waiting.has_ended = True
        with trio.CancelScope(deadline=waiting.expires) as self._scope:
            await waiting.resumed.wait()

    async def _work(self) -> JsonObject | McpError:
        """Run the handler; return the response (rule 2)."""
        try:
            with self.scope:
                return await self._handler(self)
            # Or the exchange was cancelled, and this is not sent.
            is_late = self.caller_deadline <= trio.current_time()
            if is_late and self.exchange is not None:
                self.exchange.deadline_passed()
            failure: Exception = CallerDeadlineError() if is_late else OutOfTimeError()
        except BaseException as exc:  # noqa: BLE001 # `failure_of` raises it again unless it is a failure
            failure = failure_of(exc, "the handler", _log)
        try:
            return self._explained(failure)
        finally:
            del failure  # its traceback refers to this frame

    def _explained(self, failure: Exception) -> JsonObject | McpError:
        if self.exchange is None and (self.pending is None or self.pending.token is None):
            self._log_unreported(failure)
            return {}
        try:
            return self._explain(failure)
        except BaseException:  # noqa: BLE001 # a failing `__str__`, for example, must not end other handlers
            _log.exception("the failure of a handler of %s could not be turned into a response", self.method)
            return McpError(INTERNAL_ERROR, "internal error; the log says more")

    def _log_unreported(self, failure: Exception) -> None:
        """Log a failure that cannot be reported to the peer any more."""
        if not isinstance(failure, OutOfTimeError | ConnectionLost | AskExpired):
            _log.error("a handler of %s failed after it was cancelled", self.method, exc_info=exc_info_of(failure))

    async def _respond_in_turn(self, outcome: JsonObject | McpError) -> IncomingRequest | None:
        """Send a large result when it is its turn (rule 7).

        Return the exchange instead if other results have taken its room meanwhile: whoever has the turn waits for
        nothing, because all other senders wait for the turn.
        """
        with trio.CancelScope() as self._scope:  # as below
            async with self.pool.large_results.turn(self.slots):
                exchange = self.exchange
                if exchange is not None and exchange.open and not exchange.has_room():
                    return exchange
                if exchange is not None:
                    exchange.respond(outcome)
        return None

    async def _wait_for_room(self, exchange: IncomingRequest) -> None:
        """Wait until the response may be queued."""
        with trio.CancelScope() as self._scope:  # the handler's scope has ended; `stop` must find this one
            try:
                await exchange.room()
            except ConnectionLost:
                exchange.disconnect()


@define(eq=False)
class ForwardingRun(HandlerRun):
    """A run without a task: another peer answers the request, and the answer is passed on when it arrives.

    A task for each request that is only passed on would cost a third of it (benchmark cell `hop`).
    """

    _forwarding: Forwarding = field(kw_only=True, alias="forwarding")
    # Set when a task is needed: all that a request in flight refers to is work for the garbage collector.
    _handler: Handler = field(init=False)
    _explain: Explain = field(init=False)
    _is_begun: bool = field(init=False)
    """True while the request is answered elsewhere."""
    _is_beginning: bool = field(init=False)
    """True while `Forwarding.begin` runs, in the context in which the task will start."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._is_begun = self._is_beginning = False

    def begin(self) -> None:
        """Begin to answer."""
        self.start()

    def start(self) -> None:
        """Begin to answer elsewhere, or start the task of the handler if that needs to wait. The run has its slot."""
        if self._task is not None:  # it continues after a question
            super().start()
            return
        self.has_slot = self._is_begun = self._is_beginning = True
        self.pool.running += 1
        is_late = self.caller_deadline != math.inf and self.caller_deadline <= trio.current_time()
        is_begun = not is_late and self._context.run(self._forwarding.begin)
        self._is_beginning = False
        if not (is_begun and self._is_begun) and not self.has_ended:
            self._start_task()

    def needs_task(self) -> None:
        """Start the task of the handler."""
        self._is_begun = False
        if not self._is_beginning:
            self._start_task()

    def _start_task(self) -> None:
        self.pool.running -= 1
        self._is_begun = False
        self._handler, self._explain = self._forwarding.handle, self._forwarding.explain
        super().start()

    def stop(self, reason: str) -> None:
        """Give the request up."""
        if not self._is_begun:
            super().stop(reason)
            return
        self._is_begun, self.has_ended = False, True
        self._forwarding.give_up()
        self._end()

    def stop_soon(self, reason: str) -> None:
        """Give the request up at once, because that wakes no task."""
        if self._is_begun:
            self.stop(reason)
        else:
            super().stop_soon(reason)

    def answered(self, outcome: JsonObject | McpError) -> None:
        """Pass the answer on, now or when there is room for it."""
        self._is_begun, self.has_ended = False, True
        exchange = self.exchange
        assert exchange is not None  # else it was given up
        exchange.may_have_texts = True
        if exchange.has_room():
            exchange.respond(outcome)
            self._end()
        else:
            self.pool.nursery.start_soon(self._respond_later, exchange, outcome, name=f"{self.method} answer")

    async def _respond_later(self, exchange: IncomingRequest, outcome: JsonObject | McpError) -> None:
        try:
            await self._wait_for_room(exchange)
            if self.exchange is not None:
                self.exchange.respond(outcome)
        finally:
            self._end()
