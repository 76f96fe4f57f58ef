"""Tests of schemas whose validation would take too long: each is refused before the validation begins.

Without the refusals most of these tests would not end in this century, or would crash the process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trio_mcp.schema import LazyValidator, SchemaError, compile_schema
from trio_mcp.schema import _validate as _schema
from trio_mcp.schema._cost import MAX_CHAIN, Cost, CostError
from trio_mcp.schema._count import MAX_PAIRS, Count
from trio_mcp.schema._validate import MAX_CHARACTERS, MAX_PARTS
from trio_mcp.schema._work import KEYWORD, Part, pattern_size, size_of

Json: TypeAlias = dict[str, Any]

TOO_MUCH = ["$: too expensive to validate: alternatives and references multiply, or the value is large"]
NOWHERE = ["$: does not fit; the place and reason are too expensive to find"]
ITSELF: Json = {"$ref": "#"}


def faults(schema: Json, value: Any) -> list[str]:
    return compile_schema(schema).faults(value)


def twice(keyword: str, reference: str) -> Json:
    return {keyword: [{"$ref": reference}, {"$ref": reference}]}


def ladder(rung: Callable[[str], Json], rungs: int = 60) -> Json:
    """Return a schema of definitions of which each refers twice to the one before."""
    definitions: Json = {"d0": {"type": "integer"}}
    for number in range(1, rungs):
        definitions[f"d{number}"] = rung(f"#/$defs/d{number - 1}")
    return {"$defs": definitions, "$ref": f"#/$defs/d{rungs - 1}"}


def nested(levels: int, step: Callable[[Json], Json], schema: Json) -> Json:
    for _ in range(levels):
        schema = step(schema)
    return schema


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


def test_references_that_multiply_with_the_members_of_a_value_are_refused_only_where_several_members_occur() -> None:
    schema = ladder(lambda below: {"dependentSchemas": {name: {"$ref": below} for name in "ab"}})
    schema["$defs"]["d0"] = {"minProperties": 1}

    assert faults(schema, {"a": 1, "b": 1}) == TOO_MUCH
    assert faults(schema, {"a": 1, "c": 1}) == []


@pytest.mark.requirement("B.20-J7")
@pytest.mark.parametrize("keyword", ["unevaluatedProperties", "unevaluatedItems"])
def test_a_schema_that_the_compiler_would_unfold_is_refused(keyword: str) -> None:
    with pytest.raises(SchemaError, match="references of the schema multiply"):
        compile_schema({**LADDERS["anyOf"], keyword: False})


def test_a_recursive_schema_may_refuse_unknown_members() -> None:
    schema: Json = {"properties": {"a": {"items": ITSELF}}, "unevaluatedProperties": False}

    assert faults(schema, {"a": [{"a": []}, {"b": 1}]}) == ["$.a[1].b: unknown, not allowed here"]


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
        TOO_MUCH,
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

    assert faults(schema, value) == TOO_MUCH
    assert faults(schema, {"a": {"a": 1}})[0] == "$.a.a: expected null or object, got integer"


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

    assert Cost(schema).verdict is None
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
    schema = {"items": {"allOf": [{"minimum": number} for number in range(-2000, 0)]}}

    assert faults(schema, [1] * 100) == []
    assert faults(schema, [1] * 10_000) == TOO_MUCH


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
    texts = ["a" * 50 + "!", "x" * 500]

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
    with pytest.raises(SchemaError, match=r"more than 5,000 parts or 1,000,000 characters"):
        compile_schema(schema)


def test_a_large_schema_without_multiplying_references_is_used() -> None:
    schema = {"properties": {f"p{number}": {"type": "integer"} for number in range(2_000)}}

    assert faults(schema, {"p7": 1, "p1999": "x"}) == ["$.p1999: expected integer, got string"]


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


# Bounds of the work.


REFUSED_SCHEMAS: dict[str, tuple[Json, str]] = {
    "circles in every order": (
        {
            "$defs": {f"k{a}": {"anyOf": [{"$ref": f"#/$defs/k{b}"} for b in range(12)]} for a in range(12)},
            "$ref": "#/$defs/k0",
        },
        "go in circles",
    ),
    "a circle with two ways": (
        {"anyOf": [{"allOf": [ITSELF, {}]}, {"allOf": [ITSELF, {}]}]},
        "go in circles",
    ),
    "a ring of more subschemas than references may follow each other": (
        {
            "$defs": {
                f"d{number}": nested(90, lambda inner: {"allOf": [inner]}, {"$ref": f"#/$defs/d{(number + 1) % 3}"})
                for number in range(3)
            },
            "$ref": "#/$defs/d0",
        },
        "go in circles",
    ),
    "a chain": (ladder(lambda below: {"items": below and {"$ref": below}}, MAX_CHAIN + 9), "follow each other"),
    "an unevaluated chain": (
        ladder(lambda below: {"allOf": [{"$ref": below}], "unevaluatedItems": False}, 60),
        "follow each other",
    ),
    "patterns": ({"properties": {f"p{number}": {"pattern": "^.{100}$"} for number in range(60)}}, "are too large"),
    "unused patterns": ({"$defs": {"p": {"pattern": r"\p{L}{99}"}}}, "are too large"),
    "a long pattern": ({"pattern": "a" * 100_000}, "are too large"),
}


@pytest.mark.parametrize("name", REFUSED_SCHEMAS)
def test_a_schema_that_is_too_expensive_to_compile_or_to_judge_is_refused(name: str) -> None:
    schema, reason = REFUSED_SCHEMAS[name]

    with pytest.raises(SchemaError, match=reason):
        compile_schema(schema)


EXPENSIVE: dict[str, tuple[Json, Any]] = {
    "unevaluated members in each other": (
        nested(40, lambda inner: {"anyOf": [inner], "unevaluatedProperties": {"type": "integer"}}, {}),
        {"a": 1, "b": 2},
    ),
    "unevaluated items in each other": (
        nested(40, lambda inner: {"anyOf": [inner], "unevaluatedItems": {"type": "integer"}}, {"prefixItems": [{}]}),
        [1, 2, 3],
    ),
    "a pattern of many states": ({"pattern": "x.{300}y"}, "xa" * 50_000),
    "a pattern that looks ahead": ({"pattern": "(?=.*x)(?=.*y)"}, "a" * 100_000),
    "patterns for names": (
        {"patternProperties": {f"^a{number}": {} for number in range(1000)}},
        {f"a{number}": 1 for number in range(1000)},
    ),
    "large numbers that must be unique": ({"uniqueItems": True}, [2**70 + number for number in range(2000)]),
    "large numbers": ({"items": {"maximum": 2**14000}}, [2**14000 - number for number in range(500)]),
    "a large number among options": ({"items": {"enum": [number + 0.5 for number in range(4000)]}}, [2**14000]),
    "an enum of numbers": ({"items": {"enum": list(range(1000))}}, [0.5 + number for number in range(1000)]),
    "unique items in each other": (
        {"uniqueItems": True, "items": ITSELF},
        tower(150, [[each] for each in range(3000)]),
    ),
    "formats": ({"items": {"format": "idn-hostname"}}, ["ä." * 500_000]),
    "patterns as values": ({"items": {"format": "regex"}}, [r"\p{L}{9}"] * 100),
    "contents": (
        {
            "$schema": "http://json-schema.org/draft-07/schema",
            "items": {"contentMediaType": "application/json"},
        },
        ["[" * 1_000_000],
    ),
    "names": ({"propertyNames": {"pattern": "x.{300}y"}}, {"xa" * 50_000: 1}),
    "a long string in a small object": ({"properties": {"a": {"contentEncoding": "base64"}}}, {"a": "x" * 1_000_000}),
    "a long name in a small object": ({"propertyNames": {"contentEncoding": "base64"}}, {"x" * 1_000_000: None}),
    "a large number in a small object": ({"properties": {"a": {"enum": [*range(100)]}}}, {"a": 2**100_000}),
}


@pytest.mark.parametrize("name", EXPENSIVE)
def test_a_validation_that_is_too_expensive_is_refused_at_once(name: str) -> None:
    schema, value = EXPENSIVE[name]

    assert faults(schema, value) == TOO_MUCH


def test_a_count_looks_at_each_pair_of_a_subschema_and_a_value_only_once() -> None:
    schema = ladder(lambda below: {"anyOf": [{"not": {"$ref": below}}, {"not": {"$ref": below}}]}, 14)

    assert faults(schema, [number + 0.5 for number in range(10_000)]) == []
    assert 2**13 * KEYWORD < Cost(schema).work(1, 10**9) < 2**18 * KEYWORD


def test_a_schema_is_judged_once_and_ordinary_values_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    row: Json = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"anyOf": [{"type": "null"}, {}]}}}
    validator = compile_schema({"items": row, "properties": {"rows": {"items": row}}})
    monkeypatch.setattr(Cost, "work", None)
    monkeypatch.setattr(Part, "judge", None)

    assert validator.faults([{"a": 1, "b": None}] * 10_000) == []
    assert validator.faults({"rows": [{"a": 1, "b": None}] * 10_000}) == []


def test_a_recursive_schema_whose_alternatives_exclude_each_other_has_a_verdict() -> None:
    schema: Json = {
        "anyOf": [
            {"type": ["string", "number", "null"]},
            {"type": "array", "items": ITSELF},
            {"type": "object", "additionalProperties": ITSELF},
        ]
    }

    assert Cost(schema).verdict is not None
    assert faults(schema, [{"a": [1, {"b": None}]}] * 10_000) == []


def test_a_pattern_as_a_value_is_compiled_within_the_bounds() -> None:
    schema = {"format": "regex"}

    assert faults(schema, "^a+$") == []
    assert faults(schema, "(") == ['$: "(" is not a regex']
    assert faults(schema, "a{100}{100}") == ['$: "a{100}{100}" is not a regex']


@pytest.mark.parametrize(
    ("pattern", "states", "active"),
    [
        ("^abc$", 5, 2),
        ("^[a-z]{9}$", 11, 2),
        ("^a[0-9]{2,8}x", 11, 10),
        ("a|b", 2, 3),
        (".", 16, 17),
        (r"\W\s\d", 33, 34),
        ("(a(bc){3}){4}", 44, 45),
        ("(?i)ab", 12, 13),
        (")", 1, 2),
    ],
)
def test_the_size_of_a_pattern_grows_with_its_automaton(pattern: str, states: int, active: int) -> None:
    size = pattern_size(pattern)

    assert (size.states - pattern_size("").states, size.active) == (states, active)


def test_the_size_of_a_value_counts_values_characters_and_large_integers() -> None:
    size = size_of({"ab": [1, "xyz", 2**70], "c": {"d": None}}, 100, 10)

    assert (size.parts, size.characters, size.longest, size.large, size.bits, size.depth) == (7, 7 + 71, 3, 1, 71, 2)
    assert size_of([[1] * 50] * 2, 100, 10).parts == 101
    assert size_of([[[1]]], 100, 1).depth == 2


# Random schemas and values.


_NAMES = st.sampled_from(["a", "b", "c"])
_LEAVES: st.SearchStrategy[Json] = st.sampled_from(
    [
        {},
        {"type": "null"},
        {"type": "object"},
        {"type": "array"},
        {"enum": [1, 2.5, "a"]},
        {"pattern": "^(a|b)*.{9}$"},
        {"uniqueItems": True},
        {"required": ["a"]},
        {"maximum": 5},
        {"maxLength": 3},
        {"$ref": "#"},
        {"$ref": "#/$defs/a"},
        {"$ref": "#/$defs/b"},
        {"$ref": "#/$defs/c"},
        {"$dynamicRef": "#d"},
    ]
)


def _larger(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    several = st.lists(inner, min_size=1, max_size=3)
    keywords: dict[str, st.SearchStrategy[Any]] = {
        **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), several),
        **dict.fromkeys(("not", "if", "then", "else", "items", "contains", "propertyNames", "$ref"), inner),
        **dict.fromkeys(("additionalProperties", "unevaluatedProperties", "unevaluatedItems"), inner),
        **dict.fromkeys(("properties", "dependentSchemas", "patternProperties"), st.dictionaries(_NAMES, inner)),
        "$ref": st.sampled_from(["#", "#/$defs/a", "#/$defs/b"]),
        "required": st.lists(_NAMES, max_size=2, unique=True),
        "uniqueItems": st.booleans(),
    }
    return st.lists(st.sampled_from(sorted(keywords)), max_size=3, unique=True).flatmap(
        lambda chosen: st.fixed_dictionaries({keyword: keywords[keyword] for keyword in chosen})
    )


SCHEMAS = st.fixed_dictionaries(
    {"$defs": st.fixed_dictionaries({name: st.recursive(_LEAVES, _larger, max_leaves=8) for name in "abc"})}
).flatmap(lambda root: st.recursive(_LEAVES, _larger, max_leaves=12).map(lambda body: {**body, **root}))
VALUES = st.recursive(
    st.none() | st.integers(-3, 2**70) | st.floats(-5, 5) | st.text("ab", max_size=12),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(_NAMES, inner),
    max_leaves=40,
)


class WatchedCompiled:
    """A compiled schema that admits every value, and notes that it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def is_valid(self, _: object) -> bool:
        self.asked += 1
        return True


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(schema=SCHEMAS, value=VALUES, levels=st.integers(0, 60))
def test_no_validation_is_begun_whose_work_exceeds_the_budget(schema: Json, value: Any, levels: int) -> None:
    """Whatever the schema and the value are, the work is bounded, and so is the number of pairs that are counted."""
    value = tower(levels, value)
    try:
        cost = Cost(schema)
    except CostError:
        return
    watched = WatchedCompiled()
    validator = _schema.Validator(watched, cost)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    count = Count(_schema._MOST_WORK, with_faults=False)
    counted = count.run(cost._root, value)
    bound = cost.bound(size_of(value, 10**6, 10**3))

    assert validator.faults(value) in ([], TOO_MUCH)
    assert count._pairs >= -1
    assert len(count._counted) <= MAX_PAIRS
    if watched.asked:
        assert min(counted, bound if bound is not None else counted) <= _schema._MOST_WORK
    if bound is not None and counted <= _schema._MOST_WORK:
        assert counted <= bound


@settings(max_examples=40, deadline=None)
@given(levels=st.integers(1, 60), rung=st.sampled_from(["allOf", "anyOf", "oneOf"]), items=st.booleans())
def test_a_count_is_never_lower_than_the_number_of_ways_through_a_schema(levels: int, rung: str, items: bool) -> None:
    def step(below: str) -> Json:
        return {"items": twice(rung, below)} if items else twice(rung, below)

    work = Cost(ladder(step, levels)).work(tower(levels if items else 0, 1), 10**30)

    assert work >= 2 ** (levels - 1)


class Text(str):
    """A string of a class of its own."""

    __slots__ = ()


def test_unusual_values_are_measured_like_any_other() -> None:
    schema: Json = {"properties": {"a": {"const": {"b": [1]}}, "c": {"pattern": r"[\p{L}]"}}}

    assert size_of([Text("abc")], 10, 10).characters == 3
    assert faults(schema, {"a": {"b": [1]}, "c": "ä"}) == []
    assert faults(schema, {"a": 2**70}) == ['$.a: expected {"b": [1]}, got 1180591620717411303424']
    assert faults(schema, {"d": "x" * 5000, "x" * 5000: 1}) == []
    assert faults(schema, {"x" * 5000: 1}) == []
