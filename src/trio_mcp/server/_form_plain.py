"""Puts the schemas that annotations give into the plainer words of a form, where both can mean the same.

What has no plainer words is left as it is, for `_form_reading` to refuse.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, get_origin

import attrs
import msgspec

from ._annotations_definitions import Definitions

__all__ = ["made_defaults", "plain_member"]

_NULL: Final = {"type": "null"}
_SILENT: Final = frozenset({"examples", "uniqueItems"})
"""Keywords that a form has no use for: `uniqueItems` is checked when the answer is read."""


def plain_member(schema: dict[str, Any], definitions: Definitions) -> tuple[dict[str, Any], bool]:
    """Return the schema of a member in a form's words, and whether None stands for a member left out."""
    whole, may_be_null = _without_null(schema, definitions)
    plain = {keyword: fact for keyword, fact in whole.items() if keyword not in _SILENT}
    if plain.get("default", plain) is None:
        del plain["default"]
    if "const" in plain:  # the only value of a choice
        plain["enum"] = [plain.pop("const")]
    if None in plain.get("enum", ()):
        plain["enum"] = [value for value in plain["enum"] if value is not None]
        may_be_null = True
    if "enum" in plain and all(isinstance(value, str) for value in plain["enum"]):
        plain["type"] = "string"
    if plain.get("type") == "integer":
        _include_bounds(plain)
    if plain.get("type") == "array" and "items" in plain:
        plain["items"] = _plain_items(plain["items"], definitions)
    return plain, may_be_null


def _without_null(schema: dict[str, Any], definitions: Definitions) -> tuple[dict[str, Any], bool]:
    """Follow references, and take the other arm of a union with null."""
    whole = definitions.resolve(schema)
    arms = [arm for arm in whole.get("anyOf", ()) if arm != _NULL]
    may_be_null = len(arms) < len(whole.get("anyOf", ()))
    if len(arms) != 1:
        return whole, may_be_null
    beside = {keyword: fact for keyword, fact in whole.items() if keyword != "anyOf"}
    arm, inner = _without_null(arms[0], definitions)
    return {**arm, **beside}, may_be_null or inner


def _include_bounds(schema: dict[str, Any]) -> None:
    """Turn bounds that are themselves outside into those next to them: whole numbers have neighbours."""
    above, below = schema.get("exclusiveMinimum", math.inf), schema.get("exclusiveMaximum", math.inf)
    if math.isfinite(above):
        del schema["exclusiveMinimum"]
        schema["minimum"] = max(math.floor(above) + 1, schema.get("minimum", -math.inf))
    if math.isfinite(below):
        del schema["exclusiveMaximum"]
        schema["maximum"] = min(math.ceil(below) - 1, schema.get("maximum", math.inf))


def _plain_items(items: dict[str, Any], definitions: Definitions) -> dict[str, Any]:
    plain, may_be_null = plain_member(items, definitions)
    if may_be_null:  # which an item cannot be
        return {}
    if "oneOf" in plain:
        plain["anyOf"] = plain.pop("oneOf")
    return plain


def made_defaults(cls: Any) -> Mapping[str, Callable[[], Any]]:
    """Return what makes the defaults of a class that each instance gets anew, by the name of the member in JSON."""
    cls = get_origin(cls) or cls
    if attrs.has(cls):
        made: list[tuple[str, Any]] = [(each.alias, each.default) for each in attrs.fields(cls)]
        return {name: default.factory for name, default in made if _makes_alone(default)}
    if dataclasses.is_dataclass(cls):
        made = [(each.name, each.default_factory) for each in dataclasses.fields(cls)]
        return {name: make for name, make in made if make is not dataclasses.MISSING}
    if isinstance(cls, type) and issubclass(cls, msgspec.Struct):
        made = [(each.encode_name, each.default_factory) for each in msgspec.structs.fields(cls)]
        return {name: make for name, make in made if make is not msgspec.NODEFAULT}
    return {}


def _makes_alone(default: Any) -> bool:
    return isinstance(default, attrs.Factory) and not default.takes_self  # type: ignore[arg-type]  # a class at run time
