"""The forms of schemas that tools write for TypeScript types, rewritten to the forms that `normalise` expects.

The upstream files of extensions come from such tools. Some of their forms are only another notation. Others say more
than the protocol does, because they describe what the tools' own parsers return. `LENIENCIES` lists the latter: the
generated types accept more there, as they keep every member that they do not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from codegen.shapes import JSON_OBJECT, PROSE, Definitions, RefusedError, Schema

_LARGEST = 2**53 - 1
"""The largest integer that JavaScript represents exactly."""
_NOTHING: Schema = {"not": {}}


class Rewrite(NamedTuple):
    """One form, and the function that rewrites it wherever it occurs."""

    reason: str
    """The sentence that explains it."""
    change: Callable[[Schema], Schema]


def rewrite(definitions: Definitions, rewrites: Iterable[Rewrite]) -> Definitions:
    """Return a copy of definitions in which every schema is rewritten, the inner ones first."""
    changes = [each.change for each in rewrites]

    def change_all(schema: Schema) -> Schema:
        for change in changes:
            schema = change(schema)
        return schema

    return {name: _everywhere(schema, change_all) for name, schema in definitions.items()}


def in_plain_form(definitions: Definitions, source: str) -> Definitions:
    """Return definitions in which every form of this module is rewritten."""
    return rewrite(lifted(definitions, source), (*NOTATION, *MISTAKES, *LENIENCIES))


def lifted(definitions: Definitions, source: str) -> Definitions:
    """Return definitions without definitions inside them: those stand beside them, where references look for them.

    Raises:
        RefusedError: two different definitions would get one name.
    """
    result: Definitions = {}
    for name, schema in definitions.items():
        inner = schema.get("$defs", {})
        for each, definition in {name: {key: schema[key] for key in schema if key != "$defs"}, **inner}.items():
            if result.setdefault(each, definition) != definition:
                raise RefusedError(f"{source}: {each}, which {name} defines, is the name of two different definitions")
    return result


def _everywhere(schema: Any, change: Callable[[Schema], Schema]) -> Any:
    if isinstance(schema, bool):
        return change({} if schema else _NOTHING)
    copy: Schema = dict(schema)
    if "properties" in copy:
        copy["properties"] = {name: _everywhere(inner, change) for name, inner in copy["properties"].items()}
    for key in ("anyOf", "allOf"):
        if key in copy:
            copy[key] = [_everywhere(inner, change) for inner in copy[key]]
    for key in ("items", "additionalProperties", "propertyNames"):
        if key in copy:
            copy[key] = _everywhere(copy[key], change)
    return change(copy)


def _without(schema: Schema, *keys: str) -> Schema:
    return {key: value for key, value in schema.items() if key not in keys}


def _without_prose(schema: Schema) -> Schema:
    return _without(schema, "$schema", *PROSE)


def _string_keys(schema: Schema) -> Schema:
    return _without(schema, "propertyNames") if schema.get("propertyNames") == {"type": "string"} else schema


def _one_enum(schema: Schema) -> Schema:
    """Write a choice between constants of one type as one enumeration."""
    arms = schema.get("anyOf", ())
    if len(arms) < 2 or any(arm.keys() != {"const", "type"} or arm["type"] != arms[0]["type"] for arm in arms):
        return schema
    return {**_without(schema, "anyOf"), "enum": [arm["const"] for arm in arms], "type": arms[0]["type"]}


def _one_type(schema: Schema) -> Schema:
    """Write a choice between types without further rules as one list of types."""
    arms = schema.get("anyOf", ())
    if len(arms) < 2 or any(arm.keys() != {"type"} or arm["type"] in {"array", "object"} for arm in arms):
        return schema
    return {**_without(schema, "anyOf"), "type": [arm["type"] for arm in arms]}


def _defined(schema: Schema) -> Schema:
    """Drop the schema for anything beside other schemas: it stands for JavaScript's undefined, which JSON has not."""
    arms = schema.get("anyOf", ())
    defined = [arm for arm in arms if arm]
    if len(defined) == len(arms) or not defined:
        return schema
    rest = _without(schema, "anyOf")
    return {**defined[0], **rest} if len(defined) == 1 else {**rest, "anyOf": defined}


def _whole_size(schema: Schema) -> Schema:
    members = schema.get("properties", {})
    if members.get("type", {}).get("const") != "resource_link" or members.get("size") != {"type": "number"}:
        return schema
    return {**schema, "properties": {**members, "size": {"type": "integer"}}}


def _exact_integers(schema: Schema) -> Schema:
    bounds = [key for key in ("minimum", "maximum") if abs(schema.get(key, 0)) == _LARGEST]
    return _without(schema, *bounds) if schema.get("type") == "integer" else schema


def _open(schema: Schema) -> Schema:
    if schema.get("additionalProperties") != _NOTHING:
        return schema
    named = _without(schema, "additionalProperties")
    return named if named.get("properties") else {**_without(named, "properties"), **JSON_OBJECT}


def _without_forbidden(schema: Schema) -> Schema:
    members = schema.get("properties", {})
    forbidden = [name for name in members if members[name] == _NOTHING]
    return {**schema, "properties": _without(members, *forbidden)} if forbidden else schema


def _any_keys(schema: Schema) -> Schema:
    if "propertyNames" not in schema or "properties" in schema:
        return schema
    return _without(schema, "propertyNames", "required")


def _any_form(schema: Schema) -> Schema:
    return _without(schema, "pattern") if "format" in schema else schema


NOTATION = (
    Rewrite("prose, and the name of the dialect in each definition, state no facts", _without_prose),
    Rewrite("the keys of an object are strings", _string_keys),
    Rewrite("an enumeration is a choice between constants", _one_enum),
    Rewrite("several types are a choice between types", _one_type),
)
"""Other notations, which mean the same."""

MISTAKES = (
    Rewrite("JavaScript's undefined is taken for any value", _defined),
    Rewrite("the size of a resource is any number, because JavaScript has no other numbers", _whole_size),
)
"""Forms by which a file accepts what it should not."""

LENIENCIES = (
    Rewrite("an object may have members that its schema does not name", _open),
    Rewrite("a member that must be absent is a member that the type does not name", _without_forbidden),
    Rewrite("the keys of a map are not checked", _any_keys),
    Rewrite("an integer may be larger than those that JavaScript represents exactly", _exact_integers),
    Rewrite("the form of a string is not checked", _any_form),
)
"""The rules of upstream files that the generated types do not enforce."""
