"""The routes of a server: how each method of the specification is answered in each revision.

A route is worked out once for each method and revision. The responder of a request is looked up when the request is
answered, because tools, resources and prompts come and go while the server is being served.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, get_args

from attrs import field, frozen

from .. import types
from .._extensions import with_plain_extensions
from ..peer import Access, IncomingRequest
from ..wire import LISTEN, is_modern
from ._context import Context
from .asking import ASKABLE
from .features import NOT_KEPT, CacheableMethod, NotFound, SessionSubscription, listen

if TYPE_CHECKING:
    from ._serving import ActiveServer

__all__ = ["NEVER_FORWARDED", "ROUTES", "SMALL", "PreparedAnswer", "Responder", "Route", "observe", "preparation"]

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


def _subscribe(serving: ActiveServer, exchange: IncomingRequest, params: Any) -> Responder:
    return SessionSubscription(serving.subscribers, exchange.peer, params.uri, exchange.context.access)


def _unsubscribe(serving: ActiveServer, exchange: IncomingRequest, params: Any) -> types.EmptyResult:
    serving.subscribers.unsubscribe(exchange.peer, params.uri)
    return types.EmptyResult()


_OFFERED: Mapping[str, Callable[[ActiveServer], bool]] = {
    "completion": attrgetter("server.completions.offered"),
    "prompts": attrgetter("prompts.offered"),
    "resources": attrgetter("resources.offered"),
    "tools": attrgetter("tools.offered"),
}
"""Whether a server offers a feature, by the first part of the method names; other methods are always offered."""
_AT_ONCE: Mapping[str, AnswerAtOnce] = {
    "initialize": _initialize,
    "logging/setLevel": _empty,  # the connection's admission remembers the level
    "ping": _empty,
    "resources/unsubscribe": _unsubscribe,
    "server/discover": _discover,
}
NEVER_FORWARDED = frozenset({LISTEN, "resources/subscribe"})
"""The requests whose responders ask the forwarder themselves."""
SMALL = frozenset({*_AT_ONCE, "resources/subscribe"})
"""The requests that wait for no other handler of their connection to end."""
_IN_POOL: Mapping[str, FindResponder] = {
    "completion/complete": _completions,
    "prompts/get": _prompt,
    "prompts/list": _list,
    "resources/list": _list,
    "resources/read": _resource,
    "resources/subscribe": _subscribe,
    "resources/templates/list": _list,
    "tools/list": _list,
    LISTEN: listen,
}
_ANSWERED = frozenset({*_AT_ONCE, *_IN_POOL, "tools/call"})  # the responders of calls are found by the serving itself
ROUTES: Mapping[str, Mapping[str, Route | None]] = {revision: _Routes(revision) for revision in types.REVISIONS}
"""The routes by revision and method; None if there is no such method, or the server does not answer it."""


# --- Observers ---

_OTHER = "other"
"""The name that observers get for methods and tools that are not known: a client can send any name."""
_MOST_TOOLS = 1000
"""The number of tools whose names observers get; if a server has had more, the others are ``"other"``."""


def observe(serving: ActiveServer, exchange: IncomingRequest) -> None:
    """Tell the observers of a serving of a request, with names of which there is a bounded number."""
    method, revision = exchange.method, exchange.context.revision
    tool: Callable[[], str] | None = None
    if method not in types.METHODS[revision] and not serving.has_method(method):
        method = _OTHER
    elif method == "tools/call":
        name = (exchange.params or {}).get("name")
        tool = partial(_bounded_tool, serving, name, exchange.context.access)  # not the exchange: it has the watch
    for observer in serving.observers:
        exchange.watch(observer.begun(method, tool, revision))


def _bounded_tool(serving: ActiveServer, name: object, access: Access | None) -> str:
    if not isinstance(name, str) or not serving.has_tool(name, access):
        return _OTHER
    if name not in serving.observed_tools:
        if len(serving.observed_tools) >= _MOST_TOOLS:
            return _OTHER
        serving.observed_tools.add(name)
    return name


# --- Answers that wait for the servers behind a forwarder ---

_TELLS_CAPABILITIES = frozenset({"initialize", "server/discover"})


def preparation(serving: ActiveServer, exchange: IncomingRequest) -> Callable[[], Awaitable[None]] | None:
    """Return what has to be waited for before a request for the capabilities is answered; None if nothing is."""
    if serving.forwarder is None or exchange.method not in _TELLS_CAPABILITIES:
        return None
    return serving.forwarder.prepare()


@frozen(eq=False)
class PreparedAnswer:
    """Answers a request that needs no handler, when the forwarder knows what the server has to declare."""

    _serving: ActiveServer
    _exchange: IncomingRequest
    _at_once: AnswerAtOnce
    waits: bool = field(default=True, init=False)
    may_ask: bool = field(default=False, init=False)

    async def call(self, context: Context, params: Any) -> Any:
        """Return the answer."""
        del context
        prepare = preparation(self._serving, self._exchange)
        if prepare is not None:
            await prepare()
        return self._at_once(self._serving, self._exchange, params)
