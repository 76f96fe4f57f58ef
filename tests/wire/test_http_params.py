"""Arguments that are mirrored in header fields: annotations, fields, and fields that differ from the arguments."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.wire import MirroredParam, mirrored_params, param_fault, param_fields

REGION = {"type": "string", "x-mcp-header": "Region"}
REACHED = "only a property that is reached by 'properties' alone can be mirrored"
TYPED = "only a property of type string, integer or boolean can be mirrored"


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def test_annotated_properties_are_found_at_any_depth_in_schema_order() -> None:
    schema = of(
        region=REGION,
        query={"type": "string"},
        options=of(
            limit={"type": "integer", "x-mcp-header": "Max.Limit"}, deep=of(x={"type": "boolean", "x-mcp-header": "X"})
        ),
        **{"x-mcp-header": {"type": "string", "x-mcp-header": "Last"}},
    )

    assert mirrored_params(schema) == (
        MirroredParam(("region",), "mcp-param-region"),
        MirroredParam(("options", "limit"), "mcp-param-max.limit"),
        MirroredParam(("options", "deep", "x"), "mcp-param-x"),
        MirroredParam(("x-mcp-header",), "mcp-param-last"),
    )


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"properties": None},
        {"properties": []},
        of(a=True, b=None, c="x", d=["x-mcp-header"]),
        of(a={"const": REGION, "default": REGION, "enum": [REGION], "examples": [REGION]}),
        of(a={"items": False, "anyOf": None, "allOf": [True], "$defs": [REGION], "dependencies": {"x": ["y"]}}),
    ],
)
def test_a_schema_without_annotations_mirrors_nothing(schema: dict[str, Any]) -> None:
    assert mirrored_params(schema) == ()


FAULTS: list[tuple[dict[str, Any], str]] = [
    (of(a={"type": "string", "x-mcp-header": ""}), "$.properties.a.x-mcp-header: '' is not an HTTP token"),
    (of(a={"type": "string", "x-mcp-header": "a b"}), "$.properties.a.x-mcp-header: 'a b' is not an HTTP token"),
    (of(a={"type": "string", "x-mcp-header": "a:b"}), "$.properties.a.x-mcp-header: 'a:b' is not an HTTP token"),
    (of(a={"type": "string", "x-mcp-header": "é"}), "$.properties.a.x-mcp-header: 'é' is not an HTTP token"),
    (of(a={"type": "string", "x-mcp-header": "a\r\nb"}), r"$.properties.a.x-mcp-header: 'a\r\nb' is not an HTTP token"),
    (of(a={"type": "string", "x-mcp-header": "a\n"}), r"$.properties.a.x-mcp-header: 'a\n' is not an HTTP token"),
    (of(a={"type": "string", "x-mcp-header": 5}), "$.properties.a.x-mcp-header: expected string"),
    (of(a={"type": "string", "x-mcp-header": None}), "$.properties.a.x-mcp-header: expected string"),
    (of(a={"type": "number", "x-mcp-header": "A"}), f"$.properties.a.x-mcp-header: {TYPED}"),
    (of(a={"type": "object", "x-mcp-header": "A"}), f"$.properties.a.x-mcp-header: {TYPED}"),
    (of(a={"type": "array", "x-mcp-header": "A"}), f"$.properties.a.x-mcp-header: {TYPED}"),
    (of(a={"type": "null", "x-mcp-header": "A"}), f"$.properties.a.x-mcp-header: {TYPED}"),
    (of(a={"type": ["string"], "x-mcp-header": "A"}), f"$.properties.a.x-mcp-header: {TYPED}"),
    (of(a={"$ref": "#/$defs/a", "x-mcp-header": "A"}), f"$.properties.a.x-mcp-header: {TYPED}"),
    (
        of(a=REGION, b={"type": "string", "x-mcp-header": "rEGION"}),
        "$.properties.b.x-mcp-header: 'rEGION' is used twice",
    ),
    ({"x-mcp-header": "A", "type": "string"}, f"$.x-mcp-header: {REACHED}"),
    (of(a={"items": REGION}), f"$.properties.a.items.x-mcp-header: {REACHED}"),
    (of(a={"items": of(b=REGION)}), f"$.properties.a.items.properties.b.x-mcp-header: {REACHED}"),
    (of(a={"items": [REGION]}), f"$.properties.a.items[0].x-mcp-header: {REACHED}"),
    (of(a={"prefixItems": [{}, REGION]}), f"$.properties.a.prefixItems[1].x-mcp-header: {REACHED}"),
    *[
        ({key: [of(a=REGION)]}, f"$.{key}[0].properties.a.x-mcp-header: {REACHED}")
        for key in ("allOf", "anyOf", "oneOf")
    ],
    *[
        ({key: REGION}, f"$.{key}.x-mcp-header: {REACHED}")
        for key in (
            "additionalItems",
            "additionalProperties",
            "contains",
            "contentSchema",
            "else",
            "if",
            "not",
            "propertyNames",
            "then",
            "unevaluatedItems",
            "unevaluatedProperties",
        )
    ],
    *[
        ({key: {"a": REGION}}, f"$.{key}.a.x-mcp-header: {REACHED}")
        for key in ("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties")
    ],
]


@pytest.mark.parametrize(("schema", "fault"), FAULTS)
def test_an_annotation_that_violates_a_constraint_is_refused_with_its_path(schema: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 # the message is compared below
        mirrored_params(schema)

    assert str(refused.value) == fault


def test_every_violated_constraint_is_named() -> None:
    schema = of(a={"type": "number", "x-mcp-header": "A"}, b={"type": "string", "x-mcp-header": ""}, c=REGION)

    with pytest.raises(ValueError, match=r"properties\.a\.x-mcp-header: only .*; \$\.properties\.b\.x-mcp-header: ''"):
        mirrored_params(schema)


PARAMS = (
    MirroredParam(("region",), "mcp-param-region"),
    MirroredParam(("limit",), "mcp-param-limit"),
    MirroredParam(("options", "dry"), "mcp-param-dry"),
)


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        ({}, {}),
        ({"region": None, "limit": None, "options": None}, {}),
        ({"region": ""}, {"mcp-param-region": ""}),
        ({"region": "us", "other": "x"}, {"mcp-param-region": "us"}),
        ({"region": " é"}, {"mcp-param-region": "=?base64?IMOp?="}),
        ({"limit": 42}, {"mcp-param-limit": "42"}),
        ({"limit": 0}, {"mcp-param-limit": "0"}),
        ({"limit": -(2**53) + 1}, {"mcp-param-limit": "-9007199254740991"}),
        ({"limit": 42.0}, {"mcp-param-limit": "42"}),
        ({"limit": 4.2}, {}),
        ({"limit": float("inf")}, {}),
        ({"options": {"dry": False}}, {"mcp-param-dry": "false"}),
        ({"options": {"dry": True}}, {"mcp-param-dry": "true"}),
        ({"options": {"dry": None}}, {}),
        ({"options": {}}, {}),
        ({"options": ["dry"]}, {}),
        ({"region": ["us"], "limit": {}}, {}),
    ],
)
def test_only_arguments_at_the_exact_path_are_mirrored(arguments: dict[str, Any], fields: dict[str, str]) -> None:
    assert param_fields(PARAMS, arguments) == fields
    assert param_fault(PARAMS, arguments, fields) is None


@pytest.mark.parametrize("value", [2**53, -(2**53), 1e300])
def test_an_integer_beyond_the_precision_of_a_float_is_refused_by_client_and_server(value: float) -> None:
    with pytest.raises(ValueError, match=r"'limit': an integer that is mirrored .* within \+-\(2\*\*53 - 1\)"):
        param_fields(PARAMS, {"limit": value})

    fault = param_fault(PARAMS, {"limit": value}, {"mcp-param-limit": str(int(value))})
    assert fault == "the argument 'limit': an integer that is mirrored in a header lies within +-(2**53 - 1)"


@pytest.mark.requirement("B.8-S7b")
@pytest.mark.parametrize(
    ("value", "field"), [(42, "42.0"), (42, "042"), (42.0, "42"), (42.0, "42.00"), (-7, "-7"), (0, "-0")]
)
def test_integers_in_fields_are_compared_as_numbers(value: float, field: str) -> None:
    assert param_fault(PARAMS, {"limit": value}, {"mcp-param-limit": field}) is None


DRY = "the argument 'options.dry'"
MISMATCHES: list[tuple[dict[str, Any], dict[str, str], str]] = [
    ({"region": "us"}, {}, "mcp-param-region is missing, which repeats the argument 'region'"),
    ({"region": ""}, {}, "mcp-param-region is missing, which repeats the argument 'region'"),
    ({"limit": 0}, {}, "mcp-param-limit is missing, which repeats the argument 'limit'"),
    ({"options": {"dry": False}}, {}, f"mcp-param-dry is missing, which repeats {DRY}"),
    ({"region": "us"}, {"mcp-param-region": "eu"}, "mcp-param-region differs from the argument 'region'"),
    ({"region": "us"}, {"mcp-param-region": "US"}, "mcp-param-region differs from the argument 'region'"),
    ({"region": "us"}, {"mcp-param-region": "us, us"}, "mcp-param-region differs from the argument 'region'"),
    ({"region": "42"}, {"mcp-param-region": "42.0"}, "mcp-param-region differs from the argument 'region'"),
    ({"region": "us"}, {"mcp-param-region": "=?base64?dXM?="}, "mcp-param-region: it is not Base64: Incorrect padding"),
    ({"region": "é"}, {"mcp-param-region": "é"}, "mcp-param-region: it holds characters other than visible ASCII,"),
    ({"limit": 42}, {"mcp-param-limit": "43"}, "mcp-param-limit differs from the argument 'limit'"),
    ({"limit": 42}, {"mcp-param-limit": "42.5"}, "mcp-param-limit differs from the argument 'limit'"),
    ({"limit": 42}, {"mcp-param-limit": "4.2e1"}, "mcp-param-limit differs from the argument 'limit'"),
    ({"limit": 42}, {"mcp-param-limit": ""}, "mcp-param-limit differs from the argument 'limit'"),
    ({"limit": 42}, {"mcp-param-limit": "9" * 10_000}, "mcp-param-limit differs from the argument 'limit'"),
    ({"limit": 1}, {"mcp-param-limit": "true"}, "mcp-param-limit differs from the argument 'limit'"),
    ({"options": {"dry": True}}, {"mcp-param-dry": "1"}, f"mcp-param-dry differs from {DRY}"),
    ({"options": {"dry": True}}, {"mcp-param-dry": "True"}, f"mcp-param-dry differs from {DRY}"),
    ({}, {"mcp-param-region": "us"}, "mcp-param-region repeats the argument 'region', which the call does not have"),
    ({"limit": 4.2}, {"mcp-param-limit": "4.2"}, "mcp-param-limit repeats the argument 'limit', which the call does"),
]


@pytest.mark.parametrize(("arguments", "headers", "fault"), MISMATCHES)
def test_a_field_that_does_not_repeat_its_argument_is_a_fault(
    arguments: dict[str, Any], headers: dict[str, str], fault: str
) -> None:
    assert (param_fault(PARAMS, arguments, headers) or "").startswith(fault)


def test_fields_that_mirror_no_argument_are_ignored() -> None:
    assert param_fault(PARAMS, {"other": "x"}, {"mcp-param-other": "y", "host": "z"}) is None


@given(st.text(st.characters(codec="utf-8")), st.integers(-(2**53) + 1, 2**53 - 1), st.booleans())
def test_a_server_accepts_the_fields_that_a_client_sends(region: str, limit: int, dry: bool) -> None:
    arguments = {"region": region, "limit": limit, "options": {"dry": dry}}

    assert param_fault(PARAMS, arguments, param_fields(PARAMS, arguments)) is None


def test_a_schema_may_be_nested_deeply() -> None:
    schema: dict[str, Any] = REGION
    for _ in range(900):
        schema = of(a=schema)

    assert mirrored_params(schema) == (MirroredParam(("a",) * 900, "mcp-param-region"),)
