"""Method -> params -> handler -> result: how a server begins to answer an exchange, whatever carried it.

Small answers are given on the spot, by whoever received the request; everything else runs in the hall, and so does
everything that passes middleware. The order of refusals is the specification's: unknown method, then params, then the
rest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, get_args

from attrs import define, field, frozen

from .. import types
from .._errors import McpError, StructureError
from .._extensions import with_plain_extensions
from ..peer import ExchangeContext, HandlerRun, HandlerSlots, IncomingRequest
from ..wire import INVALID_PARAMS, LISTEN, METHOD_NOT_FOUND, SERVER_INFO_KEY, JsonObject, is_modern
from ._context import Context, finish
from ._error_responses import explain
from ._extensions import ExtensionResult, resolved
from ._middleware import MiddlewareRun
from .asking import ASKABLE, PastRounds, resume
from .features import NOT_KEPT, CacheableMethod, CacheHint, listen, listen_in

if TYPE_CHECKING:
    from ._server import Server
    from ._serving import ActiveServer
    from .features import Catalog

__all__ = ["ROUTES", "AtOnce", "Responder", "Route", "answers_at_once", "dispatch", "finish_result", "not_to_be_kept"]


# What answers which method: worked out once for each method and revision, and looked up for each request.
#
# Small answers that need no user code are made on the spot; everything else is answered by what is registered, which
# is
# looked for when a request is to be answered, because it comes and goes while the server is being served.

AtOnce: TypeAlias = "Callable[[ActiveServer, IncomingRequest, Any], Any]"
"""Answers without waiting: takes typed params, returns a typed result, or raises `McpError`."""


class Responder(Protocol):
    """What answers a request in the hall: a tool, say, or a list."""

    @property
    def waits(self) -> bool:
        """Whether answering may ever wait for something."""
        ...

    def call(self, serving: ActiveServer, run: HandlerRun, context: Context, params: Any, /) -> Awaitable[Any]:
        """Answer: takes typed params, returns a typed result, or a list in its JSON form, or raises."""
        ...


Find: TypeAlias = "Callable[[Server, Any], Responder]"
"""Looks for what answers a request with these typed params."""


@frozen
class Route:
    """How one method of the specification is answered in one revision."""

    feature: str
    """What the server must offer, as `Server.offers` takes it."""
    read: Callable[[Any], Any]
    """Makes typed params of JSON; raises `StructureError`."""
    at_once: AtOnce | None
    """Answers it on the spot, where that is possible."""
    find: Find | None
    """Looks for what answers it in the hall. Neither this nor `at_once` is there for requests to listen."""
    may_come_back: bool
    """Whether a request may be a retry: one that brings answers to questions."""
    is_kept: bool
    """Whether clients of this revision may keep its results."""


class _Routes(dict[str, Route | None]):
    """The routes of one revision, made one by one: each takes some time, and most connections need a few."""

    def __init__(self, revision: str) -> None:
        super().__init__()
        self._revision = revision

    def __missing__(self, method: str) -> Route | None:
        if method not in _ANSWERED:  # anybody may ask for anything: nothing is kept of that
            return None
        route = self[method] = _route(method, self._revision)
        return route


def answers_at_once(method: str) -> bool:
    """Tell whether requests of *method* are answered without user code but for middleware."""
    return method in _AT_ONCE


def _route(method: str, revision: str) -> Route | None:
    row = types.METHODS[revision].get(method)
    if row is None or row.direction == "server":
        return None
    return Route(
        feature=method.partition("/")[0],
        read=types.structurer(row.params, revision),
        at_once=_AT_ONCE.get(method),
        find=_IN_POOL.get(method),
        may_come_back=method in ASKABLE and is_modern(revision),
        is_kept=method in get_args(CacheableMethod) and is_modern(revision),
    )


@frozen(eq=False)
class _List:
    """Answers the request for a list."""

    _catalog_of: Callable[[Server], Catalog[Any]]
    waits: bool = field(default=False, init=False)

    async def call(self, serving: ActiveServer, _: HandlerRun, context: Context, params: Any) -> JsonObject:
        server = serving.server
        return self._catalog_of(server).page(context.revision, params.cursor, server.page_size, server.cursors)


@frozen(eq=False)
class _NotFound:
    """Stands for what was asked for and is not there."""

    _text: str = field(alias="text")
    waits: bool = field(default=False, init=False)

    async def call(self, _: ActiveServer, __: HandlerRun, ___: Context, ____: Any) -> Any:
        raise McpError(INVALID_PARAMS, self._text)


def _lists(catalog_of: Callable[[Server], Catalog[Any]]) -> Find:
    each = _List(catalog_of)
    return lambda _, __: each


def _tool(server: Server, params: types.CallToolRequestParams) -> Responder:
    return server.tools.catalog.get(params.name) or _NotFound(f"no tool {params.name!r}")


def _prompt(server: Server, params: types.GetPromptRequestParams) -> Responder:
    return server.prompts.catalog.get(params.name) or _NotFound(f"no prompt {params.name!r}")


def _resource(server: Server, params: types.ReadResourceRequestParams) -> Responder:
    return server.resources.catalog.get(params.uri) or server.resources


def _initialize(serving: ActiveServer, exchange: IncomingRequest, _: Any) -> types.InitializeResult:
    server, declared = serving.server, serving.server.capabilities
    serving.subscribers.begin(exchange.peer, declared)
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
    serving.subscribers.subscribe(exchange.peer, params.uri)
    return types.EmptyResult()


def _unsubscribe(serving: ActiveServer, exchange: IncomingRequest, params: Any) -> types.EmptyResult:
    serving.subscribers.unsubscribe(exchange.peer, params.uri)
    return types.EmptyResult()


_AT_ONCE: Mapping[str, AtOnce] = {
    "initialize": _initialize,
    "logging/setLevel": _empty,  # the connection's gate remembers the level
    "ping": _empty,
    "resources/subscribe": _subscribe,
    "resources/unsubscribe": _unsubscribe,
    "server/discover": _discover,
}
_IN_POOL: Mapping[str, Find] = {
    "completion/complete": lambda server, _: server.completions,
    "prompts/get": _prompt,
    "prompts/list": _lists(lambda server: server.prompts.catalog),
    "resources/list": _lists(lambda server: server.resources.catalog),
    "resources/read": _resource,
    "resources/templates/list": _lists(lambda server: server.resources.templates),
    "tools/call": _tool,
    "tools/list": _lists(lambda server: server.tools.catalog),
}
_ANSWERED = frozenset({*_AT_ONCE, *_IN_POOL, LISTEN})
ROUTES: Mapping[str, Mapping[str, Route | None]] = {revision: _Routes(revision) for revision in types.REVISIONS}
"""By revision and method, how a request is answered; None where there is no such method, or no answer to it here."""


# A typed result as the JSON object of its revision, with what the revision adds to every result.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic#result-responses


def finish_result(
    result: types.Result | JsonObject,
    context: ExchangeContext,
    server_info: JsonObject,
    hint: CacheHint | None = NOT_KEPT,
) -> JsonObject:
    """Return what goes over the wire for *result*.

    Args:
        result: typed, or in its JSON form, which may be changed.
        server_info: how the server names itself, in the shape of `types.Implementation`.
        hint: for how long the result may be kept, and by whom, where it does not say so itself; None for JSON of a
            method whose results are not kept.
    """
    json: JsonObject = result if isinstance(result, dict) else types.unstructure(result, revision=context.revision)
    if is_modern(context.revision):
        kind = json.setdefault("resultType", "complete")
        if hint is not None and kind == "complete" and (json is result or hasattr(result, "ttl_ms")):
            json = {**hint.to_wire(), **json}
        json["_meta"] = {SERVER_INFO_KEY: server_info, **json.get("_meta", {})}
    return json


def not_to_be_kept(result: JsonObject) -> JsonObject:
    """Return a result that came of the client's answers: whatever it says, nobody else may be given it."""
    return {**result, **NOT_KEPT.to_wire()} if "ttlMs" in result else result


def dispatch(serving: ActiveServer, exchange: IncomingRequest) -> None:
    """Answer *exchange*, now or from a task of the hall."""
    server = serving.server
    if server.all_middleware:
        _pass_on(serving, exchange)
        return
    route, past = ROUTES[exchange.context.revision][exchange.method], None
    try:
        params = _read_params(serving, exchange, route, exchange.params or {})
        if route is None:
            responder: Responder = server.own.methods[exchange.method]
        elif route.at_once is not None:
            result = route.at_once(serving, exchange, params)
            exchange.respond(finish_result(result, exchange.context, server.info_json))
            return
        elif route.find is None:
            listen(serving, exchange, params)
            return
        else:
            if route.may_come_back and _brings_answers(params):
                past = resume(serving, exchange, params.request_state)
                if past is None:  # its handler was parked, and goes on
                    return
            responder = route.find(server, params)
    except McpError as error:
        exchange.respond(error)
        return
    answering = _Answering(serving, exchange, route, params, past)
    if responder.waits or past is not None:
        serving.pool.begin(exchange, answering.handle, answering.explain)
    else:
        answering.responder = responder
        serving.pool.begin(exchange, answering.handle, answering.explain, waits=False)
        answering.responder = None  # if it has to wait for its slot, what is registered then counts


def _pass_on(serving: ActiveServer, exchange: IncomingRequest) -> None:
    """Have *exchange* answered from a task of the hall, through the middleware."""
    route, past = ROUTES[exchange.context.revision][exchange.method], None
    params: Any = exchange.params or {}
    refusal: McpError | None = None
    try:
        params = _read_params(serving, exchange, route, params)
        if route is not None and route.may_come_back and _brings_answers(params):
            past = resume(serving, exchange, params.request_state)
            if past is None:  # its handler was parked, and goes on, within the middleware that it was called from
                return
    except McpError as error:
        refusal = error
    answer_it = partial(_answer_anew, refusal) if refusal and isinstance(params, types.Model) else _answer
    passing = MiddlewareRun(serving, exchange, partial(_read_params, serving, exchange, route), answer_it)
    passing.offer(params, refusal)
    answering = _Answering(serving, exchange, route, params, past, passing)
    serving.pool.begin(exchange, answering.handle, answering.explain, _slots(serving, exchange))


@define(eq=False)
class _Answering:
    """A request that is answered in the hall."""

    _serving: ActiveServer
    _exchange: IncomingRequest
    _route: Route | None
    """None for a method of the application's."""
    _params: Any
    """Typed; or as they came, where the middleware is to see what is refused."""
    _past: PastRounds | None
    """What a handler that begins anew was told before."""
    _passing: MiddlewareRun | None = None
    """Its way through the middleware, if there is any."""
    responder: Responder | None = field(default=None, init=False)
    """What answers it, as long as that need not be looked for."""

    async def handle(self, run: HandlerRun) -> JsonObject:
        """Return the result; raises what is to be explained."""
        serving, exchange, past = self._serving, self._exchange, self._past
        serving.background.adopt()
        view = Context(run, serving, past)
        try:
            if self.responder is not None:
                outcome = await self.responder.call(serving, run, view, self._params)
            elif self._passing is not None:
                outcome = await self._passing.go(run, view)
            else:
                outcome = await _answer(serving, exchange, run, view, self._params)
        finally:
            finish(view)
        server, route = serving.server, self._route
        if route is None or isinstance(outcome, ExtensionResult):
            outcome = resolved(server, run, outcome)
        hint = server.cache.get(exchange.method, NOT_KEPT) if route is None or route.is_kept else None
        result = finish_result(outcome, exchange.context, server.info_json, hint)
        if serving.changes.unsaid:
            serving.changes.notify_now()
        return result if past is None and run.waiting is None else not_to_be_kept(result)

    def explain(self, failure: Exception) -> JsonObject | McpError:
        """Return the answer that stands for a failure."""
        server, exchange = self._serving.server, self._exchange
        self._serving.changes.notify_now()
        answer: Any
        if self._passing is not None:
            answer = self._passing.explain(failure)
        else:
            answer = explain(server, exchange.method, self._params, exchange.context, failure)
        return answer if isinstance(answer, McpError) else finish_result(answer, exchange.context, server.info_json)


def _slots(serving: ActiveServer, exchange: IncomingRequest) -> HandlerSlots | None:
    """Return where a request that passes middleware takes its slot; None for where most do."""
    if exchange.method == LISTEN:
        return exchange.peer.listens
    return serving.small_answers.of(exchange.peer, exchange.method) if answers_at_once(exchange.method) else None


def _brings_answers(params: Any) -> bool:
    """Tell whether a request comes back with answers to questions."""
    return params.request_state is not None or bool(params.input_responses)


def _read_params(
    serving: ActiveServer, exchange: IncomingRequest, route: Route | None, params: Mapping[str, Any]
) -> Any:
    """Return the typed params of a request this server answers; raises the refusal of any other."""
    method, server = exchange.method, serving.server
    if route is not None and server.offers(route.feature):
        try:
            return route.read(params)
        except StructureError as exc:
            raise McpError(INVALID_PARAMS, f"the params of {method!r} do not fit: {'; '.join(exc.faults)}") from None
    revision = exchange.context.revision
    own = server.own.method(method, revision)
    if own is None:
        raise McpError(METHOD_NOT_FOUND, f"this server has no method {method!r} in revision {revision}")
    return own.read(dict(params), exchange.context)


async def _answer(
    serving: ActiveServer, exchange: IncomingRequest, run: HandlerRun, context: Context, params: Any
) -> Any:
    """Answer in a task what this server offers; what is answered at once comes here only where there is middleware."""
    route = ROUTES[exchange.context.revision][exchange.method]
    if route is None:
        return await serving.server.own.methods[exchange.method].call(serving, run, context, params)
    if route.find is not None:
        return await route.find(serving.server, params).call(serving, run, context, params)
    if route.at_once is not None:
        return route.at_once(serving, exchange, params)
    return await listen_in(run, serving, exchange, params)


async def _answer_anew(
    refusal: McpError, serving: ActiveServer, exchange: IncomingRequest, run: HandlerRun, context: Context, params: Any
) -> Any:
    """Answer a retry that was refused for its state or its answers, if middleware has taken these out."""
    if params.request_state is not None:
        raise refusal
    return await _answer(serving, exchange, run, context, params)
