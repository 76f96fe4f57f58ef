"""The keywords of JSON Schema whose values are schemas, so that other modules find every schema inside another."""

from __future__ import annotations

from typing import Final

__all__ = ["LISTS_OF_SCHEMAS", "NAMED_SCHEMAS", "SINGLE_SCHEMAS"]

SINGLE_SCHEMAS: Final = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
"""Keywords with one schema."""
LISTS_OF_SCHEMAS: Final = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
"""Keywords with a list of schemas. Older dialects have lists under `items` too."""
NAMED_SCHEMAS: Final = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)
"""Keywords with an object whose members are schemas."""
