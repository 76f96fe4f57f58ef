"""Unstructuring messages to JSON: the members that are set and that the revision knows are sent."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from trio_mcp import types


def test_only_members_that_are_set_are_sent() -> None:
    message = types.CallToolResult(content=[types.TextContent(text="a")])

    assert types.unstructure(message) == {"content": [{"type": "text", "text": "a"}]}


def test_a_significant_null_is_sent() -> None:
    task = types.Task(task_id="t", status="working", created_at="c", last_updated_at="l", ttl=None)

    assert types.unstructure(task)["ttl"] is None
    assert types.unstructure(types.CallToolResult(content=[], structured_content=None)) == {
        "content": [],
        "structuredContent": None,
    }


@pytest.mark.requirement("A.7-P1")
def test_unknown_members_are_sent_back_in_every_revision() -> None:
    value = {"type": "text", "text": "a", "x/y": [1]}

    for revision in (None, *types.REVISIONS):
        message = types.structure(value, types.TextContent, revision=revision)
        assert types.unstructure(message, revision=revision) == value


@pytest.mark.requirement("A.6-P1")
def test_named_members_that_the_revision_lacks_are_dropped() -> None:
    tool = types.Tool(name="x", title="X", input_schema={}, annotations=types.ToolAnnotations(title="T"))

    assert types.unstructure(tool, revision="2024-11-05") == {"name": "x", "inputSchema": {}}
    assert types.unstructure(tool, revision="2025-03-26") == {
        "name": "x",
        "inputSchema": {},
        "annotations": {"title": "T"},
    }
    assert types.unstructure(tool) == {"name": "x", "title": "X", "inputSchema": {}, "annotations": {"title": "T"}}


@pytest.mark.requirement("A.7-P1")
def test_a_request_keeps_its_metadata_in_every_revision() -> None:
    params = types.CallToolRequestParams(name="x", meta={"progressToken": 1})

    for revision in types.REVISIONS:
        assert types.unstructure(params, revision=revision) == {"name": "x", "_meta": {"progressToken": 1}}


def test_a_known_member_takes_precedence_over_an_unknown_one_of_the_same_name() -> None:
    assert types.unstructure(types.TextContent(text="a", extra={"text": "b", "c": 1})) == {
        "type": "text",
        "text": "a",
        "c": 1,
    }


def test_free_json_of_the_user_is_not_copied() -> None:
    arguments: types.JSONObject = {"a": [1]}
    content: types.JSONValue = [{"deep": {}}]
    meta: types.JSONObject = {"m": 1}

    params = types.unstructure(types.CallToolRequestParams(name="x", arguments=arguments, meta=meta))
    result = types.unstructure(types.CallToolResult(content=[], structured_content=content))

    assert params["arguments"] is arguments
    assert params["_meta"] is meta
    assert result["structuredContent"] is content


def test_any_sequence_and_mapping_may_be_sent() -> None:
    frozen: Mapping[str, Any] = MappingProxyType({"a": "b"})
    params = types.GetPromptRequestParams(name="x", arguments=frozen)
    icon = types.Icon(src="s", sizes=("1x1",))
    sizes = ["2x2"]

    assert types.unstructure(params) == {"name": "x", "arguments": {"a": "b"}}
    assert type(types.unstructure(params)["arguments"]) is dict
    assert types.unstructure(icon) == {"src": "s", "sizes": ["1x1"]}
    assert types.unstructure(types.Icon(src="s", sizes=sizes))["sizes"] is sizes
    assert types.unstructure(types.CallToolResult(content=(types.TextContent(text="a"),)))["content"] == [
        {"type": "text", "text": "a"}
    ]


def test_messages_inside_maps_and_unions_are_sent() -> None:
    question = types.ListRootsRequest()
    sampled = types.SamplingMessage(role="user", content=(types.TextContent(text="a"),))

    assert types.unstructure(
        types.InputRequiredResult(result_type="input_required", input_requests={"k": question})
    ) == {
        "resultType": "input_required",
        "inputRequests": {"k": {"method": "roots/list"}},
    }
    assert types.unstructure(sampled) == {"role": "user", "content": [{"type": "text", "text": "a"}]}


def test_lists_and_maps_of_messages_are_sent() -> None:
    block = types.TextContent(text="a")
    sent = {"type": "text", "text": "a"}

    assert types.unstructure([block, "as it is", 3, None]) == [sent, "as it is", 3, None]
    assert types.unstructure({"k": block}) == {"k": sent}
    assert types.unstructure(MappingProxyType({"k": 1})) == {"k": 1}


def test_a_value_in_place_of_a_message_is_refused_with_its_path() -> None:
    wrong: Any = 5

    with pytest.raises(TypeError, match=r"^\$\.content\[1\]: expected TextContent, .*, got "):
        types.unstructure(types.CallToolResult(content=[types.TextContent(text="a"), wrong]))


def test_a_fault_inside_a_map_of_messages_is_named_by_its_key() -> None:
    requests: Any = {"first": types.ListRootsRequest(), "second": 5}

    with pytest.raises(TypeError, match=r"^\$\.inputRequests\.second: expected .*, got "):
        types.unstructure(types.InputRequiredResult(result_type="input_required", input_requests=requests))


def test_one_block_in_place_of_several_is_sent_where_both_are_allowed() -> None:
    message = types.SamplingMessage(role="user", content=types.TextContent(text="a"))

    assert types.unstructure(message)["content"] == {"type": "text", "text": "a"}


def test_a_class_without_members_sends_unknown_members() -> None:
    assert types.unstructure(types.RootsCapability(), revision="2026-07-28") == {}
    assert types.unstructure(types.RootsCapability(extra={"a": 1}), revision="2026-07-28") == {"a": 1}


def test_the_fields_of_a_form_may_be_any_scalar() -> None:
    content: dict[str, Any] = {"name": "Ada", "seats": 2, "share": 0.5, "window": True, "meals": ("a", "b")}

    assert types.unstructure(types.ElicitResult(action="accept", content=content))["content"] == {
        **content,
        "meals": ["a", "b"],
    }


def test_a_string_is_not_a_list_of_strings() -> None:
    text: Any = "1x1"

    with pytest.raises(TypeError, match=r"^\$\.sizes: expected list, got str$"):
        types.unstructure(types.Icon(src="s", sizes=text))


def test_a_dict_in_place_of_a_message_is_sent_unchanged() -> None:
    raw: Any = {"type": "text", "text": "a"}

    assert types.unstructure(types.CallToolResult(content=[raw]))["content"][0] is raw


def test_a_message_of_another_class_is_refused() -> None:
    wrong: Any = types.Root(uri="file:///")

    with pytest.raises(TypeError, match=r"^\$\.tools\[0\]: expected Tool, got Root$"):
        types.unstructure(types.ListToolsResult(tools=[wrong]))


def test_a_custom_subclass_of_a_message_is_sent_as_that_message() -> None:
    class CountedTool(types.Tool):
        calls = 0

    tool = CountedTool(name="x", input_schema={}, meta={"a": 1})

    assert types.unstructure(types.ListToolsResult(tools=[tool]))["tools"] == [types.unstructure(tool)]
    assert types.unstructure(tool) == {"name": "x", "inputSchema": {}, "_meta": {"a": 1}}
    assert types.structure({"name": "x", "inputSchema": {}, "_meta": {"a": 1}}, CountedTool) == tool


def test_a_custom_subclass_of_a_content_block_is_sent_as_that_block() -> None:
    class LoudText(types.TextContent):
        pass

    blocks = [types.TextContent(text="a"), LoudText(text="b"), types.TextContent(text="c")]

    assert types.unstructure(types.CallToolResult(content=blocks))["content"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
        {"type": "text", "text": "c"},
    ]


def test_an_empty_dict_of_unknown_members_adds_nothing() -> None:
    assert types.unstructure(types.TextContent(text="a", extra={})) == {"type": "text", "text": "a"}
