"""A server while it is being served: the state of one serving, and the answer to every request.

A request goes from its method to a route, to typed params, to a responder, to a result. Small answers that need no
user code are made by the task that received the request. Everything else runs in the handler pool, and so does every
request that passes middleware. The order of refusals is the specification's: unknown method first, then params.

Rules of this file:

1. `McpError` is the handler's own choice of a protocol error, `ToolError` that of a tool error.
2. A capability that the client has not declared is -32021 in a modern revision. Legacy revisions have no code for it:
   there it is a tool error, or -32603 with the same message. So is the end of a handler whose caller's deadline passed.
3. If a question cannot be asked because too many handlers are parked, the request is refused as busy.
4. Any other exception is a bug and goes to the log. The model is told what a tool raised; other requests are answered
   with an internal error that says nothing more, and so is a tool whose return value cannot be sent.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

import trio
from attrs import define, field

from .. import types
from .._errors import AskExpired, McpError, MissingCapability, StructureError, ToolError, TooManyParked
from .._extensions import is_specified
from .._misuse import require_trio
from .._tracing import METRICS_MODULE, TRACING_MODULE, request_meter
from .._util import exc_info_of, owned_nursery
from ..abc import SharedService
from ..peer import (
    NO_ORIGIN,
    Access,
    Admission,
    Arrival,
    CallerDeadlineError,
    ExchangeContext,
    HandlerPool,
    HandlerRun,
    HandlerSlots,
    IncomingRequest,
    Limits,
    MessageOrigin,
    OutOfTimeError,
    Peer,
    RequestObserver,
    ServerSession,
)
from ..wire import (
    DEADLINE_KEY,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    LISTEN,
    METHOD_NOT_FOUND,
    MODERN_REVISIONS,
    SERVER_INFO_KEY,
    JsonObject,
    decode,
    encode,
)
from ._background import BackgroundTasks, open_background
from ._context import Context, progress_of
from ._extension_points import internals_of, open_parts
from ._extensions import NO_DEADLINE, ExtensionResult, complete_result, deadline_of, refusal_of
from ._forwarder import TasklessResponder
from ._middleware import MiddlewareChain, checked_result
from ._notifications import NotificationQueue, SlotsByKind
from ._processes import Processes, open_processes, refuse_in_starting_worker
from ._routes import NEVER_FORWARDED, ROUTES, SMALL, PreparedAnswer, Responder, Route, observe, preparation
from ._stopping import EndWatch, running_handlers
from ._threads import Threads
from .asking import AskingMode, DoneOnce, PastRounds, Seals, pin, resume
from .features import (
    NOT_KEPT,
    CacheHint,
    Catalog,
    ChangeHub,
    ListenFilter,
    ListenSubscription,
    ListResponder,
    NotFound,
    NotReturnable,
    Resources,
    SessionListeners,
)

if TYPE_CHECKING:
    from ._forwarder import Forwarder
    from ._middleware import Middleware
    from ._server import Server, ServerInternals
    from ._snapshot import ServerStatistics

__all__ = [
    "ActiveServer",
    "finish_result",
    "open_serving",
]

_log = logging.getLogger("trio_mcp.server")

_CALL = "tools/call"
_DELIBERATE = (McpError, ToolError, MissingCapability, AskExpired, TooManyParked)
"""Exceptions that mean the same whether a handler or a middleware function raises them."""


# --- Serving ---


@define(eq=False)
class ActiveServer:
    """One serving of a server, shared by all its connections. `Server.serving` makes it."""

    server: Server
    """The server."""
    pool: HandlerPool
    """The pool in which its handlers run."""
    state: Any
    """The value that the server's lifespan yielded."""
    changes: ChangeHub
    """The listeners that are notified of changes."""
    background: BackgroundTasks
    """Tasks that outlive the calls that start them."""
    processes: Processes
    """The worker processes of isolated tools."""
    asking: AskingMode
    """The place where a handler waits for the answer of a modern client."""
    parts: Mapping[Any, Any]
    """The objects that packages beside the core keep for this serving, by `ServingPart`."""
    home: Callable[[], str]
    """Returns the name of this process in a service of several; empty if there are no others."""
    shared: SharedService | None
    """The memory that this process has in common with the others of its service; None if there are no others."""
    internals: ServerInternals = field(init=False)
    """The internals of the server."""
    forwarder: Forwarder | None = field(init=False)
    """Answers requests on behalf of others; None if the server has none."""
    # Kept here, because looking up an attribute of a class with `__getattr__`, as `Server` is, takes twice as long.
    tools: Catalog[Any] = field(init=False)
    """The tools of the server."""
    prompts: Catalog[Any] = field(init=False)
    """The prompts of the server."""
    resources: Resources = field(init=False)
    """The resources and resource templates of the server."""
    info_json: JsonObject = field(init=False)
    """The name of the server, in the shape of `types.Implementation`."""
    arrivals: WeakKeyDictionary[Peer, Arrival] = field(factory=WeakKeyDictionary[Peer, Arrival], init=False)
    """Its connections, with their beginnings; see `peer.note_arrival`."""
    subscribers: SessionListeners = field(init=False)
    """The listeners that have made a handshake."""
    threads: Threads = field(init=False)
    """The worker threads of plain `def` handlers."""
    small_answers: SlotsByKind = field(init=False)
    """The slots of small answers that pass middleware, so that none waits for a handler to end."""
    notifications: NotificationQueue = field(init=False)
    """The queue of notifications that belong to no request."""
    lists: Mapping[str, ListResponder] = field(init=False)
    """The responders of the list requests, by method."""
    observers: Sequence[RequestObserver] = field(default=(), init=False)
    """The observers that are told of each request; usually there are none."""
    doing_once: dict[str, DoneOnce] = field(factory=dict[str, DoneOnce], init=False)
    """The functions of `ctx.once` that run now in replayed handlers; see `asking.DoneOnce`."""
    observed_tools: set[str] = field(factory=set[str], init=False)
    """The names of tools that the observers were told."""

    def __attrs_post_init__(self) -> None:
        server = self.server
        self.internals = internals_of(server)
        self.forwarder = self.parts.get(self.internals.forwarder)
        self.info_json = self.internals.info_json
        self.subscribers = SessionListeners(self)
        self.threads = Threads(self.limits.max_threads)
        self.small_answers = SlotsByKind(self.limits.max_in_flight, self.limits.max_queued)
        self.notifications = NotificationQueue(self)
        self.tools, self.prompts, self.resources = server.tools.catalog, server.prompts.catalog, server.resources
        catalogs: Sequence[Catalog[Any]] = (
            self.tools,
            self.prompts,
            self.resources.catalog,
            self.resources.templates,
        )
        cursors = self.internals.cursors
        self.lists = {each.method: ListResponder(each, server.page_size, cursors) for each in catalogs}
        meter = request_meter() if METRICS_MODULE in sys.modules else None
        if meter is not None:
            self.observe(meter)

    @property
    def limits(self) -> Limits:
        """The limits of each connection."""
        return self.server.limits

    @property
    def seals(self) -> Seals:
        """The keys that seal and open the states of questions."""
        return self.internals.seals

    @property
    def extensions(self) -> Mapping[str, JsonObject]:
        """The settings of each extension that the server declares, by id."""
        return self.server.extensions

    @property
    def capabilities(self) -> types.ServerCapabilities:
        """The capabilities that the server declares."""
        return self.server.capabilities

    @property
    def listen_filters(self) -> Iterable[ListenFilter]:
        """The members that extensions add to the filter of a subscription."""
        return self.internals.listen_filters.values()

    def has_method(self, name: str) -> bool:
        """Return True if the application has registered a method of this name."""
        return name in self.internals.custom.methods

    def has_tool(self, name: str, access: Access | None) -> bool:
        """Return True if the caller sees a tool of this name.

        Args:
            name: the name of the tool.
            access: the authenticated caller; None without authentication.
        """
        return self.input_schema(name, access) is not None

    def resource_updated(self, uri: str) -> None:
        """Notify every client that subscribed to the resource *uri*; never waits, and may be called from any thread."""
        self.internals.changes.resource_updated(uri)

    def input_schema(self, tool: str, access: Access | None) -> JsonObject | None:
        """Return a tool's input schema, or None; see `abc.HttpServing.input_schema`."""
        forwarded = None if self.forwarder is None else self.forwarder.input_schema(tool, access)
        return self.server.tools.input_schema(tool, access) if forwarded is None else forwarded

    def needed_scopes(self, method: str, params: JsonObject, access: Access | None) -> frozenset[str]:
        """Return the scopes that a request needs; see `abc.HttpServing.needed_scopes`."""
        return self.server.needed_scopes(method, params, access)

    def admission(self) -> Admission:
        """Return the admission of a new connection."""
        return ServerSession(self.server.revisions)

    def answer(self, exchange: IncomingRequest) -> None:
        """Begin to answer a request; see `abc.Serving.answer`."""
        if self.observers:
            observe(self, exchange)
        span = exchange.begin_span() if TRACING_MODULE in sys.modules else None
        if span is None:
            _dispatch(self, exchange)
        else:
            with span.active():
                _dispatch(self, exchange)

    def notified(self, method: str, params: JsonObject, peer: Peer, envelope: MessageOrigin = NO_ORIGIN) -> None:
        """Take a notification that belongs to no request; see `abc.Serving.notified`."""
        self.notifications.take(method, params, peer, envelope)

    def session_record(self, peer: Peer) -> JsonObject | None:
        """Return the record with which another process continues a session; see `abc.HttpServing.session_record`."""
        return self.subscribers.to_json(peer)

    def restore_session(self, peer: Peer, record: JsonObject, access: Access | None) -> None:
        """Let a new session continue one of another process; see `abc.HttpServing.restore_session`."""
        self.subscribers.restore(peer, record, self.server.capabilities, access)

    def observe(self, observer: RequestObserver) -> None:
        """Tell *observer* of every request from now on; synchronous."""
        self.observers = (*self.observers, observer)

    def stop(self) -> None:
        """Let open questions expire and refuse new ones; synchronous. Handlers continue until the serving is closed.

        In a service of several processes, only those expire whose handlers are parked here: other processes still bring
        answers to the handlers of sessions, and call again those that are replayed.
        """
        if self.home():
            self.pool.parking.close_parked()
        else:
            self.pool.parking.close()

    def statistics(self) -> ServerStatistics:
        """Return a snapshot of what the serving holds."""
        from ._snapshot import ServerStatistics  # noqa: PLC0415 # few programs look

        return ServerStatistics(
            running=self.pool.running,
            parked=self.pool.parking.parked,
            threads=self.threads.working,
            processes=self.processes.alive,
            background=self.background.running,
            listening=self.changes.listening,
        )


@asynccontextmanager
async def open_serving(
    server: Server,
    asking: AskingMode,
    *,
    lasts: bool = True,
    home: Callable[[], str] = str,
    shared: SharedService | None = None,
) -> AsyncGenerator[ActiveServer]:
    """Enter the server's lifespan and open its handler pool.

    When the block ends, open questions expire, their handlers clean up for a bounded time, and handlers that still run
    are cancelled.

    Args:
        lasts: True if the serving outlives a single request, so that there may be background tasks.
        home: returns the name of this process in a service of several.
        shared: what this process shares with the others.
    """
    require_trio("a server")
    opened: list[ActiveServer] = []

    async def wind_down() -> None:
        for serving in opened:
            await serving.pool.parking.emptied()
            with trio.move_on_after(server.limits.drain_seconds):
                await serving.pool.drained()

    def cancelled() -> None:
        for serving in opened:
            if serving.pool.live:
                watch.expect_end(partial(running_handlers, serving.pool))

    refuse_in_starting_worker()
    watch = EndWatch.of(server.limits, server.on_stuck)
    try:
        async with (
            open_parts(server, internals_of(server).parts, lasts=lasts) as parts,
            open_background(server, watch, lasts=lasts) as (background, state),
            open_processes(server.limits.max_processes) as processes,
        ):
            try:
                async with owned_nursery(wind_down, on_cancel=cancelled) as nursery:
                    with internals_of(server).changes.serving() as hub:
                        pool = HandlerPool(nursery, server.limits)
                        serving = ActiveServer(
                            server, pool, state, hub, background, processes, asking, parts, home, shared
                        )
                        opened.append(serving)
                        internals_of(server).servings.append(opened[0])
                        try:
                            yield opened[0]
                        finally:
                            pool.parking.close()  # also when cancelled: a shielded clean-up may wait for an answer
            finally:
                watch.ended()
    finally:
        watch.ended()
        for serving in opened:
            internals_of(server).servings.remove(serving)
        for left in [each for serving in opened for each in serving.threads.at_work()]:
            _log.warning("%s goes on in a worker thread after the stop; it stands at %s", left.name, left.place)


# --- Dispatch ---


def _dispatch(serving: ActiveServer, exchange: IncomingRequest) -> None:
    """Answer a request now, or start its handler in the pool."""
    internals = serving.internals
    middleware = internals.middleware
    route = ROUTES[exchange.context.revision][exchange.method]
    params: Any = exchange.params or {}
    past: PastRounds | None = None
    responder: Responder | None = None
    refusal: McpError | None = None
    deadline = deadline_of(exchange) if DEADLINE_KEY in exchange.context.meta else NO_DEADLINE
    if serving.forwarder is not None and not middleware:
        taskless = serving.forwarder.find_taskless(exchange)
        if taskless is not None:
            request = _PooledRequest(serving, exchange, route, params, None, (), None, taskless, is_read=False)
            _forward(request, deadline)
            return
    try:
        params = _read_params(serving, exchange, route, params)
        if route is not None and route.may_come_back and (params.request_state is not None or params.input_responses):
            past = resume(serving, exchange, params.request_state, deadline)
            if past is None:  # its handler was parked and continues, within the middleware that it was called from
                return
        if not middleware:
            if route is not None and route.at_once is not None and preparation(serving, exchange) is None:
                result = route.at_once(serving, exchange, params)
                exchange.respond(finish_result(result, exchange.context, internals.info_json))
                return
            responder = _find(serving, exchange, route, params)
    except McpError as error:
        if not middleware:
            exchange.respond(error)
            return
        refusal = error
    request = _PooledRequest(serving, exchange, route, params, past, middleware, refusal, responder)
    _begin(request, responder, _slots(serving, exchange), deadline)


def _begin(request: _PooledRequest, responder: Responder | None, slots: HandlerSlots, deadline: float) -> None:
    """Start the handler of a request in the pool, or forward the request without one.

    Args:
        deadline: that of the caller.
    """
    serving, exchange = request.serving, request.exchange
    if isinstance(responder, TasklessResponder) and request.past is None:
        _forward(request, deadline)
        return
    waits = responder is None or responder.waits or request.past is not None
    serving.pool.begin(exchange, request.handle, request.explain, slots, waits=waits, deadline=deadline)
    if isinstance(responder, ListenSubscription):
        if exchange.run is not None:  # else there are too many already
            exchange.run.closing_result = responder.conclude
    elif slots.waiting:  # it may be waiting for its slot: what is registered when it gets one counts
        request.responder = None


def _forward(request: _PooledRequest, deadline: float) -> None:
    """Answer a request without a task, if its responder can do that."""
    exchange = request.exchange
    request.serving.pool.begin_forwarding(exchange, request, exchange.peer.slots, deadline)


def _slots(serving: ActiveServer, exchange: IncomingRequest) -> HandlerSlots:
    """Return the slots from which a request takes its slot."""
    if exchange.method == LISTEN:
        return exchange.peer.listens
    if exchange.method in SMALL:
        return serving.small_answers.of(exchange.peer, exchange.method)
    return exchange.peer.slots


def _read_params(
    serving: ActiveServer, exchange: IncomingRequest, route: Route | None, params: Mapping[str, Any]
) -> Any:
    """Return the typed params of a request that the server answers.

    Raises:
        McpError: the refusal of any other request.
    """
    method, forwarder = exchange.method, serving.forwarder
    if route is not None and (forwarder is not None or route.offered(serving)):
        try:
            return route.read(params)
        except StructureError as exc:
            raise McpError(INVALID_PARAMS, f"the params of {method!r} do not fit: {'; '.join(exc.faults)}") from None
    revision = exchange.context.revision
    custom = serving.internals.custom.method(method, revision)
    if custom is None and forwarder is not None and not is_specified(method):
        return params
    if custom is None:
        raise McpError(METHOD_NOT_FOUND, f"this server has no method {method!r} in revision {revision}")
    return custom.read(dict(params), exchange.context)


def _find(serving: ActiveServer, exchange: IncomingRequest, route: Route | None, params: Any) -> Responder:
    """Return the responder of a request with these typed params; raises `McpError` to refuse it.

    Args:
        route: None for a method that the specification does not have.
    """
    if route is not None and route.at_once is not None:
        return PreparedAnswer(serving, exchange, route.at_once)
    forwarder = serving.forwarder
    if forwarder is not None and exchange.method not in NEVER_FORWARDED:
        found = forwarder.find(exchange, params)
        if found is not None:
            return found
    if exchange.method == _CALL:
        return serving.tools.find(params.name, exchange.context.access) or NotFound("tool", params.name, serving.tools)
    if route is None or route.find is None:
        custom = serving.internals.custom.methods.get(exchange.method)
        if custom is None:  # the forwarder does not know it either
            revision = exchange.context.revision
            raise McpError(METHOD_NOT_FOUND, f"this server has no method {exchange.method!r} in revision {revision}")
        return custom
    return route.find(serving, exchange, params)


@define(eq=False)
class _PooledRequest:
    """A request that is answered in the handler pool, through the middleware if there is any."""

    serving: ActiveServer
    exchange: IncomingRequest
    _route: Route | None
    """None for a custom method."""
    _params: Any
    """Typed; or as they came, if the middleware is to see a request that is refused, or if they were not read yet."""
    past: PastRounds | None
    """The answers of earlier rounds, for a handler that is replayed."""
    _middleware: Sequence[Middleware]
    _refusal: McpError | None
    """The error that calling the handler with just these params raises."""
    responder: Responder | None
    """The responder, unless it has to be looked up when the handler starts; None afterwards."""
    _is_read: bool = field(default=True, kw_only=True, alias="is_read")
    """False if the params were not read yet."""
    _chain: MiddlewareChain | None = field(default=None, init=False)

    async def handle(self, run: HandlerRun) -> JsonObject:
        """Return the result; raises what `explain` takes."""
        serving, exchange, past, route = self.serving, self.exchange, self.past, self._route
        serving.background.adopt()
        if not self._is_read:
            self._read()
        responder, self.responder = self.responder, None  # which may refer to the context, and so to this
        if responder is None and not self._middleware:
            responder = _find(serving, exchange, route, self._params)
        pinned = b""
        if route is not None and route.may_come_back and (responder is None or responder.may_ask):
            pinned = pin(exchange)
        context = Context(run, serving, past, pinned)
        try:
            if responder is not None:
                outcome = await responder.call(context, self._params)
            else:
                outcome = await self._pass_middleware(run, context)
        finally:
            progress = progress_of(context)
            if progress is not None:
                progress.finish()
        server = serving.server
        if isinstance(outcome, ExtensionResult) or exchange.method in serving.internals.custom.methods:
            outcome = complete_result(outcome, run.method, run.context, server.extensions)
        hint = server.cache.get(exchange.method, NOT_KEPT) if route is not None and route.is_kept else None
        result = finish_result(outcome, exchange.context, serving.info_json, hint)
        if serving.changes.unsaid:
            serving.changes.notify_now()
        if (past is not None or run.pending is not None) and "ttlMs" in result:
            return {**result, **NOT_KEPT.to_wire()}  # it depends on the client's answers: no other client may get it
        return result

    def _read(self) -> None:
        self._params = _read_params(self.serving, self.exchange, self._route, self._params)
        self._is_read = True

    # --- Without a task: see `peer.Forwarding` and `TasklessRequest` ---
    # Each knows what it has and says `Any`: `isinstance` of an abstract class takes a hundredth of a forwarded call,
    # and `cast` a thousandth.

    @property
    def deadline(self) -> float:
        """The deadline of the caller, on Trio's clock."""
        run: Any = self.exchange.run
        deadline: float = run.caller_deadline
        return deadline

    def begin(self) -> bool:
        """Let the responder begin to answer."""
        responder: Any = self.responder
        has_begun: bool = responder.begin_nowait(self)
        return has_begun

    def give_up(self) -> None:
        """Let the responder give up."""
        responder: Any = self.responder
        responder.give_up()

    def needs_task(self) -> None:
        """Continue in a task."""
        run: Any = self.exchange.run
        run.needs_task()

    def answer(self, outcome: types.Model | JsonObject | Exception) -> None:
        """Answer with the result of the responder, or with the explanation of its exception."""
        serving, exchange = self.serving, self.exchange
        run: Any = exchange.run
        self.responder = None  # as above
        if isinstance(outcome, Exception):
            if isinstance(outcome, CallerDeadlineError):
                exchange.deadline_passed()
            run.answered(self.explain(outcome))
            return
        hint = None
        if self._route is not None and self._route.is_kept:
            hint = serving.server.cache.get(exchange.method, NOT_KEPT)
        run.answered(finish_result(outcome, exchange.context, serving.info_json, hint))

    def explain(self, failure: Exception) -> JsonObject | McpError:
        """Return the answer to a request whose handler, or middleware, has raised an exception."""
        serving, exchange, chain, params = self.serving, self.exchange, self._chain, self._params
        serving.changes.notify_now()
        if chain is not None:
            if failure is not chain.handler_failure and not isinstance(failure, (*_DELIBERATE, OutOfTimeError)):
                _log.error("answering %r failed outside of its handler", exchange.method, exc_info=failure)
                return McpError(INTERNAL_ERROR, f"{exchange.method!r} failed; the server's log says why")
            params = chain.params
        elif not self._is_read and not isinstance(failure, McpError):
            try:
                self._read()
            except McpError as refusal:
                return refusal
            params = self._params
        answer = _explain(serving.server, exchange.method, params, exchange.context, failure)
        if isinstance(answer, McpError):
            return answer
        return finish_result(answer, exchange.context, serving.info_json)

    async def _pass_middleware(self, run: HandlerRun, context: Context) -> Any:
        """Return what the middleware returns, typed, or as the page of a list that it has not changed.

        Raises:
            Exception: raised by the handler or the middleware.
        """
        serving, exchange = self.serving, self.exchange
        method, rows = exchange.method, types.METHODS[run.context.revision]
        page: JsonObject = {}
        interim: JsonObject | None = None
        typed_page: Any = None

        async def handle(params: Any) -> Any:
            nonlocal page, typed_page, interim
            result = await self._answer(context, params)
            if method not in rows or not isinstance(result, dict):
                return result
            kind: object = cast("JsonObject", result).get("resultType", "complete")
            if kind != "complete":  # of a forwarder: middleware cannot read it
                interim = cast("JsonObject", result)
                return interim
            if method == _CALL:
                return types.structure(result, types.CallToolResult)
            page = cast("JsonObject", result)
            typed_page = types.structure(decode(encode(page)), rows[method].results[0])
            return typed_page

        read = partial(_read_params, serving, exchange, self._route)
        self._chain = MiddlewareChain(
            self._middleware, exchange.params or {}, read, handle, self._params, self._refusal
        )
        outcome = await self._chain.run(method, context)
        if outcome is not None and outcome is typed_page:
            return page
        if outcome is not None and outcome is interim:
            return interim
        if method not in rows:
            return outcome
        name = getattr(self._chain.params, "name", "")
        return checked_result(outcome, method, run.context.revision, name)

    async def _answer(self, context: Context, params: Any) -> Any:
        """Answer with the params that the middleware has handed on."""
        serving, exchange, route = self.serving, self.exchange, self._route
        if self._refusal is not None and isinstance(self._params, types.Model) and params.request_state is not None:
            raise self._refusal  # a retry that was refused passes only if the middleware has removed its state
        return await _find(serving, exchange, route, params).call(context, params)


# --- Results and failures ---


def finish_result(
    result: types.Model | JsonObject,
    context: ExchangeContext,
    server_info: JsonObject,
    hint: CacheHint | None = NOT_KEPT,
) -> JsonObject:
    """Return the JSON object of a result in its revision, with what the revision adds to every result.

    Args:
        result: typed, or in its JSON form, which may be changed.
        server_info: the name of the server, in the shape of `types.Implementation`.
        hint: the cache hint of a result that has none; None for JSON of a method whose results are not cached.

    Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic#result-responses
    """
    json: JsonObject = result if isinstance(result, dict) else types.unstructure(result, revision=context.revision)
    if context.revision in MODERN_REVISIONS:
        kind = json.setdefault("resultType", "complete")
        if hint is not None and kind == "complete" and (json is result or hasattr(result, "ttl_ms")):
            json = {**hint.to_wire(), **json}
        json["_meta"] = {SERVER_INFO_KEY: server_info, **json.get("_meta", {})}
    return json


def _explain(
    server: Server, method: str, params: Any, context: ExchangeContext, failure: Exception
) -> types.CallToolResult | McpError:
    """Return the answer that stands for an exception of a handler: a tool error, or a protocol error (rules 1 to 4).

    Args:
        params: the params that the handler was given.
    """
    refusal = refusal_of(failure, context)
    if refusal is not None:
        return refusal
    if isinstance(failure, MissingCapability | AskExpired | CallerDeadlineError):
        if method == _CALL:
            return types.CallToolResult(content=[types.TextContent(text=str(failure))], is_error=True)
        return McpError(INTERNAL_ERROR, f"{method!r}: {failure}")
    if isinstance(failure, NotReturnable):
        _log.error("%s", failure)
    elif method == _CALL and isinstance(params, types.CallToolRequestParams):
        return server.tools.explain(params.name, failure)
    else:
        _log.error("answering %r failed", method, exc_info=exc_info_of(failure))
    return McpError(INTERNAL_ERROR, f"{method!r} failed; the server's log says why")
