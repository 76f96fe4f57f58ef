"""A client's answers: the requests a legacy server may make of it, each in a task of the client's own hall.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation
"""

from __future__ import annotations

import logging
from collections import deque
from contextlib import nullcontext
from functools import partial
from typing import Any, TypeAlias, TypeVar

import trio
from attrs import define, evolve, field

from .. import types
from .._errors import ConsentRefused, ErrorResponse, LocalProtocolError, McpError, StructureError
from ..peer import HandlerPool, HandlerRun, IncomingRequest
from ..schema import SchemaError, compile_schema
from ..wire import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, JsonObject, sampling_content, sampling_faults
from ._callbacks import Callbacks, OnElicitComplete, OnLog, consented, undeclared_part
from ._request import RequestClocks

__all__ = ["VISIT_DONE", "Answering", "Replies", "VisitedPages", "fitted_answer"]


# Answers to a form of the server's, compared with what it asks for before they leave.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#requested-schema

_log = logging.getLogger("trio_mcp.client")


def fitted_answer(
    request: types.ElicitRequestFormParams | types.ElicitRequestURLParams,
    answer: types.ElicitResult,
    *,
    apply_defaults: bool,
) -> types.ElicitResult:
    """Return what may be sent of an answer: content leaves only with an accepted form, and only if it fits.

    Args:
        apply_defaults: take the form's defaults for the members that were left out.

    Raises:
        LocalProtocolError: the content does not fit the form; every fault is named.
    """
    if answer.action != "accept" or isinstance(request, types.ElicitRequestURLParams):
        return evolve(answer, content=None)
    form: JsonObject = types.unstructure(request.requested_schema)
    content: JsonObject = dict(answer.content or {})
    if apply_defaults:
        content = _defaults(form) | content
    faults = _faults(form, content)
    if faults:
        raise LocalProtocolError(f"on_elicit accepted a form with what does not fit it: {'; '.join(faults)}")
    return answer if content == (answer.content or {}) else evolve(answer, content=content)


def _defaults(form: JsonObject) -> JsonObject:
    """Return the defaults that fit the members they are for; for the others the server is to blame, not the answer."""
    members: dict[str, JsonObject] = form["properties"]
    proposed = {name: schema["default"] for name, schema in members.items() if "default" in schema}
    return {name: value for name, value in proposed.items() if not _faults(members[name], value)}


def _faults(schema: JsonObject, value: Any) -> list[str]:
    try:
        return compile_schema(schema).faults(value)
    except SchemaError as error:
        _log.warning("answers to a form cannot be checked: %s", error)  # the server has to check them by itself
        return []


# What a question of the server is replied, whichever way it came: checks, consent, the callback, and checks again.

Question: TypeAlias = (
    "types.CreateMessageRequestParams | types.ElicitRequestParams | types.ListRootsRequestParams | None"
)
"""The params of a question; of those for roots there may be none."""
Reply: TypeAlias = "types.CreateMessageResult | types.ElicitResult | types.ListRootsResult"

R = TypeVar("R", "types.CreateMessageResult", "types.ElicitResult")


@define(eq=False)
class Replies:
    """The application's replies to the questions of one server."""

    callbacks: Callbacks
    _declared: types.ClientCapabilities = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._declared = self.callbacks.capabilities()

    def check(self, method: str, question: Question) -> None:
        """Refuse a question that breaks the rules, before anybody is asked.

        Raises:
            McpError: the refusal; its message names what was not declared, or every fault with its path.
        """
        for params, code in ((None, METHOD_NOT_FOUND), (question, INVALID_PARAMS)):
            missing = undeclared_part(self._declared, method, params)
            if missing is not None:
                raise McpError(code, f"{method!r}: this client has not declared {missing!r}")
        if isinstance(question, types.CreateMessageRequestParams):
            faults = [*sampling_faults(types.unstructure(question.messages))]
            if faults:
                raise McpError(INVALID_PARAMS, f"{method!r}: {'; '.join(faults)}")

    async def ask(self, question: Question) -> Reply:
        """Ask the application a question that has passed `check`.

        Raises:
            ConsentRefused: there is no consent to ask its model; its user is not asked either, and has declined.
            Exception: whatever the callback or the consent hook raises.
        """
        match question:
            case types.ElicitRequestFormParams() | types.ElicitRequestURLParams():
                return await self._elicit(question)
            case types.CreateMessageRequestParams():
                assert self.callbacks.on_sample is not None
                allowed = await consented(self.callbacks.consent, question)
                reply = await self.callbacks.on_sample(allowed)
                return _of_class(types.CreateMessageResult, "on_sample", reply)
            case _:
                return types.ListRootsResult(roots=await self.callbacks.listed_roots())

    async def _elicit(
        self, question: types.ElicitRequestFormParams | types.ElicitRequestURLParams
    ) -> types.ElicitResult:
        assert self.callbacks.on_elicit is not None
        try:
            allowed = await consented(self.callbacks.consent, question)
        except ConsentRefused:
            return types.ElicitResult(action="decline")
        reply = await self.callbacks.on_elicit(allowed)
        return _of_class(types.ElicitResult, "on_elicit", reply)

    def resolve(self, question: Question, reply: Reply, revision: str) -> JsonObject:
        """Return a reply as it may leave.

        Raises:
            LocalProtocolError: it does not fit the question as the server has asked it, or the revision.
        """
        if isinstance(reply, types.ElicitResult):
            assert isinstance(question, types.ElicitRequestFormParams | types.ElicitRequestURLParams)
            reply = fitted_answer(question, reply, apply_defaults=self.callbacks.apply_form_defaults)
        elif isinstance(reply, types.CreateMessageResult):
            try:
                reply = evolve(reply, content=sampling_content(reply.content, revision))
            except ValueError as fault:
                raise LocalProtocolError(f"on_sample returned {fault}") from None
        json: JsonObject = types.unstructure(reply, revision=revision)
        return json


def _of_class(expected: type[R], callback: str, reply: object) -> R:
    if not isinstance(reply, expected):
        raise TypeError(f"{callback} returned {reply!r:.200}: expected types.{expected.__name__}")
    return reply


# Pages that a server of 2025-11-25 has asked the user to visit: it tells when the user is done with one.
#
# Rules of this file:
#
# 1. Only pages that this connection was told of can be done with, once each; whatever else is told is ignored.
# 2. What is remembered is bounded: of more pages than that, the oldest are forgotten.
#
# Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#completion-notifications-
# for-url-mode-elicitation

VISIT_DONE = "notifications/elicitation/complete"

MAX_VISITS = 1024
"""Pages whose end is waited for."""

_REVISION = "2025-11-25"
_VISITS_REQUIRED = -32042


@define(eq=False)
class VisitedPages:
    """The pages that one connection's user was asked to visit."""

    _on_complete: OnElicitComplete | None
    _open: dict[str, None] = field(factory=dict[str, None], init=False)
    """A set in order."""
    _done: deque[types.ElicitationCompleteNotificationParams] = field(
        factory=partial(deque["types.ElicitationCompleteNotificationParams"], maxlen=MAX_VISITS), init=False
    )
    _told: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def asked(self, request: Any) -> None:
        """Remember a question that names a page; others are nothing to remember."""
        if isinstance(request, types.ElicitRequestURLParams) and request.elicitation_id is not None:
            self._open[request.elicitation_id] = None
            if len(self._open) > MAX_VISITS:
                del self._open[next(iter(self._open))]

    def required(self, error: ErrorResponse) -> None:
        """Remember the pages that an error names as to be visited first."""
        if error.code == _VISITS_REQUIRED:
            try:
                data = types.structure(error.data, types.URLElicitationRequiredErrorData, revision=_REVISION)
            except StructureError as fault:
                _log.warning("an error %s of the server names no pages: %s", error.code, fault)
                return
            for each in data.elicitations:
                self.asked(each)

    def done(self, params: JsonObject) -> None:
        """Take the notice that the user is done with a page; synchronous."""
        identifier = params.get("elicitationId")
        if type(identifier) is str and identifier in self._open:
            del self._open[identifier]
            self._done.append(types.structure(params, types.ElicitationCompleteNotificationParams, revision=_REVISION))
            self._told.unpark()

    def start(self, nursery: trio.Nursery) -> None:
        """Start the task that hands the notices on, if the application wants to hear of them."""
        if self._on_complete is not None:
            nursery.start_soon(self._deliver, self._on_complete)

    async def _deliver(self, on_complete: OnElicitComplete) -> None:
        """Hand the notices to `on_elicit_complete`, one after the other, for ever. Its failure costs one of them."""
        while True:
            while not self._done:
                await self._told.park()
            try:
                await on_complete(self._done.popleft())
            except Exception:  # noqa: BLE001 # it is the application's, and costs one notice
                _log.exception("on_elicit_complete failed")


MAX_WAITING_LOGS = 1024
"""Log messages that may wait for `on_log`; beyond it the oldest goes."""

MAX_COMPLAINTS = 10
"""Log messages that break the protocol about which ours says so; a server that goes on fills no log."""

REFUSED_BY_USER = -1
"""Answers a request to the model that there was no consent for."""


@define(eq=False)
class Answering:
    """Answers what the server of one connection asks, and hands its log messages on."""

    _callbacks: Callbacks
    _stopwatch: RequestClocks
    pool: HandlerPool
    replies: Replies = field(init=False)
    visits: VisitedPages = field(init=False)
    skipped_logs: int = field(default=0, init=False)
    """Log messages that were dropped because `on_log` is too slow."""
    _unreadable_logs: int = field(default=0, init=False)
    _logs: deque[JsonObject] = field(factory=deque[JsonObject], init=False)
    _logged: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def __attrs_post_init__(self) -> None:
        self.replies = Replies(self._callbacks)
        self.visits = VisitedPages(self._callbacks.on_elicit_complete)

    @property
    def hears(self) -> bool:
        """Whether there is anything to answer, or to hand on."""
        return self._callbacks.hears

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
        self.visits.asked(params)

        async def handle(_: HandlerRun) -> JsonObject:
            with nullcontext() if exchange.method == "roots/list" else self._stopwatch.stopped():
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
            self._logged.unpark()

    def start(self, nursery: trio.Nursery, revision: str) -> None:
        """Start the tasks that hand on what the application wants to hear, if it does."""
        if self._callbacks.on_log is not None:
            nursery.start_soon(self._deliver_logs, self._callbacks.on_log, revision)
        self.visits.start(nursery)

    async def _deliver_logs(self, on_log: OnLog, revision: str) -> None:
        """Hand log messages to `on_log`, one after the other, for ever. Its failure costs one message."""
        while True:
            while not self._logs:
                await self._logged.park()
            try:
                await on_log(
                    types.structure(self._logs.popleft(), types.LoggingMessageNotificationParams, revision=revision)
                )
            except StructureError as exc:
                self._unreadable_logs += 1
                level = logging.WARNING if self._unreadable_logs <= MAX_COMPLAINTS else logging.DEBUG
                _log.log(level, "a log message of the server does not fit: %s", exc)
            except Exception:  # noqa: BLE001 # it is the application's, and costs one message
                _log.exception("on_log failed")
