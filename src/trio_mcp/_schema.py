"""Checks of JSON values against JSON Schema, for both roles: every fault with its path, nothing ever fetched.

Servers check arguments and results with it, clients check structured content. The checking itself is
jsonschema-rs, imported when the first schema is compiled. Rules of this file:

1. A schema is read by the dialect its ``$schema`` names, 2020-12 when it names none; an unknown one is refused.
2. A reference is resolved inside the schema or not at all: no network, no files.
3. Values and schemas nested deeper than `MAX_DEPTH` are refused before jsonschema-rs sees them, because it recurses
   on the native stack and would take the process down.

See https://modelcontextprotocol.io/specification/2026-07-28/basic#json-schema-usage.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from attrs import define, field

from ._errors import TrioMcpError

if TYPE_CHECKING:
    import jsonschema_rs

MAX_DEPTH: Final = 200
"""Levels of nesting allowed in a checked value and in a schema; a bare number has one level."""

MAX_FAULTS: Final = 100
"""Faults named for one value; a last line says when there were more."""

DEFAULT_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
"""The dialect of a schema that names none."""

_DIALECTS: Final = {
    DEFAULT_DIALECT: "Draft202012Validator",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
    "http://json-schema.org/draft-06/schema": "Draft6Validator",
    "http://json-schema.org/draft-04/schema": "Draft4Validator",
}

_SHOWN_CHARACTERS: Final = 80

type_names: Final[Mapping[type, str]] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}
"""JSON Schema's name for the class of a JSON value."""

FormatCheck = Callable[[str], bool]
"""Says whether a string has a format; must not raise."""


class SchemaError(TrioMcpError, ValueError):
    """A JSON Schema cannot be used: malformed, of an unknown dialect, too deep, or referring outside itself.

    Whoever wrote the schema is at fault: for a tool's input schema that is the server.
    """


@define(eq=False, slots=True)
class Validator:
    """A compiled JSON Schema. Made by `compile_schema`; safe to use from several threads."""

    _compiled: "jsonschema_rs.Validator"

    def faults(self, value: Any) -> list[str]:
        """Name what is wrong with `value`.

        Args:
            value: a JSON value made of dict, list, str, int, float, bool and None. Integers of any size are exact and
                a float without a fraction counts as an integer, as JSON Schema has it. NaN and infinity are not JSON:
                whoever makes the value refuses them.

        Returns:
            One line per fault, such as ``$.rows[2].name: expected string, got integer``, in the order of the schema;
            empty when the value fits. At most `MAX_FAULTS` lines and one that says there are more.
        """
        if is_deeper_than(value, MAX_DEPTH):
            return [f"$: nested deeper than {MAX_DEPTH} levels"]
        try:
            if self._compiled.is_valid(value):
                return []
            errors = self._compiled.iter_errors(value)
            found = list(islice(_lines(errors, value), MAX_FAULTS + 1))
        except UnicodeEncodeError:
            return ["$: a string holds half of a surrogate pair, which is not text"]
        except ValueError as error:
            return [f"$: not a JSON value: {error}"]
        if len(found) > MAX_FAULTS:
            found[MAX_FAULTS:] = ["(there are more faults)"]
        return found

    def accepts(self, value: Any) -> bool:
        """Say whether `value` fits, for callers that need no names; `value` is no deeper than `MAX_DEPTH`."""
        return self._compiled.is_valid(value)


@define(eq=False, slots=True)
class LazyValidator:
    """A schema that is compiled when the first value is checked, so that publishing one costs no import.

    A schema that cannot be compiled raises `SchemaError` from each check.
    """

    schema: Mapping[str, Any]
    formats: Mapping[str, FormatCheck] = field(factory=dict[str, FormatCheck])
    _validator: Validator | None = field(default=None, init=False)

    def faults(self, value: Any) -> list[str]:
        """Name what is wrong with `value`; see `Validator.faults`."""
        return self._ready().faults(value)

    def accepts(self, value: Any) -> bool:
        """Say whether `value` fits; see `Validator.accepts`."""
        return self._ready().accepts(value)

    def _ready(self) -> Validator:
        if self._validator is None:
            self._validator = compile_schema(self.schema, formats=self.formats)
        return self._validator


def compile_schema(schema: Mapping[str, Any], *, formats: Mapping[str, FormatCheck] | None = None) -> Validator:
    """Compile a JSON Schema. Takes tens of microseconds and more: keep the result.

    Args:
        schema: the schema, as JSON values; formats it names are asserted, unknown ones ignored.
        formats: checks that replace or extend the standard formats, by name.

    Raises:
        SchemaError: the schema cannot be used, with the reason.
    """
    dialect = dialect_of(schema)
    if is_deeper_than(schema, MAX_DEPTH):
        raise SchemaError(f"the schema is nested deeper than {MAX_DEPTH} levels")
    import jsonschema_rs  # noqa: PLC0415  # heavy: a server that is only listed never needs it

    refused: list[str] = []

    def refuse(uri: str) -> Any:
        refused.append(uri)
        raise LookupError(uri)

    make = getattr(jsonschema_rs, _DIALECTS[dialect])
    try:
        compiled = make(dict(schema), formats=dict(formats or {}), validate_formats=True, retriever=refuse)
    except ValueError as error:
        if refused:
            raise SchemaError(f"the schema refers to {refused[0]!r}, outside itself; nothing is fetched") from None
        reason = getattr(error, "message", str(error))
        place = render_path(getattr(error, "instance_path", ()))
        raise SchemaError(f"not a usable JSON Schema: {place}: {_shortened(reason)}") from None
    return Validator(compiled)


def dialect_of(schema: Mapping[str, Any]) -> str:
    """Return the URI of the dialect a schema is written in.

    Raises:
        SchemaError: it names a dialect this package cannot check by.
    """
    named = schema.get("$schema", DEFAULT_DIALECT)
    dialect = named.removesuffix("#") if isinstance(named, str) else named
    if dialect not in _DIALECTS:
        raise SchemaError(f"unknown JSON Schema dialect {named!r}; known are: {', '.join(_DIALECTS)}")
    return dialect


def is_deeper_than(value: Any, levels: int) -> bool:
    """Say whether a JSON value nests more than `levels` levels, without recursing."""
    containers = [value]
    for _ in range(levels):
        if not containers:
            return False
        containers = [
            inner
            for outer in containers
            if isinstance(outer, (dict, list, tuple))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list, tuple))
        ]
    return bool(containers)


def render_path(parts: Iterable[str | int]) -> str:
    """Write a place inside a JSON value the way all errors of this package do: ``$.rows[2].name``."""
    return "$" + "".join(_step(part) for part in parts)


def _step(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if part.replace("-", "_").isidentifier() else f"[{json.dumps(part)}]"


def _lines(errors: "Iterable[jsonschema_rs.ValidationError]", root: Any) -> Iterator[str]:
    for error in errors:
        yield from _describe(error, root)


def _describe(error: "jsonschema_rs.ValidationError", root: Any) -> Iterator[str]:
    path = error.instance_path
    here = render_path(path)
    kind: Any = error.kind
    match kind.name:
        case "required":
            yield f"{render_path([*path, kind.property])}: required, but missing"
        case "additionalProperties" | "unevaluatedProperties":
            yield from (f"{render_path([*path, name])}: unknown, not allowed here" for name in kind.unexpected)
        case "type":
            yield f"{here}: expected {_either(kind.types)}, got {_got(path, root)}"
        case "enum":
            yield f"{here}: expected {_either(map(_shown, kind.options))}, got {_got_value(path, root)}"
        case "const":
            yield f"{here}: expected {_shown(kind.expected_value)}, got {_got_value(path, root)}"
        case "pattern":
            yield f"{here}: {_got_value(path, root)} does not match the pattern {kind.pattern}"
        case "format":
            yield f"{here}: {_got_value(path, root)} is not a {kind.format}{_HINTS.get(kind.format, '')}"
        case "anyOf" | "oneOf" if (arms := _context(kind)):
            yield from _describe_choice(arms, path, root)
        case _:
            yield f"{here}: {_shortened(error.message)}"


_HINTS: Final = {
    "date-time": " (RFC 3339 with an offset, as in 2026-01-31T09:30:00Z)",
    "date": " (as in 2026-01-31)",
    "uuid": " (as in 123e4567-e89b-12d3-a456-426614174000)",
}


def _context(kind: Any) -> "list[list[jsonschema_rs.ValidationError]]":
    # Absent when a value fits several arms of a oneOf, which then is the fault.
    return kind.context if type(kind).__name__ != "ValidationErrorKind_OneOfMultipleValid" else []


def _describe_choice(arms: Any, path: list[str | int], root: Any) -> Iterator[str]:
    """Report the arm the value was meant for: the only one whose type fits, else what each would take."""
    meant = [arm for arm in arms if not any(_is_type_fault(error, path) for error in arm)]
    if len(meant) == 1:
        yield from _lines(meant[0], root)
        return
    taken = [name for arm in arms for error in arm if _is_type_fault(error, path) for name in error.kind.types]
    if not meant and taken:
        yield f"{render_path(path)}: expected {_either(taken)}, got {_got(path, root)}"
        return
    tried = "; or ".join(", ".join(_lines(arm, root)) for arm in meant)
    yield f"{render_path(path)}: fits none of the alternatives ({tried})"


def _is_type_fault(error: "jsonschema_rs.ValidationError", path: list[str | int]) -> bool:
    return error.kind.name == "type" and error.instance_path == path


def _got(path: Iterable[str | int], root: Any) -> str:
    return type_names.get(type(_at(path, root)), "something else")


def _got_value(path: Iterable[str | int], root: Any) -> str:
    return _shown(_at(path, root))


def _at(path: Iterable[str | int], root: Any) -> Any:
    for part in path:
        root = root[part]
    return root


def _either(names: Iterable[str]) -> str:
    *most, last = dict.fromkeys(names)
    return f"{', '.join(most)} or {last}" if most else last


def _shown(value: Any) -> str:
    return _shortened(json.dumps(value, ensure_ascii=False, default=str))


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 3]}..."
