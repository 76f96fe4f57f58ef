"""Answers to a server: to the requests of a legacy one, to the questions in a modern result, and to custom messages.

Rules of this file:

1. A legacy server may report that the user has finished with a page. Only pages that this connection has received
   count, once each; other reports are ignored.
2. The number of remembered pages, log messages and notifications is bounded. Beyond the bound the oldest is dropped.
3. All questions of a modern round are answered before the request is sent again. If one fails, nothing is sent again.
4. A retry has the params of the first request and, of the latest round only, the answers and the unchanged state.
5. The number of rounds is bounded. If a server asks no question, the client waits before the retry, longer each time.
6. A cancelled round loses nothing: the next task that waits continues where it stopped.
7. A failing callback fails the one request that it answers, whatever it raises. An exception that is not an
   `Exception`, such as `SystemExit`, is for the program: it is also raised, unchanged, in the task that waits for a
   request of this client, if there is exactly one. With several, it is unknown which of them the callback works for.
8. A callback for notifications may run for `Limits.notification_seconds`; then it is cancelled, and the log names it.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation,
https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr,
https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#extension-negotiation
"""

from __future__ import annotations

import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, Protocol, TypeAlias

import trio
from attrs import define, evolve, field, frozen

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
from .._misuse import called_back
from .._user_types import TypedFunction, to_object
from .._util import exc_info_of, has_cancelled, run_all, succeeds
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
    "ResolvedType",
    "ResultInProgress",
    "Rounds",
    "VisitedPages",
    "answers_to",
    "checked_complete",
    "read_interim",
]

_log = logging.getLogger("trio_mcp.client")


ELICITATION_COMPLETE = "notifications/elicitation/complete"

MAX_OPEN_PAGES = 1024
"""The number of pages whose completion is awaited."""

_REVISION = "2025-11-25"
_URL_ELICITATION_REQUIRED = -32042


async def _call_limited(call: Callable[[], Awaitable[object]], callback: str, seconds: float) -> None:
    """Call a callback for notifications. A failure is logged; after *seconds* it is cancelled, and the log names it.

    The notifications are delivered one by one, so a call that never returns would keep all later ones waiting.
    """

    async def limited() -> None:
        with trio.move_on_after(seconds) as scope:
            await called_back(callback, call)
        if scope.cancelled_caught:
            message = "%s was cancelled: it did not return within %g s (Limits.notification_seconds)"
            _log.warning(message, callback, seconds)

    await succeeds(limited, callback, _log)


@define(eq=False)
class VisitedPages:
    """The pages that a server of 2025-11-25 has asked the user of one connection to visit."""

    _on_complete: OnElicitComplete | None
    _pending: dict[str, None] = field(factory=dict[str, None], init=False)
    """An ordered set."""
    _completed: deque[types.ElicitationCompleteNotificationParams] = field(
        factory=partial(deque["types.ElicitationCompleteNotificationParams"], maxlen=MAX_OPEN_PAGES), init=False
    )
    _wakeup: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def add(self, request: Any) -> None:
        """Remember the page of a question; other questions are ignored."""
        if isinstance(request, types.ElicitRequestURLParams) and request.elicitation_id is not None:
            self._pending[request.elicitation_id] = None
            if len(self._pending) > MAX_OPEN_PAGES:
                del self._pending[next(iter(self._pending))]

    def add_required(self, error: ErrorResponse) -> None:
        """Remember the pages that must be visited first, according to an error."""
        if error.code == _URL_ELICITATION_REQUIRED:
            try:
                data = types.structure(error.data, types.URLElicitationRequiredErrorData, revision=_REVISION)
            except StructureError as fault:
                _log.warning("error %s of the server lists no valid pages: %s", error.code, fault)
                return
            for each in data.elicitations:
                self.add(each)

    def completed(self, params: JsonObject) -> None:
        """Take the notification that the user has finished with a page. Synchronous."""
        identifier = params.get("elicitationId")
        if type(identifier) is str and identifier in self._pending:
            del self._pending[identifier]
            self._completed.append(
                types.structure(params, types.ElicitationCompleteNotificationParams, revision=_REVISION)
            )
            self._wakeup.unpark()

    def start(self, nursery: trio.Nursery, seconds: float) -> None:
        """Start the task that delivers the notifications, if the application has a callback for them."""
        if self._on_complete is not None:
            nursery.start_soon(self._deliver, self._on_complete, seconds)

    async def _deliver(self, on_complete: OnElicitComplete, seconds: float) -> None:
        """Pass the notifications to `on_elicit_complete` one by one, for ever. A failure affects one notification."""
        while True:
            while not self._completed:
                await self._wakeup.park()
            await _call_limited(partial(on_complete, self._completed.popleft()), "on_elicit_complete", seconds)


MAX_WAITING_LOGS = 1024
"""The number of log messages that may wait for `on_log`; beyond it the oldest is dropped."""

MAX_WARNINGS = 10
"""The number of invalid messages of one kind that are logged as warnings; later ones are logged at debug level."""

REFUSED_BY_USER = -1
"""The code of the error that answers a request to the model without consent."""


@contextmanager
def _shared_with_caller(clocks: RequestClocks) -> Generator[None]:
    """Raise an exception of a callback that is not an `Exception` in the caller of this client, too (rule 7)."""
    try:
        yield
    except Exception:
        raise
    except BaseException as exc:
        if not has_cancelled(exc):
            clocks.interrupt_only(exc)
        raise


@define(eq=False)
class Answering:
    """The answers to the requests of one connection's server, and the delivery of its log messages."""

    _callbacks: Callbacks
    _clocks: RequestClocks
    pool: HandlerPool
    replies: Replies = field(init=False)
    pages: VisitedPages = field(init=False)
    skipped_logs: int = field(default=0, init=False)
    """The number of log messages that were dropped because `on_log` is too slow."""
    _unreadable_logs: int = field(default=0, init=False)
    _logs: deque[JsonObject] = field(factory=deque[JsonObject], init=False)
    _log_wakeup: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _is_logging: bool = field(default=False, init=False)
    """True while a log message is delivered."""
    _logs_delivered: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _after_logs: deque[Callable[[], None]] = field(factory=deque["Callable[[], None]"], init=False)

    def __attrs_post_init__(self) -> None:
        self.replies = Replies(self._callbacks)
        self.pages = VisitedPages(self._callbacks.on_elicit_complete)

    @property
    def wants_messages(self) -> bool:
        """True if a callback receives messages that the server sends outside of requests."""
        return self._callbacks.wants_messages

    @property
    def receives_logs(self) -> bool:
        """True if a callback receives the log messages of the server."""
        return self._callbacks.on_log is not None

    def answer(self, exchange: IncomingRequest) -> None:
        """Begin to answer a request. Synchronous."""
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
            is_quick = exchange.method == "roots/list"
            with _shared_with_caller(self._clocks), nullcontext() if is_quick else self._clocks.paused():
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
            _log.error("the callback for %r failed", exchange.method, exc_info=exc_info_of(failure))
            return McpError(INTERNAL_ERROR, f"this client failed to answer {exchange.method!r}")

        self.pool.begin(exchange, handle, explain)

    def _read_params(self, exchange: IncomingRequest) -> Any:
        method, revision = exchange.method, exchange.context.revision
        row = types.METHODS[revision].get(method)
        if row is None or row.direction == "client":
            raise McpError(METHOD_NOT_FOUND, f"a client does not answer {method!r} in revision {revision}")
        if method != "ping":
            self.replies.check(
                method, None
            )  # before the params: an undeclared method is refused before its params are read
        try:
            params: Any = types.structure(exchange.params or {}, row.params, revision=revision)
        except StructureError as exc:
            raise McpError(INVALID_PARAMS, f"the params of {method!r} do not fit: {'; '.join(exc.faults)}") from None
        if method != "ping":
            self.replies.check(method, params)
        return params

    def log(self, params: JsonObject) -> None:
        """Take a log message of the server. Synchronous."""
        if self._callbacks.on_log is not None:
            if len(self._logs) >= MAX_WAITING_LOGS:
                self._logs.popleft()
                self.skipped_logs += 1
            self._logs.append(params)
            self._log_wakeup.unpark()

    def start(self, nursery: trio.Nursery, revision: str) -> None:
        """Start the tasks that deliver messages to the application's callbacks."""
        seconds = self.pool.limits.notification_seconds
        if self._callbacks.on_log is not None:
            nursery.start_soon(self._deliver_logs, self._callbacks.on_log, revision, seconds)
        self.pages.start(nursery, seconds)

    @property
    def has_logs(self) -> bool:
        """True if log messages have arrived that were not delivered yet."""
        return bool(self._logs) or self._is_logging

    def after_logs(self, callback: Callable[[], None]) -> None:
        """Call a function when the log messages that have arrived were delivered, or cannot be delivered any more."""
        if self.has_logs:
            self._after_logs.append(callback)
        else:
            callback()

    async def logs_delivered(self) -> None:
        """Wait until the log messages that have arrived were delivered."""
        while self.has_logs:
            await self._logs_delivered.park()

    async def _deliver_logs(self, on_log: OnLog, revision: str, seconds: float) -> None:
        """Pass log messages to `on_log` one by one, for ever. A failure affects one message."""
        try:
            while True:
                if not self._logs:
                    self._note_delivered()
                while not self._logs:
                    await self._log_wakeup.park()
                self._is_logging = True
                await self._deliver_log(self._logs.popleft(), on_log, revision, seconds)
        finally:
            self._logs.clear()
            self._note_delivered()

    def _note_delivered(self) -> None:
        """Let everybody go on who waits until the log messages were delivered."""
        self._is_logging = False
        self._logs_delivered.unpark_all()
        while self._after_logs:
            self._after_logs.popleft()()

    async def _deliver_log(self, params: JsonObject, on_log: OnLog, revision: str, seconds: float) -> None:
        try:
            message = types.structure(params, types.LoggingMessageNotificationParams, revision=revision)
        except StructureError as exc:
            self._unreadable_logs += 1
            level = logging.WARNING if self._unreadable_logs <= MAX_WARNINGS else logging.DEBUG
            _log.log(level, "a log message of the server does not fit: %s", exc)
        else:
            await _call_limited(partial(on_log, message), "on_log", seconds)


# --- Questions in the results of modern servers ---

ANSWERS, STATE = "inputResponses", "requestState"

FIRST_PAUSE = 0.1
"""The seconds before a request is sent again to a server that asks no question; doubled up to `LONGEST_PAUSE`."""
LONGEST_PAUSE = 5.0


@define(eq=False)
class Rounds:
    """The rounds of questions of one request. One task at a time goes through them."""

    _method: str
    _params: JsonObject | None
    """The params of the first request."""
    _revision: str
    _limits: Limits
    _replies: Replies
    _while_connected: Callable[[], AbstractContextManager[None]]
    """Returns a block that is cancelled when the connection is lost."""
    _count: int = field(default=0, init=False)
    _pauses: int = field(default=0, init=False)
    """The number of rounds in a row without a question."""
    _paused_until: float | None = field(default=None, init=False)
    """The time at which the request is sent again, on Trio's clock; None if there is no pause."""
    _is_in_round: bool = field(default=False, init=False)
    """True while a round is in progress, or if its task was cancelled."""
    _retry: JsonObject | None = field(default=None, init=False)
    """The params of a retry that is ready and not sent."""

    async def retry(self, outcome: JsonObject) -> JsonObject:
        """Return the params of the retry that answers a round; `sent` must follow.

        Raises:
            RemoteProtocolError: a question of the server breaks the protocol, or exceeds `Limits.max_rounds`.
            ConnectionLost: the connection is gone.
            Exception: any exception of a callback.
        """
        if not self._is_in_round:
            self._is_in_round = True
            self._count += 1
        if self._retry is None:
            with self._while_connected():
                self._retry = await self._prepared(outcome)
        return self._retry

    def sent(self) -> None:
        """Note that the retry was sent: the next outcome begins a new round."""
        self._is_in_round, self._retry, self._paused_until = False, None, None

    async def _prepared(self, outcome: JsonObject) -> JsonObject:
        """Return the params of the retry, with all answers."""
        interim = read_interim(outcome, self._method, self._revision)
        limit = self._limits.max_rounds
        if self._count > limit:
            raise RemoteProtocolError(f"{self._method!r}: the server has asked {limit} times (Limits.max_rounds)")
        retry = {name: value for name, value in (self._params or {}).items() if name not in {ANSWERS, STATE}}
        if interim.input_requests is not None:
            retry[ANSWERS] = await answers_to(
                interim.input_requests, self._method, self._replies, self._revision, self._limits
            )
        await self._pause(is_needed=not interim.input_requests)
        if interim.request_state is not None:
            retry[STATE] = interim.request_state
        return retry

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


async def answers_to(
    questions: Mapping[str, types.InputRequest], method: str, replies: Replies, revision: str, limits: Limits
) -> JsonObject:
    """Ask the application all questions at once. The first failure cancels the others and is raised unwrapped.

    Args:
        method: the method of the request whose result asks, for errors.

    Raises:
        RemoteProtocolError: a question cannot be answered; then none is asked.
        Exception: any exception of a callback.
    """
    for key, question in questions.items():
        try:
            replies.check(question.method, question.params)
        except McpError as refusal:
            message = f"{method!r} asks {key!r}, which cannot be answered: {refusal.message}"
            raise RemoteProtocolError(message) from None
    answers: dict[str, Any] = dict.fromkeys(questions)

    async def answer(key: str) -> None:
        params = questions[key].params
        answers[key] = replies.resolve(params, await replies.ask(params), revision)

    await run_all([partial(answer, key) for key in questions], at_once=limits.max_in_flight, log=_log)
    return answers


def read_interim(outcome: JsonObject, method: str, revision: str) -> types.InputRequiredResult:
    """Return the round of questions in a result.

    Raises:
        RemoteProtocolError: the result is not a valid round.
    """
    try:
        interim = types.structure(outcome, types.InputRequiredResult, revision=revision)
    except StructureError as exc:
        raise RemoteProtocolError(f"the questions of {method!r} do not fit: {'; '.join(exc.faults)}") from exc
    if interim.input_requests is None and interim.request_state is None:
        raise RemoteProtocolError(f"{method!r} asks for input, with neither 'inputRequests' nor 'requestState'")
    return interim


MAX_WAITING_NOTIFICATIONS = 1024
"""The number of notifications that may wait for their handlers; beyond it the oldest is dropped."""


class ResultInProgress(Protocol):
    """The way from a result of an extension's type to the complete result, with updates in between.

    One task at a time uses it. When that task is cancelled, `aclose` is awaited.
    """

    async def next_update(self) -> types.ProgressNotificationParams | None:
        """Wait for the next update of the call; None when the complete result is there, or an error."""
        ...

    async def result(self) -> JsonObject:
        """Wait for the complete result, and return its JSON. Updates that were not read are dropped."""
        ...

    async def aclose(self) -> None:
        """End it; if the result is not there yet, the call was left. It is shielded, and must take a bounded time."""
        ...


ResultResolver: TypeAlias = Callable[[Any, JsonObject], Awaitable[JsonObject] | ResultInProgress]
"""A `Resolve` for a client of any type."""


@define(eq=False)
class CustomMessages:
    """The custom methods, notifications and extensions of one client's application."""

    extensions: Mapping[str, Mapping[str, Any]]
    """The client's settings by extension."""
    _experimental: Mapping[str, JsonObject]
    _methods: Mapping[str, TypedFunction]
    _notifications: Mapping[str, TypedFunction]
    _resolvers: Mapping[str, ResolvedType]
    """The resolvers by result type."""
    client: Any = field(default=None, init=False)
    """The client of the application; set before the first request."""
    on_other_notification: Callable[[str, JsonObject], None] | None = field(default=None, init=False)
    """Called with each custom notification that has no handler; see `ClientExtensionPoints`."""
    skipped: int = field(default=0, init=False)
    """The number of notifications that were dropped because their handlers are too slow."""
    _waiting: deque[tuple[str, JsonObject]] = field(factory=deque[tuple[str, JsonObject]], init=False)
    _wakeup: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _warnings: int = field(default=0, init=False)

    def declared_with(self, capabilities: types.ClientCapabilities) -> types.ClientCapabilities:
        """Return the capabilities that the client declares: *capabilities* and the custom ones."""
        settings = {id: dict(each) for id, each in self.extensions.items()}
        return with_plain_extensions(
            evolve(capabilities, experimental=self._experimental or None, extensions=settings or None)
        )

    @property
    def wants_messages(self) -> bool:
        """True if there are handlers for messages that a server sends outside of requests."""
        return bool(self._methods or self._notifications)

    def answer(self, exchange: IncomingRequest, pool: HandlerPool, clocks: RequestClocks) -> bool:
        """Begin to answer a custom request of the server; return False if there is no handler for it. Synchronous."""
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
            with _shared_with_caller(clocks), clocks.paused():  # the limits measure the time of the server
                return to_object(await function.call(params), revision)

        def explain(failure: Exception) -> McpError:
            if isinstance(failure, McpError):
                return failure
            _log.error("the handler of %r failed", method, exc_info=exc_info_of(failure))
            return McpError(INTERNAL_ERROR, f"this client failed to answer {method!r}")

        pool.begin(exchange, handle, explain)
        return True

    def take_notification(self, method: str, params: JsonObject) -> None:
        """Take a notification of the server, if there is a handler for it. Synchronous."""
        if method not in self._notifications:
            if self.on_other_notification is not None and not is_specified(method):
                self.on_other_notification(method, params)
            return
        if len(self._waiting) >= MAX_WAITING_NOTIFICATIONS:
            self._waiting.popleft()
            self.skipped += 1
        self._waiting.append((method, params))
        self._wakeup.unpark()

    def start(self, nursery: trio.Nursery, seconds: float) -> None:
        """Start the task that delivers notifications, if there are handlers; each may run for *seconds*."""
        if self._notifications:
            nursery.start_soon(self._deliver, seconds)

    async def _deliver(self, seconds: float) -> None:
        """Pass notifications to their handlers one by one, for ever. A failure affects one notification."""
        while True:
            while not self._waiting:
                await self._wakeup.park()
            method, params = self._waiting.popleft()
            function = self._notifications[method]
            try:
                typed = function.read(params)
            except StructureError as error:
                self._warnings += 1
                level = logging.WARNING if self._warnings <= MAX_WARNINGS else logging.DEBUG
                _log.log(level, "the params of notification %r do not fit: %s", method, "; ".join(error.faults))
            else:
                await _call_limited(partial(function.call, typed), f"the handler of notification {method!r}", seconds)

    def resolver(self, method: str, kind: object) -> ResultResolver | None:
        """Return the function that completes a result of type *kind*; None if there is none."""
        found = self._resolvers.get(kind) if isinstance(kind, str) else None
        return found.resolve if found is not None and found.is_for(method) else None

    def begin_to_resolve(self, resolve: ResultResolver, json: JsonObject) -> ResultInProgress:
        """Return the way from *json* to the complete result."""
        assert self.client is not None
        way: Any = resolve(self.client, json)
        return way if hasattr(way, "next_update") else _WithoutUpdates(way)


@frozen
class ResolvedType:
    """A result type of an extension: the function that completes a result, and the methods that may have one."""

    resolve: ResultResolver
    methods: Collection[str] | None
    """None stands for calls of tools and every method that the specification does not have."""

    def is_for(self, method: str) -> bool:
        """Return True if a result of *method* may have this type."""
        if self.methods is not None:
            return method in self.methods
        return method == "tools/call" or not is_specified(method)


@define(eq=False)
class _WithoutUpdates:
    """A `ResultInProgress` of a function that only returns the result."""

    _result: Awaitable[JsonObject]

    async def next_update(self) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()

    async def result(self) -> JsonObject:
        return await self._result

    async def aclose(self) -> None:
        close = getattr(self._result, "close", None)  # a coroutine that was not awaited would be reported
        if close is not None:
            close()


def checked_complete(complete: Any, method: str) -> JsonObject:
    """Return the result that an extension has made; raise LocalProtocolError if it is not a complete result."""
    if not is_object(complete) or complete.get("resultType", "complete") != "complete":
        raise LocalProtocolError(f"the extension returned an incomplete result for {method!r}")
    return complete
