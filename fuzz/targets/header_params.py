"""Arguments in header fields: annotations are found or refused, and fields agree with the arguments they repeat."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fuzz.source import Source
from trio_mcp.wire import MirroredParam, is_array, is_object, mirrored_params, param_fault, param_fields

_MARK = "x-mcp-header"
_NAMES = ("a", "b", "properties", "items", "é", "")
_LABELS = ("A", "a", "B", "x-y", "", "a b", "é", "a\n", "properties")
_TYPES = ("string", "integer", "boolean", "number", "object")
_INSIDE = ("items", "not", "anyOf", "$defs", "additionalProperties", "dependentSchemas", "prefixItems", "if")
_LARGEST = 2**53 - 1


def target(data: bytes) -> None:
    """Read the annotations of a schema; write the fields of arguments; compare them with these and with others."""
    source = Source(data)
    schema = _schema(source)
    try:
        params = mirrored_params(schema)
    except ValueError as exc:
        faults = str(exc).split("; ")
        assert faults
        assert all(fault.startswith("$") and f".{_MARK}: " in fault for fault in faults)
        assert not _is_sound(schema)
        return
    assert _is_sound(schema)
    assert {param.path for param in params} == {path for path, _ in _marked(schema)}
    assert len({param.field for param in params}) == len(params)
    arguments, others = (_arguments(source, params) for _ in range(2))
    _compare(params, arguments, others)


def _schema(source: Source, depth: int = 0) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": source.choose(_TYPES)}
    if source.flag():
        schema[_MARK] = source.choose(_LABELS) if source.below(8) else source.json()
    if depth < 3 and source.flag():
        schema["properties"] = {source.choose(_NAMES): _schema(source, depth + 1) for _ in range(source.below(4))}
    if depth == 0:
        schema.pop(_MARK, None) if source.below(8) else None
    if source.below(6) == 5:
        key = source.choose(_INSIDE)
        inner = _schema(source, depth + 1) if depth < 3 else {}
        schema[key] = [inner] if key in {"anyOf", "prefixItems"} else {"x": inner} if key[0] in "$d" else inner
    return schema


def _marked(schema: dict[str, Any]) -> list[tuple[tuple[str, ...], dict[str, Any]]]:
    """Return the annotated schemas that are reached through `properties` alone, with their paths."""
    found: list[tuple[tuple[str, ...], dict[str, Any]]] = [((), schema)] if _MARK in schema else []
    for name, inner in schema.get("properties", {}).items():
        found += [((name, *path), deeper) for path, deeper in _marked(inner)]
    return found


def _everywhere(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for key in ("properties", *_INSIDE):
        inner = schema.get(key)
        group = inner if is_array(inner) else list(inner.values()) if key[0] in "p$d" and inner else [inner]
        for each in filter(None, group):
            yield from _everywhere(each)


def _is_sound(schema: dict[str, Any]) -> bool:
    marked = _marked(schema)
    labels = [inner[_MARK] for _, inner in marked]
    tokens = [each for each in labels if isinstance(each, str) and re.fullmatch(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+", each)]
    return (
        all(path and inner["type"] in _TYPES[:3] for path, inner in marked)
        and len(tokens) == len(labels) == len({token.lower() for token in tokens})
        and len(marked) == sum(_MARK in each for each in _everywhere(schema))
    )


def _arguments(source: Source, params: tuple[MirroredParam, ...]) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for param in params:
        place = arguments
        for name in param.path[:-1]:
            inner = place.setdefault(name, {})
            place = inner if is_object(inner) else {}
        place[param.path[-1]] = source.json()
    return arguments


def _compare(params: tuple[MirroredParam, ...], arguments: dict[str, Any], others: dict[str, Any]) -> None:
    try:
        fields = param_fields(params, arguments)
    except ValueError as exc:
        assert any(f"{'.'.join(param.path)!r}" in str(exc) for param in params)
        assert any(type(value) is int and abs(value) > _LARGEST for value in _expected(params, arguments))
        assert param_fault(params, arguments, {}) is not None
        return
    assert param_fault(params, arguments, fields) is None
    same = all(map(_agree, _expected(params, arguments), _expected(params, others)))
    assert (param_fault(params, others, fields) is None) is same
    for name in fields:
        without = {key: value for key, value in fields.items() if key != name}
        assert param_fault(params, arguments, without) is not None


def _agree(expected: Any, value: Any) -> bool:
    """Return True if the field of one value also fits another."""
    if type(value) is not int:
        return (expected is None) == (value is None) and str(expected) == str(value)
    number = re.fullmatch(r"(-?[0-9]{1,20})(?:\.0+)?", str(expected))
    return abs(value) <= _LARGEST and number is not None and int(number[1]) == value


def _expected(params: tuple[MirroredParam, ...], arguments: dict[str, Any]) -> list[Any]:
    """Return the expected value of each field: a string, number or boolean; None without a field."""
    expected: list[Any] = []
    for param in params:
        value: Any = arguments
        for name in param.path:
            value = value.get(name) if is_object(value) else None
        if isinstance(value, float):
            value = int(value) if value.is_integer() else None
        expected.append(
            str(value).lower() if isinstance(value, bool) else value if isinstance(value, int | str) else None
        )
    return expected
