"""The forms of a normalised schema, and the functions that walk them. Every step of the generator uses them."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]
"""One JSON Schema in the normal form that `normalise` produces."""
Definitions: TypeAlias = dict[str, Schema]

PREFIX = "#/$defs/"
_BESIDE = "../"
"""The beginning of a reference from the schema of an extension to that of a revision."""
ANYTHING: Schema = {}
JSON_OBJECT: Schema = {"additionalProperties": {}, "type": "object"}
PROSE = frozenset({"$comment", "default", "deprecated", "description", "examples", "title"})
"""The keywords of a schema that state no facts."""
BOUND_KEYS = frozenset({"maxItems", "maxLength", "maximum", "minItems", "minLength", "minimum"})


class RefusedError(Exception):
    """The input cannot be turned into types; the message names the definition and, if known, the revision."""


def ref(name: str) -> Schema:
    """Return a reference to a definition, or to one of the core by the name that `name_in_core` returns."""
    return {"$ref": name if name.startswith(_BESIDE) else PREFIX + name}


def target(schema: Schema) -> str | None:
    """Return the name of the definition that `schema` refers to, if it is a reference."""
    reference = schema.get("$ref")
    return None if reference is None else reference.removeprefix(PREFIX)


def name_in_core(revision: str, name: str) -> str:
    """Return the name by which the schema of an extension refers to a definition of a revision."""
    return f"{_BESIDE}{revision}.json{PREFIX}{name}"


def core_place(name: str) -> tuple[str, str] | None:
    """Return the revision and the definition behind a name that `name_in_core` made; None for any other name."""
    if not name.startswith(_BESIDE):
        return None
    revision, _, definition = name.removeprefix(_BESIDE).partition(f".json{PREFIX}")
    return revision, definition


def core_name(name: str) -> str | None:
    """Return the definition of the core behind a name that `name_in_core` made; None for any other name."""
    place = core_place(name)
    return None if place is None else place[1]


def is_class(schema: Schema) -> bool:
    """Return True if a definition becomes a class: an object with named members, or with none."""
    return "properties" in schema


def is_json_object(schema: Schema) -> bool:
    """Return True if a schema admits any JSON object and names no member."""
    return schema.get("type") == "object" and "properties" not in schema and schema.get("additionalProperties") == {}


def plain_json(name: str | None) -> Schema:
    """Return the form of one of the definitions for plain JSON."""
    if name == "JSONArray":
        return {"items": {}, "type": "array"}
    return {} if name == "JSONValue" else JSON_OBJECT


def children(schema: Schema) -> Iterator[Schema]:
    """Yield the schemas directly inside a schema, including the members of a class."""
    yield from schema.get("properties", {}).values()
    yield from schema.get("anyOf", ())
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield schema[key]


def rebuild(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """Return a copy of `schema` with `change` applied to each schema directly inside it."""
    copy = dict(schema)
    if "properties" in copy:
        copy["properties"] = {name: change(inner) for name, inner in copy["properties"].items()}
    if "anyOf" in copy:
        copy["anyOf"] = [change(inner) for inner in copy["anyOf"]]
    for key in ("items", "additionalProperties"):
        if key in copy:
            copy[key] = change(copy[key])
    return copy


def rename_refs(schema: Schema, names: dict[str, str]) -> Schema:
    """Return a copy of `schema` in which references follow `names`, old name to new."""
    old = target(schema)
    if old is not None:
        return ref(names.get(old, old))
    return rebuild(schema, lambda inner: rename_refs(inner, names))


def references(schema: Schema) -> Iterator[str]:
    """Yield the name of every definition that `schema` refers to, at any depth."""
    name = target(schema)
    if name is not None:
        yield name
    for inner in children(schema):
        yield from references(inner)


def single_reference(schema: Schema) -> str | None:
    """Return the only definition that a member's schema refers to, also through arrays and maps; None otherwise."""
    found = list(references(schema))
    return found[0] if len(found) == 1 and "anyOf" not in schema else None


def wire_to_attribute(wire: str) -> str:
    """Return the Python attribute for a member's name on the wire: `_meta` is `meta`, `from` is `from_`."""
    name = wire.rsplit("/", 1)[-1].lstrip("_")
    if name == "$schema":
        return "schema_uri"
    attribute = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
    return f"{attribute}_" if keyword.iskeyword(attribute) else attribute


def attribute_to_wire(attribute: str) -> str:
    """Return the member name of an attribute by the rule, camelCase. `WIRE_NAMES` lists the exceptions."""
    first, *rest = attribute.split("_")
    return first + "".join(word.capitalize() for word in rest)
