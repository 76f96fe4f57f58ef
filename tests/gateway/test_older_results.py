"""Results of newer servers for callers of older revisions: passed as they are where that is known to be right."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gateway.helpers import LEGACY, MODERN, front, text_of
from trio_mcp import Server, StructureError, open_client, types
from trio_mcp.gateway._results import in_revision, without_server_info
from trio_mcp.wire import SERVER_INFO_KEY, JsonObject, decode, encode, json_text

TEXTS = [{"type": "text", "text": "a"}, {"type": "text", "text": 'é "b"'}]


def texts(value: Any) -> Any:
    """Return a member of a result as it is received if it is long."""
    return json_text(encode(value))


def result(**members: Any) -> JsonObject:
    return {"resultType": "complete", **members}


@pytest.mark.parametrize(
    "passed",
    [
        pytest.param({"content": TEXTS}, id="texts"),
        pytest.param({"content": [], "isError": True}, id="an error without content"),
        pytest.param({"content": TEXTS, "structuredContent": {"a": 1}, "isError": False}, id="an object"),
    ],
)
@pytest.mark.parametrize("is_long", [False, True])
def test_texts_and_objects_are_passed_as_they_are(passed: JsonObject, is_long: bool) -> None:
    given = {name: texts(each) if is_long and name != "isError" else each for name, each in passed.items()}
    shown = in_revision(result(**given), "tools/call", LEGACY, "tool")

    assert isinstance(shown, dict)
    assert shown == given
    assert decode(encode(shown)) == passed


@pytest.mark.parametrize(
    ("given", "revision"),
    [
        pytest.param({"content": TEXTS, "structuredContent": [1]}, LEGACY, id="an array"),
        pytest.param({"content": TEXTS, "structuredContent": texts([1])}, LEGACY, id="a long array"),
        pytest.param({"content": TEXTS, "structuredContent": {"a": 1}}, "2025-03-26", id="no structured content"),
        pytest.param({"content": [{**TEXTS[0], "annotations": {"priority": 1}}]}, "2024-11-05", id="annotations"),
        pytest.param({"content": texts([{**TEXTS[0], "_meta": {}}])}, "2025-03-26", id="long annotations"),
        pytest.param({"content": TEXTS, "_meta": {"a": 1}}, LEGACY, id="metadata"),
    ],
)
def test_everything_else_is_read_and_written_again(given: JsonObject, revision: str) -> None:
    shown = in_revision(result(**given), "tools/call", revision, "tool")

    assert isinstance(shown, types.CallToolResult)
    assert [block.text for block in shown.content if isinstance(block, types.TextContent)][:1] == ["a"]


@pytest.mark.parametrize("content", [[{"type": "text", "text": 5}], texts([{"type": "text", "text": 5}]), None])
def test_content_that_is_none_is_not_passed(content: Any) -> None:
    with pytest.raises(StructureError):
        in_revision(result(content=content), "tools/call", LEGACY, "tool")


def test_the_result_of_a_custom_method_is_passed_without_its_type() -> None:
    assert in_revision(result(a=1), "com.example/look", LEGACY, "") == {"a": 1}


@pytest.mark.parametrize("size", [10, 100_000])
async def test_a_caller_of_an_older_revision_gets_texts_of_any_size(size: int) -> None:
    server = Server("new", revisions=[MODERN])

    @server.tool
    async def repeat(size: int) -> list[types.TextContent]:
        return [types.TextContent(text="é" * size)]

    async with open_client(front(server), revision=LEGACY) as client:
        assert text_of(await client.call_tool("repeat", {"size": size})) == "é" * size


@pytest.mark.parametrize("is_long", [False, True])
def test_the_name_of_the_server_is_left_out_of_metadata_of_any_length(is_long: bool) -> None:
    meta = {SERVER_INFO_KEY: {"name": "new", "version": "1"}, "a": 1}

    shown = without_server_info(result(_meta=texts(meta) if is_long else meta))

    assert shown == result(_meta={"a": 1})
