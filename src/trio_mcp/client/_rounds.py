"""A request and its retries: a modern server that must know more first asks in its result, and is asked again.

Rules of this file:

1. All questions of a round are answered before the request is sent again. Nothing is sent again where one fails.
2. A retry is a new request: its own id, progress token, `_meta` and clock. It has the params of the first and, of the
   latest round alone, the answers and the state, exactly as it came.
3. What the attempts report comes out in order, as if they were one.
4. There is a bound on rounds. A server that asks nothing is given time, longer each time.
5. No task works on its own: whoever waits for an update or the result answers, in its own task.
6. A server that finds the arguments of a call mirrored wrongly has run nothing. The same is sent once more, when the
   tools have been listed anew.
7. What does no harm when it is done twice may be sent once more where its answer was lost. Anything else, and every
   retry, only if the caller says so: a server may have gone on with what it was answered.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import logging
import random
from collections import deque
from collections.abc import Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import trio
from attrs import define, field

from .. import types
from .._errors import ErrorResponse, LocalProtocolError, McpError, RemoteProtocolError, StructureError, TrioMcpError
from .._util import run_all
from ..wire import HEADER_MISMATCH, JsonObject, NotJsonError, copy_json, is_modern
from ._consent import Consent, consented

if TYPE_CHECKING:
    from collections.abc import Generator

    from ._connection import Connection, OpenExchange

__all__ = ["ANSWERS", "STATE", "OpenRequest"]

ANSWERS, STATE = "inputResponses", "requestState"
_PLAIN = ("complete", None)
"""The types of almost every result: there is nothing more to do."""

_IDEMPOTENT = frozenset(
    {
        "completion/complete",
        "logging/setLevel",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "server/discover",
        "tools/list",
    }
)
"""Requests that leave the same behind if they are made twice."""

FIRST_PAUSE = 0.1
"""Seconds before a request is sent again to a server that asks nothing; doubled each time, up to `LONGEST_PAUSE`."""
LONGEST_PAUSE = 5.0

_log = logging.getLogger("trio_mcp.client")


@define(eq=False)
class OpenRequest:
    """One request with all its attempts; enter it to send the request, leave it to end what is under way."""

    _connection: Connection
    method: str
    params: JsonObject | None
    """What is asked; after entering, with what the consent hook has made of it."""
    _wants_updates: bool
    _undeclared: bool
    _capabilities: JsonObject | None
    """What this request declares; None for what the client does."""
    _is_manual: bool
    """Whether the caller answers: then a round ends the request."""
    _repeatable: bool
    """Whether the caller allows every attempt to be sent once more if its answer is lost."""
    rounds: int = field(default=0, init=False)
    """How often the server has asked."""
    _current: OpenExchange | None = field(default=None, init=False)
    _sent: JsonObject | None = field(default=None, init=False)
    """The params of that attempt."""
    _renewals: int = field(default=0, init=False)
    """Of the list of tools, when it was sent."""
    _is_corrected: bool = field(default=False, init=False)
    """Whether something was sent once more because it was mirrored wrongly."""
    _earlier: deque[OpenExchange] = field(factory=deque["OpenExchange"], init=False)
    """Attempts that are over, with updates that nobody has read."""
    _skipped: int = field(default=0, init=False)
    """Of the attempts that are left."""
    _pauses: int = field(default=0, init=False)
    """How often in a row the server has asked nothing."""
    _paused_until: float | None = field(default=None, init=False)
    """While it has, when to send the request again, on Trio's clock."""
    _round: JsonObject | None = field(default=None, init=False)
    """The round that a task goes through, or did when it was cancelled."""
    _retry: JsonObject | None = field(default=None, init=False)
    """The params of a retry that is ready and not sent."""
    _is_going_on: bool = field(default=False, init=False)
    _failure: Exception | None = field(default=None, init=False)
    _completed: JsonObject | None = field(default=None, init=False)
    """What an extension has made of the result."""

    async def __aenter__(self) -> Self:
        consent = self._connection.answering.replies.callbacks.consent
        if consent is not None and self.method == "tools/call":
            await self._get_consent(consent)
        self._current = await self._attempt(self.params)
        return self

    async def __aexit__(self, *_: object) -> None:
        for each in (*self._earlier, self._latest):
            each.leave()

    @property
    def _latest(self) -> OpenExchange:
        assert self._current is not None
        return self._current

    @property
    def skipped(self) -> int:
        """Updates that were dropped because too many waited."""
        return self._skipped + sum(each.asked.skipped for each in (*self._earlier, self._latest))

    async def next_update(self) -> tuple[str, JsonObject] | None:
        """Wait for the next update of whichever attempt; None when the outcome has arrived."""
        while True:
            while self._earlier:
                update = await self._earlier[0].asked.next_update()
                if update is not None:
                    return update
                self._leave(self._earlier.popleft())
            update = await self._latest.next_update()
            if update is not None:
                return update
            interim = await self._interim()
            if interim is None:
                return None
            await self._go_on(interim)

    async def _interim(self) -> JsonObject | ErrorResponse | None:
        """Return the latest outcome if it is none of the request: it asks for a round, or for a correction."""
        if self._failure is not None:
            return None
        try:
            outcome = await self._latest.asked.result()  # it is there
        except ErrorResponse as error:
            return error if self._can_correct(error) else None
        except TrioMcpError:
            return None
        return outcome if self.is_interim(outcome) and not self._is_manual else None

    def _can_correct(self, error: ErrorResponse) -> bool:
        is_meant = error.code == HEADER_MISMATCH and self.method == "tools/call"
        return is_meant and not self._is_corrected and self._connection.mirrors_arguments

    async def result(self) -> JsonObject:
        """Wait for the result, which is a round only if the caller goes through them.

        Raises:
            RemoteProtocolError: what the server asks breaks the protocol, or goes beyond `Limits.max_rounds`.
            Exception: whatever a callback raises; the request is not sent again.
        """
        while True:
            if self._failure is not None:
                await trio.lowlevel.checkpoint_if_cancelled()
                raise self._failure
            try:
                outcome = await self._latest.result()
            except ErrorResponse as error:
                if self._can_correct(error):
                    await self._go_on(error)
                    continue
                self._connection.answering.visits.required(error)
                raise
            if outcome.get("resultType") in _PLAIN:
                return outcome
            if not self.is_interim(outcome):
                return await self._complete(outcome)
            if self._is_manual:
                return outcome
            await self._go_on(outcome)

    async def _complete(self, outcome: JsonObject) -> JsonObject:
        """Return what a result of an extension's type stands for; any other as it is."""
        own = self._connection.own
        is_open = is_modern(self._connection.revision)
        resolve = own.resolver(self.method, outcome.get("resultType")) if is_open else None
        if resolve is None:
            return outcome
        if self._completed is None:
            with self._alone():
                self._completed = await own.resolved(resolve, self.method, outcome)
        return self._completed

    def is_interim(self, outcome: JsonObject) -> bool:
        """Say whether the server has asked instead of answering."""
        if outcome.get("resultType") != "input_required" or not is_modern(self._connection.revision):
            return False
        row = types.METHODS[self._connection.revision].get(self.method)
        return row is not None and types.InputRequiredResult in row.results  # of others it is an unknown type

    def read_interim(self, outcome: JsonObject) -> types.InputRequiredResult:
        """Return the round in a result.

        Raises:
            RemoteProtocolError: it is none.
        """
        try:
            interim = types.structure(outcome, types.InputRequiredResult, revision=self._connection.revision)
        except StructureError as exc:
            raise RemoteProtocolError(f"what {self.method!r} asks does not fit: {'; '.join(exc.faults)}") from exc
        if interim.input_requests is None and interim.request_state is None:
            raise RemoteProtocolError(
                f"{self.method!r} asks for input, with neither 'inputRequests' nor 'requestState'"
            )
        return interim

    async def _get_consent(self, consent: Consent) -> None:
        self._connection.check(self.method, undeclared=self._undeclared)
        try:
            shown = copy_json(self.params)  # the caller's own may change while the hook thinks, and what it saw may not
            call = types.structure(shown, types.CallToolRequestParams)
        except NotJsonError as exc:
            raise LocalProtocolError(f"the params of {self.method!r} cannot be sent: {exc}") from None
        except StructureError as exc:
            raise LocalProtocolError(f"the params of {self.method!r} do not fit: {'; '.join(exc.faults)}") from exc
        self.params = types.unstructure(await consented(consent, call), revision=self._connection.revision)

    async def _attempt(self, params: JsonObject | None) -> OpenExchange:
        renewals = self._connection.tools.renewals
        attempt = self._connection.attempt(
            self.method,
            params,
            wants_updates=self._wants_updates,
            undeclared=self._undeclared,
            capabilities=self._capabilities,
            repeatable=self._repeatable or (self.rounds == 0 and self.method in _IDEMPOTENT),
        )
        await attempt.begin()
        self._sent, self._renewals = params, renewals
        return attempt

    async def _go_on(self, outcome: JsonObject | ErrorResponse) -> None:
        """Go through a round or a correction. If cancelled, nothing was sent; who waits next begins where it stood."""
        with self._alone():
            try:
                if isinstance(outcome, ErrorResponse):
                    attempt = await self._corrected()
                else:
                    attempt = await self._retried(outcome)
            except Exception as exc:
                self._failure = exc
                raise
        over, self._current = self._latest, attempt
        if over.asked.waiting:
            self._earlier.append(over)
        else:
            self._leave(over)

    async def _retried(self, outcome: JsonObject) -> OpenExchange:
        if self._round is None:
            self._round = outcome
            self.rounds += 1
        if self._retry is None:
            with self._connection.while_it_lasts():
                self._retry = await self._prepared(outcome)
        attempt = await self._attempt(self._retry)
        self._round = self._retry = self._paused_until = None
        return attempt

    async def _corrected(self) -> OpenExchange:
        await self._connection.tools.renew(self._renewals)
        attempt = await self._attempt(self._sent)
        self._is_corrected = True
        return attempt

    @contextmanager
    def _alone(self) -> Generator[None]:
        if self._is_going_on:
            raise trio.BusyResourceError("another task is answering what the server asks")
        self._is_going_on = True
        try:
            yield
        finally:
            self._is_going_on = False

    def _leave(self, attempt: OpenExchange) -> None:
        attempt.leave()
        self._skipped += attempt.asked.skipped

    async def _prepared(self, outcome: JsonObject) -> JsonObject:
        """Return the params of the retry, when all it needs is there."""
        interim = self.read_interim(outcome)
        limit = self._connection.limits.max_rounds
        if self.rounds > limit:
            raise RemoteProtocolError(f"{self.method!r}: the server has asked {limit} times (Limits.max_rounds)")
        retry = {name: value for name, value in (self.params or {}).items() if name not in {ANSWERS, STATE}}
        if interim.input_requests is not None:
            self._check(interim.input_requests)
            retry[ANSWERS] = await self._answers(interim.input_requests)
        await self._pause(is_needed=not interim.input_requests)
        if interim.request_state is not None:
            retry[STATE] = interim.request_state
        return retry

    def _check(self, questions: Mapping[str, types.InputRequest]) -> None:
        replies = self._connection.answering.replies
        for key, question in questions.items():
            try:
                replies.check(question.method, question.params)
            except McpError as refusal:
                said = f"{self.method!r} asks {key!r}, which cannot be answered: {refusal.message}"
                raise RemoteProtocolError(said) from None

    async def _answers(self, questions: Mapping[str, types.InputRequest]) -> JsonObject:
        """Ask the application all at once. The first failure takes the other questions back, and is raised bare."""
        answers: dict[str, Any] = dict.fromkeys(questions)

        async def answer(key: str) -> None:
            answers[key] = await self._answer(questions[key])

        jobs = [partial(answer, key) for key in questions]
        await run_all(jobs, at_once=self._connection.limits.max_in_flight, log=_log)
        return answers

    async def _answer(self, question: types.InputRequest) -> JsonObject:
        replies = self._connection.answering.replies
        return replies.settle(question.params, await replies.ask(question.params), self._connection.revision)

    async def _pause(self, *, is_needed: bool) -> None:
        if not is_needed:
            self._pauses = 0
            return
        until = self._paused_until
        if until is None:
            longest = min(FIRST_PAUSE * 2**self._pauses, LONGEST_PAUSE)
            self._pauses += 1
            pause = longest * random.uniform(0.5, 1)  # noqa: S311 # keeps clients apart; no secret
            until = self._paused_until = trio.current_time() + pause
        await trio.sleep_until(until)
