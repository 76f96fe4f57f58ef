"""Parked handlers: the questions of a handler to the client, and runs that wait for answers while no request waits.

A modern server answers a request with the questions of its handler. The client sends the answers by repeating the
request. In between the pool keeps the handler run, parked in the middle of its work.

Rules of questions:

1. Questions that are asked together are answered together, or fail together.
2. The task that waits for answers is woken by the answers, by a failure, or by the deadline of its scope. An answer
   that came before the deadline was noticed wins.
3. A question is resolved once. Later answers to it are dropped.

Rules of parking:

4. The questions of a run leave in one interim response: in the next pass of the scheduler if the handler is one task,
   otherwise a few milliseconds after the first question, so that the questions of several tasks are sent together.
5. An interim response ends its exchange, with its deadline, cancellation, progress token and capabilities. Those of the
   retry take their place. In between there is nothing to cancel, and no deadline of a caller.
6. Capabilities are checked when an interim response is written, against the request that it answers.
7. Each interim response has its own token, which is good for one retry. A refused retry does not use up the token.
8. An expired question raises in the task that asked it. The handler then has some seconds to clean up before it is
   cancelled. The deadlines of scopes are the timers; there is no table to scan.
9. A handler that ends while it is parked keeps its outcome until the retry or until the questions expire.
10. Parking, resuming and expiring are synchronous, and therefore atomic.
11. The number of handlers that wait for answers is bounded, parked or not, and shared by the senders (`SharedBound`):
    beyond the bound the question of the sender with the most gives way, and expires at once.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import trio
from attrs import define, field

from .._errors import AskExpired, ConnectionLost, McpError, MissingCapability, TooManyParked
from .._shares import SharedBound
from ..wire import JsonObject
from ._limits import BUSY

if TYPE_CHECKING:
    from ._context import ExchangeContext
    from ._exchange import IncomingRequest
    from ._handler_pool import HandlerRun

__all__ = ["GRACE_SECONDS", "Interim", "ParkedRuns", "PendingQuestions", "Question", "QuestionBatch"]


class _Unanswered:
    """The type of the marker of a missing answer. None may be an answer."""


_UNANSWERED: Final = _Unanswered()


@define(eq=False)
class Question:
    """One question to the peer."""

    key: str
    """The key of the answer; unique among the open questions of a run."""
    request: JsonObject
    """The method and params, as they are sent."""
    read: Callable[[Any], Any]
    """Converts the JSON value of the answer for the handler; raises `McpError` if the value is not a valid answer."""
    lacking: Callable[[ExchangeContext], MissingCapability | None]
    """Returns the capability that the question needs and the peer lacks in this context; None if it lacks none."""
    _answer: Any = field(default=_UNANSWERED, init=False)

    @property
    def answered(self) -> bool:
        """True if the question was answered."""
        return self._answer is not _UNANSWERED

    @property
    def answer(self) -> Any:
        """The answer, as `read` returned it."""
        assert self.answered
        return self._answer

    @answer.setter
    def answer(self, answer: Any) -> None:
        self._answer = answer


@define(eq=False)
class QuestionBatch:
    """One wait of a handler for the answers to some questions."""

    questions: Sequence[Question]
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    """The scope of the wait; its deadline is the expiry of the questions."""
    _resolved: trio.Event = field(factory=trio.Event, init=False)
    _failure: Exception | None = field(default=None, init=False)

    @property
    def unanswered(self) -> Iterator[Question]:
        """The questions that were not answered yet."""
        if not self._resolved.is_set():
            yield from (question for question in self.questions if not question.answered)

    def lacking(self, context: ExchangeContext) -> MissingCapability | None:
        """Return the first capability that the open questions need and the peer lacks; None if it lacks none."""
        return next(filter(None, (question.lacking(context) for question in self.unanswered)), None)

    def answered(self) -> None:
        """Wake the waiting task if every question was answered."""
        if all(question.answered for question in self.questions):
            self._resolved.set()

    def fail(self, failure: Exception) -> None:
        """Raise *failure* in the waiting task, unless all questions were answered."""
        if not self._resolved.is_set():
            self._failure = failure
            self._resolved.set()
            self.scope.cancel(reason=str(failure))

    async def wait(self) -> list[Any]:
        """Wait for the answers, and return the `outcome`."""
        with self.scope:
            await self._resolved.wait()
        return self.outcome()

    def outcome(self) -> list[Any]:
        """Return the answers, in the order of the questions, after the wait.

        Raises:
            AskExpired: the deadline came before the answers.
            Exception: the failure that `fail` was given.
        """
        if self._failure is not None:
            raise self._failure
        if not self._resolved.is_set():
            raise AskExpired("the question was not answered in time")
        return [question.answer for question in self.questions]


GRACE_SECONDS = 5.0
"""How long a handler may clean up after its questions expired."""
GATHER_SECONDS = 0.005
"""Questions of several tasks of one handler are sent together if they are asked within this time."""

Interim: TypeAlias = "Callable[[str, Mapping[str, JsonObject]], JsonObject]"
"""A function that makes the interim response out of the token for the retry and the open questions."""


@define(eq=False)
class PendingQuestions:
    """The open questions of one run, which are sent in the response to its request.

    Args:
        run: the run that asks.
        conclude: ends the exchange of the run with the open questions. Called if there is an exchange and a question.
    """

    run: HandlerRun
    _conclude: Callable[[PendingQuestions, Mapping[str, JsonObject]], None]
    expires: float = field(default=math.inf, init=False)
    """The expiry of the open questions on Trio's clock; infinite unless the run is parked."""
    resumed: trio.Event = field(factory=trio.Event, init=False)
    """Set when a request waits for the run again."""
    token: str | None = field(default=None, init=False)
    """The token of the parked run; None unless it is parked."""
    has_ended: bool = field(default=False, init=False)
    """True if the handler has ended and only its outcome is kept."""
    _flushing: bool = field(default=False, init=False)
    _answers: Mapping[Question, Any] | None = field(default=None, init=False)
    """The answers that wait until the run has a slot again."""

    async def ask(self, questions: Sequence[Question]) -> list[Any]:
        """Ask *questions*, and wait until all of them are answered."""
        if self.run.exchange is None and self.token is None:  # cancelled, so the handler asks in a shielded clean-up
            raise AskExpired("the call is over")
        with self.run.asking(questions) as asking:
            asking.scope.deadline = self.expires
            self._flush_soon()
            return await asking.wait()

    def expire_at(self, when: float) -> None:
        """Let the open questions expire at *when*, and cancel the handler `GRACE_SECONDS` later (rule 8)."""
        self.expires = when
        for asking in self.run.open:
            asking.scope.deadline = when
        self.run.scope.deadline = when if self.has_ended else when + GRACE_SECONDS

    def read(self, answers: Mapping[str, Any]) -> Mapping[Question, Any]:
        """Convert the *answers* to open questions, and ignore all others.

        Raises:
            McpError: an answer is not valid.
        """
        return {
            question: question.read(answers[question.key])
            for asking in self.run.open
            for question in asking.unanswered
            if question.key in answers
        }

    def resume(self, exchange: IncomingRequest, answers: Mapping[Question, Any], deadline: float) -> None:
        """Continue the run for *exchange*, as soon as it has a slot, until the *deadline* of its caller."""
        self._answers = answers
        self.expire_at(math.inf)  # the handler's own time limit is paused until it has a slot
        self.run.work_until(deadline)
        self.run.tie(exchange)
        self.run.slots.take(self.run)

    def wake(self) -> None:
        """Wake the tasks whose questions were answered. The run has its slot."""
        answers, self._answers = self._answers or {}, None
        for question, answer in answers.items():
            question.answer = answer
        for asking in self.run.open:
            asking.answered()
        self.run.holds.start_clock(self.run)
        self.resumed.set()
        self._flush_soon()  # open questions are sent again

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            self.run.pool.nursery.start_soon(self._flush)

    async def _flush(self) -> None:
        if self.run.has_several_tasks:  # the other tasks may be about to ask
            await trio.sleep(GATHER_SECONDS)
        exchange = self.run.exchange
        if exchange is not None and not exchange.has_room():
            try:
                await exchange.room()
            except ConnectionLost:
                exchange.disconnect()
        self._flushing = False
        exchange = self.run.exchange
        if exchange is None or self._answers is not None:  # parked, over, or waiting for a slot
            return
        if exchange.shows_questions:  # handed over meanwhile
            return
        for asking in self.run.open:
            lacking = asking.lacking(exchange.context)
            if lacking is not None:
                asking.fail(lacking)
        requests = {question.key: question.request for asking in self.run.open for question in asking.unanswered}
        if requests:
            try:
                self._conclude(self, requests)
            except Exception as exc:  # noqa: BLE001 # a question that is not JSON, for example, fails this handler alone
                self.run.fail_all(exc)


@define(eq=False)
class ParkedRuns:
    """The handler runs of one pool that wait for answers; parked are those that no request waits for.

    Args:
        max_parked: how many runs may wait for answers (rule 11).
        expire_after: the seconds for which a question stays open.
    """

    max_parked: int
    expire_after: float
    closing: bool = field(default=False, init=False)
    """True if the server stops, so that no run may be parked any more."""
    closed: bool = field(default=False, init=False)
    """True if no question may be asked any more at all."""
    _parked: dict[str, PendingQuestions] = field(factory=dict[str, PendingQuestions], init=False)
    _waiting: SharedBound[HandlerRun] = field(init=False)
    """The runs that wait for answers, parked or not, by sender; with the number of the waits of each."""
    direct: set[QuestionBatch] = field(factory=set[QuestionBatch], init=False)
    """The batches of questions that were sent to the peer as requests, and need no parking."""
    _emptied: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def __attrs_post_init__(self) -> None:
        self._waiting = SharedBound(self.max_parked)

    @property
    def parked(self) -> int:
        """The number of parked runs."""
        return len(self._parked)

    @contextmanager
    def waiting_directly(self, run: HandlerRun) -> Generator[None]:
        """Count a wait of *run* for answers to questions that are sent to the peer as requests.

        Raises:
            TooManyParked: too many runs wait for answers (rule 11).
        """
        self._make_room(run)
        self._waiting.add(run.slots, run)
        try:
            yield
        finally:
            if run in self._waiting:
                self._waiting.reduce(run, 1)

    def _make_room(self, run: HandlerRun) -> None:
        """Let a question give way to one of *run* if too many runs wait; raise `TooManyParked` if none does."""
        if self._waiting.has_room():
            return
        loser = self._waiting.oldest_to_give_way(run.slots)
        if loser is None:
            limit = f"{self.max_parked} handlers wait for answers already (Limits.max_parked)"
            raise TooManyParked(f"the question cannot be asked: {limit}")
        self._waiting.remove(loser)
        _expire(loser, "the question gave way to those of other clients (Limits.max_parked)")

    def seconds_for(self, exchange: IncomingRequest) -> float:
        """Return the seconds for which the questions of an exchange stay open."""
        return self.expire_after if exchange.question_seconds is None else exchange.question_seconds

    def check_open(self) -> None:
        """Raise `AskExpired` if no question may be asked any more."""
        if self.closed:
            raise AskExpired("the server stops")

    def waiting(self, run: HandlerRun, interim: Interim) -> PendingQuestions:
        """Return the questions of *run*, which parks itself with the response that *interim* makes."""

        def park(waiting: PendingQuestions, requests: Mapping[str, JsonObject]) -> None:
            self._park(waiting, requests, interim)

        return PendingQuestions(run, park)

    def _park(self, waiting: PendingQuestions, requests: Mapping[str, JsonObject], interim: Interim) -> None:
        run = waiting.run
        assert run.exchange is not None
        if self.closing:
            run.fail_all(AskExpired("the server stops"))
            return
        try:
            self._make_room(run)
        except TooManyParked as refusal:
            run.fail_all(refusal)
            return
        exchange, token = run.exchange, secrets.token_hex(16)
        answer = interim(token, requests)
        waiting.token, waiting.resumed = token, trio.Event()
        self._parked[token] = waiting
        self._waiting.add(run.slots, run)
        run.release_slot()
        run.work_until(math.inf)
        run.holds.give_back(run)
        waiting.expire_at(trio.current_time() + self.seconds_for(exchange))
        exchange.respond(answer)

    def resume(
        self, token: str, exchange: IncomingRequest, answers: Mapping[str, Any], deadline: float = math.inf
    ) -> bool:
        """Continue a parked run for *exchange*; return False if no run of this token can continue.

        Args:
            deadline: the deadline of the caller, on Trio's clock.

        Raises:
            McpError: an answer is not valid, or the connection is too busy. The token stays good (rule 7).
        """
        waiting = self._parked.get(token)
        if waiting is None or waiting.expires <= trio.current_time():
            return False
        converted = waiting.read(answers)
        if exchange.peer.slots.full:
            raise McpError(BUSY, "too busy to continue the call; try again later")
        self.forget(waiting)
        waiting.resume(exchange, converted, deadline)
        return True

    def forget(self, waiting: PendingQuestions) -> None:
        """Remove a run that continues or has ended."""
        if waiting.token is not None:
            del self._parked[waiting.token]
            self._waiting.remove(waiting.run)
            waiting.token = None
            if not self._parked:
                self._emptied.unpark_all()

    def close_parked(self) -> None:
        """Let the open questions of parked runs expire now; their handlers may clean up (rule 8).

        Questions whose answers need no parked run may still be asked, until `close`.
        """
        self.closing = True
        for waiting in list(self._parked.values()):
            _expire(waiting.run, "the server stops")

    def close(self) -> None:
        """Let all open questions expire now; their handlers may clean up (rule 8)."""
        self.closed = True
        self.close_parked()
        for asking in self.direct:
            asking.fail(AskExpired("the server stops"))

    async def emptied(self) -> None:
        """Wait until no run is parked."""
        while self._parked:
            await self._emptied.park()


def _expire(run: HandlerRun, reason: str) -> None:
    """Let the open questions of a run expire now; the handler may clean up (rule 8)."""
    waiting = run.pending
    if waiting is not None and waiting.token is not None:
        waiting.expire_at(min(waiting.expires, trio.current_time()))  # not later than before
    for asking in run.open:
        asking.fail(AskExpired(reason))  # an exception object for each task
