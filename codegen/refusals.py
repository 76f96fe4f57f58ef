"""The refusal, by name, of schemas that are well formed but that no type can express."""

from __future__ import annotations

from typing import Any

import jsonschema_rs

from codegen.shapes import Definitions, RefusedError, Schema, children, is_class, references


def refuse_malformed(definitions: Any, source: str) -> None:
    """Refuse a document that is not a JSON Schema, so that later steps can rely on its structure.

    Raises:
        RefusedError: the document is not a JSON Schema. The message names the place.
    """
    try:
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": definitions})
    except jsonschema_rs.ValidationError as error:
        place = ".".join(map(str, error.instance_path[1:]))
        raise RefusedError(f"{source}: {place} is not a JSON Schema: {error.message}") from error


def refuse_inexpressible(definitions: Definitions, source: str) -> None:
    """Refuse definitions in normal form that the generated types or their converter could not express.

    Raises:
        RefusedError: a definition cannot be expressed. The message names it.
    """
    for name, schema in definitions.items():
        if not is_class(schema):
            _refuse_cycle(name, definitions, source, ())
        shell = {key: value for key, value in schema.items() if key != "properties"}
        _refuse_literals(shell, f"{source}: {name}")
        for member, inner in schema.get("properties", {}).items():
            _refuse_literals(inner, f"{source}: {name}.{member}")


def _refuse_cycle(name: str, definitions: Definitions, source: str, seen: tuple[str, ...]) -> None:
    if name in seen:
        raise RefusedError(f"{source}: {name} contains itself, which only a class can")
    for other in references(definitions[name]):
        if other in definitions and not is_class(definitions[other]):
            _refuse_cycle(other, definitions, source, (*seen, name))


def _refuse_literals(schema: Schema, place: str) -> None:
    odd = [value for value in schema.get("enum", ()) if not isinstance(value, str)]
    if type(schema.get("const", "")) not in {int, str}:  # the type, because True is an int
        odd.append(schema["const"])
    if odd:
        raise RefusedError(f"{place}: only strings and a constant integer can be single values, not {odd[0]!r}")
    if "anyOf" in schema and len(schema) > 1:
        raise RefusedError(f"{place}: anyOf beside other keywords cannot be expressed as a type")
    for inner in children(schema):
        _refuse_literals(inner, place)
