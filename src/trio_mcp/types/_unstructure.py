"""Hooks that make JSON objects out of generated classes, leaving out what a revision does not know."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias, get_args

from cattrs import Converter

from trio_mcp.types._faults import Unsendable, listed, type_of
from trio_mcp.types._members import building, is_model, members_of
from trio_mcp.types._model import NO_EXTRA, Model, Profile
from trio_mcp.types._plain import is_map, is_sequence
from trio_mcp.types._unions import is_union, python_types

__all__ = ["Emit", "register_unstructuring"]

Emit: TypeAlias = Callable[[Any], Any]
"""Takes a structured value and returns the JSON value, or raises `Unsendable`."""

_EmitterOf: TypeAlias = Callable[[Any], Emit]
"""Returns how values of the type of this one are sent."""


def register_unstructuring(converter: Converter, profile: Profile) -> Emit:
    """Make the converter unstructure classes as a revision's profile says.

    Returns:
        A function that unstructures whatever it is given, by what it is and not by what it was declared to be.
    """
    made: dict[type[Any], Emit] = {}

    def factory(cls: type[Model]) -> Emit:
        with building:
            return made.get(cls) or _unstructurer(cls, profile, emitter_of, made)

    def emitter_of(value: Any) -> Emit:
        if is_model(type_of(value)):
            return factory(type_of(value))
        if isinstance(value, Mapping):
            return emit_map
        return emit_items if _is_array(value) else _as_it_is

    def emit_any(value: Any) -> Any:
        emit = made.get(type_of(value)) or emitter_of(value)
        return emit(value)

    def emit_items(value: Sequence[Any]) -> list[Any]:
        return [emit_any(each) for each in value]

    def emit_map(value: Mapping[str, Any]) -> dict[str, Any]:
        # Looked into one level deep only: without messages in it, it is somebody's own JSON.
        holds_messages = any(is_model(type_of(each)) for each in value.values())
        return {name: emit_any(each) for name, each in value.items()} if holds_messages else _as_dict(value)

    converter.register_unstructure_hook_factory(is_model, factory)
    return emit_any


def _unstructurer(cls: type[Model], profile: Profile, emitter_of: _EmitterOf, made: dict[type[Any], Emit]) -> Emit:
    known = members_of(cls, profile)
    members = [
        (place, member.wire, member.unset, _emitter(member.kind, emitter_of)) for place, member in enumerate(known, 1)
    ]
    # Never one attribute alone, which a getter returns bare.
    fetch = attrgetter("extra", *(member.attribute for member in known), "extra")

    def unstructure(message: Any) -> dict[str, Any]:
        values = fetch(message)
        result: dict[str, Any] = {}
        wire = ""
        try:
            for place, wire, unset, emit in members:
                value = values[place]
                if value is not unset:
                    result[wire] = value if emit is None else emit(value)
        except Unsendable as problem:
            raise problem.inside(wire) from None
        extra = values[0]
        if extra is not NO_EXTRA and extra:
            # A member that has a name here wins over one put beside it.
            for wire, value in extra.items():
                result.setdefault(wire, value)
        return result

    made[cls] = unstructure
    return unstructure


class _Arm(NamedTuple):
    """One of the types that a member may have, and how its values are sent."""

    types: tuple[type[Any], ...]
    word: str
    emitter_of: _EmitterOf | None
    """None where a value is JSON already."""


def _emitter(kind: Any, emitter_of: _EmitterOf) -> Emit | None:
    """Return how values of a type are sent; None where all of them are JSON already."""
    arms = [_arm(arm, emitter_of) for arm in (get_args(kind) if is_union(kind) else (kind,))]
    if all(arm.emitter_of is None for arm in arms):
        return None
    by_type: dict[type[Any], Emit] = {}
    wanted = listed([arm.word for arm in arms])

    def choose(value: Any) -> Emit:
        for arm in arms:
            # A string is a sequence to Python and to nobody who sends messages.
            if isinstance(value, arm.types) and (str in arm.types or not isinstance(value, str | bytes)):
                return arm.emitter_of(value) if arm.emitter_of is not None else _as_it_is
        raise Unsendable(f"expected {wanted}, got {type_of(value).__name__}")

    def emit(value: Any) -> Any:
        found = by_type.get(type_of(value))
        if found is None:
            found = by_type[type_of(value)] = choose(value)
        return found(value)

    return emit


def _arm(kind: Any, emitter_of: _EmitterOf) -> _Arm:
    if is_model(kind):
        return _Arm((kind, dict), kind.__name__, emitter_of)  # a dict is taken to be JSON of such a message
    if is_sequence(kind):
        emit_items = _items_emitter(_emitter(get_args(kind)[0], emitter_of))
        return _Arm((Sequence,), "list", _always(emit_items))
    if is_map(kind):
        emit_map = _values_emitter(_emitter(get_args(kind)[1], emitter_of))
        return _Arm((Mapping,), "dict", _always(emit_map))
    scalars = (object,) if kind is Any else python_types(kind)
    return _Arm(scalars, " or ".join(each.__name__ for each in scalars), None)


def _items_emitter(item: Emit | None) -> Emit:
    if item is None:
        return lambda value: value if type_of(value) is list else list(value)

    def emit(value: Sequence[Any]) -> list[Any]:
        result: list[Any] = []
        try:
            for each in value:
                result.append(item(each))  # noqa: PERF401 - `map` would start the interpreter anew for each
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


def _always(emit: Emit) -> _EmitterOf:
    return lambda _value: emit


def _as_it_is(value: Any) -> Any:
    return value


def _as_dict(value: Any) -> dict[str, Any]:
    return value if type_of(value) is dict else dict(value)
