"""Reads the classes whose JSON form is an object: their members, names on the wire, defaults and constructor.

One reader per kind of class, all returning the same `ObjectSpec`, so that `_annotations` and `_annotations_dump`
need not know what kind it was. Nothing here knows JSON Schema.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final, get_args, get_origin

import attrs
import msgspec

__all__ = ["MISSING", "Member", "ObjectSpec", "is_named_tuple", "is_pydantic_model", "read_object", "resolve_hints"]

MISSING: Final = object()
"""Stands for a default that is absent, or computed anew each time."""

_QUALIFIERS: Final = ("Required", "NotRequired", "ReadOnly")


@attrs.frozen
class Member:
    """One member of an object."""

    wire: str
    """Its name in JSON."""

    keyword: str
    """Its name as an argument of the constructor."""

    attribute: str
    """Its name on the instance."""

    annotation: Any
    required: bool
    default: Any = MISSING
    accepted: bool = True
    """Whether the constructor takes it; otherwise it occurs in results only."""


@attrs.frozen
class ObjectSpec:
    """A class whose JSON form is an object."""

    construct: Callable[..., Any]
    members: tuple[Member, ...]
    tag: tuple[str, str | int] | None = None
    """Name and value of the member by which a msgspec class is told from others."""


def is_pydantic_model(cls: Any) -> bool:
    """Say whether `cls` is a pydantic model, without importing pydantic."""
    return isinstance(cls, type) and hasattr(cls, "model_json_schema") and hasattr(cls, "model_validate_json")


def is_named_tuple(cls: Any) -> bool:
    """Say whether `cls` is a named tuple, of either making."""
    return isinstance(cls, type) and tuple in cls.__mro__ and hasattr(cls, "_fields")


def read_object(cls: Any, namespace: Mapping[str, Any]) -> ObjectSpec | None:
    """Read a class; None if its JSON form is not an object.

    Args:
        cls: a dataclass, attrs class, TypedDict, NamedTuple or `msgspec.Struct`.
        namespace: names its annotations may use beside those of its module.

    Raises:
        NameError: an annotation names what is not there.
    """
    for is_kind, read in _READERS:
        if is_kind(cls):
            return read(cls, namespace)
    return None


def resolve_hints(owner: Any, namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Return the annotations of a class or function, those written as strings evaluated.

    Raises:
        NameError: a string names what is neither in the module nor in `namespace`.
    """
    return typing.get_type_hints(owner, localns=dict(namespace), include_extras=True)


def _read_dataclass(cls: Any, namespace: Mapping[str, Any]) -> ObjectSpec:
    hints = resolve_hints(cls, namespace)
    for name, hint in hints.items():
        if isinstance(hint, dataclasses.InitVar):
            raise TypeError(f"{cls.__name__}.{name} is an InitVar, which no JSON form can give back")
    members = (
        Member(
            wire=field.name,
            keyword=field.name,
            attribute=field.name,
            annotation=hints[field.name],
            required=field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
            default=MISSING if field.default is dataclasses.MISSING else field.default,
            accepted=field.init,
        )
        for field in dataclasses.fields(cls)
    )
    return ObjectSpec(cls, tuple(members))


def _read_attrs(cls: Any, namespace: Mapping[str, Any]) -> ObjectSpec:
    hints = resolve_hints(cls, namespace)
    members = (
        Member(
            wire=field.alias,
            keyword=field.alias,
            attribute=field.name,
            annotation=hints.get(field.name, Any if field.type is None else field.type),
            required=field.default is attrs.NOTHING,
            default=MISSING if isinstance(field.default, attrs.Factory) else _without_nothing(field.default),  # type: ignore[arg-type]
            accepted=field.init,
        )
        for field in attrs.fields(cls)
    )
    return ObjectSpec(cls, tuple(members))


def _without_nothing(default: Any) -> Any:
    return MISSING if default is attrs.NOTHING else default


def _read_struct(cls: Any, _namespace: Mapping[str, Any]) -> ObjectSpec:
    members = (
        Member(
            wire=field.encode_name,
            keyword=field.name,
            attribute=field.name,
            annotation=field.type,
            required=field.required,
            default=MISSING if field.default in (msgspec.NODEFAULT, msgspec.UNSET) else field.default,
        )
        for field in msgspec.structs.fields(cls)
    )
    config = cls.__struct_config__
    tag = None if config.tag is None else (config.tag_field, config.tag)
    return ObjectSpec(cls, tuple(members), tag)


def _read_typed_dict(cls: Any, namespace: Mapping[str, Any]) -> ObjectSpec:
    members: list[Member] = []
    for name, hint in resolve_hints(cls, namespace).items():
        # Where annotations are strings, __required_keys__ has not seen the qualifiers.
        required = name in cls.__required_keys__
        bare = hint
        while (qualifier := getattr(get_origin(bare), "_name", None)) in _QUALIFIERS:
            required = {"Required": True, "NotRequired": False}.get(str(qualifier), required)
            (bare,) = get_args(bare)
        members.append(Member(name, name, name, bare, required))
    return ObjectSpec(dict, tuple(members))


def _read_named_tuple(cls: Any, namespace: Mapping[str, Any]) -> ObjectSpec:
    hints = resolve_hints(cls, namespace)
    defaults = cls._field_defaults
    members = (
        Member(name, name, name, hints.get(name, Any), name not in defaults, defaults.get(name, MISSING))
        for name in cls._fields
    )
    return ObjectSpec(cls, tuple(members))


def _is_struct(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, msgspec.Struct)


def _is_dataclass(cls: Any) -> bool:
    return isinstance(cls, type) and dataclasses.is_dataclass(cls)


def _is_attrs(cls: Any) -> bool:
    return isinstance(cls, type) and attrs.has(cls)


def _is_typed_dict(cls: Any) -> bool:
    # typing.is_typeddict does not know those of typing_extensions on every Python.
    return isinstance(cls, type) and dict in cls.__mro__ and hasattr(cls, "__required_keys__")


_READERS: Final[tuple[tuple[Callable[[Any], bool], Callable[[Any, Mapping[str, Any]], ObjectSpec]], ...]] = (
    (_is_struct, _read_struct),
    (_is_attrs, _read_attrs),
    (_is_dataclass, _read_dataclass),
    (is_named_tuple, _read_named_tuple),
    (_is_typed_dict, _read_typed_dict),
)
