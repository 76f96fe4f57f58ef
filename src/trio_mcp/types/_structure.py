"""Hooks that make generated classes out of JSON objects; a revision's profile decides which members count.

Made on first use and kept, because a program needs a few dozen of them and making one takes longer than a call.
"""

from __future__ import annotations

from typing import Any

from cattrs import Converter

from trio_mcp.types._faults import Mismatch
from trio_mcp.types._members import building, is_model, members_of
from trio_mcp.types._model import Model, Profile
from trio_mcp.types._plain import Hook, bounded, hook_of
from trio_mcp.types._tables import LENIENT

__all__ = ["register_structuring"]


def register_structuring(converter: Converter, profile: Profile) -> None:
    """Make the converter structure classes as a revision's profile says."""
    made: dict[type[Model], Hook] = {}

    def factory(cls: type[Model]) -> Hook:
        with building:
            return made.get(cls) or _structurer(cls, converter, profile, made)

    converter.register_structure_hook_factory(is_model, factory)


def _structurer(cls: type[Model], converter: Converter, profile: Profile, made: dict[type[Model], Hook]) -> Hook:
    members: dict[str, tuple[str, Hook | None, bool]] = {}
    known = members_of(cls, profile)
    required = frozenset(member.wire for member in known if member.required)
    lenient = cls.__name__ in LENIENT

    def structure(value: Any, _: Any = None) -> Any:
        if type(value) is not dict:
            raise Mismatch.expected("object", value)
        found: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        problem: Mismatch | None = None
        for wire, item in value.items():
            member = members.get(wire)
            if member is None:
                extra[wire] = item
                continue
            attribute, hook, null_is_absent = member
            if hook is None:
                found[attribute] = item
            elif item is not None or not null_is_absent:
                try:
                    found[attribute] = hook(item, None)
                except Mismatch as inner:
                    if lenient:
                        extra[wire] = item
                        continue
                    problem = problem or Mismatch()
                    problem.add(wire, inner)
        if problem is not None or not value.keys() >= required:
            raise _with_missing(problem or Mismatch(), required - value.keys())
        if extra:
            found["extra"] = extra
        return cls(**found)

    made[cls] = structure  # before its members, which may hold the same class
    bounds = profile.bounds.get(cls.__name__, {})
    for member in known:
        hook = hook_of(converter, member.kind)
        if hook is not None and member.wire in bounds:
            hook = bounded(hook, bounds[member.wire])
        members[member.wire] = (member.attribute, hook, member.null_is_absent)
    return structure


def _with_missing(problem: Mismatch, missing: frozenset[str]) -> Mismatch:
    for wire in sorted(missing):
        problem.add(None, Mismatch(f"required member '{wire}' is missing"))
    return problem
