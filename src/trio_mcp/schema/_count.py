"""Counts the work of validating one value, for the schemas whose verdict does not admit every value of its size.

The count takes one part of the schema and one part of the value at a time. Each pair is counted once, and the number
of pairs is bounded, so that the count itself is cheap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

from attrs import define, evolve, field

from ._work import (
    ANY_CLASS,
    GREATEST,
    KEYWORD,
    NUMBER_OPTION,
    SMALLEST,
    Load,
    Part,
    Size,
    backtracking,
    comparison,
    size_of,
    some,
    work_of,
)

__all__ = ["MAX_PAIRS", "Count"]

MAX_PAIRS: Final = 8_000
"""The number of pairs of a subschema and a part of a value that one count may look at, known ones included."""
_PARTS_OF_A_PAIR: Final = 20
"""The number of parts of a value that are measured in the time that one pair takes."""
_DEEPEST: Final = 1_000

# Units of work, measured with jsonschema-rs 0.60.
_FAULT: Final = 10_000
_COPIED: Final = 100
"""The work to copy one part of a value into the description of a fault."""


class _TooMuchError(Exception):
    """The count has exceeded the allowed work, or the allowed number of pairs."""


@define(eq=False)
class Count:
    """A count of work, which walks through a value as a validator does."""

    _most: int
    _with_faults: bool = field(kw_only=True, alias="with_faults")
    """True for a validation that finds every fault; otherwise it stops at the first where jsonschema-rs stops, too."""
    _pairs: int = field(default=MAX_PAIRS, init=False)
    _plain: Count | None = field(default=None, init=False)
    """The count of the same validation without faults: before alternatives are described, each is tried."""
    _counted: dict[tuple[int, int], int] = field(factory=dict["tuple[int, int]", int], init=False)
    """The work for each pair of a part of the schema and a part of the value; 0 while the pair is being counted."""
    _sizes: dict[int, Size] = field(factory=dict[int, Size], init=False)

    def run(self, part: Part, value: Any) -> int:
        """Return the work of applying a part to a value, or more than allowed."""
        if self._with_faults:
            self._plain = Count(self._most, with_faults=False)
        try:
            return self.count(part, value)
        except (_TooMuchError, RecursionError):
            return self._most + 1

    def count(self, part: Part, value: Any) -> int:
        """Return the work of applying a part to a value."""
        key = id(part), id(value)
        self._pairs -= 1
        if self._pairs < 0:
            raise _TooMuchError
        known = self._counted.get(key)
        if known is not None:
            return known
        self._counted[key] = 0
        work = self._own(part, value)
        if self._with_faults or not _refuses_at_once(part, value):
            beside = self._beside(part, value)
            work += beside * part.repeats
            if isinstance(value, dict):
                members = cast("dict[str, Any]", value)
                work += self._in_members(part, members) + beside * len(members) * (part.repeats > 1)
            elif isinstance(value, list | tuple):
                items = cast("Sequence[Any]", value)
                work += self._in_items(part, items) + beside * len(items) * (part.repeats > 1)
        if work > self._most:
            raise _TooMuchError
        self._counted[key] = work
        return work

    def _beside(self, part: Part, value: Any) -> int:
        work = 0
        for each in part.beside:
            work += self.count(each, value)
        for choice in part.choices:
            for each in choice:
                work += self.count(each, value)
        if part.choices and self._plain is not None:
            work = work * 2 + self._plain.count(part, value)
        if part.dependent and isinstance(value, dict):
            for name, each in part.dependent.items():
                if name in value:
                    work += self.count(each, value)
        return work

    def _own(self, part: Part, value: Any) -> int:
        own, characters, unique, patterns, options = part.own
        if isinstance(value, str):
            own += len(value) * (characters + 1) + (backtracking(len(value), patterns) if patterns else 0)
        elif isinstance(value, int | float):
            own += options * NUMBER_OPTION * isinstance(value, float)
            if isinstance(value, int) and not SMALLEST <= value <= GREATEST:
                own += own // KEYWORD * comparison(value.bit_length())
        elif self._with_faults or (unique and isinstance(value, list | tuple)):
            size = self._size(value)
            own += work_of((0, 0, unique, 0, 0), size)
            own += size.parts * _COPIED if self._with_faults else 0
        return own + (_FAULT if self._with_faults else 0)

    def _size(self, value: Any) -> Size:
        size = self._sizes.get(id(value))
        if size is None:
            whole = size_of(value, self._most // _COPIED, _DEEPEST)
            size = self._sizes[id(value)] = evolve(whole, depth=1)  # each list is hashed once by each application
            self._pairs -= size.parts // _PARTS_OF_A_PAIR
        return size

    def _in_members(self, part: Part, value: dict[str, Any]) -> int:
        named = part.named
        work = 0
        for name in list(value) if len(value) <= len(named) else sorted(named.keys() & value.keys()):
            each = named.get(name)
            if each is not None:
                work += self.count(each, value[name])
                if not self._with_faults and name in part.constants and part.constants[name] != value[name]:
                    break
        for each in part.each_member:
            work += sum(self.count(each, inner) for inner in value.values())
        if part.other_members is not None:
            others = part.other_members
            work += sum(self.count(others, inner) for name, inner in value.items() if name not in named)
        if part.names is not None:
            for name in value:
                work += self.count(part.names, name)
        return work + self._for_names(part.for_member, value) if part.each_member else work

    @staticmethod
    def _for_names(load: Load, names: Iterable[str]) -> int:
        own, characters, _, patterns, _ = load
        return sum(
            own + len(name) * characters + (backtracking(len(name), patterns) if patterns else 0) for name in names
        )

    def _in_items(self, part: Part, value: Sequence[Any]) -> int:
        work = 0
        for each, item in zip(part.first_items, value, strict=False):
            work += self.count(each, item)
        rest = value[len(part.first_items) :] if part.first_items else value
        for each in some(part.other_items):
            work += sum(self.count(each, item) for item in rest)
        for each in part.each_item:
            work += sum(self.count(each, item) for item in value)
        return work


def _refuses_at_once(part: Part, value: Any) -> bool:
    """Return True if jsonschema-rs finds a fault and stops: it checks these two keywords first."""
    if value.__class__ not in part.classes and value.__class__ in ANY_CLASS:
        return True
    return isinstance(value, dict) and any(name not in value for name in part.required)
