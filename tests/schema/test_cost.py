"""Tests of schemas whose validation would take too long: each is refused before the validation begins.

Without the refusals most of these tests would not end in this century, or would crash the process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from trio_mcp.schema import LazyValidator, SchemaError, compile_schema
from trio_mcp.schema import _validate as _schema
from trio_mcp.schema._cost import MAX_UNFOLDED, Cost
from trio_mcp.schema._validate import MAX_CHARACTERS, MAX_PARTS

Json: TypeAlias = dict[str, Any]

TOO_MUCH = ["$: too expensive to validate: alternatives and references multiply, or the value is large"]
NOWHERE = ["$: does not fit; the place and reason are too expensive to find"]
ITSELF: Json = {"$ref": "#"}


@pytest.fixture(autouse=True)
def fewer_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the limits to a tenth to save time; tests/interaction tests the real limits."""
    for bound in ("_DETAILED_STEPS", "_OUTLINED_STEPS", "_MOST_COUNTED_STEPS"):
        monkeypatch.setattr(_schema, bound, getattr(_schema, bound) // 10)


def faults(schema: Json, value: Any) -> list[str]:
    return compile_schema(schema).faults(value)


def steps(schema: Json, value: Any, *, to_the_end: bool = True) -> int:
    return Cost(schema).steps(value, 1000, to_the_end=to_the_end)


def twice(keyword: str, reference: str) -> Json:
    return {keyword: [{"$ref": reference}, {"$ref": reference}]}


def ladder(rung: Callable[[str], Json], rungs: int = 60) -> Json:
    """Return a schema of definitions of which each refers twice to the one before."""
    definitions: Json = {"d0": {"type": "integer"}}
    for number in range(1, rungs):
        definitions[f"d{number}"] = rung(f"#/$defs/d{number - 1}")
    return {"$defs": definitions, "$ref": f"#/$defs/d{rungs - 1}"}


def tower(levels: int, top: Any) -> Any:
    value = top
    for _ in range(levels):
        value = [value]
    return value


LADDERS: dict[str, Json] = {
    "allOf": ladder(lambda below: twice("allOf", below)),
    "anyOf": ladder(lambda below: twice("anyOf", below)),
    "oneOf": ladder(lambda below: twice("oneOf", below)),
    "not": ladder(lambda below: {"not": {"not": {"$ref": below}}, "allOf": [{"$ref": below}]}),
    "if": ladder(lambda below: {"if": {"$ref": below}, "then": {"$ref": below}, "else": {"$ref": below}}),
    "anchors": {
        "$defs": {
            f"d{number}": {"$anchor": f"a{number}", **(twice("allOf", f"#a{number - 1}") if number else {})}
            for number in range(60)
        },
        "$ref": "#a59",
    },
    "own URIs": {
        "$id": "https://example.org/root",
        "$defs": {
            f"d{number}": {"$id": f"d{number}", **(twice("allOf", f"d{number - 1}") if number else {})}
            for number in range(60)
        },
        "$ref": "d59",
    },
    "dynamic": {
        "$defs": {
            f"d{number}": {
                "$dynamicAnchor": f"a{number}",
                **({"allOf": [{"$dynamicRef": f"#a{number - 1}"}] * 2} if number else {}),
            }
            for number in range(60)
        },
        "$dynamicRef": "#a59",
    },
}


@pytest.mark.requirement("B.20-J7")
@pytest.mark.parametrize("name", LADDERS)
@pytest.mark.parametrize("value", [1, "x"])
def test_references_that_multiply_are_refused_before_they_are_followed(name: str, value: object) -> None:
    assert faults(LADDERS[name], value) == TOO_MUCH


@pytest.mark.requirement("B.20-J7")
def test_references_that_multiply_from_level_to_level_of_a_value_are_refused() -> None:
    schema = ladder(lambda below: {"items": {"allOf": [{"$ref": below}, {"$ref": below}]}})

    assert faults(schema, tower(59, 1)) == TOO_MUCH
    assert faults(schema, tower(5, [])) == []  # a small value costs little


@pytest.mark.requirement("B.20-J7")
@pytest.mark.parametrize("keyword", ["unevaluatedProperties", "unevaluatedItems"])
def test_a_schema_that_the_compiler_would_unfold_is_refused(keyword: str) -> None:
    with pytest.raises(SchemaError, match="references of the schema multiply"):
        compile_schema({**LADDERS["anyOf"], keyword: False})


CIRCLES: list[Json] = [
    {"$ref": "#"},
    {"allOf": [ITSELF, ITSELF]},
    {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
    {"$dynamicAnchor": "here", "$dynamicRef": "#here"},
    {"$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveAnchor": True, "$recursiveRef": "#"},
]


@pytest.mark.parametrize("schema", CIRCLES)
def test_circular_references_are_followed_only_once(schema: Json) -> None:
    assert faults(schema, {"a": [1]}) == []


@pytest.mark.parametrize(
    "inner",
    [{"anyOf": [ITSELF, ITSELF]}, {"oneOf": [ITSELF, {"type": "null"}, ITSELF]}, {"allOf": [ITSELF, ITSELF]}],
)
def test_a_recursive_schema_does_not_multiply_the_faults_of_a_deep_value(inner: Json) -> None:
    schema = {"type": ["array", "integer"], "items": inner}
    found = faults(schema, tower(150, "x"))

    assert found in (
        NOWHERE,
        [
            "$" + "[0]" * 150 + ": expected integer or array, got string",
            "(the value or its schema is large: only the first fault is named)",
        ],
    )


def test_overlapping_members_of_a_recursive_schema_do_not_multiply_the_faults() -> None:
    schema = {"type": ["object", "null"], "properties": {"a": ITSELF}, "patternProperties": {"a": ITSELF}}
    value: Any = 1
    for _ in range(60):
        value = {"a": value}

    assert faults(schema, value)[0] == "$" + ".a" * 60 + ": expected null or object, got integer"


def kind_of_node(number: int) -> Json:
    every: Json = {"anyOf": [{"$ref": f"#/$defs/k{each}"} for each in range(30)]}
    return {
        "type": "object",
        "properties": {"kind": {"const": f"k{number}"}, "left": every, "right": every},
        "required": ["kind"],
    }


def test_a_tree_of_tagged_nodes_is_validated() -> None:
    """References multiply here, too, but the tag of each node excludes all kinds but one."""
    schema: Json = {"$defs": {f"k{number}": kind_of_node(number) for number in range(30)}, "$ref": "#/$defs/k29"}
    tree: Json = {"kind": "k29"}
    for _ in range(50):
        tree = {"kind": "k29", "left": tree, "right": {"kind": "k7"}}

    assert Cost(schema).unfolded > MAX_UNFOLDED
    assert faults(schema, tree) == []
    assert faults(schema, {"kind": "k29", "left": {"kind": "k30"}})[0].startswith("$.left: fits none of the alternat")


def test_a_tag_that_is_checked_too_late_does_not_help() -> None:
    """Members are checked in the order of their names, so that `left` comes before this constant."""

    def node(_: int) -> Json:
        every: Json = {"anyOf": [{"$ref": f"#/$defs/k{each}"} for each in range(30)]}
        return {"properties": {"left": every, "z": {"const": "never"}}}

    schema: Json = {"$defs": {f"k{number}": node(number) for number in range(30)}, "$ref": "#/$defs/k0"}
    value: Json = {"z": 1}
    for _ in range(50):
        value = {"left": value, "z": 1}

    assert faults(schema, value) == TOO_MUCH


def test_a_large_value_is_not_validated_against_a_large_schema() -> None:
    schema = {"items": {"allOf": [{"minimum": number} for number in range(-4000, 0)]}}

    assert faults(schema, [1] * 100) == []
    assert faults(schema, [1] * 100_000) == TOO_MUCH


def test_many_faults_in_each_of_many_items_are_not_all_collected() -> None:
    schema = {"items": {"allOf": [{"type": "null"}] * 100}}
    found = faults(schema, [1] * 4000)

    assert found == [
        "$[0]: expected null, got integer",
        "(the value or its schema is large: only the first fault is named)",
    ]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^(a+)+$", "a" * 100_000 + "!"),
        ("^(a|aa)+$", "a" * 100_000 + "!"),
        ("(x+x+)+y", "x" * 100_000),
        (r"^(.*a){20}$", "a" * 10_000 + "!"),
    ],
)
def test_patterns_are_matched_in_linear_time(pattern: str, text: str) -> None:
    assert "does not match the pattern" in faults({"pattern": pattern}, text)[0]


@pytest.mark.parametrize("pattern", [r"^(a*)*\1$", r"(?=x)(.*)*\1y", "^(?=(a|aa)+$)(?!a)"])
def test_a_pattern_with_look_around_or_back_references_has_a_backtracking_limit(pattern: str) -> None:
    texts = ["a" * 50 + "!", "x" * 5000]

    for text in texts:
        (fault,) = faults({"pattern": pattern}, text)
        assert "pattern" in fault
    assert any("in reasonable time" in faults({"pattern": r"^(a*)*\1$"}, text)[0] for text in texts)


def test_a_pattern_with_look_around_matches_as_usual() -> None:
    password = {"pattern": r"^(?=.*[A-Z])(?=.*\d).{8,}$"}

    assert faults(password, "Correct7horse") == []
    assert faults(password, "correct7horse") == [f'$: "correct7horse" does not match the pattern {password["pattern"]}']


def test_many_patterns_with_back_references_are_not_matched_against_many_strings() -> None:
    schema: Json = {"patternProperties": {rf"^(a*)*\1x{number}$": {} for number in range(200)}}

    assert faults(schema, {"a": 1, "b": 2}) == []
    assert faults(schema, {"a" * 40 + f"x{number}": 1 for number in range(5000)}) == TOO_MUCH


def test_a_pattern_that_needs_too_much_memory_is_refused() -> None:
    with pytest.raises(SchemaError, match="pattern"):
        compile_schema({"pattern": "((a{100}){100}){100}"})


LARGE: list[Json] = [
    {"properties": {f"p{number}": {} for number in range(MAX_PARTS)}},
    {"enum": list(range(MAX_PARTS))},
    {"description": "x" * (MAX_CHARACTERS + 1)},
]


@pytest.mark.requirement("B.20-J7")
@pytest.mark.parametrize("schema", LARGE)
def test_a_schema_that_is_too_large_is_refused(schema: Json) -> None:
    with pytest.raises(SchemaError, match=r"more than 100,000 parts or 4,000,000 characters"):
        compile_schema(schema)


def test_a_large_schema_without_multiplying_references_is_used() -> None:
    schema = {"properties": {f"p{number}": {"type": "integer"} for number in range(20_000)}}

    assert Cost(schema).unfolded > MAX_UNFOLDED
    assert faults(schema, {"p7": 1, "p19999": "x"}) == ["$.p19999: expected integer, got string"]


def test_a_schema_is_compiled_once_even_if_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[object] = []
    compile_it = compile_schema

    def counting(schema: Json, **options: Any) -> _schema.Validator:
        compiled.append(schema)
        return compile_it(schema, **options)

    monkeypatch.setattr(_schema, "compile_schema", counting)
    good, bad = LazyValidator({"type": "integer"}), LazyValidator({"type": "strin"})
    raised: list[SchemaError] = []
    for _ in range(3):
        assert good.faults(1) == []
        with pytest.raises(SchemaError) as refusal:
            bad.faults(1)
        raised.append(refusal.value)

    assert len(compiled) == 2
    assert len({id(error) for error in raised}) == 3
    assert len({str(error) for error in raised}) == 1


# Counts.


ALL_FAULTS: list[tuple[Json, Any, int]] = [
    ({"type": "integer"}, 1, 1),
    ({"allOf": [{}, {}], "anyOf": [True], "oneOf": [{}]}, 1, 5),
    ({"not": {}, "if": {}, "then": {}, "else": {}}, 1, 5),
    ({"properties": {"a": {}, "b": {}}}, {"a": 1, "c": 2}, 2),
    ({"properties": {"a": {}}, "additionalProperties": {}}, {"a": 1, "b": 2, "c": 3}, 4),
    ({"patternProperties": {"x": {}, "y": {}}}, {"a": 1, "b": 2}, 5),
    ({"propertyNames": {}}, {"a": 1, "b": 2}, 3),
    ({"unevaluatedProperties": {}}, {"a": 1, "b": 2}, 3),
    ({"dependentSchemas": {"a": {}, "b": {}}}, {"a": 1}, 2),
    ({"dependencies": {"a": {"not": {}}, "b": ["a"]}}, {"a": 1}, 3),
    ({"items": {}}, [1, 2, 3], 4),
    ({"items": {"not": {}}}, [1, 2, 3], 7),
    ({"prefixItems": [{}, {}], "items": {}}, [1, 2, 3], 4),
    ({"items": [{}, {}], "additionalItems": {}}, (1, 2, 3, 4), 5),
    ({"contains": {}, "unevaluatedItems": {}}, [1, 2], 5),
    ({"items": {"$ref": "#/$defs/a~1b"}, "$defs": {"a/b": {"not": {}}}}, [1], 4),
    ({"$ref": "#/allOf/1", "allOf": [{}, {"not": {}}]}, 1, 6),
    ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, 1, 1),
    ({"$ref": "#/allOf/7", "allOf": [{}]}, 1, 3),
    ({"$ref": "#/type/x", "type": "integer"}, 1, 2),
    ({"$ref": 7}, 1, 1),
    (ITSELF, 1, 1001),
]


@pytest.mark.parametrize(("schema", "value", "expected"), ALL_FAULTS)
def test_a_step_is_one_subschema_applied_to_one_value(schema: Json, value: Any, expected: int) -> None:
    assert steps(schema, value) == expected


ONE_FAULT: list[tuple[Json, Any, int]] = [
    ({"type": "object", "not": {}}, [], 1),
    ({"type": ["object", "null"], "not": {}}, None, 2),
    ({"type": "number", "not": {}}, True, 1),
    ({"required": ["a"], "not": {}}, {"b": 1}, 1),
    ({"required": ["a"], "not": {}}, [], 2),
    ({"properties": {"a": {"const": 1}, "b": {}}}, {"a": 2, "b": 1}, 2),
    ({"properties": {"a": {}, "b": {"const": 1}}}, {"a": 2, "b": 1}, 3),
    ({"properties": {"b": {"const": 1}, "a": {}}}, {"a": 2, "b": 2}, 3),
]


@pytest.mark.parametrize(("schema", "value", "expected"), ONE_FAULT)
def test_the_count_for_one_fault_stops_at_a_certain_fault(schema: Json, value: Any, expected: int) -> None:
    assert steps(schema, value, to_the_end=False) == expected
    assert steps(schema, value) >= expected


def test_unused_definitions_do_not_count() -> None:
    assert Cost({"type": "integer", "$defs": {"a": {"not": {}}}}).unfolded == 3
