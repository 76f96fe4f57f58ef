"""The normal form of an upstream schema: no prose, named objects, flattened `allOf`, and known mistakes repaired.

It works on one revision or extension at a time. It is idempotent: its output is its own normal form. An unknown keyword
is refused, never ignored, because ignoring it could produce a wrong type. The files of extensions come from other
tools: their forms are rewritten first (see `dialect`), and copies become references (see `recognise`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Mapping
from itertools import product
from typing import Any, cast

from codegen.dialect import in_plain_form
from codegen.hoist import Hoist, hoist_inline_objects
from codegen.recognise import recognise
from codegen.refusals import refuse_malformed
from codegen.repairs import EXTENSION_REPAIRS, REPAIRS
from codegen.shapes import PREFIX, PROSE, Definitions, RefusedError, Schema, is_json_object, name_in_core, ref, target

FACTS = frozenset(
    {
        "$ref",
        "additionalProperties",
        "allOf",
        "anyOf",
        "const",
        "enum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maximum",
        "minItems",
        "minLength",
        "minimum",
        "pattern",
        "properties",
        "required",
        "type",
    }
)
JSON_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})


def normalise(document: dict[str, Any], revision: str) -> dict[str, Any]:
    """Return the normal form of one revision's schema file.

    Raises:
        RefusedError: the generated types cannot express the schema.
    """
    source = f"revision {revision}"
    definitions = definitions_of(document, source)
    cleaned = {name: clean(schema, f"{source}: {name}") for name, schema in definitions.items()}
    _check_references(cleaned, source)
    flat = {name: _flatten(schema, cleaned, f"{source}: {name}") for name, schema in cleaned.items()}
    for repair in REPAIRS:
        repair.apply(flat, revision)
    earlier = {name: Hoist(*place) for name, place in document.get("hoisted", {}).items()}
    named, hoisted = hoist_inline_objects(flat, earlier, source)
    return {
        "$defs": {name: _sorted(named[name]) for name in sorted(named)},
        "hoisted": {name: list(hoisted[name]) for name in sorted(hoisted)},
        "revision": revision,
    }


def normalise_extension(document: dict[str, Any], name: str, core: Mapping[str, Definitions]) -> dict[str, Any]:
    """Return the normal form of the schema file of an extension.

    Args:
        document: the file.
        name: the extension, as its package is named.
        core: the definitions of each revision, to which the file may refer.

    Raises:
        RefusedError: the generated types cannot express the schema.
    """
    source = f"extension {name}"
    definitions = without_copies(document, name, core)
    for repair in EXTENSION_REPAIRS:
        repair.apply(definitions, name, "extension")
    earlier = {each: Hoist(*place) for each, place in document.get("hoisted", {}).items()}
    named, hoisted = hoist_inline_objects(definitions, earlier, source)
    return {
        "$defs": {each: _sorted(named[each]) for each in sorted(named)},
        "extension": name,
        "hoisted": {each: list(hoisted[each]) for each in sorted(hoisted)},
    }


def without_copies(document: dict[str, Any], name: str, core: Mapping[str, Definitions]) -> Definitions:
    """Return the definitions of an extension in plain form, with references in place of copies.

    The arguments and errors are those of `normalise_extension`.
    """
    source = f"extension {name}"
    definitions = in_plain_form(definitions_of(document, source), source)
    cleaned = {each: clean(schema, f"{source}: {each}") for each, schema in definitions.items()}
    _check_references(cleaned, source, {name_in_core(revision, each) for revision in core for each in core[revision]})
    flat = {each: _flatten(schema, cleaned, f"{source}: {each}") for each, schema in cleaned.items()}
    for repair in REPAIRS:
        repair.apply(flat, name, "extension")
    return recognise(flat, core, source)


def definitions_of(document: dict[str, Any], source: str) -> Definitions:
    """Return the definitions of a schema file.

    Raises:
        RefusedError: the file has no definitions, or is not a JSON Schema.
    """
    found: Any = document.get("$defs") or document.get("definitions")
    if not isinstance(found, dict):
        raise RefusedError(f"{source}: the schema file has neither $defs nor definitions")
    refuse_malformed(found, source)
    return cast("Definitions", found)


def clean(schema: Any, place: str) -> Schema:
    """Drop the prose, unify equivalent forms, and refuse forms that no type can express."""
    if schema is True:
        return {}
    if not isinstance(schema, dict):
        raise RefusedError(f"{place}: expected a schema, found {schema!r}")
    given = cast("Schema", schema)
    facts: Schema = {key: value for key, value in given.items() if key not in PROSE}
    unknown = sorted(facts.keys() - FACTS)
    if unknown:
        raise RefusedError(f"{place}: the keyword {unknown[0]!r} cannot be expressed as a type")
    if "$ref" in facts:
        return _clean_reference(facts, place)
    for key, cleaner in _CLEANERS.items():
        if key in facts:
            facts[key] = cleaner(facts[key], place)
    return _clean_object(facts, place)


def _clean_reference(facts: Schema, place: str) -> Schema:
    if len(facts) > 1:
        raise RefusedError(f"{place}: a $ref beside other keywords cannot be expressed as a type")
    return ref(facts["$ref"].removeprefix("#/definitions/").removeprefix(PREFIX))


def _clean_type(given: Any, place: str) -> str | list[str]:
    names = {given} if isinstance(given, str) else set(given)
    if not names <= JSON_TYPES:
        raise RefusedError(f"{place}: {given!r} is not a JSON type")
    if "number" in names:
        names.discard("integer")
    return names.pop() if len(names) == 1 else sorted(names)


def _clean_object(facts: Schema, place: str) -> Schema:
    """Decide the kind of an object: a class (named members), a map (values of one schema), or any object."""
    if facts.get("type") != "object":
        if "properties" in facts or "additionalProperties" in facts:
            if "allOf" in facts or "type" not in facts:
                facts["type"] = "object"
            else:
                raise RefusedError(f"{place}: members named for something that is not an object")
        else:
            return facts
    values = facts.pop("additionalProperties", None)
    if values is False:
        raise RefusedError(f"{place}: an object closed by additionalProperties: false cannot be expressed as a type")
    values = None if values is None else clean(values, place)
    if values and facts.get("properties"):
        raise RefusedError(f"{place}: named members beside typed additionalProperties cannot be expressed as a type")
    if facts.get("properties") or ("properties" in facts and values is None):
        stray = set(facts.get("required", ())) - facts["properties"].keys()
        if stray:
            raise RefusedError(f"{place}: requires a member {min(stray)!r} that it does not define")
        return facts
    if facts.get("required") and "allOf" not in facts:
        raise RefusedError(f"{place}: requires a member {min(facts['required'])!r} that it does not define")
    facts.pop("properties", None)
    if "allOf" not in facts:
        facts["additionalProperties"] = values or {}
    return facts


def _clean_members(members: dict[str, Any], place: str) -> Definitions:
    return {name: clean(inner, f"{place}.{name}") for name, inner in members.items()}


def _clean_list(schemas: list[Any], place: str) -> list[Schema]:
    return [clean(inner, place) for inner in schemas]


def _in_order(values: list[Any], _place: str) -> list[Any]:
    return sorted(values, key=str)


_CLEANERS: dict[str, Callable[[Any, str], Any]] = {
    "allOf": _clean_list,
    "anyOf": _clean_list,
    "enum": _in_order,
    "items": clean,
    "properties": _clean_members,
    "required": _in_order,
    "type": _clean_type,
}


def _check_references(definitions: Definitions, source: str, elsewhere: Container[str] = ()) -> None:
    def check(schema: Schema, place: str) -> None:
        name = target(schema)
        if name is not None and name not in definitions and name not in elsewhere:
            raise RefusedError(f"{source}: {place} refers to {name}, which is not defined")
        for key in ("anyOf", "allOf"):
            for inner in schema.get(key, ()):
                check(inner, place)
        for key in ("items", "additionalProperties"):
            if key in schema:
                check(schema[key], place)
        for member, inner in schema.get("properties", {}).items():
            check(inner, f"{place}.{member}")

    for name, schema in definitions.items():
        check(schema, name)


def _flatten(schema: Schema, definitions: Definitions, place: str) -> Schema:
    """Replace every `allOf` with the equivalent single object."""
    if "properties" in schema:
        members = {
            name: _flatten(inner, definitions, f"{place}.{name}") for name, inner in schema["properties"].items()
        }
        schema = {**schema, "properties": members}
    if "anyOf" in schema:
        schema = {**schema, "anyOf": [_flatten(inner, definitions, place) for inner in schema["anyOf"]]}
    for key in ("items", "additionalProperties"):
        if key in schema:
            schema = {**schema, key: _flatten(schema[key], definitions, place)}
    if "allOf" not in schema:
        return schema
    parts = [*schema["allOf"], {key: value for key, value in schema.items() if key != "allOf"}]
    wholes = [_joined(arms, place) for arms in product(*(_arms(part, definitions, place) for part in parts))]
    return wholes[0] if len(wholes) == 1 else {"anyOf": wholes}


def _arms(part: Schema, definitions: Definitions, place: str) -> list[Schema]:
    """Return the objects that a part of an `allOf` admits one of: several if the part is a union."""
    name = target(part)
    flat = _flatten(definitions[name] if name else part, definitions, place)
    if "anyOf" in flat:
        return [each for arm in flat["anyOf"] for each in _arms(arm, definitions, place)]
    if flat.get("type", "object") != "object":
        raise RefusedError(f"{place}: allOf of something that is not an object cannot be expressed as a type")
    return [flat]


def _joined(parts: Iterable[Schema], place: str) -> Schema:
    """Return the object that has the members of all parts."""
    whole: Schema = {"properties": {}, "required": [], "type": "object"}
    for part in parts:
        for member, inner in part.get("properties", {}).items():
            whole["properties"][member] = _narrower(whole["properties"].get(member, {}), inner, f"{place}.{member}")
        whole["required"] = sorted({*whole["required"], *part.get("required", ())})
    if not whole["required"]:
        del whole["required"]
    return whole


def _narrower(first: Schema, second: Schema, place: str) -> Schema:
    """Return the schema of a member that two parts of an `allOf` describe, if one of them implies the other."""
    if not first or first == second:
        return second
    if not second:
        return first
    for wide, narrow in ((first, second), (second, first)):
        if "const" in narrow and wide == {"type": narrow.get("type")}:
            return narrow
        if is_json_object(wide) and _is_object(narrow):
            return narrow
    raise RefusedError(f"{place}: the parts of an allOf describe it differently")


def _is_object(schema: Schema) -> bool:
    return schema.get("type") == "object" or ("anyOf" in schema and all(map(_is_object, schema["anyOf"])))


def _sorted(value: Any) -> Any:
    return json.loads(json.dumps(value, sort_keys=True))
