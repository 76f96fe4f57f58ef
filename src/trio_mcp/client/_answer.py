"""Answers to a server: to the requests of a legacy one, to the questions in a modern result, and to custom messages.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation
"""

from __future__ import annotations

import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, TypeAlias

import trio
from attrs import define, evolve, field

from .. import types
from .._errors import (
    ConsentRefused,
    ErrorResponse,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    StructureError,
)
from .._extensions import is_specified, with_plain_extensions
from .._user_types import TypedFunction, to_object
from .._util import run_all
from ..peer import HandlerPool, HandlerRun, IncomingRequest, Limits
from ..wire import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, JsonObject, is_object
from ._callbacks import Callbacks, OnElicitComplete, OnLog, Replies
from ._timing import RequestClocks

__all__ = [
    "ANSWERS",
    "ELICITATION_COMPLETE",
    "STATE",
    "Answering",
    "CustomMessages",
    "ResultResolver",
    "Rounds",
    "VisitedPages",
    "read_interim",
]

_log = logging.getLogger("trio_mcp.client")


# Pages that a server of 2025-11-25 has asked the user to visit: it tells when the user is done with one.
#
# Rules of this file:
#
# 1. Only pages that this connection was told of can be done with, once each; whatever else is told is ignored.
# 2. What is remembered is bounded: of more pages than that, the oldest are forgotten.
#
# Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#completion-notifications-
# for-url-mode-elicitation

ELICITATION_COMPLETE = "notifications/elicitation/complete"

MAX_OPEN_PAGES = 1024
"""Pages whose end is waited for."""

_REVISION = "2025-11-25"
_URL_ELICITATION_REQUIRED = -32042


@define(eq=False)
class VisitedPages:
    """The pages that one connection's user was asked to visit."""

    _on_complete: OnElicitComplete | None
    _pending: dict[str, None] = field(factory=dict[str, None], init=False)
    """A set in order."""
    _completed: deque[types.ElicitationCompleteNotificationParams] = field(
        factory=partial(deque["types.ElicitationCompleteNotificationParams"], maxlen=MAX_OPEN_PAGES), init=False
    )
    _wakeup: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def add(self, request: Any) -> None:
        """Remember a question that names a page; others are nothing to remember."""
        if isinstance(request, types.ElicitRequestURLParams) and request.elicitation_id is not None:
            self._pending[request.elicitation_id] = None
            if len(self._pending) > MAX_OPEN_PAGES:
                del self._pending[next(iter(self._pending))]

    def add_required(self, error: ErrorResponse) -> None:
        """Remember the pages that an error names as to be visited first."""
        if error.code == _URL_ELICITATION_REQUIRED:
            try:
                data = types.structure(error.data, types.URLElicitationRequiredErrorData, revision=_REVISION)
            except StructureError as fault:
                _log.warning("an error %s of the server names no pages: %s", error.code, fault)
                return
            for each in data.elicitations:
                self.add(each)

    def completed(self, params: JsonObject) -> None:
        """Take the notice that the user is done with a page; synchronous."""
        identifier = params.get("elicitationId")
        if type(identifier) is str and identifier in self._pending:
            del self._pending[identifier]
            self._completed.append(
                types.structure(params, types.ElicitationCompleteNotificationParams, revision=_REVISION)
            )
            self._wakeup.unpark()

    def start(self, nursery: trio.Nursery) -> None:
        """Start the task that hands the notices on, if the application wants to hear of them."""
        if self._on_complete is not None:
            nursery.start_soon(self._deliver, self._on_complete)

    async def _deliver(self, on_complete: OnElicitComplete) -> None:
        """Hand the notices to `on_elicit_complete`, one after the other, for ever. Its failure costs one of them."""
        while True:
            while not self._completed:
                await self._wakeup.park()
            try:
                await on_complete(self._completed.popleft())
            except Exception:  # noqa: BLE001 # it is the application's, and costs one notice
                _log.exception("on_elicit_complete failed")


MAX_WAITING_LOGS = 1024
"""Log messages that may wait for `on_log`; beyond it the oldest goes."""

MAX_WARNINGS = 10
"""Log messages that break the protocol about which ours says so; a server that goes on fills no log."""

REFUSED_BY_USER = -1
"""Answers a request to the model that there was no consent for."""


@define(eq=False)
class Answering:
    """Answers what the server of one connection asks, and hands its log messages on."""

    _callbacks: Callbacks
    _clocks: RequestClocks
    pool: HandlerPool
    replies: Replies = field(init=False)
    pages: VisitedPages = field(init=False)
    skipped_logs: int = field(default=0, init=False)
    """Log messages that were dropped because `on_log` is too slow."""
    _unreadable_logs: int = field(default=0, init=False)
    _logs: deque[JsonObject] = field(factory=deque[JsonObject], init=False)
    _log_wakeup: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def __attrs_post_init__(self) -> None:
        self.replies = Replies(self._callbacks)
        self.pages = VisitedPages(self._callbacks.on_elicit_complete)

    @property
    def wants_messages(self) -> bool:
        """Whether there is anything to answer, or to hand on."""
        return self._callbacks.wants_messages

    def answer(self, exchange: IncomingRequest) -> None:
        """Begin to answer; synchronous."""
        try:
            params = self._read_params(exchange)
        except McpError as error:
            exchange.respond(error)
            return
        if exchange.method == "ping":
            exchange.respond({})
            return
        revision = exchange.context.revision
        self.pages.add(params)

        async def handle(_: HandlerRun) -> JsonObject:
            with nullcontext() if exchange.method == "roots/list" else self._clocks.paused():
                reply = await self.replies.ask(params)
            try:
                return self.replies.resolve(params, reply, revision)
            except LocalProtocolError as fault:
                _log.error("%r cannot be answered: %s", exchange.method, fault)
                raise McpError(INTERNAL_ERROR, str(fault)) from None

        def explain(failure: Exception) -> McpError:
            if isinstance(failure, McpError):
                return failure
            if isinstance(failure, ConsentRefused):
                return McpError(REFUSED_BY_USER, "the user has refused this request")
            _log.error("the callback for %r failed", exchange.method, exc_info=failure)
            return McpError(INTERNAL_ERROR, f"this client failed to answer {exchange.method!r}")

        self.pool.begin(exchange, handle, explain)

    def _read_params(self, exchange: IncomingRequest) -> Any:
        method, revision = exchange.method, exchange.context.revision
        row = types.METHODS[revision].get(method)
        if row is None or row.direction == "client":
            raise McpError(METHOD_NOT_FOUND, f"a client answers no {method!r} in revision {revision}")
        if method != "ping":
            self.replies.check(method, None)  # before its params: what was not declared is not looked at
        try:
            params: Any = types.structure(exchange.params or {}, row.params, revision=revision)
        except StructureError as exc:
            raise McpError(INVALID_PARAMS, f"the params of {method!r} do not fit: {'; '.join(exc.faults)}") from None
        if method != "ping":
            self.replies.check(method, params)
        return params

    def log(self, params: JsonObject) -> None:
        """Take a log message of the server; synchronous."""
        if self._callbacks.on_log is not None:
            if len(self._logs) >= MAX_WAITING_LOGS:
                self._logs.popleft()
                self.skipped_logs += 1
            self._logs.append(params)
            self._log_wakeup.unpark()

    def start(self, nursery: trio.Nursery, revision: str) -> None:
        """Start the tasks that hand on what the application wants to hear, if it does."""
        if self._callbacks.on_log is not None:
            nursery.start_soon(self._deliver_logs, self._callbacks.on_log, revision)
        self.pages.start(nursery)

    async def _deliver_logs(self, on_log: OnLog, revision: str) -> None:
        """Hand log messages to `on_log`, one after the other, for ever. Its failure costs one message."""
        while True:
            while not self._logs:
                await self._log_wakeup.park()
            try:
                await on_log(
                    types.structure(self._logs.popleft(), types.LoggingMessageNotificationParams, revision=revision)
                )
            except StructureError as exc:
                self._unreadable_logs += 1
                level = logging.WARNING if self._unreadable_logs <= MAX_WARNINGS else logging.DEBUG
                _log.log(level, "a log message of the server does not fit: %s", exc)
            except Exception:  # noqa: BLE001 # it is the application's, and costs one message
                _log.exception("on_log failed")


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


@define(eq=False)
class Rounds:
    """The rounds of one request, which one task at a time goes through."""

    _method: str
    _params: JsonObject | None
    """Of the first request."""
    _revision: str
    _limits: Limits
    _replies: Replies
    _while_connected: Callable[[], AbstractContextManager[None]]
    """Returns a block that is cancelled when the connection is lost."""
    _count: int = field(default=0, init=False)
    _pauses: int = field(default=0, init=False)
    """How often in a row the server has asked nothing."""
    _paused_until: float | None = field(default=None, init=False)
    """While it has, when to send the request again, on Trio's clock."""
    _is_in_round: bool = field(default=False, init=False)
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
        if not self._is_in_round:
            self._is_in_round = True
            self._count += 1
        if self._retry is None:
            with self._while_connected():
                self._retry = await self._prepared(outcome)
        return self._retry

    def sent(self) -> None:
        """The retry is sent: the next round is another one."""
        self._is_in_round, self._retry, self._paused_until = False, None, None

    async def _prepared(self, outcome: JsonObject) -> JsonObject:
        """Return the params of the retry, when all it needs is there."""
        interim = read_interim(outcome, self._method, self._revision)
        limit = self._limits.max_rounds
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
        for key, question in questions.items():
            try:
                self._replies.check(question.method, question.params)
            except McpError as refusal:
                message = f"{self._method!r} asks {key!r}, which cannot be answered: {refusal.message}"
                raise RemoteProtocolError(message) from None

    async def _answers(self, questions: Mapping[str, types.InputRequest]) -> JsonObject:
        """Ask the application all at once. The first failure takes the other questions back, and is raised bare."""
        answers: dict[str, Any] = dict.fromkeys(questions)

        async def answer(key: str) -> None:
            answers[key] = await self._answer(questions[key])

        jobs = [partial(answer, key) for key in questions]
        await run_all(jobs, at_once=self._limits.max_in_flight, log=_log)
        return answers

    async def _answer(self, question: types.InputRequest) -> JsonObject:
        reply = await self._replies.ask(question.params)
        return self._replies.resolve(question.params, reply, self._revision)

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


MAX_WAITING_NOTIFICATIONS = 1024
"""Notifications that may wait for their handlers; beyond it the oldest goes."""

ResultResolver: TypeAlias = Callable[[Any, JsonObject], Awaitable[JsonObject]]
"""A `Resolve` for a client of any type."""


@define(eq=False)
class CustomMessages:
    """What the application of one client has added to the protocol. Made by `custom_messages`."""

    extensions: Mapping[str, Mapping[str, Any]]
    """The client's settings by extension."""
    _experimental: Mapping[str, JsonObject]
    _methods: Mapping[str, TypedFunction]
    _notifications: Mapping[str, TypedFunction]
    _resolvers: Mapping[str, ResultResolver]
    """By the type of the result."""
    client: Any = field(default=None, init=False)
    """Whose application it is; set before anything is asked."""
    skipped: int = field(default=0, init=False)
    """Notifications that were dropped because their handlers are too slow."""
    _waiting: deque[tuple[str, JsonObject]] = field(factory=deque[tuple[str, JsonObject]], init=False)
    _wakeup: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _warnings: int = field(default=0, init=False)

    def declared_with(self, capabilities: types.ClientCapabilities) -> types.ClientCapabilities:
        """Return what the client declares: its own capabilities and these."""
        settings = {id: dict(each) for id, each in self.extensions.items()}
        return with_plain_extensions(
            evolve(capabilities, experimental=self._experimental or None, extensions=settings or None)
        )

    @property
    def wants_messages(self) -> bool:
        """Whether it has added anything that servers say of their own accord."""
        return bool(self._methods or self._notifications)

    def answer(self, exchange: IncomingRequest, pool: HandlerPool, clocks: RequestClocks) -> bool:
        """Begin to answer a request of the server's, if it has a handler here; synchronous."""
        method, revision = exchange.method, exchange.context.revision
        if method not in self._methods or method in types.METHODS[revision]:
            return False
        function = self._methods[method]
        try:
            params = function.read(exchange.params or {})
        except StructureError as error:
            fault = f"the params of {method!r} do not fit: {'; '.join(error.faults)}"
            exchange.respond(McpError(INVALID_PARAMS, fault))
            return True

        async def handle(_: HandlerRun) -> JsonObject:
            with clocks.paused():  # the limits measure waiting for the server
                return to_object(await function.call(params), revision)

        def explain(failure: Exception) -> McpError:
            if isinstance(failure, McpError):
                return failure
            _log.error("the handler of %r failed", method, exc_info=failure)
            return McpError(INTERNAL_ERROR, f"this client failed to answer {method!r}")

        pool.begin(exchange, handle, explain)
        return True

    def take_notification(self, method: str, params: JsonObject) -> bool:
        """Take a notification of the server's, if it has a handler here; synchronous."""
        if method not in self._notifications:
            return False
        if len(self._waiting) >= MAX_WAITING_NOTIFICATIONS:
            self._waiting.popleft()
            self.skipped += 1
        self._waiting.append((method, params))
        self._wakeup.unpark()
        return True

    def start(self, nursery: trio.Nursery) -> None:
        """Start the task that hands notifications on, if there are handlers for any."""
        if self._notifications:
            nursery.start_soon(self._deliver)

    async def _deliver(self) -> None:
        """Hand notifications to their handlers, one after the other, for ever. A failure costs one of them."""
        while True:
            while not self._waiting:
                await self._wakeup.park()
            method, params = self._waiting.popleft()
            function = self._notifications[method]
            try:
                await function.call(function.read(params))
            except StructureError as error:
                self._warnings += 1
                level = logging.WARNING if self._warnings <= MAX_WARNINGS else logging.DEBUG
                _log.log(level, "the params of notification %r do not fit: %s", method, "; ".join(error.faults))
            except Exception:  # noqa: BLE001 # it is the application's, and costs one notification
                _log.exception("the handler of notification %r failed", method)

    def resolver(self, method: str, kind: object) -> ResultResolver | None:
        """Return what makes a complete result of one of type *kind*; None where there is nothing that could."""
        is_open = method == "tools/call" or not is_specified(method)
        return self._resolvers.get(kind) if is_open and isinstance(kind, str) else None

    async def resolved(self, resolve: ResultResolver, method: str, json: JsonObject) -> JsonObject:
        """Return the complete result that *json* stands for.

        Raises:
            LocalProtocolError: *resolve* returned something else.
            Exception: whatever it raises.
        """
        assert self.client is not None
        complete: Any = await resolve(self.client, json)
        if not is_object(complete) or complete.get("resultType", "complete") != "complete":
            raise LocalProtocolError(f"what the extension made of the result of {method!r} is no complete result")
        return complete
