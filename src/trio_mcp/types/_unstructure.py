"""Hooks that make JSON objects out of generated classes, leaving out what a revision does not know."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeAlias, cast, get_args

from cattrs import Converter

from trio_mcp.types._faults import type_of
from trio_mcp.types._members import building, is_model, members_of
from trio_mcp.types._model import Model, Profile
from trio_mcp.types._plain import is_map, is_sequence

__all__ = ["Emit", "register_unstructuring"]

Emit: TypeAlias = Callable[[Any], Any]
"""Takes a structured value and returns the JSON value."""


def register_unstructuring(converter: Converter, profile: Profile) -> Emit:
    """Make the converter unstructure classes as a revision's profile says.

    Returns:
        A function that unstructures whatever it is given, by what it is and not by what it was declared to be.
    """
    made: dict[type[Any], Emit] = {}

    def factory(cls: type[Model]) -> Emit:
        with building:
            return made.get(cls) or _unstructurer(cls, profile, emit_any, made)

    def emit_any(value: Any) -> Any:
        emit = made.get(type_of(value))
        return emit(value) if emit is not None else emit_rest(value)

    def emit_rest(value: Any) -> Any:
        if is_model(type_of(value)):
            return factory(type_of(value))(value)
        if isinstance(value, Mapping):
            return emit_map(cast("Mapping[str, Any]", value))
        return [emit_any(each) for each in value] if _is_array(value) else value

    def emit_map(value: Mapping[str, Any]) -> dict[str, Any]:
        # Looked into one level deep only: without messages in it, it is somebody's own JSON.
        holds_messages = any(is_model(type_of(each)) for each in value.values())
        return {name: emit_any(each) for name, each in value.items()} if holds_messages else _as_dict(value)

    converter.register_unstructure_hook_factory(is_model, factory)
    return emit_any


def _unstructurer(cls: type[Model], profile: Profile, emit_any: Emit, made: dict[type[Any], Emit]) -> Emit:
    known = members_of(cls, profile)
    members = [(member.wire, _emitter(member.kind, emit_any), member.unset) for member in known]
    # Twice, because a getter of one attribute returns it bare.
    fetch = attrgetter(*(member.attribute for member in known), "extra", "extra")

    def unstructure(message: Any) -> dict[str, Any]:
        values = fetch(message)
        result: dict[str, Any] = {}
        for value, (wire, emit, unset) in zip(values, members, strict=False):
            if value is not unset:
                result[wire] = value if emit is None else emit(value)
        if values[-1]:
            # A member that has a name here wins over one put beside it.
            for wire, value in values[-1].items():
                result.setdefault(wire, value)
        return result

    made[cls] = unstructure
    return unstructure


def _emitter(kind: Any, emit_any: Emit) -> Emit | None:
    """Return how values of a type are sent; None for those that are JSON already."""
    if is_model(kind):
        return emit_any
    if is_sequence(kind):
        return _array_emitter(_emitter(get_args(kind)[0], emit_any))
    if is_map(kind):
        return _map_emitter(_emitter(get_args(kind)[1], emit_any))
    arms = [_emitter(arm, emit_any) for arm in get_args(kind) if not isinstance(arm, str)]
    return emit_any if any(arm is not None for arm in arms) else None


def _array_emitter(item: Emit | None) -> Emit:
    return _as_list if item is None else lambda value: [item(each) for each in value]


def _map_emitter(item: Emit | None) -> Emit:
    return _as_dict if item is None else lambda value: {name: item(each) for name, each in value.items()}


def _is_array(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _as_list(value: Any) -> list[Any]:
    return value if type_of(value) is list else list(value)


def _as_dict(value: Any) -> dict[str, Any]:
    return value if type_of(value) is dict else dict(value)
