"""Estimates the cost of a validation before it begins, because nothing can interrupt jsonschema-rs.

A schema of a few kilobytes can keep a validation busy for years: each definition refers twice to the next one. Rules of
this file:

1. An estimate is never lower than the work of a validator without a cache, up to a small factor. It may refuse a
   validation that would have ended in time, but it never admits one that would not.
2. A schema without such references is estimated only once, when it is compiled; its validations are not slowed down.
3. No function recurses without a bound, or takes more steps than it is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias, cast
from urllib.parse import unquote, urldefrag, urljoin

from attrs import define, field

__all__ = ["Cost"]

MAX_UNFOLDED: Final = 10_000
"""The largest unfolded schema whose validations need no estimate; see `Cost.unfolded`."""

_DEFINITIONS: Final = frozenset({"$defs", "definitions"})
_BY_NAME: Final = ("properties", "patternProperties", "dependentSchemas", "dependencies")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_LISTS: Final = ("allOf", "anyOf", "oneOf")
_SINGLE: Final = ("not", "if", "then", "else")
_ALL_MEMBERS: Final = ("unevaluatedProperties",)
_ALL_ITEMS: Final = ("contains", "unevaluatedItems")
_CHOICES: Final = ("anyOf", "oneOf")
_APPLYING: Final = frozenset(
    {*_BY_NAME, *_REFERENCES, *_LISTS, *_SINGLE, *_ALL_MEMBERS, *_ALL_ITEMS}
    | {"additionalProperties", "propertyNames", "prefixItems", "items", "additionalItems"}
)
_CLASSES: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list, tuple),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int, float),
    "number": (int, float),
    "null": (type(None),),
}
_MOST_DIGITS: Final = 9
"""The longest index of a list item; Python refuses to read thousands of digits."""
_EMPTY: Final[Mapping[str, Any]] = {}

Json: TypeAlias = "dict[str, Any]"


class _TooManyError(Exception):
    """The count has exceeded the allowed number of steps."""


@define(eq=False)
class Cost:
    """The cost of validations against one schema. A step is one subschema applied to one value.

    Args:
        schema: the schema, no deeper than a validator allows.
        pattern: the cost of matching one string against a pattern, in steps. If it is more than 1, every validation
            must be estimated, even if the schema is small.
    """

    _schema: Json = field(alias="schema")
    _pattern: int = field(default=1, alias="pattern")
    unfolded: int = field(init=False)
    """The number of its parts, a part counted once for each reference to it; at most `MAX_UNFOLDED` + 1."""
    names: set[str] = field(factory=set[str], init=False)
    """All member names in the schema, including the keywords."""
    _bases: dict[int, str] = field(factory=dict[int, str], init=False)
    """The base URI of the references in an object, by the id of the object."""
    _resources: dict[str, Any] = field(factory=dict[str, Any], init=False)
    """The schemas by URI, without a fragment."""
    _targets: dict[int, Sequence[Any]] = field(factory=dict[int, "Sequence[Any]"], init=False)
    """The targets of the references in an object, by the id of the object."""
    _anchors: dict[tuple[str, str], list[Any]] = field(factory=dict["tuple[str, str]", "list[Any]"], init=False)

    def __attrs_post_init__(self) -> None:
        self._index()
        self.unfolded = self._unfold() if self._pattern == 1 else MAX_UNFOLDED + 1

    @property
    def has_choices(self) -> bool:
        """True if one fault may contain many others, those of the alternatives."""
        return not self.names.isdisjoint(_CHOICES)

    def steps(self, value: Any, most: int, *, to_the_end: bool) -> int:
        """Return the number of steps of a validation, at most *most* + 1.

        Args:
            to_the_end: True for a validation that finds every fault; otherwise the count stops at the first fault at
                which jsonschema-rs certainly stops.
        """
        count = _Count(self, most, to_the_end=to_the_end)
        try:
            count.apply(self._schema, value)
        except (_TooManyError, RecursionError):
            return most + 1
        return most - count.left

    def targets(self, schema: Json) -> Sequence[Any]:
        """Return the targets of the references of a schema, without those outside, which belong to the dialect."""
        found = self._targets.get(id(schema))
        if found is None:
            found = self._targets[id(schema)] = tuple(self._look_up(schema))
        return found

    def _look_up(self, schema: Json) -> Iterator[Any]:
        base = self._bases[id(schema)]
        for keyword in _REFERENCES:
            reference = schema.get(keyword)
            if not isinstance(reference, str):
                continue
            uri, fragment = urldefrag(urljoin(base, reference))
            name = unquote(fragment)
            if keyword == "$dynamicRef":  # it means the outermost anchor of that name, so all of them count
                for (_, each), anchored in self._anchors.items():
                    if each == name:
                        yield from anchored
            elif name and not name.startswith("/"):
                yield from self._anchors.get((uri, name), ())
            elif uri in self._resources:
                yield _at(name, self._resources[uri])

    def pattern_cost(self, schema: Json) -> int:
        """Return the cost of the patterns of one schema, beyond one step for each."""
        return (self._pattern - 1) * (("pattern" in schema) + len(_object(schema.get("patternProperties"))))

    def _index(self) -> None:
        """Collect the possible targets of references: every object with its base URI, its own URI and its anchors."""
        self._resources[""] = self._schema
        waiting: list[tuple[Any, str]] = [(self._schema, "")]
        while waiting:
            part, base = waiting.pop()
            if isinstance(part, dict):
                here = cast("Json", part)
                for keyword in ("$id", "id"):
                    declared = here.get(keyword)
                    if isinstance(declared, str):
                        base = urldefrag(urljoin(base, declared)).url
                        self._resources.setdefault(base, here)
                self._bases[id(here)] = base
                self.names.update(here)
                for keyword in ("$anchor", "$dynamicAnchor"):
                    if isinstance(here.get(keyword), str):
                        self._anchors.setdefault((base, here[keyword]), []).append(here)
                waiting += ((inner, base) for inner in here.values())
            elif isinstance(part, list | tuple):
                waiting += ((inner, base) for inner in cast("Sequence[Any]", part))

    def _unfold(self) -> int:
        """Count the parts; a part that refers to itself is not counted again inside of itself."""
        count = 0
        open_now: set[int] = set()
        waiting: list[tuple[str, Any]] = [("enter", self._schema)]
        while waiting and count <= MAX_UNFOLDED:
            action, part = waiting.pop()
            if action == "leave":
                open_now.discard(part)
            elif action == "enter":
                if id(part) not in open_now:
                    open_now.add(id(part))
                    waiting += [("leave", id(part)), ("count", part)]
            else:
                count += 1
                if isinstance(part, dict):
                    schema = cast("Json", part)
                    count += len(schema)
                    waiting += (("enter", target) for target in self.targets(schema))
                    waiting += (("count", inner) for inner in _inner(schema))
                elif isinstance(part, list | tuple):
                    waiting += (("count", inner) for inner in cast("Sequence[Any]", part))
        return min(count, MAX_UNFOLDED + 1)


def _inner(schema: Json) -> Iterator[Any]:
    """Return the parts of a schema, without the targets of its references."""
    for keyword, value in schema.items():
        if keyword in _BY_NAME:
            yield from _object(value).values()
        elif keyword not in _DEFINITIONS and isinstance(value, dict | list | tuple):
            yield value


@define(eq=False)
class _Count:
    """A count of steps, which walks through a value as a validator does."""

    _cost: Cost = field(alias="cost")
    left: int
    """The number of steps that are left."""
    _to_the_end: bool = field(kw_only=True, alias="to_the_end")

    def apply(self, schema: Any, value: Any, times: int = 1) -> None:
        """Count one subschema applied to one value, or to *times* values like it."""
        part: Json = cast("Json", schema) if isinstance(schema, dict) else {}
        self.left -= times + times * self._cost.pattern_cost(part)
        if self.left < 0:
            raise _TooManyError
        if _is_leaf(part) or (not self._to_the_end and _is_plainly_other(part, value)):
            return
        for each in self._beside(part, value):
            self.apply(each, value)
        if isinstance(value, dict):
            self._apply_to_members(part, cast("Json", value))
        elif isinstance(value, list | tuple):
            self._apply_to_items(part, cast("Sequence[Any]", value))

    def _beside(self, schema: Json, value: Any) -> Iterator[Any]:
        """Return the subschemas that are applied to the same value."""
        yield from self._cost.targets(schema)
        for keyword in _LISTS:
            yield from _list(schema.get(keyword))
        for keyword in _SINGLE:
            if keyword in schema:
                yield schema[keyword]
        if isinstance(value, dict):
            for keyword in ("dependentSchemas", "dependencies"):
                for name, each in _object(schema.get(keyword)).items():
                    if name in value:
                        yield each

    def _apply_to_members(self, schema: Json, value: Json) -> None:
        named = _object(schema.get("properties"))
        for name in sorted(named.keys() & value.keys()):  # in the order of jsonschema-rs
            self.apply(named[name], value[name])
            if not self._to_the_end and _is_other_constant(named[name], value[name]):
                break
        others = [each for name, each in value.items() if name not in named]
        self._apply_to_each(schema.get("additionalProperties"), others)
        if "propertyNames" in schema:
            self._apply_to_each(schema["propertyNames"], list(value))
        everywhere = [schema[keyword] for keyword in _ALL_MEMBERS if keyword in schema]
        for each in chain(_object(schema.get("patternProperties")).values(), everywhere):
            self._apply_to_each(each, list(value.values()))

    def _apply_to_items(self, schema: Json, value: Sequence[Any]) -> None:
        items = schema.get("items")
        first = [*_list(schema.get("prefixItems")), *_list(items)]
        for each, item in zip(first, value, strict=False):
            self.apply(each, item)
        rest = schema.get("additionalItems") if isinstance(items, list | tuple) else items
        self._apply_to_each(rest, value[len(first) :])
        for keyword in _ALL_ITEMS:
            self._apply_to_each(schema.get(keyword), value)

    def _apply_to_each(self, schema: Any, values: Sequence[Any]) -> None:
        if schema is None or not values:
            return
        if _is_leaf(schema):
            self.apply(schema, None, len(values))
        else:
            for each in values:
                self.apply(schema, each)


def _is_leaf(schema: Any) -> bool:
    return not isinstance(schema, dict) or _APPLYING.isdisjoint(cast("Json", schema))


def _is_plainly_other(schema: Json, value: Any) -> bool:
    """Return True if jsonschema-rs finds a fault and stops: it checks these two keywords first."""
    kinds = schema.get("type")
    if kinds is not None:
        classes = [each for kind in ([kinds] if isinstance(kinds, str) else kinds) for each in _CLASSES.get(kind, ())]
        if value.__class__ not in classes:
            return True
    return isinstance(value, dict) and any(name not in value for name in _list(schema.get("required")))


def _is_other_constant(schema: Any, value: Any) -> bool:
    return isinstance(schema, dict) and "const" in schema and bool(cast("Json", schema)["const"] != value)


def _object(value: Any) -> Mapping[str, Any]:
    return cast("Json", value) if isinstance(value, dict) else _EMPTY


def _list(value: Any) -> Sequence[Any]:
    return cast("Sequence[Any]", value) if isinstance(value, list | tuple) else ()


def _at(pointer: str, root: Any) -> Any:
    """Return the target of a JSON pointer; None without a target, which the compiler refuses."""
    here = root
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(here, dict):
            here = cast("Json", here).get(name)
        else:
            place = int(name) if name.isdecimal() and len(name) <= _MOST_DIGITS else -1
            here = _list(here)[place] if 0 <= place < len(_list(here)) else None
    return here
