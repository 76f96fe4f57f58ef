"""The tasks of one serving: calls become tasks here, and what their handlers do is stored and told to clients.

Rules of this file:

1. A state that matters (questions, an outcome, a cancellation) is stored before any client sees it. One task of the
   serving stores all states, in batches, in the order in which they came.
2. Reports of progress are seen at once, and stored with the next state or after a second: losing one does no harm.
3. Whoever ends a task first ends it. The store refuses every later end; a handler whose task was ended by another
   process is cancelled. Of several answers to a question, the handler gets the first, once, whichever process took it.
4. A store that fails delays the tasks, and ends none: what could not be stored is stored again after a pause. A request
   for which it fails says so.
5. When a serving ends, its handlers end first. What they left is stored before the serving is over.
6. If other processes use the store, each looks every few seconds for tasks whose servings are gone, and ends them.

Specification: https://modelcontextprotocol.io/extensions/tasks/overview
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final

import trio
from attrs import define, evolve, field

from .. import Context, McpError, Server, SharedUnavailable
from ..lowlevel import (
    ExchangeContext,
    HandlerRun,
    IncomingRequest,
    ServerExtensionPoints,
    progress_of,
    run_of,
    serving_of,
)
from ..wire import INTERNAL_ERROR, SERVER_INFO_KEY, JsonObject
from ._answers import check_answers
from ._exchange import TaskExchange, TaskPeer, context_of_task, line_of
from ._record import CHANGED, LISTENED, TaskRecord, TaskReplay, TaskStatus

if TYPE_CHECKING:
    from ._settings import TaskSettings

__all__ = ["TaskRunner", "open_runner"]

_log = logging.getLogger("trio_mcp.tasks")

_NOT_BOUND = frozenset({"_meta", "inputResponses", "requestState"})
"""The members of params that belong to a single request."""
_SECONDS_BETWEEN_REPORTS = 1.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
"""Seconds between attempts to store what could not be stored."""
_ATTEMPTS_AT_THE_END, _SECONDS_AT_THE_END = 3, 10.0
"""The attempts to store what is left when the serving ends, and the time for them."""
_SECONDS_BETWEEN_LOOKS = 0.02
"""The pause before another attempt to hand over a handler that is about to be parked, or to continue."""
_SECONDS_BETWEEN_TAKEOVERS = 5.0
"""The pause between two looks for tasks whose servings are gone."""
_RESTARTED: Final = "the server that ran this task ended before the task did"


@define(eq=False)
class LiveTask:
    """A task whose handler is in this serving: it receives what happens in the exchange of the task."""

    _runner: TaskRunner
    record: TaskRecord
    """Its newest state."""
    stored: TaskRecord
    """The state that clients see."""
    exchange: TaskExchange = field(init=False)
    """The exchange of its handler; set right after the object is made."""
    params: JsonObject = field(factory=dict[str, Any], init=False)
    """The params of the call, for a replay."""
    changes: int = field(default=0, init=False)
    """The number of changes that matter."""
    changes_stored: int = field(default=0, init=False)
    """The number of those that are stored."""

    @property
    def parks(self) -> bool:
        """True if the handler waits in memory for answers."""
        return self._runner.parks

    @property
    def seconds_left(self) -> float:
        """The seconds until the task expires."""
        expiry = self.record.expires_at
        return math.inf if expiry is None else max(0.0, expiry - self._runner.now())

    def on_questions(self, questions: Mapping[str, JsonObject]) -> None:
        """Show the open questions."""
        if questions:
            self._change("input_required", dict(questions), self.record.message)
        elif self.record.status == "input_required":
            self._change("working", None, self.record.message)

    def on_report(self, message: str) -> None:
        """Show a report of progress (rule 2)."""
        now = self._runner.now()
        self.record, self.stored = self.record.told(now, message), self.stored.told(now, message)
        self._runner.tell(self.stored)
        self._runner.store_later(self)

    def on_outcome(self, outcome: JsonObject | McpError) -> None:
        """End the task, or let it wait for the answers with which the handler is replayed."""
        if isinstance(outcome, McpError):
            error: JsonObject = {"code": outcome.code, "message": outcome.message}
            if outcome.data is not None:
                error["data"] = outcome.data
            self._change("failed", error, outcome.message)
        elif outcome.get("resultType") == "input_required":
            self._change("input_required", outcome["inputRequests"], self.record.message)
            self.record = evolve(self.record, replay=TaskReplay(params=self.params, state=outcome["requestState"]))
        else:
            self._change("completed", outcome, self.record.message)

    def end(self, record: TaskRecord, reason: str) -> None:
        """End the task with *record*, unless it has ended, and cancel its handler."""
        if not self.record.is_final:
            self.set(record)
        if self.exchange.open:
            self.exchange.cancel(reason)

    def set(self, record: TaskRecord) -> None:
        """Make *record* its newest state, and have it stored."""
        self.record = record
        self.changes += 1
        self._runner.store_soon(self)

    def _change(self, status: TaskStatus, outcome: JsonObject | None, message: str | None) -> None:
        self.set(self.record.changed(self._runner.now(), status, outcome, message))


@define(eq=False)
class TaskRunner:
    """The tasks of one serving. `open_runner` makes it."""

    _points: ServerExtensionPoints
    settings: TaskSettings
    owner: str
    """The name of the serving in the store."""
    _began: float = field(factory=trio.current_time, init=False)
    _began_at: float = field(factory=time.time, init=False)
    parks: bool = field(default=True, init=False)
    """True if handlers wait in memory for answers."""
    live: dict[str, LiveTask] = field(factory=dict[str, LiveTask], init=False)
    """The tasks that have a handler in this serving, or whose newest state is not stored, by id."""
    _peers: dict[str | None, TaskPeer] = field(factory=dict["str | None", TaskPeer], init=False)
    """The peers of the tasks, by principal."""
    _unsaved: dict[LiveTask, None] = field(factory=dict[LiveTask, None], init=False)
    """The tasks whose newest state is to be stored, in the order in which they changed."""
    _reported: dict[LiveTask, None] = field(factory=dict[LiveTask, None], init=False)
    """The tasks of which only a report of progress is to be stored."""
    _work: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    """Wakes the task that stores states."""
    _saved: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    """Wakes those that wait until a state is stored."""
    _sooner: trio.Event = field(factory=trio.Event, init=False)
    """Set if a task expires earlier than all that were known."""
    _next_sweep: float = field(default=math.inf, init=False)
    _storing: trio.Lock = field(factory=trio.Lock, init=False)

    def now(self) -> float:
        """Return the time as `time.time` counts, by Trio's clock, so that a clock of a test applies."""
        return self._began_at + trio.current_time() - self._began

    # --- Calls become tasks ---

    async def begin(self, context: Context) -> TaskExchange | None:
        """Make a task of a call: store it, answer the request with its id, and let the handler go on for the task.

        Returns:
            The exchange of the task; None if the call has ended, or was cancelled, before it could become one.

        Raises:
            TooManyTasks: the caller has too many tasks.
        """
        run, store = run_of(context), self.settings.store
        exchange = await self._ready(run)
        if exchange is None:
            return None
        progress = progress_of(context)
        record = self._new_record(exchange.context, None if progress is None else progress.latest)
        with trio.CancelScope(shield=True):  # a task that is stored must get its handler, or be deleted
            await store.create(record, self.settings.max_tasks)
            if exchange is not run.exchange or not run.has_slot or run.open or run.scope.cancel_called:
                await store.delete(record.id)
                return None
        serving = serving_of(context)
        self.parks = serving.asking == "parked"
        live = self._live(record, exchange.params or {})
        live.exchange = self._exchange(live, exchange.params, exchange.context)
        run.hand_over(
            live.exchange,
            {"resultType": "task", **record.to_wire(), "_meta": {SERVER_INFO_KEY: serving.info_json}},
        )
        self._expects(record)
        return live.exchange

    async def _ready(self, run: HandlerRun) -> IncomingRequest | None:
        """Return the exchange of a run that can be handed over now; None if it is over."""
        while (exchange := await run.tied()) is not None and (not run.has_slot or run.open):  # noqa: ASYNC110 # it continues or is parked in a moment
            await trio.sleep(_SECONDS_BETWEEN_LOOKS)
        return exchange

    def _new_record(self, context: ExchangeContext, report: JsonObject | None) -> TaskRecord:
        now, ttl = self.now(), self.settings.ttl
        return TaskRecord(
            owner=self.owner,
            principal=context.principal,
            message=None if report is None else line_of(report),
            created_at=now,
            updated_at=now,
            ttl=ttl,
            poll_interval=self.settings.poll_interval,
            expires_at=None if ttl is None else now + ttl,
        )

    def _live(self, record: TaskRecord, params: Mapping[str, Any]) -> LiveTask:
        live = self.live[record.id] = LiveTask(self, record, record)
        live.params = {name: value for name, value in params.items() if name not in _NOT_BOUND}
        return live

    def _exchange(self, live: LiveTask, params: JsonObject | None, context: ExchangeContext) -> TaskExchange:
        peer = self._peers.setdefault(live.record.principal, TaskPeer())
        return TaskExchange("tools/call", params, context_of_task(context), live.record.id, peer, live)

    # --- Requests of clients ---

    async def find(self, id: str, principal: str | None) -> TaskRecord | None:
        """Return the state of a task; None if there is none, or it belongs to another principal."""
        live = self.live.get(id)
        with _reaching_tasks():
            record = live.stored if live is not None else await self.settings.store.get(id)
        return record if record is not None and record.principal == principal else None

    async def cancel(self, record: TaskRecord) -> None:
        """Cancel a task, wherever its handler runs; return when that is stored."""
        live = self.live.get(record.id)
        if live is not None:
            message = "the client cancelled the task"
            live.end(live.record.changed(self.now(), "cancelled", None, message), message)
            await self._until_saved(live)
        elif not record.is_final:
            cancelled = record.changed(self.now(), "cancelled", None, "the client cancelled the task")
            with _reaching_tasks():
                await self._put_alone(evolve(cancelled, owner=self.owner))

    async def answer(self, record: TaskRecord, answers: Mapping[str, Any], context: Context) -> None:
        """Take answers to questions of a task, and let the handler go on when it has those that it needs.

        Raises:
            McpError: an answer is not valid, or the task has failed meanwhile.
        """
        live = self.live.get(record.id)
        if live is None:
            await self._answer_elsewhere(record, answers, context)
        elif live.exchange.open:
            await self._answer_here(live, answers)

    async def _answer_here(self, live: LiveTask, answers: Mapping[str, Any]) -> None:
        if self.settings.store.is_shared and live.parks:
            with _reaching_tasks():
                stored = await self.settings.store.get(live.record.id)
            if stored is not None:
                self._take_answers(live, stored)
        live.exchange.answer(answers)
        await self._until_saved(live)

    def _take_answers(self, live: LiveTask, stored: TaskRecord) -> None:
        """Give a parked handler the answers that other processes have taken.

        They have checked them against the schemas of the questions. The reader of a question may know more, and its
        refusal comes too late for the client that has answered. So the task fails, as it does in a replay.
        """
        try:
            live.exchange.answer(stored.answers)
        except McpError as error:
            live.end(live.record.failed(self.now(), error.message, error.code), error.message)

    async def _answer_elsewhere(self, record: TaskRecord, answers: Mapping[str, Any], context: Context) -> None:
        """Take answers to questions of a task whose handler is not here."""
        while questions := record.open_questions:
            known = {key: answers[key] for key in questions if key in answers}
            check_answers(questions, known, context.revision)
            if not known:
                return
            if record.replay is None:
                is_taken = await self._pass_on(record, known)
            else:
                is_taken = await self._replay_with(record, record.replay, known, context)
            newer = None if is_taken else await self.find(record.id, record.principal)
            if newer is None:
                return
            if newer.status == "failed":
                raise McpError(INTERNAL_ERROR, f"the task failed before it had this answer: {newer.message}")
            record = newer

    async def _pass_on(self, record: TaskRecord, answers: JsonObject) -> bool:
        """Store answers for the process with the parked handler. False if the task has changed meanwhile."""
        store = self.settings.store
        if not store.is_shared:
            raise McpError(INTERNAL_ERROR, "the handler of this task waits in another serving, without a shared store")
        answered = record.answered(self.now(), answers)
        with _reaching_tasks():
            await self.end_abandoned()  # the handler of this task may be gone
            is_taken = await store.swap(record, answered)
        if is_taken:
            self.tell(answered)
        return is_taken

    async def _replay_with(
        self, record: TaskRecord, replay: TaskReplay, answers: Mapping[str, Any], context: Context
    ) -> bool:
        """Keep the answers; run the handler again if none is missing. False if the task has changed meanwhile."""
        replay = evolve(replay, answers={**replay.answers, **answers})
        missing = {key: each for key, each in (record.outcome or {}).items() if key not in replay.answers}
        if missing:
            changed = evolve(record, updated_at=self.now(), outcome=missing, replay=replay)
        else:
            changed = evolve(record.changed(self.now(), "working", None, record.message), owner=self.owner)
        with _reaching_tasks():
            is_changed = await self.settings.store.swap(record, changed)
        if not is_changed:
            return False
        self.tell(changed)
        if not missing:
            self._replay(changed, replay, context)
        return True

    def _replay(self, record: TaskRecord, replay: TaskReplay, context: Context) -> None:
        serving, request = serving_of(context), run_of(context).context
        self.parks = serving.asking == "parked"
        live = self._live(record, replay.params)
        answered = {"requestState": replay.state, "inputResponses": replay.answers}
        params = {**replay.params, **answered, "_meta": dict(request.meta)}
        live.exchange = self._exchange(live, params, request)
        serving.answer(live.exchange)

    # --- Storing ---

    def store_soon(self, live: LiveTask) -> None:
        """Store the newest state of a task, then tell it to those who listen."""
        self._unsaved[live] = None
        self._work.unpark()

    def store_later(self, live: LiveTask) -> None:
        """Store a report of progress of a task within a second."""
        if not self._reported:
            self._work.unpark()
        self._reported[live] = None

    def tell(self, record: TaskRecord) -> None:
        """Notify those who listen for a task of its state."""
        self._points.notify_listeners(LISTENED, record.id, CHANGED, record.to_wire_in_detail())

    async def store_states(self) -> None:
        """Store states, for ever (rule 1)."""
        pause = _FIRST_PAUSE
        while True:
            if not self._unsaved and not self._reported:
                await self._work.park()
            if not self._unsaved:
                with trio.move_on_after(_SECONDS_BETWEEN_REPORTS):
                    await self._work.park()
            if await self._store_batch():
                pause = _FIRST_PAUSE
            else:
                await trio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def _store_batch(self) -> bool:
        """Store all newest states; return False if that failed (rule 4)."""
        async with self._storing:
            batch = {live: (live.record, live.changes) for live in (*self._unsaved, *self._reported)}
            self._unsaved.clear()
            self._reported.clear()
            refused: Collection[str] | None = None
            try:
                refused = await self.settings.store.put([record for record, _ in batch.values()])
            except Exception:  # noqa: BLE001 # a store of another author may raise anything
                _log.exception("the states of %d tasks could not be stored; they are stored again later", len(batch))
            finally:
                if refused is None:
                    self._unsaved = {**dict.fromkeys(batch), **self._unsaved}
            if refused is None:
                return False
            for live, (record, changes) in batch.items():
                if record.id in refused:
                    self._drop(live, "the task was ended by another process of the server, or has expired")
                else:
                    self._is_stored(live, record, changes)
            self._saved.unpark_all()
            return True

    def _is_stored(self, live: LiveTask, record: TaskRecord, changes: int) -> None:
        if live.changes_stored < changes:
            live.changes_stored, live.stored = changes, record
            self.tell(record)
        if live.changes == changes and (record.is_final or record.replay is not None):
            self.live.pop(record.id, None)

    def _drop(self, live: LiveTask, reason: str) -> None:
        """Cancel a handler whose task has ended elsewhere (rule 3)."""
        self.live.pop(live.record.id, None)
        live.changes_stored = live.changes
        if live.exchange.open:
            live.exchange.cancel(reason)

    async def _until_saved(self, live: LiveTask) -> None:
        changes = live.changes
        while live.changes_stored < changes:
            await self._saved.park()

    async def _put_alone(self, record: TaskRecord) -> None:
        """Store the state of a task that has no handler here."""
        if not await self.settings.store.put([record]):
            self.tell(record)

    # --- Expiry, and tasks of others ---

    def _expects(self, record: TaskRecord) -> None:
        if record.expires_at is not None and record.expires_at < self._next_sweep:
            self._next_sweep = record.expires_at
            self._sooner.set()

    async def sweep(self) -> None:
        """Delete tasks, or let them fail, when they expire; for ever."""
        await _for_ever(self._sweep_once, "the expiry of tasks")

    async def _sweep_once(self) -> None:
        store, self._sooner = self.settings.store, trio.Event()
        expiry = await store.next_expiry()
        self._next_sweep = math.inf if expiry is None else expiry
        with trio.move_on_after(max(0.0, self._next_sweep - self.now())):
            await self._sooner.wait()
            return
        for record in await store.due(self.now()):
            await self._expire(record)

    async def _expire(self, record: TaskRecord) -> None:
        live = self.live.get(record.id)
        if live is not None:
            live.end(live.record.overdue(self.now(), INTERNAL_ERROR), "the task has expired")
            await self._until_saved(live)
        elif record.is_final:
            await self.settings.store.delete(record.id)
        else:
            await self._put_alone(evolve(record.overdue(self.now(), INTERNAL_ERROR), owner=self.owner))

    async def end_abandoned(self) -> None:
        """Fail the tasks of servings that are gone, except those whose handlers can be replayed."""
        for record in await self.settings.store.abandoned():
            if record.replay is not None:
                continue
            failed, live = record.failed(self.now(), _RESTARTED, INTERNAL_ERROR), self.live.get(record.id)
            if live is None:
                await self._put_alone(evolve(failed, owner=self.owner))
            else:  # this serving itself was taken for gone
                live.end(failed, _RESTARTED)

    async def take_over(self) -> None:
        """End the tasks of servings that are gone; for ever (rule 6)."""
        await _for_ever(self._take_over_once, "looking for abandoned tasks")

    async def _take_over_once(self) -> None:
        await trio.sleep(_SECONDS_BETWEEN_TAKEOVERS)
        await self.end_abandoned()
        self._sooner.set()  # some of them may expire before all that were known

    async def watch_others(self) -> None:
        """Cancel the handlers of tasks that other processes have ended, and continue those that they have answered.

        It never returns (rule 3).
        """
        await _for_ever(self._watch_once, "watching the tasks of other processes")

    async def _watch_once(self) -> None:
        await trio.sleep(max(self.settings.poll_interval, _SECONDS_BETWEEN_REPORTS))
        if not self.live:
            return
        for id, record in (await self.settings.store.changed_by_others(self.owner)).items():
            live = self.live.get(id)
            if live is None:
                continue
            if record is None or record.is_final:
                self._drop(live, "the task was ended by another process of the server")
            else:
                self._take_answers(live, record)

    async def close(self) -> None:
        """Store what is left; the handlers have ended (rule 5)."""
        for _ in range(_ATTEMPTS_AT_THE_END):
            if await self._store_batch() and not self._unsaved:  # also if it is empty: another batch may be on its way
                return
            await trio.sleep(_FIRST_PAUSE)
        _log.error("%d tasks could not be stored before the server ended", len(self._unsaved))


@contextmanager
def _reaching_tasks() -> Generator[None]:
    """Let a request fail with an error for its client if the store cannot be reached (rule 4)."""
    try:
        yield
    except SharedUnavailable as error:
        _log.warning("a request about a task failed: %s", error)
        message = "the tasks of this server cannot be reached at the moment; try again later"
        raise McpError(INTERNAL_ERROR, message) from error


async def _for_ever(work: Callable[[], Awaitable[None]], what: str) -> None:
    """Repeat *work*; after a failure, which is logged, with a pause (rule 4)."""
    while True:
        try:
            await work()
        except Exception:  # noqa: BLE001 # a store of another author may raise anything
            _log.exception("%s failed; it is tried again in %g s", what, _LONGEST_PAUSE)
            await trio.sleep(_LONGEST_PAUSE)


@asynccontextmanager
async def open_runner(server: Server, nursery: trio.Nursery, settings: TaskSettings) -> AsyncGenerator[TaskRunner]:
    """Open the tasks of one serving: end what others have abandoned, then store, sweep and watch until it ends."""
    async with settings.store.owner() as owner:
        runner = TaskRunner(ServerExtensionPoints(server), settings, owner)
        await runner.end_abandoned()
        nursery.start_soon(runner.store_states, name="storing tasks")
        nursery.start_soon(runner.sweep, name="expiry of tasks")
        if settings.store.is_shared:
            nursery.start_soon(runner.watch_others, name="tasks of other processes")
            nursery.start_soon(runner.take_over, name="abandoned tasks")
        try:
            yield runner
        finally:
            with trio.move_on_after(_SECONDS_AT_THE_END, shield=True):
                await runner.close()
