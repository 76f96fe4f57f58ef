"""What a handler is given: its request's facts, progress, log and state. A view of the run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import trio
from attrs import define

from .. import types
from .._errors import StructureError
from ..peer import Access, ExchangeContext, Run
from ..wire import LOG_LEVELS
from ._asking import ASKABLE, Asker
from ._context_asking import AskingContext
from ._context_own import OwnContext
from ._log_rate import LogRate
from ._progress import Progress
from ._replay import Past
from ._sealing import pin

if TYPE_CHECKING:
    from ._server import Server
    from ._serving import Serving

__all__ = ["Context", "finish", "pin_request", "run_of", "server_of"]


@define(eq=False, init=False)
class Context(AskingContext, OwnContext):
    """The request a handler works for. Any handler may ask for it by annotation, at any position.

    It belongs to its handler: keep it no longer than the handler runs. Several tasks of one handler may use it at once.
    """

    _run: Run
    _serving: Serving
    _past: Past | None
    """What it was told in earlier rounds, if it is replayed."""
    _pinned: bytes
    """What the states of its questions are bound to; see `pin_request`."""
    _made_asker: Asker | None
    """Made by the first question: most handlers ask none."""
    _progress: Progress | None
    """Made by the first report: most handlers make none."""
    _log_rate: LogRate | None
    """Made by the first log message: most handlers send none."""

    def __init__(self, run: Run, serving: Serving, past: Past | None = None) -> None:
        self._run = run
        self._serving = serving
        self._past = past
        self._pinned = b""
        self._made_asker = None
        self._progress = None
        self._log_rate = None

    @property
    def _asker(self) -> Asker:
        if self._made_asker is None:
            self._made_asker = Asker(self._serving, self._run, self._past or Past(), self._pinned)
        return self._made_asker

    @property
    def _facts(self) -> ExchangeContext:
        """The terms of the request that it works for now: after a question, those of the retry."""
        return self._run.context

    @property
    def state(self) -> Any:
        """What the server's lifespan yielded; None without a lifespan."""
        return self._serving.state

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
        """The name of who was authenticated, `Access.principal`; None where nobody was."""
        return self._facts.principal

    @property
    def access(self) -> Access | None:
        """Who was authenticated, and what they may do; None on transports that authenticate nobody, such as stdio.

        What was granted is in `Access.scopes`. What always needs some of it says so where it is registered
        (``@server.tool(scopes=...)``); what needs it for some arguments alone has to look here.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
        """
        return self._facts.access

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
        return trio.current_effective_deadline() if self._run.has_task else math.inf

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the client how far the work is; does nothing where it did not ask for progress.

        Progress must grow: a value that does not exceed the one before is not sent. Of more values than
        `Limits.max_progress_per_second` only the newest is sent, as soon as that may be and always before the result:
        report as often as you like. Always a cancel point; waits only when too much is queued for the client already.

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
        if self._progress is None:
            self._progress = Progress(self._run, self._serving.limits.max_progress_per_second)
        await self._progress.report(progress, total, message)

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
            self._log_rate = LogRate(self._serving.limits.max_logs_per_second)
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
        self._serving.server.changes.resource_updated(uri)

    async def close_stream(self, *, retry: float | None = None) -> None:
        """Let the client go, and come back for the answer: the connection ends, the request does not.

        For work that takes long, over HTTP: no connection is held open meanwhile. What the handler reports, asks and
        returns from now on is kept, and waits for the client. It comes back by itself, more than once if need be.

        Does nothing where that is not possible: on any other transport, without an event store
        (`SessionSettings.event_store`), and with a client of any revision but 2025-11-25: others would take the answer
        for lost. Always a cancel point.

        Args:
            retry: after how many seconds the client shall come back; None leaves it to `SessionSettings.retry_seconds`.

        Raises:
            ValueError: *retry* is below 0, or not finite.

        Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server
        """
        if retry is not None and not 0 <= retry < math.inf:
            raise ValueError(f"retry={retry!r}: must be a finite number of seconds, and not below 0")
        await trio.lowlevel.checkpoint()
        exchange = self._run.exchange
        if exchange is not None:
            exchange.detach(None if retry is None else round(retry * 1000))

    async def _make_room(self) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        exchange = self._run.exchange
        if exchange is not None and not exchange.has_room():
            await exchange.room()

    def _tell(self, method: str, params: dict[str, Any]) -> None:
        exchange = self._run.exchange
        if exchange is not None:
            exchange.notify(method, params)


def pin_request(context: Context) -> None:
    """Note what the request says, before somebody who may ask is given its arguments, and may change them."""
    exchange = context._run.exchange  # noqa: SLF001 # it is no part of what handlers see
    if exchange is not None and exchange.context.modern and exchange.method in ASKABLE and not context._pinned:  # noqa: SLF001
        context._pinned = pin(exchange)  # noqa: SLF001


def run_of(context: Context) -> Run:
    """Return the run that *context* is a view of."""
    return context._run  # noqa: SLF001 # it is no part of what handlers see


def server_of(context: Context) -> Server:
    """Return the server that *context* belongs to."""
    return context._serving.server  # noqa: SLF001 # likewise


def finish(context: Context) -> None:
    """The handler has ended: tell what it has reported and is held back."""
    progress = context._progress  # noqa: SLF001 # it is no part of what handlers see
    if progress is not None:
        progress.finish()
