"""Hooks that make JSON objects out of generated classes, leaving out what a revision does not know."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias, cast, get_args

from cattrs import Converter

from trio_mcp.types._faults import Unsendable, listed, type_of
from trio_mcp.types._members import building, is_model, members_of
from trio_mcp.types._model import Model, Profile
from trio_mcp.types._plain import is_map, is_sequence
from trio_mcp.types._unions import is_union, python_types

__all__ = ["Emit", "register_unstructuring"]

Emit: TypeAlias = Callable[[Any], Any]
"""Takes a structured value and returns the JSON value, or raises `Unsendable`."""


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
        wire = ""
        try:
            for value, (wire, emit, unset) in zip(values, members, strict=False):
                if value is not unset:
                    result[wire] = value if emit is None else emit(value)
        except Unsendable as problem:
            raise problem.inside(wire) from None
        if values[-1]:
            # A member that has a name here wins over one put beside it.
            for wire, value in values[-1].items():
                result.setdefault(wire, value)
        return result

    made[cls] = unstructure
    return unstructure


class _Arm(NamedTuple):
    """One of the types that a member may have, and how its values are sent."""

    types: tuple[type[Any], ...]
    word: str
    emit: Emit | None
    """None where a value is JSON already."""


def _emitter(kind: Any, emit_any: Emit) -> Emit | None:
    """Return how values of a type are sent; None where all of them are JSON already."""
    arms = [_arm(arm, emit_any) for arm in (get_args(kind) if is_union(kind) else (kind,))]
    if all(arm.emit is None for arm in arms):
        return None
    by_type: dict[type[Any], Emit] = {}
    wanted = listed([arm.word for arm in arms])

    def choose(value: Any) -> Emit:
        for arm in arms:
            # A string is a sequence to Python and to nobody who sends messages.
            if isinstance(value, arm.types) and (str in arm.types or not isinstance(value, str | bytes)):
                return arm.emit or _as_it_is
        raise Unsendable(f"expected {wanted}, got {type_of(value).__name__}")

    def emit(value: Any) -> Any:
        found = by_type.get(type_of(value))
        if found is None:
            found = by_type[type_of(value)] = choose(value)
        return found(value)

    return emit


def _arm(kind: Any, emit_any: Emit) -> _Arm:
    if is_model(kind):
        return _Arm((kind, dict), kind.__name__, emit_any)  # a dict is taken to be JSON of such a message
    if is_sequence(kind):
        return _Arm((Sequence,), "list", _items_emitter(_emitter(get_args(kind)[0], emit_any)))
    if is_map(kind):
        return _Arm((Mapping,), "dict", _values_emitter(_emitter(get_args(kind)[1], emit_any)))
    scalars = (object,) if kind is Any else python_types(kind)
    return _Arm(scalars, " or ".join(each.__name__ for each in scalars), None)


def _items_emitter(item: Emit | None) -> Emit:
    if item is None:
        return lambda value: value if type_of(value) is list else list(value)

    def emit(value: Sequence[Any]) -> list[Any]:
        result: list[Any] = []
        try:
            result.extend(map(item, value))
        except Unsendable as problem:
            raise problem.inside(len(result)) from None
        return result

    return emit


def _values_emitter(value_emitter: Emit | None) -> Emit:
    if value_emitter is None:
        return _as_dict

    def emit(value: Mapping[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        name = ""
        try:
            for name, each in value.items():
                result[name] = value_emitter(each)
        except Unsendable as problem:
            raise problem.inside(name) from None
        return result

    return emit


def _is_array(value: Any) -> bool:
    """Say whether a value stands for a JSON array; a string is a sequence to Python alone."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _as_it_is(value: Any) -> Any:
    return value


def _as_dict(value: Any) -> dict[str, Any]:
    return value if type_of(value) is dict else dict(value)
