"""A server while it is being served: the state of one serving, and the answer to every request.

A request goes from its method to a route, to typed params, to a responder, to a result. Small answers that need no
user code are made by the task that received the request. Everything else runs in the handler pool, and so does every
request that passes middleware. The order of refusals is the specification's: unknown method first, then params.

Rules of this file:

1. A route is worked out once for each method and revision. The responder of a request is looked up when the request is
   answered, because tools, resources and prompts come and go while the server is being served.
2. `McpError` is the handler's own choice of a protocol error, `ToolError` that of a tool error.
3. A capability that the client has not declared is -32021 in a modern revision. Legacy revisions have no code for it:
   there it is a tool error, or -32603 with the same message. So is the end of a handler whose caller's deadline passed.
4. If a question cannot be asked because too many handlers are parked, the request is refused as busy.
5. Any other exception is a bug and goes to the log. The model is told what a tool raised; other requests are answered
   with an internal error that says nothing more, and so is a tool whose return value cannot be sent.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast, get_args
from weakref import WeakKeyDictionary

import trio
from attrs import define, field, frozen

from .. import types
from .._errors import AskExpired, McpError, MissingCapability, StructureError, ToolError, TooManyParked
from .._extensions import with_plain_extensions
from .._misuse import require_trio
from .._tracing import TRACING_MODULE
from .._util import owned_nursery
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
    is_modern,
)
from ._background import BackgroundTasks, open_background
from ._context import Context, progress_of
from ._extension_points import internals_of, open_parts
from ._extensions import NO_DEADLINE, ExtensionResult, complete_result, deadline_of, refusal_of
from ._middleware import MiddlewareChain, checked_result
from ._notifications import NotificationQueue, SlotsByKind
from ._processes import Processes, open_processes, refuse_in_starting_worker
from ._stopping import EndWatch, running_handlers
from ._threads import Threads
from .asking import ASKABLE, AskingMode, PastRounds, Seals, pin, resume
from .features import (
    NOT_KEPT,
    CacheableMethod,
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
    listen,
)

if TYPE_CHECKING:
    from ._middleware import Middleware
    from ._server import Server, ServerInternals

__all__ = [
    "ROUTES",
    "ActiveServer",
    "ServerStatistics",
    "finish_result",
    "open_serving",
]

_log = logging.getLogger("trio_mcp.server")

_CALL = "tools/call"
_DELIBERATE = (McpError, ToolError, MissingCapability, AskExpired, TooManyParked)
"""Exceptions that mean the same whether a handler or a middleware function raises them."""


# --- Serving ---


@frozen(kw_only=True)
class ServerStatistics:
    """A snapshot of what a serving holds, for debugging."""

    running: int
    """Handlers that have started and not ended, including those that clean up after a cancellation."""
    parked: int
    """Running handlers that wait for answers while no request waits for them."""
    threads: int
    """Worker threads at work, including those abandoned by a cancellation."""
    processes: int
    """Worker processes of isolated tools, including idle ones."""
    background: int
    """Background tasks."""
    listening: int
    """Listeners for changes: open subscriptions, and connections that have made a handshake."""


@define(eq=False)
class ActiveServer:
    """One serving of a server, shared by all its connections. `Server.serving` makes it."""

    server: Server
    pool: HandlerPool
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
    """What packages beside the core keep for this serving, by `ServingPart`."""
    internals: ServerInternals = field(init=False)
    """The internals of the server."""
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

    def __attrs_post_init__(self) -> None:
        server = self.server
        self.internals = internals_of(server)
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
        """Return True if the caller sees a tool of this name."""
        return self.tools.find(name, access) is not None

    def resource_updated(self, uri: str) -> None:
        """Notify every client that subscribed to a resource; never waits, and may be called from any thread."""
        self.internals.changes.resource_updated(uri)

    def input_schema(self, tool: str, access: Access | None) -> JsonObject | None:
        """Return a tool's input schema, as modern clients list it; None if the caller sees no such tool."""
        return self.server.tools.input_schema(tool, access)

    def needed_scopes(self, method: str, params: JsonObject, access: Access | None) -> frozenset[str]:
        """Return the scopes that a request needs; empty if it needs none."""
        return self.server.needed_scopes(method, params, access)

    def admission(self) -> Admission:
        """Return the admission of a new connection."""
        return ServerSession(self.server.revisions)

    def answer(self, exchange: IncomingRequest) -> None:
        """Begin to answer a request; synchronous."""
        span = exchange.begin_span() if TRACING_MODULE in sys.modules else None
        if span is None:
            _dispatch(self, exchange)
        else:
            with span.active():
                _dispatch(self, exchange)

    def notified(self, method: str, params: JsonObject, peer: Peer, envelope: MessageOrigin = NO_ORIGIN) -> None:
        """Take a notification that belongs to no request."""
        self.notifications.take(method, params, peer, envelope)

    def stop(self) -> None:
        """Let open questions expire and refuse new ones; synchronous. Handlers continue until the serving is closed."""
        self.pool.parking.close()

    def statistics(self) -> ServerStatistics:
        """Return a snapshot of what the serving holds."""
        return ServerStatistics(
            running=self.pool.running,
            parked=self.pool.parking.parked,
            threads=self.threads.working,
            processes=self.processes.alive,
            background=self.background.running,
            listening=self.changes.listening,
        )


@asynccontextmanager
async def open_serving(server: Server, asking: AskingMode, *, lasts: bool = True) -> AsyncGenerator[ActiveServer]:
    """Enter the server's lifespan and open its handler pool.

    When the block ends, open questions expire, their handlers clean up for a bounded time, and handlers that still run
    are cancelled.

    Args:
        lasts: True if the serving outlives a single request, so that there may be background tasks.
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
                        opened.append(ActiveServer(server, pool, state, hub, background, processes, asking, parts))
                        internals_of(server).servings.append(opened[0])
                        try:
                            yield opened[0]
                        finally:
                            opened[0].stop()  # also when cancelled: a shielded clean-up may wait for an answer
            finally:
                watch.ended()
    finally:
        watch.ended()
        for serving in opened:
            internals_of(server).servings.remove(serving)
        for left in [each for serving in opened for each in serving.threads.at_work()]:
            _log.warning("%s goes on in a worker thread after the stop; it stands at %s", left.name, left.place)


# --- Routes ---

AnswerAtOnce: TypeAlias = "Callable[[ActiveServer, IncomingRequest, Any], Any]"
"""Answers without waiting: takes typed params, returns a typed result, or raises `McpError`."""


class Responder(Protocol):
    """An object that answers a request in the handler pool: a tool, for example, or a list."""

    @property
    def waits(self) -> bool:
        """True if answering may wait for something."""
        ...

    @property
    def may_ask(self) -> bool:
        """True if its handler may ask questions in the result of the request: then the request is pinned before."""
        ...

    def call(self, context: Context, params: Any, /) -> Awaitable[Any]:
        """Answer: take typed params, and return a typed result, or a list in its JSON form, or raise."""
        ...


FindResponder: TypeAlias = "Callable[[ActiveServer, IncomingRequest, Any], Responder]"
"""Looks up the responder of a request with these typed params; raises `McpError` to refuse it."""


@frozen
class Route:
    """The way in which one method of the specification is answered in one revision."""

    offered: Callable[[ActiveServer], bool]
    """Tells whether the server offers the method's feature."""
    read: Callable[[Any], Any]
    """Makes typed params of JSON; raises `StructureError`."""
    at_once: AnswerAtOnce | None
    """Answers without the handler pool, if the method can be answered so."""
    find: FindResponder | None
    """Looks up the responder in the handler pool; None if there is `at_once`."""
    may_come_back: bool
    """True if a request may be a retry that brings answers to questions."""
    is_kept: bool
    """True if clients of this revision may cache the results."""


class _Routes(dict[str, Route | None]):
    """The routes of one revision, each made at its first use: that takes time, and most connections need a few."""

    def __init__(self, revision: str) -> None:
        super().__init__()
        self._revision = revision

    def __missing__(self, method: str) -> Route | None:
        if method not in _ANSWERED:  # a peer may send any name: unknown ones are not stored
            return None
        route = self[method] = _route(method, self._revision)
        return route


def _route(method: str, revision: str) -> Route | None:
    row = types.METHODS[revision].get(method)
    if row is None or row.direction == "server":
        return None
    return Route(
        offered=_OFFERED.get(method.partition("/")[0], _always),
        read=types.structurer(row.params, revision),
        at_once=_AT_ONCE.get(method),
        find=_IN_POOL.get(method),
        may_come_back=method in ASKABLE and is_modern(revision),
        is_kept=method in get_args(CacheableMethod) and is_modern(revision),
    )


def _always(_: ActiveServer) -> bool:
    return True


def _list(serving: ActiveServer, exchange: IncomingRequest, _: Any) -> Responder:
    return serving.lists[exchange.method]


def _tool(serving: ActiveServer, exchange: IncomingRequest, params: types.CallToolRequestParams) -> Responder:
    tool = serving.tools.find(params.name, exchange.context.access)
    return tool or NotFound("tool", params.name, serving.tools)


def _prompt(serving: ActiveServer, exchange: IncomingRequest, params: types.GetPromptRequestParams) -> Responder:
    prompt = serving.prompts.find(params.name, exchange.context.access)
    return prompt or NotFound("prompt", params.name, serving.prompts)


def _resource(serving: ActiveServer, exchange: IncomingRequest, params: types.ReadResourceRequestParams) -> Responder:
    resources = serving.resources
    return resources.catalog.find(params.uri, exchange.context.access) or resources


def _completions(serving: ActiveServer, _: IncomingRequest, __: Any) -> Responder:
    return serving.server.completions


def _initialize(serving: ActiveServer, exchange: IncomingRequest, _: Any) -> types.InitializeResult:
    server, declared = serving.server, serving.server.capabilities
    serving.subscribers.begin(exchange.peer, declared, exchange.context.access)
    return types.InitializeResult(
        protocol_version=exchange.context.revision,
        capabilities=with_plain_extensions(declared),
        server_info=server.info,
        instructions=server.instructions,
    )


def _discover(serving: ActiveServer, _: IncomingRequest, __: Any) -> types.DiscoverResult:
    server = serving.server
    hint = server.cache.get("server/discover", NOT_KEPT)
    return types.DiscoverResult(
        result_type="complete",
        supported_versions=list(server.revisions),
        capabilities=server.capabilities,
        instructions=server.instructions,
        ttl_ms=hint.ttl_ms,
        cache_scope=hint.scope,
    )


def _empty(_: ActiveServer, __: IncomingRequest, ___: Any) -> types.EmptyResult:
    return types.EmptyResult()


def _subscribe(serving: ActiveServer, exchange: IncomingRequest, params: Any) -> types.EmptyResult:
    serving.subscribers.subscribe(exchange.peer, params.uri, exchange.context.access)
    return types.EmptyResult()


def _unsubscribe(serving: ActiveServer, exchange: IncomingRequest, params: Any) -> types.EmptyResult:
    serving.subscribers.unsubscribe(exchange.peer, params.uri)
    return types.EmptyResult()


_OFFERED: Mapping[str, Callable[[ActiveServer], bool]] = {
    "completion": lambda serving: serving.server.completions.offered,
    "prompts": lambda serving: serving.prompts.offered,
    "resources": lambda serving: serving.resources.offered,
    "tools": lambda serving: serving.tools.offered,
}
"""Whether a server offers a feature, by the first part of the method names; other methods are always offered."""
_AT_ONCE: Mapping[str, AnswerAtOnce] = {
    "initialize": _initialize,
    "logging/setLevel": _empty,  # the connection's admission remembers the level
    "ping": _empty,
    "resources/subscribe": _subscribe,
    "resources/unsubscribe": _unsubscribe,
    "server/discover": _discover,
}
_IN_POOL: Mapping[str, FindResponder] = {
    "completion/complete": _completions,
    "prompts/get": _prompt,
    "prompts/list": _list,
    "resources/list": _list,
    "resources/read": _resource,
    "resources/templates/list": _list,
    "tools/call": _tool,
    "tools/list": _list,
    LISTEN: listen,
}
_ANSWERED = frozenset({*_AT_ONCE, *_IN_POOL})
ROUTES: Mapping[str, Mapping[str, Route | None]] = {revision: _Routes(revision) for revision in types.REVISIONS}
"""The routes by revision and method; None if there is no such method, or the server does not answer it."""


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
    try:
        params = _read_params(serving, exchange, route, params)
        if route is not None and route.may_come_back and (params.request_state is not None or params.input_responses):
            past = resume(serving, exchange, params.request_state, deadline)
            if past is None:  # its handler was parked and continues, within the middleware that it was called from
                return
        if not middleware:
            if route is not None and route.at_once is not None:
                result = route.at_once(serving, exchange, params)
                exchange.respond(finish_result(result, exchange.context, internals.info_json))
                return
            responder = _find(serving, exchange, route, params)
    except McpError as error:
        if not middleware:
            exchange.respond(error)
            return
        refusal = error
    slots = _slots(serving, exchange)
    request = _PooledRequest(serving, exchange, route, params, past, middleware, refusal, responder)
    waits = responder is None or responder.waits or past is not None
    serving.pool.begin(exchange, request.handle, request.explain, slots, waits=waits, deadline=deadline)
    if isinstance(responder, ListenSubscription):
        if exchange.run is not None:  # else there are too many already
            exchange.run.closing_result = responder.conclude
    elif slots.waiting:  # it may be waiting for its slot: what is registered when it gets one counts
        request.responder = None


def _slots(serving: ActiveServer, exchange: IncomingRequest) -> HandlerSlots:
    """Return the slots from which a request takes its slot."""
    if exchange.method == LISTEN:
        return exchange.peer.listens
    if exchange.method in _AT_ONCE:
        return serving.small_answers.of(exchange.peer, exchange.method)
    return exchange.peer.slots


def _read_params(
    serving: ActiveServer, exchange: IncomingRequest, route: Route | None, params: Mapping[str, Any]
) -> Any:
    """Return the typed params of a request that the server answers.

    Raises:
        McpError: the refusal of any other request.
    """
    method = exchange.method
    if route is not None and route.offered(serving):
        try:
            return route.read(params)
        except StructureError as exc:
            raise McpError(INVALID_PARAMS, f"the params of {method!r} do not fit: {'; '.join(exc.faults)}") from None
    revision = exchange.context.revision
    custom = serving.internals.custom.method(method, revision)
    if custom is None:
        raise McpError(METHOD_NOT_FOUND, f"this server has no method {method!r} in revision {revision}")
    return custom.read(dict(params), exchange.context)


def _find(serving: ActiveServer, exchange: IncomingRequest, route: Route | None, params: Any) -> Responder:
    if route is None or route.find is None:
        return serving.internals.custom.methods[exchange.method]
    return route.find(serving, exchange, params)


@define(eq=False)
class _PooledRequest:
    """A request that is answered in the handler pool, through the middleware if there is any."""

    _serving: ActiveServer
    _exchange: IncomingRequest
    _route: Route | None
    """None for a custom method."""
    _params: Any
    """Typed; or as they came, if the middleware is to see a request that is refused."""
    _past: PastRounds | None
    """The answers of earlier rounds, for a handler that is replayed."""
    _middleware: Sequence[Middleware]
    _refusal: McpError | None
    """The error that calling the handler with just these params raises."""
    responder: Responder | None
    """The responder, unless it has to be looked up when the handler starts."""
    _chain: MiddlewareChain | None = field(default=None, init=False)

    async def handle(self, run: HandlerRun) -> JsonObject:
        """Return the result; raises what `explain` takes."""
        serving, exchange, past, route = self._serving, self._exchange, self._past, self._route
        serving.background.adopt()
        responder = self.responder
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
        if route is None or isinstance(outcome, ExtensionResult):
            outcome = complete_result(outcome, run.method, run.context, server.extensions)
        hint = server.cache.get(exchange.method, NOT_KEPT) if route is None or route.is_kept else None
        result = finish_result(outcome, exchange.context, serving.info_json, hint)
        if serving.changes.unsaid:
            serving.changes.notify_now()
        if (past is not None or run.pending is not None) and "ttlMs" in result:
            return {**result, **NOT_KEPT.to_wire()}  # it depends on the client's answers: no other client may get it
        return result

    def explain(self, failure: Exception) -> JsonObject | McpError:
        """Return the answer to a request whose handler, or middleware, has raised an exception."""
        serving, exchange, chain, params = self._serving, self._exchange, self._chain, self._params
        serving.changes.notify_now()
        if chain is not None:
            if failure is not chain.handler_failure and not isinstance(failure, (*_DELIBERATE, OutOfTimeError)):
                _log.error("answering %r failed outside of its handler", exchange.method, exc_info=failure)
                return McpError(INTERNAL_ERROR, f"{exchange.method!r} failed; the server's log says why")
            params = chain.params
        answer = _explain(serving.server, exchange.method, params, exchange.context, failure)
        if isinstance(answer, McpError):
            return answer
        return finish_result(answer, exchange.context, serving.info_json)

    async def _pass_middleware(self, run: HandlerRun, context: Context) -> Any:
        """Return what the middleware returns, typed, or as the page of a list that it has not changed.

        Raises:
            Exception: raised by the handler or the middleware.
        """
        serving, exchange = self._serving, self._exchange
        method, rows = exchange.method, types.METHODS[run.context.revision]
        page: JsonObject = {}
        typed_page: Any = None

        async def handle(params: Any) -> Any:
            nonlocal page, typed_page
            result = await self._answer(context, params)
            if method not in rows or not isinstance(result, dict):
                return result
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
        if method not in rows:
            return outcome
        name = getattr(self._chain.params, "name", "")
        return checked_result(outcome, method, run.context.revision, name)

    async def _answer(self, context: Context, params: Any) -> Any:
        """Answer with the params that the middleware has handed on."""
        serving, exchange, route = self._serving, self._exchange, self._route
        if self._refusal is not None and isinstance(self._params, types.Model) and params.request_state is not None:
            raise self._refusal  # a retry that was refused passes only if the middleware has removed its state
        if route is not None and route.at_once is not None:
            return route.at_once(serving, exchange, params)
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
    """Return the answer that stands for an exception of a handler: a tool error, or a protocol error (rules 2 to 5).

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
        _log.error("answering %r failed", method, exc_info=failure)
    return McpError(INTERNAL_ERROR, f"{method!r} failed; the server's log says why")
