"""Walking over lists page by page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import trio

from trio_mcp import Client, RemoteProtocolError, Server, open_client, types
from trio_mcp.client._lists import PageIterator


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


def walk(fetch: Callable[..., object], **options: int) -> PageIterator[types.ListPromptsResult, types.Prompt]:
    def read(page: types.ListPromptsResult) -> Sequence[types.Prompt]:
        return page.prompts

    return PageIterator(fetch, read, **options)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] # any of the pages above


@pytest.mark.requirement("B.16-C1a", "B.16-C1c", "B.16-C2a", "G.14")
async def test_every_item_of_every_page_comes_in_order() -> None:
    book = Book("a", "", None)

    assert [prompt.name async for prompt in walk(book.page)] == ["None-0", "None-1", "a-0", "a-1", "-0", "-1"]
    assert book.asked == [None, "a", ""]


async def test_no_page_is_asked_for_before_it_is_needed() -> None:
    book = Book("a", None)

    async for _ in walk(book.page):
        break

    assert book.asked == [None]


@pytest.mark.requirement("B.16-C2a")
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

    with pytest.raises(RemoteProtocolError, match="endless: cursor 'a' is repeated"):
        assert [prompt async for prompt in walk(book.page)]
    assert book.asked == [None, "a", "b"]


async def test_a_list_of_too_many_pages_ends_the_walk_after_the_last_of_them() -> None:
    book, names = Book("a", "b", "c", None), list[str]()

    async def collect() -> None:
        async for prompt in walk(book.page, max_pages=3):
            names.append(prompt.name)

    with pytest.raises(RemoteProtocolError, match=r"more than 3 pages \(max_pages\)"):
        await collect()
    assert book.asked == [None, "a", "b"]
    assert names == ["None-0", "None-1", "a-0", "a-1", "b-0", "b-1"]


async def test_a_list_that_has_just_as_many_pages_as_allowed_is_walked_to_its_end() -> None:
    book = Book("a", "b", None)

    assert len([prompt async for prompt in walk(book.page, max_pages=3)]) == 6


async def test_a_thousand_pages_are_walked_unless_the_caller_says_otherwise() -> None:
    book = Book(*(str(number) for number in range(1000)), None)

    with pytest.raises(RemoteProtocolError, match="more than 1000 pages"):
        assert [prompt async for prompt in walk(book.page)]
    assert len(book.asked) == 1000


@pytest.mark.parametrize("iterate", [Client.tools, Client.resources, Client.resource_templates, Client.prompts])
@pytest.mark.parametrize("pages", [0, -1])
async def test_every_list_of_a_client_can_be_bounded_and_a_bound_allows_one_page_at_least(
    iterate: Callable[..., object], pages: int
) -> None:
    async with open_client(Server("s")) as client:
        with pytest.raises(ValueError, match=f"max_pages={pages}: must be 1 or more"):
            iterate(client, max_pages=pages)


@pytest.mark.parametrize("iterate", [Client.tools, Client.resources, Client.resource_templates, Client.prompts])
async def test_every_list_of_a_client_ends_at_the_bound_it_was_given(iterate: Callable[..., Any]) -> None:
    server = Server("s", page_size=1)
    for number in range(3):
        server.tool(name=f"tool-{number}")(work)
        server.resource(f"memo://{number}", name=f"memo-{number}")(text)
        server.resource(f"memo://{number}/{{name}}", name=f"template-{number}")(greet)
        server.prompt(name=f"prompt-{number}")(text)

    async with open_client(server) as client:
        assert len([each async for each in iterate(client, max_pages=3)]) == 3
        with pytest.raises(RemoteProtocolError, match="more than 2 pages"):
            assert [each async for each in iterate(client, max_pages=2)]


async def work() -> None:
    """Do nothing."""


async def text() -> str:
    return "text"


async def greet(name: str) -> str:
    return name
