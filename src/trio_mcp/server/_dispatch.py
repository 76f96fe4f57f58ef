"""Method -> params -> handler -> result: how a server begins to answer an exchange, whatever carried it.

Small answers that need no user code are given on the spot, by whoever received the request; everything else runs
in the hall, and so does everything that passes middleware. The order of refusals is the specification's: unknown
method, then params, then the rest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from .. import types
from .._errors import McpError, StructureError
from .._extensions import with_plain_extensions
from ..peer import Exchange, ExchangeContext, Run, Slots
from ..wire import INVALID_PARAMS, LISTEN, METHOD_NOT_FOUND, JsonObject
from ._asking import ASKABLE, resume
from ._cache import NOT_KEPT
from ._context import Context, finish
from ._custom import settled
from ._explain import explain
from ._passing import Passing
from ._replay import Past
from ._results import finish_result, not_to_be_kept
from ._subscriptions import listen, listen_in

if TYPE_CHECKING:
    from ._catalog import Catalog
    from ._server import Server
    from ._serving import Serving

__all__ = ["dispatch"]

AtOnce: TypeAlias = "Callable[[Serving, Exchange, Any], Any]"
"""Answers without waiting: takes typed params, returns a typed result, or raises `McpError`."""
InHall: TypeAlias = "Callable[[Serving, Run, Context, Any], Awaitable[Any]]"
"""Answers in a task: takes typed params, returns a typed result, or a list in its JSON form, or raises."""


def dispatch(serving: Serving, exchange: Exchange) -> None:
    """Answer *exchange*, now or from a task of the hall."""
    method, context, server = exchange.method, exchange.context, serving.server
    params: Any = exchange.params or {}
    refusal: McpError | None = None
    past: Past | None = None
    try:
        params = _read_params(serving, method, params, context)
        if not server.all_middleware and method in _AT_ONCE:
            result = _AT_ONCE[method](serving, exchange, params)
            exchange.respond(finish_result(result, context, server.info_json))
            return
        if not server.all_middleware and method == LISTEN:
            listen(serving, exchange, params)
            return
        if method in ASKABLE and context.modern and (params.request_state is not None or params.input_responses):
            past = resume(serving, exchange, params.request_state)
            if past is None:  # its handler was parked, and goes on, within the middleware that it was called from
                return
    except McpError as error:
        if not server.all_middleware:
            exchange.respond(error)
            return
        refusal = error
    passing: Passing | None = None
    if server.all_middleware:
        answer_it = partial(_answer_anew, refusal) if refusal and isinstance(params, types.Model) else _answer
        passing = Passing(serving, exchange, partial(_read_params, serving, method, context=context), answer_it)
        passing.offer(params, refusal)

    async def handle(run: Run) -> JsonObject:
        serving.background.adopt()
        view = Context(run, serving, past)
        hint = server.cache.get(method, NOT_KEPT)
        try:
            answer = passing.go(run, view) if passing else _answer(serving, exchange, run, view, params)
            outcome = settled(server, run, await answer)
        finally:
            finish(view)
        result = finish_result(outcome, context, server.info_json, hint)
        serving.changes.tell_now()
        return result if past is None and run.waiting is None else not_to_be_kept(result)

    def explain_failure(failure: Exception) -> JsonObject | McpError:
        serving.changes.tell_now()
        answer: Any = passing.explain(failure) if passing else explain(server, method, params, context, failure)
        return answer if isinstance(answer, McpError) else finish_result(answer, context, server.info_json)

    serving.hall.begin(exchange, handle, explain_failure, _slots(serving, exchange))


def _slots(serving: Serving, exchange: Exchange) -> Slots | None:
    """Return where a request takes its slot; None for where most do."""
    if exchange.method == LISTEN:
        return exchange.peer.listens
    return serving.small_answers.of(exchange.peer, exchange.method) if exchange.method in _AT_ONCE else None


def _read_params(serving: Serving, method: str, params: Mapping[str, Any], context: ExchangeContext) -> Any:
    """Return the typed params of a request this server answers; raises the refusal of any other."""
    revision = context.revision
    own = serving.server.own.method(method, revision)
    if own is not None:
        return own.read(dict(params), context)
    row = types.METHODS[revision].get(method)
    if row is None or row.kind != "request" or row.direction == "server" or not _offered(serving, method):
        raise McpError(METHOD_NOT_FOUND, f"this server has no method {method!r} in revision {revision}")
    try:
        return types.structure(params, row.params, revision=revision)
    except StructureError as exc:
        raise McpError(INVALID_PARAMS, f"the params of {method!r} do not fit: {'; '.join(exc.faults)}") from None


def _offered(serving: Serving, method: str) -> bool:
    answered = method in _AT_ONCE or method in _IN_HALL or method == LISTEN
    return answered and serving.server.offers(method.partition("/")[0])


def _answer(serving: Serving, exchange: Exchange, run: Run, context: Context, params: Any) -> Awaitable[Any]:
    """Answer in a task what this server offers; what is answered at once comes here only where there is middleware."""
    method = exchange.method
    in_hall = _IN_HALL.get(method)
    if in_hall is not None:
        return in_hall(serving, run, context, params)
    if method in _AT_ONCE:
        return _answer_at_once(serving, exchange, params)
    if method == LISTEN:
        return listen_in(run, serving, exchange, params)
    return serving.server.own.methods[method].call(serving, run, context, params)


async def _answer_at_once(serving: Serving, exchange: Exchange, params: Any) -> Any:
    return _AT_ONCE[exchange.method](serving, exchange, params)


async def _answer_anew(
    refusal: McpError, serving: Serving, exchange: Exchange, run: Run, context: Context, params: Any
) -> Any:
    """Answer a retry that was refused for its state or its answers, if middleware has taken these out."""
    if params.request_state is not None:
        raise refusal
    return await _answer(serving, exchange, run, context, params)


def _initialize(serving: Serving, exchange: Exchange, _: Any) -> types.InitializeResult:
    server, declared = serving.server, serving.server.capabilities
    serving.subscribers.begin(exchange.peer, declared)
    return types.InitializeResult(
        protocol_version=exchange.context.revision,
        capabilities=with_plain_extensions(declared),
        server_info=server.info,
        instructions=server.instructions,
    )


def _discover(serving: Serving, _: Exchange, __: Any) -> types.DiscoverResult:
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


def _empty(_: Serving, __: Exchange, ___: Any) -> types.EmptyResult:
    return types.EmptyResult()


def _subscribe(serving: Serving, exchange: Exchange, params: Any) -> types.EmptyResult:
    serving.subscribers.subscribe(exchange.peer, params.uri)
    return types.EmptyResult()


def _unsubscribe(serving: Serving, exchange: Exchange, params: Any) -> types.EmptyResult:
    serving.subscribers.unsubscribe(exchange.peer, params.uri)
    return types.EmptyResult()


def _lists(catalog_of: Callable[[Server], Catalog[Any]]) -> InHall:
    """Return what answers the request for the list that *catalog_of* picks."""

    async def answer(serving: Serving, _: Run, context: Context, params: Any) -> JsonObject:
        server = serving.server
        return catalog_of(server).page(context.revision, params.cursor, server.page_size, server.cursors)

    return answer


async def _call_tool(serving: Serving, run: Run, context: Context, params: Any) -> Any:
    return await serving.server.tools.call(serving, run, context, params)


async def _read_resource(serving: Serving, _: Run, context: Context, params: Any) -> types.ReadResourceResult:
    return await serving.server.resources.read(serving, context, params.uri)


async def _complete(serving: Serving, _: Run, context: Context, params: Any) -> types.CompleteResult:
    return await serving.server.completions.complete(serving, context, params)


async def _get_prompt(serving: Serving, _: Run, context: Context, params: Any) -> types.GetPromptResult:
    return await serving.server.prompts.get(serving, context, params)


_AT_ONCE: Mapping[str, AtOnce] = {
    "initialize": _initialize,
    "logging/setLevel": _empty,  # the connection's gate remembers the level
    "ping": _empty,
    "resources/subscribe": _subscribe,
    "resources/unsubscribe": _unsubscribe,
    "server/discover": _discover,
}
_IN_HALL: Mapping[str, InHall] = {
    "completion/complete": _complete,
    "prompts/get": _get_prompt,
    "prompts/list": _lists(lambda server: server.prompts.catalog),
    "resources/list": _lists(lambda server: server.resources.catalog),
    "resources/read": _read_resource,
    "resources/templates/list": _lists(lambda server: server.resources.templates),
    "tools/call": _call_tool,
    "tools/list": _lists(lambda server: server.tools.catalog),
}
