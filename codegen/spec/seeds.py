"""Valid messages made from a schema, and changes that spoil them. Everything here is deterministic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from codegen.shapes import Definitions, Schema, is_class, target
from trio_mcp.types._faults import kind_of

_SUBSTITUTES: tuple[Any, ...] = (
    None,
    True,
    0,
    3,
    -1,
    2.0,
    1.5,
    "",
    "3",
    "text",
    [],
    [None],
    ["x"],
    {},
    {"k": 1},
    {"type": "text"},
)
_SAMPLES = {"^sha256:[0-9a-f]{64}$": f"sha256:{'0' * 64}"}
"""A string for each pattern of the schemas."""
_MANY = 101
_DEEPEST = 12


def seeds(name: str, definitions: Definitions) -> list[Any]:
    """Return valid values of a definition: the smallest one, and full ones that cover every arm of its unions."""
    found: list[Any] = [_value(definitions[name], definitions, None, 0)]
    for choice in range(8):
        value = _value(definitions[name], definitions, choice, 0)
        if value not in found:
            found.append(value)
    return found


def _value(schema: Schema, definitions: Definitions, choice: int | None, depth: int) -> Any:
    """Return one value; if `choice` is None, without optional members."""
    name = target(schema)
    if name is not None:
        return _value(definitions.get(name, {}), definitions, choice, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][(choice or 0) % len(schema["enum"])]
    if "anyOf" in schema:
        arms = schema["anyOf"]
        return _value(arms[(choice or 0) % len(arms)], definitions, choice, depth)
    if is_class(schema):
        required = schema.get("required", ())
        return {
            member: _value(inner, definitions, choice, depth + 1)
            for member, inner in schema["properties"].items()
            if member in required or (choice is not None and depth < _DEEPEST)
        }
    return _plain(schema, definitions, choice, depth)


def _plain(schema: Schema, definitions: Definitions, choice: int | None, depth: int) -> Any:
    types = schema.get("type", "object")
    kind = types if isinstance(types, str) else types[(choice or 0) % len(types)]
    if kind == "array":
        return [] if choice is None else [_value(schema.get("items", {}), definitions, choice, depth + 1)]
    if kind == "object":
        inner = schema.get("additionalProperties")
        if not inner:
            return {"free": [1, {"deep": None}]}
        return {} if choice is None else {"key": _value(inner, definitions, choice, depth + 1)}
    if "pattern" in schema:
        return _SAMPLES[schema["pattern"]]
    return {"boolean": False, "integer": 1, "null": None, "number": 0.5, "string": "text"}[kind]


class Change(NamedTuple):
    """One change that spoils a message."""

    path: tuple[str | int, ...]
    value: Any
    """The value after the change."""


def changes(value: Any) -> list[Change]:
    """Return many changes of one place of `value`."""
    found: list[Change] = []
    for path, inner in _places(value, ()):
        found.extend(Change(path, other) for other in _SUBSTITUTES if not same_json(inner, other))
        if kind_of(inner) == "object":
            found.append(Change(path, {**inner, "unheard/of": [1]}))
            found.extend(Change(path, {key: inner[key] for key in inner if key != gone}) for gone in inner)
        if kind_of(inner) == "array" and inner:
            found.extend([Change(path, inner[:1] * _MANY), Change(path, [*inner, None])])
    return found


def changed(value: Any, change: Change) -> Any:
    """Return a copy of `value` with the change made."""
    if not change.path:
        return change.value
    step, *rest = change.path
    copy: Any = dict(value) if kind_of(value) == "object" else list(value)
    copy[step] = changed(value[step], Change(tuple(rest), change.value))
    return copy


def _places(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    yield path, value
    items = value.items() if kind_of(value) == "object" else enumerate(value) if kind_of(value) == "array" else ()
    for step, inner in items:
        yield from _places(inner, (*path, step))


def same_json(first: Any, second: Any, *, but_nulls: bool = False) -> bool:
    """Return True if two values are equal as JSON: True is not 1, and 2.0 is 2.

    Args:
        first: one value.
        second: the other.
        but_nulls: whether `second` may have members that are null and that `first` does not have.
    """
    kinds = {kind_of(first), kind_of(second)}
    if kinds == {"object"}:
        others = {key: each for key, each in second.items() if key in first or each is not None or not but_nulls}
        return first.keys() == others.keys() and all(
            same_json(first[key], others[key], but_nulls=but_nulls) for key in first
        )
    if kinds == {"array"}:
        return len(first) == len(second) and all(
            same_json(one, other, but_nulls=but_nulls) for one, other in zip(first, second, strict=True)
        )
    return bool((len(kinds) == 1 or kinds == {"integer", "number"}) and first == second)
