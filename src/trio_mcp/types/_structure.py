"""Hooks that make generated classes out of JSON objects; a revision's profile decides which members count.

Made on first use and kept, because a program needs a few dozen of them and making one takes longer than a call.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from cattrs import Converter

from trio_mcp.types._faults import Mismatch, type_of
from trio_mcp.types._members import Member, building, is_model, members_of, table_name
from trio_mcp.types._model import Bounds, Model, Profile
from trio_mcp.types._plain import Hook, bounded, hook_of, plain_type
from trio_mcp.types._tables import LENIENT

__all__ = ["register_structuring"]

_Slot: TypeAlias = tuple[str, type[Any] | None, Hook | None, bool, int]
"""Of a member: its attribute, the type whose values are taken without asking the hook (None for most), the hook (None
where any value fits), whether null means that it is absent, and 1 if it is required."""


def register_structuring(converter: Converter, profile: Profile) -> None:
    """Make the converter structure classes as a revision's profile says."""
    made: dict[type[Model], Hook] = {}

    def factory(cls: type[Model]) -> Hook:
        with building:
            return made.get(cls) or _structurer(cls, converter, profile, made)

    converter.register_structure_hook_factory(is_model, factory)


def _structurer(cls: type[Model], converter: Converter, profile: Profile, made: dict[type[Model], Hook]) -> Hook:
    name = table_name(cls)
    members: dict[str, _Slot] = {}
    known = members_of(cls, profile)
    required = frozenset(member.wire for member in known if member.required)
    settle = _keep if name in LENIENT else _refuse

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
                    problem = settle(problem, wire, item, inner, extra)
        if problem is not None or met != len(required):
            try:
                raise _with_missing(problem or Mismatch(), required - value.keys())
            finally:
                del problem  # which holds this frame by its traceback, as this frame would hold it
        if extra:
            found["extra"] = extra
        return cls(**found)

    made[cls] = structure  # before its members, which may hold the same class
    bounds = profile.bounds.get(name, {})
    members.update((member.wire, _slot(member, converter, bounds.get(member.wire))) for member in known)
    return structure


def _slot(member: Member, converter: Converter, bounds: Bounds | None) -> _Slot:
    hook, plain = hook_of(converter, member.kind), plain_type(member.kind)
    if hook is not None and bounds is not None:
        hook, plain = bounded(hook, bounds), None
    return (member.attribute, plain, hook, member.null_is_absent, int(member.required))


def _refuse(
    problem: Mismatch | None, wire: str, _item: Any, inner: Mismatch, _extra: dict[str, Any]
) -> Mismatch | None:
    problem = problem or Mismatch()
    problem.add(wire, inner)
    return problem


def _keep(problem: Mismatch | None, wire: str, item: Any, _inner: Mismatch, extra: dict[str, Any]) -> Mismatch | None:
    """Count a member of the wrong shape as one that is not known."""
    extra[wire] = item
    return problem


def _with_missing(problem: Mismatch, missing: frozenset[str]) -> Mismatch:
    for wire in sorted(missing):
        problem.add(None, Mismatch(f"required member '{wire}' is missing"))
    return problem
