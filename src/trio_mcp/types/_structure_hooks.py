"""The hooks that structure: they turn JSON values into typed values and generated classes, without any coercion.

Rules of this file:

1. No hook coerces a value. The only conversion is that of JSON itself: an integer may be written `2.0`, and becomes 2.
2. A union is resolved from its arms alone: by JSON type, then by a tag, then by the members that are present.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import UnionType
from typing import Any, Final, Literal, NamedTuple, TypeAlias, Union, cast, get_args, get_origin

import attrs
from cattrs import Converter

from trio_mcp.types._faults import Mismatch, kind_of, listed, quoted, type_of
from trio_mcp.types._model import UNSET, Bounds, Model, Profile
from trio_mcp.types._tables import LENIENT, WIRE_NAMES

__all__ = [
    "Hook",
    "ModelMember",
    "bounded",
    "building",
    "hook_of",
    "is_map",
    "is_model",
    "is_sequence",
    "is_union",
    "literal_hook",
    "members_of",
    "plain_type",
    "python_types",
    "register_plain",
    "register_structuring",
    "register_unions",
    "table_name",
]

building: Final = threading.RLock()
"""A lock held while a hook is created: handlers in worker threads convert too, and must not use an unfinished hook."""

_GENERATED: Final = f"{__package__}._generated."
"""The prefix of the names of the generated modules."""

_ALWAYS_SENT: Final = object()
"""A value that is not equal to the value of any member."""


class ModelMember(NamedTuple):
    """A member of a class in one revision."""

    attribute: str
    wire: str
    kind: Any
    """Its type, without the None that only marks the member as optional."""
    required: bool
    null_is_absent: bool
    unset: Any
    """The value that means absent and is not sent."""
    bounds: Bounds | None


def members_of(cls: type[Model], profile: Profile) -> list[ModelMember]:
    """Return the members that a class has in a revision."""
    name = table_name(cls)
    names = WIRE_NAMES.get(name, {})
    required_here = profile.required.get(name, ())
    unknown_here = profile.unknown.get(name, ())
    bounds_here = profile.bounds.get(name, {})
    attrs.resolve_types(cls)
    members: list[ModelMember] = []
    for each in attrs.fields(cls):
        wire = names.get(each.name) or each.metadata.get("wire") or _camel_case(each.name)
        if each.name == "extra" or wire in unknown_here:
            continue
        optional = each.default is None
        required = wire in required_here or not (optional or each.default is UNSET)
        members.append(
            ModelMember(
                attribute=each.name,
                wire=wire,
                kind=_without_none(each.type) if optional else each.type,
                required=required,
                null_is_absent=optional and not required,
                unset=each.default if optional or each.default is UNSET else _ALWAYS_SENT,
                bounds=bounds_here.get(wire) or each.metadata.get("bounds"),
            )
        )
    return members


def table_name(cls: type[Model]) -> str:
    """Return the name of a class in the tables: for a subclass of a user, the name of the class that it extends.

    A class outside the core is in no table, even if one of the core has the same name.
    """
    core = (each.__name__ for each in cls.__mro__ if each.__module__.startswith(_GENERATED))
    return next(core, f"{cls.__module__}.{cls.__qualname__}")


def _camel_case(attribute: str) -> str:
    first, *rest = attribute.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _without_none(kind: Any) -> Any:
    return Union[tuple(arm for arm in get_args(kind) if arm is not type(None))]  # noqa: UP007 - the arms are a tuple


def is_model(kind: Any) -> bool:
    """Return True if a type is a generated class."""
    return isinstance(kind, type) and issubclass(kind, Model)


# --- Scalars, literals, arrays, maps and limits ---

Hook: TypeAlias = Callable[[Any, Any], Any]
"""A function of a JSON value and (from cattrs) its type that returns a structured value or raises `Mismatch`."""


def register_plain(converter: Converter) -> None:
    """Replace the hooks of cattrs for every type that is not a class."""
    converter.register_structure_hook(str, structure_string)
    converter.register_structure_hook(int, structure_integer)
    converter.register_structure_hook(float, structure_number)
    converter.register_structure_hook(bool, structure_boolean)
    converter.register_structure_hook(type(None), structure_null)
    converter.register_structure_hook_factory(_is_literal, literal_hook)
    converter.register_structure_hook_factory(is_sequence, partial(_array_hook, converter=converter))
    converter.register_structure_hook_factory(is_map, partial(_map_hook, converter=converter))


def hook_of(converter: Converter, kind: Any) -> Hook | None:
    """Return the hook for a type, or None if every JSON value fits."""
    return None if kind is Any else converter.get_structure_hook(kind)


def plain_type(kind: Any) -> type[Any] | None:
    """Return the Python type whose values fit a type unchanged; None if the hook must check every value."""
    if kind in {str, int, float, bool}:
        return cast("type[Any]", kind)
    if is_map(kind) and get_args(kind)[1] is Any:
        return dict
    return list if is_sequence(kind) and get_args(kind)[0] is Any else None


def structure_string(value: Any, _: Any = None) -> Any:
    """Accept a JSON string."""
    if type_of(value) is str:
        return value
    raise Mismatch.expected("string", value)


def structure_integer(value: Any, _: Any = None) -> Any:
    """Accept a JSON integer, even with a fraction of zero."""
    if type_of(value) is int:
        return value
    if type_of(value) is float and value.is_integer():
        return int(value)
    raise Mismatch.expected("integer", value)


def structure_number(value: Any, _: Any = None) -> Any:
    """Accept a JSON number; an integer of any size stays an integer."""
    if type_of(value) is float or type_of(value) is int:
        return value
    raise Mismatch.expected("number", value)


def structure_boolean(value: Any, _: Any = None) -> Any:
    """Accept true and false."""
    if type_of(value) is bool:
        return value
    raise Mismatch.expected("boolean", value)


def structure_null(value: Any, _: Any = None) -> None:
    """Accept null."""
    if value is not None:
        raise Mismatch.expected("null", value)


def _is_literal(kind: Any) -> bool:
    return get_origin(kind) is Literal


def is_sequence(kind: Any) -> bool:
    """Return True if a type stands for a JSON array."""
    return get_origin(kind) in {list, Sequence}


def is_map(kind: Any) -> bool:
    """Return True if a type stands for a JSON object without named members."""
    return get_origin(kind) in {dict, Mapping}


def literal_hook(kind: Any) -> Hook:
    """Return the hook for a Literal of strings, or of one integer."""
    allowed = {each: each for each in get_args(kind)}
    python_kinds = python_types(kind)
    choices = sorted(map(repr, allowed))
    wanted = choices[0] if len(choices) == 1 else f"one of {', '.join(choices)}"

    def structure(value: Any, _: Any = None) -> Any:
        # The type is checked first: True equals 1, and a list is not hashable.
        if type_of(value) in python_kinds and value in allowed:
            return allowed[value]
        raise Mismatch(f"expected {wanted}, got {quoted(value)}")

    return structure


def _array_hook(kind: Any, converter: Converter) -> Hook:
    hook = hook_of(converter, get_args(kind)[0])

    def structure(value: Any, _: Any = None) -> Any:
        if type_of(value) is not list:
            raise Mismatch.expected("array", value)
        if hook is None:
            return value
        try:
            return [hook(item, None) for item in value]
        except Mismatch:
            raise _all_faults(enumerate(value), hook) from None

    return structure


def _map_hook(kind: Any, converter: Converter) -> Hook:
    hook = hook_of(converter, get_args(kind)[1])

    def structure(value: Any, _: Any = None) -> Any:
        if type_of(value) is not dict:
            raise Mismatch.expected("object", value)
        if hook is None:
            return value
        try:
            return {name: hook(item, None) for name, item in value.items()}
        except Mismatch:
            raise _all_faults(value.items(), hook) from None

    return structure


def _all_faults(items: Any, hook: Hook) -> Mismatch:
    """Check all items again after one did not fit, and return the faults of each."""
    problem = Mismatch()
    for step, item in items:
        try:
            hook(item, None)
        except Mismatch as inner:
            problem.add(step, inner)
    return problem


def bounded(hook: Hook, bounds: Bounds) -> Hook:
    """Return a hook that also enforces limits. A limit is not applied to values of other types."""

    def structure(value: Any, _: Any = None) -> Any:
        structured = hook(value, None)
        if type_of(structured) in {int, float}:
            _check_size(structured, bounds.minimum, bounds.maximum, "")
        elif type_of(structured) in {str, list}:
            _check_size(len(structured), bounds.min_length, bounds.max_length, "a length of ")
        return structured

    return structure


def _check_size(size: float, least: float | None, most: float | None, measure: str) -> None:
    if least is not None and not size >= least:
        raise Mismatch(f"expected {measure}at least {least}, got {measure}{quoted(size)}")
    if most is not None and not size <= most:
        raise Mismatch(f"expected {measure}at most {most}, got {measure}{quoted(size)}")


# --- Unions ---


def register_unions(converter: Converter, profile: Profile) -> None:
    """Register the hooks for unions of types that the converter can structure."""
    converter.register_structure_hook_factory(is_union, partial(_union_hook, converter=converter, profile=profile))


def is_union(kind: Any) -> bool:
    """Return True if a type is a union."""
    return get_origin(kind) in {Union, UnionType}


def _union_hook(kind: Any, converter: Converter, profile: Profile) -> Hook:
    """Return a hook that chooses the arms of the value's JSON type and tries them."""
    by_kind: dict[type[Any], list[Hook]] = {}
    models = [arm for arm in get_args(kind) if is_model(arm)]
    others = [arm for arm in get_args(kind) if not is_model(arm)]
    if not others:
        return _object_hook(models, converter, profile)
    if models:
        by_kind[dict] = [_object_hook(models, converter, profile)]
    # A number with a fraction of zero stays a float if the union allows any number.
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
    float: "integer",  # with a fraction of zero
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
    """Return the Python types whose values may fit a type that is neither a class nor a union."""
    if is_sequence(arm):
        return (list,)
    if is_map(arm):
        return (dict,)
    if get_origin(arm) is Literal:
        arm = type_of(get_args(arm)[0])
    return (int, float) if arm in {int, float} else (arm,)


def _object_hook(models: list[type[Model]], converter: Converter, profile: Profile) -> Hook:
    """Return a hook that rejects values other than objects, and finds the class of an object."""
    if len(models) == 1:
        return converter.get_structure_hook(models[0])
    arms = [_arm(model, converter, profile) for model in models]
    for wire in arms[0].tags:
        if all(wire in arm.tags for arm in arms):
            values = [value for arm in arms for value in arm.tags[wire]]
            if len(values) == len(set(values)):
                return _tagged_hook(wire, arms)
    return _shaped_hook(arms)


class _UnionArm(NamedTuple):
    hook: Hook
    known: frozenset[str]
    required: frozenset[str]
    tags: dict[str, tuple[str, ...]]


def _arm(model: type[Model], converter: Converter, profile: Profile) -> _UnionArm:
    members = members_of(model, profile)
    return _UnionArm(
        hook=converter.get_structure_hook(model),
        known=frozenset(member.wire for member in members),
        required=frozenset(member.wire for member in members if member.required),
        tags={member.wire: get_args(member.kind) for member in members if _is_tag(member.kind)},
    )


def _is_tag(kind: Any) -> bool:
    return get_origin(kind) is Literal and python_types(kind) == (str,)


def _tagged_hook(wire: str, arms: list[_UnionArm]) -> Hook:
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


def _shaped_hook(arms: list[_UnionArm]) -> Hook:
    """Return a hook that tries the arms in the order of how many members of the object they explain."""

    def structure(value: Any, _: Any = None) -> Any:
        if type_of(value) is not dict:
            raise Mismatch.expected("object", value)
        present = value.keys()
        meant = {wire for wire, item in value.items() if item is not None}  # null may mean absent

        def fit(arm: _UnionArm) -> tuple[int, int]:
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


# --- Classes ---

_Slot: TypeAlias = tuple[str, type[Any] | None, Hook | None, bool, int]
"""A member: its attribute, the type whose values need no hook (None for most members), the hook (None if any value
fits), True if null means absent, and 1 if the member is required."""


def register_structuring(converter: Converter, profile: Profile) -> None:
    """Register the hooks that structure classes by the profile of a revision."""
    made: dict[type[Model], Hook] = {}

    def factory(cls: type[Model]) -> Hook:
        with building:
            return made.get(cls) or _structurer_of_class(cls, converter, profile, made)

    converter.register_structure_hook_factory(is_model, factory)


def _structurer_of_class(
    cls: type[Model], converter: Converter, profile: Profile, made: dict[type[Model], Hook]
) -> Hook:
    name = table_name(cls)
    members: dict[str, _Slot] = {}
    known = members_of(cls, profile)
    required = frozenset(member.wire for member in known if member.required)
    resolve = _keep if name in LENIENT else _refuse

    def structure(value: Any, _: Any = None) -> Any:
        if type_of(value) is not dict:
            raise Mismatch.expected("object", value)
        found: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        problem = None
        met = 0
        for wire, item in value.items():
            slot = members.get(wire)
            if slot is None:
                extra[wire] = item
                continue
            attribute, plain, hook, null_is_absent, counts = slot
            met += counts
            if type_of(item) is plain or hook is None:
                found[attribute] = item
            elif item is not None or not null_is_absent:
                try:
                    found[attribute] = hook(item, None)
                except Mismatch as inner:
                    problem = resolve(problem, wire, item, inner, extra)
        if problem is not None or met != len(required):
            try:
                raise _with_missing(problem or Mismatch(), required - value.keys())
            finally:
                del problem  # breaks the reference cycle of the exception and this frame
        if extra:
            found["extra"] = extra
        return cls(**found)

    made[cls] = structure  # before the members, which may contain the same class
    members.update((member.wire, _slot(member, converter)) for member in known)
    return structure


def _slot(member: ModelMember, converter: Converter) -> _Slot:
    hook, plain = hook_of(converter, member.kind), plain_type(member.kind)
    if hook is not None and member.bounds is not None:
        hook, plain = bounded(hook, member.bounds), None
    return (member.attribute, plain, hook, member.null_is_absent, int(member.required))


def _refuse(
    problem: Mismatch | None, wire: str, _item: Any, inner: Mismatch, _extra: dict[str, Any]
) -> Mismatch | None:
    problem = problem or Mismatch()
    problem.add(wire, inner)
    return problem


def _keep(problem: Mismatch | None, wire: str, item: Any, _inner: Mismatch, extra: dict[str, Any]) -> Mismatch | None:
    """Treat a member of the wrong type as an unknown member."""
    extra[wire] = item
    return problem


def _with_missing(problem: Mismatch, missing: frozenset[str]) -> Mismatch:
    for wire in sorted(missing):
        problem.add(None, Mismatch(f"required member '{wire}' is missing"))
    return problem
