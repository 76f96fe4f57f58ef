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
8. A place goes to the sender with the fewest, and no sender may take all of them; see `_fair_limiter.py`. A connection
   without an address is usually the only one of its server, and may take all places.
9. Handlers whose connection or session was lost are cancelled a few in each pass of the event loop, because ending
   thousands takes long: a client may leave with as many requests in flight. The first few are cancelled at once.
10. Large results are written as JSON one at a time, because nobody else is served meanwhile. Senders take turns, and
   after a result that took long there is a pause of three times as long for other requests. A connection without an
   address is spared this.
"""

from __future__ import annotations

import logging
import math
import time
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Hashable, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import Context, copy_context
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Self, TypeAlias
from weakref import WeakKeyDictionary, WeakValueDictionary

import trio
from attrs import define, field

from .._errors import AskExpired, ConnectionLost, McpError
from .._shares import Sender
from .._util import failure_of
from ..wire import INTERNAL_ERROR, JsonObject, is_array, is_object
from ._fair_limiter import FairLimiter, LimitedGroup
from ._holds import Hold, Holds
from ._limits import BUSY, Limits
from ._parking import ParkedRuns, Question, QuestionBatch

if TYPE_CHECKING:
    from ._context import ExchangeContext, Peer
    from ._exchange import IncomingRequest
    from ._parking import PendingQuestions

__all__ = [
    "Cancellations",
    "Explain",
    "Handler",
    "HandlerPool",
    "HandlerRun",
    "HandlerSlots",
    "LargeResults",
    "OutOfTimeError",
    "SenderSlots",
    "is_large",
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
    large_results: LargeResults = field(init=False)
    """The turns of large results, shared by all senders."""
    cancellations: Cancellations = field(init=False)
    """The handlers that are to be cancelled."""

    def __attrs_post_init__(self) -> None:
        self.limiter = FairLimiter(self.limits.max_running, leaves_places=True)
        self.large_results = LargeResults()
        self.cancellations = Cancellations(self.nursery)
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
    has_ended: bool = field(default=False, init=False)
    """True if the handler has ended. A worker thread that it left may still ask something."""
    since: float = field(init=False)
    """The time at which it began, or began to wait for that, as `time.perf_counter` counts. Not set without a task."""
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
        """Cancel the handler in its turn (rule 9)."""
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
                await self._respond_in_turn(outcome)
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

    async def _respond_in_turn(self, outcome: JsonObject | McpError) -> None:
        """Send a large result when it is its turn (rule 10)."""
        with trio.CancelScope() as self._scope:  # as below
            async with self.pool.large_results.turn(self.slots):
                if self.exchange is not None:
                    self.exchange.respond(outcome)

    async def _wait_for_room(self, exchange: IncomingRequest) -> None:
        """Wait until the response may be queued."""
        with trio.CancelScope() as self._scope:  # the handler's scope has ended; `stop` must find this one
            try:
                await exchange.room()
            except ConnectionLost:
                exchange.disconnect()


_CANCELLATIONS_OF_PASS = 16
"""Ending so many handlers takes about a millisecond."""
_PASS_SECONDS = 0.01
"""The time after which a cancellation is carried out at once again."""


@define(eq=False)
class Cancellations:
    """The cancellations of handlers, a few of which are carried out in each pass of the event loop (rule 9).

    Args:
        nursery: the nursery of the handlers.
    """

    _nursery: trio.Nursery
    _waiting: deque[Callable[[], None]] = field(factory=deque["Callable[[], None]"], init=False)
    _time: float = field(default=-math.inf, init=False)
    """The time of the latest cancellations that were carried out at once, on Trio's clock."""
    _count: int = field(default=0, init=False)
    """The number of these."""

    def add(self, cancel: Callable[[], None]) -> None:
        """Call *cancel* now, or soon if many cancellations came before it."""
        now = trio.current_time()
        if now > self._time + _PASS_SECONDS:
            self._time, self._count = now, 0
        if self._count < _CANCELLATIONS_OF_PASS:
            self._count += 1
            cancel()
            return
        if not self._waiting:
            self._nursery.start_soon(self._carry_out, name="cancellations of handlers")
        self._waiting.append(cancel)

    async def _carry_out(self) -> None:
        """Carry out all that wait. If the nursery of the handlers is cancelled, so are they."""
        try:
            while self._waiting:
                await trio.lowlevel.checkpoint()
                for _ in range(min(_CANCELLATIONS_OF_PASS, len(self._waiting))):
                    self._waiting.popleft()()
        finally:
            self._waiting.clear()


_LARGE = 2**20
"""The number of characters from which a result is large. Smaller ones take few milliseconds."""
_FIRST_ITEMS = 32
_LONG_SECONDS = 0.005
_PAUSE = 3
"""The length of the pause after a result that took long, in times of that."""


def is_large(outcome: object) -> bool:
    """Return True if the strings in a result are long in sum; only the outer levels of it and the first items count."""
    return _length(outcome, 3) >= _LARGE


def _length(value: object, levels: int) -> int:
    if isinstance(value, str):
        return len(value)
    if levels and (is_object(value) or is_array(value)):
        items = value.values() if is_object(value) else value
        return sum([_length(each, levels - 1) for each in islice(items, _FIRST_ITEMS)])
    return 0


@define(eq=False)
class LargeResults:
    """The turns in which large results are written (rule 10).

    Args:
        clock: returns the time in seconds, to measure how long a result takes.
    """

    _clock: Callable[[], float] = time.perf_counter
    _turns: FairLimiter = field(factory=lambda: FairLimiter(1), init=False)
    _pause_until: float = field(default=-math.inf, init=False)
    """The end of the pause, on Trio's clock."""

    @asynccontextmanager
    async def turn(self, group: Hashable) -> AsyncGenerator[None]:
        """Wait for a turn, and keep it for as long as the block lasts.

        Args:
            group: the group that waits, usually the slots of a sender.
        """
        await self._turns.acquire(group)
        try:
            await trio.sleep_until(self._pause_until)
            begin = self._clock()
            yield
            seconds = self._clock() - begin
            if seconds > _LONG_SECONDS:
                self._pause_until = trio.current_time() + _PAUSE * seconds
        finally:
            self._turns.release(group)


@define(eq=False)
class HandlerSlots(LimitedGroup):
    """The running and the waiting handlers of one sender.

    Args:
        max_running: how many handlers may run at once.
        max_waiting: how many requests may wait for a slot; more are refused with `BUSY`.
        listens: True if these are the slots of requests that listen for changes. They take no place of the limiter of
            the pool, because they last.
        is_alone: True if these are the slots of a connection without an address (rule 8).
    """

    max_running: int
    max_waiting: int
    listens: bool = False
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
