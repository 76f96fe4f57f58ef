"""The cache of a client, or of several: results of servers that are used again while they are fresh.

`CacheStore` keeps results in their JSON form, by request, for any number of servers. `ConnectionCache` is the view of
one connection: the client's requests for lists, resources and discovery look there first, and reported changes are
entered there. Results are fresh only in revisions that state a time to live, from 2026-07-28 on.

Rules of this file:

1. A result is kept as bytes of JSON, so that no two callers share an object.
2. The freshness of a result is counted from the time of the request: the server may have created it as early as that,
   and a slow response does not make it younger. HTTP counts in the same way (RFC 9111, 4.2.3).
3. A change removes the results it affects at once. A result that is being fetched at that moment may be older than the
   change and is not kept.
4. Of two results of the same request, the one requested later wins.
5. If there is no room, the least recently used result is dropped.

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
    ChangeFilter,
    JsonObject,
    JsonText,
    ListChanged,
    NotJsonError,
    ResourceUpdated,
    SpecifiedChange,
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


_LONGEST_MS = 10**12
"""The longest time to live, thirty years, so that no number of a server is too large for the arithmetic."""


class Topic(NamedTuple):
    """The subject of a result."""

    method: str
    change: SpecifiedChange | None
    """The change that makes results outdated; None if servers do not report any."""


class CacheKey(NamedTuple):
    """A server, and a request to it."""

    server: Hashable
    topic: Topic
    request: bytes
    """Everything else that the answer depends on."""


_Slot: TypeAlias = tuple[CacheKey, Hashable]
"""A request, and the owner of its result; None for a result that is shared by all."""


@define(eq=False)
class PendingFetch:
    """A request to the server in flight."""

    key: CacheKey
    owner: Hashable
    """The client that sent it."""
    began: float = field(default=0.0, init=False)


@frozen
class _CacheEntry:
    """A cached result."""

    json: bytes
    size: int
    stale_at: float
    """A time on Trio's clock."""


@define(eq=False)
class CacheStore:
    """The entries of a cache, and the requests in flight. Every method is synchronous, and called under Trio."""

    max_entries: int
    max_bytes: int
    size: int = field(default=0, init=False)
    """The bytes of all requests and results."""
    hits: int = field(default=0, init=False)
    misses: int = field(default=0, init=False)
    _entries: dict[_Slot, _CacheEntry] = field(factory=dict["_Slot", "_CacheEntry"], init=False)
    """The least recently used entry is the first."""
    _topics: dict[Hashable, dict[Topic, set[_Slot]]] = field(
        factory=dict[Hashable, "dict[Topic, set[_Slot]]"], init=False
    )
    """The entries of each server on each topic."""
    _fetches: dict[PendingFetch, None] = field(factory=dict["PendingFetch", None], init=False)
    """The requests whose results may be kept, in the order they began."""
    _clock: trio.abc.Clock | None = field(default=None, init=False)
    """The clock of the entries' times."""

    def __len__(self) -> int:
        return len(self._entries)

    def has(self, key: CacheKey, owner: Hashable) -> bool:
        """Return True if there is a fresh result for *owner*. This does not count as a use."""
        now = self._now()
        return any(self._is_fresh((key, each), now) for each in (owner, None))

    def find(self, key: CacheKey, owner: Hashable) -> bytes | None:
        """Return the fresh result for *owner*, if there is one, and count a hit or a miss."""
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
        """Note that a request is sent."""
        fetch.began = self._now()
        self._fetches[fetch] = None

    def end(self, fetch: PendingFetch) -> None:
        """Note that a request has ended; a result that arrives later is not kept."""
        self._fetches.pop(fetch, None)

    def keep(self, fetch: PendingFetch, json: bytes, ttl_ms: int, *, shared: bool) -> None:
        """Keep a result, unless it is outdated (rules 3 and 4).

        Args:
            ttl_ms: the time to live. If it is over, earlier results are dropped nevertheless.
            shared: keep the result for all clients of the server, not only for the one that sent the request.
        """
        now = self._now()
        if fetch not in self._fetches:
            return
        key = fetch.key
        for each in list(takewhile(lambda each: each is not fetch, self._fetches)):  # earlier requests
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

    def changed(self, server: Hashable, change: SpecifiedChange) -> None:
        """Drop the results that a change on a server affects."""
        if isinstance(change, ListChanged):
            self._invalidate(server, lambda topic: topic.change == change)
        else:
            self._invalidate(server, lambda topic: _is_part(topic.change, change))

    def missed(self, server: Hashable, changes: ChangeFilter) -> None:
        """Drop the results that *changes* would affect, because such changes may not have been reported."""
        self._invalidate(server, lambda topic: topic.change is not None and changes.covers(topic.change))

    def forget(self, server: Hashable, topic: Topic) -> None:
        """Drop the results on a topic."""
        for key in list(self._topics.get(server, {}).get(topic, ())):
            self._drop(key)

    def disconnected(self, server: Hashable, owner: Hashable) -> None:
        """Drop the results that belong to *owner* alone; if it is the server's name, drop all of the server."""
        for topic in list(self._topics.get(server, {}).values()):
            for key in [key for key in topic if owner in (server, key[1])]:
                self._drop(key)
        for fetch in [each for each in self._fetches if owner in (each.key.server, each.owner)]:
            self.end(fetch)

    def clear(self) -> None:
        """Drop everything."""
        self._entries.clear()
        self._topics.clear()
        self._fetches.clear()
        self.size = 0

    def _now(self) -> float:
        """Return the time. Every `trio.run` has its own clock, and entries of another clock are dropped."""
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


def _is_part(whole: SpecifiedChange | None, part: ResourceUpdated) -> bool:
    """Return True if *part* is the resource *whole*, or a part of it."""
    if not isinstance(whole, ResourceUpdated) or not part.uri.startswith(whole.uri):
        return False
    return ChangeFilter(resources=[whole.uri]).covers(part)


# --- The cache of one connection ---

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
"""The cached methods, except for resources: each resource is a topic of its own."""

_IGNORED_META = {PROGRESS_TOKEN_KEY, "traceparent", "tracestate", "baggage"}
"""Members of `_meta` that an answer does not depend on."""


class Cacheable(Protocol):
    """A result that states how long it may be kept."""

    @property
    def ttl_ms(self) -> int | None: ...
    @property
    def cache_scope(self) -> str | None: ...


@define(eq=False)
class ConnectionCache:
    """The part of a cache that one connection sees; empty until both sides have agreed on a revision.

    Args:
        store: the entries; None: nothing is cached.
        name: the server's name in the cache; None: the results belong to this connection alone.
        principal: the identity of the client for the server; None: it shares no private results.
    """

    _store: CacheStore | None
    _name: str | None = None
    principal: Hashable = None
    """Set again when the connection is authenticated again."""
    _server: Hashable = field(init=False)
    _client_envelope: JsonText | None = field(default=None, init=False)
    """The `_meta` that the client sends with each request; None while nothing is cached."""

    def __attrs_post_init__(self) -> None:
        self._server = self

    def enable(self, envelope: JsonObject, server_info: JsonObject | None) -> None:
        """Start caching: the agreed revision states how long results are fresh.

        Args:
            envelope: the `_meta` that the client will send with each request.
            server_info: the server's name and version. A server of the same name with another version is another
                server.
        """
        self._client_envelope = json_text(encode(envelope))
        if self._name is not None:
            self._server = (self._name, encode(server_info))

    def request(self, method: str, params: JsonObject | None) -> CachedRequest | None:
        """Return the request as the cache sees it; None if it is not cached."""
        if self._store is None or self._client_envelope is None:
            return None
        params = params or {}
        topic = Topic(_READ, ResourceUpdated(str(params.get("uri")))) if method == _READ else _TOPICS[method]
        meta: JsonObject = params.get("_meta", {})
        differing = {name: value for name, value in meta.items() if name not in _IGNORED_META}
        try:
            request = encode([{**params, "_meta": differing}, self._client_envelope])
        except NotJsonError:
            return None  # sending the request raises the error
        owner = self if self.principal is None else (self.principal,)
        return CachedRequest(self._store, PendingFetch(CacheKey(self._server, topic, request), owner))

    def changed(self, change: SpecifiedChange) -> None:
        """Note a change that the server has reported."""
        if self._store is not None:
            self._store.changed(self._server, change)

    def missed(self, changes: ChangeFilter) -> None:
        """Note that the server did not report these changes until now, or does not from now on."""
        if self._store is not None:
            self._store.missed(self._server, changes)

    def disconnected(self) -> None:
        """Note that the connection is gone: from now on every request fails instead of using the cache."""
        self._client_envelope = None
        if self._store is not None:
            self._store.disconnected(self._server, self)


@frozen(eq=False)
class CachedRequest:
    """One request whose result may be cached.

    Look for the result with `find`; or enter the block, send the request and `keep` its result.
    """

    _store: CacheStore
    _fetch: PendingFetch

    async def find(self) -> JsonObject | None:
        """Return a fresh result if there is one, after a checkpoint; return at once if there is none."""
        key, owner = self._fetch.key, self._fetch.owner
        if self._store.has(key, owner):
            await trio.lowlevel.checkpoint()  # the result may become stale while other tasks run
        found = self._store.find(key, owner)
        return None if found is None else decode(found)

    def __enter__(self) -> Self:
        self._store.begin(self._fetch)
        return self

    def keep(self, result: Cacheable) -> None:
        """Take the result, fresh or not.

        It must be the answer to the request as the cache has seen it. An answer to a request with `inputResponses` or
        `requestState` depends on those and must not be kept.
        """
        ttl_ms = result.ttl_ms or 0
        json = encode(types.unstructure(result)) if ttl_ms else b""
        self._store.keep(self._fetch, json, ttl_ms, shared=result.cache_scope == "public")

    def __exit__(self, _: type[BaseException] | None, failure: BaseException | None, __: TracebackType | None) -> None:
        self._store.end(self._fetch)
        if isinstance(failure, ErrorResponse) and failure.code == INVALID_PARAMS:
            # A refused cursor makes all pages useless, and a missing resource has no contents.
            self._store.forget(self._fetch.key.server, self._fetch.key.topic)


@frozen(kw_only=True)
class CacheStatistics:
    """The contents of a cache, and how often it was used."""

    entries: int
    """The number of cached results; some may be outdated."""
    bytes: int
    """The size of the results and their requests as JSON."""
    hits: int
    """The number of requests that were not sent because there was a fresh result."""
    misses: int
    """The number of requests that were sent for lack of one. Requests with ``fresh=True`` count as neither."""


def _check_bound(_: object, attribute: Attribute[Any], value: object) -> None:
    if type(value) is not int or value < 1:
        raise ValueError(f"ResponseCache({attribute.name}={value!r}): must be a whole number, and at least 1")


@define(eq=False)
class ResponseCache:
    """A cache for results of servers; pass it to clients as their option ``cache``.

    Results are kept for as long as the servers allow. By default each client has its own cache. Several clients may
    share one: they then share its room, but no results; to share results, see `for_server`. Results that belong to one
    connection are dropped when it ends.

    All clients that share a cache run in one `trio.run`, in one thread. A later `trio.run` finds it empty.

    Raises:
        ValueError: a bound is not a whole number, or less than 1.

    Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
    """

    max_entries: int = field(default=1000, kw_only=True, validator=_check_bound)
    """The largest number of results; beyond it the least recently used one is dropped."""
    max_bytes: int = field(default=16 * 2**20, kw_only=True, validator=_check_bound)
    """The largest size of all results as JSON; a single larger result is not kept."""
    _store: CacheStore = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._store = CacheStore(self.max_entries, self.max_bytes)

    def for_server(self, server: str, *, principal: Hashable = None) -> ServerCache:
        """Return the part of the cache for one server, for all clients that are connected to it.

        The clients share results that the server calls public, and a change reported to one of them applies to all.
        They share private results only if they state the same principal. Clients that differ in their name, revision or
        capabilities share no results.

        A result that was cached before a client has connected is used like any other, for the time that the server has
        set.

        Args:
            server: the server's name in the cache, such as its URL. Two servers must not have the same name.
            principal: the identity of the clients for the server: equal for clients that may see the same results.
                None: each client has its own.

        Raises:
            TypeError: *server* is not a string, or *principal* is not hashable.
        """
        if not isinstance(server, str):  # pyright: ignore[reportUnnecessaryIsInstance] # a user's value
            raise TypeError(f"server={server!r}: expected a string")
        hash(principal)
        return ServerCache(self._store, server, principal)

    def clear(self) -> None:
        """Drop everything, including the results of requests in flight."""
        self._store.clear()

    def statistics(self) -> CacheStatistics:
        """Return the current contents and the numbers of hits and misses."""
        store = self._store
        return CacheStatistics(entries=len(store), bytes=store.size, hits=store.hits, misses=store.misses)

    def for_connection(self) -> ConnectionCache:
        """Return the view of a connection that shares no results; called for each connection."""
        return ConnectionCache(self._store)


@frozen(eq=False)
class ServerCache:
    """The part of a `ResponseCache` for one server; created by `ResponseCache.for_server`."""

    _store: CacheStore
    server: str
    """The server's name in the cache."""
    principal: Hashable
    """The identity of its clients for the server; None: each client has its own."""

    def for_connection(self) -> ConnectionCache:
        """Return the view of a connection that shares results; called for each connection."""
        return ConnectionCache(self._store, self.server, self.principal)


CacheOption: TypeAlias = "ResponseCache | ServerCache | bool | None"
"""The type of the option ``cache``."""


def check_cache(option: object) -> None:
    """Check that *option* is a `CacheOption`.

    Raises:
        TypeError: it is not.
    """
    if option is not None and not isinstance(option, ResponseCache | ServerCache | bool):
        raise TypeError(f"cache={option!r}: expected a ResponseCache, what its for_server() returns, or False")


def connection_cache(option: CacheOption) -> ConnectionCache:
    """Return the view of a new connection."""
    if option is False:
        return ConnectionCache(None)
    if option is None or option is True:
        return ResponseCache().for_connection()
    return option.for_connection()


def with_cache_hints(json: JsonObject) -> JsonObject:
    """Supply the default caching hints, no caching, if they are missing or the time to live is negative.

    See https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
    """
    supplied = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **json}
    age = supplied["ttlMs"]
    if type(age) is int and age < 0:
        supplied["ttlMs"] = 0
    return supplied
