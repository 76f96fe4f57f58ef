"""What is cached: results as JSON, by what was asked, of any number of servers.

Rules of this file:

1. A result is kept as text, so that no two callers ever share an object.
2. It is fresh for its time, counted from when it was asked for: the server may have made it as early as that, and a
   slow way back makes it no younger. HTTP reckons likewise (RFC 9111, 4.2.3).
3. A change ends what it concerns at once. What is being fetched at that moment may be from before it, and is not kept.
4. Of two results of one question, the one that was asked for later is right.
5. Where there is no more room, what was used least recently goes.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import takewhile
from typing import NamedTuple, TypeAlias

import trio
from attrs import define, field, frozen

from ..wire import Change, ChangeFilter, ListChanged, ResourceUpdated

__all__ = ["Fetch", "Question", "Store", "Topic"]

_LONGEST_MS = 10**12
"""Thirty years: nothing is kept for longer, so that no number of a server's is too large to reckon with."""


class Topic(NamedTuple):
    """What a result is about."""

    method: str
    change: Change | None
    """What ends it; None where no server can tell of that."""


class Question(NamedTuple):
    """What is asked of whom."""

    server: Hashable
    topic: Topic
    request: bytes
    """All else that makes a difference to the answer."""


_Key: TypeAlias = tuple[Question, Hashable]
"""A question, and whose the result is: None for everybody's."""


@define(eq=False)
class Fetch:
    """A question under way to the server."""

    question: Question
    holder: Hashable
    """Who asks."""
    began: float = field(default=0.0, init=False)


@frozen
class _Entry:
    """A result that is kept."""

    json: bytes
    size: int
    stale_at: float
    """On Trio's clock."""


@define(eq=False)
class Store:
    """The entries of a cache, and what is being fetched. Every method is synchronous, and called under Trio."""

    max_entries: int
    max_bytes: int
    size: int = field(default=0, init=False)
    """Bytes of all questions and results."""
    hits: int = field(default=0, init=False)
    misses: int = field(default=0, init=False)
    _entries: dict[_Key, _Entry] = field(factory=dict["_Key", "_Entry"], init=False)
    """The least recently used first."""
    _topics: dict[Hashable, dict[Topic, set[_Key]]] = field(
        factory=dict[Hashable, "dict[Topic, set[_Key]]"], init=False
    )
    """Which of them each server has on each topic."""
    _fetches: dict[Fetch, None] = field(factory=dict["Fetch", None], init=False)
    """Those whose results may be kept, in the order they began."""
    _clock: trio.abc.Clock | None = field(default=None, init=False)
    """Whose time it is."""

    def __len__(self) -> int:
        return len(self._entries)

    def has(self, question: Question, holder: Hashable) -> bool:
        """Tell whether there is a fresh result for *holder*. That is no use of it."""
        now = self._now()
        return any(self._is_fresh((question, each), now) for each in (holder, None))

    def find(self, question: Question, holder: Hashable) -> bytes | None:
        """Return the fresh result for *holder*, if there is any, and count that."""
        now = self._now()
        for key in ((question, holder), (question, None)):
            if self._is_fresh(key, now):
                self.hits += 1
                entry = self._entries[key] = self._entries.pop(key)  # now the most recently used
                return entry.json
            self._drop(key)
        self.misses += 1
        return None

    def begin(self, fetch: Fetch) -> None:
        """Something is asked for."""
        fetch.began = self._now()
        self._fetches[fetch] = None

    def end(self, fetch: Fetch) -> None:
        """It is over; a result that comes all the same is not kept."""
        self._fetches.pop(fetch, None)

    def keep(self, fetch: Fetch, json: bytes, ttl_ms: int, *, shared: bool) -> None:
        """Take a result, unless it is outdated already (rules 3 and 4).

        Args:
            ttl_ms: for how long it is fresh; if that is over, those of before are forgotten all the same.
            shared: keep it for everybody, and not only for who has asked.
        """
        now = self._now()
        if fetch not in self._fetches:
            return
        question = fetch.question
        for each in list(takewhile(lambda each: each is not fetch, self._fetches)):  # those that began before
            if each.question == question and (shared or each.holder == fetch.holder):
                self.end(each)
        self._drop((question, fetch.holder))
        self._drop((question, None))
        stale_at = fetch.began + min(ttl_ms, _LONGEST_MS) / 1000
        size = len(question.request) + len(json)
        if now < stale_at and size <= self.max_bytes:
            key = (question, None if shared else fetch.holder)
            self._entries[key] = _Entry(json, size, stale_at)
            self._topics.setdefault(question.server, {}).setdefault(question.topic, set()).add(key)
            self.size += size
            while len(self._entries) > self.max_entries or self.size > self.max_bytes:
                self._drop(next(iter(self._entries)))

    def changed(self, server: Hashable, change: Change) -> None:
        """Something on a server is not what it was."""
        if isinstance(change, ListChanged):
            self._outdate(server, lambda topic: topic.change == change)
        else:
            self._outdate(server, lambda topic: _has_part(topic.change, change))

    def unheard(self, server: Hashable, changes: ChangeFilter) -> None:
        """Any of these changes may have happened, because nobody was told."""
        self._outdate(server, lambda topic: topic.change is not None and changes.covers(topic.change))

    def forget(self, server: Hashable, topic: Topic) -> None:
        """What is kept on this topic is of no use."""
        for key in list(self._topics.get(server, {}).get(topic, ())):
            self._drop(key)

    def leave(self, server: Hashable, holder: Hashable) -> None:
        """What *holder* alone may see will not be asked for again; if it is the server's name, nothing of that will."""
        for topic in list(self._topics.get(server, {}).values()):
            for key in [key for key in topic if holder in (server, key[1])]:
                self._drop(key)
        for fetch in [each for each in self._fetches if holder in (each.question.server, each.holder)]:
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

    def _is_fresh(self, key: _Key, now: float) -> bool:
        entry = self._entries.get(key)
        return entry is not None and now < entry.stale_at

    def _outdate(self, server: Hashable, concerns: Callable[[Topic], bool]) -> None:
        for topic in [topic for topic in self._topics.get(server, ()) if concerns(topic)]:
            self.forget(server, topic)
        for fetch in [each for each in self._fetches if each.question.server == server]:
            if concerns(fetch.question.topic):
                self.end(fetch)

    def _drop(self, key: _Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.size -= entry.size
            server, topic, _ = key[0]
            self._topics[server][topic].remove(key)
            if not self._topics[server][topic]:
                del self._topics[server][topic]
            if not self._topics[server]:
                del self._topics[server]


def _has_part(whole: Change | None, part: ResourceUpdated) -> bool:
    """Tell whether *part* is about the resource *whole*, or about a part of it."""
    if not isinstance(whole, ResourceUpdated) or not part.uri.startswith(whole.uri):
        return False
    return ChangeFilter(resources=[whole.uri]).covers(part)
