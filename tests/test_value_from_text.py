"""Tests of JSON values from strings: the schema decides, and every schema is read quickly."""

from __future__ import annotations

from typing import Any

import pytest

from trio_mcp._user_types import kinds_of, member_schema, value_from_text

POINT = {"type": "object", "properties": {"x": {"type": "number"}}}
ROOT: dict[str, Any] = {
    "type": "object",
    "properties": {"point": {"$ref": "#/$defs/Point"}, "arms": {"anyOf": [{"type": "string"}, {"type": "boolean"}]}},
    "$defs": {"Point": POINT, "Two words": {"type": "integer"}, "a/b~c": {"type": "null"}},
}
ALL = {"array", "boolean", "integer", "null", "number", "object", "string"}


CASES: list[tuple[str, Any, Any]] = [
    ("3", {"type": "integer"}, 3),
    ("3", {"type": "string"}, "3"),
    ("true", {"type": "string"}, "true"),
    ("", {"type": "string"}, ""),
    ("true", {"type": "boolean"}, True),
    ("1.5", {"type": "number"}, 1.5),
    ("2", {"type": "number"}, 2),
    ("1.5", {"type": "integer"}, 1.5),
    ("null", {"type": "null"}, None),
    ('["a", 1]', {"type": "array"}, ["a", 1]),
    ('{"x": 1}', POINT, {"x": 1}),
    ('{"x": 1}', {"$ref": "#/$defs/Point"}, {"x": 1}),
    ("7", {"$ref": "#/$defs/Two%20words"}, 7),
    ("null", {"$ref": "#/$defs/a~1b~0c"}, None),
    ("5", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, 5),
    ("5", {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "5"),
    ("5", {"oneOf": [{"const": 4}, {"const": 5}]}, 5),
    ("5", {"type": ["integer", "null"]}, 5),
    ("red", {"enum": ["red", "green"]}, "red"),
    ("2", {"enum": [1, 2]}, 2),
    ("2", {"enum": ["1", "2"]}, "2"),
    ("[1]", {"const": [1]}, [1]),
    ("{}", {"const": {}}, {}),
    ("null", {"const": None}, None),
    ("true", {"const": True}, True),
    ("x", {"const": "x"}, "x"),
    ("1.5", {"const": 1.5}, 1.5),
    ("1", {"type": "integer", "const": 1.0}, 1),
    ("4", {"allOf": [{"type": ["integer", "string"]}, {"minimum": 3, "type": "integer"}]}, 4),
    # With a schema without constraints, a string of valid JSON becomes its value.
    ("4", True, 4),
    ("4", {}, 4),
    ("four", {}, "four"),
    ("four", {"minLength": 1}, "four"),
    ("four", False, "four"),
    ("four", {"$ref": "https://example.org/other"}, "four"),
    ("four", {"$ref": "#anchor"}, "four"),
    ("four", {"$ref": "#/$defs/Nowhere/deep"}, "four"),
    ("true", {"$ref": "#/properties/arms/anyOf/1"}, True),
    ("four", {"$ref": "#/properties/arms/anyOf/2"}, "four"),
    ("four", {"$ref": "#/properties/point/$ref/deeper"}, "four"),
    ('{"properties": 1}', {"$ref": "#"}, {"properties": 1}),
    # Keywords of the wrong type do not constrain the value either.
    ("four", {"type": 4, "enum": 4, "anyOf": 4, "allOf": {}, "$ref": 4}, "four"),
    ("4", {"type": ["integer", {}, 7]}, 4),
    ("\ud800", {}, "\ud800"),
]


@pytest.mark.parametrize(("text", "schema", "value"), CASES)
def test_the_schema_decides_the_value_of_a_string(text: str, schema: object, value: object) -> None:
    result = value_from_text(text, schema, ROOT)

    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("text", "schema", "words"),
    [
        ("four", {"type": "integer"}, "expected integer, got the string 'four'"),
        ("four", {"type": "number"}, "expected number, got the string 'four'"),
        ("", {"type": ["boolean", "null"]}, "expected boolean or null, got the string ''"),
        ("{'x': 1}", {"$ref": "#/$defs/Point"}, "expected object, got the string"),
        ("NaN", {"type": "number"}, "expected number"),
        ("1e999", {"type": "number"}, "expected number"),
        ("x", {"type": "object", "const": 1}, "expected nothing"),
    ],
)
def test_a_string_without_a_value_of_the_schema_is_an_error_that_names_it(
    text: str, schema: object, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        value_from_text(text, schema, ROOT)


def test_the_kinds_of_a_schema_are_those_that_all_keywords_admit() -> None:
    assert kinds_of({"type": "number"}, {}) == {"integer", "number"}
    assert kinds_of({"type": "integer", "enum": [1, "a"]}, {}) == {"integer"}
    assert kinds_of(True, {}) == ALL
    assert kinds_of({"type": "unheard of"}, {}) == set()


@pytest.mark.parametrize(
    ("schema", "kinds"),
    [
        ({"properties": {"x1": {"type": "string"}}}, {"string"}),
        ({"patternProperties": {"^x": {"type": "string"}, "1$": {"enum": ["a", 1]}}}, {"string"}),
        ({"patternProperties": {"^y": {"type": "string"}}}, ALL),
        ({"patternProperties": {"(": {"type": "string"}}, "additionalProperties": {"type": "null"}}, {"null"}),
        ({"allOf": [{"properties": {"x1": {"type": "string"}}}, {}]}, {"string"}),
        ({"anyOf": [{"properties": {"x1": {"type": kind}}} for kind in ("string", "null")]}, {"string", "null"}),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#", "properties": {"x1": {"type": "null"}}}}}, {"null"}),
        ({"allOf": [True, 5], "oneOf": 3, "properties": [], "$ref": "elsewhere"}, ALL),
    ],
)
def test_all_constraints_of_a_member_are_found(schema: Any, kinds: set[str]) -> None:
    assert kinds_of(member_schema(schema, "x1"), schema) == kinds


def test_a_schema_that_refers_to_itself_twice_is_read_quickly() -> None:
    root: dict[str, Any] = {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}
    for number in range(200):  # each refers to the next twice: read naively, that is 2 ** 200 parts
        arms = [{"$ref": f"#/$defs/{number + 1}"}] * 2
        root.setdefault("$defs", {})[str(number)] = {"anyOf": arms, "oneOf": [dict(arm) for arm in arms]}

    assert kinds_of(root, root) == ALL
    assert kinds_of({"$ref": "#/$defs/0"}, root) == ALL


def test_an_endlessly_nested_schema_has_no_constraints() -> None:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(10_000):
        schema = {"allOf": [schema]}

    assert kinds_of(schema, schema) == ALL
    assert kinds_of(member_schema(schema, "x"), schema) == ALL
