"""The members of a generated class as one revision sees them: what both directions of the conversion are made from."""

from __future__ import annotations

import threading
from typing import Any, Final, NamedTuple, Union, get_args

import attrs

from trio_mcp.types._model import UNSET, Model, Profile
from trio_mcp.types._tables import WIRE_NAMES

__all__ = ["Member", "building", "is_model", "members_of", "table_name"]

building: Final = threading.RLock()
"""Held while a hook is made: handlers in worker threads convert too, and must not meet a half-made one."""

_GENERATED: Final = f"{__package__}._generated."
"""What the names of the generated modules begin with."""

_ALWAYS_SENT: Final = object()
"""Equal to no member's value."""


class Member(NamedTuple):
    """One member of a class, as one revision sees it."""

    attribute: str
    wire: str
    kind: Any
    """Its type, without the None that only says that it may be absent."""
    required: bool
    null_is_absent: bool
    unset: Any
    """The value that is not sent."""


def members_of(cls: type[Model], profile: Profile) -> list[Member]:
    """Return the members that a revision knows of a class."""
    name = table_name(cls)
    names = WIRE_NAMES.get(name, {})
    required_here = profile.required.get(name, ())
    unknown_here = profile.unknown.get(name, ())
    attrs.resolve_types(cls)
    members: list[Member] = []
    for each in attrs.fields(cls):
        wire = names.get(each.name) or _camel_case(each.name)
        if each.name == "extra" or wire in unknown_here:
            continue
        optional = each.default is None
        required = wire in required_here or not (optional or each.default is UNSET)
        members.append(
            Member(
                attribute=each.name,
                wire=wire,
                kind=_without_none(each.type) if optional else each.type,
                required=required,
                null_is_absent=optional and not required,
                unset=each.default if optional or each.default is UNSET else _ALWAYS_SENT,
            )
        )
    return members


def table_name(cls: type[Model]) -> str:
    """Return the name under which the tables speak of a class: for a user's subclass, that of the class it extends."""
    return next((each.__name__ for each in cls.__mro__ if each.__module__.startswith(_GENERATED)), cls.__name__)


def _camel_case(attribute: str) -> str:
    first, *rest = attribute.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _without_none(kind: Any) -> Any:
    return Union[tuple(arm for arm in get_args(kind) if arm is not type(None))]  # noqa: UP007 - the arms are a tuple


def is_model(kind: Any) -> bool:
    """Say whether a type is a generated class."""
    return isinstance(kind, type) and issubclass(kind, Model)
