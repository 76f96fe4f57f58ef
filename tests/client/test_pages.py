"""Walking over lists page by page."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import trio

from trio_mcp import RemoteProtocolError, types
from trio_mcp.client import _pages
from trio_mcp.client._pages import Walk


class Book:
    """Pages by cursor."""

    def __init__(self, *cursors: str | None) -> None:
        self.asked: list[str | None] = []
        self.next = dict(zip((None, *cursors), cursors, strict=False))

    async def page(self, cursor: str | None) -> types.ListPromptsResult:
        self.asked.append(cursor)
        await trio.lowlevel.checkpoint()
        prompts = [types.Prompt(name=f"{cursor}-{number}") for number in range(2)]
        return types.ListPromptsResult(prompts=prompts, next_cursor=self.next[cursor])


def walk(fetch: Callable[..., object]) -> Walk[types.ListPromptsResult, types.Prompt]:
    def read(page: types.ListPromptsResult) -> Sequence[types.Prompt]:
        return page.prompts

    return Walk(fetch, read)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] # any of the pages above


async def test_every_item_of_every_page_comes_in_order() -> None:
    book = Book("a", "", None)

    assert [prompt.name async for prompt in walk(book.page)] == ["None-0", "None-1", "a-0", "a-1", "-0", "-1"]
    assert book.asked == [None, "a", ""]


async def test_no_page_is_asked_for_before_it_is_needed() -> None:
    book = Book("a", None)

    async for _ in walk(book.page):
        break

    assert book.asked == [None]


async def test_a_walk_that_is_over_stays_over() -> None:
    walking = walk(Book(None).page)

    assert len([prompt async for prompt in walking]) == 2
    assert [prompt async for prompt in walking] == []


async def test_a_walk_may_go_on_after_a_cancellation() -> None:
    walking, names = walk(Book("a", None).page), list[str]()

    async for prompt in walking:
        names.append(prompt.name)
        if prompt.name == "None-1":
            with trio.CancelScope() as scope:
                scope.cancel()
                await anext(walking)
            assert scope.cancelled_caught

    assert names == ["None-0", "None-1", "a-0", "a-1"]


async def test_a_cursor_that_comes_back_ends_the_walk() -> None:
    book = Book("a", "b", "a")

    with pytest.raises(RemoteProtocolError, match="no end"):
        assert [prompt async for prompt in walk(book.page)]
    assert book.asked == [None, "a", "b"]


async def test_a_list_of_too_many_pages_ends_the_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pages, "MAX_PAGES", 3)
    book = Book("a", "b", "c", None)

    with pytest.raises(RemoteProtocolError, match="no end"):
        assert [prompt async for prompt in walk(book.page)]
    assert book.asked == [None, "a", "b"]
