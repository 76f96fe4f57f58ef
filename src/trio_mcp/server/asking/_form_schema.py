"""One member of a form, and how each revision writes it.

The differences between the revisions are all here:

===========================  ==============================  =======================================
what                         2025-06-18                      later
===========================  ==============================  =======================================
choice of one, with titles   ``enum`` and ``enumNames``      ``oneOf`` of ``const`` and ``title``
choice of several            none                            ``items`` with ``enum`` or ``anyOf``
default                      of yes-or-no members only       of every member
===========================  ==============================  =======================================

Where a schema was given with ``enumNames`` they stay: later revisions still take them.

Only 2025-11-25 knows a ``pattern``. To others it is not sent; answers are held to it nevertheless, so the description
of the member should say in words what is wanted.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#requested-schema
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, get_origin

import attrs
import msgspec
from attrs import frozen

from ..._errors import MissingCapability
from ...schema import render_path
from ...types import METHODS, REVISIONS
from ...wire import is_array, is_object
from ..signature import MISSING, Definitions

__all__ = [
    "ALLOWED",
    "FormMember",
    "NoMember",
    "has_every_member",
    "made_defaults",
    "missing_form",
    "plain_member",
    "read_member",
]

_WITH_PATTERN: Final = "2025-11-25"
_WITH_EVERY_MEMBER: Final = frozenset(REVISIONS[REVISIONS.index("2025-11-25") :])


def has_every_member(revision: str) -> bool:
    """Say whether a revision has all kinds of members, where the first one with forms had fewer.

    Raises:
        MissingCapability: it has no forms at all.
        KeyError: there is no such revision.
    """
    if "elicitation/create" not in METHODS[revision]:
        raise missing_form(f"revision {revision} has no questions to the user")
    return revision in _WITH_EVERY_MEMBER


def missing_form(reason: str) -> MissingCapability:
    """Return the error for a form that the other side cannot be asked to fill in."""
    return MissingCapability(reason, {"elicitation": {"form": {}}})


@frozen
class FormMember:
    """A member of a form."""

    name: str

    type: str
    """JSON Schema's name for the kind of its value."""

    facts: Mapping[str, Any]
    """Its title, description and limits, by the keywords that publish them."""

    values: Sequence[str] = ()
    """The texts to choose from; empty where it is no choice."""

    titles: Sequence[str] | None = None
    """Of the texts to choose from, in their order."""

    has_names: bool = False
    """Whether its author has written the titles as ``enumNames``."""

    default: Any = MISSING
    """What the form proposes; `MISSING` where it proposes nothing."""

    def schema(self, revision: str) -> dict[str, Any]:
        """Return what peers of a revision get to see.

        Raises:
            MissingCapability: the revision has no such member, or no forms.
        """
        is_complete = has_every_member(revision)
        if self.type == "array" and not is_complete:
            raise missing_form(
                f"revision {revision} has no multiple choice, which {render_path([self.name])} needs",
            )
        facts = {name: fact for name, fact in self.facts.items() if name != "pattern" or revision == _WITH_PATTERN}
        schema = {"type": self.type, **facts, **self._choice(is_complete)}
        if self.default is not MISSING and (is_complete or self.type == "boolean"):
            schema["default"] = self.default
        return schema

    def judged(self) -> dict[str, Any]:
        """Return a schema that takes what the published ones take, and names what is wrong in fewer words."""
        if not self.values:
            return {"type": self.type, **self.facts}
        values = {"enum": list(self.values)}  # with the type beside it, a wrong type would be named twice
        return {"type": "array", **self.facts, "items": values} if self.type == "array" else values

    def _choice(self, has_options: bool) -> dict[str, Any]:
        if self.titles is None:
            return self._untitled()
        if self.has_names or not has_options:
            return {"enum": list(self.values), "enumNames": list(self.titles)}
        options = [{"const": value, "title": title} for value, title in zip(self.values, self.titles, strict=True)]
        return {"items": {"anyOf": options}} if self.type == "array" else {"oneOf": options}

    def _untitled(self) -> dict[str, Any]:
        values = list(self.values)
        if self.type == "array":
            return {"items": {"type": "string", "enum": values}}
        return {"enum": values} if values else {}


# Puts the schemas that annotations give into the plainer words of a form, where both can mean the same.
#
# What has no plainer words is left as it is, for `_form_reading` to refuse.

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


# Reads the JSON Schema of a form's member, and refuses what no revision lets a form ask for.
#
# The schema must use a form's own words, in whichever of the five ways a choice can be written; `_form_plain` puts the
# schemas of annotations into these words. What is refused is refused when the form is made, with the reason.
#
# Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#requested-schema

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
