"""The handler pool of a server or client: its handler runs, from their first step to their response.

A Trio task never changes its nursery. A handler that may outlive the request that started it must therefore be started
in a nursery that outlives every request: that of the pool. Cancelling a request stops its handler through the cancel
scope of the run, not through a parent task.

Rules of handler runs:

1. A run is tied to at most one exchange at a time. Either side may cut the tie, synchronously.
2. Whatever a handler raises is the failure of its call, unless the pool itself is being cancelled; see `failure_of`.
   The boundary that turns the failure into a response is outside the cancel scope of the run. A handler whose clean-up
   fails while it is cancelled raises a group that contains `Cancelled`, which only the scope can tell apart.
3. A run always gives its slot back.
4. A run that asks a question may move from one exchange to another; see `_parking.py`.
5. A handler that never waits needs no task. It runs from start to end where its request is read, which takes half the
   time (benchmark cells `stdio-1` and `memory-1`). Nothing could cancel it in a task of its own either. It gets a task
   only if it has to wait for its slot or for room for its response.

The limits on how many handlers run at once are in `_handler_slots.py`.

Rules of held resources:

6. What a run holds (its slot, a place of a tool's limiter, a thread, its time limit) is given back while a question is
   open, and taken again before the handler continues, whether the question was answered or refused. If several tasks of
   the handler do this at once, one of them takes and the others wait.
7. While a question is open nothing is taken: a task that continues while another one waits for an answer holds nothing.
8. A held resource is always released exactly once for each time it was taken.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import trio
from attrs import define, field

from .._errors import AskExpired, ConnectionLost, McpError
from .._util import failure_of
from ..wire import INTERNAL_ERROR, JsonObject
from ._handler_slots import FairLimiter, HandlerSlots
from ._limits import Limits
from ._parking import ParkedRuns, Question, QuestionBatch

if TYPE_CHECKING:
    from ._context import ExchangeContext, Peer
    from ._exchange import IncomingRequest
    from ._parking import PendingQuestions

__all__ = [
    "Explain",
    "Handler",
    "HandlerPool",
    "HandlerRun",
    "Hold",
    "Holds",
    "OutOfTimeError",
]


_log = logging.getLogger("trio_mcp.peer")

Handler: TypeAlias = "Callable[[HandlerRun], Awaitable[JsonObject]]"
"""A function that does the work of one request. It returns the JSON object of the result, or raises."""
Explain: TypeAlias = "Callable[[Exception], JsonObject | McpError]"
"""A function that turns the exception of a handler into the response."""


@define(eq=False)
class HandlerPool:
    """The nursery of all handlers of one server or client, their number, and the parked ones."""

    nursery: trio.Nursery
    limits: Limits = field(factory=Limits)
    running: int = field(default=0, init=False)
    """The number of handlers that have started and not ended, including those that clean up or wait for answers."""
    live: dict[HandlerRun, trio.lowlevel.Task] = field(factory=dict["HandlerRun", trio.lowlevel.Task], init=False)
    """The handlers that have a task."""
    parking: ParkedRuns = field(init=False)
    """The handlers that wait for answers."""
    limiter: FairLimiter = field(init=False)
    """The limit on how many handlers run at once, shared by all senders."""

    def __attrs_post_init__(self) -> None:
        self.limiter = FairLimiter(self.limits.max_running, leaves_places=True)
        self.parking = ParkedRuns(self.limits.max_parked, self.limits.ask_seconds)

    def begin(
        self,
        exchange: IncomingRequest,
        handler: Handler,
        explain: Explain,
        slots: HandlerSlots | None = None,
        *,
        waits: bool = True,
    ) -> None:
        """Answer *exchange* with the result of *handler*, as soon as a slot is free.

        Args:
            explain: turns an exception of the handler into the response. It gets `OutOfTimeError` if the handler used
                up the time that `HandlerRun.allow` gave it.
            slots: the slots that the handler takes one of; by default those of the connection.
            waits: True if the handler may wait for something. If False, the handler may have run, and its exchange may
                be answered, when this returns (rule 5).
        """
        peer = exchange.peer
        slots = slots or peer.slots
        exchange.run = run = HandlerRun(
            self, exchange, exchange.context, peer, exchange.method, handler, explain, slots, waits
        )
        run.request = exchange
        slots.take(run)


class OutOfTimeError(Exception):
    """The handler used up the time that `HandlerRun.allow` gave it."""


@define(eq=False)
class HandlerRun:
    """One handler at work, from its first exchange to its last. `Context` is a view of it."""

    pool: HandlerPool
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
    _handler: Handler
    _explain: Explain
    slots: HandlerSlots
    """The slots that it has one of, or waits for one of."""
    _waits: bool = True
    """False if the handler never waits for anything (rule 5)."""
    _holds: Holds | None = field(default=None, init=False)
    pending: PendingQuestions | None = field(default=None, init=False)
    """The open questions, if they are sent in the response; None if they are sent to the peer as requests. Set by the
    server when the handler asks for the first time."""
    open: tuple[QuestionBatch, ...] = field(default=(), init=False)
    """The batches of questions whose answers it waits for."""
    _task: trio.lowlevel.Task | None = field(default=None, init=False)
    has_slot: bool = field(default=False, init=False)
    _slot_taken: trio.Event | None = field(default=None, init=False)
    """Set when it has a slot again after a question; None unless it waits for one."""
    _has_ended: bool = field(default=False, init=False)
    """True if the handler has ended. A worker thread that it left may still ask something."""
    _context: Context = field(factory=copy_context, init=False)
    """The context variables of the task that made the request. Another task may start the run later."""
    _scope: trio.CancelScope | None = field(default=None, init=False)
    flush_updates: Callable[[], None] | None = field(default=None, init=False)
    """Sends the updates that are held back; called right before the exchange is answered. None if there are none."""
    closing_result: Callable[[], JsonObject] | None = field(default=None, init=False)
    """Returns the result of an endless handler when the server stops; None for all other handlers."""

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
            self._scope = trio.CancelScope()
        return self._scope

    def tie(self, exchange: IncomingRequest) -> None:
        """Work for *exchange* from now on."""
        self.exchange, exchange.run = exchange, self
        self.context, self.peer, self.slots = exchange.context, exchange.peer, exchange.peer.slots

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
        self.pool.running += 1
        start = partial(self.pool.nursery.start_soon, self._drive, name=f"{self.method} handler")
        self._context.run(start)

    def release_slot(self) -> None:
        """Give the slot back, if the run has one."""
        if self.has_slot:
            self.has_slot = False
            self.slots.release()

    def share_slot(self) -> None:
        """Treat the slot as one of the held resources, so that it is given back while a question is open (rule 6)."""
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

    def untie(self) -> None:
        """Work for no exchange; if the handler has not begun, it never will."""
        if not self.has_slot and self._slot_taken is None:
            self.slots.forget(self)
        self.exchange = None

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
        self.scope.deadline = trio.current_time() + seconds

    def end_limit(self) -> None:
        """Lift the limit of `allow`. A parked run keeps the deadline of its questions."""
        if self.pending is None or self.pending.token is None:
            self.scope.deadline = math.inf

    @contextmanager
    def asking(self, questions: Sequence[Question]) -> Generator[QuestionBatch]:
        """Open a batch of questions for the duration of the block. It fails if the handler ends or has ended."""
        if self._has_ended:
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
        """Cancel the handler. The questions of a shielded clean-up fail with `AskExpired`."""
        self.scope.cancel(reason=reason)
        self.fail_all(AskExpired("the call is over"))

    @trio.lowlevel.enable_ki_protection  # an interrupt is for the main task of the program, not for one call
    def _run_inline(self) -> None:
        """Run the handler in this task (rule 5)."""
        try:
            outcome = self._outcome_without_task()
            self._has_ended = True
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
                self._has_ended = True
                if self.open:  # a worker thread that the handler left still waits
                    self.fail_all(AskExpired("the call is over"))
            if self.pending is not None and self.pending.token is not None:
                await self._keep(self.pending)
            exchange = self.exchange
            if exchange is not None and not exchange.has_room():
                await self._wait_for_room(exchange)
            if self.exchange is not None:
                self.exchange.respond(outcome)
        finally:
            del self.pool.live[self]
            self._end()

    def _end(self) -> None:
        self.pool.running -= 1
        self.release_slot()
        if self.pending is not None:
            self.pool.parking.forget(self.pending)
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
            failure: Exception = OutOfTimeError()  # or the exchange was cancelled, and this is not sent
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
            _log.error("a handler of %s failed after it was cancelled", self.method, exc_info=failure)

    async def _wait_for_room(self, exchange: IncomingRequest) -> None:
        """Wait until the response may be queued."""
        with trio.CancelScope() as self._scope:  # the handler's scope has ended; `stop` must find this one
            try:
                await exchange.room()
            except ConnectionLost:
                exchange.disconnect()


@define(eq=False)
class Hold:
    """One resource that a run holds: taken when this object is made, and released by `close`."""

    _take: Callable[[], Awaitable[object]]
    _release: Callable[[], object]
    _is_held: bool = field(default=True, init=False)
    _closed: bool = field(default=False, init=False)

    def give_back(self) -> None:
        """Release the resource until `take_again`."""
        if self._is_held:
            self._is_held = False
            self._release()

    async def take_again(self) -> None:
        """Take the resource again; wait until it is free. If cancelled, it is not held."""
        if not self._is_held and not self._closed:
            await self._take()
            self._taken()

    def _taken(self) -> None:
        self._is_held = True
        if self._closed:  # the owner ended in between, for example a thread that was left
            self.give_back()

    def close(self) -> None:
        """Release the resource for good."""
        self._closed = True
        self.give_back()


@define(eq=False)
class Holds:
    """All resources that one run holds, and the time for which it may still work."""

    _all: list[Hold] = field(factory=list[Hold], init=False)
    has_slot: bool = field(default=False, init=False)
    """True if the first of them is the slot of the run."""
    _lock: trio.Lock | None = field(default=None, init=False)
    """Made when needed, because most runs ask nothing."""
    _asking: int = field(default=0, init=False)
    """The number of open waits for which everything was given back."""
    _work_left: float = field(default=math.inf, init=False)
    """The seconds that the handler had left when its clock was stopped."""
    _pauses: int = field(default=0, init=False)
    """The number of waits that stop the clock."""

    def add(self, hold: Hold) -> None:
        """Hold one more resource."""
        self._all.append(hold)

    def add_slot(self, hold: Hold) -> None:
        """Hold the slot of the run, which is always taken first: in one order, no two runs wait for each other."""
        self._all.insert(0, hold)
        self.has_slot = True

    def drop(self, hold: Hold) -> None:
        """Release *hold* for good."""
        self._all.remove(hold)
        hold.close()

    def give_back(self, scope: trio.CancelScope) -> None:
        """Release everything, and stop the clock of *scope* until `start_clock` was called as often as this."""
        self._asking += 1
        self._stop_clock(scope)
        for hold in self._all:
            hold.give_back()

    def start_clock(self, scope: trio.CancelScope) -> None:
        """Start the clock of *scope* again, with the time that was left."""
        self._asking -= 1
        self._resume_clock(scope)

    async def take_again(self, scope: trio.CancelScope) -> None:
        """Take everything again, unless another question is open: then the task that waits for its answer does so.

        The clock of *scope* is stopped while this waits, as it is while a handler waits for its slot.
        """
        if not self._all or self._is_asking():
            return
        self._stop_clock(scope)
        self._lock = self._lock or trio.Lock()
        try:
            async with self._lock:
                for hold in list(self._all):
                    await hold.take_again()
                    if self._is_asking():  # another task of the handler asked while this one waited
                        hold.give_back()
        finally:
            self._resume_clock(scope)

    def _is_asking(self) -> bool:
        return self._asking > 0

    def shorten(self, scope: trio.CancelScope, seconds: float) -> None:
        """Let the handler work for at most *seconds* more."""
        if self._pauses:
            self._work_left = min(self._work_left, seconds)
        else:
            scope.deadline = min(scope.deadline, trio.current_time() + seconds)

    def _stop_clock(self, scope: trio.CancelScope) -> None:
        self._pauses += 1
        if self._pauses == 1:
            self._work_left, scope.deadline = scope.deadline - trio.current_time(), math.inf

    def _resume_clock(self, scope: trio.CancelScope) -> None:
        self._pauses -= 1
        if self._pauses == 0:
            scope.deadline = trio.current_time() + self._work_left
