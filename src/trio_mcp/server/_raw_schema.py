"""JSON Schemas that an author has written by hand: as an object, or as a text that is published byte for byte.

A proxy that shows another server's tools must not change a digit of their schemas: ``1.0`` stays ``1.0``, keywords keep
their order, and those that nobody here knows are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from .._schema import SchemaError, compile_schema
from ..wire import JsonObject, JsonText, Undecodable, decode, is_object, json_text

__all__ = ["RawSchema", "older_schema", "read_raw_schema", "written_schemas"]

_OF_BOOLEANS: Mapping[bool, JsonObject] = {True: {}, False: {"not": {}}}

RawSchema: TypeAlias = "Mapping[str, Any] | str | bytes"
"""A JSON Schema: an object, or its JSON text."""


def read_raw_schema(schema: RawSchema | None, what: str) -> dict[str, Any] | None:
    """Return the object that *schema* is, None for None.

    Args:
        what: what errors call it.

    Raises:
        ValueError: it is not the JSON of an object, or no JSON Schema that can be used.
    """
    if schema is None:
        return None
    value = dict(schema) if isinstance(schema, Mapping) else _decoded(schema, what)
    try:
        compile_schema(value)  # now, although it loads a library: every client will take it for valid
    except SchemaError as error:
        raise ValueError(f"{what} cannot be used: {error}") from error
    return value


def _decoded(text: str | bytes, what: str) -> dict[str, Any]:
    try:
        value = decode(_bytes(text))
    except Undecodable as error:
        raise ValueError(f"{what} is not JSON: {error}") from None
    if not is_object(value):
        raise ValueError(f"{what} is not a JSON object")
    return value


def written_schemas(schemas: Mapping[str, RawSchema | None]) -> dict[str, JsonText]:
    """Return those that were given as text, as they are put into messages."""
    return {name: json_text(_bytes(text)) for name, text in schemas.items() if isinstance(text, str | bytes)}


def older_schema(schema: JsonObject) -> JsonObject:
    """Return *schema* as legacy revisions have it: a property's schema is an object there, never true or false."""
    properties = schema.get("properties")
    if not is_object(properties) or not any(isinstance(each, bool) for each in properties.values()):
        return schema
    spelled_out = {name: _OF_BOOLEANS[each] if isinstance(each, bool) else each for name, each in properties.items()}
    return {**schema, "properties": spelled_out}


def _bytes(text: str | bytes) -> bytes:
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
