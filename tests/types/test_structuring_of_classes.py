"""Structuring JSON as classes: no value is coerced or lost, and every fault is named with its path."""

from __future__ import annotations

from typing import Any

import pytest

from trio_mcp import StructureError, types


def faults(value: Any, kind: Any, revision: str | None = None) -> tuple[str, ...]:
    with pytest.raises(StructureError) as caught:
        types.structure(value, kind, revision=revision)
    return caught.value.faults


def test_a_json_object_becomes_a_message() -> None:
    tool = types.structure({"name": "x", "inputSchema": {"type": "object"}}, types.Tool)

    assert tool == types.Tool(name="x", input_schema={"type": "object"})


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"text": 3, "type": "text"}, "$.text: expected string, got integer"),
        ({"text": True, "type": "text"}, "$.text: expected string, got boolean"),
        ({"text": None, "type": "text"}, "$.text: expected string, got null"),
        ({"text": "a"}, "$: required member 'type' is missing"),
        ({"text": "a", "type": "TEXT"}, "$.type: expected 'text', got 'TEXT'"),
        ({"text": "a", "type": ["text"]}, "$.type: expected 'text', got array"),
        ({"text": "a", "type": "t" * 99}, f"$.type: expected 'text', got '{'t' * 59}..."),
        ({"text": "a", "type": "text", "annotations": []}, "$.annotations: expected object, got array"),
        ("text", "$: expected object, got string"),
        ((1, 2), "$: expected object, got tuple"),
    ],
)
def test_a_wrong_member_is_named_by_its_path(value: Any, fault: str) -> None:
    assert faults(value, types.TextContent) == (fault,)


def test_all_faults_of_a_value_are_named() -> None:
    value = {
        "messages": [
            {"role": "user", "content": {"type": "text", "text": 3}},
            {"role": "king", "content": {"type": "text", "text": "a"}},
        ],
        "maxTokens": "3",
    }

    assert faults(value, types.CreateMessageRequestParams) == (
        "$.messages[0].content.text: expected string, got integer",
        "$.messages[1].role: expected one of 'assistant', 'user', got 'king'",
        "$.maxTokens: expected integer, got string",
    )


def test_the_error_names_the_type() -> None:
    with pytest.raises(StructureError, match=r"^not a TextContent: "):
        types.structure({}, types.TextContent)


def test_an_unusual_member_name_is_quoted_in_the_path() -> None:
    value = {"properties": {"a b": {"type": "wrong"}}, "type": "object"}

    (fault,) = faults(value, types.ElicitRequestedSchema)

    assert fault.startswith('$.properties["a b"]')


def test_a_long_member_name_is_shortened_in_a_path() -> None:
    (fault,) = faults({"arguments": {"k" * 500: 1}, "name": "x"}, types.GetPromptRequestParams)

    assert fault == f'$.arguments["{"k" * 60}..."]: expected string, got integer'


def test_faults_beyond_a_hundred_are_only_counted() -> None:
    found = faults({"values": [1] * 1000}, types.Completion)

    assert len(found) == 101
    assert found[-1] == "... and 900 more"


def test_the_limit_of_a_hundred_faults_applies_to_the_whole_value() -> None:
    value = {"resourceSubscriptions": [1] * 90}
    found = faults([value, value], list[types.SubscriptionFilter])

    assert len(found) == 101
    assert found[-1] == "... and 80 more"


def test_a_very_large_integer_is_not_quoted_in_the_fault() -> None:
    assert faults({"priority": 1 << 5000}, types.Annotations) == (
        "$.priority: expected at most 1, got a very large integer",
    )


@pytest.mark.parametrize("value", ["3", 3.5, True, None, [3]])
def test_a_value_that_is_not_an_integer_is_refused_as_an_integer(value: Any) -> None:
    assert len(faults({"maxTokens": value, "messages": []}, types.CreateMessageRequestParams)) == 1


def test_an_integer_may_be_written_with_a_fraction_of_zero() -> None:
    size = types.structure({"name": "x", "uri": "a:b", "size": 2.0}, types.Resource).size

    assert size == 2
    assert type(size) is int


@pytest.mark.parametrize("value", ["1", True, [1]])
def test_a_value_that_is_not_a_number_is_refused_as_a_number(value: Any) -> None:
    assert faults({"progress": value, "progressToken": 1}, types.ProgressNotificationParams)


def test_integers_and_floats_keep_their_type() -> None:
    params = types.structure({"progress": 10**30, "total": 0.5, "progressToken": 1}, types.ProgressNotificationParams)

    assert (params.progress, params.total) == (10**30, 0.5)
    assert type(params.progress) is int


@pytest.mark.parametrize("value", [0, 1, "true"])
def test_a_value_that_is_not_a_boolean_is_refused_as_a_boolean(value: Any) -> None:
    assert faults({"content": [], "isError": value}, types.CallToolResult)


def test_an_integer_and_its_string_are_two_ids() -> None:
    assert types.structure(1, types.RequestId) == 1
    assert types.structure("1", types.RequestId) == "1"
    assert faults(True, types.RequestId) == ("$: expected integer or string, got boolean",)
    assert faults(1.5, types.RequestId) == ("$: expected integer, got number",)


class _Text(str):
    __slots__ = ()


class _Number(int):
    pass


class _Object(dict[str, Any]):
    pass


@pytest.mark.parametrize(
    ("value", "kind", "fault"),
    [
        ({"name": _Text("x")}, types.CallToolRequestParams, "$.name: expected string, got _Text"),
        (
            {"name": "x", "arguments": _Object()},
            types.CallToolRequestParams,
            "$.arguments: expected object, got _Object",
        ),
        ({"name": "x", "arguments": []}, types.CallToolRequestParams, "$.arguments: expected object, got array"),
        (_Object(name="x"), types.CallToolRequestParams, "$: expected object, got _Object"),
        ({"ttl": _Number(1)}, types.TaskMetadata, "$.ttl: expected integer, got _Number"),
        ({"ttl": True}, types.TaskMetadata, "$.ttl: expected integer, got boolean"),
        (
            {"progressToken": 1, "progress": True},
            types.ProgressNotificationParams,
            "$.progress: expected number, got boolean",
        ),
        ({"content": [], "isError": 1}, types.CallToolResult, "$.isError: expected boolean, got integer"),
        (
            {"content": [_Object(type="text", text="a")]},
            types.CallToolResult,
            "$.content[0]: expected object, got _Object",
        ),
    ],
)
def test_a_value_of_a_class_that_is_not_json_is_refused(value: Any, kind: Any, fault: str) -> None:
    assert faults(value, kind) == (fault,)


def test_wrong_members_are_named_before_missing_ones_which_are_sorted() -> None:
    assert faults({"title": 3, "extra": True}, types.Tool) == (
        "$.title: expected string, got integer",
        "$: required member 'inputSchema' is missing",
        "$: required member 'name' is missing",
    )


def test_unknown_members_are_kept() -> None:
    message = types.structure({"type": "text", "text": "a", "x/y": [1]}, types.TextContent)

    assert message.extra == {"x/y": [1]}


def test_null_for_an_optional_member_counts_as_absent() -> None:
    assert types.structure({"name": "x", "inputSchema": {}, "title": None}, types.Tool).title is None


def test_null_and_absent_differ_where_any_value_is_allowed() -> None:
    absent = types.structure({"content": []}, types.CallToolResult)
    null = types.structure({"content": [], "structuredContent": None}, types.CallToolResult)

    assert absent.structured_content is types.UNSET
    assert null.structured_content is None
    assert absent != null


def test_a_required_member_that_may_be_null_must_be_present() -> None:
    task = {"taskId": "t", "status": "working", "createdAt": "c", "lastUpdatedAt": "l"}

    assert types.structure({**task, "ttl": None}, types.Task).ttl is None
    assert faults(task, types.Task) == ("$: required member 'ttl' is missing",)
    assert faults({**task, "ttl": "1"}, types.Task) == ("$.ttl: expected integer or null, got string",)


def test_free_json_of_the_user_is_not_copied() -> None:
    arguments: types.JSONObject = {"a": [1]}
    schema: types.JSONObject = {"type": "object"}
    meta: types.JSONObject = {"m": 1}
    content: types.JSONValue = [{"deep": {}}]

    params = types.structure({"name": "x", "arguments": arguments, "_meta": meta}, types.CallToolRequestParams)
    tool = types.structure({"name": "x", "inputSchema": schema}, types.Tool)
    result = types.structure({"content": [], "structuredContent": content}, types.CallToolResult)
    capability = {"any": 1}
    capabilities = types.structure({"experimental": {"x": capability}}, types.ClientCapabilities)

    assert params.arguments is arguments
    assert params.meta is meta
    assert tool.input_schema is schema
    assert result.structured_content is content
    assert capabilities.experimental is not None
    assert capabilities.experimental["x"] is capability


def test_a_tool_schema_must_be_an_object() -> None:
    assert faults({"name": "x", "inputSchema": True}, types.Tool) == ("$.inputSchema: expected object, got boolean",)


@pytest.mark.requirement("B.21-S6")
@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (-0.1, "$.priority: expected at least 0, got -0.1"),
        (1.5, "$.priority: expected at most 1, got 1.5"),
        ("1", "$.priority: expected number, got string"),
    ],
)
def test_limits_of_numbers_are_enforced(value: Any, fault: str) -> None:
    assert faults({"priority": value}, types.Annotations) == (fault,)


def test_a_limit_applies_only_in_the_revisions_that_have_it() -> None:
    value = {"values": ["v"] * 101}

    assert faults(value, types.Completion, "2026-07-28") == (
        "$.values: expected a length of at most 100, got a length of 101",
    )
    assert types.structure(value, types.Completion, revision="2025-11-25").values == value["values"]
    assert types.structure(value, types.Completion).values == value["values"]
    assert types.structure({"values": []}, types.Completion, revision="2026-07-28").values == []


def test_a_wrong_capability_does_not_break_the_handshake() -> None:
    value: types.JSONObject = {
        "protocolVersion": "x",
        "capabilities": {"roots": True, "sampling": {}},
        "clientInfo": {"name": "n", "version": "1"},
    }

    capabilities = types.structure(value, types.InitializeRequestParams).capabilities

    assert capabilities == types.ClientCapabilities(sampling=types.SamplingCapability(), extra={"roots": True})


def test_a_wrong_member_inside_a_capability_leaves_the_capability_declared() -> None:
    capabilities = types.structure({"resources": {"subscribe": "yes"}}, types.ServerCapabilities)

    assert capabilities.resources == types.ResourcesCapability(extra={"subscribe": "yes"})


def test_capabilities_must_be_an_object() -> None:
    assert faults([], types.ClientCapabilities) == ("$: expected object, got array",)


def test_a_revision_requires_the_members_that_its_schema_requires() -> None:
    value: types.JSONObject = {"content": []}

    assert types.structure(value, types.CallToolResult, revision="2025-03-26") == types.CallToolResult(content=[])
    assert faults(value, types.CallToolResult, "2026-07-28") == ("$: required member 'resultType' is missing",)
    assert faults({**value, "resultType": None}, types.CallToolResult, "2026-07-28") == (
        "$.resultType: expected string, got null",
    )


def test_a_member_that_the_revision_lacks_is_kept_as_an_unknown_member() -> None:
    tool = types.structure({"name": "x", "inputSchema": {}, "title": 3}, types.Tool, revision="2024-11-05")

    assert tool.title is None
    assert tool.extra == {"title": 3}


def test_the_task_methods_of_2025_11_25_have_types() -> None:
    row = types.METHODS["2025-11-25"]["tasks/get"]
    value = {"taskId": "t", "status": "working", "createdAt": "c", "lastUpdatedAt": "l", "ttl": 60000}

    assert row.params is types.GetTaskRequestParams
    assert row.results == (types.GetTaskResult,)
    assert types.structure(value, types.GetTaskResult, revision="2025-11-25").ttl == 60000


def test_the_data_of_error_32042_has_a_type() -> None:
    shape = types.ERRORS["2025-11-25"][-32042]
    page = {"mode": "url", "url": "https://a", "message": "m", "elicitationId": "e"}

    data = types.structure({"elicitations": [page]}, types.URLElicitationRequiredErrorData, revision="2025-11-25")

    assert shape.data is types.URLElicitationRequiredErrorData
    assert data.elicitations[0].url == "https://a"
