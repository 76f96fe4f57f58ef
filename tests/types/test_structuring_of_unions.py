"""Structuring JSON as unions: the value selects the arm, and a value of no arm is refused with the expected ones."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Literal

import pytest

from trio_mcp import StructureError, types


def faults(value: Any, kind: Any) -> tuple[str, ...]:
    with pytest.raises(StructureError) as caught:
        types.structure(value, kind)
    return caught.value.faults


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({"type": "text", "text": "a"}, types.TextContent),
        ({"type": "image", "data": "", "mimeType": "m"}, types.ImageContent),
        ({"type": "resource_link", "name": "n", "uri": "u"}, types.ResourceLink),
        ({"type": "resource", "resource": {"uri": "u", "text": ""}}, types.EmbeddedResource),
    ],
)
def test_a_content_block_is_recognised_by_its_type(value: Any, kind: type[Any]) -> None:
    assert type(types.structure(value, types.ContentBlock)) is kind


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (
            {"type": "hologram"},
            "$.type: expected one of 'text', 'image', 'audio', 'resource_link', 'resource', got 'hologram'",
        ),
        ({"type": 3}, "$.type: expected one of 'text', 'image', 'audio', 'resource_link', 'resource', got 3"),
        ({"type": None}, "$.type: expected one of 'text', 'image', 'audio', 'resource_link', 'resource', got null"),
        ({}, "$: required member 'type' is missing"),
        ("text", "$: expected object, got string"),
    ],
)
def test_a_value_of_no_arm_is_refused(value: Any, fault: str) -> None:
    assert faults(value, types.ContentBlock) == (fault,)


@pytest.mark.parametrize("kind", [types.ContentBlock, types.InputResponse])
@pytest.mark.parametrize(
    ("value", "got"),
    [([1], "array"), (None, "null"), (True, "boolean"), (OrderedDict[str, Any](type="text", text="a"), "OrderedDict")],
)
def test_a_value_that_is_not_an_object_is_not_a_message(kind: Any, value: Any, got: str) -> None:
    assert faults(value, kind) == (f"$: expected object, got {got}",)


def test_an_absent_tag_selects_the_arm_whose_tag_is_optional() -> None:
    form: types.JSONObject = {"message": "m", "requestedSchema": {"type": "object", "properties": {}}}

    assert isinstance(types.structure(form, types.ElicitRequestParams), types.ElicitRequestFormParams)
    assert isinstance(
        types.structure({**form, "mode": "form"}, types.ElicitRequestParams), types.ElicitRequestFormParams
    )
    assert isinstance(types.structure({**form, "mode": None}, types.ElicitRequestParams), types.ElicitRequestFormParams)
    assert isinstance(
        types.structure({"mode": "url", "message": "m", "url": "u"}, types.ElicitRequestParams),
        types.ElicitRequestURLParams,
    )
    assert faults({**form, "mode": "smoke"}, types.ElicitRequestParams) == (
        "$.mode: expected one of 'form', 'url', got 'smoke'",
    )


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({"type": "string"}, types.StringSchema),
        ({"type": "string", "format": "email"}, types.StringSchema),
        ({"type": "string", "enum": ["a"]}, types.UntitledSingleSelectEnumSchema),
        ({"type": "string", "enum": ["a"], "enumNames": ["A"]}, types.LegacyTitledEnumSchema),
        ({"type": "string", "oneOf": [{"const": "a", "title": "A"}]}, types.TitledSingleSelectEnumSchema),
        ({"type": "string", "enum": "not a list"}, types.StringSchema),
        ({"type": "array", "items": {"type": "string", "enum": ["a"]}}, types.UntitledMultiSelectEnumSchema),
        ({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}}, types.TitledMultiSelectEnumSchema),
        ({"type": "integer", "minimum": 1}, types.NumberSchema),
        ({"type": "boolean", "default": True}, types.BooleanSchema),
    ],
)
def test_the_field_of_a_form_is_recognised_by_its_members(value: Any, kind: type[Any]) -> None:
    field = types.structure(value, types.PrimitiveSchemaDefinition)

    assert type(field) is kind
    assert types.unstructure(field) == value


def test_the_faults_of_the_best_fitting_arm_are_reported() -> None:
    assert faults({"uri": "u", "blob": 3}, types.TextResourceContents | types.BlobResourceContents) == (
        "$.blob: expected string, got integer",
    )


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({"action": "decline"}, types.ElicitResult),
        ({"roots": []}, types.ListRootsResult),
        ({"role": "user", "model": "m", "content": {"type": "text", "text": "a"}}, types.CreateMessageResult),
    ],
)
def test_the_answer_to_a_question_is_recognised_by_its_members(value: Any, kind: type[Any]) -> None:
    assert type(types.structure(value, types.InputResponse)) is kind


def test_a_sampling_message_has_one_block_or_several() -> None:
    block = {"type": "text", "text": "a"}

    one = types.structure({"role": "user", "content": block}, types.SamplingMessage)
    several = types.structure({"role": "user", "content": [block, block]}, types.SamplingMessage)

    assert one.content == types.TextContent(text="a")
    assert several.content == [types.TextContent(text="a")] * 2
    assert faults({"role": "user", "content": "a"}, types.SamplingMessage) == (
        "$.content: expected array or object, got string",
    )


def test_an_accepted_form_holds_scalars_and_lists_of_strings() -> None:
    content = {"a": 1, "b": 1.5, "c": "x", "d": True, "e": ["x"]}

    assert types.structure({"action": "accept", "content": content}, types.ElicitResult).content == content
    assert faults({"action": "accept", "content": {"a": None, "b": [1]}}, types.ElicitResult) == (
        "$.content.a: expected array, boolean, number or string, got null",
        "$.content.b[0]: expected string, got integer",
    )


@pytest.mark.parametrize(
    ("kind", "wanted"),
    # Two different unions, because unions of the same arms are equal in any order and share a cache entry.
    [(int | float, "number"), (float | int | None, "null or number")],
)
def test_an_integer_fits_a_number_in_either_order(kind: Any, wanted: str) -> None:
    assert type(types.structure(1, kind)) is int
    assert types.structure(1.5, kind) == 1.5
    assert faults("1", kind) == (f"$: expected {wanted}, got string",)


def test_a_class_may_be_combined_with_null() -> None:
    kind: Any = types.RequestParams | None

    assert types.structure(None, kind) is None
    assert types.structure({}, kind) == types.RequestParams()


def test_null_is_accepted_as_a_type() -> None:
    assert types.structure(None, type(None)) is None
    assert faults(0, type(None)) == ("$: expected null, got integer",)


def test_an_array_of_any_values_is_not_copied() -> None:
    value = [1, "a", None]

    assert types.structure(value, list[Any]) is value


def test_a_union_may_hold_literals_and_maps() -> None:
    kind: Any = Literal["auto"] | dict[str, int] | None

    assert types.structure("auto", kind) == "auto"
    assert types.structure({"a": 1}, kind) == {"a": 1}
    assert types.structure(None, kind) is None
    assert faults("other", kind) == ("$: expected 'auto', got 'other'",)
    assert faults({"a": "1"}, kind) == ("$.a: expected integer, got string",)


def test_the_first_fitting_arm_of_the_same_kind_is_used() -> None:
    kind: Any = list[types.Root] | list[int] | types.Role | types.TaskStatus

    assert types.structure([1, 2], kind) == [1, 2]
    assert types.structure([{"uri": "a"}], kind) == [types.Root(uri="a")]
    assert types.structure("user", kind) == "user"
    assert types.structure("working", kind) == "working"
    with pytest.raises(StructureError, match=r"\$\[0\]: expected integer, got string$"):
        types.structure(["a"], kind)


def test_a_null_optional_member_does_not_select_the_arm() -> None:
    choice = {"type": "string", "enum": ["a"], "enumNames": None}

    field = types.structure(choice, types.PrimitiveSchemaDefinition)

    assert type(field) is types.UntitledSingleSelectEnumSchema
    assert types.structure(types.unstructure(field), types.PrimitiveSchemaDefinition) == field
