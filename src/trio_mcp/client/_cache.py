"""The cache of a client, or of several: results of servers that are used again while they are fresh.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from itertools import takewhile
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

import trio
from attrs import Attribute, define, field, frozen

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

__all__ = [
    "CacheKey",
    "CacheOption",
    "CacheStatistics",
    "CacheStore",
    "Cacheable",
    "CachedRequest",
    "ConnectionCache",
    "PendingFetch",
    "ResponseCache",
    "ServerCache",
    "Topic",
    "check_cache",
    "connection_cache",
    "with_cache_hints",
]


# What is cached: results as JSON, by what was asked, of any number of servers.
#
# Rules of this file:
#
# 1. A result is kept as text, so that no two callers ever share an object.
# 2. It is fresh for its time, counted from when it was asked for: the server may have made it as early as that, and a
#    slow way back makes it no younger. HTTP reckons likewise (RFC 9111, 4.2.3).
# 3. A change ends what it concerns at once. What is being fetched at that moment may be from before it, and is not
# kept.
# 4. Of two results of one key, the one that was asked for later is right.
# 5. Where there is no more room, what was used least recently goes.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching

_LONGEST_MS = 10**12
"""Thirty years: nothing is kept for longer, so that no number of a server's is too large to reckon with."""


class Topic(NamedTuple):
    """What a result is about."""

    method: str
    change: Change | None
    """What ends it; None where no server can tell of that."""


class CacheKey(NamedTuple):
    """What is asked of whom."""

    server: Hashable
    topic: Topic
    request: bytes
    """All else that makes a difference to the answer."""


_Slot: TypeAlias = tuple[CacheKey, Hashable]
"""A key, and whose the result is: None for everybody's."""


@define(eq=False)
class PendingFetch:
    """A key under way to the server."""

    key: CacheKey
    owner: Hashable
    """Who asks."""
    began: float = field(default=0.0, init=False)


@frozen
class _CacheEntry:
    """A result that is kept."""

    json: bytes
    size: int
    stale_at: float
    """On Trio's clock."""


@define(eq=False)
class CacheStore:
    """The entries of a cache, and what is being fetched. Every method is synchronous, and called under Trio."""

    max_entries: int
    max_bytes: int
    size: int = field(default=0, init=False)
    """Bytes of all questions and results."""
    hits: int = field(default=0, init=False)
    misses: int = field(default=0, init=False)
    _entries: dict[_Slot, _CacheEntry] = field(factory=dict["_Slot", "_CacheEntry"], init=False)
    """The least recently used first."""
    _topics: dict[Hashable, dict[Topic, set[_Slot]]] = field(
        factory=dict[Hashable, "dict[Topic, set[_Slot]]"], init=False
    )
    """Which of them each server has on each topic."""
    _fetches: dict[PendingFetch, None] = field(factory=dict["PendingFetch", None], init=False)
    """Those whose results may be kept, in the order they began."""
    _clock: trio.abc.Clock | None = field(default=None, init=False)
    """Whose time it is."""

    def __len__(self) -> int:
        return len(self._entries)

    def has(self, key: CacheKey, owner: Hashable) -> bool:
        """Tell whether there is a fresh result for *owner*. That is no use of it."""
        now = self._now()
        return any(self._is_fresh((key, each), now) for each in (owner, None))

    def find(self, key: CacheKey, owner: Hashable) -> bytes | None:
        """Return the fresh result for *owner*, if there is any, and count that."""
        now = self._now()
        for slot in ((key, owner), (key, None)):
            if self._is_fresh(slot, now):
                self.hits += 1
                entry = self._entries[slot] = self._entries.pop(slot)  # now the most recently used
                return entry.json
            self._drop(slot)
        self.misses += 1
        return None

    def begin(self, fetch: PendingFetch) -> None:
        """Something is asked for."""
        fetch.began = self._now()
        self._fetches[fetch] = None

    def end(self, fetch: PendingFetch) -> None:
        """It is over; a result that comes all the same is not kept."""
        self._fetches.pop(fetch, None)

    def keep(self, fetch: PendingFetch, json: bytes, ttl_ms: int, *, shared: bool) -> None:
        """Take a result, unless it is outdated already (rules 3 and 4).

        Args:
            ttl_ms: for how long it is fresh; if that is over, those of before are forgotten all the same.
            shared: keep it for everybody, and not only for who has asked.
        """
        now = self._now()
        if fetch not in self._fetches:
            return
        key = fetch.key
        for each in list(takewhile(lambda each: each is not fetch, self._fetches)):  # those that began before
            if each.key == key and (shared or each.owner == fetch.owner):
                self.end(each)
        self._drop((key, fetch.owner))
        self._drop((key, None))
        stale_at = fetch.began + min(ttl_ms, _LONGEST_MS) / 1000
        size = len(key.request) + len(json)
        if now < stale_at and size <= self.max_bytes:
            slot = (key, None if shared else fetch.owner)
            self._entries[slot] = _CacheEntry(json, size, stale_at)
            self._topics.setdefault(key.server, {}).setdefault(key.topic, set()).add(slot)
            self.size += size
            while len(self._entries) > self.max_entries or self.size > self.max_bytes:
                self._drop(next(iter(self._entries)))

    def changed(self, server: Hashable, change: Change) -> None:
        """Something on a server is not what it was."""
        if isinstance(change, ListChanged):
            self._invalidate(server, lambda topic: topic.change == change)
        else:
            self._invalidate(server, lambda topic: _is_part(topic.change, change))

    def missed(self, server: Hashable, changes: ChangeFilter) -> None:
        """Any of these changes may have happened, because nobody was told."""
        self._invalidate(server, lambda topic: topic.change is not None and changes.covers(topic.change))

    def forget(self, server: Hashable, topic: Topic) -> None:
        """What is kept on this topic is of no use."""
        for key in list(self._topics.get(server, {}).get(topic, ())):
            self._drop(key)

    def disconnected(self, server: Hashable, owner: Hashable) -> None:
        """What *owner* alone may see will not be asked for again; if it is the server's name, nothing of that will."""
        for topic in list(self._topics.get(server, {}).values()):
            for key in [key for key in topic if owner in (server, key[1])]:
                self._drop(key)
        for fetch in [each for each in self._fetches if owner in (each.key.server, each.owner)]:
            self.end(fetch)

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._topics.clear()
        self._fetches.clear()
        self.size = 0

    def _now(self) -> float:
        """Return the time. Another clock, as every `trio.run` has its own, says nothing about what was kept by it."""
        clock = trio.lowlevel.current_clock()
        if clock is not self._clock:
            self._clock = clock
            self.clear()
        return clock.current_time()

    def _is_fresh(self, key: _Slot, now: float) -> bool:
        entry = self._entries.get(key)
        return entry is not None and now < entry.stale_at

    def _invalidate(self, server: Hashable, concerns: Callable[[Topic], bool]) -> None:
        for topic in [topic for topic in self._topics.get(server, ()) if concerns(topic)]:
            self.forget(server, topic)
        for fetch in [each for each in self._fetches if each.key.server == server]:
            if concerns(fetch.key.topic):
                self.end(fetch)

    def _drop(self, key: _Slot) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.size -= entry.size
            server, topic, _ = key[0]
            self._topics[server][topic].remove(key)
            if not self._topics[server][topic]:
                del self._topics[server][topic]
            if not self._topics[server]:
                del self._topics[server]


def _is_part(whole: Change | None, part: ResourceUpdated) -> bool:
    """Tell whether *part* is about the resource *whole*, or about a part of it."""
    if not isinstance(whole, ResourceUpdated) or not part.uri.startswith(whole.uri):
        return False
    return ChangeFilter(resources=[whole.uri]).covers(part)


# What one connection sees of a cache.
#
# The client's requests for lists, resources and discovery ask here first; what a server tells of its changes comes
# here
# as well. Results are fresh only in revisions that say for how long, which begin with 2026-07-28.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching

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

_IGNORED_META = {PROGRESS_TOKEN_KEY, "traceparent", "tracestate", "baggage"}
"""Members of `_meta` that say who asks when, and nothing that an answer could depend on."""


class Cacheable(Protocol):
    """A result that says for how long it may be kept."""

    @property
    def ttl_ms(self) -> int | None: ...
    @property
    def cache_scope(self) -> str | None: ...


@define(eq=False)
class ConnectionCache:
    """The part of a cache that one connection sees. Until both sides have enable on a revision, that is nothing.

    Args:
        store: None: nothing is cached.
        name: the server's name in the cache; None: what is kept is about this connection alone.
        principal: who the client is to the server; None: nobody else.
    """

    _store: CacheStore | None
    _name: str | None = None
    principal: Hashable = None
    """Whoever authenticates the connection anew sets it anew."""
    _server: Hashable = field(init=False)
    _client_envelope: JsonText | None = field(default=None, init=False)
    """What the client says about itself in each request; None while nothing is cached."""

    def __attrs_post_init__(self) -> None:
        self._server = self

    def enable(self, envelope: JsonObject, server_info: JsonObject | None) -> None:
        """The server has been found out, and results say for how long they are fresh.

        Args:
            envelope: what the client will say about itself in each request.
            server_info: how the server names itself. One that is called the same and has another version is another.
        """
        self._client_envelope = json_text(encode(envelope))
        if self._name is not None:
            self._server = (self._name, encode(server_info))

    def request(self, method: str, params: JsonObject | None) -> CachedRequest | None:
        """Return the request as the cache sees it; None where it is none of the cache's business."""
        if self._store is None or self._client_envelope is None:
            return None
        params = params or {}
        topic = Topic(_READ, ResourceUpdated(str(params.get("uri")))) if method == _READ else _TOPICS[method]
        meta: JsonObject = params.get("_meta", {})
        differing = {name: value for name, value in meta.items() if name not in _IGNORED_META}
        try:
            request = encode([{**params, "_meta": differing}, self._client_envelope])
        except NotJsonError:
            return None  # whoever sends it will say so
        owner = self if self.principal is None else (self.principal,)
        return CachedRequest(self._store, PendingFetch(CacheKey(self._server, topic, request), owner))

    def changed(self, change: Change) -> None:
        """The server has told of a change."""
        if self._store is not None:
            self._store.changed(self._server, change)

    def missed(self, changes: ChangeFilter) -> None:
        """Until now, or from now on, the server does not tell of these changes."""
        if self._store is not None:
            self._store.missed(self._server, changes)

    def disconnected(self) -> None:
        """The connection is gone: from now on every request shall say so."""
        self._client_envelope = None
        if self._store is not None:
            self._store.disconnected(self._server, self)


@frozen(eq=False)
class CachedRequest:
    """One request whose result may be cached: look for that, or enter it, send the request and keep the result."""

    _store: CacheStore
    _fetch: PendingFetch

    async def find(self) -> JsonObject | None:
        """Return a fresh result if there is one, after a checkpoint; at once if there is none."""
        key, owner = self._fetch.key, self._fetch.owner
        if self._store.has(key, owner):
            await trio.lowlevel.checkpoint()  # while others run, it may become stale
        found = self._store.find(key, owner)
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
            self._store.forget(self._fetch.key.server, self._fetch.key.topic)


@frozen(kw_only=True)
class CacheStatistics:
    """What a cache holds now, and what it was good for."""

    entries: int
    """Results that are kept; some may be out of date."""
    bytes: int
    """What they take as JSON, with what was asked for them."""
    hits: int
    """Requests that were not sent, because there was a fresh result."""
    misses: int
    """Those that were. Requests that were to be sent in any case count as neither."""


def _check_bound(_: object, attribute: Attribute[Any], value: object) -> None:
    if type(value) is not int or value < 1:
        raise ValueError(f"ResponseCache({attribute.name}={value!r}): must be a whole number, and at least 1")


@define(eq=False)
class ResponseCache:
    """Results of servers, kept for as long as the servers say; give it to clients as their option ``cache``.

    By default each client has one of its own. Several clients may be given the same one: they share its room, and of
    the results nothing; for that, see `for_server`. What is kept for one connection alone goes with it.

    Clients that share one run in one `trio.run`, in one thread. A later `trio.run` finds it empty.

    Raises:
        ValueError: a bound is no whole number, or less than 1.

    Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
    """

    max_entries: int = field(default=1000, kw_only=True, validator=_check_bound)
    """Results that are kept at once; the least recently used one makes room."""
    max_bytes: int = field(default=16 * 2**20, kw_only=True, validator=_check_bound)
    """What they may take as JSON; a larger one is not kept."""
    _store: CacheStore = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._store = CacheStore(self.max_entries, self.max_bytes)

    def for_server(self, server: str, *, principal: Hashable = None) -> ServerCache:
        """Return the part of the cache that is about one server, for all clients that are connected to it.

        They share what the server calls public, and a change that one of them is told of counts for all. They share
        what it calls private only where they state the same principal. Clients that name themselves, their revision or
        their capabilities differently share nothing.

        A result that was there before a client has connected is as good as any, for the time that the server has set.

        Args:
            server: its name here, such as its URL. Two servers must not have the same one.
            principal: who the clients are to the server: equal for those who may see the same. None: each is another.

        Raises:
            TypeError: *server* is no text, or *principal* has no hash.
        """
        if not isinstance(server, str):  # pyright: ignore[reportUnnecessaryIsInstance] # a user's value
            raise TypeError(f"server={server!r}: expected a text")
        hash(principal)
        return ServerCache(self._store, server, principal)

    def clear(self) -> None:
        """Forget everything, what is being fetched included."""
        self._store.clear()

    def statistics(self) -> CacheStatistics:
        """Return what it holds now, and what it was good for."""
        store = self._store
        return CacheStatistics(entries=len(store), bytes=store.size, hits=store.hits, misses=store.misses)

    def for_connection(self) -> ConnectionCache:
        """Return what a client sees that shares no results; called for each connection."""
        return ConnectionCache(self._store)


@frozen(eq=False)
class ServerCache:
    """The part of a `ResponseCache` that is about one server; made by `ResponseCache.for_server`."""

    _store: CacheStore
    server: str
    """The server's name in the cache."""
    principal: Hashable
    """Who its clients are to it; None: each is another."""

    def for_connection(self) -> ConnectionCache:
        """Return what a client sees that shares results; called for each connection."""
        return ConnectionCache(self._store, self.server, self.principal)


CacheOption: TypeAlias = "ResponseCache | ServerCache | bool | None"
"""What the option ``cache`` may be."""


def check_cache(option: object) -> None:
    """Refuse what is no `CacheOption`.

    Raises:
        TypeError: it is none.
    """
    if option is not None and not isinstance(option, ResponseCache | ServerCache | bool):
        raise TypeError(f"cache={option!r}: expected a ResponseCache, what its for_server() returns, or False")


def connection_cache(option: CacheOption) -> ConnectionCache:
    """Return what a new connection sees."""
    if option is False:
        return ConnectionCache(None)
    if option is None or option is True:
        return ResponseCache().for_connection()
    return option.for_connection()


def with_cache_hints(json: JsonObject) -> JsonObject:
    """Supply what it means where nothing is said about caching, or the age is negative: there shall be none.

    See https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
    """
    supplied = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **json}
    age = supplied["ttlMs"]
    if type(age) is int and age < 0:
        supplied["ttlMs"] = 0
    return supplied
