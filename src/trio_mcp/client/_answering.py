"""A client's answers: the requests a legacy server may make of it, each in a task of the client's own hall.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import trio
from attrs import define, field

from .. import types
from .._errors import McpError, StructureError
from ..peer import Exchange, Hall, Run
from ..wire import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, JsonObject
from ._callbacks import Callbacks
from ._timing import Stopwatch

__all__ = ["Answering"]

_log = logging.getLogger("trio_mcp.client")

MAX_WAITING_LOGS = 1024
"""Log messages that may wait for `on_log`; beyond it the oldest goes."""

MAX_COMPLAINTS = 10
"""Log messages that break the protocol about which ours says so; a server that goes on fills no log."""

Answer: TypeAlias = "Callable[[Answering, Any], Awaitable[Any]]"


@define(eq=False)
class Answering:
    """Answers what the server of one connection asks, and hands its log messages on."""

    _callbacks: Callbacks
    _stopwatch: Stopwatch
    hall: Hall
    skipped_logs: int = field(default=0, init=False)
    """Log messages that were dropped because `on_log` is too slow."""
    _unreadable_logs: int = field(default=0, init=False)
    _logs: deque[JsonObject] = field(factory=deque[JsonObject], init=False)
    _logged: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

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
        answer, revision = _ANSWERS[exchange.method], exchange.context.revision

        async def handle(_: Run) -> JsonObject:
            result: JsonObject = types.unstructure(await answer(self, params), revision=revision)
            return result

        def explain(failure: Exception) -> McpError:
            if isinstance(failure, McpError):
                return failure
            _log.error("the callback for %r failed", exchange.method, exc_info=failure)
            return McpError(INTERNAL_ERROR, f"this client failed to answer {exchange.method!r}")

        self.hall.begin(exchange, handle, explain)

    def _read_params(self, exchange: Exchange) -> Any:
        method, revision = exchange.method, exchange.context.revision
        row = types.METHODS[revision].get(method)
        if row is None or not self._answers(method):
            raise McpError(METHOD_NOT_FOUND, f"this client has declared nothing that answers {method!r}")
        try:
            params: Any = types.structure(exchange.params or {}, row.params, revision=revision)
        except StructureError as exc:
            raise McpError(INVALID_PARAMS, f"the params of {method!r} do not fit: {'; '.join(exc.faults)}") from None
        if isinstance(params, types.ElicitRequestURLParams):
            raise McpError(INVALID_PARAMS, "$.mode: this client has declared no elicitation by URL")
        with_tools = isinstance(params, types.CreateMessageRequestParams) and (
            params.tools is not None or params.tool_choice is not None  # an empty list is there, too
        )
        if with_tools:
            raise McpError(INVALID_PARAMS, "$.tools: this client has declared no sampling with tools")
        return params

    def _answers(self, method: str) -> bool:
        given = {
            "ping": True,
            "elicitation/create": self._callbacks.on_elicit is not None,
            "sampling/createMessage": self._callbacks.on_sample is not None,
            "roots/list": self._callbacks.roots is not None,
        }
        return given.get(method, False)

    async def elicit(self, params: Any) -> types.ElicitResult:
        """Ask the user; the clocks of the requests stand still meanwhile."""
        assert self._callbacks.on_elicit is not None
        with self._stopwatch.stopped():
            return await self._callbacks.on_elicit(params)

    async def sample(self, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        """Ask the model, with the user in the loop; the clocks of the requests stand still meanwhile."""
        assert self._callbacks.on_sample is not None
        with self._stopwatch.stopped():
            return await self._callbacks.on_sample(params)

    async def list_roots(self, _: Any) -> types.ListRootsResult:
        """Tell the roots."""
        return types.ListRootsResult(roots=await self._callbacks.listed_roots())

    def log(self, params: JsonObject) -> None:
        """Take a log message of the server; synchronous."""
        if self._callbacks.on_log is not None:
            if len(self._logs) >= MAX_WAITING_LOGS:
                self._logs.popleft()
                self.skipped_logs += 1
            self._logs.append(params)
            self._logged.unpark()

    async def deliver_logs(self, revision: str) -> None:
        """Hand log messages to `on_log`, one after the other, for ever. Its failure costs one message."""
        on_log = self._callbacks.on_log
        while on_log is not None:
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


_ANSWERS: Mapping[str, Answer] = {
    "elicitation/create": Answering.elicit,
    "sampling/createMessage": Answering.sample,
    "roots/list": Answering.list_roots,
}
