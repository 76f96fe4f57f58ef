"""The context of a handler: the facts of its request, and the ways to report, log and ask while it works.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from operator import attrgetter
from typing import Any, Protocol, TypeVar, cast, overload

import trio
from attrs import define

from .. import types
from .._errors import LocalProtocolError, MissingCapability, RemoteProtocolError, StructureError
from .._extensions import extensions_in, is_specified, missing_extension
from .._user_types import Reader, reader_of, to_object
from ..peer import Access, HandlerRun, IncomingRequest, Limits
from ..wire import LOG_LEVELS, JsonObject
from ._processes import Processes
from ._progress import LogRate, Progress
from ._threads import Threads
from .asking import (
    Accepted,
    Ask,
    Asker,
    AskingServing,
    Declined,
    Dismissed,
    Elicit,
    ListRoots,
    PastRounds,
    Sample,
    Visit,
    url_elicitation_required,
)

__all__ = ["Context", "HandlerServing", "progress_of", "run_of", "serving_of"]

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")


class HandlerServing(AskingServing, Protocol):
    """The part of a serving that contexts and handlers use."""

    @property
    def state(self) -> Any:
        """The value that the server's lifespan yielded."""
        ...

    @property
    def limits(self) -> Limits:
        """The limits of each connection."""
        ...

    @property
    def extensions(self) -> Mapping[str, JsonObject]:
        """The settings of each extension that the server declares, by id."""
        ...

    @property
    def threads(self) -> Threads:
        """The worker threads of plain `def` handlers."""
        ...

    @property
    def processes(self) -> Processes:
        """The worker processes of isolated tools."""
        ...

    def resource_updated(self, uri: str) -> None:
        """Notify every client that subscribed to a resource; never waits, and may be called from any thread."""
        ...

    def has_method(self, name: str) -> bool:
        """Return True if the application has registered a method of this name."""
        ...

    def has_tool(self, name: str) -> bool:
        """Return True if a tool of this name is registered."""
        ...


@define(eq=False, init=False)
class Context:
    """The request that a handler works for. Any handler may take it as a parameter, by annotation, at any position.

    A context belongs to its handler: do not keep it after the handler has returned. Several tasks of one handler may
    use it at the same time. It is a view of the handler run: after a question was answered in a retry, the facts and
    reports are those of the retry.

    Questions (`elicit`, `sample`, `list_roots`, `ask_all`) work the same in all revisions. The handler waits at the
    question. A client of 2025-11-25 or earlier receives a request. A client of 2026-07-28 receives the question as the
    result of its call, and calls again with the answer; meanwhile the handler is parked and then continues, exactly
    once. With ``Server(asking="replayed")`` the handler is cancelled instead, and runs again from its first line;
    questions that were answered then return at once.

    While a question is open, the tool's `timeout=` is paused and its place under `max_concurrency=` is free. Deadlines
    that the handler sets itself keep running; if one of them ends the question, the handler continues without that
    place. A plain `def` handler asks with ``trio.from_thread.run(ctx.elicit, ...)``; it keeps its thread, and a test's
    autojump clock does not jump meanwhile.

    Every question may raise `MissingCapability` (the client or its revision does not support the question, and nothing
    was sent), `AskExpired` (no answer within `Limits.ask_seconds`, or the server stops), `TooManyParked`,
    `ErrorResponse` (the client refused), `RemoteProtocolError` (the answer is not valid) and `ConnectionLost`.
    """

    _run: HandlerRun
    _serving: HandlerServing
    _past: PastRounds | None
    """The answers of earlier rounds, for a handler that is replayed."""
    _pinned: bytes
    """The request that the states of its questions are bound to; see `asking.pin`."""
    _made_asker: Asker | None
    """Made by the first question, because most handlers ask none."""
    _progress: Progress | None
    """Made by the first report, because most handlers make none."""
    _log_rate: LogRate | None
    """Made by the first log message, because most handlers send none."""

    def __init__(
        self, run: HandlerRun, serving: HandlerServing, past: PastRounds | None = None, pinned: bytes = b""
    ) -> None:
        self._run = run
        self._serving = serving
        self._past = past
        self._pinned = pinned
        self._made_asker = None
        self._progress = None
        self._log_rate = None

    # --- Facts of the request ---

    @property
    def state(self) -> Any:
        """What the server's lifespan yielded; None without a lifespan."""
        return self._serving.state

    @property
    def revision(self) -> str:
        """The protocol revision of this request, such as ``"2026-07-28"``."""
        return self._run.context.revision

    @property
    def client_info(self) -> types.Implementation | None:
        """How the client names itself, None where it did not say. For display only: anyone can claim any name."""
        info = self._run.context.peer_info
        if info is None:
            return None
        try:
            return types.structure(info, types.Implementation)
        except StructureError:  # it is for display only: what can be displayed is enough
            return types.Implementation(name=str(info.get("name")), version=str(info.get("version")))

    @property
    def client_capabilities(self) -> types.ClientCapabilities:
        """What the client declared for this request."""
        return types.structure(self._run.context.capabilities, types.ClientCapabilities)

    @property
    def principal(self) -> str | None:
        """The name of who was authenticated, `Access.principal`; None where nobody was."""
        return self._run.context.principal

    @property
    def access(self) -> Access | None:
        """Who was authenticated, and what they may do; None on transports that authenticate nobody, such as stdio.

        What was granted is in `Access.scopes`. What always needs some of it says so where it is registered
        (``@server.tool(scopes=...)``); what needs it for some arguments alone has to look here.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
        """
        return self._run.context.access

    @property
    def meta(self) -> Mapping[str, Any]:
        """The request's `_meta`, as it came; empty where there was none."""
        return self._run.context.meta

    @property
    def headers(self) -> Mapping[str, str]:
        """Header fields of the request, where the transport has any; empty otherwise."""
        return self._run.context.headers

    @property
    def deadline(self) -> float:
        """When the handler is cancelled by a deadline it is under, on Trio's clock; `math.inf` without one."""
        return trio.current_effective_deadline() if self._run.has_task else math.inf

    # --- Progress, log and changes ---

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
        wanted = self._run.context.log_level
        if wanted is None or LOG_LEVELS.index(level) < LOG_LEVELS.index(wanted):
            await trio.lowlevel.checkpoint_if_cancelled()
            return
        params = {"level": level, "data": data} | ({} if logger is None else {"logger": logger})
        await self._wait_for_room()
        if self._log_rate is None:
            self._log_rate = LogRate(self._serving.limits.max_logs_per_second)
        lost = self._log_rate.admit(trio.current_time())
        if lost is None:
            return
        if lost:
            notice = f"{lost} log messages were dropped: more than {self._log_rate.per_second:g} in a second"
            self._send("notifications/message", {"level": level, "logger": "trio_mcp", "data": notice})
        self._send("notifications/message", params)

    def resource_updated(self, uri: str) -> None:
        """Tell every client that asked for it, not only this one, that a resource is not what it was.

        Never waits, works in plain `def` handlers as well, and costs next to nothing where nobody listens. A client
        that has not been told yet is told once, however often this is said. Outside of handlers there is
        `Server.resource_updated`.

        Args:
            uri: the resource's own URI, just as clients name it.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/resources#subscriptions
        """
        self._serving.resource_updated(uri)

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

    # --- Questions to the user, the model and the client ---

    @overload
    async def elicit(
        self, message: str, form: type[T], *, key: str | None = None
    ) -> Accepted[T] | Declined | Dismissed: ...
    @overload
    async def elicit(
        self, message: str, form: Mapping[str, Any], *, key: str | None = None
    ) -> Accepted[dict[str, Any]] | Declined | Dismissed: ...
    @overload
    async def elicit(
        self, message: str, *, url: str, elicitation_id: str | None = None, key: str | None = None
    ) -> Accepted[None] | Declined | Dismissed: ...
    async def elicit(
        self,
        message: str,
        form: Any = None,
        *,
        url: str | None = None,
        elicitation_id: str | None = None,
        key: str | None = None,
    ) -> Any:
        """Ask the user: to fill in a form, or to visit a page.

        Ask for nothing secret in a form: what a client must not see belongs on a page of yours. Whoever opens that
        page may be somebody else, so verify there who it is; and the address itself must let nobody in.

        Args:
            message: what the user is told.
            form: the fields, as an attrs class, dataclass or TypedDict of texts, numbers, booleans and choices; or a
                JSON Schema of such a form.
            url: the page, instead of a form; revisions from 2025-11-25 on.
            elicitation_id: what to call the visit in 2025-11-25; see `elicitation_complete`.
            key: what a client of 2026-07-28, and a handler that is replayed, know the question by. By default that is
                made of what the question says; two that say the same are told apart by their order. A client that knows
                a key may send the answer with its call, and then is not asked.

        Returns:
            `Accepted` with an instance of the class as `value` (a dict for a JSON Schema, None for a page), `Declined`
            or `Dismissed`.

        Raises:
            TypeError: *form* cannot be a form; the text names the member.
            ValueError: *url* is no address of a page.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
        """
        if (form is None) == (url is None):
            raise TypeError("elicit(): either a form or url=, and not both")
        if url is None:
            return await self._ask(Elicit(message, form, key=key))
        if elicitation_id is None:
            return await self._ask(Visit(message, url, key=key))
        return await self._ask(Visit(message, url, key=key, elicitation_id=elicitation_id))

    async def elicitation_complete(self, elicitation_id: str) -> None:
        """Tell the client that the user has done on the page what was to be done there.

        Only 2025-11-25 has such a notice; in other revisions nothing is sent. It goes to the client of this call alone,
        and may be sent after the call.

        Raises:
            ConnectionLost: the client is gone.

        Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if "notifications/elicitation/complete" in types.METHODS[self._run.context.revision]:
            peer = self._run.peer
            await peer.room()
            peer.notify_nowait("notifications/elicitation/complete", {"elicitationId": elicitation_id})

    def url_elicitation_required(self, *visits: Visit) -> Exception:
        """Return the error that says: the user must visit these pages, then call again. Raise it.

        For clients of 2025-11-25 that can open pages; for all others it is `MissingCapability`. A handler that can wait
        uses `elicit` instead, which works in more revisions.

        Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#url-elicitation-required-error
        """
        for visit in visits:
            lacking = visit.lacking(self._run.context)
            if lacking is not None:
                return lacking
        if not visits:
            raise TypeError("url_elicitation_required(): at least one visit")
        return url_elicitation_required(visits, self._run.context.revision)

    async def sample(
        self,
        messages: str | types.SamplingMessage | Sequence[types.SamplingMessage],
        *,
        max_tokens: int,
        system_prompt: str | None = None,
        temperature: float | None = None,
        stop_sequences: Sequence[str] | None = None,
        model_preferences: types.ModelPreferences | None = None,
        metadata: Mapping[str, Any] | None = None,
        tools: Sequence[types.Tool] | None = None,
        tool_choice: types.ToolChoice | None = None,
        key: str | None = None,
    ) -> types.CreateMessageResult:
        """Ask the client's model.

        Args:
            messages: the conversation; a text stands for one message of the user's.
            max_tokens: how much the model may write, in its tokens.
            system_prompt: what the model is told first; the client may change it.
            temperature: as the model's maker defines it.
            stop_sequences: texts at which the model stops.
            model_preferences: which model, as hints.
            metadata: for the model's maker.
            tools: what the model may use; clients from 2025-11-25 on that have declared it.
            tool_choice: whether it must.
            key: see `elicit`.

        Raises:
            ValueError: *messages* use tools in a way that no client accepts.
            StructureError: the client's revision cannot carry a message.

        Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/sampling
        """
        return await self._ask(
            Sample(
                messages,
                max_tokens=max_tokens,
                system_prompt=system_prompt,
                temperature=temperature,
                stop_sequences=stop_sequences,
                model_preferences=model_preferences,
                metadata=metadata,
                tools=tools,
                tool_choice=tool_choice,
                key=key,
            )
        )

    async def list_roots(self, *, key: str | None = None) -> Sequence[types.Root]:
        """Ask which folders and files the client is about. They are advice, and enforce nothing; any may be gone.

        Args:
            key: see `elicit`.

        Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/roots
        """
        return await self._ask(ListRoots(key=key))

    @overload
    async def ask_all(self, first: Ask[A], second: Ask[B], /) -> tuple[A, B]: ...
    @overload
    async def ask_all(self, first: Ask[A], second: Ask[B], third: Ask[C], /) -> tuple[A, B, C]: ...
    @overload
    async def ask_all(self, first: Ask[A], second: Ask[B], third: Ask[C], fourth: Ask[D], /) -> tuple[A, B, C, D]: ...
    @overload
    async def ask_all(self, *asks: Ask[Any]) -> tuple[Any, ...]: ...
    async def ask_all(self, *asks: Ask[Any]) -> tuple[Any, ...]:
        """Ask several things at once, in one round: `Elicit`, `Visit`, `Sample`, `ListRoots`.

        If one of them cannot be asked, none is.

        Returns:
            The answers, in the order of the questions.
        """
        if not asks:
            raise TypeError("ask_all(): nothing to ask")
        return tuple(await self._asker().ask(asks))

    @overload
    async def once(self, key: str, function: Callable[[], Coroutine[Any, Any, T]]) -> T: ...
    @overload
    async def once(self, key: str, function: Callable[[], T]) -> T: ...
    async def once(self, key: str, function: Callable[[], Any]) -> Any:
        """Do something that must not be done again when the handler is replayed, and return what it returned.

        What it returns must be JSON, and what comes back is a copy. A handler that is parked runs once anyway; one
        that is replayed skips what an earlier round has completed. It is done at least once, not exactly once:
        a client that sends the same retry twice, at the same time, makes two handlers do it; so does a server that
        fails between doing it and answering. What is under way when another task of a replayed handler asks is
        cancelled, and done anew in the next round: do it before you ask, not beside it.

        Args:
            key: names it among the things this handler does once.
            function: called without arguments; may be async.

        Raises:
            NotJsonError: what it returned is no JSON value.
            Exception: whatever *function* raises; then it is not done, and tried again the next time.
        """
        return await self._asker().once(key, function)

    # --- Extensions and custom messages ---

    def extension(self, id: str) -> Mapping[str, Any] | None:
        """Return the client's settings of an extension that both sides have declared; None where one has not.

        Empty settings are settings. Of a modern client it is this request that counts, of others the connection.
        """
        if id not in self._serving.extensions:
            return None
        return extensions_in(self._run.context.capabilities).get(id)

    def require_extension(self, id: str) -> Mapping[str, Any]:
        """Return what `extension` returns, where both sides have declared it.

        Raises:
            MissingCapability: the client has not. Unhandled, it refuses the request with -32021, which names the
                extension; in older revisions it is a tool error, or an internal error with the same text.
            LocalProtocolError: this server has not.
        """
        if id not in self._serving.extensions:
            raise LocalProtocolError(f"this server does not declare the extension {id!r}")
        settings = self.extension(id)
        if settings is None:
            raise missing_extension(id)
        return settings

    async def notify(self, method: str, params: Any = None) -> None:
        """Send the client a notification of your own that belongs to this request.

        Does nothing where the request is over. Always a cancel point; waits only when too much is queued for the client
        already.

        Args:
            method: its name, none of the specification's.
            params: an object: a mapping, or an instance of a class whose JSON is one.

        Raises:
            LocalProtocolError: the specification has such a notification.
            TypeError: *params* are no object.
        """
        if is_specified(method):
            raise LocalProtocolError(f"{method!r} is the specification's own; this package sends it where it is due")
        json = to_object(params, self._run.context.revision)
        await self._wait_for_room()
        self._send(method, json)

    async def request(self, method: str, params: Any, result: type[T]) -> T:
        """Send the client a request of your own and return its result; revisions before 2026-07-28 only.

        Cancelling it tells the client. No time limit applies but those of the handler.

        Args:
            method: its name, none of the specification's.
            params: an object: a mapping, or an instance of a class whose JSON is one.
            result: the class to return: of any kind that a method of one's own may take.

        Raises:
            LocalProtocolError: the specification has such a request.
            MissingCapability: in this revision a server asks for nothing; or the client is not initialized yet.
            ErrorResponse: the client answered with an error.
            RemoteProtocolError: its answer does not fit *result*.
            ConnectionLost: the client, or the request that this one belongs to, is gone.
        """
        if is_specified(method):
            raise LocalProtocolError(f"{method!r} is the specification's own; see the methods of Context for it")
        context, exchange = self._run.context, self._run.exchange
        read, json = reader_of(cast("Any", result)), to_object(params, context.revision)
        if context.modern:
            raise MissingCapability(f"in revision {context.revision} a server cannot ask for {method!r}", {})
        await trio.lowlevel.checkpoint_if_cancelled()
        if exchange is None:
            raise LocalProtocolError(f"{method!r} cannot be asked any more: the request is over")
        return cast("T", await _ask_custom(exchange, method, json, read))

    # --- Internals ---

    async def _ask(self, ask: Ask[A]) -> A:
        return cast("A", (await self._asker().ask([ask]))[0])

    def _asker(self) -> Asker:
        if self._made_asker is None:
            self._made_asker = Asker(self._serving, self._run, self._past or PastRounds(), self._pinned)
        return self._made_asker

    async def _wait_for_room(self) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        exchange = self._run.exchange
        if exchange is not None and not exchange.has_room():
            await exchange.room()

    def _send(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification that belongs to the current request; do nothing if the request is over."""
        exchange = self._run.exchange
        if exchange is not None:
            exchange.notify(method, params)


# Access to the internals of a context, for the other modules of the server. Handlers do not use them.

run_of: Callable[[Context], HandlerRun] = attrgetter("_run")
"""Return the handler run that a context is a view of."""
serving_of: Callable[[Context], HandlerServing] = attrgetter("_serving")
"""Return the serving that a context belongs to."""
progress_of: Callable[[Context], Progress | None] = attrgetter("_progress")
"""Return the progress that a handler has reported; None if it has reported none."""


async def _ask_custom(exchange: IncomingRequest, method: str, params: dict[str, Any], read: Reader) -> Any:
    if not exchange.peer.admission.operating:
        raise MissingCapability(f"{method!r} cannot be asked before the client has said that it is initialized", {})
    async with exchange.ask(method, params) as asked:
        answer = await asked.result()
    try:
        return read(answer)
    except StructureError as error:
        raise RemoteProtocolError(f"the result of {method!r} does not fit: {'; '.join(error.faults)}") from error
