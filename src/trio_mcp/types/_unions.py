"""Hooks for unions, found from the arms alone: by JSON kind, then by a tag, then by which members are there."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from types import UnionType
from typing import Any, Final, Literal, NamedTuple, Union, get_args, get_origin

from cattrs import Converter

from trio_mcp.types._faults import Mismatch, kind_of, listed, quoted, type_of
from trio_mcp.types._members import is_model, members_of
from trio_mcp.types._model import Model, Profile
from trio_mcp.types._plain import Hook, is_map, is_sequence

__all__ = ["is_union", "python_types", "register_unions"]


def register_unions(converter: Converter, profile: Profile) -> None:
    """Make the converter structure unions of anything it can structure."""
    converter.register_structure_hook_factory(is_union, partial(_union_hook, converter=converter, profile=profile))


def is_union(kind: Any) -> bool:
    """Say whether a type is several types."""
    return get_origin(kind) in {Union, UnionType}


def _union_hook(kind: Any, converter: Converter, profile: Profile) -> Hook:
    """Return a hook that looks at the value's JSON kind, and asks the one arm, or the arms, of that kind."""
    by_kind: dict[type[Any], list[Hook]] = {}
    models = [arm for arm in get_args(kind) if is_model(arm)]
    others = [arm for arm in get_args(kind) if not is_model(arm)]
    if not others:
        return _object_hook(models, converter, profile)
    if models:
        by_kind[dict] = [_object_hook(models, converter, profile)]
    # A number with a fraction of zero stays one where any number is allowed.
    for arm in sorted(others, key=lambda arm: arm is not float):
        for python_type in python_types(arm):
            by_kind.setdefault(python_type, []).append(converter.get_structure_hook(arm))
    hooks = {python_type: _first_that_fits(arms) for python_type, arms in by_kind.items()}
    words = {**_WORDS, int: "number", float: "number"} if float in others else _WORDS
    wanted = listed(sorted({words[each] for each in hooks}))

    def structure(value: Any, _: Any = None) -> Any:
        hook = hooks.get(type_of(value))
        if hook is None:
            raise Mismatch(f"expected {wanted}, got {kind_of(value)}")
        return hook(value, None)

    return structure


_WORDS: Final[dict[type[Any], str]] = {
    bool: "boolean",
    dict: "object",
    float: "integer",  # written with a fraction of zero
    int: "integer",
    list: "array",
    str: "string",
    type(None): "null",
}


def _first_that_fits(hooks: list[Hook]) -> Hook:
    if len(hooks) == 1:
        return hooks[0]

    def structure(value: Any, _: Any = None) -> Any:
        *others, last = hooks
        for hook in others:
            with suppress(Mismatch):
                return hook(value, None)
        return last(value, None)

    return structure


def python_types(arm: Any) -> tuple[type[Any], ...]:
    """Return the Python types whose values are worth trying as a type that is neither a class nor a union."""
    if is_sequence(arm):
        return (list,)
    if is_map(arm):
        return (dict,)
    if get_origin(arm) is Literal:
        return (str,)
    return (int, float) if arm in {int, float} else (arm,)


def _object_hook(models: list[type[Model]], converter: Converter, profile: Profile) -> Hook:
    """Return a hook that refuses what is no object, and finds the class an object is meant to be."""
    if len(models) == 1:
        return converter.get_structure_hook(models[0])
    arms = [_arm(model, converter, profile) for model in models]
    for wire in arms[0].tags:
        if all(wire in arm.tags for arm in arms):
            values = [value for arm in arms for value in arm.tags[wire]]
            if len(values) == len(set(values)):
                return _tagged_hook(wire, arms)
    return _shaped_hook(arms)


class _Arm(NamedTuple):
    hook: Hook
    known: frozenset[str]
    required: frozenset[str]
    tags: dict[str, tuple[str, ...]]


def _arm(model: type[Model], converter: Converter, profile: Profile) -> _Arm:
    members = members_of(model, profile)
    return _Arm(
        hook=converter.get_structure_hook(model),
        known=frozenset(member.wire for member in members),
        required=frozenset(member.wire for member in members if member.required),
        tags={member.wire: get_args(member.kind) for member in members if get_origin(member.kind) is Literal},
    )


def _tagged_hook(wire: str, arms: list[_Arm]) -> Hook:
    by_tag = {value: arm.hook for arm in arms for value in arm.tags[wire]}
    untagged = next((arm.hook for arm in arms if wire not in arm.required), None)
    wanted = f"one of {', '.join(map(repr, by_tag))}"

    def structure(value: Any, _: Any = None) -> Any:
        if type_of(value) is not dict:
            raise Mismatch.expected("object", value)
        tag = value.get(wire)
        hook = by_tag.get(tag) if type_of(tag) is str else None
        if hook is not None:
            return hook(value, None)
        if tag is None and untagged is not None:
            return untagged(value, None)
        if wire in value:
            raise Mismatch(f"expected {wanted}, got {quoted(tag)}").inside(wire)
        raise Mismatch(f"required member '{wire}' is missing")

    return structure


def _shaped_hook(arms: list[_Arm]) -> Hook:
    """Return a hook that tries the arms, the one that explains most of the object first."""

    def structure(value: Any, _: Any = None) -> Any:
        if type_of(value) is not dict:
            raise Mismatch.expected("object", value)
        present = value.keys()
        meant = {wire for wire, item in value.items() if item is not None}  # null counts as left out, where it may be

        def fit(arm: _Arm) -> tuple[int, int]:
            complete = present >= arm.required
            return (len(arm.required) if complete else -len(arm.required - present), len(arm.known & meant))

        first: Mismatch | None = None
        for arm in sorted(arms, key=fit, reverse=True):
            try:
                return arm.hook(value, None)
            except Mismatch as problem:
                first = first or problem
        assert first is not None, "a union has arms"
        try:
            raise first
        finally:
            del first  # which holds this frame by its traceback, as this frame would hold it

    return structure
