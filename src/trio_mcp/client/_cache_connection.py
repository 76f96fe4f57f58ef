"""What one connection sees of a cache.

The client's requests for lists, resources and discovery ask here first; what a server tells of its changes comes here
as well. Results are fresh only in revisions that say for how long, which begin with 2026-07-28.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from types import TracebackType
from typing import Protocol, Self

import trio
from attrs import define, field, frozen

from .. import types
from .._errors import ErrorResponse
from ..wire import (
    INVALID_PARAMS,
    PROGRESS_TOKEN_KEY,
    Change,
    ChangeFilter,
    JsonObject,
    JsonText,
    ListChanged,
    NotJsonError,
    ResourceUpdated,
    decode,
    encode,
    json_text,
)
from ._cache_store import Fetch, Question, Store, Topic

__all__ = ["Cacheable", "CachedRequest", "ConnectionCache"]

_READ = "resources/read"
_TOPICS: Mapping[str, Topic] = {
    topic.method: topic
    for topic in (
        Topic("server/discover", None),
        Topic("tools/list", ListChanged("tools")),
        Topic("prompts/list", ListChanged("prompts")),
        Topic("resources/list", ListChanged("resources")),
        Topic("resources/templates/list", ListChanged("resources")),
    )
}
"""What is cached besides resources, each of which is a topic of its own."""

_NO_DIFFERENCE = {PROGRESS_TOKEN_KEY, "traceparent", "tracestate", "baggage"}
"""Members of `_meta` that say who asks when, and nothing that an answer could depend on."""


class Cacheable(Protocol):
    """A result that says for how long it may be kept."""

    @property
    def ttl_ms(self) -> int | None: ...
    @property
    def cache_scope(self) -> str | None: ...


@define(eq=False)
class ConnectionCache:
    """The part of a cache that one connection sees. Until both sides have agreed on a revision, that is nothing.

    Args:
        store: None: nothing is cached.
        name: the server's name in the cache; None: what is kept is about this connection alone.
        principal: who the client is to the server; None: nobody else.
    """

    _store: Store | None
    _name: str | None = None
    principal: Hashable = None
    """Whoever authenticates the connection anew sets it anew."""
    _server: Hashable = field(init=False)
    _about_us: JsonText | None = field(default=None, init=False)
    """What the client says about itself in each request; None while nothing is cached."""

    def __attrs_post_init__(self) -> None:
        self._server = self

    def agreed(self, envelope: JsonObject, server_info: JsonObject | None) -> None:
        """The server has been found out, and results say for how long they are fresh.

        Args:
            envelope: what the client will say about itself in each request.
            server_info: how the server names itself. One that is called the same and has another version is another.
        """
        self._about_us = json_text(encode(envelope))
        if self._name is not None:
            self._server = (self._name, encode(server_info))

    def asking(self, method: str, params: JsonObject | None) -> CachedRequest | None:
        """Return the request as the cache sees it; None where it is none of the cache's business."""
        if self._store is None or self._about_us is None:
            return None
        params = params or {}
        topic = Topic(_READ, ResourceUpdated(str(params.get("uri")))) if method == _READ else _TOPICS[method]
        meta: JsonObject = params.get("_meta", {})
        differing = {name: value for name, value in meta.items() if name not in _NO_DIFFERENCE}
        try:
            request = encode([{**params, "_meta": differing}, self._about_us])
        except NotJsonError:
            return None  # whoever sends it will say so
        holder = self if self.principal is None else (self.principal,)
        return CachedRequest(self._store, Fetch(Question(self._server, topic, request), holder))

    def changed(self, change: Change) -> None:
        """The server has told of a change."""
        if self._store is not None:
            self._store.changed(self._server, change)

    def unheard(self, changes: ChangeFilter) -> None:
        """Until now, or from now on, the server does not tell of these changes."""
        if self._store is not None:
            self._store.unheard(self._server, changes)

    def leave(self) -> None:
        """The connection is gone: from now on every request shall say so."""
        self._about_us = None
        if self._store is not None:
            self._store.leave(self._server, self)


@frozen(eq=False)
class CachedRequest:
    """One request whose result may be cached: look for that, or enter it, send the request and keep the result."""

    _store: Store
    _fetch: Fetch

    async def find(self) -> JsonObject | None:
        """Return a fresh result if there is one, after a checkpoint; at once if there is none."""
        question, holder = self._fetch.question, self._fetch.holder
        if self._store.has(question, holder):
            await trio.lowlevel.checkpoint()  # while others run, it may become stale
        found = self._store.find(question, holder)
        return None if found is None else decode(found)

    def __enter__(self) -> Self:
        self._store.begin(self._fetch)
        return self

    def keep(self, result: Cacheable) -> None:
        """Take the result, fresh or not.

        It must be the answer to the request as the cache was shown it: what a server answers to one that carries
        answers to its own questions, or its state, depends on those.
        """
        ttl_ms = result.ttl_ms or 0
        json = encode(types.unstructure(result)) if ttl_ms else b""
        self._store.keep(self._fetch, json, ttl_ms, shared=result.cache_scope == "public")

    def __exit__(self, _: type[BaseException] | None, failure: BaseException | None, __: TracebackType | None) -> None:
        self._store.end(self._fetch)
        if isinstance(failure, ErrorResponse) and failure.code == INVALID_PARAMS:
            # A cursor that was refused makes all pages worthless, and a resource that is not there has no contents.
            self._store.forget(self._fetch.question.server, self._fetch.question.topic)
