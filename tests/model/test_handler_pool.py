"""A handler pool with slots, a limiter and parked handlers, compared with a model under any order of events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import trio
from attrs import define, field
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from trio._core import _run

from tests.model.handler_pool_model import (
    ASK_SECONDS,
    GRACE,
    MAX_PARKED,
    MAX_RUNNING,
    Call,
    Connection,
    HandlerPoolModel,
    Phase,
    Work,
)
from tests.model.stage import Stage, examples
from tests.peer.fake_exchange import FakeExchange, exchange
from tests.peer.parking_bench import ask, explain, token_of
from trio_mcp import AskExpired, McpError, TooManyParked
from trio_mcp.peer import BUSY, HandlerPool, HandlerRun, HandlerSlots, Limits
from trio_mcp.wire import JsonObject, is_object

T = TypeVar("T")

KEYS = ("a", "b", "c")
indices = st.integers(0, 7)
rarely = st.integers(0, 5).map(lambda number: number == 5)


@define(eq=False)
class Actor:
    """A handler that carries out the orders of the rules."""

    shield: trio.CancelScope
    """The scope around the clean-up, which a stubborn handler shields."""
    run: HandlerRun = field(init=False)
    outcomes: list[Any] = field(factory=list[Any], init=False)
    _orders: list[Callable[[], Any]] = field(factory=list[Callable[[], Any]], init=False)
    _ordered: trio.Event = field(factory=trio.Event, init=False)

    def order(self, what: Callable[[], Any]) -> None:
        """Give the handler an order."""
        self._orders.append(what)
        self._ordered.set()

    async def handle(self, run: HandlerRun) -> JsonObject:
        """Run as the handler."""
        self.run = run
        try:
            return await self._obey()
        except trio.Cancelled:
            with self.shield:
                await self._obey()
            raise

    async def _obey(self) -> JsonObject:
        while True:
            await self._ordered.wait()
            self._ordered = trio.Event()
            done = self._orders.pop()()
            if is_object(done):
                return done
            if done is not None:
                await self._ask(done)

    async def _ask(self, keys: Sequence[str]) -> None:
        try:
            self.outcomes.append(await ask(self.run, *keys))
        except (AskExpired, TooManyParked) as failure:
            self.outcomes.append(type(failure).__name__)


def failing(number: int) -> JsonObject:
    raise ValueError(number)


class HandlerPoolMachine(RuleBasedStateMachine):
    """Each rule does one thing to the pool and to the model, and then they are compared."""

    @initialize(seed=st.integers(0, 9), slots=st.tuples(st.integers(1, 2), st.integers(0, 2)))
    def open(self, seed: int, slots: tuple[int, int]) -> None:
        _run._r.seed(seed)  # pyright: ignore[reportPrivateUsage] # Trio has no public name for it
        self.stage = Stage()
        limits = Limits(max_parked=MAX_PARKED, ask_seconds=ASK_SECONDS, max_running=MAX_RUNNING)
        self.pool = self.stage.do(lambda: HandlerPool(self.stage.nursery, limits))
        self.slots = [HandlerSlots(2, 2), HandlerSlots(*slots)]
        self.model = HandlerPoolModel([Connection(2, 2), Connection(*slots)])
        self.actors: dict[Work, Actor] = {}
        self.calls: dict[Call, FakeExchange] = {}
        self.tokens: dict[Work, list[str]] = {}
        self.numbers = 0

    def teardown(self) -> None:
        if hasattr(self, "stage"):
            for actor in self.actors.values():
                actor.shield.shield = False
            self.stage.end()

    # The requests and handlers that the rules choose from.

    def works(self, *phases: Phase) -> list[Work]:
        return self.model.in_phase(*phases) if hasattr(self, "model") else []

    def open_calls(self) -> list[Call]:
        return [call for call in self.calls if call.work is not None]

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def new_call(self, connection: int, *, full: bool) -> tuple[Call, FakeExchange]:
        call, incoming = Call(self.model.connections[connection], full), exchange(self.slots[connection])
        incoming.full = full
        self.calls[call] = incoming
        return call, incoming

    def instruct(self, work: Work, what: Callable[[], Any]) -> None:
        self.stage.do(self.actors[work].order, what)

    # Requests.

    @rule(connection=st.integers(0, 1), full=rarely, stubborn=rarely)
    def request(self, connection: int, full: bool, stubborn: bool) -> None:
        self.begin(connection, full=full, stubborn=stubborn)

    def begin(self, connection: int, *, full: bool, stubborn: bool) -> Work:
        call, incoming = self.new_call(connection, full=full)
        actor = Actor(trio.CancelScope(shield=stubborn))
        work = self.model.begin(call, stubborn=stubborn)
        self.actors[work] = actor
        self.stage.do(self.pool.begin, incoming, actor.handle, explain)
        return work

    @rule(connection=st.integers(0, 1), stubborn=rarely, keys=st.lists(st.sampled_from(KEYS), unique=True, min_size=1))
    def request_that_asks(self, connection: int, stubborn: bool, keys: list[str]) -> None:
        work = self.begin(connection, full=False, stubborn=stubborn)
        if work.phase is Phase.WORKING:
            self.question(work, keys)

    @precondition(lambda self: self.open_calls())
    @rule(which=indices, gone=st.booleans(), late=rarely)
    def cancel(self, which: int, gone: bool, late: bool) -> None:
        call = one_of([*self.calls] if late else self.open_calls(), which)
        self.model.cancel(call)
        incoming = self.calls[call]
        self.stage.do(incoming.disconnect if gone else partial(incoming.cancel, "not wanted"))

    @precondition(lambda self: any(call.full for call in self.open_calls()))
    @rule(which=indices)
    def make_room(self, which: int) -> None:
        call = one_of([call for call in self.open_calls() if call.full], which)
        incoming = self.calls[call]
        incoming.full = False
        self.model.make_room(call)
        self.stage.do(incoming.emptied.set)

    # Handlers.

    @precondition(lambda self: self.works(Phase.WORKING))
    @rule(which=indices)
    def progress(self, which: int) -> None:
        work, number = one_of(self.works(Phase.WORKING), which), self.number()
        assert work.call is not None
        work.call.updates.append(number)
        exchange = self.actors[work].run.exchange
        assert exchange is not None
        self.stage.do(exchange.notify, "n", {"n": number})

    @precondition(lambda self: self.works(Phase.WORKING, Phase.EXPIRED))
    @rule(which=indices, well=st.booleans())
    def finish(self, which: int, well: bool) -> None:
        work, number = one_of(self.works(Phase.WORKING, Phase.EXPIRED), which), self.number()
        self.model.finish(work, {"n": number} if well else f"ValueError({number})")
        self.instruct(work, lambda: {"n": number} if well else failing(number))

    @precondition(lambda self: self.works(Phase.CLEANING))
    @rule(which=indices)
    def clean_up(self, which: int) -> None:
        work = one_of(self.works(Phase.CLEANING), which)
        self.model.finish(work, None)
        self.instruct(work, dict[str, Any])

    @precondition(lambda self: self.works(Phase.WORKING, Phase.EXPIRED, Phase.CLEANING))
    @rule(which=indices, keys=st.lists(st.sampled_from(KEYS), unique=True, min_size=1))
    def ask(self, which: int, keys: list[str]) -> None:
        self.question(one_of(self.works(Phase.WORKING, Phase.EXPIRED, Phase.CLEANING), which), keys)

    def question(self, work: Work, keys: list[str]) -> None:
        self.model.ask(work, keys)
        self.instruct(work, lambda: keys)

    # Retries.

    @precondition(lambda self: any(isinstance(sent, list) for call in self.calls for sent in call.sent))
    @rule(
        which=indices,
        connection=st.integers(0, 1),
        full=rarely,
        answers=st.dictionaries(st.sampled_from((*KEYS, "strange")), st.integers() | st.none()),
        everything=st.booleans(),
    )
    def retry(self, which: int, connection: int, full: bool, answers: dict[str, Any], everything: bool) -> None:
        answers |= dict.fromkeys(KEYS, self.number()) if everything else {}
        parked = [work for work in self.model.works if work.parked]
        interim_of, work = self.interim_of(one_of(parked, which)) if parked else (self.used_interim(which), None)
        call, incoming = Call(self.model.connections[connection], full), exchange(self.slots[connection])
        incoming.full = full
        expected = "unknown" if work is None else self.model.retry(work, call, answers)

        became = self.stage.do(self.resume, token_of(interim_of), incoming, answers)

        assert became == expected
        if became == "resumed":
            self.calls[call] = incoming
        else:
            assert not incoming.sent
            assert incoming.run is None

    def resume(self, token: str, incoming: FakeExchange, answers: dict[str, Any]) -> str:
        try:
            return "resumed" if self.pool.parking.resume(token, incoming, answers) else "unknown"
        except McpError as refusal:
            return "busy" if refusal.code == BUSY else "no answer"

    def interim_of(self, work: Work) -> tuple[FakeExchange, Work]:
        """Return the exchange that was answered with the open questions of *work*."""
        parked = self.pool.parking._parked  # pyright: ignore[reportPrivateUsage]
        of_run = {token for token, waiting in parked.items() if waiting.run is self.actors[work].run}
        (incoming,) = (incoming for incoming in self.interims() if token_of(incoming) in of_run)
        return incoming, work

    def used_interim(self, which: int) -> FakeExchange:
        """Return an exchange that was answered with questions that are no longer open."""
        return one_of(self.interims(), which)

    def interims(self) -> list[FakeExchange]:
        return [incoming for call, incoming in self.calls.items() if call.sent and isinstance(call.sent[0], list)]

    # Time, and closing.

    def due(self) -> list[float]:
        """Return the times at which something expires, the earliest first."""
        waiting = self.works(Phase.PARKED, Phase.EXPIRED)
        return sorted(end for work in waiting for end in (work.expires, work.expires + GRACE) if end > self.model.now)

    @precondition(lambda self: self.due())
    @rule(late=st.sampled_from([-1.0, 0.0, 0.0, 1.0]), wholly=rarely)
    def pass_time(self, late: float, wholly: bool) -> None:
        """Advance to a second before an expiry, to its exact time, or to a second after it."""
        seconds = max(0.0, self.due()[-1 if wholly else 0] + late - self.model.now)
        self.model.pass_time(seconds)
        self.stage.pass_time(seconds)

    @rule(really=rarely, as_really=rarely)
    def close(self, really: bool, as_really: bool) -> None:
        if really and as_really:
            self.model.close()
            self.stage.do(self.pool.parking.close)

    # The comparison.

    @invariant()
    def pool_and_model_agree(self) -> None:
        if not hasattr(self, "model"):
            return
        for call, incoming in self.calls.items():
            assert list(map(summary, incoming.sent)) == call.sent
            assert [params["n"] for _, params in incoming.notifications] == call.updates
            assert incoming.endings == call.endings
            assert incoming.open is (call.work is not None)
        for work, actor in self.actors.items():
            assert actor.outcomes == work.outcomes
        assert self.pool.running == self.model.running
        assert self.pool.parking.parked == self.model.parked
        assert self.pool.limiter.taken == self.model.taken
        assert self.pool.limiter.groups == len(self.model.waiting_line)
        for slots, connection in zip(self.slots, self.model.connections, strict=True):
            assert (slots.running, slots.waiting) == (connection.running, len(connection.queue))


def one_of(choices: Sequence[T], which: int) -> T:
    return choices[which % len(choices)]


def summary(outcome: JsonObject | McpError) -> Any:
    """Return a sent outcome in the form that the model uses."""
    if isinstance(outcome, McpError):
        return "busy" if outcome.code == BUSY else outcome.message
    return sorted(outcome["questions"]) if "questions" in outcome else outcome


HandlerPoolMachine.TestCase.settings = settings(
    max_examples=examples(150),
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
TestHandlerPool = HandlerPoolMachine.TestCase
