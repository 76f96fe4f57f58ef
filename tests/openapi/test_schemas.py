"""Schemas of descriptions as JSON Schema 2020-12: references, versions, and what is not for a request or a response."""

from __future__ import annotations

from typing import Any

import pytest

from tests.openapi.helpers import add, describe, parameter, tools
from trio_mcp import types

NODE = {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Node"}, "at": {"type": "integer"}}}


async def argument(schema: Any, *, version: str = "3.1.0", schemas: dict[str, Any] | None = None) -> Any:
    """Return the schema of an argument whose parameter has *schema*, and the definitions beside it."""
    server, added = add(describe(version=version, schemas=schemas, get={"parameters": [parameter("q", schema=schema)]}))
    assert added.left_out == {}
    whole = (await tools(server))["get"].input_schema
    return whole["properties"]["q"], whole.get("$defs", {})


@pytest.mark.parametrize(
    ("schema", "plain"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "nullable": True, "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"type": "string", "nullable": False}, {"type": "string"}),
        (
            {"nullable": True, "allOf": [{"type": "string"}]},
            {"anyOf": [{"allOf": [{"type": "string"}]}, {"type": "null"}]},
        ),
        ({"nullable": True}, {}),
        ({"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}),
        ({"maximum": 1, "exclusiveMaximum": False}, {"maximum": 1}),
        ({"exclusiveMaximum": True}, {}),
        ({"example": "a"}, {"examples": ["a"]}),
        ({"example": "a", "examples": ["b"]}, {"examples": ["b"]}),
        ({"$ref": "#/components/schemas/Name", "description": "ignored"}, {"type": "string", "description": "a name"}),
    ],
)
async def test_a_schema_of_version_3_0(schema: Any, plain: Any) -> None:
    schemas = {"Name": {"type": "string", "description": "a name"}}

    assert await argument(schema, version="3.0.3", schemas=schemas) == (plain, {})


CASES: list[tuple[Any, Any]] = [
    (True, True),
    ({"type": "string", "x-order": 1, "xml": {}, "externalDocs": {}, "discriminator": {}}, {"type": "string"}),
    ({"exclusiveMinimum": 3}, {"exclusiveMinimum": 3}),
    ({"anyOf": [{"$ref": "#/components/schemas/Name"}, {"not": {}}]}, {"anyOf": [{"type": "string"}, {"not": {}}]}),
    ({"allOf": "wrong"}, {"allOf": "wrong"}),
    (
        {"$ref": "#/components/schemas/Name", "description": "of a pet"},
        {"type": "string", "description": "of a pet"},
    ),
    ({"$ref": "#/components/schemas/Name", "maxLength": 3}, {"maxLength": 3, "allOf": [{"type": "string"}]}),
    ({"$ref": "#/components/schemas/Any", "description": "any"}, {"description": "any", "allOf": [True]}),
]


@pytest.mark.parametrize(("schema", "plain"), CASES)
async def test_a_schema_of_version_3_1(schema: Any, plain: Any) -> None:
    schemas: dict[str, Any] = {"Name": {"type": "string"}, "Any": True}
    server, added = add(describe(schemas=schemas, get={"parameters": [parameter("q", schema=schema)]}))

    if schema == {"allOf": "wrong"}:
        assert "inputSchema cannot be used" in added.left_out["GET /get"]
    else:
        assert (await tools(server))["get"].input_schema["properties"]["q"] == plain


async def test_a_schema_that_contains_itself_stays_a_definition() -> None:
    assert await argument({"$ref": "#/components/schemas/Node"}, schemas={"Node": NODE}) == (
        {"$ref": "#/$defs/Node"},
        {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "at": {"type": "integer"}}}},
    )


async def test_definitions_of_one_name_are_kept_apart() -> None:
    other = {"$defs": {"Node": {"type": "array", "items": {"$ref": "#/components/schemas/Other/$defs/Node"}}}}
    path = "#/components/schemas/Other/$defs/Node"
    both = {"anyOf": [{"$ref": "#/components/schemas/Node"}, {"$ref": path}]}

    schema, definitions = await argument(both, schemas={"Node": NODE, "Other": other})

    assert schema == {"anyOf": [{"$ref": "#/$defs/Node"}, {"$ref": "#/$defs/Node_2"}]}
    assert definitions["Node_2"] == {"type": "array", "items": {"$ref": "#/$defs/Node_2"}}


async def test_definitions_of_several_arguments_are_kept_apart() -> None:
    schemas = {"Node": NODE, "deep": {"Node": {"items": {"$ref": "#/components/schemas/deep/Node"}}}}
    parameters = [
        parameter("a", schema={"$ref": "#/components/schemas/Node"}),
        parameter("b", schema={"type": "array", "items": {"$ref": "#/components/schemas/deep/Node"}}),
        parameter("c", schema={"$ref": "#/components/schemas/Node"}),
    ]
    server, _ = add(describe(schemas=schemas, get={"parameters": parameters}))

    whole = (await tools(server))["get"].input_schema

    assert whole["properties"]["a"] == whole["properties"]["c"] == {"$ref": "#/$defs/Node"}
    assert whole["properties"]["b"] == {"type": "array", "items": {"$ref": "#/$defs/Node_2"}}
    assert whole["$defs"]["Node_2"] == {"items": {"$ref": "#/$defs/Node_2"}}


async def test_the_references_of_a_schema_that_would_grow_too_large_are_kept() -> None:
    schemas: dict[str, Any] = {"S0": {"type": "string"}}
    for number in range(1, 12):
        below = {"$ref": f"#/components/schemas/S{number - 1}"}
        schemas[f"S{number}"] = {"type": "object", "properties": {"left": below, "right": below}}

    schema, definitions = await argument({"$ref": "#/components/schemas/S11"}, schemas=schemas)

    assert schema == {"$ref": "#/$defs/S11"}
    assert len(definitions) == 12


async def test_requests_leave_out_what_is_only_read_and_responses_what_is_only_written() -> None:
    properties = {
        "id": {"type": "integer", "readOnly": True},
        "made": {"$ref": "#/components/schemas/Time"},
        "password": {"type": "string", "writeOnly": True},
        "name": {"type": "string"},
        "any": True,
    }
    user = {"type": "object", "properties": properties, "required": ["id", "name"]}
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/User"}}}
    only_id = {"type": "object", "properties": {"id": {"readOnly": True}}, "required": ["id"]}
    document = describe(
        schemas={"User": user, "Time": {"type": "string", "readOnly": True}},
        make={"method": "post", "requestBody": {"content": content}, "responses": {201: {"content": content}}},
        get={"parameters": [parameter("q", schema=only_id)]},
    )
    server, _ = add(document, check_responses="refuse")

    found = await tools(server)

    body = found["make"].input_schema["properties"]["body"]
    assert ([*body["properties"]], body["required"]) == (["password", "name", "any"], ["name"])
    output: Any = found["make"].output_schema
    assert ([*output["properties"]], output["required"]) == (["id", "made", "name", "any"], ["id", "name"])
    assert found["get"].input_schema["properties"]["q"] == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    "responses",
    [
        None,
        {},
        {"default": {"content": {"application/json": {"schema": {"type": "object"}}}}},
        {"204": {"description": "done"}},
        {"200": {"content": {"text/plain": {}, "application/pdf": {}}}},
    ],
)
async def test_other_results_have_no_output_schema(responses: Any) -> None:
    server, added = add(describe(get={"responses": responses}), check_responses="refuse")

    assert added.left_out == {}
    assert (await tools(server))["get"].output_schema is None
