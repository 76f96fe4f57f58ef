"""Measures what makes a validation long: values, patterns, and the parts of a schema, each with its work.

Work is counted in units of about a nanosecond, which were measured once; see `_cost` for the rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Final, TypeAlias, cast

from attrs import define, frozen

__all__ = [
    "ANY_CLASS",
    "BACKTRACKS",
    "CLASSES",
    "EMPTY",
    "GREATEST",
    "KEYWORD",
    "MAX_PATTERNS",
    "NUMBER_OPTION",
    "SMALLEST",
    "Load",
    "Part",
    "PatternSize",
    "Size",
    "backtracking",
    "comparison",
    "pattern_size",
    "plus",
    "product",
    "size_of",
    "some",
    "sum_of",
    "work_of",
]

MAX_PATTERNS: Final = 60_000
"""The states of all patterns of a schema; see `pattern_size`. Compiling takes up to half a microsecond for each."""
BACKTRACKS: Final = 1_000
"""The number of times that the match of one pattern may backtrack."""
SMALLEST: Final = -(2**63)
GREATEST: Final = 2**63 - 1
"""The bounds of the integers that take no longer than any other."""

EMPTY: Final[Mapping[str, Any]] = {}
CLASSES: Final[Mapping[str, frozenset[type]]] = {
    "object": frozenset({dict}),
    "array": frozenset({list, tuple}),
    "string": frozenset({str}),
    "boolean": frozenset({bool}),
    "integer": frozenset({int, float}),
    "number": frozenset({int, float}),
    "null": frozenset({type(None)}),
}
"""The classes of the values of each type."""
ANY_CLASS: Final = frozenset[type]().union(*CLASSES.values())
_CONTAINERS: Final = (dict, list, tuple)
_KINDS: Final = ({dict}, {list})

# Units of work, measured with jsonschema-rs 0.60.
KEYWORD: Final = 20
NUMBER_OPTION: Final = 3_000
_BACKTRACK: Final = 40
_LONG: Final = 9
"""The length of a text beyond which a match may use up its backtracking."""
_HASHED: Final = 200
"""The work to hash one part of a list whose items must be unique."""


# --- Sizes ---


@frozen
class Size:
    """The size of a value."""

    parts: int
    """The number of its values, nested ones included."""
    characters: int
    """The number of characters of its strings and names, and of bits of its integers."""
    longest: int
    """The length of its longest string or name."""
    large: int
    """The number of integers that need more than 63 bits."""
    bits: int
    """The length of its longest integer."""
    floats: int
    """The number of its numbers that may have a fraction."""
    depth: int
    """The number of nested levels of objects and arrays."""


def size_of(value: Any, most_parts: int, most_depth: int) -> Size:
    """Return the size of a value; if it has more parts or levels, no more than is needed to know that."""
    parts = characters = longest = bits = large = floats = depth = 0
    here: list[Any] = [value]
    while here and depth <= most_depth:
        parts += len(here)
        containers: list[Any] = []
        lengths: list[int] = []
        for part in here:
            kind = part.__class__
            if kind is str:
                lengths.append(len(part))
            elif kind is int:
                if not SMALLEST <= part <= GREATEST:
                    large += 1
                    bits = max(bits, part.bit_length())
                    characters += part.bit_length()
            elif isinstance(part, _CONTAINERS):
                containers.append(part)
            elif isinstance(part, str):
                lengths.append(len(part))
            else:
                floats += isinstance(part, float)
        if parts + sum(map(len, containers)) > most_parts:
            return Size(most_parts + 1, characters, longest, large, bits, floats, depth)
        depth += bool(containers)
        here = _inside(containers, lengths)
        characters += sum(lengths)
        longest = max(longest, max(lengths, default=0))
    return Size(parts, characters, longest, large, bits, floats, depth)


def _inside(containers: Iterable[Any], lengths: list[int]) -> list[Any]:
    """Return the values in objects and arrays, and add the lengths of the names."""
    inside: list[Any] = []
    for container in containers:
        if isinstance(container, dict):
            members = cast("dict[str, Any]", container)
            lengths += [len(name) for name in members if name.__class__ is str]
            inside += members.values()
        else:
            inside += container
    return inside


# --- Patterns ---

_TOKEN: Final = re.compile(
    r"(?P<class>\[\^?\]?(?:[^\]\\]|\\.)*\]?)|(?P<property>\\[pP](?:\{[^}]*\})?)|(?P<escape>\\.)"
    r"|(?P<group>\((?:\?[a-zA-Z]*[-:<=!a-zA-Z]*)?)|(?P<end>\))"
    r"|(?P<times>\{[0-9]{1,9}(?:,[0-9]{0,9})?\})|(?P<repeat>[*+?])|(?P<or>\|)|(?P<other>.)",
    re.DOTALL,
)
_PATTERN: Final = 50
"""The size of a pattern that has no parts."""
_WIDE: Final = 16
"""The size of a set of characters that are encoded in several ways, such as the full stop."""
_PROPERTY: Final = 3_000
"""The size of a Unicode property."""
_LARGEST: Final = 10**9


@frozen
class PatternSize:
    """The size of a pattern, as the number of states of its automaton."""

    states: int
    active: int
    """The number of states that each character of a text may visit."""


def pattern_size(pattern: str) -> PatternSize:
    """Return the size of a pattern; at least that of the automaton, for patterns that can be compiled."""
    if len(pattern) > MAX_PATTERNS:
        return PatternSize(_LARGEST, _LARGEST)
    groups: list[list[int]] = [[0, 0]]  # the states of each open group, and those of its last atom
    fixed = -1  # the states before the first part that matches texts of different lengths
    has_flags = False
    for token in _TOKEN.finditer(pattern):
        kind, text = token.lastgroup, token.group()
        here = groups[-1]
        if kind == "group":
            groups.append([0, 0])
            has_flags = has_flags or "i" in text.partition("?")[2]
        elif kind == "end" and len(groups) > 1:
            here, outer = groups.pop(), groups[-1]
            inside = sum(here) + 1
            outer[0], outer[1] = outer[0] + outer[1], inside
        elif kind in {"times", "repeat"}:
            times = _times(text)
            if fixed < 0 and (kind == "repeat" or "," in text):
                fixed = sum(group[0] for group in groups)
            here[1] = min(here[1] * times, _LARGEST)
        elif kind == "or":
            fixed = 0
        else:
            here[0], here[1] = here[0] + here[1], _atom(kind, text)
    states = min(sum(map(sum, groups)), _LARGEST) * (4 if has_flags else 1)
    active = 1 if fixed < 0 else states - fixed
    return PatternSize(states + _PATTERN, active + 1 if pattern.startswith("^") else states + 1)


def _times(text: str) -> int:
    numbers = [int(number) for number in text.strip("{}").split(",") if number.isdecimal()]
    return max([2, *numbers])


def _atom(kind: str | None, text: str) -> int:
    if kind == "class":
        if "\\p" in text.lower():
            return _PROPERTY + len(text)
        is_wide = text.startswith("[^") or not text.isascii() or re.search(r"\\[A-Zs]", text)
        return _WIDE + len(text) * 4 if is_wide else 1 + len(text) // 8
    if kind == "property":
        return _PROPERTY
    if kind == "escape":
        return _WIDE if text[1:].isupper() or text == "\\s" else 1
    return _WIDE if text == "." or not text.isascii() else 1


# --- Work ---

Load: TypeAlias = tuple[int, int, int, int, int]
"""The work for one part of a value: in all, for each character, for unique items, for backtracking, and for options.

The last three are the number of lists that are compared, the states of the patterns, and the number of integers among
the options of an ``enum``, which are compared one by one with a number that is no integer.
"""

_NOTHING: Final[Load] = (0, 0, 0, 0, 0)


def plus(one: Load, other: Load) -> Load:
    """Return the work of both."""
    return one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3], one[4] + other[4]


def _most(one: Load, other: Load) -> Load:
    own, characters, unique, patterns, options = map(max, one, other)
    return own, characters, unique, patterns, options


def product(load: Load, times: int) -> Load:
    """Return the work of a load that comes several times."""
    return load[0] * times, load[1] * times, load[2] * times, load[3] * times, load[4] * times


def sum_of(loads: Iterable[Load]) -> Load:
    """Return the work of all."""
    return reduce(plus, loads, _NOTHING)


def _max(loads: Iterable[Load]) -> Load:
    return reduce(_most, loads, _NOTHING)


def work_of(load: Load, size: Size) -> int:
    """Return the work of a load for each part of a value."""
    own, characters, unique, patterns, options = load
    work = size.parts * own + size.characters * (characters + 1) + size.floats * options * NUMBER_OPTION
    if unique:
        work += unique * max(size.depth, 1) * (size.parts * _HASHED + size.characters)
        work += unique * size.large**2 * comparison(size.bits)  # the hashes of large integers are all the same
    if patterns:
        work += size.parts * backtracking(size.longest, patterns)
    if size.large:
        work += size.large * (own // KEYWORD) * comparison(size.bits)
    return work


def backtracking(length: int, states: int) -> int:
    """Return the work of matching one text by backtracking."""
    ways = BACKTRACKS if length > _LONG else min(states ** (length + 1), BACKTRACKS)
    return ways * _BACKTRACK + length * length * states // 4


def comparison(bits: int) -> int:
    """Return the work of comparing a large number."""
    return NUMBER_OPTION + bits * bits // 200


# --- Parts of schemas ---


@define(eq=False, slots=True)
class Part:
    """A subschema, with the subschemas that it applies."""

    own: Load = _NOTHING
    """The work for the value itself."""
    for_member: Load = _NOTHING
    """The work for each member of an object, by its name."""
    beside: Sequence[Part] = ()
    """Those that it applies to the same value."""
    choices: Sequence[Sequence[Part]] = ()
    """Those of which a value should fit one."""
    dependent: Mapping[str, Part] = EMPTY
    named: Mapping[str, Part] = EMPTY
    other_members: Part | None = None
    each_member: Sequence[Part] = ()
    names: Part | None = None
    first_items: Sequence[Part] = ()
    other_items: Part | None = None
    each_item: Sequence[Part] = ()
    repeats: int = 1
    """The number of times that those beside it are applied, because members or items may be unevaluated."""
    classes: frozenset[type] = ANY_CLASS
    """The classes of the values that it does not refuse at once."""
    required: tuple[str, ...] = ()
    constants: Mapping[str, Any] = EMPTY
    """The members that must have a certain value, by name."""
    is_leaf: bool = True
    """True if it applies no other part."""
    here: Load = _NOTHING
    """The most work for a value that it is applied to, without the parts of that value."""
    below: Load = _NOTHING
    """The most work for each part of such a value."""

    def all_beside(self) -> Iterator[Part]:
        """Return all parts that it may apply to the same value."""
        yield from self.beside
        for choice in self.choices:
            yield from choice
        yield from self.dependent.values()

    def judge(self) -> bool:
        """Improve `here` and `below` from those of the parts that it applies; return True if they have changed."""
        if self.is_leaf:
            has_changed, self.here = self.here != self.own, self.own
            return has_changed
        here = plus(self.own, sum_of(part.here for part in self.all_beside()))
        members = plus(
            self.for_member,
            plus(
                _max(part.most for part in (*self.named.values(), *some(self.other_members))),
                sum_of(part.most for part in self.each_member),
            ),
        )
        items = plus(
            _max(part.most for part in (*self.first_items, *some(self.other_items))),
            sum_of(part.most for part in self.each_item),
        )
        if self.names is not None:  # a name is no part of the value, but has characters
            here = plus(here, (0, *self.names.here[1:]))
            members = plus(members, self.names.here)
        below = _most(members, items)
        tails = [part.below for part in (*self.beside, *self.dependent.values())]
        tails += map(_tail, self.choices)
        below = plus(below, sum_of(tails))
        has_changed = (here, below) != (self.here, self.below)
        self.here, self.below = here, below
        return has_changed

    @property
    def most(self) -> Load:
        """The most work for a value that it is applied to, and for each part of that value."""
        return _most(self.here, self.below)


def some(part: Part | None) -> tuple[Part, ...]:
    """Return a part, or nothing where there is none."""
    return () if part is None else (part,)


def _tail(arms: Sequence[Part]) -> Load:
    """Return the most work of arms below a value; those for objects and those for arrays do not add up."""
    return _max(sum_of(arm.below for arm in arms if not arm.classes.isdisjoint(each)) for each in _KINDS)
