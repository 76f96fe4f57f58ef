"""Tests of published schemas without references: definitions stand where they are used, and accept the same values."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from trio_mcp import Server, open_client, types
from trio_mcp.schema import SchemaError, compile_schema
from trio_mcp.server.signature import describe, inlined

Json = dict[str, Any]
Meta = msgspec.Meta


@dataclasses.dataclass
class Point:
    """A place."""

    x: int
    y: int = 0


@dataclasses.dataclass
class Box:
    low: Point
    high: Annotated[Point, "the other corner"] = dataclasses.field(default_factory=lambda: Point(1, 1))


@dataclasses.dataclass
class Tree:
    at: Point
    kids: list[Tree] = dataclasses.field(default_factory=list["Tree"])


@dataclasses.dataclass
class Wood:
    oldest: Tree


class Options(TypedDict, total=False):
    verbose: bool


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]


class Owner(pydantic.BaseModel):
    pet: Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]


def published(annotation: Any) -> Json:
    """Return the inlined input schema of a function whose parameter *p* has an annotation."""

    def function(p: Any) -> None: ...

    function.__annotations__["p"] = annotation
    return describe(function, schema_refs="inline").input_schema


def parameter(annotation: Any) -> Any:
    return published(annotation)["properties"]["p"]


def ladder(rungs: int, uses: int) -> Json:
    """Return a schema of definitions, each of which refers several times to the next one."""
    definitions: Json = {"d0": {"type": "integer"}}
    for rung in range(1, rungs):
        below = {"$ref": f"#/$defs/d{rung - 1}"}
        definitions[f"d{rung}"] = {"properties": {f"m{use}": below for use in range(uses)}}
    return {"type": "object", "properties": {"p": {"$ref": f"#/$defs/d{rungs - 1}"}}, "$defs": definitions}


POINT: Json = {
    "type": "object",
    "description": "A place.",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
    "required": ["x"],
    "additionalProperties": False,
}


def test_a_class_stands_in_every_place_that_uses_it() -> None:
    assert published(list[Point]) == {
        "type": "object",
        "properties": {"p": {"type": "array", "items": POINT}},
        "required": ["p"],
        "additionalProperties": False,
    }


def test_the_description_and_default_of_a_place_replace_those_of_the_class() -> None:
    box = parameter(Box)

    assert box["properties"]["low"] == POINT
    assert box["properties"]["high"] == {
        **POINT,
        "description": "the other corner",
    }


def test_a_class_that_contains_itself_stays_a_definition_without_other_references_in_it() -> None:
    schema = published(Wood)

    assert schema["properties"]["p"]["properties"]["oldest"] == {"$ref": "#/$defs/Tree"}
    assert schema["$defs"].keys() == {"Tree"}
    assert schema["$defs"]["Tree"]["properties"]["at"] == POINT


def test_a_result_is_published_without_references_too() -> None:
    def corners() -> list[Point]:
        return []

    signature = describe(corners, schema_refs="inline")

    assert signature.output_schema is not None
    assert "$defs" not in signature.output_schema
    assert signature.dump([Point(1, 2)]) == {"result": [{"x": 1, "y": 2}]}


def test_a_constraint_of_a_place_is_added_to_the_class() -> None:
    assert parameter(Annotated[Options, Meta(min_length=1)])["minProperties"] == 1


JOINED: list[tuple[Any, Json, Json]] = [
    ({"minimum": 1}, {"minimum": 3, "title": "t"}, {"minimum": 3, "title": "t", "allOf": [{"minimum": 1}]}),
    ({"minimum": 1}, {"maximum": 3}, {"minimum": 1, "maximum": 3}),
    (
        {"additionalProperties": False},
        {"properties": {"a": True}},
        {"properties": {"a": True}, "allOf": [{"additionalProperties": False}]},
    ),
    (
        {"items": {}},
        {"allOf": [{"minItems": 1}]},
        {"allOf": [{"minItems": 1}, {"items": {}}]},
    ),
    (True, {"title": "anything"}, {"title": "anything", "allOf": [True]}),
    ({"title": "a", "x-shown": 1}, {"title": "b", "x-shown": 2}, {"title": "b", "x-shown": 2}),
]


@pytest.mark.parametrize(("definition", "beside", "expected"), JOINED)
def test_keywords_beside_a_reference_are_merged_or_joined(definition: Any, beside: Json, expected: Json) -> None:
    schema = {"properties": {"p": {"$ref": "#/$defs/d", **beside}}, "$defs": {"d": definition}}

    assert inlined(schema) == {"properties": {"p": expected}}


def test_definitions_that_multiply_stay_references() -> None:
    schema = ladder(100, 2)

    assert inlined(schema) is schema


def test_a_schema_that_would_exceed_the_bound_keeps_its_references() -> None:
    assert "$defs" not in inlined(ladder(9, 2))
    assert "$defs" in inlined(ladder(11, 2))


def test_a_large_schema_is_inlined_if_it_does_not_grow() -> None:
    definitions = {f"d{number}": {"type": "integer", "minimum": number} for number in range(900)}
    properties = {name: {"$ref": f"#/$defs/{name}"} for name in definitions}

    assert inlined({"properties": properties, "$defs": definitions}) == {"properties": definitions}


@pytest.mark.parametrize("rungs", [47, 300])
def test_a_schema_that_would_nest_too_deeply_keeps_its_references(rungs: int) -> None:
    assert "$defs" not in inlined(ladder(40, 1))
    assert "$defs" in inlined(ladder(rungs, 1))


def test_an_example_that_nests_too_deeply_keeps_the_references() -> None:
    example: Any = []
    for _ in range(2_000):
        example = [example]
    schema: Json = {"examples": [example], "items": {"$ref": "#/$defs/d"}, "$defs": {"d": True}}

    assert inlined(schema) is schema


@pytest.mark.parametrize(
    "more",
    [
        {"items": {"$ref": "#/properties/p"}},
        {"items": {"$ref": "#"}},
        {"items": {"$ref": "https://example.com/d"}},
        {"items": {"$ref": "#/$defs/absent"}},
        {"items": {"$anchor": "here"}},
        {"items": {"$id": "https://example.com/d"}},
    ],
)
def test_a_schema_that_refers_to_anything_but_its_definitions_is_not_changed(more: Json) -> None:
    schema = {"properties": {"p": {"$ref": "#/$defs/d"}}, **more, "$defs": {"d": {"type": "integer"}}}

    assert inlined(schema) is schema


def test_members_and_values_that_look_like_references_are_not_references() -> None:
    look_alike = {"$ref": "#/$defs/d"}
    schema: Json = {
        "properties": {"$ref": {"$ref": "#/$defs/d"}, "$defs": {}, "discriminator": {"mapping": {}}},
        "default": look_alike,
        "items": True,
        "$defs": {"d": {"enum": [{"$ref": "#"}]}},
    }

    assert inlined(schema) == {
        "properties": {"$ref": {"enum": [{"$ref": "#"}]}, "$defs": {}, "discriminator": {"mapping": {}}},
        "default": look_alike,
        "items": True,
    }


def test_the_discriminator_of_a_union_of_models_refers_to_no_definition() -> None:
    pet = parameter(Owner)["properties"]["pet"]

    assert [arm["properties"]["kind"]["const"] for arm in pet["oneOf"]] == ["cat", "dog"]
    assert pet["discriminator"] == {"propertyName": "kind"}
    assert "$defs" not in json.dumps(published(Owner))


def test_a_discriminator_without_references_is_kept() -> None:
    any_form: Json = {}
    for hint in ({"propertyName": "kind"}, "kind"):
        schema: Json = {"discriminator": hint, "items": {"$ref": "#/$defs/d"}, "$defs": {"d": any_form}}

        assert inlined(schema) == {"discriminator": hint, "items": {}}


# --- The same values ---

names = st.sampled_from(["a", "b", "c"])
members = st.sampled_from(["x", "y"])
references = names.map(lambda name: {"$ref": f"#/$defs/{name}"})


def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries(
        {},
        optional={
            "$ref": names.map("#/$defs/{}".format),
            "additionalProperties": inner,
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "const": st.sampled_from([1, "t", {"x": 1}]),
            "contains": inner,
            "default": references,
            "description": st.just("text"),
            "if": inner,
            "items": inner,
            "maxItems": st.integers(0, 2),
            "minContains": st.integers(0, 2),
            "minimum": st.integers(0, 2),
            "not": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "properties": st.dictionaries(members, inner, max_size=2),
            "required": st.lists(members, unique=True, max_size=2),
            "then": inner,
            "type": st.sampled_from(["object", "array", "integer", "string"]),
            "unevaluatedProperties": st.booleans(),
        },
    )


leaves = st.booleans() | references | st.sampled_from([{}, {"type": "integer"}, {"type": "string"}, {"minimum": 1}])
schemas = st.recursive(leaves, larger, max_leaves=6)
roots = st.tuples(larger(schemas), st.fixed_dictionaries(dict.fromkeys("abc", schemas)))
values = st.recursive(
    st.sampled_from([0, 1, 2, "t", None]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(members, inner, max_size=2),
    max_leaves=6,
)


@settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
@given(root=roots, tried=st.lists(values, min_size=5, max_size=5))
def test_an_inlined_schema_accepts_the_same_values(root: tuple[Json, Json], tried: list[Any]) -> None:
    schema = {"title": "any", **root[0], "$defs": root[1]}
    try:
        with_references = compile_schema(schema)
    except SchemaError:
        assume(False)
        raise
    without = compile_schema(inlined(schema))

    for value in tried:
        assert bool(without.faults(value)) == bool(with_references.faults(value))


# --- Servers ---


def take(place: Point) -> list[Point]:
    return [place]


@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_tools_are_listed_without_references_and_work_as_before(revision: str) -> None:
    server = Server("s")
    server.tool(take)

    async with open_client(server, revision=revision) as client:
        (tool,) = (await client.list_tools()).tools
        result = await client.call_tool("take", {"place": {"x": 1}})
        refused = await client.call_tool("take", {"place": {"y": []}})

    assert tool.input_schema["properties"] == {"place": POINT}
    assert "$ref" not in json.dumps([tool.input_schema, tool.output_schema])
    assert not result.is_error
    assert refused.is_error


async def test_a_server_can_keep_references() -> None:
    server = Server("s", schema_refs="keep")
    server.tool(take)

    async with open_client(server) as client:
        (tool,) = (await client.list_tools()).tools

    assert tool.input_schema["properties"] == {"place": {"$ref": "#/$defs/Point"}}
    assert tool.output_schema is not None
    assert tool.output_schema["$defs"].keys() == {"Point"}


@pytest.mark.parametrize("as_text", [True, False])
async def test_a_given_schema_keeps_its_references(as_text: bool) -> None:
    schema = {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}}
    given: Any = json.dumps(schema) if as_text else schema
    server = Server("s")

    @server.tool(input_schema=given, output_schema=given)
    def same(**arguments: Any) -> Json:
        return arguments

    async with open_client(server) as client:
        (tool,) = (await client.list_tools()).tools

    assert tool.input_schema == tool.output_schema == schema


def test_a_member_of_a_class_can_be_mirrored_in_a_header() -> None:
    @dataclasses.dataclass
    class Place:
        region: Annotated[str, Meta(extra_json_schema={"x-mcp-header": "Region"})]

    def route(place: Place) -> str:
        return place.region

    Server("s").tool(route)
    with pytest.raises(ValueError, match="reached by 'properties' alone"):
        Server("s", schema_refs="keep").tool(route)


def test_an_unknown_treatment_of_references_is_refused() -> None:
    wrong: Any = "remove"

    with pytest.raises(ValueError, match="schema_refs='remove': must be one of inline, keep"):
        Server("s", schema_refs=wrong)
