"""Walking over a list that a server hands out page by page.

An iterator of its own, not an async generator: there is nothing to clean up between two items, so a caller may leave
its loop early without closing anything, and one that was cancelled in the middle may go on.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Generic, TypeVar

from attrs import define, field

from .. import types
from .._errors import RemoteProtocolError

__all__ = ["MAX_PAGES", "Walk"]

Item = TypeVar("Item")
Page = TypeVar(
    "Page",
    types.ListToolsResult,
    types.ListResourcesResult,
    types.ListResourceTemplatesResult,
    types.ListPromptsResult,
)

MAX_PAGES = 1000
"""Pages of a list that are walked, if the caller does not say otherwise; a server that has more has no end."""


@define(eq=False)
class Walk(AsyncIterator[Item], Generic[Page, Item]):
    """The items of every page, in order. No request is open while the caller works.

    Args:
        fetch: returns the page of a cursor; the first page for None.
        read: returns a page's items.
        max_pages: how many pages are walked; 1 or more.
    """

    _fetch: Callable[[str | None], Awaitable[Page]]
    _read: Callable[[Page], Iterable[Item]]
    _max_pages: int = MAX_PAGES
    _items: deque[Item] = field(factory=deque[Item], init=False)
    _cursor: str | None = field(default=None, init=False)
    _seen: set[str | None] = field(factory=set[str | None], init=False)
    """The cursors of the pages so far."""
    _ended: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        if self._max_pages < 1:
            raise ValueError(f"max_pages={self._max_pages!r}: must be 1 or more")

    async def __anext__(self) -> Item:
        while not self._items:
            if self._ended:
                raise StopAsyncIteration
            await self._turn()
        return self._items.popleft()

    async def _turn(self) -> None:
        if self._cursor in self._seen:
            raise RemoteProtocolError(f"the server's list has no end: cursor {self._cursor!r:.100} came twice")
        if len(self._seen) == self._max_pages:
            raise RemoteProtocolError(f"the server's list has no end within {self._max_pages} pages (max_pages)")
        page = await self._fetch(self._cursor)
        self._seen.add(self._cursor)
        self._items.extend(self._read(page))
        self._cursor = page.next_cursor
        self._ended = self._cursor is None
