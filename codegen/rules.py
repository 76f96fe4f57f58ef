"""The rules of members that an attribute of a class does not show: names on the wire, and limits."""

from __future__ import annotations

from collections.abc import Mapping

from codegen.merge import Merged
from codegen.shapes import attribute_to_wire, is_class, wire_to_attribute

_BOUNDS = {
    "maxItems": "max_length",
    "maxLength": "max_length",
    "maximum": "maximum",
    "minItems": "min_length",
    "minLength": "min_length",
    "minimum": "minimum",
}


def rules_of(merged: Merged) -> dict[str, dict[str, str]]:
    """Return the source of the metadata of each attribute that has rules, by class and attribute."""
    rules: dict[str, dict[str, str]] = {}
    for name, exceptions in wire_names(merged).items():
        for attribute, member in exceptions.items():
            rules.setdefault(name, {})[attribute] = f'"wire": "{member}"'
    for name, members in merged.superset.bounds.items():
        for member, limits in members.items():
            attribute = wire_to_attribute(member)
            known = rules.setdefault(name, {}).get(attribute)
            rules[name][attribute] = ", ".join([*([known] if known else []), f'"bounds": {bounds_source(limits)}'])
    return rules


def wire_names(merged: Merged) -> dict[str, dict[str, str]]:
    """Return the name on the wire of each attribute where it is not the camelCase form, by class and attribute."""
    rows: dict[str, dict[str, str]] = {}
    for name, schema in merged.definitions.items():
        if is_class(schema):
            exceptions = {
                attribute: member
                for member in schema["properties"]
                if attribute_to_wire(attribute := wire_to_attribute(member)) != member
            }
            if exceptions:
                rows[name] = exceptions
    return rows


def bounds_source(limits: Mapping[str, float]) -> str:
    """Return the source of the `Bounds` of a member."""
    return f"Bounds({', '.join(f'{_BOUNDS[key]}={value!r}' for key, value in limits.items())})"
