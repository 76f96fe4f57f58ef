"""JSON Schemas that an author has written by hand: as an object, or as a text that is published byte for byte.

A proxy that shows another server's tools must not change a digit of their schemas: ``1.0`` stays ``1.0``, keywords keep
their order, and those that nobody here knows are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from ..wire import JsonText, Undecodable, decode, is_object, json_text

__all__ = ["RawSchema", "read_raw_schema", "written_schemas"]

RawSchema: TypeAlias = "Mapping[str, Any] | str | bytes"
"""A JSON Schema: an object, or its JSON text."""


def read_raw_schema(schema: RawSchema | None, what: str) -> dict[str, Any] | None:
    """Return the object that *schema* is, None for None.

    Args:
        what: what errors call it.

    Raises:
        ValueError: the text is not the JSON of an object.
    """
    if schema is None:
        return None
    if isinstance(schema, Mapping):
        return dict(schema)
    try:
        value = decode(_bytes(schema))
    except Undecodable as error:
        raise ValueError(f"{what} is not JSON: {error}") from None
    if not is_object(value):
        raise ValueError(f"{what} is not a JSON object")
    return value


def written_schemas(schemas: Mapping[str, RawSchema | None]) -> dict[str, JsonText]:
    """Return those that were given as text, as they are put into messages."""
    return {name: json_text(_bytes(text)) for name, text in schemas.items() if isinstance(text, str | bytes)}


def _bytes(text: str | bytes) -> bytes:
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
