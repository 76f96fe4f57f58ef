"""Iteration over lists page by page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import trio

from trio_mcp import Client, RemoteProtocolError, Server, open_client, types
from trio_mcp.client._lists import PageIterator
from trio_mcp.testing import ScriptedPeer, open_scripted_server


class PagedList:
    """A list in pages that records the requested cursors."""

    def __init__(self, *cursors: str | None) -> None:
        self.requested: list[str | None] = []
        self.next = dict(zip((None, *cursors), cursors, strict=False))

    async def page(self, cursor: str | None) -> types.ListPromptsResult:
        self.requested.append(cursor)
        await trio.lowlevel.checkpoint()
        prompts = [types.Prompt(name=f"{cursor}-{number}") for number in range(2)]
        return types.ListPromptsResult(prompts=prompts, next_cursor=self.next[cursor])


def iterate_over(fetch: Callable[..., object], **options: int) -> PageIterator[types.ListPromptsResult, types.Prompt]:
    def read(page: types.ListPromptsResult) -> Sequence[types.Prompt]:
        return page.prompts

    return PageIterator(fetch, read, **options)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] # any of the pages above


@pytest.mark.requirement("B.16-C1a", "B.16-C1c", "B.16-C2a", "G.14")
async def test_iteration_returns_every_item_of_every_page_in_order() -> None:
    paged = PagedList("a", "", None)

    assert [prompt.name async for prompt in iterate_over(paged.page)] == [
        "None-0",
        "None-1",
        "a-0",
        "a-1",
        "-0",
        "-1",
    ]
    assert paged.requested == [None, "a", ""]


async def test_a_page_is_requested_only_when_it_is_needed() -> None:
    paged = PagedList("a", None)

    async for _ in iterate_over(paged.page):
        break

    assert paged.requested == [None]


@pytest.mark.requirement("B.16-C2a")
async def test_a_finished_iterator_returns_no_more_items() -> None:
    iterator = iterate_over(PagedList(None).page)

    assert len([prompt async for prompt in iterator]) == 2
    assert [prompt async for prompt in iterator] == []


async def test_an_iteration_can_continue_after_a_cancellation() -> None:
    iterator, names = iterate_over(PagedList("a", None).page), list[str]()

    async for prompt in iterator:
        names.append(prompt.name)
        if prompt.name == "None-1":
            with trio.CancelScope() as scope:
                scope.cancel()
                await anext(iterator)
            assert scope.cancelled_caught

    assert names == ["None-0", "None-1", "a-0", "a-1"]


async def test_a_repeated_cursor_is_a_protocol_error() -> None:
    paged = PagedList("a", "b", "a")

    with pytest.raises(RemoteProtocolError, match="endless: cursor 'a' is repeated"):
        assert [prompt async for prompt in iterate_over(paged.page)]
    assert paged.requested == [None, "a", "b"]


async def test_an_iteration_over_too_many_pages_raises_after_the_last_allowed_page() -> None:
    paged, names = PagedList("a", "b", "c", None), list[str]()

    async def collect() -> None:
        async for prompt in iterate_over(paged.page, max_pages=3):
            names.append(prompt.name)

    with pytest.raises(RemoteProtocolError, match=r"more than 3 pages \(max_pages\)"):
        await collect()
    assert paged.requested == [None, "a", "b"]
    assert names == ["None-0", "None-1", "a-0", "a-1", "b-0", "b-1"]


async def test_a_list_with_exactly_max_pages_is_read_completely() -> None:
    paged = PagedList("a", "b", None)

    assert len([prompt async for prompt in iterate_over(paged.page, max_pages=3)]) == 6


async def test_the_default_limit_is_a_thousand_pages() -> None:
    paged = PagedList(*(str(number) for number in range(1000)), None)

    with pytest.raises(RemoteProtocolError, match="more than 1000 pages"):
        assert [prompt async for prompt in iterate_over(paged.page)]
    assert len(paged.requested) == 1000


@pytest.mark.parametrize("iterate", [Client.tools, Client.resources, Client.resource_templates, Client.prompts])
@pytest.mark.parametrize("pages", [0, -1])
async def test_max_pages_of_every_list_must_be_at_least_1(iterate: Callable[..., object], pages: int) -> None:
    async with open_client(Server("s")) as client:
        with pytest.raises(ValueError, match=f"max_pages={pages}: must be 1 or more"):
            iterate(client, max_pages=pages)


@pytest.mark.parametrize("iterate", [Client.tools, Client.resources, Client.resource_templates, Client.prompts])
async def test_max_pages_limits_every_list_of_a_client(iterate: Callable[..., Any]) -> None:
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


@pytest.mark.parametrize("kind", ["tools", "resources", "resource_templates", "prompts"])
async def test_an_empty_cursor_ends_a_list_of_a_legacy_server_and_is_logged_once(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    member = {"resource_templates": "resourceTemplates"}.get(kind, kind)

    async def serve(server: ScriptedPeer) -> None:
        while (request := await server.receive()) is not None:
            await server.respond(request, {member: [], "nextCursor": ""})

    async with (
        open_scripted_server(partial(ScriptedPeer.welcome, revision="2025-11-25"), revision="2025-11-25") as (
            client,
            server,
        ),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(serve, server)
        for _ in range(2):
            assert [each async for each in getattr(client, kind)()] == []
            assert (await getattr(client, f"list_{kind}")()).next_cursor is None
        nursery.cancel_scope.cancel()

    assert caplog.text.count("has an empty nextCursor") == 1
