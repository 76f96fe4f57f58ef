"""Titles for humans, which are made from the names of entries that have none."""

from __future__ import annotations

from typing import Any

import pytest

from trio_mcp import Server, open_client, types

TITLES = {
    "search_books": "Search books",
    "getUserById": "Get user by id",
    "parseHTTPHead": "Parse HTTP head",
    "getUserIDs": "Get user IDs",
    "export-CSV.v2": "Export CSV v2",
    "SEARCH_BOOKS": "Search books",
    "API": "API",
    "sha256Sum": "Sha256 sum",
    "admin/tools/list": "Admin tools list",
    "_private_": "Private",
    "größteZahl": "Größte zahl",
    "Ada's Notes": "Ada's Notes",
}


def of_x(x: str) -> str:
    return x


async def entries(server: Server, revision: str = "2026-07-28") -> list[Any]:
    async with open_client(server, revision=revision) as client:
        walks: list[Any] = [client.tools(), client.resources(), client.resource_templates(), client.prompts()]
        return [entry for walk in walks for entry in [each async for each in walk]]


def register(server: Server, name: str, **options: Any) -> None:
    """Register an entry of every kind."""
    server.tool(name=name, **options)(lambda: None)
    server.resource("a:b", name=name, **options)(lambda: "")
    server.resources.add_static("a:constant", "", name=name, **options)
    server.resource("a:{x}", name=name, **options)(of_x)
    server.prompt(name=name, **options)(of_x)


@pytest.mark.parametrize(("name", "title"), TITLES.items())
async def test_the_title_of_an_entry_is_made_from_its_name(name: str, title: str) -> None:
    server = Server("s")
    register(server, name)

    assert [(each.name, each.title) for each in await entries(server)] == [(name, title)] * 5


async def test_a_given_title_wins() -> None:
    server = Server("s")
    register(server, "search_books", title="Find a book")
    server.tool(name="plain", title="")(lambda: None)
    server.tool(name="annotated", annotations=types.ToolAnnotations(title="Older"))(lambda: None)
    server.tool(name="hinted", annotations=types.ToolAnnotations(read_only_hint=True))(lambda: None)

    titles = [each.title for each in await entries(server)]

    assert titles == ["Find a book", "", "Older", "Hinted", *["Find a book"] * 4]


async def test_a_name_without_words_has_no_title() -> None:
    server = Server("s")
    register(server, "__")

    assert [each.title for each in await entries(server)] == [None] * 5


@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_titles_are_sent_in_the_revisions_that_have_them(revision: str) -> None:
    server = Server("s")
    register(server, "search_books")

    expected = "Search books" if revision >= "2025-06-18" else None
    assert [each.title for each in await entries(server, revision)] == [expected] * 5
