"""Messages from JSON values: an accepted value comes back unchanged, and a refusal names the place of the fault."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from fuzz.source import Source
from trio_mcp import StructureError, types
from trio_mcp.types import Bounds
from trio_mcp.types._structure_hooks import members_of
from trio_mcp.wire import copy_json, is_array, is_object

_CLASSES: list[type[types.Model]] = sorted(
    (
        each
        for name in dir(types)
        if isinstance(each := getattr(types, name), type) and issubclass(each, types.Model) and each is not types.Model
    ),
    key=lambda each: each.__name__,
)
_REVISIONS = (None, *types.REVISIONS)
_DEEPEST = 4


def target(data: bytes) -> None:
    """Structure a value that fits a class and one that nearly fits, and unstructure both."""
    source = Source(data)
    cls, revision = source.choose(_CLASSES), source.choose(_REVISIONS)
    spoil = source.flag()
    value = _object(source, cls, revision, 0)
    if spoil:
        value = _spoiled(source, value)
    before = copy_json(value)
    try:
        message = types.structure(value, cls, revision=revision)
    except StructureError as exc:
        assert spoil, f"{exc}: {value}"
        assert exc.faults
        assert all(fault.startswith("$") for fault in exc.faults)
        assert len(exc.faults) <= 1_000
        return
    assert value == before, "what was given has been changed"
    back = types.unstructure(message, revision=revision)
    if not spoil:
        assert back == value
    assert _without_nulls(back) == _without_nulls(value)
    assert copy_json(back) == back
    assert types.structure(back, cls, revision=revision) == message


def _object(source: Source, cls: type[types.Model], revision: str | None, depth: int) -> dict[str, Any]:
    """Return a JSON object that a class should accept in a revision."""
    profile = types.SUPERSET if revision is None else types.PROFILES[revision]
    bounds = profile.bounds.get(cls.__name__, {})
    members = members_of(cls, profile)
    value: dict[str, Any] = {f"x/{source.text()}": source.json()} if source.below(4) == 3 else {}
    for member in members:
        if member.required or (depth < _DEEPEST and source.below(3) == 2):
            value[member.wire] = _value(source, member.kind, revision, depth, bounds.get(member.wire, Bounds()))
    return value


def _value(source: Source, kind: Any, revision: str | None, depth: int, bounds: Bounds) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return source.choose(inner)
    if origin in {Union, UnionType}:
        return _value(source, source.choose(inner), revision, depth, bounds)
    if origin in {list, Sequence}:
        return [_value(source, inner[0], revision, depth + 1, Bounds()) for _ in range(_count(source, depth))]
    if origin in {dict, Mapping}:
        return {
            source.text(): _value(source, inner[1], revision, depth + 1, Bounds()) for _ in range(_count(source, depth))
        }
    if isinstance(kind, type) and issubclass(kind, types.Model):
        return _object(source, kind, revision, depth + 1)
    return _plain(source, kind, bounds)


def _count(source: Source, depth: int) -> int:
    return source.below(3) if depth < _DEEPEST else 0


def _plain(source: Source, kind: Any, bounds: Bounds) -> Any:
    if kind in {int, float}:
        low = -math.inf if bounds.minimum is None else bounds.minimum
        high = math.inf if bounds.maximum is None else bounds.maximum
        number = source.below(256) if kind is int else source.number()
        return number if low <= number <= high else int(low if math.isfinite(low) else high)
    if kind in {bool, NoneType}:
        return source.flag() if kind is bool else None
    return source.text() if kind is str else source.json()


def _spoiled(source: Source, value: Any) -> Any:
    """Return *value* with one place changed, or with a member removed."""
    inside: list[Any] = []
    if is_object(value):
        inside = list(value)
    elif is_array(value):
        inside = list(range(len(value)))
    if not inside or source.below(4) == 3:
        return source.json()
    key = source.choose(inside)
    copied: Any = value.copy()
    if source.below(8) == 7:
        del copied[key]
    else:
        copied[key] = _spoiled(source, copied[key])
    return copied


def _without_nulls(value: Any) -> Any:
    """Return *value* without null members: null for an optional member means absent."""
    if is_object(value):
        return {name: _without_nulls(member) for name, member in value.items() if member is not None}
    if is_array(value):
        return [_without_nulls(member) for member in value]
    return value
