"""Runs that wait for answers while nobody waits for them: their request was answered with their questions.

The other side answers by asking again; what the hall keeps meanwhile is the run, in the middle of its work.

Rules of this file:

1. What a run asks leaves in one interim answer: in the next pass of the scheduler if the handler is one task, a few
   milliseconds after the first question otherwise, so that what several tasks ask travels together.
2. An interim answer ends its exchange: deadline, cancellation, progress token and capabilities end with it, and
   those of the next one take their place. In between there is nothing to cancel.
3. Capabilities are checked when an interim answer is written, against the request that it answers.
4. Each interim answer has a token of its own, which is good for one retry. A retry that is refused uses nothing up.
5. Questions expire by raising where they were asked. The handler then has some seconds to clean up in, before it is
   cancelled. The deadlines of scopes are the timers; there is no table to scan.
6. A handler that ends while nobody waits for it keeps its outcome until somebody does, or until it expires.
7. Parking, resuming and expiring are synchronous, hence atomic.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import trio
from attrs import define, field

from .._errors import AskExpired, ConnectionLost, McpError, MissingCapability, TooManyParked
from ..wire import JsonObject
from ._limits import BUSY

if TYPE_CHECKING:
    from ._context import ExchangeContext
    from ._exchange import IncomingRequest
    from ._handler_pool import HandlerRun

__all__ = ["GRACE_SECONDS", "Interim", "ParkedRuns", "PendingQuestions", "Question", "QuestionBatch"]


class _Unanswered:
    """The type of the mark that there is no answer yet; None may be one."""


_UNANSWERED: Final = _Unanswered()


@define(eq=False)
class Question:
    """One thing to know from the other side."""

    key: str
    """What the other side's answer is found by; unique among the open questions of a run."""
    request: JsonObject
    """The method and the params, as they go over the wire."""
    read: Callable[[Any], Any]
    """Makes of the JSON value that was answered what the handler gets; raises `McpError` if it is no answer."""
    lacking: Callable[[ExchangeContext], MissingCapability | None]
    """Says why the other side cannot be asked on these terms; None if it can."""
    _answer: Any = field(default=_UNANSWERED, init=False)

    @property
    def answered(self) -> bool:
        """Whether the answer is there."""
        return self._answer is not _UNANSWERED

    @property
    def answer(self) -> Any:
        """The answer, as `read` made it."""
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
    """Its deadline is when the questions expire."""
    _resolved: trio.Event = field(factory=trio.Event, init=False)
    _failure: Exception | None = field(default=None, init=False)

    @property
    def unanswered(self) -> Iterator[Question]:
        """The questions that are still open."""
        if not self._resolved.is_set():
            yield from (question for question in self.questions if not question.answered)

    def lacking(self, context: ExchangeContext) -> MissingCapability | None:
        """Say why they cannot all be asked on these terms; None if they can."""
        return next(filter(None, (question.lacking(context) for question in self.unanswered)), None)

    def answered(self) -> None:
        """Wake whoever waits, if every answer is there."""
        if all(question.answered for question in self.questions):
            self._resolved.set()

    def fail(self, failure: Exception) -> None:
        """Raise *failure* where the answers are waited for, unless they are there."""
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
        """Return the answers, in the order of the questions; nothing is waited for any more.

        Raises:
            AskExpired: the deadline came before the answers.
            Exception: whatever `fail` was given.
        """
        if self._failure is not None:
            raise self._failure
        if not self._resolved.is_set():
            raise AskExpired("nobody answered in time")
        return [question.answer for question in self.questions]


GRACE_SECONDS = 5.0
"""What a handler has for cleaning up after its questions expired."""
SETTLE_SECONDS = 0.005
"""What several tasks of one handler ask within this time travels together."""

Interim: TypeAlias = "Callable[[str, Mapping[str, JsonObject]], JsonObject]"
"""Makes the interim answer out of the token that a retry must bring and the open questions."""


@define(eq=False)
class PendingQuestions:
    """What a run needs once it has asked: its open questions, and how they leave.

    Args:
        run: whose questions they are.
        conclude: ends the run's exchange with the open questions; called when there is an exchange and a question.
    """

    run: HandlerRun
    _conclude: Callable[[PendingQuestions, Mapping[str, JsonObject]], None]
    expires: float = field(default=math.inf, init=False)
    """When the open questions do, on Trio's clock; infinite unless the run is parked."""
    attended: trio.Event = field(factory=trio.Event, init=False)
    """Set when somebody waits for the run again."""
    token: str | None = field(default=None, init=False)
    """What the run is found by; None unless it is parked."""
    kept: bool = field(default=False, init=False)
    """Whether the handler has ended, and only its outcome waits."""
    _flushing: bool = field(default=False, init=False)
    _given: Mapping[Question, Any] | None = field(default=None, init=False)
    """Answers that wait until the run has a slot again."""

    async def ask(self, questions: Sequence[Question]) -> list[Any]:
        """Ask, and wait for the answers: all of them, or none."""
        if self.run.exchange is None and self.token is None:  # cancelled; whoever asks now has shielded itself
            raise AskExpired("the call is over")
        with self.run.asking(questions) as asking:
            asking.scope.deadline = self.expires
            self._flush_soon()
            return await asking.wait()

    def expire_at(self, when: float) -> None:
        """Let the open questions expire at *when*, and what the handler does then a little later (rule 5)."""
        self.expires = when
        for asking in self.run.open:
            asking.scope.deadline = when
        self.run.scope.deadline = when if self.kept else when + GRACE_SECONDS

    def read(self, answers: Mapping[str, Any]) -> Mapping[Question, Any]:
        """Read those of the *answers* that are answers to open questions; the others are ignored.

        Raises:
            McpError: one of them is none.
        """
        return {
            question: question.read(answers[question.key])
            for asking in self.run.open
            for question in asking.unanswered
            if question.key in answers
        }

    def resume(self, exchange: IncomingRequest, given: Mapping[Question, Any]) -> None:
        """Go on for another exchange, as soon as there is a slot for it."""
        self._given = given
        self.expire_at(math.inf)  # the clock of the handler's own time limit stands still until there is a slot
        self.run.tie(exchange)
        self.run.slots.take(self.run)

    def go_on(self) -> None:
        """There is a slot: wake whoever waits for the answers that were given."""
        given, self._given = self._given or {}, None
        for question, answer in given.items():
            question.answer = answer
        for asking in self.run.open:
            asking.answered()
        self.run.holds.start_clock(self.run.scope)
        self.attended.set()
        self._flush_soon()  # what is still open goes out again

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            self.run.pool.nursery.start_soon(self._flush)

    async def _flush(self) -> None:
        if self.run.has_several_tasks:  # the others may be about to ask
            await trio.sleep(SETTLE_SECONDS)
        exchange = self.run.exchange
        if exchange is not None and not exchange.has_room():
            try:
                await exchange.room()
            except ConnectionLost:
                exchange.disconnect()
        self._flushing = False
        exchange = self.run.exchange
        if exchange is None or self._given is not None:  # parked, over, or not yet awake
            return
        for asking in self.run.open:
            lacking = asking.lacking(exchange.context)
            if lacking is not None:
                asking.fail(lacking)
        requests = {question.key: question.request for asking in self.run.open for question in asking.unanswered}
        if requests:
            try:
                self._conclude(self, requests)
            except Exception as exc:  # noqa: BLE001 # what cannot be written, say: this handler's, and nobody else's
                self.run.fail_all(exc)


@define(eq=False)
class ParkedRuns:
    """The parked runs of one hall.

    Args:
        max_parked: runs that may be parked; one more cannot ask.
        expire_after: seconds that a question stays open.
    """

    max_parked: int
    expire_after: float
    closing: bool = field(default=False, init=False)
    """Whether nothing may be asked any more."""
    _parked: dict[str, PendingQuestions] = field(factory=dict[str, PendingQuestions], init=False)
    direct: set[QuestionBatch] = field(factory=set[QuestionBatch], init=False)
    """Waits for answers that do not need parking."""
    _emptied: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    @property
    def parked(self) -> int:
        """How many runs are parked."""
        return len(self._parked)

    def check_open(self) -> None:
        """Raise `AskExpired` where the server stops."""
        if self.closing:
            raise AskExpired("the server stops")

    def waiting(self, run: HandlerRun, interim: Interim) -> PendingQuestions:
        """Return what *run* asks by."""

        def park(waiting: PendingQuestions, requests: Mapping[str, JsonObject]) -> None:
            self._park(waiting, requests, interim)

        return PendingQuestions(run, park)

    def _park(self, waiting: PendingQuestions, requests: Mapping[str, JsonObject], interim: Interim) -> None:
        run = waiting.run
        assert run.exchange is not None
        if self.closing:
            run.fail_all(AskExpired("the server stops"))
            return
        if len(self._parked) >= self.max_parked:
            limit = f"{self.max_parked} handlers wait for answers already (Limits.max_parked)"
            run.fail_all(TooManyParked(f"the question cannot be asked: {limit}"))
            return
        exchange, token = run.exchange, secrets.token_hex(16)
        answer = interim(token, requests)
        waiting.token, waiting.attended = token, trio.Event()
        self._parked[token] = waiting
        run.release_slot()
        run.holds.give_back(run.scope)
        waiting.expire_at(trio.current_time() + self.expire_after)
        exchange.respond(answer)

    def resume(self, token: str, exchange: IncomingRequest, answers: Mapping[str, Any]) -> bool:
        """Give a parked run another exchange; False where there is none of this token that could go on.

        Raises:
            McpError: an answer is none, or the connection has too much to do. The token stays good (rule 4).
        """
        waiting = self._parked.get(token)
        if waiting is None or waiting.expires <= trio.current_time():
            return False
        given = waiting.read(answers)
        if exchange.peer.slots.full:
            raise McpError(BUSY, "too busy to go on; try again later")
        self.forget(waiting)
        waiting.resume(exchange, given)
        return True

    def forget(self, waiting: PendingQuestions) -> None:
        """Take a run out: it goes on, or has ended."""
        if waiting.token is not None:
            del self._parked[waiting.token]
            waiting.token = None
            if not self._parked:
                self._emptied.unpark_all()

    def close(self) -> None:
        """Let all open questions expire now: parked handlers may clean up (rule 5)."""
        self.closing = True
        for waiting in list(self._parked.values()):
            waiting.expire_at(min(waiting.expires, trio.current_time()))  # once expired, its clean-up gets no more time
            waiting.run.fail_all(AskExpired("the server stops"))  # one each: an exception that is raised is one task's
        for asking in self.direct:
            asking.fail(AskExpired("the server stops"))

    async def emptied(self) -> None:
        """Wait until no run is parked."""
        while self._parked:
            await self._emptied.park()
