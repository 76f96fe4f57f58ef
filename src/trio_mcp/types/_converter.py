"""The conversion of JSON values to messages and back: the public functions, and the hooks of unstructuring.

There is one cattrs converter for each revision, created on first use.

The hooks of a class are created on first use and kept: a program needs a few dozen of them, and creating one takes
longer than a call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias, TypeVar, get_args, overload

from cattrs import Converter

from trio_mcp._errors import StructureError
from trio_mcp.types._faults import Mismatch, Unsendable, listed, type_of
from trio_mcp.types._model import NO_EXTRA, JSONValue, Model, Profile
from trio_mcp.types._structure_hooks import (
    building,
    is_map,
    is_model,
    is_sequence,
    is_union,
    members_of,
    python_types,
    register_plain,
    register_structuring,
    register_unions,
)
from trio_mcp.types._tables import PROFILES, REVISIONS, SUPERSET

__all__ = [
    "Emit",
    "profile_of",
    "register_unstructuring",
    "structure",
    "structurer",
    "unstructure",
    "unstructurer",
]


# --- Unstructuring: from generated classes to JSON objects ---

Emit: TypeAlias = Callable[[Any], Any]
"""A function that takes a structured value and returns the JSON value, or raises `Unsendable`."""

_EmitterOf: TypeAlias = Callable[[Any], Emit]
"""A function that returns the emitter for values of the type of its argument."""


def register_unstructuring(converter: Converter, profile: Profile) -> Emit:
    """Register the hooks that unstructure classes by the profile of a revision.

    Returns:
        A function that unstructures any value by its actual type.
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
        # Only the top level is checked: a dict without messages is JSON of the user.
        holds_messages = any(is_model(type_of(each)) for each in value.values())
        return {name: emit_any(each) for name, each in value.items()} if holds_messages else _as_dict(value)

    converter.register_unstructure_hook_factory(is_model, factory)
    return emit_any


def _unstructurer(cls: type[Model], profile: Profile, emitter_of: _EmitterOf, made: dict[type[Any], Emit]) -> Emit:
    known = members_of(cls, profile)
    members = [
        (place, member.wire, member.unset, _emitter(member.kind, emitter_of)) for place, member in enumerate(known, 1)
    ]
    # At least two attributes, because a getter of one attribute does not return a tuple.
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
            # A named member takes precedence over one in `extra`.
            for wire, value in extra.items():
                result.setdefault(wire, value)
        return result

    made[cls] = unstructure
    return unstructure


class _EmitArm(NamedTuple):
    """One of the types of a member, and the emitter of its values."""

    types: tuple[type[Any], ...]
    word: str
    emitter_of: _EmitterOf | None
    """None if the values are already JSON."""


def _emitter(kind: Any, emitter_of: _EmitterOf) -> Emit | None:
    """Return the emitter of a type; None if all its values are already JSON."""
    arms = [_arm(arm, emitter_of) for arm in (get_args(kind) if is_union(kind) else (kind,))]
    if all(arm.emitter_of is None for arm in arms):
        return None
    by_type: dict[type[Any], Emit] = {}
    wanted = listed([arm.word for arm in arms])

    def choose(value: Any) -> Emit:
        for arm in arms:
            # In Python a string is a sequence, but it is not a JSON array.
            if isinstance(value, arm.types) and (str in arm.types or not isinstance(value, str | bytes)):
                return arm.emitter_of(value) if arm.emitter_of is not None else _as_it_is
        raise Unsendable(f"expected {wanted}, got {type_of(value).__name__}")

    def emit(value: Any) -> Any:
        found = by_type.get(type_of(value))
        if found is None:
            found = by_type[type_of(value)] = choose(value)
        return found(value)

    return emit


def _arm(kind: Any, emitter_of: _EmitterOf) -> _EmitArm:
    if is_model(kind):
        return _EmitArm((kind, dict), kind.__name__, emitter_of)  # a dict is sent as the JSON of the message
    if is_sequence(kind):
        emit_items = _items_emitter(_emitter(get_args(kind)[0], emitter_of))
        return _EmitArm((Sequence,), "list", _always(emit_items))
    if is_map(kind):
        emit_map = _values_emitter(_emitter(get_args(kind)[1], emitter_of))
        return _EmitArm((Mapping,), "dict", _always(emit_map))
    scalars = (object,) if kind is Any else python_types(kind)
    return _EmitArm(scalars, " or ".join(each.__name__ for each in scalars), None)


def _items_emitter(item: Emit | None) -> Emit:
    if item is None:
        return lambda value: value if type_of(value) is list else list(value)

    def emit(value: Sequence[Any]) -> list[Any]:
        result: list[Any] = []
        try:
            for each in value:
                result.append(item(each))  # noqa: PERF401 - `map` would start the interpreter again for each item
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
    """Return True if a value stands for a JSON array; a string does not."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _always(emit: Emit) -> _EmitterOf:
    return lambda _value: emit


def _as_it_is(value: Any) -> Any:
    return value


def _as_dict(value: Any) -> dict[str, Any]:
    return value if type_of(value) is dict else dict(value)


T = TypeVar("T")


@overload
def structure(value: JSONValue, cls: type[T], *, revision: str | None = None) -> T: ...
@overload
def structure(value: JSONValue, cls: Any, *, revision: str | None = None) -> Any: ...
def structure(value: JSONValue, cls: Any, *, revision: str | None = None) -> Any:
    """Return the message that a JSON value describes, without coercing any value.

    No value is converted to another type: `"3"` is not 3, `True` is not 1, and the ids 1 and `"1"` stay distinct. Only
    an integer may be written `2.0`. Members that the class or the revision does not name are kept in `extra`. Null for
    an optional member counts as absent. In capabilities, a member of the wrong type is kept in `extra` too. The user's
    own JSON (arguments, tool schemas, structured content, `_meta`) is used as it is, without a copy.

    Args:
        value: the decoded JSON: dicts, lists, strings, numbers, booleans and None.
        cls: one of the classes of this module, or one of its unions, such as `ContentBlock`.
        revision: the protocol revision whose rules apply; None for those of all revisions together.

    Raises:
        StructureError: the value does not fit, which is the fault of its sender. The message names every fault by its
            path.
        ValueError: the revision is unknown.
    """
    return _structurer(cls, revision)(value)


def unstructure(obj: Any, *, revision: str | None = None) -> JSONValue:
    """Return the JSON value of a message: the inverse of `structure`.

    Optional members that are None (or `UNSET`) are omitted; members in `extra` are included.

    Args:
        obj: a message, or a list of messages. Only members that hold messages, lists or maps are checked. A dict in
            place of a message is sent as it is. Other members are not checked.
        revision: the protocol revision of the receiver: members that it does not name are dropped. None keeps all.

    Raises:
        TypeError: a value of another type stands in place of a message. The error names it by its path.
        ValueError: the revision is unknown.
    """
    return _codec(revision).emit(obj)


@overload
def structurer(cls: type[T], revision: str | None = None) -> Callable[[JSONValue], T]: ...
@overload
def structurer(cls: Any, revision: str | None = None) -> Callable[[JSONValue], Any]: ...
def structurer(cls: Any, revision: str | None = None) -> Callable[[JSONValue], Any]:
    """Return `structure` for one class and revision, for code that calls it often.

    Raises:
        ValueError: the revision is unknown. The returned function raises as `structure` does.
    """
    return _structurer(cls, revision)


@overload
def unstructurer(cls: type[T], revision: str | None = None) -> Callable[[T], JSONValue]: ...
@overload
def unstructurer(cls: Any, revision: str | None = None) -> Callable[[Any], JSONValue]: ...
def unstructurer(cls: Any, revision: str | None = None) -> Callable[[Any], JSONValue]:
    """Return `unstructure` for one class and revision, for code that calls it often.

    Raises:
        ValueError: the revision is unknown. The returned function raises as `unstructure` does.
    """
    codec = _codec(revision)
    return codec.converter.get_unstructure_hook(cls) if is_model(cls) else codec.emit


@cache
def _structurer(cls: Any, revision: str | None) -> Callable[[JSONValue], Any]:
    hook = _codec(revision).converter.get_structure_hook(cls)
    name = cls.__name__ if isinstance(cls, type) else re.sub(r"\btrio_mcp(\.\w+)*\.", "", str(cls))

    def structure_one(value: JSONValue) -> Any:
        try:
            return hook(value, cls)
        except Mismatch as problem:
            raise StructureError(name, problem.lines()) from None
        except RecursionError:
            raise StructureError(name, ["$: nested too deeply"]) from None

    return structure_one


def profile_of(revision: str | None) -> Profile:
    """Return the rules of a revision; for None, those of all revisions together.

    Raises:
        ValueError: the revision is unknown.
    """
    if revision is None:
        return SUPERSET
    if revision not in PROFILES:
        raise ValueError(f"unknown protocol revision {revision!r}; known are {', '.join(REVISIONS)}")
    return PROFILES[revision]


class _Codec(NamedTuple):
    converter: Converter
    emit: Emit


@cache
def _codec(revision: str | None) -> _Codec:
    profile = profile_of(revision)
    converter = Converter()
    register_plain(converter)
    register_unions(converter, profile)
    register_structuring(converter, profile)
    return _Codec(converter, register_unstructuring(converter, profile))
