"""Bounds the work of a validation before it begins, because nothing can interrupt jsonschema-rs.

A schema of a kilobyte can keep a validation busy for years: each definition refers twice to the next one. Work is
counted in units of about a nanosecond; a count depends on the schema and the value alone, never on the time. Rules of
this file:

1. A bound is never lower than the work of a validator without a cache, up to a small factor. It may refuse a
   validation that would have ended in time, but it never admits one that would not.
2. A schema is judged once, when it is compiled: `Cost` keeps the most that it can do with each part of a value. Most
   values are admitted by their size and this verdict alone.
3. Every other validation is counted: one subschema and one part of the value at a time. Each pair is counted once, and
   the number of pairs is bounded, so that the count itself is cheap.
4. No function recurses without a bound, or takes more steps than it is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Final, TypeAlias, cast
from urllib.parse import unquote, urldefrag, urljoin

from attrs import define, evolve, field, frozen

__all__ = [
    "BACKTRACKS",
    "GREATEST",
    "MAX_PAIRS",
    "MAX_UNFOLDED",
    "SMALLEST",
    "Cost",
    "CostError",
    "Size",
    "pattern_size",
    "size_of",
]

MAX_UNFOLDED: Final = 2_000
"""The largest unfolded schema that may have unevaluated members or items: the compiler unfolds it, too."""
MAX_PATTERNS: Final = 60_000
"""The states of all patterns of a schema; see `pattern_size`. Compiling takes up to half a microsecond for each."""
MAX_CHAIN: Final = 200
"""The number of references that may follow each other; the compiler needs the square of it."""
MAX_UNEVALUATED_CHAIN: Final = 40
"""The same for a schema that has unevaluated members or items."""
MAX_PAIRS: Final = 8_000
"""The number of pairs of a subschema and a part of a value that one count may look at, known ones included."""
BACKTRACKS: Final = 1_000
"""The number of times that the match of one pattern may backtrack."""

Json: TypeAlias = "dict[str, Any]"

_EMPTY: Final[Mapping[str, Any]] = {}
_BY_NAME: Final = ("properties", "patternProperties", "dependentSchemas", "dependencies")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_LISTS: Final = ("allOf", "anyOf", "oneOf")
_SINGLE: Final = ("not", "if", "then", "else")
_CHOICES: Final = ("anyOf", "oneOf")
_ITEMS: Final = ("prefixItems", "items")
_WHOLE: Final = ("enum", "const", "required", "dependentRequired", "dependencies")
_APPLIED: Final = frozenset(
    {*_SINGLE, "additionalProperties", "propertyNames", "items", "additionalItems", "contains"}
    | {"unevaluatedProperties", "unevaluatedItems"}
)
_UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")
_PATTERNS: Final = ("pattern", "patternProperties")
_CONTENTS: Final = ("contentEncoding", "contentMediaType")
_MEASURED: Final = ("minLength", "maxLength")
_APPLYING: Final = frozenset({*_BY_NAME, *_REFERENCES, *_LISTS, *_ITEMS, *_APPLIED})
_CLASSES: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list, tuple),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int, float),
    "number": (int, float),
    "null": (type(None),),
}
_CLASS_SETS: Final = {name: frozenset(classes) for name, classes in _CLASSES.items()}
_CONTAINERS: Final = (dict, list, tuple)
_KINDS: Final = ({dict}, {list})
_ANYTHING: Final = frozenset(each for classes in _CLASSES.values() for each in classes)
_DEEPEST: Final = 1_000
_MOST_DIGITS: Final = 9
"""The longest index of a list item; Python refuses to read thousands of digits."""
_MOST_ROUNDS: Final = 8
"""The number of times that the verdict on a recursive schema is improved before it is given up."""
_MOST_JUDGEMENTS: Final = 2_000
"""The same for all of its parts together."""
_PARTS_OF_A_PAIR: Final = 20
"""The number of parts of a value that are measured in the time that one pair takes."""
SMALLEST: Final = -(2**63)
GREATEST: Final = 2**63 - 1
"""The bounds of the integers that take no longer than any other."""

# Units of work, measured with jsonschema-rs 0.60.
_KEYWORD: Final = 20
_NUMBER_OPTION: Final = 3_000
_REEVALUATED: Final = 4
"""The number of times that unevaluated members have each subschema beside them applied."""
_FORMAT: Final = 3_000
_FORMAT_CHARACTER: Final = 100
_CONTENT_CHARACTER: Final = 50
_REGEX_FORMAT: Final = 3_000_000
_DYNAMIC: Final = 1_000
_BACKTRACK: Final = 40
_HASHED: Final = 200
"""The work to hash one part of a list whose items must be unique."""
_FAULT: Final = 10_000
_COPIED: Final = 100
"""The work to copy one part of a value into the description of a fault."""


class CostError(ValueError):
    """A schema is refused because of what it would cost to compile it, or to count its validations."""


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
            members = cast("Json", container)
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


# --- Schemas ---

Load: TypeAlias = tuple[int, int, int, int, int]
"""The work for one part of a value: in all, for each character, for unique items, for backtracking, and for options.

The last three are the number of lists that are compared, the states of the patterns, and the number of integers among
the options of an ``enum``, which are compared one by one with a number that is no integer.
"""

_NOTHING: Final[Load] = (0, 0, 0, 0, 0)


def _plus(one: Load, other: Load) -> Load:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3], one[4] + other[4]


def _most(one: Load, other: Load) -> Load:
    own, characters, unique, patterns, options = map(max, one, other)
    return own, characters, unique, patterns, options


def _times_load(load: Load, times: int) -> Load:
    return load[0] * times, load[1] * times, load[2] * times, load[3] * times, load[4] * times


def _sum(loads: Iterable[Load]) -> Load:
    return reduce(_plus, loads, _NOTHING)


def _max(loads: Iterable[Load]) -> Load:
    return reduce(_most, loads, _NOTHING)


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
    dependent: Mapping[str, Part] = _EMPTY
    named: Mapping[str, Part] = _EMPTY
    other_members: Part | None = None
    each_member: Sequence[Part] = ()
    names: Part | None = None
    first_items: Sequence[Part] = ()
    other_items: Part | None = None
    each_item: Sequence[Part] = ()
    repeats: int = 1
    """The number of times that those beside it are applied, because members or items may be unevaluated."""
    classes: frozenset[type] = _ANYTHING
    """The classes of the values that it does not refuse at once."""
    required: tuple[str, ...] = ()
    constants: Mapping[str, Any] = _EMPTY
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
        here = _plus(self.own, _sum(part.here for part in self.all_beside()))
        members = _plus(
            self.for_member,
            _plus(
                _max(part.most for part in (*self.named.values(), *_some(self.other_members))),
                _sum(part.most for part in self.each_member),
            ),
        )
        items = _plus(
            _max(part.most for part in (*self.first_items, *_some(self.other_items))),
            _sum(part.most for part in self.each_item),
        )
        if self.names is not None:  # a name is no part of the value, but has characters
            here = _plus(here, (0, *self.names.here[1:]))
            members = _plus(members, self.names.here)
        below = _most(members, items)
        tails = [part.below for part in (*self.beside, *self.dependent.values())]
        tails += map(_tail, self.choices)
        below = _plus(below, _sum(tails))
        has_changed = (here, below) != (self.here, self.below)
        self.here, self.below = here, below
        return has_changed

    @property
    def most(self) -> Load:
        """The most work for a value that it is applied to, and for each part of that value."""
        return _most(self.here, self.below)


def _some(part: Part | None) -> tuple[Part, ...]:
    return () if part is None else (part,)


def _tail(arms: Sequence[Part]) -> Load:
    """Return the most work of arms below a value; those for objects and those for arrays do not add up."""
    return _max(_sum(arm.below for arm in arms if not arm.classes.isdisjoint(each)) for each in _KINDS)


@define(eq=False)
class Cost:
    """The cost of validations against one schema.

    Args:
        schema: the schema, no deeper than a validator allows.
        backtracks: True if the patterns are matched by an engine that backtracks.

    Raises:
        CostError: the schema costs too much to compile, or its references go in circles.
    """

    _schema: Json = field(alias="schema")
    _backtracks: bool = field(default=False, alias="backtracks", kw_only=True)
    names: set[str] = field(factory=set[str], init=False)
    """All member names in the schema, including the keywords."""
    verdict: Load | None = field(default=None, init=False)
    """The most work for each part of a value; None if there is no bound for all values."""
    _root: Part = field(init=False)
    _parts: dict[int, Part] = field(factory=dict[int, Part], init=False)
    """The parts of the schema, by the id of the object."""
    _patterns: dict[str, PatternSize] = field(factory=dict[str, PatternSize], init=False)
    _states: int = field(default=0, init=False)
    """The states of all patterns, also of those that are not used."""
    _is_recursive: bool = field(default=False, init=False)
    _bases: dict[int, str] = field(factory=dict[int, str], init=False)
    """The base URI of the references in an object, by the id of the object."""
    _resources: dict[str, Any] = field(factory=dict[str, Any], init=False)
    """The schemas by URI, without a fragment."""
    _anchors: dict[tuple[str, str], list[Any]] = field(factory=dict["tuple[str, str]", "list[Any]"], init=False)
    _targets: dict[int, Sequence[Any]] = field(factory=dict[int, "Sequence[Any]"], init=False)
    """The targets of the references in an object, by the id of the object."""

    def __attrs_post_init__(self) -> None:
        self._index()
        if self._states > MAX_PATTERNS:
            raise CostError("the patterns of the schema are too large")
        if not self.names.isdisjoint(_UNEVALUATED) and self._unfolds_to_more_than(MAX_UNFOLDED):
            raise CostError("references of the schema multiply, and it has unevaluatedProperties or unevaluatedItems")
        self._root = self._parts.setdefault(id(self._schema), Part())
        order = self._linked()
        _refuse_circles(order)
        self._judge(order)

    @property
    def has_choices(self) -> bool:
        """True if one fault may contain many others, those of the alternatives."""
        return not self.names.isdisjoint(_CHOICES)

    def bound(self, size: Size) -> int | None:
        """Return a bound for the work of a validation, from the size of the value alone; None without a verdict."""
        return None if self.verdict is None else _work(self.verdict, size)

    def work(self, value: Any, most: int) -> int:
        """Return a bound for the work of a validation, from a count; more than `most` if it is too much."""
        return _Count(most, with_faults=False).run(self._root, value)

    def work_of_faults(self, value: Any, most: int) -> int:
        """Return a bound for the work of describing every fault of a value; more than `most` if it is too much."""
        return _Count(most, with_faults=True).run(self._root, value)

    def _judge(self, order: Sequence[Part]) -> None:
        """Work out the verdict; each round improves those of parts that refer to each other."""
        if any(part.repeats > 1 and any(part.all_beside()) for part in order):
            return  # the work grows with the square of the value
        if not self._is_recursive:
            for part in order:
                part.judge()
            self.verdict = self._root.most
            return
        for _ in range(min(_MOST_ROUNDS, 1 + _MOST_JUDGEMENTS // len(order))):
            if not sum(part.judge() for part in order):  # all of them, each time
                self.verdict = self._root.most
                return

    # --- The parts of the schema ---

    def _linked(self) -> Sequence[Part]:
        """Link all parts that can be reached from the root, and return them, the innermost first."""
        order: list[Part] = []
        left: dict[int, bool] = {}
        chain, longest = 0, MAX_CHAIN if self.names.isdisjoint(_UNEVALUATED) else MAX_UNEVALUATED_CHAIN
        waiting: list[tuple[str, Any]] = [("enter", self._schema)]
        while waiting:
            action, schema = waiting.pop()
            if action == "leave":
                chain -= bool(self.targets(schema))
                left[id(schema)] = True
                order.append(self._parts[id(schema)])
            elif isinstance(schema, dict):
                here = cast("Json", schema)
                if id(here) in left:
                    self._is_recursive = self._is_recursive or not left[id(here)]
                    continue
                left[id(here)] = False
                chain += bool(self.targets(here))
                if chain > longest:
                    raise CostError(f"more than {longest} references of the schema follow each other")
                self._link(here)
                waiting.append(("leave", here))
                waiting += (("enter", target) for target in self.targets(here))
                waiting += (("enter", inner) for inner in _subschemas(here))
        return order

    def _part(self, schema: Any) -> Part:
        """Return the part of a subschema; a mere reference is its target."""
        if isinstance(schema, dict):
            here = cast("Json", schema)
            targets = self.targets(here) if here.keys() == {"$ref"} else ()
            if len(targets) == 1 and isinstance(targets[0], dict) and targets[0].keys() != {"$ref"}:
                here = cast("Json", targets[0])
            return self._parts.setdefault(id(here), Part())
        return Part((_KEYWORD, 0, 0, 0, 0))

    def _all(self, schemas: Iterable[Any]) -> list[Part]:
        return [self._part(schema) for schema in schemas]

    def _single(self, schema: Json, keyword: str) -> Part | None:
        return self._part(schema[keyword]) if keyword in schema else None

    def _link(self, schema: Json) -> None:
        part = self._parts.setdefault(id(schema), Part())
        part.own = self._own(schema)
        if "type" in schema:
            part.classes = _classes(schema["type"])
        if "required" in schema:
            part.required = tuple(name for name in _list(schema["required"]) if isinstance(name, str))
        part.is_leaf = schema.keys().isdisjoint(_APPLYING)
        if not part.is_leaf:
            self._link_applied(part, schema)

    def _link_applied(self, part: Part, schema: Json) -> None:
        singles = (schema[keyword] for keyword in _SINGLE if keyword in schema)
        part.beside = self._all([*self.targets(schema), *_list(schema.get("allOf")), *singles])
        part.choices = [self._all(_list(schema[keyword])) for keyword in _CHOICES if keyword in schema]
        dependent = {**_object(schema.get("dependencies")), **_object(schema.get("dependentSchemas"))}
        part.dependent = {name: self._part(each) for name, each in dependent.items() if isinstance(each, dict | bool)}
        named = _object(schema.get("properties"))
        part.named = {name: self._part(each) for name, each in named.items()}
        part.constants = {
            name: cast("Json", each)["const"]
            for name, each in named.items()
            if isinstance(each, dict) and "const" in each
        }
        patterns = _object(schema.get("patternProperties"))
        part.for_member = _times_load(_sum(map(self._matching, patterns)), _REEVALUATED)
        part.other_members = self._single(schema, "additionalProperties")
        part.each_member = [*self._all(patterns.values()), *_some(self._single(schema, "unevaluatedProperties"))]
        part.names = self._single(schema, "propertyNames")
        items = schema.get("items")
        part.first_items = self._all([*_list(schema.get("prefixItems")), *_list(items)])
        part.other_items = self._single(schema, "additionalItems" if isinstance(items, list | tuple) else "items")
        each_item = (self._single(schema, keyword) for keyword in ("contains", "unevaluatedItems"))
        part.each_item = [each for each in each_item if each is not None]
        part.repeats = 1 if schema.keys().isdisjoint(_UNEVALUATED) else _REEVALUATED

    def _own(self, schema: Json) -> Load:
        work = _KEYWORD * (1 + len(schema))
        for keyword in _WHOLE:
            if keyword in schema:
                work += _KEYWORD * _extent(schema[keyword])
        characters = 0 if schema.keys().isdisjoint(_MEASURED) else len(_MEASURED)
        if "format" in schema:
            work += _REGEX_FORMAT if schema["format"] == "regex" else _FORMAT
            characters += _FORMAT_CHARACTER
        if not schema.keys().isdisjoint(_CONTENTS):
            characters += _CONTENT_CHARACTER
        if "$dynamicRef" in schema or "$recursiveRef" in schema:
            work += _DYNAMIC
        options = _list(schema["enum"]) if "enum" in schema else ()
        integers = sum(isinstance(option, int) for option in options)
        work += _NUMBER_OPTION * sum(isinstance(option, float) for option in options)
        own: Load = (work, characters, int(schema.get("uniqueItems") is True), 0, integers)
        return _plus(own, self._matching(schema["pattern"])) if "pattern" in schema else own

    def _matching(self, pattern: Any) -> Load:
        """Return the work of matching a text against a pattern."""
        size = self._patterns.get(pattern) or pattern_size("")
        return _KEYWORD + size.states, size.active, 0, size.states if self._backtracks else 0, 0

    def targets(self, schema: Json) -> Sequence[Any]:
        """Return the targets of the references of a schema, without those outside, which belong to the dialect."""
        found = self._targets.get(id(schema))
        if found is None:
            found = self._targets[id(schema)] = tuple(self._look_up(schema))
        return found

    def _look_up(self, schema: Json) -> Iterator[Any]:
        for keyword in _REFERENCES:
            reference = schema.get(keyword)
            if not isinstance(reference, str):
                continue
            base = self._bases[id(schema)]
            uri, fragment = (base, reference[1:]) if reference[:1] == "#" else urldefrag(urljoin(base, reference))
            name = unquote(fragment)
            if keyword == "$dynamicRef":  # it means the outermost anchor of that name, so all of them count
                for (_, each), anchored in self._anchors.items():
                    if each == name:
                        yield from anchored
            elif name and not name.startswith("/"):
                yield from self._anchors.get((uri, name), ())
            elif uri in self._resources:
                yield _at(name, self._resources[uri])

    def _index(self) -> None:
        """Collect the possible targets of references: every object with its base URI, its own URI and its anchors."""
        self._resources[""] = self._schema
        waiting: list[tuple[Any, str]] = [(self._schema, "")]
        while waiting:
            part, base = waiting.pop()
            if isinstance(part, dict):
                here = cast("Json", part)
                for keyword in ("$id", "id"):
                    declared = here.get(keyword)
                    if isinstance(declared, str):
                        base = urldefrag(urljoin(base, declared)).url
                        self._resources.setdefault(base, here)
                self._bases[id(here)] = base
                self.names.update(here)
                if not here.keys().isdisjoint(_PATTERNS):
                    self._measure_patterns([here.get("pattern"), *_object(here.get("patternProperties"))])
                for keyword in ("$anchor", "$dynamicAnchor"):
                    if isinstance(here.get(keyword), str):
                        self._anchors.setdefault((base, here[keyword]), []).append(here)
                waiting += ((inner, base) for inner in here.values())
            elif isinstance(part, list | tuple):
                waiting += ((inner, base) for inner in cast("Sequence[Any]", part))

    def _measure_patterns(self, patterns: Iterable[Any]) -> None:
        for pattern in patterns:
            if isinstance(pattern, str):
                if pattern not in self._patterns:
                    self._patterns[pattern] = pattern_size(pattern)
                self._states += self._patterns[pattern].states

    def _unfolds_to_more_than(self, most: int) -> bool:
        """Count the parts; a part that refers to itself is not counted again inside of itself."""
        count = 0
        open_now: set[int] = set()
        waiting: list[tuple[str, Any]] = [("enter", self._schema)]
        while waiting and count <= most:
            action, part = waiting.pop()
            if action == "leave":
                open_now.discard(part)
            elif id(part) not in open_now:
                count += 1
                if isinstance(part, dict):
                    schema = cast("Json", part)
                    open_now.add(id(schema))
                    waiting.append(("leave", id(schema)))
                    waiting += (("enter", target) for target in self.targets(schema))
                    waiting += (("enter", inner) for inner in _subschemas(schema))
        return count > most


def _classes(kinds: Any) -> frozenset[type]:
    if isinstance(kinds, str):
        return _CLASS_SETS.get(kinds, frozenset())
    return frozenset[type]().union(*(_classes(kind) for kind in _list(kinds) if isinstance(kind, str)))


def _subschemas(schema: Json) -> Iterator[Any]:
    """Return the subschemas in a schema, without the targets of its references."""
    for keyword, value in schema.items():
        if keyword in _BY_NAME:
            yield from _object(value).values()
        elif keyword in _LISTS or keyword in _ITEMS:
            yield from _list(value)
        if keyword in _APPLIED:
            yield value


def _refuse_circles(order: Iterable[Part]) -> None:
    """Refuse references that lead from a value to the same value, in more ways than once around a circle.

    Raises:
        CostError: there are such references, which the validator would follow in every order.
    """
    done: dict[int, bool] = {}  # False while a part is open
    for first in order:
        waiting = [(first, False)]
        while waiting:
            part, is_left = waiting.pop()
            if is_left:
                done[id(part)] = True
            elif id(part) not in done:
                done[id(part)] = False
                waiting.append((part, True))
                waiting += ((each, False) for each in part.all_beside() if each is not part)
            elif not done[id(part)] and not _is_ring(part):
                raise CostError("references of the schema go in circles")


def _is_ring(first: Part) -> bool:
    """Return True if a part leads to itself by a single way."""
    part = first
    for _ in range(MAX_CHAIN):
        others = [each for each in part.all_beside() if each is not part]
        if len(others) != 1:
            return False
        (part,) = others
        if part is first:
            return True
    return False


def _work(load: Load, size: Size) -> int:
    """Return the work of a load for each part of a value."""
    own, characters, unique, patterns, options = load
    work = size.parts * own + size.characters * (characters + 1) + size.floats * options * _NUMBER_OPTION
    if unique:
        work += unique * max(size.depth, 1) * (size.parts * _HASHED + size.characters)
        work += unique * size.large**2 * _comparison(size.bits)  # the hashes of large integers are all the same
    if patterns:
        work += size.parts * _backtracking(size.longest, patterns)
    if size.large:
        work += size.large * (own // _KEYWORD) * _comparison(size.bits)
    return work


def _backtracking(length: int, states: int) -> int:
    """Return the work of matching one text by backtracking."""
    ways = BACKTRACKS if length > _MOST_DIGITS else min(states ** (length + 1), BACKTRACKS)
    return ways * _BACKTRACK + length * length * states // 4


def _comparison(bits: int) -> int:
    """Return the work of comparing a large number."""
    return _NUMBER_OPTION + bits * bits // 200


def _extent(value: Any) -> int:
    """Return the number of values and characters in a part of a schema."""
    extent = 0
    waiting = [value]
    while waiting:
        part = waiting.pop()
        extent += 1
        if isinstance(part, str):
            extent += len(part) // 16
        elif isinstance(part, dict):
            waiting += cast("Json", part).values()
        elif isinstance(part, list | tuple):
            waiting += cast("Sequence[Any]", part)
    return extent


# --- Counts ---


class _TooMuchError(Exception):
    """The count has exceeded the allowed work, or the allowed number of pairs."""


@define(eq=False)
class _Count:
    """A count of work, which walks through a value as a validator does."""

    _most: int
    _with_faults: bool = field(kw_only=True, alias="with_faults")
    """True for a validation that finds every fault; otherwise it stops at the first where jsonschema-rs stops, too."""
    _pairs: int = field(default=MAX_PAIRS, init=False)
    _plain: _Count | None = field(default=None, init=False)
    """The count of the same validation without faults: before alternatives are described, each is tried."""
    _counted: dict[tuple[int, int], int] = field(factory=dict["tuple[int, int]", int], init=False)
    """The work for each pair of a part of the schema and a part of the value; 0 while the pair is being counted."""
    _sizes: dict[int, Size] = field(factory=dict[int, Size], init=False)

    def run(self, part: Part, value: Any) -> int:
        """Return the work of applying a part to a value, or more than allowed."""
        if self._with_faults:
            self._plain = _Count(self._most, with_faults=False)
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
                members = cast("Json", value)
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
            own += len(value) * (characters + 1) + (_backtracking(len(value), patterns) if patterns else 0)
        elif isinstance(value, int | float):
            own += options * _NUMBER_OPTION * isinstance(value, float)
            if isinstance(value, int) and not SMALLEST <= value <= GREATEST:
                own += own // _KEYWORD * _comparison(value.bit_length())
        elif self._with_faults or (unique and isinstance(value, list | tuple)):
            size = self._size(value)
            own += _work((0, 0, unique, 0, 0), size)
            own += size.parts * _COPIED if self._with_faults else 0
        return own + (_FAULT if self._with_faults else 0)

    def _size(self, value: Any) -> Size:
        size = self._sizes.get(id(value))
        if size is None:
            whole = size_of(value, self._most // _COPIED, _DEEPEST)
            size = self._sizes[id(value)] = evolve(whole, depth=1)  # each list is hashed once by each application
            self._pairs -= size.parts // _PARTS_OF_A_PAIR
        return size

    def _in_members(self, part: Part, value: Json) -> int:
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
            own + len(name) * characters + (_backtracking(len(name), patterns) if patterns else 0) for name in names
        )

    def _in_items(self, part: Part, value: Sequence[Any]) -> int:
        work = 0
        for each, item in zip(part.first_items, value, strict=False):
            work += self.count(each, item)
        rest = value[len(part.first_items) :] if part.first_items else value
        for each in _some(part.other_items):
            work += sum(self.count(each, item) for item in rest)
        for each in part.each_item:
            work += sum(self.count(each, item) for item in value)
        return work


def _refuses_at_once(part: Part, value: Any) -> bool:
    """Return True if jsonschema-rs finds a fault and stops: it checks these two keywords first."""
    if value.__class__ not in part.classes and value.__class__ in _ANYTHING:
        return True
    return isinstance(value, dict) and any(name not in value for name in part.required)


def _object(value: Any) -> Mapping[str, Any]:
    return cast("Json", value) if isinstance(value, dict) else _EMPTY


def _list(value: Any) -> Sequence[Any]:
    return cast("Sequence[Any]", value) if isinstance(value, list | tuple) else ()


def _at(pointer: str, root: Any) -> Any:
    """Return the target of a JSON pointer; None without a target, which the compiler refuses."""
    here = root
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(here, dict):
            here = cast("Json", here).get(name)
        else:
            place = int(name) if name.isdecimal() and len(name) <= _MOST_DIGITS else -1
            here = _list(here)[place] if 0 <= place < len(_list(here)) else None
    return here
