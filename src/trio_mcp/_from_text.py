"""JSON values out of texts, by the schema they should fit: a shell's ``steps=3``, a prompt's and a URI's arguments.

The protocol carries these as strings whatever they stand for, and a shell knows nothing else. Rules of this file:

1. Where the schema admits a string, the text is the value. Nothing is guessed from how it looks.
2. Otherwise the text is JSON: ``3``, ``true``, ``[1, 2]``, ``{"x": 1}``.
3. A schema that says nothing about types gets the JSON value of a text that is JSON, and the text of any other.

Whether the value fits is for a validator to say, not for this file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast
from urllib.parse import unquote

from attrs import define, field

from .wire import Undecodable, decode, is_array

__all__ = ["kinds_of", "member_schema", "value_from_text"]

_KINDS: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_MAX_DEPTH: Final = 50
"""References and alternatives followed, one inside the other."""
_NOTHING: Final[Mapping[str, Any]] = {}
"""A schema that says nothing."""


def value_from_text(text: str, schema: object, root: Mapping[str, Any]) -> Any:
    """Return the JSON value that *text* stands for.

    Args:
        schema: what the value should fit: an object, or one of the schemas ``true`` and ``false``.
        root: the schema that *schema* is a part of, for references such as ``#/$defs/Point``.

    Raises:
        ValueError: the text is no JSON, and the schema admits no string.
    """
    kinds = kinds_of(schema, root)
    if "string" in kinds and kinds != _KINDS:
        return text
    try:
        return decode(text.encode("utf-8", "surrogatepass"))
    except Undecodable:
        if "string" in kinds:
            return text
        named = kinds - {"integer"} if "number" in kinds else kinds
        raise ValueError(f"expected {' or '.join(sorted(named)) or 'nothing'}, got the text {text!r}") from None


def kinds_of(schema: object, root: Mapping[str, Any]) -> frozenset[str]:
    """Return which of JSON's types a value of *schema* may have, as far as the usual keywords tell.

    Args:
        root: the schema that *schema* is a part of.
    """
    return _Reader(root).kinds(schema, 0)


def member_schema(schema: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a schema of what *schema* wants its member *name* to be, as far as the usual keywords tell."""
    return {"allOf": [*_Reader(schema).of_member(schema, name, set(), 0)]}


@define(eq=False)
class _Reader:
    """Reads one schema. Whoever wrote it may be anybody: each part of it is looked at once, however it refers."""

    _root: Mapping[str, Any]
    _read: dict[int, frozenset[str]] = field(factory=dict[int, frozenset[str]], init=False)
    """What the parts allow, by identity; a part that is being read allows everything so far."""

    def kinds(self, schema: object, depth: int) -> frozenset[str]:
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
            return _KINDS
        part = cast("Mapping[str, Any]", schema)
        if id(part) not in self._read:
            self._read[id(part)] = left = _KINDS
            for limit in self._limits(part, depth + 1):
                left &= limit
            self._read[id(part)] = left
        return self._read[id(part)]

    def _limits(self, schema: Mapping[str, Any], depth: int) -> Iterator[frozenset[str]]:
        """Yield what each keyword of the schema leaves over."""
        declared = schema.get("type")
        if isinstance(declared, str) or is_array(declared):
            yield _with_integers({declared} if isinstance(declared, str) else filter(_is_text, declared))
        if "const" in schema:
            yield frozenset({_kind(schema["const"])})
        if is_array(schema.get("enum")):
            yield frozenset(map(_kind, schema["enum"]))
        for keyword in ("anyOf", "oneOf"):
            if is_array(schema.get(keyword)):
                yield frozenset[str]().union(*(self.kinds(arm, depth) for arm in schema[keyword]))
        if is_array(schema.get("allOf")):
            yield from (self.kinds(arm, depth) for arm in schema["allOf"])
        if isinstance(schema.get("$ref"), str):
            yield self.kinds(self._resolved(schema["$ref"]), depth)

    def of_member(self, schema: object, name: str, seen: set[int], depth: int) -> Iterator[object]:
        """Yield a schema for each part of *schema* that says something about its member *name*."""
        part = _object(schema)
        if part is _NOTHING or id(part) in seen or depth > _MAX_DEPTH:
            return
        seen.add(id(part))
        depth += 1
        members, patterns = (_object(part.get(keyword)) for keyword in ("properties", "patternProperties"))
        own = [members[name]] if name in members else []
        own += [wanted for pattern, wanted in patterns.items() if _matches(pattern, name)]
        yield from own or [part.get("additionalProperties", True)]
        for keyword in ("anyOf", "oneOf"):
            if is_array(arms := part.get(keyword)):
                yield {"anyOf": [{"allOf": [*self.of_member(arm, name, seen, depth)]} for arm in arms]}
        if is_array(arms := part.get("allOf")):
            for arm in arms:
                yield from self.of_member(arm, name, seen, depth)
        if isinstance(part.get("$ref"), str):
            yield from self.of_member(self._resolved(part["$ref"]), name, seen, depth)

    def _resolved(self, reference: str) -> object:
        """Return the part of the whole schema that a reference names; what cannot be found says nothing."""
        if reference != "#" and not reference.startswith("#/"):
            return _NOTHING
        found: Any = self._root
        for step in unquote(reference).split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping):
                found = cast("Mapping[str, Any]", found).get(name, _NOTHING)
            elif is_array(found) and name in map(str, range(len(found))):
                found = found[int(name)]
            else:
                return _NOTHING
        return found


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else _NOTHING


def _matches(pattern: str, name: str) -> bool:
    """Match as JSON Schema does; a pattern that Python cannot read matches nothing."""
    try:
        return re.search(pattern, name) is not None
    except re.error:
        return False


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _with_integers(declared: Iterable[str]) -> frozenset[str]:
    names = frozenset(declared)
    return names | {"integer"} if "number" in names else names


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case _:
            return "object" if isinstance(value, Mapping) else "array"
