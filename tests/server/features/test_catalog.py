"""Lists: pages, cursors, registrations during a walk, and JSON that is encoded once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from trio_mcp import Client, ErrorResponse, Server, open_client, types
from trio_mcp.server.features import _catalog
from trio_mcp.wire import encode

KEY = b"k" * 32


def of_x(x: str) -> str:
    return x


def register_numbered(server: Server, first: int, last: int) -> None:
    """Register a tool, a resource, a template and a prompt for each number from *first* to *last*."""
    for n in range(first, last + 1):
        server.tool(name=f"n{n}")(lambda: None)
        server.resources.add_static(f"n:{n}", "", name=f"n{n}")
        server.resource(f"n{n}:{{x}}", name=f"n{n}")(of_x)
        server.prompt(name=f"n{n}")(lambda: "")


def names(first: int, last: int) -> list[str]:
    return [f"n{n}" for n in range(first, last + 1)]


WALKS: dict[str, Callable[[Client], Any]] = {
    "tools/list": lambda client: client.tools(),
    "resources/list": lambda client: client.resources(),
    "resources/templates/list": lambda client: client.resource_templates(),
    "prompts/list": lambda client: client.prompts(),
}


@pytest.mark.requirement("B.16-S2")
@pytest.mark.parametrize("walk", WALKS.values(), ids=WALKS)
@pytest.mark.parametrize("page_size", [None, 1, 3, 4, 7, 8])
async def test_a_walk_yields_every_entry_once_with_any_page_size(
    walk: Callable[[Client], Any], page_size: int | None
) -> None:
    server = Server("s", page_size=page_size)
    register_numbered(server, 1, 7)

    async with open_client(server) as client:
        assert [each.name async for each in walk(client)] == names(1, 7)


async def test_the_last_page_has_no_cursor() -> None:
    server = Server("s", page_size=2)
    register_numbered(server, 1, 4)

    async with open_client(server) as client:
        first = await client.list_tools()
        second = await client.list_tools(first.next_cursor)

    assert [len(page.tools) for page in (first, second)] == [2, 2]
    assert first.next_cursor is not None
    assert second.next_cursor is None


@pytest.mark.requirement("B.16-S1a")
@pytest.mark.parametrize("walk", WALKS.values(), ids=WALKS)
async def test_a_walk_neither_misses_nor_repeats_entries_while_others_are_added_and_removed(
    walk: Callable[[Client], Any],
) -> None:
    server = Server("s", page_size=2)
    register_numbered(server, 1, 6)

    async with open_client(server) as client:
        seen: list[str] = []
        async for entry in walk(client):
            seen.append(entry.name)
            if entry.name == "n2":
                for n in (1, 2, 3):
                    server.tools.remove(f"n{n}")
                    server.resources.remove(f"n:{n}")
                    server.resources.remove(f"n{n}:{{x}}")
                    server.prompts.remove(f"n{n}")
                register_numbered(server, 7, 7)

    assert seen == ["n1", "n2", *names(4, 7)]


@pytest.mark.requirement("B.16-S1b")
@pytest.mark.parametrize("method", WALKS)
@pytest.mark.parametrize("cursor", ["", "0", "AAAA"])
async def test_a_forged_cursor_is_refused(cursor: str, method: str) -> None:
    server = Server("s", page_size=1)
    register_numbered(server, 1, 2)

    async with open_client(server) as client:
        with pytest.raises(ErrorResponse, match=f"is not a cursor of '{method}'") as caught:
            await client.request(method, {"cursor": cursor}, types.EmptyResult)

    assert caught.value.code == -32602


@pytest.mark.requirement("B.16-S1a")
async def test_a_cursor_is_valid_in_another_process_with_the_same_key() -> None:
    def make(keys: list[bytes]) -> Server:
        server = Server("s", page_size=2, keys=keys)
        register_numbered(server, 1, 3)
        return server

    async with open_client(make([KEY])) as client:
        cursor = (await client.list_tools()).next_cursor

    async with open_client(make([b"n" * 32, KEY])) as client:
        assert [tool.name for tool in (await client.list_tools(cursor)).tools] == ["n3"]
    async with open_client(make([])) as client:
        with pytest.raises(ErrorResponse, match="not a cursor of 'tools/list'"):
            await client.list_tools(cursor)


def test_a_page_size_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="page_size=0: must be an integer of at least 1"):
        Server("s", page_size=0)


@pytest.mark.complaint(26)
async def test_an_entry_is_encoded_once_for_each_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server("s", page_size=2)
    register_numbered(server, 1, 3)
    encoded: list[Any] = []

    def encode_and_count(value: Any) -> bytes:
        encoded.append(value)
        return encode(value)

    monkeypatch.setattr(_catalog, "encode", encode_and_count)

    for revision in ("2025-06-18", "2025-06-18", "2026-07-28"):
        async with open_client(server, revision=revision) as client:
            for _ in range(3):
                assert [tool.name async for tool in client.tools()] == names(1, 3)
    assert len(encoded) == 3  # the newest revision is encoded at registration

    server.tool(name="n4")(lambda: None)
    async with open_client(server, revision="2025-06-18") as client:
        assert [tool.name async for tool in client.tools()] == names(1, 4)
    assert len(encoded) == 3 + 2  # only the new tool: at registration and for the legacy revision


@pytest.mark.requirement("A.6-P1")
@pytest.mark.parametrize("walk", WALKS.values(), ids=WALKS)
async def test_a_removed_entry_is_missing_from_a_list_that_was_sent_before(walk: Callable[[Client], Any]) -> None:
    server = Server("s")
    register_numbered(server, 1, 2)

    async with open_client(server) as client:
        assert [each.name async for each in walk(client)] == names(1, 2)
        server.tools.remove("n1")
        server.resources.remove("n:1")
        server.resources.remove("n1:{x}")
        server.prompts.remove("n1")
        assert [each.name async for each in walk(client)] == names(2, 2)


async def test_lists_contain_only_the_fields_of_the_revision() -> None:
    server = Server("s")
    icon = types.Icon(src="https://example.com/i.png", mime_type="image/png", sizes=["48x48"])
    notes = types.Annotations(audience=["user"], priority=0.5)
    server.tool(name="t", title="T", icons=[icon], meta={"a": 1})(lambda: None)
    about: dict[str, Any] = {"title": "T", "icons": [icon], "meta": {"a": 1}, "annotations": notes}
    server.resources.add_static("a:b", b"123", name="r", **about)
    server.resource("a:{x}", name="d", **about)(of_x)
    server.resource("a:size", name="z", size=5)(lambda: "12345")
    server.prompt(name="p", title="T", icons=[icon], meta={"a": 1})(lambda: "")

    shown: dict[str, dict[str, Any]] = {}
    for revision in types.REVISIONS:
        async with open_client(server, revision=revision) as client:
            entries: list[Any] = []
            for walk in WALKS.values():
                entries += [each async for each in walk(client)]
            shown[revision] = {each.name: types.unstructure(each) for each in entries}

    annotated = {"annotations": {"audience": ["user"], "priority": 0.5}}
    assert shown["2024-11-05"] == {
        "t": {"name": "t", "inputSchema": {"type": "object", "additionalProperties": False}},
        "r": {"name": "r", "uri": "a:b", "size": 3, **annotated},
        "z": {"name": "z", "uri": "a:size", "size": 5},
        "d": {"name": "d", "uriTemplate": "a:{x}", **annotated},
        "p": {"name": "p"},
    }
    assert shown["2025-03-26"] == shown["2024-11-05"]
    titled = {"title": "T", "_meta": {"a": 1}}
    older = shown["2024-11-05"]
    assert shown["2025-06-18"] == {
        name: each | (titled if name != "z" else {"title": "Z"}) for name, each in older.items()
    }
    pictured = {"icons": [{"src": "https://example.com/i.png", "mimeType": "image/png", "sizes": ["48x48"]}]}
    for revision in ("2025-11-25", "2026-07-28"):
        assert shown[revision] == {
            name: each | (pictured if name != "z" else {}) for name, each in shown["2025-06-18"].items()
        }


def test_metadata_that_json_cannot_represent_is_refused_at_registration() -> None:
    server = Server("s")

    with pytest.raises(ValueError, match="NaN"):
        server.tool(name="t", meta={"a": float("nan")})(lambda: None)
    assert server.capabilities.tools is None
    assert json.dumps(types.unstructure(server.capabilities)) == '{"logging": {}}'


def test_a_page_size_that_is_not_an_integer_is_refused() -> None:
    half: Any = 2.5

    with pytest.raises(ValueError, match=r"page_size=2\.5: must be an integer"):
        Server("s", page_size=half)


@pytest.mark.parametrize(
    ("options", "kind", "fault"),
    [
        ({"description": 3}, ValueError, r"tool 't': .*\$\.description: expected string, got integer"),
        ({"icons": ["i.png"]}, TypeError, r"tool 't': \$\.icons\[0\]: expected Icon, got str"),
        ({"meta": {"a": object()}}, ValueError, "tool 't': .*object"),
    ],
)
def test_metadata_that_would_make_the_list_invalid_is_refused_at_registration(
    options: dict[str, Any], kind: type[Exception], fault: str
) -> None:
    server = Server("s")

    with pytest.raises(kind, match=fault):
        server.tool(name="t", **options)(lambda: None)
    assert not server.tools.catalog.offered


def test_at_most_256_pages_are_kept_for_the_cursors_of_a_peer() -> None:
    server = Server("s", page_size=1)
    catalog, gathered = server.tools.catalog, list[str]()
    server.tool(name="n0")(lambda: None)
    for n in range(300):
        server.tool(name=f"n{n + 1}")(lambda: None)
        gathered.append(catalog.page("2026-07-28", None, 1, server._internals.cursors, None)["nextCursor"])
        server.tools.remove(f"n{n}")

    cursors = server._internals.cursors
    pages = [bytes(catalog.page("2026-07-28", cursor, 1, cursors, None)["tools"]) for cursor in gathered]

    assert all(json.loads(page)[0]["name"] == "n300" for page in pages)
    assert len(catalog._pages) == 256
