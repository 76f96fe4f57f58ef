"""The cache of a client, or of several: results of servers that are used again while they are fresh.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeAlias

from attrs import Attribute, define, field, frozen

from ._cache_connection import ConnectionCache
from ._cache_store import Store

__all__ = ["CacheOption", "CacheStatistics", "ResponseCache", "ServerCache", "check_cache", "connection_cache"]


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


def _at_least_one(_: object, attribute: Attribute[Any], value: object) -> None:
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

    max_entries: int = field(default=1000, kw_only=True, validator=_at_least_one)
    """Results that are kept at once; the least recently used one makes room."""
    max_bytes: int = field(default=16 * 2**20, kw_only=True, validator=_at_least_one)
    """What they may take as JSON; a larger one is not kept."""
    _store: Store = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._store = Store(self.max_entries, self.max_bytes)

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

    _store: Store
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
