"""One handler at work, from the first exchange that it works for to its last.

A Trio task never changes its nursery, so a handler that may outlive the request that began it must be *started* in a
nursery that outlives every request. That nursery is the hall's (`_hall.py`). A request that is cancelled stops its run
through the run's own scope, not through a parent task.

Rules of this file:

1. A run is tied to at most one exchange at a time. Either side may cut the tie; cutting is synchronous.
2. The boundary that turns a handler's failure into an answer stands outside the run's cancel scope. Inside it, a
   handler whose clean-up fails while it is cancelled raises a group that holds `Cancelled`, which no
   `except Exception` sees: it would take the whole hall down.
3. Whatever happens to a run, its slot is given back.
4. A run that asks may go from one exchange to another; `_parking.py` says how.
5. A handler that cannot wait needs no task: it runs from start to end where its request is read, which takes half the
   time. Nothing could have cancelled it in a task of its own either. Only one that would have to wait for its slot, or
   for room for its answer, gets a task all the same. An interrupt that strikes it is raised where the request is read:
   on a link that ends the serving, as it does in a task of the hall; in memory it is the caller's.
"""

from __future__ import annotations

import logging
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, Self, TypeAlias

import trio
from attrs import define, field

from .._errors import AskExpired, ConnectionLost, McpError
from .._util import is_failure
from ..wire import INTERNAL_ERROR, JsonObject
from ._limits import BUSY, Limits
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
    "Hold",
    "Holds",
    "OutOfTimeError",
]


_log = logging.getLogger("trio_mcp.peer")

Handler: TypeAlias = "Callable[[HandlerRun], Awaitable[JsonObject]]"
"""Does the work of one request; returns the result's JSON object or raises."""
Explain: TypeAlias = "Callable[[Exception], JsonObject | McpError]"
"""Turns what a handler raised into the answer its peer gets."""


@define(eq=False)
class HandlerPool:
    """The nursery of every handler of one serving, their number, and those that wait for answers."""

    nursery: trio.Nursery
    limits: Limits = field(factory=Limits)
    running: int = field(default=0, init=False)
    """Handlers that have started and not ended, cleaning up and waiting for answers included."""
    parking: ParkedRuns = field(init=False)
    """Those of them that wait for answers while nobody waits for them."""
    turns: FairLimiter = field(init=False)
    """What the connections share: handlers that work at once."""

    def __attrs_post_init__(self) -> None:
        self.turns = FairLimiter(self.limits.max_running)
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
        """Answer *exchange* with what *handler* returns, as soon as a slot is free: in a task of the hall, or here.

        Args:
            explain: turns an exception of the handler into the answer. `OutOfTimeError` is the one for a handler that
                used up what `HandlerRun.allow` gave it.
            slots: where the handler takes its slot; by default where all requests of the connection do.
            waits: whether the handler may ever wait for something. One that never does may be done, and its exchange
                answered, when this returns.
        """
        peer = exchange.peer
        slots = slots or peer.slots
        exchange.run = run = HandlerRun(
            self, exchange, exchange.context, peer, exchange.method, handler, explain, slots, waits
        )
        slots.take(run)


class OutOfTimeError(Exception):
    """The handler used up the time that `HandlerRun.allow` gave it."""


@define(eq=False)
class HandlerRun:
    """One handler, from its first exchange to its last. `Context` is a view of it."""

    pool: HandlerPool
    exchange: IncomingRequest | None
    """The exchange it works for now; None when that was answered, cancelled or lost."""
    context: ExchangeContext
    """The terms of its exchange, or of the latest one."""
    peer: Peer
    """The other end of the connection that it came by."""
    method: str
    """What its handler answers."""
    _handler: Handler
    _explain: Explain
    slots: HandlerSlots
    """Where it has its slot, or waits for one."""
    _waits: bool = True
    """Whether the handler may ever wait for something."""
    _holds: Holds | None = field(init=False)
    waiting: PendingQuestions | None = field(init=False)
    """What it asks by, where its questions do not go straight to the other side; set by who runs the handler."""
    open: tuple[QuestionBatch, ...] = field(init=False)
    """What it waits for: questions without an answer."""
    _task: trio.lowlevel.Task | None = field(init=False)
    has_slot: bool = field(init=False)
    _has_ended: bool = field(init=False)
    """Whether the handler has; a worker thread that it left may still want something."""
    _context: Context = field(init=False)
    """The context variables of whoever made the request; the run may be started by somebody else, later."""
    _scope: trio.CancelScope | None = field(init=False)
    last_updates: Callable[[], None] | None = field(init=False)
    """Tells what is held back for its exchange; called right before that is answered, by whomever."""
    last_words: Callable[[], JsonObject] | None = field(init=False)
    """Makes the answer of a handler that does not end by itself, when the server stops; None for all others."""

    def __attrs_post_init__(self) -> None:
        # Here, because attrs takes three times as long to set what is no argument, and each call makes one of these.
        self._holds = None
        self.waiting = None
        self.open = ()
        self._task = None
        self.has_slot = False
        self._has_ended = False
        self._context = copy_context()
        self._scope = None
        self.last_updates = None
        self.last_words = None

    @property
    def holds(self) -> Holds:
        """What it keeps from others while it works. Made when it is needed: most runs keep nothing, and ask nothing."""
        if self._holds is None:
            self._holds = Holds()
        return self._holds

    @property
    def scope(self) -> trio.CancelScope:
        """What the handler can be cancelled by. Made when it is needed: a handler that cannot wait needs none."""
        if self._scope is None:
            self._scope = trio.CancelScope()
        return self._scope

    def tie(self, exchange: IncomingRequest) -> None:
        """Work for another exchange from now on."""
        self.exchange, exchange.run = exchange, self
        self.context, self.peer, self.slots = exchange.context, exchange.peer, exchange.peer.slots

    def begin(self) -> None:
        """It has its slot at once: run the handler here and now if it cannot wait, and start it otherwise."""
        assert self.exchange is not None
        if self._waits or not self.exchange.may_be_answered_here():
            self.start()
        else:
            self.has_slot = True
            self.pool.running += 1
            self._context.run(self._run_here)

    def start(self) -> None:
        """Start the run's only task, or let it go on: it has its slot."""
        self.has_slot = True
        if self.waiting is not None:
            self.waiting.go_on()
            return
        self.pool.running += 1
        start = partial(self.pool.nursery.start_soon, self._drive, name=f"{self.method} handler")
        self._context.run(start)

    def release_slot(self) -> None:
        """Let another run have the slot, if it has one."""
        if self.has_slot:
            self.has_slot = False
            self.slots.release()

    @property
    def group(self) -> Hashable:
        """On whose account it takes turns with others: its connection's."""
        return self.slots

    @property
    def has_task(self) -> bool:
        """Whether the handler has a task of its own (rule 5)."""
        return self._task is not None

    @property
    def has_several_tasks(self) -> bool:
        """Whether the handler has started tasks of its own that have not all ended."""
        return self._task is not None and bool(self._task.child_nurseries)

    def allow(self, seconds: float) -> None:
        """Let the handler work for at most *seconds* from now; what it is doing then is cancelled."""
        self.scope.deadline = trio.current_time() + seconds

    def end_limit(self) -> None:
        """Let go on what is around the work that `allow` was for; a parked run has the time that its questions have."""
        if self.waiting is None or self.waiting.token is None:
            self.scope.deadline = math.inf

    @contextmanager
    def asking(self, questions: Sequence[Question]) -> Generator[QuestionBatch]:
        """Wait for answers in the block; if the handler ends meanwhile, or has ended, the wait fails."""
        if self._has_ended:
            raise AskExpired("the call is over")
        asking = QuestionBatch(questions)
        self.open = (*self.open, asking)
        try:
            yield asking
        finally:
            self.open = tuple(each for each in self.open if each is not asking)

    def fail_all(self, failure: Exception) -> None:
        """Raise *failure* wherever an answer is waited for."""
        for asking in self.open:
            asking.fail(failure)

    def stop(self, reason: str) -> None:
        """Cancel the handler. A clean-up that has shielded itself, and asks, is told that the call is over."""
        self.scope.cancel(reason=reason)
        self.fail_all(AskExpired("the call is over"))

    def _run_here(self) -> None:
        """Run the handler without a task (rule 5)."""
        try:
            outcome = self._worked_here()
            self._has_ended = True
            if self.exchange is not None:
                self.exchange.respond(outcome)
            del outcome  # it may be an exception, whose traceback holds this frame
        finally:
            self._end()

    def _worked_here(self) -> JsonObject | McpError:
        steps = self._handler(self).__await__()
        try:
            next(steps)
        except StopIteration as returned:
            outcome: JsonObject = returned.value
            return outcome
        except BaseException as exc:  # noqa: BLE001 # what is none of a handler's to raise is raised again
            return self._explained(self._failure_of(exc))
        steps.close()
        return self._explained(RuntimeError(f"a handler of {self.method} that was said never to wait has waited"))

    async def _drive(self) -> None:
        self._task = trio.lowlevel.current_task()
        try:
            try:
                outcome = await self._work()
            finally:
                self._has_ended = True
                if self.open:  # a worker thread that was left still waits
                    self.fail_all(AskExpired("the call is over"))
            if self.waiting is not None and self.waiting.token is not None:
                await self._keep(self.waiting)
            exchange = self.exchange
            if exchange is not None and not exchange.has_room():
                await self._wait_for_room(exchange)
            if self.exchange is not None:
                self.exchange.respond(outcome)
        finally:
            self._end()

    def _end(self) -> None:
        self.pool.running -= 1
        self.release_slot()
        if self.waiting is not None:
            self.pool.parking.forget(self.waiting)
        if self.exchange is not None:
            self.exchange.abandon()

    async def _keep(self, waiting: PendingQuestions) -> None:
        """Keep the outcome of a run that is parked until somebody comes for it."""
        waiting.kept = True
        with trio.CancelScope(deadline=waiting.expires) as self._scope:
            await waiting.attended.wait()

    async def _work(self) -> JsonObject | McpError:
        """Run the handler; return what to answer (rule 2)."""
        try:
            with self.scope:
                return await self._handler(self)
            failure: Exception = OutOfTimeError()  # or the exchange was cancelled: then nobody asks
        except BaseException as exc:  # noqa: BLE001 # what is none of a handler's to raise is raised again
            failure = self._failure_of(exc)
        try:
            return self._explained(failure)
        finally:
            del failure  # whose traceback holds this frame

    def _failure_of(self, raised: BaseException) -> Exception:
        """Return what to answer for: this is the one boundary between a handler and the server.

        Raises:
            BaseException: what is nobody's failure: cancellation from outside, `KeyboardInterrupt` and its like.
        """
        match raised:
            case Exception():
                return raised
            case SystemExit():  # the handler's own, or of code it calls; it does not speak for the server
                return RuntimeError(f"the handler tried to exit the process: sys.exit({raised.code!r})")
            case BaseExceptionGroup():
                cancelled, rest = raised.split(trio.Cancelled)
                if rest is None or not is_failure(rest):
                    raise raised
                if cancelled is not None:
                    _log.error("a handler of %s failed while the server stopped", self.method, exc_info=rest)
                    raise cancelled from None  # the hall stops, and a clean-up failed
                failure = RuntimeError("a task of the handler tried to exit the process")
                failure.__cause__ = rest
                return failure
            case _:
                raise raised

    def _explained(self, failure: Exception) -> JsonObject | McpError:
        if self.exchange is None and (self.waiting is None or self.waiting.token is None):
            self._mourn(failure)
            return {}
        try:
            return self._explain(failure)
        except Exception:  # noqa: BLE001 # a text that cannot be made, say, must not cost the siblings anything
            _log.exception("a failure of %s cannot be explained", self.method)
            return McpError(INTERNAL_ERROR, "internal error; the log says more")

    def _mourn(self, failure: Exception) -> None:
        """Log what nobody is left to hear."""
        if not isinstance(failure, OutOfTimeError | ConnectionLost | AskExpired):
            _log.error("a handler of %s failed after it was cancelled", self.method, exc_info=failure)

    async def _wait_for_room(self, exchange: IncomingRequest) -> None:
        """Wait until the answer may be queued."""
        with trio.CancelScope() as self._scope:  # the handler's own is spent; a cancellation must find this one
            try:
                await exchange.room()
            except ConnectionLost:
                exchange.disconnect()


@define(eq=False)
class Hold:
    """One thing that is held: taken when this is made, until `close`."""

    _take: Callable[[], Awaitable[object]]
    _release: Callable[[], object]
    _is_held: bool = field(default=True, init=False)
    _closed: bool = field(default=False, init=False)

    def give_back(self) -> None:
        """Let others have it."""
        if self._is_held:
            self._is_held = False
            self._release()

    async def take_again(self) -> None:
        """Have it again; waits for others. If cancelled, it is not held."""
        if not self._is_held and not self._closed:
            await self._take()
            self._taken()

    def _taken(self) -> None:
        self._is_held = True
        if self._closed:  # its owner has ended meanwhile: a thread that was left, say
            self.give_back()

    def close(self) -> None:
        """Give it back for good."""
        self._closed = True
        self.give_back()


@define(eq=False)
class Holds:
    """Everything one run holds, and the time it may still work."""

    _all: list[Hold] = field(factory=list[Hold], init=False)
    _lock: trio.Lock | None = field(default=None, init=False)
    """Made when it is needed: most runs ask nothing."""
    _asking: int = field(default=0, init=False)
    """How often everything was given back and the answers have not come."""
    _work_left: float = field(default=math.inf, init=False)
    """Seconds that the handler could still work when its clock was stopped."""
    _pauses: int = field(default=0, init=False)
    """How many things are waited for that stop the clock."""

    def add(self, hold: Hold) -> None:
        """Hold one more thing."""
        self._all.append(hold)

    def drop(self, hold: Hold) -> None:
        """Give it back, for good."""
        self._all.remove(hold)
        hold.close()

    def give_back(self, scope: trio.CancelScope) -> None:
        """Let others have everything, and stop the clock of *scope* until `start_clock` was called as often."""
        self._asking += 1
        self._pause(scope)
        for hold in self._all:
            hold.give_back()

    def start_clock(self, scope: trio.CancelScope) -> None:
        """Let the time that was left when the clock was stopped run again, in *scope*."""
        self._asking -= 1
        self._go_on(scope)

    async def take_again(self, scope: trio.CancelScope) -> None:
        """Take what was given back, unless something else is asked: then whoever waits for that takes it.

        The clock of *scope* stands still meanwhile, as it did before the handler had its first turn.
        """
        if not self._all or self._is_asking():
            return
        self._pause(scope)
        self._lock = self._lock or trio.Lock()
        try:
            async with self._lock:
                for hold in list(self._all):
                    await hold.take_again()
                    if self._is_asking():  # another task of the handler has asked while this one waited
                        hold.give_back()
        finally:
            self._go_on(scope)

    def _is_asking(self) -> bool:
        return self._asking > 0

    def shorten(self, scope: trio.CancelScope, seconds: float) -> None:
        """Let the handler work for at most *seconds* more."""
        if self._pauses:
            self._work_left = min(self._work_left, seconds)
        else:
            scope.deadline = min(scope.deadline, trio.current_time() + seconds)

    def _pause(self, scope: trio.CancelScope) -> None:
        self._pauses += 1
        if self._pauses == 1:
            self._work_left, scope.deadline = scope.deadline - trio.current_time(), math.inf

    def _go_on(self, scope: trio.CancelScope) -> None:
        self._pauses -= 1
        if self._pauses == 0:
            scope.deadline = trio.current_time() + self._work_left


Begin: TypeAlias = Callable[[], object]


@define(eq=False)
class FairLimiter:
    """A bound on how many do something at once, fair between groups. Every operation takes constant time.

    Not safe from other threads, as nothing in Trio is.

    Args:
        capacity: turns that may be taken at once.
    """

    capacity: int
    taken: int = field(default=0, init=False)
    """Turns taken now."""
    waiting: int = field(default=0, init=False)
    """How many wait for one."""
    _groups: OrderedDict[Hashable, OrderedDict[Begin, None]] = field(
        factory=OrderedDict[Hashable, "OrderedDict[Begin, None]"], init=False
    )
    """Who waits, by group, in the order in which the groups get their next turn. Nobody waits while one is free."""

    @property
    def groups(self) -> int:
        """Groups of which somebody waits."""
        return len(self._groups)

    @property
    def free(self) -> bool:
        """Whether a turn could be taken now."""
        return self.taken < self.capacity

    def take(self) -> bool:
        """Take a turn if one is free; `release` must follow."""
        if self.taken >= self.capacity:
            return False
        self.taken += 1
        return True

    def wait(self, group: Hashable, begin: Begin) -> None:
        """Call *begin* when the turn of *group* has come; it holds the turn then.

        For whoever could not `take` one, or is about to `release` one. Waiting twice with an equal *begin* is waiting
        once.

        Args:
            begin: synchronous, and must not raise.
        """
        members = self._groups.setdefault(group, OrderedDict())
        self.waiting += begin not in members
        members[begin] = None

    def forget(self, group: Hashable, begin: Begin) -> None:
        """Wait no longer; harmless where nobody did."""
        members = self._groups.get(group)
        if members is not None and begin in members:
            del members[begin]
            self.waiting -= 1
            if not members:
                del self._groups[group]

    async def acquire(self, group: Hashable) -> None:
        """Take a turn, when that of *group* has come; `release` must follow. A cancel point; cancelled, none is taken.

        Args:
            group: on whose account: a connection, usually.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if self.take():
            return
        begin = partial(trio.lowlevel.reschedule, trio.lowlevel.current_task())
        self.wait(group, begin)

        def abort(_: object) -> trio.lowlevel.Abort:
            self.forget(group, begin)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def release(self) -> None:
        """Give a turn back; if somebody waits, it is the next one's at once."""
        if not self._groups:
            self.taken -= 1
            return
        group, members = self._groups.popitem(last=False)
        begin, _ = members.popitem(last=False)
        self.waiting -= 1
        if members:
            self._groups[group] = members  # behind all others
        begin()


@define(eq=False)
class HandlerSlots:
    """The running and the waiting handlers of one connection.

    Args:
        max_running: handlers that run at once.
        max_waiting: requests that may wait for one to end; more are refused with `BUSY`.
        listens: whether they are those that listen for changes. These last, so they take no turns of others.
    """

    max_running: int
    max_waiting: int
    listens: bool = False
    running: int = field(default=0, init=False)
    _waiting: OrderedDict[HandlerRun, None] = field(factory=OrderedDict["HandlerRun", None], init=False)
    """A set in order: one that is cancelled while it waits is found at once."""
    _turns: FairLimiter = field(init=False)
    """What it shares with the other connections, since its first request."""

    def __attrs_post_init__(self) -> None:
        self._turns = FairLimiter(self.max_running)

    @classmethod
    def for_listens(cls, most: int) -> Self:
        """Return the room for *most* requests that listen for changes."""
        return cls(most, 0, listens=True)

    @property
    def waiting(self) -> int:
        """Requests that wait for a handler to end."""
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Whether another request would be refused as busy."""
        startable = self.running < self.max_running and self._turns.free
        return not startable and len(self._waiting) >= self.max_waiting

    def take(self, run: HandlerRun) -> None:
        """Start *run* now if a slot is free, later otherwise; answer its exchange as busy where too many wait."""
        if not self.listens:
            self._turns = run.pool.turns
        if self.running < self.max_running and self._turns.take():
            self.running += 1
            run.begin()
        elif len(self._waiting) < self.max_waiting:
            self._waiting[run] = None
            self._stand_in_line()
        else:
            assert run.exchange is not None
            run.exchange.respond(McpError(BUSY, f"too busy: {self._busy_with()}; try again later"))

    def _busy_with(self) -> str:
        """Say which limits are reached."""
        if self.listens:
            return f"of this connection's requests, {self.running} listen (Limits.max_listens)"
        if self.running >= self.max_running:
            running = f"of this connection's requests, {self.running} run (Limits.max_in_flight)"
            return f"{running} and {self.waiting} wait (Limits.max_queued)"
        running = f"of all requests, {self._turns.taken} run (Limits.max_running)"
        return f"{running}, and of this connection's, {self.waiting} wait (Limits.max_queued)"

    def release(self) -> None:
        """Give a slot back; the next waiting run starts, of this connection or of another."""
        self.running -= 1
        if self._waiting:
            self._stand_in_line()
        self._turns.release()

    def forget(self, run: HandlerRun) -> None:
        """Let *run* wait no longer, if it does: its exchange is over."""
        if run in self._waiting:
            del self._waiting[run]
            if not self._waiting:
                self._turns.forget(self, self._begin_next)

    def _stand_in_line(self) -> None:
        """Wait for a turn, if one could be used."""
        if self._waiting and self.running < self.max_running:
            self._turns.wait(self, self._begin_next)

    def _begin_next(self) -> None:
        """It is this connection's turn."""
        run, _ = self._waiting.popitem(last=False)
        self.running += 1
        self._stand_in_line()
        run.start()
