"""Reads the JSON Schema of a form's member, and refuses what no revision lets a form ask for.

The schema must use a form's own words, in whichever of the five ways a choice can be written; `_form_plain` puts the
schemas of annotations into these words. What is refused is refused when the form is made, with the reason.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#requested-schema
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ..wire import is_array, is_object
from ._annotations_objects import MISSING
from ._form_members import FormMember

__all__ = ["ALLOWED", "NoMember", "read_member"]

ALLOWED: Final = (
    "A member may be a str, int, float, bool, date or datetime, a choice of texts (Literal, an enumeration, or "
    "Choices), or a list of such choices"
)
"""For errors about members."""


class NoMember(TypeError):
    """A schema is that of no form's member; the text says why."""


_Options = tuple[Sequence[str], Sequence[str] | None]
"""The texts to choose from, and their titles if they have any."""


def read_member(name: str, schema: Any) -> FormMember:
    """Read the schema of one member. Whether its default fits is for others to check.

    Raises:
        NoMember: no form can ask for it.
    """
    if not is_object(schema):
        raise NoMember("its schema is no JSON object")
    kind: Any = schema.get("type")
    if kind == "array":
        return _member(name, schema, _LIST, _options(_items(schema), "anyOf"), {"items"})
    if kind == "string" and not schema.keys().isdisjoint({"enum", "oneOf"}):
        return _member(name, schema, _CHOICE, _options(schema, "oneOf"), {"enum", "enumNames", "oneOf"})
    if not isinstance(kind, str) or kind not in _LIMITS:
        raise NoMember(f"no form asks for the type {kind}" if isinstance(kind, str) else "it has no single type")
    return _member(name, schema, _LIMITS[kind], ((), None), set())


def _member(
    name: str, schema: Mapping[str, Any], limits: Mapping[str, _Check], options: _Options, read: set[str]
) -> FormMember:
    facts = {keyword: fact for keyword, fact in schema.items() if keyword not in {"type", "default", *read}}
    for keyword, fact in facts.items():
        expected, fits = limits.get(keyword) or _TEXTS.get(keyword) or _NO_PLACE
        if not fits(fact):
            raise NoMember(f"{keyword}={fact!r}: {_HINTS.get(keyword, expected)}")
    default: Any = schema.get("default", MISSING)
    return FormMember(
        name,
        schema["type"],
        facts,
        *options,
        has_names="enumNames" in read & schema.keys(),
        default=list(default) if is_array(default) else default,
    )


def _items(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    items = schema.get("items")
    if not is_object(items) or items.keys().isdisjoint({"enum", "anyOf"}) or items.get("type", "string") != "string":
        raise NoMember("a list must be of texts to choose from")
    for keyword in items.keys() - {"type", "enum", "anyOf", "title", "description"}:
        raise NoMember(f"{keyword} has no place beside the choices of a list")
    return items


def _options(schema: Mapping[str, Any], titled: str) -> _Options:
    """Read what there is to choose.

    Args:
        titled: the keyword under which each text stands together with its title.
    """
    if titled not in schema:
        values: Any = schema["enum"]
        titles: Any = schema.get("enumNames")
    elif schema.keys() & {"enum", "enumNames"}:
        raise NoMember(f"what there is to choose stands in {titled} already, and again in enum")
    else:
        options: Any = schema[titled]
        if not is_array(options) or not all(is_object(each) and each.keys() == {"const", "title"} for each in options):
            raise NoMember(f"{titled} must be a list of objects with const and title")
        values, titles = [each["const"] for each in options], [each["title"] for each in options]
    if not _is_texts(values) or not values or len(set(values)) < len(values):
        raise NoMember("the values to choose from must be texts, each once, and at least one")
    if titles is not None and not (_is_texts(titles) and len(titles) == len(values)):
        raise NoMember("there must be one title, a text, for each value")
    return tuple(values), None if titles is None else tuple(titles)


def _is_texts(value: Any) -> bool:
    return is_array(value) and all(isinstance(each, str) for each in value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_number(value: Any) -> bool:
    return type(value) in {int, float} and math.isfinite(value)


_Check = tuple[str, Callable[[Any], bool]]
"""What is expected of a fact, and whether it is so."""

_COUNT: Final = ("expected a whole number from 0", _is_count)
_NUMBER: Final = ("expected a number", _is_number)
_TEXT: Final = ("expected a text", _is_text)
_FORMAT_NAMES: Final = ("date", "date-time", "email", "uri")
_FORMAT: Final = (f"a form has the formats {', '.join(_FORMAT_NAMES)}", _FORMAT_NAMES.__contains__)
_NO_PLACE: Final[_Check] = ("this has no place in a form", lambda _: False)

_TEXTS: Final[Mapping[str, _Check]] = {"title": _TEXT, "description": _TEXT}
_CHOICE: Final[Mapping[str, _Check]] = {}
_LIST: Final[Mapping[str, _Check]] = {"minItems": _COUNT, "maxItems": _COUNT}
_RANGE: Final[Mapping[str, _Check]] = {"minimum": _NUMBER, "maximum": _NUMBER}
_LIMITS: Final[Mapping[str, Mapping[str, _Check]]] = {
    "string": {"minLength": _COUNT, "maxLength": _COUNT, "pattern": _TEXT, "format": _FORMAT},
    "integer": _RANGE,
    "number": _RANGE,
    "boolean": {},
}

_HINTS: Final[Mapping[str, str]] = {
    "enum": "what there is to choose must be texts",
    "exclusiveMinimum": "a form has no exclusive bounds; use ge in place of gt",
    "exclusiveMaximum": "a form has no exclusive bounds; use le in place of lt",
}
