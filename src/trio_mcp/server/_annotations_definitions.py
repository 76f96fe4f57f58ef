"""Keeps what a published schema has under ``$defs``: one entry per class, each name once, nothing unused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define, field

__all__ = ["Definitions", "reference_to"]

_PREFIX = "#/$defs/"


@define(eq=False)
class Definitions:
    """The definitions one signature shares."""

    by_name: dict[str, dict[str, Any]] = field(factory=dict[str, dict[str, Any]], init=False)

    def reserve(self, wanted: str) -> str:
        """Reserve a name; classes of the same name in different modules get numbers."""
        name = wanted
        number = 1
        while name in self.by_name:
            number += 1
            name = f"{wanted}{number}"
        self.by_name[name] = {}
        return name

    def resolve(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return a schema without a reference at its root."""
        while "$ref" in schema:
            beside = {keyword: fact for keyword, fact in schema.items() if keyword != "$ref"}
            schema = {**self.by_name[schema["$ref"].removeprefix(_PREFIX)], **beside}
        return schema

    def complete(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return a schema that stands by itself: its definitions inside, no reference at its root."""
        root = self.resolve(schema)
        needed = _reachable(root, self.by_name)
        if not needed:
            return root
        return {**root, "$defs": {name: schema for name, schema in self.by_name.items() if name in needed}}


def reference_to(name: str) -> dict[str, Any]:
    """Return the schema that refers to a definition."""
    return {"$ref": f"{_PREFIX}{name}"}


def _reachable(schema: Any, definitions: Mapping[str, Any]) -> set[str]:
    """Return the names of the definitions a schema needs, directly or through others."""
    found: set[str] = set()
    waiting: list[Any] = [schema]
    while waiting:
        part: Any = waiting.pop()
        if part.__class__ is list:
            waiting += part
        elif part.__class__ is dict:
            waiting += part.values()
            # A property may be called $ref too; then what stands there is a schema.
            reference: Any = part.get("$ref")
            name = reference.removeprefix(_PREFIX) if isinstance(reference, str) else ""
            if name in definitions and name not in found:
                found.add(name)
                waiting.append(definitions[name])
    return found
