"""A request with all its attempts: a modern server that must know more first asks in its result, and is asked again.

Rules of this file:

1. A retry is a new request: its own id, progress token, `_meta` and clock. What it says is the business of `Rounds`.
2. What the attempts report comes out in order, as if they were one.
3. No task works on its own: whoever waits for an update or the result answers, in its own task.
4. A server that finds the arguments of a call mirrored wrongly has run nothing. The same is sent once more, when the
   tools have been listed anew.
5. What does no harm when it is done twice may be sent once more where its answer was lost. Anything else, and every
   retry, only if the caller says so: a server may have gone on with what it was answered.

Almost every request has one attempt, and ends with its result: that way is short, and what else a request needs is made
when it needs it.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import trio
from attrs import Attribute, define, field, frozen

from .. import types
from .._errors import (
    ErrorResponse,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    RequestTimedOut,
    StructureError,
    TrioMcpError,
)
from .._util import run_all
from ..peer import ExchangeState, OutgoingRequest, PausableTimeouts
from ..wire import HEADER_MISMATCH, JsonObject, NotJsonError, copy_json
from ._callbacks import Consent, consented

if TYPE_CHECKING:
    from ._connection import Connection

__all__ = ["ANSWERS", "STATE", "Attempt", "OpenRequest", "RequestClocks", "Rounds", "TimeLimits", "read_interim"]


# What a modern server asks about a request, round after round, and what the retries say that answer it.
#
# Rules of this file:
#
# 1. All questions of a round are answered before the request is sent again. Nothing is sent again where one fails.
# 2. A retry has the params of the first request and, of the latest round alone, the answers and the state, exactly as
# it
#    came.
# 3. There is a bound on rounds. A server that asks nothing is given time, longer each time.
# 4. Who is cancelled has lost nothing: whoever goes on begins where the round stood.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr

ANSWERS, STATE = "inputResponses", "requestState"

FIRST_PAUSE = 0.1
"""Seconds before a request is sent again to a server that asks nothing; doubled each time, up to `LONGEST_PAUSE`."""
LONGEST_PAUSE = 5.0

_log = logging.getLogger("trio_mcp.client")


@define(eq=False)
class Rounds:
    """The rounds of one request, which one task at a time goes through."""

    _connection: Connection
    _method: str
    _params: JsonObject | None
    """Of the first request."""
    _count: int = field(default=0, init=False)
    _pauses: int = field(default=0, init=False)
    """How often in a row the server has asked nothing."""
    _paused_until: float | None = field(default=None, init=False)
    """While it has, when to send the request again, on Trio's clock."""
    _is_counted: bool = field(default=False, init=False)
    """Whether a task goes through a round, or did when it was cancelled."""
    _retry: JsonObject | None = field(default=None, init=False)
    """The params of a retry that is ready and not sent."""

    async def retry(self, outcome: JsonObject) -> JsonObject:
        """Return the params of the retry that answers a round, when all it needs is there; `sent` is to follow.

        Raises:
            RemoteProtocolError: what the server asks breaks the protocol, or goes beyond `Limits.max_rounds`.
            ConnectionLost: the connection is gone.
            Exception: whatever a callback raises.
        """
        if not self._is_counted:
            self._is_counted = True
            self._count += 1
        if self._retry is None:
            with self._connection.while_it_lasts():
                self._retry = await self._prepared(outcome)
        return self._retry

    def sent(self) -> None:
        """The retry is sent: the next round is another one."""
        self._is_counted, self._retry, self._paused_until = False, None, None

    async def _prepared(self, outcome: JsonObject) -> JsonObject:
        """Return the params of the retry, when all it needs is there."""
        interim = read_interim(outcome, self._method, self._connection.revision)
        limit = self._connection.limits.max_rounds
        if self._count > limit:
            raise RemoteProtocolError(f"{self._method!r}: the server has asked {limit} times (Limits.max_rounds)")
        retry = {name: value for name, value in (self._params or {}).items() if name not in {ANSWERS, STATE}}
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
                said = f"{self._method!r} asks {key!r}, which cannot be answered: {refusal.message}"
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
        return replies.resolve(question.params, await replies.ask(question.params), self._connection.revision)

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


def read_interim(outcome: JsonObject, method: str, revision: str) -> types.InputRequiredResult:
    """Return the round in a result.

    Raises:
        RemoteProtocolError: it is none.
    """
    try:
        interim = types.structure(outcome, types.InputRequiredResult, revision=revision)
    except StructureError as exc:
        raise RemoteProtocolError(f"what {method!r} asks does not fit: {'; '.join(exc.faults)}") from exc
    if interim.input_requests is None and interim.request_state is None:
        raise RemoteProtocolError(f"{method!r} asks for input, with neither 'inputRequests' nor 'requestState'")
    return interim


# The time policy of a connection: how long a request may be silent, and how long it may take in all.
#
# Rules of this file:
#
# 1. The idle limit measures waiting for the other side: each wait begins it anew, and so does each update. Time that a
#    callback or the body of an `open_call` block takes is not waiting.
# 2. The total limit measures the whole request.
# 3. All limits stand still while a person answers a question of the server, or signs in, because nobody can say how
# long
#    that takes, and on a link nobody can say which request a question belongs to.
# 4. A modern request that asks is over: its retry has clocks of its own, and the time in between counts for nothing.
#
# A caller's own deadline is Trio's business (`trio.fail_after`), and not known here.
#
# Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#timeouts

_OPEN = ExchangeState.OPEN  # found once, because a member of an enumeration is slow to find


def _duration(_: object, attribute: Attribute[Any], value: float) -> None:
    if isinstance(value, bool) or math.isnan(value) or value <= 0:
        raise ValueError(f"TimeLimits({attribute.name}={value!r}): must be a number of seconds above 0")


@frozen(kw_only=True)
class TimeLimits:
    """How long a client waits, in seconds; `math.inf` lifts a limit. What exceeds one raises `RequestTimedOut`."""

    idle: float = field(default=300.0, validator=_duration)
    """A request whose other side says nothing for this long is given up. Progress counts, where it was asked for."""
    total: float = field(default=3600.0, validator=_duration)
    """A request that takes longer than this in all is given up."""
    connect: float = field(default=60.0, validator=_duration)
    """How long opening may take, until both sides know what they speak."""
    probe: float = field(default=5.0, validator=_duration)
    """A server that has not answered `server/discover` after this long is asked to `initialize` as well."""


@define(eq=False)
class RequestClocks:
    """The clocks of all requests of one connection, which stand still together, and the one timer they share.

    One timer, because a cancel scope for each wait would be a seventh of what a call costs. Limits are the same for
    all requests, so the time at which the timer looks is early enough for almost every wait that begins after it was
    set: it is set when a wait needs it earlier, and when it has looked. Nothing unsets it, so a process that asks for
    nothing any more wakes up once.

    Args:
        limits: what each request may take.
    """

    limits: TimeLimits
    timeouts: PausableTimeouts = field(factory=PausableTimeouts, init=False)
    """The limits of blocks, which stand still with the clocks."""
    now: Callable[[], float] = field(init=False)
    """Trio's clock, found once: each request asks for the time twice."""
    running: set[Attempt] = field(factory=set["Attempt"], init=False)
    """Those whose clocks run."""
    stopped_at: float = field(default=math.inf, init=False)
    """When the clocks were stopped, on Trio's clock; infinite while they run."""
    looks_at: float = field(default=math.inf, init=False)
    """When the timer looks at the clocks."""
    _persons: int = field(default=0, init=False)
    _timer: trio.CancelScope = field(factory=trio.CancelScope, init=False)

    def __attrs_post_init__(self) -> None:
        self.now = trio.lowlevel.current_clock().current_time

    async def run(self) -> None:
        """Give up the requests that reach a limit, for ever. Runs in one task of the connection."""
        while True:
            with self._timer:
                await trio.sleep_forever()
            self._timer, self.looks_at = trio.CancelScope(), math.inf
            self._look()

    def look_at(self, time: float) -> None:
        """Look at the clocks at *time*, if not before."""
        if time < self.looks_at:
            self.looks_at = self._timer.deadline = time

    def _look(self) -> None:
        if math.isinf(self.stopped_at):
            now = self.now()
            self.look_at(min((attempt.judge(now) for attempt in self.running), default=math.inf))

    @contextmanager
    def stopped(self) -> Generator[None]:
        """Stop the clocks for as long as a person is being asked."""
        if self._persons == 0:
            self.stopped_at = self.now()
        self._persons += 1
        try:
            with self.timeouts.paused():
                yield
        finally:
            self._persons -= 1
            if self._persons == 0:
                stopped_at, self.stopped_at = self.stopped_at, math.inf
                for attempt in self.running:
                    attempt.go_on(stopped_at)
                self._look()


@define(eq=False)
class Attempt:
    """One attempt at a request, and its clock: `begin` sends it, `leave` ends it.

    What only hands on what is to be awaited is no coroutine itself: whoever is resumed passes through all of them.
    """

    _stopwatch: RequestClocks
    asked: OutgoingRequest
    _began: float = field(init=False)
    _total_deadline: float = field(init=False)
    _heard: float = field(init=False)
    """When the idle limit began last, unless an update has come since."""

    async def begin(self) -> None:
        """Send the request; `leave` must follow. If it cannot be sent, it is over.

        Raises:
            RequestTimedOut: it could not be sent within the total limit.
        """
        asked = self.asked
        if not asked.begins_at_once():
            await self._begin_in_time()
            return
        await asked.begin()
        if asked.state is _OPEN:  # else the answer is there, and nobody will wait
            self._start()

    async def _begin_in_time(self) -> None:
        self._start()
        with self._stopwatch.timeouts.within(self._stopwatch.limits.total) as scope:
            try:
                await self.asked.begin()
            except BaseException:
                self._stopwatch.running.discard(self)
                raise
        if scope.cancelled_caught:
            raise self._too_long()

    def _start(self) -> None:
        stopwatch = self._stopwatch
        self._began = self._heard = now = stopwatch.now()
        self._total_deadline = now + stopwatch.limits.total
        stopwatch.running.add(self)

    def leave(self) -> None:
        """End the attempt; synchronous, and harmless when it has ended already."""
        self._stopwatch.running.discard(self)
        self.asked.leave()

    def next_update(self) -> Awaitable[tuple[str, JsonObject] | None]:
        """Wait for the next update; None when the outcome has arrived.

        Raises:
            RequestTimedOut: a limit is reached.
        """
        if self.asked.state is _OPEN:  # else the outcome is there, however late it is asked for
            self._begin_wait()
        return self.asked.next_update()

    def result(self) -> Awaitable[JsonObject]:
        """Wait for the result.

        Raises:
            RequestTimedOut: a limit is reached.
        """
        if self.asked.state is _OPEN:
            self._begin_wait()
        return self.asked.result()

    def _begin_wait(self) -> None:
        """From now on the other side is waited for. When a limit is reached, the wait raises `RequestTimedOut`."""
        stopwatch = self._stopwatch
        self._heard = now = stopwatch.now()
        if now >= self._total_deadline and math.isinf(stopwatch.stopped_at):
            raise self._timed_out(now)
        deadline = min(now + stopwatch.limits.idle, self._total_deadline)
        if deadline < stopwatch.looks_at:  # which is rare
            stopwatch.look_at(deadline)

    def judge(self, now: float) -> float:
        """Give the request up if a limit is reached; return when to look again, infinite where nobody waits."""
        if not self.asked.receiving:
            return math.inf
        # Updates may have come in that nobody has read yet.
        deadline = min(max(self._heard, self.asked.last_heard) + self._stopwatch.limits.idle, self._total_deadline)
        if now < deadline:
            return deadline
        self.asked.interrupt(self._timed_out(now))
        return math.inf

    def _timed_out(self, now: float) -> RequestTimedOut:
        method, limits = self.asked.method, self._stopwatch.limits
        if now >= self._total_deadline:
            return self._too_long()
        return RequestTimedOut(f"{method!r}: nothing was heard for {limits.idle:g} s (TimeLimits.idle)")

    def _too_long(self) -> RequestTimedOut:
        total = self._stopwatch.limits.total
        return RequestTimedOut(f"{self.asked.method!r} took longer than {total:g} s in all (TimeLimits.total)")

    def go_on(self, stopped_at: float) -> None:
        """The person has answered; *stopped_at* is when the clocks were stopped."""
        now = self._stopwatch.now()
        self._total_deadline += now - max(stopped_at, self._began)
        heard = max(self._heard, self.asked.last_heard)
        self._heard = heard + now - max(stopped_at, heard)


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


@define(eq=False)
class OpenRequest:
    """One request with all its attempts: `begin` sends it, `leave` ends what is under way.

    Args:
        wants_updates: ask for progress.
        undeclared: ask even what the server has not declared.
        capabilities: what this request declares, in a modern revision; None for what the client does.
        is_manual: a result that asks for input is the outcome; by default this client's callbacks answer it.
        repeatable: every attempt may be sent once more where its answer was lost, whatever it does.
    """

    connection: Connection
    method: str
    params: JsonObject | None
    """What is asked; once it is sent, with what the consent hook has made of it."""
    wants_updates: bool = field(default=False, kw_only=True)
    undeclared: bool = field(default=False, kw_only=True)
    capabilities: JsonObject | None = field(default=None, kw_only=True)
    is_manual: bool = field(default=False, kw_only=True)
    repeatable: bool = field(default=False, kw_only=True)
    _current: Attempt = field(init=False)
    _sent: JsonObject | None = field(init=False)
    """The params of that attempt."""
    _renewals: int = field(init=False)
    """Of the list of tools, when it was sent."""
    _rounds: Rounds | None = field(init=False)
    """None until the server asks."""
    _is_corrected: bool = field(init=False)
    """Whether something was sent once more because it was mirrored wrongly."""
    _earlier: tuple[Attempt, ...] = field(init=False)
    """Attempts that are over, with updates that nobody has read."""
    _skipped: int = field(init=False)
    """Of the attempts that are left."""
    _is_going_on: bool = field(init=False)
    _failure: Exception | None = field(init=False)
    _completed: JsonObject | None = field(init=False)
    """What an extension has made of the result."""

    def __attrs_post_init__(self) -> None:
        # Here, because attrs takes three times as long to set what is no argument, and each call makes one of these.
        self._rounds = None
        self._is_corrected = False
        self._earlier = ()
        self._skipped = 0
        self._is_going_on = False
        self._failure = None
        self._completed = None

    def begin(self) -> Awaitable[None]:
        """Send the request; `leave` must follow. If it cannot be sent, it is over.

        Raises:
            RequestTimedOut: it could not be sent within the total limit.
            Exception: whatever `Connection.ask` raises, the consent hook, or the transport.
        """
        consent = self.connection.consent
        if consent is not None and self.method == "tools/call":
            return self._begin_with_consent(consent)
        return self._send(self.params)

    async def _begin_with_consent(self, consent: Consent) -> None:
        await self._get_consent(consent)
        await self._send(self.params)

    def leave(self) -> None:
        """End it; synchronous, and harmless when it has ended already."""
        for each in self._earlier:
            each.leave()
        self._current.leave()

    @property
    def has_rounds(self) -> bool:
        """Whether the server has asked."""
        return self._rounds is not None

    @property
    def skipped(self) -> int:
        """Updates that were dropped because too many waited."""
        return self._skipped + sum(each.asked.skipped for each in (*self._earlier, self._current))

    async def next_update(self) -> tuple[str, JsonObject] | None:
        """Wait for the next update of whichever attempt; None when the outcome has arrived."""
        while True:
            while self._earlier:
                update = await self._earlier[0].asked.next_update()
                if update is not None:
                    return update
                over, *others = self._earlier
                self._earlier = tuple(others)
                self._leave(over)
            update = await self._current.next_update()
            if update is not None:
                return update
            interim = await self._interim() if self.connection.is_modern else None
            if interim is None:
                return None
            await self._go_on(interim)

    async def _interim(self) -> JsonObject | ErrorResponse | None:
        """Return the latest outcome if it is none of the request: it asks for a round, or for a correction."""
        if self._failure is not None:
            return None
        try:
            outcome = await self._current.asked.result()  # it is there
        except ErrorResponse as error:
            return error if self._can_correct(error) else None
        except TrioMcpError:
            return None
        return outcome if self.is_interim(outcome) and not self.is_manual else None

    def _can_correct(self, error: ErrorResponse) -> bool:
        is_meant = error.code == HEADER_MISMATCH and self.method == "tools/call"
        return is_meant and not self._is_corrected and self.connection.mirrors_arguments

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
                outcome = await self._current.result()
            except ErrorResponse as error:
                if self._can_correct(error):
                    await self._go_on(error)
                    continue
                self.connection.answering.visits.required(error)
                raise
            if outcome.get("resultType") in _PLAIN:
                return outcome
            if not self.is_interim(outcome):
                return await self._complete(outcome)
            if self.is_manual:
                return outcome
            await self._go_on(outcome)

    async def _complete(self, outcome: JsonObject) -> JsonObject:
        """Return what a result of an extension's type stands for; any other as it is."""
        own = self.connection.own
        resolve = own.resolver(self.method, outcome.get("resultType")) if self.connection.is_modern else None
        if resolve is None:
            return outcome
        if self._completed is None:
            with self._alone():
                self._completed = await own.resolved(resolve, self.method, outcome)
        return self._completed

    def is_interim(self, outcome: JsonObject) -> bool:
        """Say whether the server has asked instead of answering."""
        if outcome.get("resultType") != "input_required" or not self.connection.is_modern:
            return False
        row = types.METHODS[self.connection.revision].get(self.method)
        return row is not None and types.InputRequiredResult in row.results  # of others it is an unknown type

    async def _get_consent(self, consent: Consent) -> None:
        self.connection.check(self.method, undeclared=self.undeclared)
        try:
            shown = copy_json(self.params)  # the caller's own may change while the hook thinks, and what it saw may not
            call = types.structure(shown, types.CallToolRequestParams)
        except NotJsonError as exc:
            raise LocalProtocolError(f"the params of {self.method!r} cannot be sent: {exc}") from None
        except StructureError as exc:
            raise LocalProtocolError(f"the params of {self.method!r} do not fit: {'; '.join(exc.faults)}") from exc
        self.params = types.unstructure(await consented(consent, call), revision=self.connection.revision)

    async def _send(self, params: JsonObject | None) -> None:
        """Make an attempt. If it cannot be sent, nothing has changed."""
        connection, renewals = self.connection, self.connection.tools.renewals
        asked = connection.ask(
            self.method,
            params,
            wants_updates=self.wants_updates,
            undeclared=self.undeclared,
            capabilities=self.capabilities,
        )
        asked.repeatable = self.repeatable or (self._rounds is None and self.method in _IDEMPOTENT)
        attempt = Attempt(connection.stopwatch, asked)
        await attempt.begin()
        self._current, self._sent, self._renewals = attempt, params, renewals

    async def _go_on(self, outcome: JsonObject | ErrorResponse) -> None:
        """Go through a round or a correction. If cancelled, nothing was sent; who waits next begins where it stood."""
        over = self._current
        with self._alone():
            try:
                if isinstance(outcome, ErrorResponse):
                    await self._correct()
                else:
                    await self._retry(outcome)
            except Exception as exc:
                self._failure = exc
                raise
        if over.asked.waiting:
            self._earlier = (*self._earlier, over)
        else:
            self._leave(over)

    async def _retry(self, outcome: JsonObject) -> None:
        if self._rounds is None:
            self._rounds = Rounds(self.connection, self.method, self.params)
        await self._send(await self._rounds.retry(outcome))
        self._rounds.sent()

    async def _correct(self) -> None:
        await self.connection.tools.renew(self._renewals)
        await self._send(self._sent)
        self._is_corrected = True

    @contextmanager
    def _alone(self) -> Generator[None]:
        if self._is_going_on:
            raise trio.BusyResourceError("another task is answering what the server asks")
        self._is_going_on = True
        try:
            yield
        finally:
            self._is_going_on = False

    def _leave(self, attempt: Attempt) -> None:
        attempt.leave()
        self._skipped += attempt.asked.skipped
