"""A request of a client with all its attempts, its clock, and the questions of the server in between.

A modern server that needs more information asks for it in the result of a request, and the client repeats the request
with the answers. Almost every request has one attempt and ends with its result: that way is short, and everything else
that a request needs is created on demand.

Rules of this file:

1. A retry is a new request with its custom id, progress token, `_meta` and clock. `Rounds` decides what it contains.
2. The updates of all attempts come out in order, as if they were one request.
3. No task runs in the background: the task that waits for an update or the result also answers the questions.
4. A server that finds the arguments of a call mirrored wrongly has run nothing. The client lists the tools again and
   repeats the call once.
5. A request that does no harm when it is made twice may be repeated once if its response was lost. Any other request,
   and every retry, is repeated only if the caller allows it: the server may have acted on the answers.
6. The server is told of the caller's deadline, as of the time at which each attempt is sent. The limits of `TimeLimits`
   are no deadlines: they are paused while a person is asked, of which the server need not know.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import trio
from attrs import define, field

from .. import types
from .._errors import (
    ErrorResponse,
    RequestTimedOut,
    TrioMcpError,
)
from .._misuse import check_class
from .._util import own_cancellation
from ..peer import ExchangeState, OutgoingRequest
from ..wire import (
    HEADER_MISMATCH,
    JsonObject,
)
from ._answer import Rounds, checked_complete
from ._callbacks import IDEMPOTENT, call_with_consent
from ._timing import RequestClocks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from ._answer import ResultInProgress
    from ._callbacks import Consent
    from ._connection import Connection

__all__ = ["Attempt", "CallbackAttempt", "OpenRequest", "call_params", "members_of"]

_log = logging.getLogger("trio_mcp.client")


@define(eq=False)
class Attempt:
    """One attempt at a request, with its clock: `begin` sends it, `leave` ends it.

    A method that only passes on an awaitable is not a coroutine itself, because every coroutine in a chain is resumed
    for each step: 5 % of the client's processor time in the benchmark cell `stdio-64`.
    """

    _clocks: RequestClocks
    outgoing: OutgoingRequest
    _began: float = field(init=False)
    _total_deadline: float = field(init=False)
    _last_activity: float = field(init=False)
    """The time of the last message, or of the start of the last wait."""

    async def begin(self) -> None:
        """Send the request; `leave` must follow. If sending fails, the attempt has ended.

        Raises:
            RequestTimedOut: the request could not be sent within the total limit.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        outgoing = self.outgoing
        if not outgoing.begin_nowait():
            await self._begin_in_time()
        elif outgoing.state is ExchangeState.OPEN:  # else the answer has arrived, and no task will wait
            self._start()

    async def _begin_in_time(self) -> None:
        self._start()
        with self._clocks.timeouts.within(self._clocks.limits.total) as scope:
            try:
                await self.outgoing.begin()
            except BaseException:
                self._clocks.running.discard(self)
                raise
        if scope.cancelled_caught:
            raise self._too_long()

    def _start(self) -> None:
        clocks = self._clocks
        self._began = self._last_activity = now = clocks.now()
        self._total_deadline = now + clocks.limits.total
        clocks.running.add(self)

    def leave(self) -> None:
        """End the attempt. Synchronous; may be repeated."""
        self._clocks.running.discard(self)
        self.outgoing.leave()

    def next_update(self) -> Awaitable[tuple[str, JsonObject] | None]:
        """Wait for the next update; None when the outcome has arrived.

        Raises:
            RequestTimedOut: a limit is reached.
        """
        if self.outgoing.state is ExchangeState.OPEN:  # else the outcome has arrived, and limits no longer apply
            self._begin_wait()
        return self.outgoing.next_update()

    def result(self) -> Awaitable[JsonObject]:
        """Wait for the result.

        Raises:
            RequestTimedOut: a limit is reached.
        """
        if self.outgoing.state is ExchangeState.OPEN:
            self._begin_wait()
        return self.outgoing.result()

    def _begin_wait(self) -> None:
        """Restart the idle limit. When a limit is reached, the wait raises `RequestTimedOut`."""
        clocks = self._clocks
        self._last_activity = now = clocks.now()
        if now >= self._total_deadline and math.isinf(clocks.stopped_at):
            raise self._timed_out(now)
        deadline = min(now + clocks.limits.idle, self._total_deadline)
        if deadline < clocks.next_check:  # this is rare
            clocks.check_at(deadline)

    def check(self, now: float) -> float:
        """Fail the request if a limit is reached; return the time of the next check, infinite if no task waits."""
        if not self.outgoing.receiving:
            return math.inf
        # Unread updates may have arrived.
        deadline = min(
            max(self._last_activity, self.outgoing.last_update_at) + self._clocks.limits.idle, self._total_deadline
        )
        if now < deadline:
            return deadline
        self.outgoing.interrupt(self._timed_out(now), "timeout")
        return math.inf

    @property
    def is_awaited(self) -> bool:
        """True if a task waits for the request."""
        return self.outgoing.receiving

    def interrupt(self, reason: BaseException) -> None:
        """Raise *reason* in the task that waits for the request."""
        self.outgoing.interrupt(reason)

    def _timed_out(self, now: float) -> RequestTimedOut:
        method, limits = self.outgoing.method, self._clocks.limits
        if now >= self._total_deadline:
            return self._too_long()
        return RequestTimedOut(f"{method!r}: the server sent nothing for {limits.idle:g} s (TimeLimits.idle)")

    def _too_long(self) -> RequestTimedOut:
        total = self._clocks.limits.total
        return RequestTimedOut(f"{self.outgoing.method!r} took longer than {total:g} s in all (TimeLimits.total)")

    def resume(self, stopped_at: float) -> None:
        """Restart the clock, which has been stopped since *stopped_at*."""
        now = self._clocks.now()
        self._total_deadline += now - max(stopped_at, self._began)
        last_activity = max(self._last_activity, self.outgoing.last_update_at)
        self._last_activity = last_activity + now - max(stopped_at, last_activity)


@define(eq=False)
class CallbackAttempt(Attempt):
    """An attempt without a task that waits for it: a function is called with the outcome.

    The deadline of the request (`OutgoingRequest.deadline`) ends it, because no task of the caller does.

    Args:
        on_outcome: called once, with the result or the reason why there is none; not after `leave`.
    """

    _on_outcome: Callable[[JsonObject | Exception], None]

    def begin_nowait(self) -> bool:
        """Send the request if that needs no waiting; return False, with nothing sent, if it needs to wait.

        Raises what sending raises; then the attempt has ended.
        """
        outgoing, clocks = self.outgoing, self._clocks
        outgoing.on_outcome = self._finish
        if not outgoing.begin_nowait():
            return False
        outgoing.params = None  # they were sent, and are only work for the garbage collector
        if outgoing.state is ExchangeState.OPEN:  # else the outcome has arrived
            self._start()
            next_check = self._next_check()
            if next_check < clocks.next_check:
                clocks.check_at(next_check)
        return True

    def _next_check(self) -> float:
        return min(self._last_activity + self._clocks.limits.idle, self._total_deadline, self.outgoing.deadline)

    def check(self, now: float) -> float:
        """End the request if a limit or its deadline is reached; return the time of the next check."""
        next_check = self._next_check()
        if now < next_check:
            return next_check
        self.leave()
        if self.outgoing.deadline <= now:
            self._on_outcome(RequestTimedOut(f"{self.outgoing.method!r} was not answered before its deadline"))
        else:
            self._on_outcome(self._timed_out(now))
        return math.inf

    def leave(self) -> None:
        """End the attempt; the function is not called any more."""
        self.outgoing.on_outcome = None
        super().leave()

    def _finish(self, outcome: JsonObject | Exception) -> None:
        self._clocks.running.discard(self)
        self.outgoing.on_outcome = None  # it refers to this attempt, and a cycle would wait for the garbage collector
        self._on_outcome(outcome)


_OF_EXTENSION = "the function of the extension"

_PLAIN = ("complete", None)  # the types of almost every result, which need no further steps


@define(eq=False)
class OpenRequest:
    """One request with all its attempts: `begin` sends it, `leave` ends the attempt in flight.

    Args:
        wants_updates: ask for progress.
        undeclared: allow requests that need capabilities the server has not declared.
        capabilities: the capabilities that this request declares in a modern revision; None for the client's.
        is_manual: return a result that asks for input; by default this client's callbacks answer it.
        repeatable: allow every attempt to be repeated if its response was lost, even if it is not idempotent.
        on_notification: see `OutgoingRequest.on_notification`.
        keeps_custom: return a result of an extension's type as it is.
    """

    connection: Connection
    method: str
    params: JsonObject | None
    """The params of the request; after sending, as edited by the consent hook."""
    wants_updates: bool = field(default=False, kw_only=True)
    undeclared: bool = field(default=False, kw_only=True)
    capabilities: JsonObject | None = field(default=None, kw_only=True)
    is_manual: bool = field(default=False, kw_only=True)
    repeatable: bool = field(default=False, kw_only=True)
    on_notification: Callable[[str, JsonObject], bool] | None = field(default=None, kw_only=True)
    _attempt: Attempt = field(init=False)
    _sent_params: JsonObject | None = field(init=False)  # the params of the current attempt
    _refreshes: int = field(init=False)  # the number of refreshes of the list of tools before the attempt was sent
    _rounds: Rounds | None = field(init=False)  # None until the server asks a question
    _was_corrected: bool = field(init=False)
    """True if the call was repeated because its arguments were mirrored wrongly."""
    _previous: tuple[Attempt, ...] = field(init=False)  # attempts that have ended, with unread updates
    _skipped: int = field(init=False)  # the updates dropped in attempts that were left
    _is_busy: bool = field(init=False)
    _failure: Exception | None = field(init=False)
    keeps_custom: bool = field(default=False, kw_only=True)
    _completed: JsonObject | None = field(init=False)
    """The result that an extension has made of the server's result."""
    _resolving: ResultInProgress | None = field(init=False)
    """The way from a result of an extension's type to the complete result."""

    def __attrs_post_init__(self) -> None:
        # Set here, because attrs takes three times as long for fields that are not arguments: 5 % of the client's
        # processor time in the benchmark cell `stdio-64`.
        self._rounds = None
        self._was_corrected = False
        self._previous = ()
        self._skipped = 0
        self._is_busy = False
        self._failure = None
        self._completed = None
        self._resolving = None

    async def begin(self) -> None:
        """Send the request; `leave` must follow. If sending fails, the request has ended.

        Raises:
            RequestTimedOut: the request could not be sent within the total limit.
            Exception: any exception of `Connection.ask`, the consent hook or the transport.
        """
        consent = self.connection.consent
        if consent is not None and self.method == "tools/call":
            await self._get_consent(consent)
        await self._send(self.params)

    async def begin_after(self, interim: JsonObject) -> None:
        """Answer the questions in a result that `ClientExtensionPoints.request_nowait` has received; send the retry.

        `leave` must follow. If this fails or is cancelled, the request has ended.
        """
        await self._retry(interim)

    def leave(self) -> None:
        """End the request. Synchronous; may be repeated."""
        for each in self._previous:
            each.leave()
        self._attempt.leave()

    @property
    def has_rounds(self) -> bool:
        """True if the server has asked a question."""
        return self._rounds is not None

    @property
    def skipped(self) -> int:
        """The number of updates that were dropped because too many waited."""
        return self._skipped + sum(each.outgoing.skipped for each in (*self._previous, self._attempt))

    async def next_update(self) -> tuple[str, JsonObject] | None:
        """Wait for the next update of any attempt; None when the outcome has arrived."""
        while True:
            while self._previous:
                update = await self._previous[0].outgoing.next_update()
                if update is not None:
                    return update
                ended, *others = self._previous
                self._previous = tuple(others)
                self._leave(ended)
            update = await self._attempt.next_update()
            if update is not None:
                return update
            interim = await self._interim() if self.connection.is_modern else None
            if interim is None:
                return await self._next_custom_update() if self.connection.is_modern else None
            await self._continue(interim)

    async def _next_custom_update(self) -> tuple[str, JsonObject] | None:
        """Return the next update on the way from a result of an extension's type to the complete one."""
        if self._failure is not None or self._completed is not None:
            return None
        try:
            outcome = await self._attempt.outgoing.result()  # it has arrived
        except TrioMcpError:
            return None
        way = self._way(outcome)
        if way is None:
            return None
        with self._exclusively(), own_cancellation(_OF_EXTENSION, _log):
            update = await way.next_update()
        return None if update is None else ("notifications/progress", types.unstructure(update))

    def _way(self, outcome: JsonObject) -> ResultInProgress | None:
        """Return the way from *outcome* to the complete result; None if no extension resolves it."""
        if self._resolving is None and not self.keeps_custom and self.connection.is_modern:
            custom = self.connection.custom
            resolve = custom.resolver(self.method, outcome.get("resultType"))
            if resolve is not None:
                self._resolving = custom.begin_to_resolve(resolve, outcome)
        return self._resolving

    @property
    def is_resolving(self) -> bool:
        """True if an extension has begun to make a complete result; then `aclose` ends the request."""
        return self._resolving is not None

    async def aclose(self) -> None:
        """End the request, and what an extension has begun for its result. Not cancelled; takes a bounded time."""
        self.leave()
        assert self._resolving is not None
        with trio.CancelScope(shield=True):
            await self._resolving.aclose()

    async def _interim(self) -> JsonObject | ErrorResponse | None:
        """Return the latest outcome if it calls for a round of questions or for a correction; otherwise None."""
        if self._failure is not None:
            return None
        try:
            outcome = await self._attempt.outgoing.result()  # it has arrived
        except ErrorResponse as error:
            return error if self._can_correct(error) else None
        except TrioMcpError:
            return None
        return outcome if self.is_interim(outcome) and not self.is_manual else None

    def _can_correct(self, error: ErrorResponse) -> bool:
        is_mismatch = error.code == HEADER_MISMATCH and self.method == "tools/call"
        return is_mismatch and not self._was_corrected and self.connection.tools.mirrors_arguments

    async def result(self) -> JsonObject:
        """Wait for the result. A round of questions is returned only if the caller answers them itself.

        Raises:
            RemoteProtocolError: a question of the server breaks the protocol, or exceeds `Limits.max_rounds`.
            Exception: any exception of a callback; the request is not sent again.
        """
        while True:
            if self._failure is not None:
                await trio.lowlevel.checkpoint_if_cancelled()
                raise self._failure
            try:
                outcome = await self._attempt.result()
            except ErrorResponse as error:
                if self._can_correct(error):
                    await self._continue(error)
                    continue
                self.connection.answering.pages.add_required(error)
                raise
            if outcome.get("resultType") in _PLAIN:
                return outcome
            if not self.is_interim(outcome):
                return await self._complete(outcome)
            if self.is_manual:
                return outcome
            await self._continue(outcome)

    async def _complete(self, outcome: JsonObject) -> JsonObject:
        """Return the complete result for a result of an extension's type; return any other result unchanged."""
        way = self._way(outcome)
        if way is None:
            return outcome
        if self._completed is None:
            with self._exclusively():
                with own_cancellation(_OF_EXTENSION, _log):
                    complete = await way.result()
                self._completed = checked_complete(complete, self.method)
        return self._completed

    def is_interim(self, outcome: JsonObject) -> bool:
        """Return True if the server has asked a question instead of answering."""
        if outcome.get("resultType") != "input_required" or not self.connection.is_modern:
            return False
        row = types.METHODS[self.connection.revision].get(self.method)
        return row is not None and types.InputRequiredResult in row.results  # other methods have no such result type

    async def _get_consent(self, consent: Consent) -> None:
        self.connection.check(self.method, undeclared=self.undeclared)
        self.params = await call_with_consent(consent, self.params, self.connection.revision)

    async def _send(self, params: JsonObject | None) -> None:
        """Make an attempt. If it cannot be sent, the state is unchanged."""
        connection, refreshes = self.connection, self.connection.tools.refreshes
        outgoing = connection.ask(
            self.method,
            params,
            wants_updates=self.wants_updates,
            undeclared=self.undeclared,
            capabilities=self.capabilities,
        )
        outgoing.repeatable = self.repeatable or (self._rounds is None and self.method in IDEMPOTENT)
        outgoing.on_notification = self.on_notification
        outgoing.is_awaited_at_once = not self.wants_updates
        outgoing.deadline = trio.current_effective_deadline()  # of this task, which waits for the outcome
        attempt = Attempt(connection.clocks, outgoing)
        await attempt.begin()
        self._attempt, self._sent_params, self._refreshes = attempt, params, refreshes

    async def _continue(self, outcome: JsonObject | ErrorResponse) -> None:
        """Answer a round or make a correction.

        If cancelled, nothing was sent, and the next task that waits continues here.
        """
        ended = self._attempt
        with self._exclusively():
            try:
                if isinstance(outcome, ErrorResponse):
                    await self._correct()
                else:
                    await self._retry(outcome)
            except Exception as exc:
                self._failure = exc
                raise
        if ended.outgoing.waiting:
            self._previous = (*self._previous, ended)
        else:
            self._leave(ended)

    async def _retry(self, outcome: JsonObject) -> None:
        if self._rounds is None:
            connection = self.connection
            replies = connection.answering.replies
            self._rounds = Rounds(
                self.method, self.params, connection.revision, connection.limits, replies, connection.while_connected
            )
        await self._send(await self._rounds.retry(outcome))
        self._rounds.sent()

    async def _correct(self) -> None:
        await self.connection.tools.refresh(self._refreshes)
        await self._send(self._sent_params)
        self._was_corrected = True

    @contextmanager
    def _exclusively(self) -> Generator[None]:
        if self._is_busy:
            raise trio.BusyResourceError("another task is answering the server's questions")
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False

    def _leave(self, attempt: Attempt) -> None:
        attempt.leave()
        self._skipped += attempt.outgoing.skipped


def call_params(name: str, arguments: Mapping[str, Any] | None, meta: Mapping[str, Any] | None) -> JsonObject:
    """Return the params of a call.

    Raises:
        TypeError: *name* is not a string, or *arguments* or *meta* is not a mapping.
    """
    if name.__class__ is not str:
        check_class("the name of a tool", name, str, "tool.name")
    params: JsonObject = {"name": name}
    if arguments is not None:
        known = arguments.__class__ is dict  # nearly always; the check for `Mapping` is slow
        params["arguments"] = dict(arguments) if known else members_of("the arguments of a tool", arguments)
    if meta is not None:
        params["_meta"] = members_of("meta", meta)
    return params


def members_of(what: str, given: object) -> JsonObject:
    """Return a copy of a mapping; raise TypeError if *given* is anything else."""
    if not isinstance(given, Mapping):
        cure = "; json.loads makes a dict of JSON text" if isinstance(given, str | bytes) else ""
        raise TypeError(f"{what}: expected a dict, such as {{'a': 1}}, and got {type(given).__name__}{cure}")
    return dict(cast("Mapping[str, Any]", given))
