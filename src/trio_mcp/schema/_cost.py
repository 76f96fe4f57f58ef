"""Bounds the work of a validation before it begins, because nothing can interrupt jsonschema-rs.

A schema of a kilobyte can keep a validation busy for years: each definition refers twice to the next one. Work is
counted in units of about a nanosecond; a count depends on the schema and the value alone, never on the time. Rules of
this file, of `_work` and of `_count`:

1. A bound is never lower than the work of a validator without a cache, up to a small factor. It may refuse a
   validation that would have ended in time, but it never admits one that would not.
2. A schema is judged once, when it is compiled: `Cost` keeps the most that it can do with each part of a value. Most
   values are admitted by their size and this verdict alone.
3. Every other validation is counted (`_count`): one subschema and one part of the value at a time. Each pair is
   counted once, and the number of pairs is bounded, so that the count itself is cheap.
4. No function recurses without a bound, or takes more steps than it is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast
from urllib.parse import unquote, urldefrag, urljoin

from attrs import define, field

from ._count import Count
from ._work import (
    CLASSES,
    EMPTY,
    KEYWORD,
    MAX_PATTERNS,
    NUMBER_OPTION,
    Load,
    Part,
    PatternSize,
    Size,
    pattern_size,
    plus,
    product,
    some,
    sum_of,
    work_of,
)

__all__ = ["MAX_CHAIN", "MAX_UNFOLDED", "Cost", "CostError"]

MAX_UNFOLDED: Final = 2_000
"""The largest unfolded schema that may have unevaluated members or items: the compiler unfolds it, too."""
MAX_CHAIN: Final = 200
"""The number of references that may follow each other; the compiler needs the square of it."""
MAX_UNEVALUATED_CHAIN: Final = 40
"""The same for a schema that has unevaluated members or items."""

Json: TypeAlias = "dict[str, Any]"

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
_MOST_DIGITS: Final = 9
"""The longest index of a list item; Python refuses to read thousands of digits."""
_MOST_ROUNDS: Final = 8
"""The number of times that the verdict on a recursive schema is improved before it is given up."""
_MOST_JUDGEMENTS: Final = 2_000
"""The same for all of its parts together."""

# Units of work, measured with jsonschema-rs 0.60.
_REEVALUATED: Final = 4
"""The number of times that unevaluated members have each subschema beside them applied."""
_FORMAT: Final = 3_000
_FORMAT_CHARACTER: Final = 100
_CONTENT_CHARACTER: Final = 50
_REGEX_FORMAT: Final = 3_000_000
_DYNAMIC: Final = 1_000


class CostError(ValueError):
    """A schema is refused because of what it would cost to compile it, or to count its validations."""


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
        return None if self.verdict is None else work_of(self.verdict, size)

    @property
    def ignores_text(self) -> bool:
        """True if the work does not depend on the length of strings and names, beyond reading each of them once."""
        if self.verdict is None:
            return False
        _, characters, unique, patterns, _ = self.verdict
        return not (characters or unique or patterns)

    def work(self, value: Any, most: int) -> int:
        """Return a bound for the work of a validation, from a count; more than `most` if it is too much."""
        return Count(most, with_faults=False).run(self._root, value)

    def work_of_faults(self, value: Any, most: int) -> int:
        """Return a bound for the work of describing every fault of a value; more than `most` if it is too much."""
        return Count(most, with_faults=True).run(self._root, value)

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
        return Part((KEYWORD, 0, 0, 0, 0))

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
        part.for_member = product(sum_of(map(self._matching, patterns)), _REEVALUATED)
        part.other_members = self._single(schema, "additionalProperties")
        part.each_member = [*self._all(patterns.values()), *some(self._single(schema, "unevaluatedProperties"))]
        part.names = self._single(schema, "propertyNames")
        items = schema.get("items")
        part.first_items = self._all([*_list(schema.get("prefixItems")), *_list(items)])
        part.other_items = self._single(schema, "additionalItems" if isinstance(items, list | tuple) else "items")
        each_item = (self._single(schema, keyword) for keyword in ("contains", "unevaluatedItems"))
        part.each_item = [each for each in each_item if each is not None]
        part.repeats = 1 if schema.keys().isdisjoint(_UNEVALUATED) else _REEVALUATED

    def _own(self, schema: Json) -> Load:
        work = KEYWORD * (1 + len(schema))
        for keyword in _WHOLE:
            if keyword in schema:
                work += KEYWORD * _extent(schema[keyword])
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
        work += NUMBER_OPTION * sum(isinstance(option, float) for option in options)
        own: Load = (work, characters, int(schema.get("uniqueItems") is True), 0, integers)
        return plus(own, self._matching(schema["pattern"])) if "pattern" in schema else own

    def _matching(self, pattern: Any) -> Load:
        """Return the work of matching a text against a pattern."""
        size = self._patterns.get(pattern) or pattern_size("")
        return KEYWORD + size.states, size.active, 0, size.states if self._backtracks else 0, 0

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
        return CLASSES.get(kinds, frozenset())
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


def _object(value: Any) -> Mapping[str, Any]:
    return cast("Json", value) if isinstance(value, dict) else EMPTY


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
