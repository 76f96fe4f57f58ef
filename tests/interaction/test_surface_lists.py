"""The identity of a server and its lists, whole and by pages, in every revision and over every transport."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from attrs import frozen

from tests.interaction.openers import Opener
from tests.interaction.over_http import OVER_SOCKETS
from tests.interaction.surface import (
    ABOUT,
    INFO,
    MODERN,
    NOTES,
    PRIVATE,
    SharedTests,
    known,
    plain,
    result,
)
from trio_mcp import Client, ErrorResponse, types

shared_tests = SharedTests()


@frozen
class List:
    """One of the four lists."""

    method: str
    member: str
    page: Callable[[Client, str | None], Awaitable[Any]]
    walk: Callable[[Client], AsyncIterator[Any]]


LISTS = [
    List("tools/list", "tools", lambda client, cursor: client.list_tools(cursor), lambda client: client.tools()),
    List(
        "resources/list",
        "resources",
        lambda client, cursor: client.list_resources(cursor),
        lambda client: client.resources(),
    ),
    List(
        "resources/templates/list",
        "resourceTemplates",
        lambda client, cursor: client.list_resource_templates(cursor),
        lambda client: client.resource_templates(),
    ),
    List(
        "prompts/list", "prompts", lambda client, cursor: client.list_prompts(cursor), lambda client: client.prompts()
    ),
]

HINTS = {
    "title": "Hinted",
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}
NOTHING = {"type": "object", "additionalProperties": False}
INTEGERS = {"x": {"type": "integer"}, "y": {"type": "integer"}}
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def tools(revision: str) -> list[dict[str, Any]]:
    closed: dict[str, Any] = {"additionalProperties": False}
    point: dict[str, Any] = {"type": "object", "properties": INTEGERS, "required": ["x", "y"]}
    names: dict[str, Any] = {"type": "object", "properties": {"result": {"type": "array", "items": {"type": "string"}}}}
    names["required"] = ["result"]
    failed = {"type": "object", "properties": {"failed": {"type": "boolean"}}, "required": ["failed"]}
    hints = {"annotations": HINTS} if revision >= "2025-03-26" else {}
    others: dict[str, dict[str, Any]] = {
        "array": {"type": "array", "items": {"type": "integer"}},
        "null": {"type": "null"},
        "scalar": {"type": "number"},
    }  # older revisions allow only object schemas
    return [
        known(revision, {"name": "point", "inputSchema": point | closed, "outputSchema": point, **ABOUT}) | hints,
        {"name": "blocks", "inputSchema": NOTHING},
        {"name": "mixed", "inputSchema": NOTHING},
        {"name": "whole", "inputSchema": failed | closed},
        known(revision, {"name": "names", "inputSchema": NOTHING, "outputSchema": names}),
        *(
            {"name": name, "inputSchema": NOTHING} | ({"outputSchema": schema} if revision == MODERN else {})
            for name, schema in others.items()
        ),
        {
            "name": "learn",
            "description": "Register a tool, a resource, a template and a prompt of this name.",
            "inputSchema": NAME | closed,
        },
        {"name": "forget", "description": "Remove the entries of this name.", "inputSchema": NAME | closed},
        {"name": "say", "description": "Send a log message of each level.", "inputSchema": NOTHING},
    ]


RESOURCES: list[dict[str, Any]] = [
    {"name": "text", "uri": "notes://text", "size": 6, "annotations": NOTES, **ABOUT},
    {"name": "bytes", "uri": "notes://bytes", "mimeType": "image/png", "size": 256},
    {"name": "several", "uri": "notes://several"},
    {"name": "made", "uri": "notes://made", "mimeType": "application/json", "size": 8, **ABOUT},
    {"name": "whole", "uri": "notes://whole"},
]
TEMPLATES: list[dict[str, Any]] = [
    {
        "name": "named",
        "uriTemplate": "notes://named/{name}",
        "mimeType": "text/markdown",
        "annotations": NOTES,
        **ABOUT,
    },
    {"name": "file", "uriTemplate": "notes://file/{+path}"},
    {"name": "tree", "uriTemplate": "notes://tree{/names*}"},
    {"name": "search", "uriTemplate": "notes://search{?q,limit}"},
    {"name": "anywhere", "uriTemplate": "notes://anywhere/{+path}"},
]
PROMPTS: list[dict[str, Any]] = [
    {
        "name": "plan",
        "arguments": [
            {"name": "city", "title": "City", "description": "where to go", "required": True},
            {"name": "days", "description": "how long", "required": True},
            {"name": "pace", "required": False},
        ],
        **ABOUT,
    },
    {"name": "blocks", "description": "Every kind of content, of both roles."},
    {"name": "mixed"},
    {"name": "whole"},
]


def entries(revision: str) -> dict[str, list[dict[str, Any]]]:
    """Return what each list has in *revision*."""
    others: dict[str, list[dict[str, Any]]] = known(
        revision, {"resources": RESOURCES, "resourceTemplates": TEMPLATES, "prompts": PROMPTS}
    )
    listed = {"tools": tools(revision), **others}
    if revision < "2025-06-18":
        return listed
    return {
        member: [{"title": entry["name"].capitalize(), **entry} for entry in each] for member, each in listed.items()
    }


@shared_tests.add
@pytest.mark.requirement("A.6-P1", "B.20-S1a", "B.21-S1a", "B.22-S1a", "B.18-S1", "B.19-S1")
async def test_a_server_announces_its_name_and_its_capabilities(surface: Opener, revision: str) -> None:
    async with surface() as client:
        info, capabilities = plain(client.server_info), plain(client.server_capabilities)
        instructions = client.instructions

    names = {"name", "version"}
    names |= {"title"} if revision >= "2025-06-18" else set()
    names |= {"description", "websiteUrl", "icons"} if revision >= "2025-11-25" else set()
    assert info == {name: value for name, value in INFO.items() if name in names}
    assert instructions == "Look around."
    declared = {"logging", "prompts", "resources", "tools"}
    assert set(capabilities) - {"completions"} == declared
    assert ("completions" in capabilities) == (revision >= "2025-03-26")


@shared_tests.add
@pytest.mark.requirement("A.6-P1", "B.26-P1")
async def test_each_list_contains_exactly_the_members_that_the_revision_has(surface: Opener, revision: str) -> None:
    async with surface() as client:
        pages = {each.member: plain(await each.page(client, None)) for each in LISTS}

    assert pages == {
        member: result(revision, {member: expected}, kept=PRIVATE) for member, expected in entries(revision).items()
    }


@shared_tests.add
@pytest.mark.requirement("B.16-S2", "B.16-C2a", "B.22-P2")
async def test_each_list_has_the_same_entries_page_by_page(surface: Opener, revision: str) -> None:
    async with surface(page_size=2) as client:
        for each in LISTS:
            expected, cursor = entries(revision)[each.member], None
            for start in range(0, len(expected), 2):
                page = plain(await each.page(client, cursor))
                cursor = page.pop("nextCursor", None)
                assert page == result(revision, {each.member: expected[start : start + 2]}, kept=PRIVATE)
                assert (cursor is None) == (start + 2 >= len(expected))
            assert [plain(entry) async for entry in each.walk(client)] == expected


@shared_tests.add
@pytest.mark.requirement("B.16-S1b", "B.16-S1c")
async def test_an_unknown_cursor_or_one_of_another_list_is_refused(surface: Opener, revision: str) -> None:
    async with surface(page_size=2) as client:
        cursors = [(await each.page(client, None)).next_cursor for each in LISTS]
        for each, another in zip(LISTS, [*cursors[1:], cursors[0]], strict=True):
            for cursor in ("", "made up", another):
                with pytest.raises(ErrorResponse, match=f"is not a cursor of '{each.method}'") as refused:
                    await each.page(client, cursor)
                assert (refused.value.code, refused.value.data) == (-32602, None)
        for each, cursor in zip(LISTS, cursors, strict=True):
            assert plain(await each.page(client, cursor))[each.member]


@shared_tests.add
async def test_the_next_list_shows_entries_registered_and_removed_while_serving(surface: Opener, revision: str) -> None:
    for page_size in (None, 2):
        async with surface(page_size) as client:
            before = await last_names(client)
            await client.call_tool("learn", {"name": "juggle"}, raise_on_error=True)
            learned = await last_names(client)
            called = await client.call_tool("juggle")
            (read,) = (await client.read_resource("new://juggle/x")).contents
            await client.call_tool("forget", {"name": "juggle"}, raise_on_error=True)
            for attempt, name, refusal in (
                (client.call_tool, "juggle", "no tool 'juggle'"),
                (client.get_prompt, "juggle", "no prompt 'juggle'"),
                (client.read_resource, "new://juggle", "no resource 'new://juggle'"),
                (client.read_resource, "new://juggle/x", "no resource 'new://juggle/x'"),
            ):
                with pytest.raises(ErrorResponse, match=refusal):
                    await attempt(name)
            forgotten = await last_names(client)

        assert before == forgotten == ["say", "whole", "anywhere", "whole"]
        assert learned == ["juggle"] * 4
        assert called.content == [types.TextContent(text="I am juggle")]
        assert read == types.TextResourceContents(uri="new://juggle/x", mime_type="text/plain", text="x")


async def last_names(client: Client) -> list[str]:
    return [[entry.name async for entry in each.walk(client)][-1] for each in LISTS]


async def test_the_same_tests_pass_over_stdio(revision: str) -> None:
    await shared_tests.run_over_stdio(revision)


@pytest.mark.parametrize("over", OVER_SOCKETS)
async def test_the_same_tests_pass_over_sockets(over: str, revision: str) -> None:
    await shared_tests.run_over_a_socket(over, revision)
