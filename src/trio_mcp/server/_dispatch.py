"""Method -> params -> handler -> result: how a server begins to answer an exchange, whatever carried it.

Small answers that need no user code are given on the spot, by whoever received the request; everything else runs
in the hall. The order of refusals is the specification's: unknown method, then params, then the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from .. import types
from .._errors import McpError, StructureError
from ..peer import Exchange, Run
from ..wire import INTERNAL_ERROR, INVALID_PARAMS, LISTEN, METHOD_NOT_FOUND, JsonObject
from ._context import Context
from ._results import finish_result
from ._subscriptions import listen

if TYPE_CHECKING:
    from ._catalog import Catalog
    from ._server import Server
    from ._serving import Serving

__all__ = ["dispatch"]

_log = logging.getLogger("trio_mcp.server")

AtOnce: TypeAlias = "Callable[[Serving, Exchange, Any], Any]"
"""Answers without waiting: takes typed params, returns a typed result, or raises `McpError`."""
InHall: TypeAlias = "Callable[[Serving, Run, Context, Any], Awaitable[Any]]"
"""Answers in a task: takes typed params, returns a typed result, or a list in its JSON form, or raises."""


def dispatch(serving: Serving, exchange: Exchange) -> None:
    """Answer *exchange*, now or from a task of the hall."""
    context = exchange.context
    try:
        params = _read_params(serving, exchange)
        at_once = _AT_ONCE.get(exchange.method)
        if at_once is not None:
            result = at_once(serving, exchange, params)
            exchange.respond(finish_result(result, context, serving.server.info_json))
            return
    except McpError as error:
        exchange.respond(error)
        return
    if exchange.method == LISTEN:
        listen(serving, exchange, params)
        return
    in_hall = _IN_HALL[exchange.method]

    async def handle(run: Run) -> JsonObject:
        view = Context(run, context, serving.state, serving.limits, serving.server.changes)
        result = finish_result(await in_hall(serving, run, view, params), context, serving.server.info_json)
        serving.changes.tell_now()
        return result

    def explain(failure: Exception) -> JsonObject | McpError:
        serving.changes.tell_now()
        answer = _explain(serving, exchange, params, failure)
        return answer if isinstance(answer, McpError) else finish_result(answer, context, serving.server.info_json)

    serving.hall.begin(exchange, handle, explain)


def _read_params(serving: Serving, exchange: Exchange) -> Any:
    """Return the typed params of a request this server answers; raises the refusal of any other."""
    method, revision = exchange.method, exchange.context.revision
    row = types.METHODS[revision].get(method)
    if row is None or row.kind != "request" or row.direction == "server" or not _offered(serving, method):
        raise McpError(METHOD_NOT_FOUND, f"this server has no method {method!r} in revision {revision}")
    try:
        return types.structure(exchange.params or {}, row.params, revision=revision)
    except StructureError as exc:
        raise McpError(INVALID_PARAMS, f"the params of {method!r} do not fit: {'; '.join(exc.faults)}") from None


def _offered(serving: Serving, method: str) -> bool:
    answered = method in _AT_ONCE or method in _IN_HALL or method == LISTEN
    return answered and serving.server.offers(method.partition("/")[0])


def _explain(serving: Serving, exchange: Exchange, params: Any, failure: Exception) -> Any:
    """Turn what a handler raised into a result or an error; what is no deliberate answer goes to the log."""
    method = exchange.method
    if isinstance(failure, McpError):
        return failure
    if method == "tools/call":
        return serving.server.tools.explain(params.name, failure)
    _log.error("answering %r failed", method, exc_info=failure)
    return McpError(INTERNAL_ERROR, f"{method!r} failed; the server's log says why")


def _initialize(serving: Serving, exchange: Exchange, _: Any) -> types.InitializeResult:
    server, declared = serving.server, serving.server.capabilities
    serving.subscribers.begin(exchange.peer, declared)
    return types.InitializeResult(
        protocol_version=exchange.context.revision,
        capabilities=declared,
        server_info=server.info,
        instructions=server.instructions,
    )


def _discover(serving: Serving, _: Exchange, __: Any) -> types.DiscoverResult:
    server = serving.server
    return types.DiscoverResult(
        result_type="complete",
        supported_versions=list(server.revisions),
        capabilities=server.capabilities,
        instructions=server.instructions,
        ttl_ms=0,
        cache_scope="private",
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


async def _call_tool(serving: Serving, run: Run, context: Context, params: Any) -> types.CallToolResult:
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
