"""The handler pool of a server or client: its handler runs, and the limits on how many of them run at once.

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

Rules of limits. A sender is an authenticated principal, or else an address, over all its connections, sessions and
revisions; a connection without an address (a pipe, memory) is a sender of its own; see `_shares.py`:

6. A handler runs when its sender has a free slot and the limiter of the pool has a place for it. Until then its request
   waits in the queue of its sender.
7. A sender waits for a place of the limiter at most once, however many of its requests wait. When it gets one, it waits
   again.
8. A free place goes to the waiting sender that has the fewest places; equals take turns. Within one sender it is first
   come, first served.
9. A sender may take three times as many places as it leaves free: three quarters of them if it is the only one. So
   however many requests it makes, a newcomer finds a free place. A connection without an address is usually the only
   one of its server, and may take all places.
10. Large results and the cancellations of many handlers are spread over time; see `_pacing.py`. A connection without an
   address is spared the former.
"""

from __future__ import annotations

import logging
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, Self, TypeAlias
from weakref import WeakKeyDictionary, WeakValueDictionary

import trio
from attrs import define, field

from .._errors import AskExpired, ConnectionLost, McpError
from .._shares import Sender
from .._util import failure_of
from ..wire import INTERNAL_ERROR, JsonObject
from ._holds import Hold, Holds
from ._limits import BUSY, Limits
from ._pacing import Cancellations, LargeResults, is_large
from ._parking import ParkedRuns, Question, QuestionBatch

if TYPE_CHECKING:
    from ._context import ExchangeContext, Peer
    from ._exchange import IncomingRequest
    from ._parking import PendingQuestions

__all__ = [
    "Explain",
    "FairLimiter",
    "Handler",
    "HandlerPool",
    "HandlerRun",
    "HandlerSlots",
    "OutOfTimeError",
    "SenderSlots",
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
    _large_results: LargeResults | None = field(default=None, init=False)
    _cancellations: Cancellations | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.limiter = FairLimiter(self.limits.max_running, leaves_places=True)
        self.parking = ParkedRuns(self.limits.max_parked, self.limits.ask_seconds)

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
    _holds: Holds | None = field(init=False)
    pending: PendingQuestions | None = field(init=False)
    """The open questions, if they are sent in the response; None if they are sent to the peer as requests. Set by the
    server when the handler asks for the first time."""
    open: tuple[QuestionBatch, ...] = field(init=False)
    """The batches of questions whose answers it waits for."""
    _task: trio.lowlevel.Task | None = field(init=False)
    has_slot: bool = field(init=False)
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
        self.scope.deadline = trio.current_time() + seconds

    def end_limit(self) -> None:
        """Lift the limit of `allow`. A parked run keeps the deadline of its questions."""
        if self.pending is None or self.pending.token is None:
            self.scope.deadline = math.inf

    @contextmanager
    def asking(self, questions: Sequence[Question]) -> Generator[QuestionBatch]:
        """Open a batch of questions for the duration of the block. It fails if the handler ends or has ended."""
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
        """Cancel the handler. The questions of a shielded clean-up fail with `AskExpired`."""
        self.scope.cancel(reason=reason)
        self.fail_all(AskExpired("the call is over"))

    def stop_soon(self, reason: str) -> None:
        """Cancel the handler in its turn (rule 10)."""
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
        finally:
            del self.pool.live[self]
            if not self.pool.live:
                self.pool.live.clear()  # frees the memory of many former entries
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

    async def _respond_in_turn(self, outcome: JsonObject | McpError) -> IncomingRequest | None:
        """Send a large result when it is its turn (rule 10).

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


Begin: TypeAlias = Callable[[], object]

_SHARE = 3
"""The number of places that a group may have for each place that it leaves to others (rule 9)."""


@define(eq=False)
class FairLimiter:
    """A capacity limiter that is fair between groups; see rules 8 and 9.

    Every operation takes constant time, except for the choice of the next group: that takes time in proportion to the
    different numbers of places that the waiting groups have. Not thread-safe.

    Args:
        capacity: how many places may be taken at once.
        leaves_places: True if a group may not take all places (rule 9).
    """

    capacity: int
    _leaves_places: bool = field(default=False, kw_only=True, alias="leaves_places")
    taken: int = field(default=0, init=False)
    """The number of places taken now."""
    waiting: int = field(default=0, init=False)
    """The number of callers that wait for a place."""
    _counts: dict[Hashable, int] = field(factory=dict[Hashable, int], init=False, repr=False)
    """The number of places that each group has, unless it has none or is alone."""
    _members: dict[Hashable, OrderedDict[Begin, None]] = field(
        factory=dict[Hashable, "OrderedDict[Begin, None]"], init=False, repr=False
    )
    """The waiting callers by group."""
    _queues: dict[int, OrderedDict[Hashable, None]] = field(
        factory=dict[int, "OrderedDict[Hashable, None]"], init=False, repr=False
    )
    """The waiting groups by the number of places that each has, in the order of their turns."""

    @property
    def groups(self) -> int:
        """The number of groups that wait."""
        return len(self._members)

    def has_place(self, group: Hashable) -> bool:
        """Return True if *group* could take a place now."""
        free = self.capacity - self.taken
        if free <= 0:
            return False
        count = self._counts.get(group, 0) if self._leaves_places else 0  # always 0 for a group that is alone
        return count == 0 or count < _SHARE * (free - 1)

    def take(self, group: Hashable) -> bool:
        """Take a place for *group* if it may have one now, and return True; `release` must follow."""
        if type(group) is HandlerSlots and group.is_alone:  # as below, for most calls over pipes and in memory
            if self.taken >= self.capacity:
                return False
        elif self.has_place(group):
            self._count(group, 1)
        else:
            return False
        self.taken += 1
        return True

    def _count(self, group: Hashable, change: int) -> None:
        """Count a change of the places of a group, unless it is alone."""
        if type(group) is HandlerSlots and group.is_alone:
            return
        count = self._counts.get(group, 0)
        if count + change:
            self._counts[group] = count + change
        else:
            del self._counts[group]
        if group in self._members:
            self._dequeue(group, count)
            self._enqueue(group)

    def _enqueue(self, group: Hashable) -> None:
        self._queues.setdefault(self._counts.get(group, 0), OrderedDict())[group] = None

    def _dequeue(self, group: Hashable, count: int) -> None:
        queue = self._queues[count]
        del queue[group]
        if not queue:
            del self._queues[count]

    def wait(self, group: Hashable, begin: Begin) -> None:
        """Call *begin*, with a place taken, when *group* gets one.

        Call this if `take` returned False, or right before `release`. Waiting twice with an equal *begin* is waiting
        once.

        Args:
            begin: synchronous, and must not raise.
        """
        members = self._members.get(group)
        if members is None:
            members = self._members[group] = OrderedDict()
            self._enqueue(group)
        self.waiting += begin not in members
        members[begin] = None

    def forget(self, group: Hashable, begin: Begin) -> None:
        """Stop waiting. Harmless if *begin* does not wait."""
        members = self._members.get(group)
        if members is not None and begin in members:
            self._leave(group, members, begin)

    def _leave(self, group: Hashable, members: OrderedDict[Begin, None], begin: Begin) -> None:
        del members[begin]
        self.waiting -= 1
        if not members:
            del self._members[group]
            self._dequeue(group, self._counts.get(group, 0))

    async def acquire(self, group: Hashable) -> None:
        """Wait for a place and take it; `release` must follow. A cancel point: if cancelled, no place is taken.

        Args:
            group: the group that waits, usually the slots of a sender.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if self.take(group):
            return
        begin = partial(trio.lowlevel.reschedule, trio.lowlevel.current_task())
        self.wait(group, begin)

        def abort(_: object) -> trio.lowlevel.Abort:
            self.forget(group, begin)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def release(self, group: Hashable) -> None:
        """Give a place of *group* back. If a group waits that may have it, that gets it at once."""
        self.taken -= 1
        if not (type(group) is HandlerSlots and group.is_alone):  # as in `take`
            self._count(group, -1)
        while self._queues:
            following = next(iter(self._queues[min(self._queues)]))
            if not self.has_place(following):
                return
            members = self._members[following]
            begin = next(iter(members))
            self._queues[self._counts.get(following, 0)].move_to_end(following)
            self._leave(following, members, begin)
            self.taken += 1
            self._count(following, 1)
            begin()


@define(eq=False)
class HandlerSlots:
    """The running and the waiting handlers of one sender.

    Args:
        max_running: how many handlers may run at once.
        max_waiting: how many requests may wait for a slot; more are refused with `BUSY`.
        listens: True if these are the slots of requests that listen for changes. They take no place of the limiter of
            the pool, because they last.
        is_alone: True if these are the slots of a connection without an address (rule 9).
    """

    max_running: int
    max_waiting: int
    listens: bool = False
    is_alone: bool = field(default=True, kw_only=True)
    running: int = field(default=0, init=False)
    _waiting: OrderedDict[HandlerRun, None] = field(factory=OrderedDict["HandlerRun", None], init=False)
    """An ordered set, so that a cancelled run is removed in constant time."""
    _limiter: FairLimiter = field(init=False)
    """The limiter of the pool, from the first request on."""

    def __attrs_post_init__(self) -> None:
        self._limiter = FairLimiter(self.max_running)

    @classmethod
    def for_listens(cls, most: int) -> Self:
        """Return the slots of at most *most* requests that listen for changes."""
        return cls(most, 0, listens=True)

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a slot."""
        return len(self._waiting)

    @property
    def queue(self) -> Sequence[HandlerRun]:
        """The runs that wait for a slot, in the order in which they get one."""
        return [*self._waiting]

    @property
    def full(self) -> bool:
        """True if another request would be refused as busy."""
        startable = self.running < self.max_running and self._limiter.has_place(self)
        return not startable and len(self._waiting) >= self.max_waiting

    def take(self, run: HandlerRun) -> None:
        """Start *run* now if a slot is free, and later otherwise; refuse its exchange as busy if too many wait."""
        if not self.listens:
            self._limiter = run.pool.limiter
        if self.running < self.max_running and self._limiter.take(self):
            self.running += 1
            run.begin()
        elif len(self._waiting) < self.max_waiting:
            if run.pending is None:  # else it continues
                run.since = time.perf_counter()
            self._waiting[run] = None
            self._wait_for_limiter()
        else:
            assert run.exchange is not None
            run.exchange.respond(McpError(BUSY, f"too busy: {self._reached_limits()}; try again later"))

    def take_again(self, run: HandlerRun) -> None:
        """Continue *run*, which has given its slot back, when a slot is free: before the requests that wait."""
        if self.running < self.max_running and self._limiter.take(self):
            self.running += 1
            run.start()
        else:
            self._waiting[run] = None
            self._waiting.move_to_end(run, last=False)
            self._wait_for_limiter()

    def _reached_limits(self) -> str:
        """Return a sentence that names the reached limits."""
        if self.listens:
            return f"of this client's requests, {self.running} listen (Limits.max_listens)"
        if self.running >= self.max_running:
            running = f"of this client's requests, {self.running} run (Limits.max_in_flight)"
            return f"{running} and {self.waiting} wait (Limits.max_queued)"
        running = f"of all requests, {self._limiter.taken} run (Limits.max_running)"
        return f"{running}, and of this client's, {self.waiting} wait (Limits.max_queued)"

    def release(self) -> None:
        """Give a slot back. The next waiting run starts, of this sender or of another."""
        self.running -= 1
        if self._waiting:
            self._wait_for_limiter()
        self._limiter.release(self)

    def forget(self, run: HandlerRun) -> None:
        """Remove *run* from the waiting ones, if it waits, because its exchange is over."""
        if run in self._waiting:
            del self._waiting[run]
            if not self._waiting:
                self._limiter.forget(self, self._start_next)

    def _wait_for_limiter(self) -> None:
        """Wait for a place of the limiter, if a request waits and a slot is free."""
        if self._waiting and self.running < self.max_running:
            self._limiter.wait(self, self._start_next)

    def _start_next(self) -> None:
        """Start the next waiting run, with a place of the limiter."""
        run, _ = self._waiting.popitem(last=False)
        self.running += 1
        self._wait_for_limiter()
        run.start()


@define(eq=False)
class SenderSlots:
    """The handler slots of all senders of one serving.

    Slots exist while a connection, a session or a run refers to them.

    Args:
        limits: the limits of each sender.
    """

    _limits: Limits
    _slots: WeakValueDictionary[Sender, HandlerSlots] = field(
        factory=WeakValueDictionary[Sender, HandlerSlots], init=False
    )
    _listens: WeakValueDictionary[Sender, HandlerSlots] = field(
        factory=WeakValueDictionary[Sender, HandlerSlots], init=False
    )

    @classmethod
    def of(cls, serving: object, limits: Limits) -> SenderSlots:
        """Return the slots of a serving (`abc.Serving`) with these limits, the same for all its transports."""
        slots = _SENDERS.get(serving)
        if slots is None:
            slots = _SENDERS[serving] = cls(limits)
        return slots

    def for_requests(self, sender: Sender) -> HandlerSlots:
        """Return the slots that all requests of a sender share."""
        slots = self._slots.get(sender)
        if slots is None:
            slots = HandlerSlots(self._limits.max_in_flight, self._limits.max_queued, is_alone=False)
            self._slots[sender] = slots
        return slots

    def for_listens(self, sender: Sender) -> HandlerSlots:
        """Return the slots that all requests of a sender share that listen for changes."""
        slots = self._listens.get(sender)
        if slots is None:
            slots = self._listens[sender] = HandlerSlots.for_listens(self._limits.max_listens)
        return slots


_SENDERS: WeakKeyDictionary[object, SenderSlots] = WeakKeyDictionary()
"""The slots by serving. Kept here, so that a custom serving need not know of them."""
