"""The context of a handler: the facts of its request, and the ways to report, log and ask while it works.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Generic, Never, Protocol, TypeVar, cast, overload

import trio
from attrs import define

from .. import types
from .._capabilities import load_capability
from .._errors import LocalProtocolError, MissingCapability, RemoteProtocolError, StructureError
from .._extensions import extensions_in, is_specified, missing_extension
from .._other_sdks import ForeignAttributes, unknown_options
from .._user_types import Reader, reader_of, to_object
from ..peer import Access, HandlerRun, HeaderFields, IncomingRequest, Limits
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

if TYPE_CHECKING:
    import typing_extensions

    State_co = typing_extensions.TypeVar("State_co", default=Any, covariant=True)
else:  # the default is for type checkers, and `typing` has none before Python 3.13
    State_co = TypeVar("State_co", covariant=True)

__all__ = ["NO_STATE", "Context", "HandlerServing", "past_of", "progress_of", "run_of", "serving_of"]

NO_STATE: Final = object()
"""The state of a serving whose server has no lifespan."""

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

    @property
    def parts(self) -> Mapping[Any, Any]:
        """The objects that packages beside the core keep for this serving, by `ServingPart`."""
        ...

    def resource_updated(self, uri: str) -> None:
        """Notify every client that subscribed to a resource; never waits, and may be called from any thread."""
        ...

    def answer(self, exchange: IncomingRequest) -> None:
        """Begin to answer a request; synchronous."""
        ...

    def has_method(self, name: str) -> bool:
        """Return True if the application has registered a method of this name."""
        ...

    def has_tool(self, name: str, access: Access | None) -> bool:
        """Return True if the caller sees a tool of this name."""
        ...


@define(eq=False, init=False, repr=False)
class Context(ForeignAttributes, Generic[State_co]):
    """The request that a handler works for. Any handler may take it as a parameter, by annotation, at any position.

    A context belongs to its handler: do not keep it after the handler has returned. Several tasks of one handler may
    use it at the same time. It is a view of the handler run: after a question was answered in a retry, the facts and
    reports are those of the retry.

    ``Context[AppState]`` tells type checkers that `state` is an ``AppState``, the class that the lifespan yields; of a
    plain ``Context`` it is of any type. At run time both are the same.

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

    if not TYPE_CHECKING:  # type checkers refuse it by themselves

        def __class_getitem__(cls, item: Any) -> Any:
            if cls is Context and isinstance(item, tuple):
                raise TypeError("Context takes one type, that of its state: write Context[State]")
            return super().__class_getitem__(item)

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

    def __repr__(self) -> str:
        return f"<Context of {self._run.method}>"

    # --- Facts of the request ---

    @property
    def state(self) -> State_co:
        """The value that the server's lifespan yielded. `Context[T]` declares its type.

        Raises:
            AttributeError: the server has no lifespan.
        """
        if self._serving.state is NO_STATE:
            raise AttributeError(
                "ctx.state: this server has no lifespan, and so no state; the state is what a lifespan yields, as in "
                "Server(lifespan=...)"
            )
        state: State_co = self._serving.state
        return state

    @property
    def revision(self) -> str:
        """The protocol revision of this request, such as ``"2026-07-28"``."""
        return self._run.context.revision

    @property
    def client_info(self) -> types.Implementation | None:
        """The name and version that the client gave, if any. For display only: any client can claim any name."""
        info = self._run.context.peer_info
        if info is None:
            return None
        try:
            return types.structure(info, types.Implementation)
        except StructureError:  # show what can be shown
            return types.Implementation(name=str(info.get("name")), version=str(info.get("version")))

    @property
    def client_capabilities(self) -> types.ClientCapabilities:
        """The capabilities that the client declared for this request."""
        return types.structure(self._run.context.capabilities, types.ClientCapabilities)

    @property
    def client_shows_apps(self) -> bool:
        """True if the client shows the apps of this server to its user; see `Server.app`.

        A result must be meaningful without the app in any case. If it is True, the result may leave to the app what
        only the app needs.
        """
        settings = self.extension("io.modelcontextprotocol/ui")
        return settings is not None and bool(load_capability("apps").shows_apps(settings))

    @property
    def principal(self) -> str | None:
        """The name of the authenticated caller, `Access.principal`; None if the caller is not authenticated."""
        return self._run.context.principal

    @property
    def access(self) -> Access | None:
        """The authenticated caller and its scopes; None on transports without authentication, such as stdio.

        `Access.scopes` holds the granted scopes. A tool that always needs a scope names it when it is registered
        (``@server.tool(scopes=...)``); a handler that needs a scope only for some arguments checks it here.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
        """
        return self._run.context.access

    @property
    def meta(self) -> Mapping[str, Any]:
        """The request's `_meta`, as it was received; empty if there was none."""
        return self._run.context.meta

    @property
    def headers(self) -> Mapping[str, str]:
        """The header fields of the request, by their names in any case; empty if the transport has none."""
        return HeaderFields(self._run.context.headers)

    @property
    def deadline(self) -> float:
        """The earliest deadline that applies to the handler, on Trio's clock; `math.inf` without one.

        That includes the deadline of the caller: a client of this package sends the seconds that are left in the
        `_meta` of each request (``io.github.trio-mcp/deadline``). When it passes, the handler is cancelled. A handler
        that calls another server hands it on, and less is left at each hop. After a question that was answered in a
        retry, it is the deadline of the retry. A handler whose call has become a task has none.

        In a plain `def` handler, it is the earlier one of the tool's `timeout=` and the caller's deadline.
        """
        if not self._run.has_task:
            return self._run.caller_deadline
        return trio.current_effective_deadline() if trio.lowlevel.in_trio_task() else self._run.scope.deadline

    # --- Progress, log and changes ---

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress to the client; do nothing if the client did not request progress.

        Progress must grow: a value that does not exceed the previous one is not sent. If there are more values than
        `Limits.max_progress_per_second`, only the newest is sent, as soon as the limit permits and always before the
        result. A handler may therefore report as often as it likes. Always a cancel point; waits only while the
        outgoing queue of the connection is full.

        Args:
            progress: the work done, in any unit.
            total: the total work, in the same unit; None if unknown.
            message: one line for the user.

        Raises:
            ValueError: *progress* or *total* is NaN or infinite.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress
        """
        if not math.isfinite(progress) or (total is not None and not math.isfinite(total)):
            raise ValueError(f"progress and total must be finite numbers, not {progress!r} and {total!r}")
        if self._progress is None:
            self._progress = Progress(self._run, self._serving.limits.max_progress_per_second)
        await self._progress.report(progress, total, message)

    async def log(self, level: types.LoggingLevel, data: Any, *, logger: str | None = None, **unknown: Never) -> None:
        """Send a log message to the client, if the client wants messages of this level. Do not log secrets.

        Always a cancel point; waits only while the outgoing queue of the connection is full. Messages beyond
        `Limits.max_logs_per_second` are dropped; the next message that passes is preceded by one that gives the number
        of dropped messages.

        Args:
            level: from ``"debug"`` to ``"emergency"``, as RFC 5424 names them.
            data: any JSON value: a string, or an object with details.
            logger: the name of the logger.

        Raises:
            ValueError: *level* is not a log level.
            NotJsonError: *data* is not JSON.
            TypeError: an option does not exist.

        Specification: https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging
        """
        if unknown:
            raise unknown_options("ctx.log", unknown)
        if level not in LOG_LEVELS:
            raise ValueError(f"level={level!r}: not a log level; use one of {', '.join(LOG_LEVELS)}")
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
        """Notify every client that subscribed to a resource, not only the caller, that the resource has changed.

        Never waits, works in plain `def` handlers too, and costs almost nothing without subscribers. Repeated calls
        before a client was notified result in one notification. Outside of handlers, use `Server.resource_updated`.

        Args:
            uri: the URI of the resource, exactly as clients name it.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/resources#subscriptions
        """
        self._serving.resource_updated(uri)

    async def close_stream(self, *, retry: float | None = None) -> None:
        """Close the HTTP response stream of the request; the client reconnects for the rest, and the request continues.

        For long work over HTTP, so that no connection is held open. Reports, questions and the result are stored until
        the client reconnects, which it does by itself, several times if necessary.

        Does nothing if that is not possible: on any other transport, without an event store
        (`SessionSettings.event_store`), and for clients of any revision except 2025-11-25, which would treat the
        response as lost. Always a cancel point.

        Args:
            retry: the seconds after which the client reconnects; None for `SessionSettings.retry_seconds`.

        Raises:
            ValueError: *retry* is below 0, or not finite.

        Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server
        """
        if retry is not None and not 0 <= retry < math.inf:
            raise ValueError(f"retry={retry!r}: must be a finite number of seconds, at least 0")
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
        **unknown: Never,
    ) -> Any:
        """Ask the user to fill in a form, or to visit a web page.

        Do not ask for secrets in a form, because the client sees the answers; use a page of your own. Authenticate the
        user on that page, because another person may open it; the URL itself must not grant access.

        Args:
            message: the message for the user.
            form: the fields, as an attrs class, dataclass or TypedDict of strings, numbers, booleans and choices; or a
                JSON Schema of such a form.
            url: the page to visit, instead of a form; revisions from 2025-11-25 on.
            elicitation_id: the id of the visit in 2025-11-25; see `elicitation_complete`.
            key: the name by which a client of 2026-07-28, or a handler that is replayed, identifies the question. By
                default it is derived from the question's content, and equal questions are numbered in order. A client
                that knows a key may send the answer with its call, and is then not asked.

        Returns:
            `Accepted` with an instance of the class as `value` (a dict for a JSON Schema, None for a page), `Declined`
            or `Dismissed`.

        Raises:
            TypeError: *form* cannot be a form; the message names the member. Or an option does not exist.
            ValueError: *url* is not the URL of a web page.

        Specification: https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
        """
        if unknown:
            raise unknown_options("ctx.elicit", unknown)
        if (form is None) == (url is None):
            raise TypeError(
                "ctx.elicit(): pass a form or url=, and not both; a form is a class, and one without members asks for "
                "consent alone"
            )
        if url is None:
            return await self._ask(Elicit(message, form, key=key))
        if elicitation_id is None:
            return await self._ask(Visit(message, url, key=key))
        return await self._ask(Visit(message, url, key=key, elicitation_id=elicitation_id))

    async def elicitation_complete(self, elicitation_id: str) -> None:
        """Notify the client that the user has finished on the page of *elicitation_id*.

        Only 2025-11-25 has this notification; in other revisions nothing is sent. It is sent only to the client of
        this call, and may be sent after the call.

        Raises:
            ConnectionLost: the connection is gone.

        Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if "notifications/elicitation/complete" in types.METHODS[self._run.context.revision]:
            peer = self._run.peer
            await peer.room()
            peer.notify_nowait("notifications/elicitation/complete", {"elicitationId": elicitation_id})

    def url_elicitation_required(self, *visits: Visit) -> Exception:
        """Return the exception to raise if the user must visit these pages before the client repeats the call.

        For clients of 2025-11-25 that can open pages; for other clients the exception is `MissingCapability`. A handler
        that can wait uses `elicit` instead, which works in more revisions.

        Raises:
            TypeError: no visit was given.

        Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#url-elicitation-required-error
        """
        for visit in visits:
            lacking = visit.lacking(self._run.context)
            if lacking is not None:
                return lacking
        if not visits:
            raise TypeError("url_elicitation_required(): pass at least one visit")
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
            messages: the conversation; a string stands for one message of the user.
            max_tokens: the maximum number of tokens that the model generates.
            system_prompt: the system prompt; the client may change it.
            temperature: the temperature, as the model's provider defines it.
            stop_sequences: strings at which the model stops.
            model_preferences: hints for the choice of the model.
            metadata: parameters for the model's provider.
            tools: tools that the model may use; for clients from 2025-11-25 on that have declared this capability.
            tool_choice: whether the model must use a tool.
            key: see `elicit`.

        Raises:
            ValueError: *messages* use tools in a way that clients must not accept.
            StructureError: a message has content that the client's revision does not have.

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
        """Ask the client for its roots: the folders and files that it works on. They are hints and may no longer exist.

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
        """Ask several questions in one round: `Elicit`, `Visit`, `Sample`, `ListRoots`.

        If one of them cannot be asked, none is asked.

        Returns:
            The answers, in the order of the questions.

        Raises:
            TypeError: no question was given.
        """
        if not asks:
            raise TypeError("ask_all(): pass at least one question")
        return tuple(await self._asker().ask(asks))

    @overload
    async def once(self, key: str, function: Callable[[], Coroutine[Any, Any, T]]) -> T: ...
    @overload
    async def once(self, key: str, function: Callable[[], T]) -> T: ...
    async def once(self, key: str, function: Callable[[], Any]) -> Any:
        """Call a function whose side effect must not be repeated when the handler is replayed, and return its result.

        The result must be JSON; the caller gets a copy. A parked handler runs only once anyway. A replayed handler
        skips a function that completed in an earlier round. If the same retry arrives twice at the same time, the
        function runs once, and both get its result: in one process, and in all processes of a service
        (``serve_http(shared=...)``), where this also holds for retries one after the other, for as long as the request
        state is valid (a day at most).

        The function runs at least once, not exactly once: it runs again if the server fails between the call and the
        response, or if a function before the first question is called by a request that is sent again. In a service,
        it also runs again if its process ends or stands still for 10 seconds, or the backend fails, while it runs. If
        another task of a replayed handler asks a question while the function runs, the function is cancelled and runs
        again in the next round; call it before asking, not concurrently.

        Args:
            key: the name of the function call within this handler.
            function: called without arguments; may be async.

        Raises:
            NotJsonError: the result is not JSON.
            SharedUnavailable: the backend of the service cannot be reached, so it is unknown whether the function must
                run. If the handler does not catch it, the request is refused with an internal error (-32603).
            Exception: raised by *function*, which is then called again in the next round.
        """
        return await self._asker().once(key, function)

    # --- Extensions and custom messages ---

    def extension(self, id: str) -> Mapping[str, Any] | None:
        """Return the client's settings of the extension *id* if both sides declare it, and None otherwise.

        Settings may be empty. A modern client declares extensions in each request, a legacy client in the handshake.
        """
        if id not in self._serving.extensions:
            return None
        return extensions_in(self._run.context.capabilities).get(id)

    def require_extension(self, id: str) -> Mapping[str, Any]:
        """Return the client's settings of the extension *id*, which both sides must declare.

        Raises:
            MissingCapability: the client does not declare it. If the handler does not catch this, the request is
                refused with -32021, which names the extension; in legacy revisions it is a tool error, or an internal
                error with the same message.
            LocalProtocolError: this server does not declare it.
        """
        if id not in self._serving.extensions:
            raise LocalProtocolError(f"this server does not declare the extension {id!r}")
        settings = self.extension(id)
        if settings is None:
            raise missing_extension(id)
        return settings

    async def notify(self, method: str, params: Any = None) -> None:
        """Send the client a custom notification that belongs to this request.

        Does nothing if the request is over. Always a cancel point; waits only while the outgoing queue of the
        connection is full.

        Args:
            method: a name that is not in the specification.
            params: an object: a mapping, or an instance of a class whose JSON is an object.

        Raises:
            LocalProtocolError: the specification defines this notification.
            TypeError: *params* is not an object.
        """
        if is_specified(method):
            raise LocalProtocolError(f"{method!r} is defined by the specification; this package sends it itself")
        json = to_object(params, self._run.context.revision)
        await self._wait_for_room()
        self._send(method, json)

    async def request(self, method: str, params: Any, result: type[T]) -> T:
        """Send the client a custom request and return its result; only in revisions before 2026-07-28.

        Cancellation is sent to the client. Only the handler's own timeouts apply.

        Args:
            method: a name that is not in the specification.
            params: an object: a mapping, or an instance of a class whose JSON is an object.
            result: the class to return, of any kind that a custom method may take.

        Raises:
            LocalProtocolError: the specification defines this request, or the request of the handler is over.
            MissingCapability: the revision has no requests to the client, or the client is not initialized yet.
            ErrorResponse: the client answered with an error.
            RemoteProtocolError: the client's answer does not fit *result*.
            ConnectionLost: the connection is gone.
        """
        if is_specified(method):
            raise LocalProtocolError(f"{method!r} is defined by the specification; use the methods of Context")
        context, exchange = self._run.context, self._run.exchange
        read, json = reader_of(cast("Any", result)), to_object(params, context.revision)
        if context.modern:
            raise MissingCapability(f"{method!r}: a server cannot send requests in revision {context.revision}", {})
        await trio.lowlevel.checkpoint_if_cancelled()
        if exchange is None:
            raise LocalProtocolError(f"{method!r}: the request of the handler is over; nothing can be sent")
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
past_of: Callable[[Context], PastRounds | None] = attrgetter("_past")
"""Return the answers that came with a request, and what an earlier round has kept; None if it has neither."""


async def _ask_custom(exchange: IncomingRequest, method: str, params: dict[str, Any], read: Reader) -> Any:
    if not exchange.peer.admission.operating:
        raise MissingCapability(f"{method!r}: the client is not initialized yet", {})
    async with exchange.ask(method, params) as asked:
        answer = await asked.result()
    try:
        return read(answer)
    except StructureError as error:
        raise RemoteProtocolError(f"the result of {method!r} does not fit: {'; '.join(error.faults)}") from error
