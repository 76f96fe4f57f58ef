"""A client's answers: the requests a legacy server may make of it, each in a task of the client's own hall.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation
"""

from __future__ import annotations

import logging
from collections import deque
from contextlib import nullcontext
from typing import Any

import trio
from attrs import define, field

from .. import types
from .._errors import ConsentRefused, LocalProtocolError, McpError, StructureError
from ..peer import Exchange, Hall, Run
from ..wire import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, JsonObject
from ._callbacks import Callbacks, OnLog
from ._replies import Replies
from ._timing import Stopwatch
from ._visits import Visits

__all__ = ["Answering"]

_log = logging.getLogger("trio_mcp.client")

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
    _stopwatch: Stopwatch
    hall: Hall
    replies: Replies = field(init=False)
    visits: Visits = field(init=False)
    skipped_logs: int = field(default=0, init=False)
    """Log messages that were dropped because `on_log` is too slow."""
    _unreadable_logs: int = field(default=0, init=False)
    _logs: deque[JsonObject] = field(factory=deque[JsonObject], init=False)
    _logged: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def __attrs_post_init__(self) -> None:
        self.replies = Replies(self._callbacks)
        self.visits = Visits(self._callbacks.on_elicit_complete)

    @property
    def hears(self) -> bool:
        """Whether there is anything to answer, or to hand on."""
        return self._callbacks.hears

    def answer(self, exchange: Exchange) -> None:
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

        async def handle(_: Run) -> JsonObject:
            with nullcontext() if exchange.method == "roots/list" else self._stopwatch.stopped():
                reply = await self.replies.ask(params)
            try:
                return self.replies.settle(params, reply, revision)
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

        self.hall.begin(exchange, handle, explain)

    def _read_params(self, exchange: Exchange) -> Any:
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
