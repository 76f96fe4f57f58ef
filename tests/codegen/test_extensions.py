"""The schemas of extensions: forms of other tools, copies of the core, and the modules generated from them."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest

from codegen.align import read_extension
from codegen.choices import PLAIN_JSON
from codegen.docs import ExtensionDocs
from codegen.emit import emit_extension
from codegen.extension_prose import EXTENSION_CLASSES, EXTENSION_MEMBERS
from codegen.extensions import EXTENSIONS, extension_methods
from codegen.merge import Merged, merge
from codegen.normalise import normalise_extension
from codegen.project import read_core, read_extensions
from codegen.shapes import Definitions, RefusedError, Schema, rebuild, target

CORE = read_core()
NEWEST = "../2026-07-28.json#/$defs/"
STRING = {"type": "string"}
INTEGER = {"type": "integer"}
ANY_OBJECT: Schema = {"additionalProperties": {}, "type": "object"}
SAFE: Schema = {"maximum": 2**53 - 1, "minimum": 1 - 2**53, "type": "integer"}


def objects(required: str = "", **members: Any) -> Schema:
    """Return the schema of an object with these members."""
    schema: Schema = {"properties": members, "type": "object"}
    return {**schema, "required": required.split()} if required else schema


def normal(definitions: Definitions) -> Definitions:
    """Return the normal form of the definitions of an extension."""
    document = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": definitions}
    form = normalise_extension(document, "tasks", CORE)
    assert normalise_extension(form, "tasks", CORE) == form
    return dict(form["$defs"])


def normal_member(schema: Schema) -> Schema:
    """Return the normal form of a member of a definition."""
    return dict(normal({"Box": objects(member=schema)})["Box"]["properties"]["member"])


def copied(name: str, revision: str = "2026-07-28") -> Schema:
    """Return a definition of the core with every reference replaced by what it refers to."""

    def unfold(schema: Schema) -> Schema:
        name = target(schema)
        if name is None:
            return rebuild(schema, unfold)
        return ANY_OBJECT if name in {"JSONObject", "MetaObject"} else unfold(CORE[revision][name])

    return unfold(CORE[revision][name])


# -- Forms that tools write.


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", **STRING}, STRING),
        ({"propertyNames": STRING, **ANY_OBJECT}, ANY_OBJECT),
        (
            {"anyOf": [{"const": "b", **STRING}, {"const": "a", "description": "The first.", **STRING}]},
            {"enum": ["a", "b"], **STRING},
        ),
        ({"anyOf": [STRING, INTEGER]}, {"type": ["integer", "string"]}),
        ({"anyOf": [SAFE, {"type": "null"}]}, {"type": ["integer", "null"]}),
        ({"maximum": 2**53 - 1, "minimum": 0, "type": "integer"}, {"minimum": 0, "type": "integer"}),
        ({"anyOf": [STRING, {"description": "undefined"}]}, STRING),
        ({"format": "date-time", "pattern": "^x$", **STRING}, {"format": "date-time", **STRING}),
        ({"pattern": "^x$", **STRING}, {"pattern": "^x$", **STRING}),
        (
            {"additionalProperties": STRING, "propertyNames": {"enum": ["a"]}, "required": ["a"], "type": "object"},
            {"additionalProperties": STRING, "type": "object"},
        ),
        ({"additionalProperties": {"not": {}}, "type": "object"}, ANY_OBJECT),
        ({"additionalProperties": False, "properties": {}, "type": "object"}, ANY_OBJECT),
    ],
)
def test_a_form_of_another_tool_becomes_the_form_of_the_core(schema: Schema, expected: Schema) -> None:
    assert normal_member(schema) == expected


def test_a_closed_object_is_open_like_every_message() -> None:
    assert normal({"Box": {**objects(a=STRING), "additionalProperties": False}}) == {"Box": objects(a=STRING)}


def test_a_member_that_must_be_absent_is_not_a_member() -> None:
    assert normal({"Box": objects(a=STRING, b={"not": {}})}) == {"Box": objects(a=STRING)}


def test_a_link_to_a_resource_is_that_of_the_core_although_its_size_is_any_number() -> None:
    link = copied("ResourceLink")
    link["properties"]["size"] = {"type": "number"}

    assert normal_member(link) == {"$ref": f"{NEWEST}ResourceLink"}


def test_a_mistake_of_an_extension_that_has_changed_is_refused() -> None:
    document = upstream("apps")
    document["$defs"]["McpUiHostContext"]["properties"]["containerDimensions"] = STRING

    with pytest.raises(RefusedError, match=r"^extension apps: McpUiHostContext.*containerDimensions is not the known"):
        normalise_extension(document, "apps", CORE)


def test_definitions_inside_a_definition_stand_beside_it() -> None:
    box = {**objects(a={"$ref": "#/$defs/Lid"}), "$defs": {"Lid": objects(b=STRING)}}

    assert normal({"Box": box}) == {"Box": objects(a={"$ref": "#/$defs/Lid"}), "Lid": objects(b=STRING)}


def test_two_inner_definitions_of_one_name_are_refused() -> None:
    box = {**objects(a=STRING), "$defs": {"Lid": objects(b=STRING)}}

    with pytest.raises(RefusedError, match="extension tasks: Lid, which Box defines, is the name of two different"):
        normal({"Lid": STRING, "Box": box})


def test_a_definition_made_of_every_kind_of_value_is_any_value() -> None:
    recursive = {"$ref": "#/$defs/__schema0"}
    arms = [STRING, {"type": "number"}, {"type": "boolean"}, {"type": "null"}]
    nested = [{**ANY_OBJECT, "additionalProperties": recursive}, {"items": recursive, "type": "array"}]

    definitions = {"Box": objects(a=recursive), "__schema0": {"anyOf": [*arms, *nested]}}

    assert normal(definitions) == {"Box": objects(a={})}


def test_all_of_and_any_of_together_become_a_union_of_whole_objects_named_by_what_differs() -> None:
    arms = [objects("state", state={"const": word, **STRING}) for word in ("being_made", "done")]

    found = normal({"Base": objects(a=STRING), "Box": {"allOf": [{"$ref": "#/$defs/Base"}, {"anyOf": arms}]}})

    assert found["Box"] == {"anyOf": [{"$ref": "#/$defs/BoxBeingMade"}, {"$ref": "#/$defs/BoxDone"}]}
    assert found["BoxDone"] == objects("state", a=STRING, state={"const": "done", **STRING})


def test_all_of_narrows_any_object_to_the_object_that_another_part_describes() -> None:
    parts = [objects(params=ANY_OBJECT), objects(params=objects(a=STRING))]

    assert normal({"Box": {"allOf": parts}}) == {
        "Box": objects(params={"$ref": "#/$defs/BoxParams"}),
        "BoxParams": objects(a=STRING),
    }


# -- Copies.


def test_a_definition_that_equals_that_of_the_core_is_the_one_of_the_core() -> None:
    theme, sizes = {"enum": ["light", "dark"], **STRING}, {"items": STRING, "type": "array"}
    icon = {**objects("src", theme=theme, src=STRING, mimeType=STRING, sizes=sizes), "description": "A picture."}

    found = normal({"Icon": icon, "Box": objects(icon={"$ref": "#/$defs/Icon"})})

    assert found == {"Box": objects(icon={"$ref": f"{NEWEST}Icon"})}


def test_a_definition_with_one_member_more_than_that_of_the_core_is_another() -> None:
    icon = copied("Icon")
    icon["properties"] = {**icon["properties"], "weight": INTEGER}

    assert normal({"Icon": icon, "Box": objects(icon={"$ref": "#/$defs/Icon"})})["Box"] == objects(
        icon={"$ref": "#/$defs/Icon"}
    )


def test_a_copy_of_a_definition_with_another_name_in_the_core_keeps_its_name() -> None:
    assert normal({"Picture": copied("Icon")}).keys() == {"Picture"}


@pytest.mark.parametrize(
    ("name", "revision"),
    [("ContentBlock", "2026-07-28"), ("Implementation", "2026-07-28"), ("Tool", "2026-07-28"), ("Tool", "2025-11-25")],
)
def test_an_inline_copy_of_a_type_of_the_core_becomes_a_reference_to_it(name: str, revision: str) -> None:
    assert normal_member(copied(name, revision)) == {"$ref": f"../{revision}.json#/$defs/{name}"}


def test_a_tool_whose_schemas_are_described_in_detail_is_the_tool_of_the_core() -> None:
    tool = copied("Tool")
    tool["properties"]["inputSchema"] = objects("type", type={"const": "object", **STRING}, items=ANY_OBJECT)

    assert normal_member(tool) == {"$ref": f"{NEWEST}Tool"}


def test_an_inline_copy_of_a_definition_of_the_same_file_becomes_a_reference_to_it() -> None:
    lid = objects(a=STRING, b={**SAFE, "description": "Prose."})

    found = normal({"Lid": objects(a=STRING, b=INTEGER), "Box": objects(lid=lid)})

    assert found["Box"] == objects(lid={"$ref": "#/$defs/Lid"})


def test_an_inline_object_that_equals_two_definitions_keeps_a_class_of_its_own() -> None:
    lid = objects(a=STRING, b=INTEGER)

    found = normal({"Lid": lid, "Cover": lid, "Box": objects(top=lid)})

    assert found["Box"] == objects(top={"$ref": "#/$defs/BoxTop"})


def test_the_params_of_a_message_are_not_the_result_of_another_that_has_the_same_members() -> None:
    request = objects("method params", method={"const": "tasks/get", **STRING}, params=objects("mode", mode=STRING))

    found = normal({"SetModeRequest": request, "SetModeResult": objects("mode", mode=STRING)})

    assert found["SetModeRequest"]["properties"]["params"] == {"$ref": "#/$defs/SetModeRequestParams"}


def test_a_definition_named_as_plain_json_must_be_plain_json() -> None:
    with pytest.raises(RefusedError, match="extension tasks: JSONObject is the name of plain JSON in the core"):
        normal({"JSONObject": objects(a=STRING)})


def test_a_reference_to_a_definition_that_the_core_does_not_have_is_refused() -> None:
    with pytest.raises(RefusedError, match=r"extension tasks: Box.a refers to ../2026-07-28.json#/\$defs/Wheel, which"):
        normal({"Box": objects(a={"$ref": f"{NEWEST}Wheel"})})


# -- Generated modules.


def upstream(name: str) -> dict[str, Any]:
    """Return the normal form of an extension, to be changed."""
    (document,) = (each for each in read_extensions() if each["extension"] == name)
    return dict(json.loads(json.dumps(document)))


def test_a_type_that_shares_its_name_with_a_type_of_the_core_that_others_use_is_refused() -> None:
    document = upstream("tasks")
    document["$defs"]["Error"] = objects(a=STRING)

    with pytest.raises(
        RefusedError, match="extension tasks: Error is defined, and a definition refers to Error of the"
    ):
        emit_extension(document)


def test_a_type_with_the_name_of_a_table_is_refused() -> None:
    document = upstream("tasks")
    document["$defs"]["METHODS"] = objects(a=STRING)

    with pytest.raises(RefusedError, match="extension tasks: METHODS is the name of something hand-written"):
        emit_extension(document)


REQUEST: Schema = objects("method", method={"const": "tasks/sing", **STRING})


@pytest.mark.parametrize(
    ("name", "schema", "sentence"),
    [
        ("SingRequest", REQUEST, "does not state the sender of tasks/sing (SingRequest)"),
        (
            "GetTaskRequest",
            objects("method", method={"const": "tasks/get", **STRING}, params={"type": ["object", "null"]}),
            "the params of tasks/get (GetTaskRequest) have no name",
        ),
        (
            "LostRequest",
            objects("method", method={"const": "tasks/get", **STRING}),
            "LostResult, the result of tasks/get, is not defined",
        ),
        ("GetTaskRequest", STRING, "states the sender of tasks/get, which is gone"),
    ],
)
def test_a_message_that_the_table_of_methods_cannot_describe_is_refused(
    name: str, schema: Schema, sentence: str
) -> None:
    document = upstream("tasks")
    document["$defs"][name] = schema

    with pytest.raises(RefusedError) as caught:
        emit_extension(document)

    assert str(caught.value).startswith("extension tasks: ")
    assert sentence in str(caught.value)


@pytest.fixture(scope="module", params=sorted(EXTENSIONS))
def extension(request: pytest.FixtureRequest) -> tuple[str, Merged]:
    """Return each extension, with its types."""
    name = str(request.param)
    return name, merge([read_extension(upstream(name))])


def test_every_type_of_an_extension_has_a_description_and_every_description_a_type(
    extension: tuple[str, Merged],
) -> None:
    name, merged = extension

    assert EXTENSION_CLASSES[name].keys() == merged.definitions.keys() - PLAIN_JSON


def test_every_described_member_of_an_extension_exists(extension: tuple[str, Merged]) -> None:
    name, merged = extension
    members = [(each, member) for each, schema in merged.definitions.items() for member in schema.get("properties", {})]
    known = {f"{each}.{member}" for each, member in members} | {member for _, member in members}

    assert not EXTENSION_MEMBERS[name].keys() - known


def test_every_number_of_an_extension_is_described(extension: tuple[str, Merged]) -> None:
    name, merged = extension
    docs = ExtensionDocs(name)
    numbers = [
        (each, member)
        for each, schema in merged.definitions.items()
        for member, inner in schema.get("properties", {}).items()
        if {"integer", "number"} & {*([inner["type"]] if isinstance(inner.get("type"), str) else inner.get("type", []))}
    ]

    assert not [f"{each}.{member}" for each, member in numbers if not docs.of_member(each, member)]


def test_every_message_of_an_extension_with_a_method_is_in_the_table(extension: tuple[str, Merged]) -> None:
    name, merged = extension
    constants = [schema.get("properties", {}).get("method", {}).get("const") for schema in merged.definitions.values()]

    assert extension_methods(read_extension(upstream(name))).keys() == {each for each in constants if each is not None}


def test_the_module_of_an_extension_exports_its_types_and_tables(extension: tuple[str, Merged]) -> None:
    name, merged = extension
    tree = ast.parse(emit_extension(upstream(name)))
    (exported,) = (node.value for node in tree.body if isinstance(node, ast.Assign))

    assert {*ast.literal_eval(exported)} == {"EXTENSION", "METHODS", *merged.definitions}
