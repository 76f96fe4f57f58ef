"""The schemas of a description as JSON Schema 2020-12, each complete in itself.

Rules of this file:

1. The schema of a reference stands in the place of the reference, because many hosts cannot follow it. A schema that
   contains itself stays under ``$defs``. So do all of them, if the whole would have more than `MOST_PARTS` parts.
2. A request leaves out the properties that are `readOnly`, and a response those that are `writeOnly`.
3. Keywords of OpenAPI that are none of JSON Schema are left out; `example` becomes `examples`.
4. Bytes are text in JSON: their content encoding is base64, and their format stays ``binary``. What a description
   itself calls base64 is text for the API too, and is not decoded.
5. What a reference leads to is converted once, for all operations. They share it, so nothing changes it later.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

from attrs import define, field, frozen

from ..lowlevel import LISTS_OF_SCHEMAS, NAMED_SCHEMAS, SINGLE_SCHEMAS
from ..types import JSONObject
from ..wire import is_array, is_object
from ._document import Description
from ._media_types import is_text

__all__ = ["BYTES", "MOST_PARTS", "Direction", "Schemas", "alternatives", "is_binary", "without_patterns"]

Direction: TypeAlias = Literal["request", "response"]
MOST_PARTS: Final = 2000
"""The number of schemas that one schema may contain before its references are kept."""
BYTES: Final[Mapping[str, Any]] = {"type": "string", "format": "binary", "contentEncoding": "base64"}
"""The schema of bytes."""

_LEFT_OUT: Final = frozenset({
    "$anchor", "$id", "$schema", "discriminator", "example", "externalDocs", "nullable", "xml",
})  # fmt: skip
_ANNOTATIONS: Final = frozenset({"default", "deprecated", "description", "examples", "readOnly", "title", "writeOnly"})
_NAME = re.compile(r"[^A-Za-z0-9_.-]")


def alternatives(schema: object, definitions: Mapping[str, Any]) -> Iterator[JSONObject]:
    """Yield a converted schema with what its references lead to, and with the schemas that it is made of."""
    waiting: list[Any] = [schema]
    followed: set[str] = set()
    while waiting:
        each = waiting.pop()
        if is_object(each):
            yield each
            reference = each.get("$ref")
            if isinstance(reference, str) and reference not in followed:
                followed.add(reference)
                waiting.append(definitions.get(reference.removeprefix("#/$defs/")))
            waiting += [one for keyword in ("allOf", "anyOf", "oneOf") for one in _array(each.get(keyword))]


def is_binary(schema: object, definitions: Mapping[str, Any]) -> bool:
    """Return True if the value may be bytes, and so base64 in JSON (rule 4)."""
    return any(each.get("format") == "binary" for each in alternatives(schema, definitions))


def _array(value: object) -> Collection[Any]:
    return value if is_array(value) else ()


def _inner(schema: JSONObject) -> Iterator[tuple[str, Any]]:
    """Yield the keywords of a schema that hold schemas, each with what it holds: a schema, a list or a table."""
    for keyword, value in schema.items():
        single = keyword in SINGLE_SCHEMAS and (is_object(value) or isinstance(value, bool))
        listed = keyword in LISTS_OF_SCHEMAS and is_array(value)
        if single or listed or (keyword in NAMED_SCHEMAS and is_object(value)):
            yield keyword, value


def _references(schema: object) -> Iterator[str]:
    """Yield the references of a schema, without those of the schemas that they lead to."""
    waiting: list[Any] = [schema]
    while waiting:
        each = waiting.pop()
        if is_object(each):
            reference = each.get("$ref")
            if isinstance(reference, str):
                yield reference
            for keyword, value in _inner(each):
                if is_array(value):
                    waiting.extend(value)
                else:
                    waiting.extend(value.values() if keyword in NAMED_SCHEMAS else [value])


def without_patterns(schema: Any) -> Any:
    """Return a converted schema without its regular expressions, for one whose dialect is not that of JSON Schema."""
    if not is_object(schema):
        return schema
    kept = {keyword: each for keyword, each in schema.items() if keyword not in {"pattern", "patternProperties"}}
    for keyword, each in _inner(kept):
        if is_array(each):
            kept[keyword] = [without_patterns(one) for one in each]
        elif keyword in NAMED_SCHEMAS:
            kept[keyword] = {name: without_patterns(one) for name, one in each.items()}
        else:
            kept[keyword] = without_patterns(each)
    return kept


@frozen
class _Converted:
    """A converted schema."""

    schema: Any
    parts: int
    """The number of schemas in it, those in the places of references included."""
    kept: Collection[str]
    """The references in it that stay references."""


@define(eq=False)
class Schemas:
    """The schemas of one description, converted when operations need them (rule 5)."""

    description: Description
    _is_recursive: dict[str, bool] = field(factory=dict[str, bool], init=False)
    """By reference, whether what it leads to contains that reference again."""
    _converted: dict[tuple[str, Direction, bool], _Converted] = field(
        factory=dict[tuple[str, Direction, bool], _Converted], init=False
    )
    _names: dict[str, str] = field(factory=dict[str, str], init=False)
    """The names under ``$defs``, by reference."""
    _taken: set[str] = field(factory=set[str], init=False)

    def plain(self, schema: object, place: str, direction: Direction) -> Any:
        """Return a schema of the description as JSON Schema 2020-12.

        Schemas that were returned for one direction have the same definitions under the same names.

        Args:
            place: the place of the schema in the description, for errors.

        Raises:
            ValueError: a schema is not an object, or a reference cannot be followed.
        """
        whole, parts = self._whole(schema, place, direction, keeps_all=False)
        if parts > MOST_PARTS:
            whole, _ = self._whole(schema, place, direction, keeps_all=True)
        return whole

    def _whole(self, schema: object, place: str, direction: Direction, *, keeps_all: bool) -> tuple[Any, int]:
        """Return the converted schema with its definitions, and the number of its parts."""
        root = _Conversion(self, direction, keeps_all).run(schema, place)
        parts = root.parts
        definitions: JSONObject = {}
        waiting = [*root.kept]
        while waiting:
            reference = waiting.pop()
            name = self.name(reference)
            if name not in definitions:
                target = self.target(reference, place, direction, keeps_all=keeps_all)
                definitions[name] = target.schema
                parts += target.parts
                waiting.extend(target.kept)
        if not definitions:
            return root.schema, parts
        return {**(root.schema if is_object(root.schema) else {}), "$defs": definitions}, parts

    def name(self, reference: str) -> str:
        """Return the name under ``$defs`` of what a reference leads to."""
        if reference not in self._names:
            wanted = _NAME.sub("_", reference.rpartition("/")[2]) or "schema"
            name, number = wanted, 1
            while name in self._taken:
                number += 1
                name = f"{wanted}_{number}"
            self._names[reference] = name
            self._taken.add(name)
        return self._names[reference]

    def target(self, reference: str, place: str, direction: Direction, *, keeps_all: bool) -> _Converted:
        """Return what a reference leads to, converted."""
        key = (reference, direction, keeps_all)
        if key not in self._converted:
            found = self.description.lookup(reference, place)
            self._converted[key] = _Conversion(self, direction, keeps_all).run(found, reference)
        return self._converted[key]

    def is_recursive(self, reference: str, place: str) -> bool:
        """Return True if what a reference leads to contains that reference again."""
        if reference not in self._is_recursive:
            self._find_circles(reference, place)
        return self._is_recursive[reference]

    def _find_circles(self, start: str, place: str) -> None:
        """Find the circles of references that can be reached from one, in one walk (Tarjan's algorithm).

        The references of a circle are on top of the stack of open ones when the walk leaves the first of them, which is
        the only one from which no earlier one can be reached.
        """
        walk: list[tuple[str, Iterator[str]]] = []
        position: dict[str, int] = {}
        earliest: dict[str, int] = {}
        """The position of the first open reference that can be reached, as far as the walk has come."""
        open_ones: list[str] = []
        to_itself: set[str] = set()

        def enter(reference: str) -> None:
            position[reference] = earliest[reference] = len(position)
            open_ones.append(reference)
            walk.append((reference, _references(self.description.lookup(reference, place))))

        enter(start)
        while walk:
            reference, inner = walk[-1]
            following = next(inner, None)
            if following is None:
                walk.pop()
                if walk:
                    outer = walk[-1][0]
                    earliest[outer] = min(earliest[outer], earliest[reference])
                if earliest[reference] == position[reference]:
                    circle = [open_ones.pop()]
                    while circle[-1] != reference:
                        circle.append(open_ones.pop())
                    self._is_recursive |= dict.fromkeys(circle, len(circle) > 1 or reference in to_itself)
            elif following not in position and following not in self._is_recursive:
                enter(following)
            elif following not in self._is_recursive:
                earliest[reference] = min(earliest[reference], position[following])
                if following == reference:
                    to_itself.add(reference)


@define(eq=False)
class _Conversion:
    """The conversion of one schema up to its references."""

    _schemas: Schemas
    _direction: Direction
    _keeps_all: bool
    """True if all references stay references."""
    _parts: int = field(default=0, init=False)
    _kept: dict[str, None] = field(factory=dict[str, None], init=False)

    def run(self, schema: object, place: str) -> _Converted:
        """Return the converted schema."""
        return _Converted(self._convert(schema, place), self._parts, self._kept)

    def _convert(self, schema: object, place: str) -> Any:
        if isinstance(schema, bool):
            return schema
        if not is_object(schema):
            raise ValueError(f"{place}: expected a schema")
        self._parts += 1
        members = schema
        if "$ref" in members:
            return self._follow(members, place)
        converted = {
            keyword: value
            for keyword, value in members.items()
            if keyword not in _LEFT_OUT and not keyword.startswith("x-")
        }
        for keyword, value in _inner(converted):
            converted[keyword] = self._inner_schemas(keyword, value, f"{place}.{keyword}")
        if "example" in members and "examples" not in members:
            converted["examples"] = [members["example"]]
        self._leave_out(members, converted, place)
        if _holds_bytes(members):
            converted.pop("contentMediaType", None)
            converted |= BYTES
        return _of_version_30(members, converted) if self._schemas.description.version == "3.0" else converted

    def _inner_schemas(self, keyword: str, value: Any, place: str) -> Any:
        if is_array(value):
            return [self._convert(each, f"{place}[{at}]") for at, each in enumerate(value)]
        if keyword in NAMED_SCHEMAS:
            table: JSONObject = value
            return {
                # The old `dependencies` may hold lists of names too.
                name: each if keyword == "dependencies" and is_array(each) else self._convert(each, f"{place}.{name}")
                for name, each in table.items()
            }
        return self._convert(value, place)

    def _follow(self, members: JSONObject, place: str) -> Any:
        """Return what stands in the place of a reference."""
        reference = members["$ref"]
        schemas = self._schemas
        schemas.description.lookup(reference, place)
        if self._keeps_all or schemas.is_recursive(reference, place):
            self._kept[reference] = None
            converted: Any = {"$ref": f"#/$defs/{schemas.name(reference)}"}
        else:
            target = schemas.target(reference, place, self._direction, keeps_all=False)
            self._parts += target.parts
            self._kept |= dict.fromkeys(target.kept)
            converted = target.schema
        if schemas.description.version == "3.0":  # what stands beside a reference counts for nothing there
            return converted
        beside = {name: value for name, value in members.items() if name != "$ref" and name not in _LEFT_OUT}
        if not beside:
            return converted
        if beside.keys() <= _ANNOTATIONS and is_object(converted):
            return {**converted, **beside}
        others = self._convert(beside, place)
        return {**others, "allOf": [converted, *_array(others.get("allOf"))]}

    def _leave_out(self, members: JSONObject, converted: JSONObject, place: str) -> None:
        """Leave out the properties that are not for this direction (rule 2)."""
        properties = members.get("properties")
        if not is_object(properties):
            return
        absent = {name for name, each in properties.items() if self._is_unwanted(each, place)}
        if absent:
            kept: JSONObject = converted["properties"]
            converted["properties"] = {name: each for name, each in kept.items() if name not in absent}
            required = [each for each in _array(converted.pop("required", None)) if each not in absent]
            if required:
                converted["required"] = required

    def _is_unwanted(self, schema: Any, place: str) -> bool:
        """Return True if a property, or what its references lead to, is not for this direction."""
        unwanted = "readOnly" if self._direction == "request" else "writeOnly"
        followed: set[str] = set()
        while is_object(schema):
            reference = schema.get("$ref")
            if schema.get(unwanted) is True and (reference is None or self._schemas.description.version != "3.0"):
                return True
            if not isinstance(reference, str) or reference in followed:
                return False
            followed.add(reference)
            schema = self._schemas.description.lookup(reference, place)
        return False


def _holds_bytes(members: JSONObject) -> bool:
    """Return True if the value is bytes, and not text in which bytes are encoded."""
    if "contentEncoding" in members:
        return False
    media_type = members.get("contentMediaType")
    return members.get("format") == "binary" or (isinstance(media_type, str) and not is_text(media_type))


def _of_version_30(members: JSONObject, converted: JSONObject) -> JSONObject:
    """Return a schema of OpenAPI 3.0 as one of JSON Schema 2020-12."""
    for bound, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(converted.get(bound), bool):
            is_exclusive = converted.pop(bound)
            if is_exclusive and limit in converted:
                converted[bound] = converted.pop(limit)
    if members.get("nullable") is not True:
        return converted
    if "type" not in converted:
        return {"anyOf": [converted, {"type": "null"}]} if converted else converted
    converted["type"] = [converted["type"], "null"]
    if "enum" in converted and None not in converted["enum"]:
        converted["enum"] = [*converted["enum"], None]
    return converted
