"""Validates JSON values against JSON Schemas, and describes every fault with its path.

Servers validate arguments and results, clients validate structured content. The validator is jsonschema-rs, which is
imported when the first schema is compiled. Its errors become lines that a model can act on: the path, the expected
value, and the actual value; for rare keywords, the line has the message of jsonschema-rs. Rules of this file:

1. A schema has the dialect that its ``$schema`` names, or 2020-12 without one; an unknown dialect is refused.
2. References are resolved inside the schema only: no network, no files.
3. Values and schemas nested deeper than `MAX_DEPTH` are refused before jsonschema-rs sees them, because it recurses
   on the native stack and would take the process down.
4. A validation that could take too long is refused before it begins (`_cost`), because nothing can interrupt it.
   Patterns are matched in linear time; those that need more (look-around, back-references) have a backtracking limit.

See https://modelcontextprotocol.io/specification/2026-07-28/basic#json-schema-usage.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, cast

from attrs import define, field

from .._errors import TrioMcpError
from ._cost import Cost, CostError
from ._count import MAX_PAIRS
from ._work import BACKTRACKS, GREATEST, SMALLEST, Size, pattern_size, size_of

if TYPE_CHECKING:
    import jsonschema_rs


# --- Descriptions of faults ---

_SHOWN_CHARACTERS: Final = 80
_NUMERAL: Final = re.compile(r"\+?[0-9]{1,19}")

TYPE_NAMES: Final[Mapping[type, str]] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}
"""The JSON Schema type of each class of JSON values."""


def render_path(parts: Iterable[str | int]) -> str:
    """Return the path of a part of a JSON value as all errors of this package write it: ``$.rows[2].name``."""
    return "$" + "".join(_step(part) for part in parts)


def _step(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if part.replace("-", "_").isidentifier() else f"[{json.dumps(part)}]"


def describe_errors(errors: Iterable[jsonschema_rs.ValidationError], root: Any) -> Iterator[str]:
    """Describe the errors in the value `root`, one line for each."""
    for error in errors:
        yield from _describe(error, root)


def _describe(error: jsonschema_rs.ValidationError, root: Any) -> Iterator[str]:
    path = _exact(error, root)
    kind: Any = error.kind
    match kind.name:
        case "required":
            yield f"{render_path([*path, kind.property])}: required, but missing"
        case "additionalProperties" | "unevaluatedProperties":
            yield from _unknown(path, kind.unexpected)
        case "falseSchema" if error.schema_path[-1:] == ["additionalProperties"]:
            # If no member is allowed at all, jsonschema-rs reports the first one only, at the path of the object.
            yield from _unknown(path, _at(path, root))
        case "propertyNames":
            inner = kind.error
            reasons = "; ".join(line.removeprefix("$: ") for line in _describe(inner, inner.instance))
            yield f"{render_path(path)}: the name {_shown(inner.instance)} is not allowed: {reasons}"
        # An arm without faults means that the value fits several arms of a oneOf.
        case "anyOf" | "oneOf" if all(kind.context):
            yield from _describe_choice(kind.context, error, root)
        case _:
            yield f"{render_path(path)}: {_complaint(error, _at(path, root))}"


def _unknown(path: Sequence[str | int], names: Iterable[str]) -> Iterator[str]:
    return (f"{render_path([*path, name])}: unknown, not allowed here" for name in names)


def _complaint(error: jsonschema_rs.ValidationError, value: Any) -> str:
    kind: Any = error.kind
    match kind.name:
        case "type":
            return f"expected {_either(kind.types)}, got {_got(value)}"
        case "enum":
            more = [] if len(kind.options) <= _MOST_OPTIONS else [f"one of {len(kind.options) - _MOST_OPTIONS:,} more"]
            names = [*map(_shown, kind.options[:_MOST_OPTIONS]), *more]
            return f"expected {_either(names)}, got {_shown(value)}"
        case "const":
            return f"expected {_shown(kind.expected_value)}, got {_shown(value)}"
        case "pattern" if not hasattr(kind, "pattern"):  # the backtracking limit was reached
            return f"{_shown(value)} could not be matched against the pattern in reasonable time"
        case "pattern":
            return f"{_shown(value)} does not match the pattern {kind.pattern}"
        case "format":
            return f"{_shown(value)} is not a {kind.format}{_HINTS.get(kind.format, '')}"
        case "oneOf":
            return "fits several of the alternatives, but may fit only one"
        case _:
            return shortened(error.message)


_HINTS: Final = {
    "date-time": " (RFC 3339 with an offset, as in 2026-01-31T09:30:00Z)",
    "date": " (as in 2026-01-31)",
    "uuid": " (as in 123e4567-e89b-12d3-a456-426614174000)",
}


def _describe_choice(arms: Any, choice: jsonschema_rs.ValidationError, root: Any) -> Iterator[str]:
    """Describe the faults of the only arm whose type fits; otherwise the expectations of all arms."""
    path = choice.instance_path
    exact = _exact(choice, root)
    meant = [arm for arm in arms if not any(_is_type_fault(error, path) for error in arm)]
    if len(meant) == 1:
        yield from describe_errors(meant[0], root)
    elif meant:
        tried = "; or ".join(", ".join(describe_errors(arm, root)) for arm in meant)
        yield f"{render_path(exact)}: fits none of the alternatives ({tried})"
    else:
        types = [error.kind.types for arm in arms for error in arm if _is_type_fault(error, path)]
        yield f"{render_path(exact)}: expected {_either(chain.from_iterable(types))}, got {_got(_at(exact, root))}"


def _is_type_fault(error: jsonschema_rs.ValidationError, path: list[str | int]) -> bool:
    return error.kind.name == "type" and error.instance_path == path


def _got(value: Any) -> str:
    return TYPE_NAMES.get(value.__class__, "something else")


def _at(path: Iterable[str | int], root: Any) -> Any:
    for part in path:
        root = root[part]
    return root


def _exact(error: jsonschema_rs.ValidationError, root: Any) -> list[str | int]:
    """Return the exact path of an error in the value.

    jsonschema-rs writes member names such as ``"7"`` like indexes, and omits empty names. The value of the error
    decides between paths that look alike.
    """
    path = error.instance_path
    found = _search(path, root, lambda value: value == error.instance)
    return found or _search(path, root, lambda _: True) or []


def _search(path: Sequence[str | int], root: Any, is_it: Callable[[Any], bool]) -> list[str | int] | None:
    if not path and is_it(root):
        return []
    candidates = [(step, path[1:]) for step in _steps_like(path[0], root)] if path else []
    if isinstance(root, dict) and "" in root:
        candidates.append(("", path))
    for step, rest in candidates:
        deeper = _search(rest, root[step], is_it)
        if deeper is not None:
            return [step, *deeper]
    return None


def _steps_like(part: str | int, root: Any) -> list[str | int]:
    if isinstance(root, dict):
        return [name for name in cast("dict[str, Any]", root) if name == part or _is_numeral_of(name, part)]
    is_position = isinstance(root, (list, tuple)) and isinstance(part, int) and part < len(cast("list[Any]", root))
    return [part] if is_position else []


def _is_numeral_of(name: str, part: str | int) -> bool:
    return _NUMERAL.fullmatch(name) is not None and int(name) == part


def _either(names: Iterable[str]) -> str:
    *most, last = dict.fromkeys(names)
    return f"{', '.join(most)} or {last}" if most else last


def _shown(value: Any) -> str:
    return shortened(json.dumps(value, ensure_ascii=False, default=str))


def shortened(text: str, limit: int = _SHOWN_CHARACTERS) -> str:
    """Cut the middle out of a long string, because its end often shows the fault."""
    half = (limit - 3) // 2
    return text if len(text) <= limit else f"{text[:half]}...{text[-half:]}"


# --- Strings in places that admit none ---


def _strings_refused(errors: Iterable[jsonschema_rs.ValidationError], root: Any) -> dict[tuple[str | int, ...], str]:
    """Return the strings that are refused because the schema admits no string in their place, by their paths."""
    found: dict[tuple[str | int, ...], str] = {}
    for error in errors:
        kind: Any = error.kind
        if kind.name in {"anyOf", "oneOf"}:
            found |= _refused_by_all(kind.context, error, root)
        elif _admits_no_string(kind):
            path = _exact(error, root)
            value = _at(path, root)
            if isinstance(value, str):
                found[tuple(path)] = value
    return found


def _refused_by_all(arms: Any, choice: jsonschema_rs.ValidationError, root: Any) -> dict[tuple[str | int, ...], str]:
    """Return the strings that are refused by all alternatives that may be meant."""
    if not isinstance(_at(_exact(choice, root), root), str):
        arms = [arm for arm in arms if not any(_means_another(error, choice.instance_path) for error in arm)]
    first, *others = [_strings_refused(arm, root) for arm in arms] or [{}]
    return {path: text for path, text in first.items() if all(path in other for other in others)}


def _admits_no_string(kind: Any) -> bool:
    match kind.name:
        case "type":
            return "string" not in kind.types
        case "const":
            return not isinstance(kind.expected_value, str)
        case "enum":
            return not any(isinstance(option, str) for option in kind.options)
        case _:
            return False


def _means_another(error: jsonschema_rs.ValidationError, path: list[str | int]) -> bool:
    """Return True if an error shows that another alternative is meant: by the type, or by the member that names it."""
    kind: Any = error.kind
    is_name = kind.name in {"const", "enum"} and not _admits_no_string(kind)
    return _is_type_fault(error, path) or (is_name and len(error.instance_path) == len(path) + 1)


# --- Validation ---

MAX_DEPTH: Final = 200
"""The number of nested levels allowed in a value and in a schema; a number alone has one level."""

MAX_PARTS: Final = 5_000
"""The number of values in a schema, nested ones included."""

MAX_CHARACTERS: Final = 1_000_000
"""The number of characters of all strings in a schema."""

MAX_VALUE_PARTS: Final = 80_000
"""The number of values in a value that is validated, nested ones included."""

MAX_FAULTS: Final = 100
"""The number of faults that are listed for one value; if there are more, a last line says so."""

DEFAULT_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
"""The dialect of a schema without ``$schema``."""

_DIALECTS: Final = {
    DEFAULT_DIALECT: "Draft202012Validator",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
    "http://json-schema.org/draft-06/schema": "Draft6Validator",
    "http://json-schema.org/draft-04/schema": "Draft4Validator",
}

_MOST_WORK: Final = 30_000_000
"""The most work of a validation, in the units of `_work`: somewhat less than 30 milliseconds."""
_MOST_WORK_FOR_FAULTS: Final = 10_000_000
"""The most work of describing every fault; beyond it, only the first one is described."""
_MOST_SHOWN_PARTS: Final = 40_000
_MOST_SHOWN_CHARACTERS: Final = 2_000_000
"""The size of a value of which any fault is described: its description may copy all of it."""
_MOST_OPTIONS: Final = 50
"""The number of options of an ``enum`` that are named."""
_SMALL: Final = 64
_SHORT: Final = 4_096
_SMALL_SIZE: Final = Size(1 + _SMALL, 2 * _SMALL * _SHORT, _SHORT, 0, 0, _SMALL, 1)
"""The greatest size of an object that needs no measuring; see `_is_small`."""
_MOST_REGEX: Final = 2_000
"""The size of a pattern that is accepted as a value."""
_PATTERNS: Final = {"pattern", "patternProperties"}
_OBJECT: Final[type[Any]] = dict
_CONTAINERS: Final = (dict, list, tuple)
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


def _is_regex(text: str) -> bool:
    """Return True if a text is a pattern; the compiler of patterns has no limit of its own here."""
    import jsonschema_rs  # noqa: PLC0415  # loaded already when the schema was compiled

    if pattern_size(text).states > _MOST_REGEX:
        return False
    try:
        jsonschema_rs.Draft202012Validator({"pattern": text})
    except ValueError:
        return False
    return True


_FORMATS: Final[Mapping[str, Callable[[str], bool]]] = {"regex": _is_regex}

FormatCheck = Callable[[str], bool]
"""Returns True if a string has a format; must not raise."""


class SchemaError(TrioMcpError, ValueError):
    """A JSON Schema cannot be used: it is malformed, too deep, of an unknown dialect, or refers outside itself.

    The author of the schema is at fault: for the input schema of a tool that is the server.
    """


@define(eq=False, slots=True)
class Validator:
    """A compiled JSON Schema. Made by `compile_schema`; safe to use from several threads."""

    _compiled: jsonschema_rs.Validator
    _cost: Cost
    _is_light: bool = field(init=False)
    """True if a small object costs little, whatever its values are."""
    _ignores_text: bool = field(init=False)
    """True if the length of names does not matter."""

    def __attrs_post_init__(self) -> None:
        most = self._cost.bound(_SMALL_SIZE)
        self._is_light = most is not None and most <= _MOST_WORK
        self._ignores_text = self._cost.ignores_text

    def faults(self, value: Any) -> list[str]:
        """Return the faults of `value`.

        Args:
            value: a JSON value made of dict, list, str, int, float, bool and None. Integers of any size are exact, and
                a float without a fraction counts as an integer, as in JSON Schema. The caller must exclude NaN and
                infinity, which are not JSON.

        Returns:
            One line for each fault, such as ``$.rows[2].name: expected string, got integer``, in the order of the
            schema; empty if the value fits. After `MAX_FAULTS` lines, a last one says that there are more. For a value
            of thousands of parts the lines are less detailed: one line for each failed keyword.
        """
        # Most arguments and results are small objects of scalars, which need no measuring.
        size = None
        if not (self._is_light and _is_small(value) and (self._ignores_text or _has_short_names(value))):
            size = size_of(value, MAX_VALUE_PARTS, MAX_DEPTH)
            if size.depth > MAX_DEPTH:
                return [f"$: nested deeper than {MAX_DEPTH} levels"]
            if size.parts > MAX_VALUE_PARTS:
                return [f"$: too large to validate: more than {MAX_VALUE_PARTS:,} parts"]
            if not self._is_affordable(value, size):
                return ["$: too expensive to validate: alternatives and references multiply, or the value is large"]
        try:
            if self._compiled.is_valid(value):
                return []
            found = list(islice(self._lines(value, size), MAX_FAULTS + 1))
        except UnicodeEncodeError:
            return ["$: a string holds half of a surrogate pair, which is not a Unicode character"]
        except ValueError as error:
            return [f"$: not a JSON value: {error}"]
        if len(found) > MAX_FAULTS:
            found[MAX_FAULTS:] = ["(there are more faults)"]
        return found

    def _is_affordable(self, value: Any, size: Size) -> bool:
        work = self._cost.bound(size)
        if work is None or work > _MOST_WORK:
            work = self._cost.work(value, _MOST_WORK)
        return work <= _MOST_WORK

    def _lines(self, value: Any, size: Size | None) -> Iterator[str]:
        # Each error of iter_errors holds a copy of its value, and all errors are made before the first is returned:
        # a list of tens of thousands of wrong numbers would block the process for a second.
        is_countable = size is None or size.parts <= MAX_PAIRS
        if is_countable and self._cost.work_of_faults(value, _MOST_WORK_FOR_FAULTS) <= _MOST_WORK_FOR_FAULTS:
            return describe_errors(self._compiled.iter_errors(value), value)
        is_shown = size is None or (size.parts <= _MOST_SHOWN_PARTS and size.characters <= _MOST_SHOWN_CHARACTERS)
        if not is_shown or self._cost.has_choices:  # the first fault would hold those of all alternatives
            return iter(["$: does not fit; the place and reason are too expensive to find"])
        return self._first_line(value)

    def _first_line(self, value: Any) -> Iterator[str]:
        import jsonschema_rs  # noqa: PLC0415  # loaded already when the schema was compiled

        try:
            self._compiled.validate(value)
        except jsonschema_rs.ValidationError as error:
            yield from describe_errors([error], value)
            yield "(the value or its schema is large: only the first fault is named)"

    def refused_strings(self, value: Any) -> Mapping[tuple[str | int, ...], str]:
        """Return the strings in a value that does not fit which stand where the schema admits no string.

        Returns:
            The strings by their paths; empty if there are none, if there are more than `MAX_FAULTS` faults, or if the
            faults are too expensive to find.
        """
        size = size_of(value, MAX_PAIRS, MAX_DEPTH)
        if size.parts > MAX_PAIRS or size.depth > MAX_DEPTH:
            return {}
        if self._cost.work_of_faults(value, _MOST_WORK_FOR_FAULTS) > _MOST_WORK_FOR_FAULTS:
            return {}
        try:
            errors = list(islice(self._compiled.iter_errors(value), MAX_FAULTS + 1))
        except ValueError:  # not a JSON value
            return {}
        return {} if len(errors) > MAX_FAULTS else _strings_refused(errors, value)

    def accepts(self, value: Any) -> bool:
        """Return True if `value` fits; `value` must not be deeper than `MAX_DEPTH`.

        Only for schemas that this program has made, because the cost is not bounded.
        """
        return self._compiled.is_valid(value)


@define(eq=False, slots=True)
class LazyValidator:
    """A schema that is compiled when the first value is validated, so that publishing it needs no import.

    If the schema cannot be compiled, each validation raises `SchemaError`.
    """

    schema: Mapping[str, Any]
    formats: Mapping[str, FormatCheck] = field(factory=dict[str, FormatCheck])
    _validator: Validator | None = field(default=None, init=False)
    _refusal: tuple[Any, ...] | None = field(default=None, init=False)

    def faults(self, value: Any) -> list[str]:
        """Return the faults of `value`; see `Validator.faults`."""
        return (self._validator or self._ready()).faults(value)

    def refused_strings(self, value: Any) -> Mapping[tuple[str | int, ...], str]:
        """Return the strings in `value` where the schema admits none; see `Validator.refused_strings`."""
        return (self._validator or self._ready()).refused_strings(value)

    def accepts(self, value: Any) -> bool:
        """Return True if `value` fits; see `Validator.accepts`."""
        return (self._validator or self._ready()).accepts(value)

    def _ready(self) -> Validator:
        if self._refusal is None:
            try:
                self._validator = compile_schema(self.schema, formats=self.formats)
            except SchemaError as error:
                self._refusal = error.args  # not the error, whose traceback refers to this object
            else:
                return self._validator
        raise SchemaError(*self._refusal)


def compile_schema(schema: Mapping[str, Any], *, formats: Mapping[str, FormatCheck] | None = None) -> Validator:
    """Compile a JSON Schema. This takes at least tens of microseconds: keep the result.

    Args:
        schema: the schema, as JSON values. Known formats are asserted, unknown ones are ignored.
        formats: checks that replace or extend the standard formats, by name.

    Raises:
        SchemaError: the schema cannot be used; the message says why.
    """
    dialect = dialect_of(schema)
    if is_deeper_than(schema, MAX_DEPTH):
        raise SchemaError(f"the schema is nested deeper than {MAX_DEPTH} levels")
    if _is_larger(schema, MAX_PARTS, MAX_CHARACTERS):
        raise SchemaError(f"the schema has more than {MAX_PARTS:,} parts or {MAX_CHARACTERS:,} characters in strings")
    plain = dict(schema)
    try:
        cost = Cost(plain)
        try:
            return Validator(_compiled(dialect, plain, formats, linear=True), cost)
        except SchemaError:
            if cost.names.isdisjoint(_PATTERNS):
                raise
        return Validator(_compiled(dialect, plain, formats, linear=False), Cost(plain, backtracks=True))
    except CostError as error:
        raise SchemaError(str(error)) from None


def _compiled(
    dialect: str, schema: dict[str, Any], formats: Mapping[str, FormatCheck] | None, *, linear: bool
) -> jsonschema_rs.Validator:
    import jsonschema_rs  # noqa: PLC0415  # slow to import: a server whose tools are only listed does not need it

    refused: list[str] = []

    def refuse(uri: str) -> Any:
        refused.append(uri)
        raise LookupError(uri)

    make = getattr(jsonschema_rs, _DIALECTS[dialect])
    engine = jsonschema_rs.RegexOptions() if linear else jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACKS)
    try:
        compiled: jsonschema_rs.Validator = make(
            schema,
            formats={**_FORMATS, **(formats or {})},
            validate_formats=True,
            retriever=refuse,
            pattern_options=engine,
        )
    except ValueError as error:
        if refused:
            raise SchemaError(f"the schema refers to {refused[0]!r}, outside itself, which is not fetched") from None
        reason = getattr(error, "message", str(error))
        if getattr(getattr(error, "kind", None), "name", "") == "$ref":
            raise SchemaError(
                f"a reference has no target inside the schema, and references are not fetched: {shortened(reason, 300)}"
            ) from None
        place = render_path(getattr(error, "instance_path", ()))
        raise SchemaError(f"not a usable JSON Schema: {place}: {shortened(reason)}") from None
    return compiled


def dialect_of(schema: Mapping[str, Any]) -> str:
    """Return the URI of the dialect a schema is written in.

    Raises:
        SchemaError: this package does not support the dialect.
    """
    named = schema.get("$schema", DEFAULT_DIALECT)
    dialect = named.removesuffix("#") if isinstance(named, str) else named
    if not isinstance(dialect, str) or dialect not in _DIALECTS:
        raise SchemaError(f"unknown JSON Schema dialect {named!r}; known are: {', '.join(_DIALECTS)}")
    return dialect


def is_deeper_than(value: Any, levels: int) -> bool:
    """Return True if a JSON value has more than `levels` nested levels, without recursion."""
    here: list[Any] = [value] if isinstance(value, _CONTAINERS) else []
    for _ in range(levels):
        if not here:
            return False
        # The exact class is checked first, because most members are scalars.
        here = [
            inner
            for outer in here
            for inner in (outer.values() if isinstance(outer, _OBJECT) else outer)
            if type(inner) not in _SCALARS and isinstance(inner, _CONTAINERS)
        ]
    return bool(here)


def _is_small(value: Any) -> bool:
    """Return True if a value is an object of a few scalars, none of them long; its names may be long."""
    if value.__class__ is not dict or len(value) > _SMALL:
        return False
    for each in value.values():
        kind = each.__class__
        if kind is int:
            if not SMALLEST <= each <= GREATEST:
                return False
        elif kind is str:
            if len(each) > _SHORT:
                return False
        elif kind not in _SCALARS:
            return False
    return True


def _has_short_names(value: dict[Any, Any]) -> bool:
    return all(name.__class__ is not str or len(name) <= _SHORT for name in value)


def _is_larger(value: Any, most_values: int, most_characters: int) -> bool:
    values, characters = 0, 0
    waiting: list[Any] = [value]
    while waiting and values <= most_values and characters <= most_characters:
        part = waiting.pop()
        values += 1
        if isinstance(part, str):
            characters += len(part)
        elif isinstance(part, dict):
            waiting += cast("dict[str, Any]", part).values()
        elif isinstance(part, (list, tuple)):
            waiting += cast("list[Any]", part)
    return bool(waiting) or characters > most_characters
