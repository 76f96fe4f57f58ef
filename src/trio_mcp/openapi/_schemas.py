"""The schemas of a description as JSON Schema 2020-12, each complete in itself.

Rules of this file:

1. The schema of a reference stands in the place of the reference, because many hosts cannot follow it. A schema that
   contains itself stays under ``$defs``. So do all of them, if the whole would have more than `MOST_PARTS` parts.
2. A request leaves out the properties that are `readOnly`, and a response those that are `writeOnly`.
3. Keywords of OpenAPI that are none of JSON Schema are left out; `example` becomes `examples`.
4. Binary strings are text in JSON: their content encoding is base64.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

from attrs import define, field

from ..types import JSONObject
from ..wire import is_array, is_object
from ._document import Description

__all__ = ["MOST_PARTS", "Direction", "is_binary", "plain_schema"]

Direction: TypeAlias = Literal["request", "response"]
MOST_PARTS: Final = 2000
"""The number of schemas that one schema may contain before its references are kept."""

_OF_ONE: Final = frozenset({
    "additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then",
    "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
"""The keywords that hold one schema."""
_OF_LIST: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_OF_TABLE: Final = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
_LEFT_OUT: Final = frozenset({
    "$anchor", "$id", "$schema", "discriminator", "example", "externalDocs", "nullable", "xml",
})  # fmt: skip
_ANNOTATIONS: Final = frozenset({"default", "deprecated", "description", "examples", "readOnly", "title", "writeOnly"})
_NAME = re.compile(r"[^A-Za-z0-9_.-]")


def is_binary(schema: Mapping[str, Any]) -> bool:
    """Return True if the value is bytes, and so base64 in JSON (rule 4)."""
    return schema.get("contentEncoding") == "base64"


def plain_schema(description: Description, schema: object, place: str, direction: Direction) -> Any:
    """Return a schema of a description as JSON Schema 2020-12.

    Args:
        place: the place of the schema in the description, for errors.

    Raises:
        ValueError: a schema is not an object, or a reference cannot be followed.
    """
    recursive = _recursive(description, schema, place)
    try:
        return _Converter(description, direction, lambda name: name in recursive, MOST_PARTS).whole(schema, place)
    except _TooManyPartsError:
        return _Converter(description, direction, lambda _: True, None).whole(schema, place)


def _recursive(description: Description, schema: object, place: str) -> set[str]:
    """Return the references from which a schema can be reached that contains them."""
    graph: dict[str, set[str]] = {}
    waiting = [*_references(schema)]
    while waiting:
        reference = waiting.pop()
        if reference not in graph:
            graph[reference] = {*_references(description.lookup(reference, place))}
            waiting.extend(graph[reference])
    return {each for each in graph if each in _reachable(graph, each)}


def _reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    reached: set[str] = set()
    waiting = [*graph[start]]
    while waiting:
        each = waiting.pop()
        if each not in reached:
            reached.add(each)
            waiting.extend(graph[each])
    return reached


def _references(schema: object) -> Iterator[str]:
    """Yield the references of a schema, without those of the schemas that they lead to."""
    waiting: list[Any] = [schema]
    while waiting:
        each = waiting.pop()
        if is_object(each):
            members = each
            reference = members.get("$ref")
            if isinstance(reference, str):
                yield reference
            for keyword, value in members.items():
                if keyword in _OF_ONE:
                    waiting.append(value)
                elif keyword in _OF_LIST and is_array(value):
                    waiting.extend(value)
                elif keyword in _OF_TABLE and is_object(value):
                    waiting.extend(value.values())


class _TooManyPartsError(Exception):
    """The schema has too many parts without references."""


@define
class _Converter:
    """The conversion of one schema, with the definitions that it refers to."""

    _description: Description
    _direction: Direction
    _is_kept: Callable[[str], bool]
    """Returns True for a reference that stays one."""
    _most: int | None
    _parts: int = field(default=0, init=False)
    _names: dict[str, str] = field(factory=dict[str, str], init=False)
    """The names under ``$defs``, by reference."""
    _definitions: JSONObject = field(factory=dict[str, Any], init=False)

    def whole(self, schema: object, place: str) -> Any:
        """Return the converted schema."""
        converted = self._convert(schema, place)
        if not self._definitions:
            return converted
        return {**(converted if is_object(converted) else {}), "$defs": self._definitions}

    def _convert(self, schema: object, place: str) -> Any:
        if isinstance(schema, bool):
            return schema
        if not is_object(schema):
            raise ValueError(f"{place}: expected a schema")
        self._parts += 1
        if self._most is not None and self._parts > self._most:
            raise _TooManyPartsError
        members = schema
        if "$ref" in members:
            return self._follow(members, place)
        converted = {
            keyword: self._value(keyword, value, f"{place}.{keyword}")
            for keyword, value in members.items()
            if keyword not in _LEFT_OUT and not keyword.startswith("x-")
        }
        if "example" in members and "examples" not in members:
            converted["examples"] = [members["example"]]
        self._leave_out(members, converted, place)
        if converted.get("format") == "binary" or members.get("contentMediaType") == "application/octet-stream":
            converted.pop("format", None)
            converted |= {"type": "string", "contentEncoding": "base64"}
        return _of_version_30(members, converted) if self._description.version == "3.0" else converted

    def _value(self, keyword: str, value: Any, place: str) -> Any:
        if keyword in _OF_ONE:
            return self._convert(value, place)
        if keyword in _OF_LIST and is_array(value):
            return [self._convert(each, f"{place}[{at}]") for at, each in enumerate(value)]
        if keyword in _OF_TABLE and is_object(value):
            table = value
            return {name: self._convert(each, f"{place}.{name}") for name, each in table.items()}
        return value

    def _follow(self, members: JSONObject, place: str) -> Any:
        """Return what stands in the place of a reference."""
        reference = members["$ref"]
        target = self._description.lookup(reference, place)
        if self._is_kept(reference):
            converted: Any = {"$ref": f"#/$defs/{self._define(reference, target)}"}
        else:
            converted = self._convert(target, reference)
        if self._description.version == "3.0":  # what stands beside a reference counts for nothing there
            return converted
        beside = {name: value for name, value in members.items() if name != "$ref" and name not in _LEFT_OUT}
        if not beside:
            return converted
        if beside.keys() <= _ANNOTATIONS and is_object(converted):
            return {**converted, **beside}
        return {**self._convert(beside, place), "allOf": [converted, *beside.get("allOf", [])]}

    def _define(self, reference: str, target: Any) -> str:
        """Return the name under ``$defs`` of what a reference leads to."""
        if reference not in self._names:
            wanted = _NAME.sub("_", reference.rpartition("/")[2]) or "schema"
            name, number = wanted, 1
            while name in self._names.values():
                number += 1
                name = f"{wanted}_{number}"
            self._names[reference] = name
            self._definitions[name] = self._convert(target, reference)
        return self._names[reference]

    def _leave_out(self, members: JSONObject, converted: JSONObject, place: str) -> None:
        """Leave out the properties that are not for this direction (rule 2)."""
        unwanted = "readOnly" if self._direction == "request" else "writeOnly"
        properties = members.get("properties")
        if not is_object(properties):
            return
        absent = {
            name
            for name, each in properties.items()
            if is_object(each) and self._description.resolved(each, place).get(unwanted) is True
        }
        if absent:
            kept: JSONObject = converted["properties"]
            converted["properties"] = {name: each for name, each in kept.items() if name not in absent}
            required: list[Any] = [each for each in converted.get("required", []) if each not in absent]
            converted.pop("required", None)
            if required:
                converted["required"] = required


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
