"""Tests of validation: dialects, references, faults with their paths, and malicious values."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections import OrderedDict
from contextlib import suppress
from typing import Any

import pytest

from trio_mcp.schema import LazyValidator, SchemaError, compile_schema, render_path
from trio_mcp.schema._validate import MAX_DEPTH, MAX_FAULTS, MAX_VALUE_PARTS, is_deeper_than


def faults(schema: dict[str, Any], value: Any) -> list[str]:
    return compile_schema(schema).faults(value)


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": "integer"}, 3, []),
        ({"type": "integer"}, 3.0, []),
        ({"type": "integer"}, 2**80, []),
        ({"type": "integer"}, 10**400, []),
        ({"type": "integer"}, "3", ["$: expected integer, got string"]),
        ({"type": "integer"}, True, ["$: expected integer, got boolean"]),
        ({"type": "integer"}, (1,), ["$: expected integer, got something else"]),
        (
            {"type": "integer", "maximum": 2**70},
            2**70 + 1,
            ["$: 1180591620717411303425 is greater than the maximum of 1180591620717411303424"],
        ),
        ({"enum": ["a", 1, None]}, "b", ['$: expected "a", 1 or null, got "b"']),
        ({"const": 1}, True, ["$: expected 1, got true"]),
        ({"pattern": "^a"}, "b", ['$: "b" does not match the pattern ^a']),
        ({"format": "date"}, "b", ['$: "b" is not a date (as in 2026-01-31)']),
        ({"format": "ipv4"}, "b", ['$: "b" is not a ipv4']),
        ({"format": "unknown"}, "b", []),
        ({"minItems": 2}, [1], ["$: [1] has less than 2 items"]),
        ({"required": ["a", "b c"]}, {}, ["$.a: required, but missing", '$["b c"]: required, but missing']),
        (
            {"properties": {"a": {}}, "additionalProperties": False},
            {"b": 1, "c": 2},
            ["$.b: unknown, not allowed here", "$.c: unknown, not allowed here"],
        ),
        (
            {"additionalProperties": False},
            {"b": 1, "c": 2},
            ["$.b: unknown, not allowed here", "$.c: unknown, not allowed here"],
        ),
        ({"unevaluatedProperties": False}, {"b": 1}, ["$.b: unknown, not allowed here"]),
        ({"properties": {"a": False}}, {"a": 1}, ["$.a: False schema does not allow 1"]),
        (
            {"propertyNames": {"maxLength": 1}},
            {"ab": 1},
            ['$: the name "ab" is not allowed: "ab" is longer than 1 character'],
        ),
        (
            {"items": {"required": ["name"]}},
            [{}, {"name": 1}, {}],
            ["$[0].name: required, but missing", "$[2].name: required, but missing"],
        ),
    ],
)
def test_every_fault_is_reported_with_its_path(schema: dict[str, Any], value: Any, expected: list[str]) -> None:
    assert faults(schema, value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"": {"n": "x"}}, '$[""].n: expected integer, got string'),
        ({"7": {"n": "x"}}, '$["7"].n: expected integer, got string'),
        ({"7": {"n": 1}, "007": {"n": "x"}}, '$["007"].n: expected integer, got string'),
        ({"7": {}, "007": {"n": "x"}}, '$["007"].n: expected integer, got string'),
        ({"a": {}, "": {"n": [1]}}, '$[""].n: expected integer, got array'),
    ],
)
def test_member_names_that_are_digits_or_empty_are_kept_in_paths(value: Any, expected: str) -> None:
    schema = {"additionalProperties": {"properties": {"n": {"type": "integer"}}}}

    assert faults(schema, value) == [expected]


def test_a_path_into_lists_and_back_is_exact() -> None:
    schema = {"items": {"additionalProperties": {"items": {"type": "null"}}}}

    assert faults(schema, [{"0": [None, 1]}, {}]) == ['$[0]["0"][1]: expected null, got integer']


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, []),
        (3, ["$: expected null or object, got integer"]),
        ({}, ["$.a: required, but missing"]),
        ({"a": 1}, []),
    ],
)
def test_the_only_alternative_with_a_fitting_type_is_reported(value: Any, expected: list[str]) -> None:
    assert faults({"anyOf": [{"type": "null"}, {"type": "object", "required": ["a"]}]}, value) == expected


def test_all_alternatives_with_a_fitting_type_are_reported() -> None:
    schema = {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}

    assert faults(schema, {}) == [
        "$: fits none of the alternatives ($.a: required, but missing; or $.b: required, but missing)"
    ]
    assert faults(schema, {"a": 1, "b": 1}) == ["$: fits several of the alternatives, but may fit only one"]


def test_the_number_of_reported_faults_is_bounded() -> None:
    found = faults({"items": {"type": "null"}}, [1] * (MAX_FAULTS + 5))

    assert len(found) == MAX_FAULTS + 1
    assert found[-1] == "(there are more faults)"


def test_of_a_large_value_only_the_first_fault_is_reported_because_each_takes_time_and_memory() -> None:
    schema = {
        "properties": {"a/b~c": {"items": {"type": "integer"}}, "text": {"maxLength": 1}, "dull": {"type": "null"}},
        "required": ["missing"],
    }
    only = "(the value or its schema is large: only the first fault is named)"

    assert faults(schema, {"a/b~c": ["x"] * 30_000, "missing": 1}) == [
        '$["a/b~c"][0]: expected integer, got string',
        only,
    ]
    assert faults(schema, {"a/b~c": [1] * 30_000}) == ["$.missing: required, but missing", only]
    assert faults({"items": {"type": "integer"}}, [1] * 20_000 + ["x"] * 10_000) == [
        "$[20000]: expected integer, got string",
        only,
    ]


def test_a_fault_of_a_long_text_is_reported() -> None:
    (fault,) = faults({"maxLength": 1}, "y" * 1_000_000)

    assert fault.startswith('$: "yyy')
    assert fault.endswith('yyy" is longer than 1 character')


def test_the_faults_of_a_very_large_value_are_not_searched_for() -> None:
    assert faults({"items": {"type": "integer"}}, [1] * 50_000 + ["x"]) == [
        "$: does not fit; the place and reason are too expensive to find"
    ]


def test_a_value_of_too_many_parts_is_refused_at_once() -> None:
    refusal = ["$: too large to validate: more than 80,000 parts"]

    assert faults({}, [1] * MAX_VALUE_PARTS) == refusal
    assert faults({}, [1] * (MAX_VALUE_PARTS - 1)) == []
    assert faults({}, {"a": [{}] * MAX_VALUE_PARTS}) == refusal


def test_only_some_options_of_a_long_enum_are_named() -> None:
    (fault,) = faults({"enum": [f"o{number}" for number in range(4000)]}, "x")

    assert '"o49" or one of 3,950 more, got "x"' in fault


def test_a_long_value_is_cut_in_the_fault() -> None:
    assert len(faults({"enum": ["a"]}, "x" * 10_000)[0]) < 200


@pytest.mark.requirement("B.20-J7")
@pytest.mark.parametrize(
    "schema",
    [
        {"items": {"$ref": "#"}},
        {"uniqueItems": True},
        {"enum": [1]},
        {"type": "object"},
        {"anyOf": [{"items": {"$ref": "#"}}]},
    ],
)
def test_a_value_nested_too_deeply_is_a_fault_and_does_not_crash(schema: dict[str, Any]) -> None:
    assert faults(schema, nested(200_000)) == [f"$: nested deeper than {MAX_DEPTH} levels"]


def test_a_value_of_the_greatest_depth_is_checked_in_full() -> None:
    schema = {"type": ["array", "integer"], "items": {"$ref": "#"}}
    deepest: Any = ["x"]
    for _ in range(MAX_DEPTH - 1):
        deepest = [deepest]

    assert faults(schema, nested(MAX_DEPTH)) == []
    assert faults(schema, deepest) == ["$" + "[0]" * MAX_DEPTH + ": expected integer or array, got string"]


def test_depth_counts_objects_lists_and_tuples() -> None:
    assert not is_deeper_than(1, 1)
    assert not is_deeper_than({"a": 1}, 1)
    assert is_deeper_than({"a": ({},)}, 2)
    assert not is_deeper_than({"a": ({},)}, 3)


def test_depth_counts_the_items_of_subclasses() -> None:
    inner = OrderedDict[str, Any]()
    for _ in range(MAX_DEPTH):
        inner = OrderedDict[str, Any](a=inner)

    assert is_deeper_than(inner, MAX_DEPTH)
    assert not is_deeper_than(inner, MAX_DEPTH + 1)
    assert faults({"additionalProperties": {"$ref": "#"}}, {"a": inner}) == [
        f"$: nested deeper than {MAX_DEPTH} levels"
    ]


def test_a_flat_object_is_checked_like_any_other() -> None:
    schema = {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"]}

    assert faults(schema, {"a": 1, "b": "x"}) == []
    assert faults(schema, {"a": True, "b": None}) == [
        "$.a: expected integer, got boolean",
        "$.b: expected string, got null",
    ]
    assert faults(schema, {}) == ["$.a: required, but missing"]


def test_half_a_surrogate_pair_is_a_fault() -> None:
    assert faults({"type": "string"}, "\ud800") == [
        "$: a string holds half of a surrogate pair, which is not a Unicode character"
    ]
    assert faults({}, {"\ud800": 1}) == []


def test_a_value_that_is_not_json_is_a_fault() -> None:
    assert faults({"type": "object"}, {1: 2}) == ["$: not a JSON value: Dict key must be str or str enum. Got 'int'"]
    assert faults({"type": "string"}, b"x") == ["$: not a JSON value: Unsupported type: 'bytes'"]


@pytest.mark.requirement("B.20-J5", "B.20-J6")
@pytest.mark.parametrize(
    "reference",
    [
        "http://127.0.0.1:9/schema.json",
        "https://example.org/x#/$defs/y",
        "file:///etc/hostname",
        "other.json#/a",
        "urn:x:y",
    ],
)
def test_a_reference_outside_the_schema_is_refused_by_name(reference: str) -> None:
    with pytest.raises(SchemaError, match="outside itself, which is not fetched") as refusal:
        compile_schema({"properties": {"a": {"$ref": reference}}})

    assert reference.partition("#")[0] in str(refusal.value)


def test_a_reference_to_an_index_with_thousands_of_digits_has_no_target() -> None:
    with pytest.raises(SchemaError, match="has no target inside the schema"):
        compile_schema({"prefixItems": [True], "$ref": f"#/prefixItems/{'9' * 5000}"})


def test_references_inside_the_schema_are_followed() -> None:
    schema = {"$defs": {"n": {"type": "integer"}}, "items": {"$ref": "#/$defs/n"}}

    assert faults(schema, [1, "x"]) == ["$[1]: expected integer, got string"]


def test_a_schema_may_refer_to_the_definition_of_its_own_dialect() -> None:
    assert faults({"$ref": "https://json-schema.org/draft/2020-12/schema"}, {"type": "string"}) == []


@pytest.mark.requirement("B.20-J2")
@pytest.mark.parametrize(
    "dialect",
    [
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema#",
        "http://json-schema.org/draft-07/schema",
        "http://json-schema.org/draft-06/schema#",
        "http://json-schema.org/draft-04/schema#",
    ],
)
def test_known_dialects_are_supported(dialect: str) -> None:
    assert faults({"$schema": dialect, "type": "integer"}, "x") == ["$: expected integer, got string"]


@pytest.mark.requirement("B.20-J1", "B.20-J2")
def test_a_schema_is_read_in_the_dialect_that_it_names() -> None:
    schema: dict[str, Any] = {"items": [{"type": "integer"}]}

    assert faults({"$schema": "http://json-schema.org/draft-07/schema#", **schema}, ["x"])
    with pytest.raises(SchemaError, match="not a usable JSON Schema"):
        compile_schema(schema)


@pytest.mark.requirement("B.20-J3")
@pytest.mark.parametrize("dialect", ["http://example.org/dialect", "", 7, None, [], {"a": 1}])
def test_an_unknown_dialect_is_refused_by_name(dialect: object) -> None:
    with pytest.raises(SchemaError, match="unknown JSON Schema dialect") as refusal:
        compile_schema({"$schema": dialect})

    assert repr(dialect) in str(refusal.value)


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": "strin"}, r"\$\.type"),
        ({"properties": {"a": {"pattern": "("}}}, r"\$\.properties\.a\.pattern"),
        ({"$ref": "#/$defs/x"}, "does not exist"),
    ],
)
def test_a_malformed_schema_is_refused_with_the_path(schema: dict[str, Any], place: str) -> None:
    with pytest.raises(SchemaError, match=place):
        compile_schema(schema)


@pytest.mark.requirement("B.20-J7")
def test_a_schema_nested_too_deeply_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(100_000):
        schema = {"items": schema}

    with pytest.raises(SchemaError, match="nested deeper"):
        compile_schema(schema)


def test_given_formats_replace_the_standard_ones() -> None:
    validator = compile_schema({"format": "date"}, formats={"date": lambda text: text == "today"})

    assert validator.faults("today") == []
    assert validator.faults("2026-01-31")


def test_a_lazy_validator_compiles_at_the_first_validation() -> None:
    lazy = LazyValidator({"type": "strin"})

    for _ in range(2):
        with pytest.raises(SchemaError):
            lazy.faults(1)
    assert LazyValidator({"type": "integer"}).accepts(1)


def test_a_refused_schema_is_freed_without_the_garbage_collector() -> None:
    with suppress(SchemaError):
        LazyValidator({"type": "strin"}).faults(1)
    gc.collect()
    gc.disable()
    try:
        with suppress(SchemaError):
            LazyValidator({"type": "strin"}).faults(1)
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_importing_the_module_does_not_import_the_validator() -> None:
    program = "import sys, trio_mcp.schema._validate; sys.exit('jsonschema_rs' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_paths_are_written_as_in_all_errors() -> None:
    assert render_path(["a", 0, "b-c", "d e", "1"]) == '$.a[0].b-c["d e"]["1"]'
