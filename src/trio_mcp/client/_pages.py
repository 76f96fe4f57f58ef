"""Walking over a list that a server hands out page by page.

An iterator of its own, not an async generator: there is nothing to clean up between two items, so a caller may leave
its loop early without closing anything, and one that was cancelled in the middle may go on.

A server may refuse a cursor that it gave out some time ago, on a page that was cached, say. Then the list is read anew
from its beginning, once, and what the caller has had is not repeated.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Generic, TypeVar

from attrs import define, field

from .. import types
from .._errors import ErrorResponse, RemoteProtocolError
from ..wire import INVALID_PARAMS

__all__ = ["MAX_PAGES", "Walk"]

Item = TypeVar("Item", bound="types.Tool | types.Resource | types.ResourceTemplate | types.Prompt")
Page = TypeVar(
    "Page",
    "types.ListToolsResult",
    "types.ListResourcesResult",
    "types.ListResourceTemplatesResult",
    "types.ListPromptsResult",
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
    _had: set[str] = field(factory=set[str], init=False)
    """What tells the items so far from others."""
    _began_anew: bool = field(default=False, init=False)

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
        try:
            page = await self._fetch(self._cursor)
        except ErrorResponse as error:
            if self._cursor is None or error.code != INVALID_PARAMS or self._began_anew:
                raise
            self._began_anew, self._cursor = True, None
            self._seen.clear()
            return
        self._seen.add(self._cursor)
        for item in self._read(page):
            identity = _identity(item)
            if not self._began_anew or identity not in self._had:
                self._items.append(item)
            self._had.add(identity)
        self._cursor = page.next_cursor
        self._ended = self._cursor is None


def _identity(item: types.Tool | types.Resource | types.ResourceTemplate | types.Prompt) -> str:
    match item:
        case types.Resource():
            return item.uri
        case types.ResourceTemplate():
            return item.uri_template
        case _:
            return item.name
