"""Messages to start from, made from a schema, and ways to spoil them. Everything here is deterministic."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

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
_MANY = 101
_DEEPEST = 12


def seeds(name: str, definitions: Definitions) -> list[Any]:
    """Return valid values of a definition: the barest one, and full ones that take every arm of its unions in turn."""
    found: list[Any] = [_value(definitions[name], definitions, None, 0)]
    for choice in range(8):
        value = _value(definitions[name], definitions, choice, 0)
        if value not in found:
            found.append(value)
    return found


def _value(schema: Schema, definitions: Definitions, choice: int | None, depth: int) -> Any:
    """Return one value; `choice` None leaves out what may be left out."""
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
    return {"boolean": False, "integer": 1, "null": None, "number": 0.5, "string": "text"}[kind]


def mutants(value: Any) -> Iterator[Any]:
    """Yield copies of `value` that differ from it in one place."""
    for path in _paths(value):
        found = _at(value, path)
        for substitute in _SUBSTITUTES:
            if not same_json(found, substitute):
                yield _replaced(value, path, substitute)
        if kind_of(found) == "object":
            yield _replaced(value, path, {**found, "unheard/of": [1]})
            for member in found:
                yield _replaced(value, path, {key: inner for key, inner in found.items() if key != member})
        if kind_of(found) == "array" and found:
            yield _replaced(value, path, [found[0]] * _MANY)
            yield _replaced(value, path, [*found, None])


def twice_mutated(value: Any, dice: random.Random, count: int) -> Iterator[Any]:
    """Yield copies of `value` that differ from it in two places."""
    once = list(mutants(value))
    for _ in range(count):
        again = list(mutants(dice.choice(once)))
        yield dice.choice(again)


def _paths(value: Any) -> Iterator[tuple[str | int, ...]]:
    yield ()
    kind = kind_of(value)
    steps: Any = list(value) if kind == "object" else range(len(value)) if kind == "array" else ()
    for step in steps:
        for deeper in _paths(value[step]):
            yield (step, *deeper)


def _at(value: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def _replaced(value: Any, path: tuple[str | int, ...], substitute: Any) -> Any:
    if not path:
        return copy.deepcopy(substitute)
    step, *rest = path
    changed: Any = value.copy()
    changed[step] = _replaced(value[step], tuple(rest), substitute)
    return changed


def same_json(first: Any, second: Any, *, but_nulls: bool = False) -> bool:
    """Say whether two JSON values are equal as JSON: True is not 1, and 2.0 is 2.

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
