"""Schemas of descriptions as JSON Schema 2020-12: references, versions, and what is not for a request or a response."""

from __future__ import annotations

from typing import Any

import pytest

from tests.openapi.helpers import add, describe, parameter, tools

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
    (
        {"$ref": "#/components/schemas/Name", "allOf": [{"$ref": "#/components/schemas/Name"}], "minLength": 1},
        {"minLength": 1, "allOf": [{"type": "string"}, {"type": "string"}]},
    ),
    (
        {"dependencies": {"a": ["b"], "c": {"$ref": "#/components/schemas/Name"}}},
        {"dependencies": {"a": ["b"], "c": {"type": "string"}}},
    ),
    ({"format": "binary"}, {"type": "string", "format": "binary", "contentEncoding": "base64"}),
    ({"contentMediaType": "application/json"}, {"contentMediaType": "application/json"}),
    ({"default": {"$ref": "no reference"}}, {"default": {"$ref": "no reference"}}),
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


async def test_schemas_that_contain_one_another_stay_definitions_and_others_do_not() -> None:
    def of(*names: str) -> dict[str, Any]:
        return {"properties": {name: {"$ref": f"#/components/schemas/{name}"} for name in names}}

    # A and B contain each other, C contains them, D is in all; E is an alias of itself.
    schemas = {"A": of("B", "D"), "B": of("A"), "C": of("A", "D"), "D": {"type": "string"}}
    schemas["E"] = {"$ref": "#/components/schemas/E"}

    schema, definitions = await argument(of("C", "B", "E"), schemas=schemas)

    assert schema["properties"]["C"] == {"properties": {"A": {"$ref": "#/$defs/A"}, "D": {"type": "string"}}}
    assert schema["properties"]["B"] == {"$ref": "#/$defs/B"}
    assert sorted(definitions) == ["A", "B", "E"]
    assert definitions["A"]["properties"]["D"] == {"type": "string"}


async def test_operations_share_the_schemas_that_they_refer_to() -> None:
    schemas = {"Node": NODE, "Id": {"type": "integer"}}
    first = parameter("q", schema={"$ref": "#/components/schemas/Node"})
    second = parameter("q", schema={"prefixItems": [{"$ref": "#/components/schemas/Id"}]})
    third = parameter("q", schema={"anyOf": [{"$ref": "#/components/schemas/Node"}, {"type": "null"}]})
    server, _ = add(describe(schemas=schemas, a={"parameters": [first, second]}, b={"parameters": [third]}))

    found = {name: tool.input_schema for name, tool in (await tools(server)).items()}

    next_one = {"$ref": "#/$defs/Node"}
    assert found["b"]["properties"]["q"] == {"anyOf": [next_one, {"type": "null"}]}
    assert found["b"]["$defs"]["Node"]["properties"] == {"next": next_one, "at": {"type": "integer"}}
    assert "$defs" not in found["a"]  # the second parameter has replaced the first


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
        "nothing": {"$ref": "#/components/schemas/Anything"},
        "loop": {"$ref": "#/components/schemas/Loop"},
    }
    user = {"type": "object", "properties": properties, "required": ["id", "name"]}
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/User"}}}
    only_id = {"type": "object", "properties": {"id": {"readOnly": True}}, "required": ["id"]}
    document = describe(
        schemas={
            "User": user,
            "Time": {"type": "string", "readOnly": True},
            "Anything": True,
            "Loop": {"$ref": "#/components/schemas/Loop"},
        },
        make={"method": "post", "requestBody": {"content": content}, "responses": {201: {"content": content}}},
        get={"parameters": [parameter("q", schema=only_id)]},
    )
    server, _ = add(document, check_responses="refuse")

    found = await tools(server)

    body = found["make"].input_schema["properties"]["body"]
    assert ([*body["properties"]], body["required"]) == (
        ["password", "name", "any", "nothing", "loop"],
        ["name"],
    )
    output: Any = found["make"].output_schema
    assert ([*output["properties"]], output["required"]) == (
        ["id", "made", "name", "any", "nothing", "loop"],
        ["id", "name"],
    )
    assert found["get"].input_schema["properties"]["q"] == {"type": "object", "properties": {}}


async def test_in_version_3_0_what_stands_beside_a_reference_hides_no_property() -> None:
    schema = {"properties": {"id": {"$ref": "#/components/schemas/Id", "readOnly": True}}}

    for version, names in (("3.0.3", ["id"]), ("3.1.0", [])):
        found, _ = await argument(schema, version=version, schemas={"Id": {"type": "integer"}})
        assert [*found["properties"]] == names


RELAXED: list[tuple[Any, Any]] = [
    ({"type": "string", "pattern": "("}, {"type": "string"}),
    ({"anyOf": [{"pattern": "[\\p{all}]"}, True]}, {"anyOf": [{}, True]}),
    ({"items": {"patternProperties": {"(": {}}}}, {"items": {}}),
    ({"properties": {"pattern": {"pattern": "\\Z"}}}, {"properties": {"pattern": {}}}),
]


@pytest.mark.parametrize(("schema", "relaxed"), RELAXED)
async def test_an_expression_in_another_dialect_costs_its_check_and_not_the_tool(schema: Any, relaxed: Any) -> None:
    assert await argument(schema) == (relaxed, {})


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
