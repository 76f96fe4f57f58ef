"""What answers which method: worked out once for each method and revision, and looked up for each request.

Small answers that need no user code are made on the spot; everything else is answered by what is registered, which is
looked for when a request is to be answered, because it comes and goes while the server is being served.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, get_args

from attrs import field, frozen

from .. import types
from .._errors import McpError
from .._extensions import with_plain_extensions
from ..peer import Exchange, Run
from ..wire import INVALID_PARAMS, LISTEN, JsonObject, is_modern
from ._asking import ASKABLE
from ._cache import NOT_KEPT, CacheableMethod
from ._context import Context

if TYPE_CHECKING:
    from ._catalog import Catalog
    from ._server import Server
    from ._serving import Serving

__all__ = ["ROUTES", "AtOnce", "Responder", "Route", "answers_at_once"]

AtOnce: TypeAlias = "Callable[[Serving, Exchange, Any], Any]"
"""Answers without waiting: takes typed params, returns a typed result, or raises `McpError`."""


class Responder(Protocol):
    """What answers a request in the hall: a tool, say, or a list."""

    @property
    def waits(self) -> bool:
        """Whether answering may ever wait for something."""
        ...

    def call(self, serving: Serving, run: Run, context: Context, params: Any, /) -> Awaitable[Any]:
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
        find=_IN_HALL.get(method),
        may_come_back=method in ASKABLE and is_modern(revision),
        is_kept=method in get_args(CacheableMethod) and is_modern(revision),
    )


@frozen(eq=False)
class _List:
    """Answers the request for a list."""

    _catalog_of: Callable[[Server], Catalog[Any]]
    waits: bool = field(default=False, init=False)

    async def call(self, serving: Serving, _: Run, context: Context, params: Any) -> JsonObject:
        server = serving.server
        return self._catalog_of(server).page(context.revision, params.cursor, server.page_size, server.cursors)


@frozen(eq=False)
class _Nothing:
    """Stands for what was asked for and is not there."""

    _text: str = field(alias="text")
    waits: bool = field(default=False, init=False)

    async def call(self, _: Serving, __: Run, ___: Context, ____: Any) -> Any:
        raise McpError(INVALID_PARAMS, self._text)


def _lists(catalog_of: Callable[[Server], Catalog[Any]]) -> Find:
    each = _List(catalog_of)
    return lambda _, __: each


def _tool(server: Server, params: types.CallToolRequestParams) -> Responder:
    return server.tools.catalog.get(params.name) or _Nothing(f"no tool {params.name!r}")


def _prompt(server: Server, params: types.GetPromptRequestParams) -> Responder:
    return server.prompts.catalog.get(params.name) or _Nothing(f"no prompt {params.name!r}")


def _resource(server: Server, params: types.ReadResourceRequestParams) -> Responder:
    return server.resources.catalog.get(params.uri) or server.resources


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


_AT_ONCE: Mapping[str, AtOnce] = {
    "initialize": _initialize,
    "logging/setLevel": _empty,  # the connection's gate remembers the level
    "ping": _empty,
    "resources/subscribe": _subscribe,
    "resources/unsubscribe": _unsubscribe,
    "server/discover": _discover,
}
_IN_HALL: Mapping[str, Find] = {
    "completion/complete": lambda server, _: server.completions,
    "prompts/get": _prompt,
    "prompts/list": _lists(lambda server: server.prompts.catalog),
    "resources/list": _lists(lambda server: server.resources.catalog),
    "resources/read": _resource,
    "resources/templates/list": _lists(lambda server: server.resources.templates),
    "tools/call": _tool,
    "tools/list": _lists(lambda server: server.tools.catalog),
}
_ANSWERED = frozenset({*_AT_ONCE, *_IN_HALL, LISTEN})
ROUTES: Mapping[str, Mapping[str, Route | None]] = {revision: _Routes(revision) for revision in types.REVISIONS}
"""By revision and method, how a request is answered; None where there is no such method, or no answer to it here."""
