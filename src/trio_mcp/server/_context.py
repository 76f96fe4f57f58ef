"""What a handler is given: its request's facts, progress, log and state. A view of the run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import trio
from attrs import define

from .. import types
from .._errors import StructureError
from ..peer import ExchangeContext, Limits, Run
from ..wire import LOG_LEVELS
from ._changes import ChangeSource
from ._log_rate import LogRate

__all__ = ["Context"]


@define(eq=False, init=False)
class Context:
    """The request a handler works for. Any handler may ask for it by annotation, at any position.

    It belongs to its handler: keep it no longer than the handler runs. Several tasks of one handler may use it at once.
    """

    _run: Run
    _state: Any
    _facts: ExchangeContext
    _reported: float
    _limits: Limits
    _log_rate: LogRate | None
    """Made by the first log message: most handlers send none."""
    _changes: ChangeSource

    def __init__(self, run: Run, facts: ExchangeContext, state: Any, limits: Limits, changes: ChangeSource) -> None:
        self._run = run
        self._facts = facts
        self._state = state
        self._reported = -math.inf
        self._limits = limits
        self._log_rate = None
        self._changes = changes

    @property
    def state(self) -> Any:
        """What the server's lifespan yielded; None without a lifespan."""
        return self._state

    @property
    def revision(self) -> str:
        """The protocol revision of this request, such as ``"2026-07-28"``."""
        return self._facts.revision

    @property
    def client_info(self) -> types.Implementation | None:
        """How the client names itself, None where it did not say. For display only: anyone can claim any name."""
        info = self._facts.peer_info
        if info is None:
            return None
        try:
            return types.structure(info, types.Implementation)
        except StructureError:  # it is for display only: what can be displayed is enough
            return types.Implementation(name=str(info.get("name")), version=str(info.get("version")))

    @property
    def client_capabilities(self) -> types.ClientCapabilities:
        """What the client declared for this request."""
        return types.structure(self._facts.capabilities, types.ClientCapabilities)

    @property
    def principal(self) -> str | None:
        """Who was authenticated; None on transports that authenticate nobody, such as stdio."""
        return self._facts.principal

    @property
    def meta(self) -> Mapping[str, Any]:
        """The request's `_meta`, as it came; empty where there was none."""
        return self._facts.meta

    @property
    def headers(self) -> Mapping[str, str]:
        """Header fields of the request, where the transport has any; empty otherwise."""
        return self._facts.headers

    @property
    def deadline(self) -> float:
        """When the handler is cancelled by a deadline it is under, on Trio's clock; `math.inf` without one."""
        return trio.current_effective_deadline()

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the client how far the work is; does nothing where it did not ask for progress.

        Progress must grow: a value that does not exceed the one before is not sent. Always a cancel point; waits only
        when too much is queued for the client already.

        Args:
            progress: how much is done, in a unit of your choice.
            total: how much there is to do, in the same unit; None where that is unknown.
            message: one line for a person.

        Raises:
            ValueError: *progress* or *total* is NaN or infinite.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress
        """
        if not math.isfinite(progress) or (total is not None and not math.isfinite(total)):
            raise ValueError(f"progress and total must be finite numbers, not {progress!r} and {total!r}")
        token = self._facts.progress_token
        if token is None:
            await trio.lowlevel.checkpoint_if_cancelled()
            return
        params: dict[str, Any] = {"progressToken": token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None and self.revision != types.REVISIONS[0]:  # the first one knows no message
            params["message"] = message
        await self._make_room()
        if progress > self._reported:
            self._reported = progress
            self._tell("notifications/progress", params)

    async def log(self, level: types.LoggingLevel, data: Any, *, logger: str | None = None) -> None:
        """Send the client a log message, if it wants messages of this level. Put no secret in it.

        Always a cancel point; waits only when too much is queued for the client already. A handler that logs more
        than `Limits.max_logs_per_second` loses what is too much; the next message that passes is preceded by one that
        says how much that was.

        Args:
            level: from ``"debug"`` to ``"emergency"``, as RFC 5424 names them.
            data: any JSON value: a text, or an object with details.
            logger: the name of what logs.

        Raises:
            ValueError: there is no such level.
            NotJsonError: *data* holds something that JSON cannot say.

        Specification: https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging
        """
        if level not in LOG_LEVELS:
            raise ValueError(f"{level!r} is no log level; they are {', '.join(LOG_LEVELS)}")
        wanted = self._facts.log_level
        if wanted is None or LOG_LEVELS.index(level) < LOG_LEVELS.index(wanted):
            await trio.lowlevel.checkpoint_if_cancelled()
            return
        params = {"level": level, "data": data} | ({} if logger is None else {"logger": logger})
        await self._make_room()
        if self._log_rate is None:
            self._log_rate = LogRate(self._limits.max_logs_per_second)
        lost = self._log_rate.admit(trio.current_time())
        if lost is None:
            return
        if lost:
            notice = f"{lost} log messages were dropped: more than {self._log_rate.per_second:g} in a second"
            self._tell("notifications/message", {"level": level, "logger": "trio_mcp", "data": notice})
        self._tell("notifications/message", params)

    def resource_updated(self, uri: str) -> None:
        """Tell every client that asked for it, not only this one, that a resource is not what it was.

        Never waits, works in plain `def` handlers as well, and costs next to nothing where nobody listens. A client
        that has not been told yet is told once, however often this is said. Outside of handlers there is
        `Server.resource_updated`.

        Args:
            uri: the resource's own URI, just as clients name it.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/resources#subscriptions
        """
        self._changes.resource_updated(uri)

    async def _make_room(self) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        exchange = self._run.exchange
        if exchange is not None and not exchange.has_room():
            await exchange.room()

    def _tell(self, method: str, params: dict[str, Any]) -> None:
        exchange = self._run.exchange
        if exchange is not None:
            exchange.notify(method, params)
