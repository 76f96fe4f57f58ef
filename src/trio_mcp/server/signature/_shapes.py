"""Shapes: the JSON Schemas and loaders of scalars, enumerations and literals, side by side.

A loader must accept every value that its schema accepts. If a standard format is wider than the Python class (year 0 is
a date in RFC 3339), `FORMATS` makes the validator as narrow. If it is narrower (a time without an offset is not valid),
the schema has a pattern instead.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import enum
import math
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, get_args

import msgspec
from attrs import frozen

from ._conversion import Loader, Misfit

__all__ = ["ANY_KINDS", "FORMATS", "Inexpressible", "Shape", "enum_shape", "literal_shape", "scalar_shape"]

ANY_KINDS: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
"""The types of JSON Schema."""


class Inexpressible(TypeError):
    """An annotation has no JSON form; the message says which part of it and why."""


@frozen
class Shape:
    """The JSON form of one annotation."""

    schema: dict[str, Any]
    """The published schema. It refers to classes as ``#/$defs/...``."""

    kinds: frozenset[str]
    """The JSON Schema types of its values."""

    load: Loader | None = None
    """Makes the Python value; None if it is the JSON value itself."""

    hashable: bool = True
    """True if the Python value can be in a set or be a key."""


def scalar_shape(annotation: Any, *, output: bool) -> Shape | None:
    """Return the shape of a class whose values are JSON scalars; None if `annotation` is not such a class."""
    if annotation is decimal.Decimal and output:
        return _DECIMAL_OUT
    try:
        return _SCALARS.get(annotation)
    except TypeError:  # an annotation may hold unhashable metadata
        return None


def enum_shape(cls: type[enum.Enum]) -> Shape:
    """Return the shape of an enumeration: its values, in the order of declaration."""
    members = list(cls)
    for member in members:
        if not isinstance(member.value, (str, int, float, bool, type(None))):
            raise Inexpressible(f"{cls.__name__}.{member.name} has a value that is not a JSON scalar: {member.value!r}")
    return _choice_shape([member.value for member in members], members)


def literal_shape(annotation: Any) -> Shape:
    """Return the shape of a ``Literal``: its values, in the order of declaration."""
    members = get_args(annotation)
    values = [member.value if isinstance(member, enum.Enum) else member for member in members]
    for value in values:
        if not isinstance(value, (str, int, bool, type(None))):
            raise Inexpressible(f"{annotation} holds {value!r}, which is not a JSON scalar")
    return _choice_shape(values, members)


def _choice_shape(values: Sequence[Any], members: Sequence[Any]) -> Shape:
    """Return the shape of a choice of fixed values, each of which stands for a member."""
    if not values:
        raise Inexpressible("a choice has no members")
    kinds: set[str] = {_KIND_OF[type(_plain(value))] for value in values}
    if "number" in kinds:
        kinds.discard("integer")
    schema: dict[str, Any] = {"type": next(iter(kinds))} if len(kinds) == 1 else {}
    if "number" in kinds:
        kinds.add("integer")  # 2.0 may be written 2
    # In Python True equals 1, in JSON it does not; 1.0 equals 1 in both.
    table = {(isinstance(value, bool), value): member for value, member in zip(values, members, strict=True)}

    def load(value: Any) -> Any:
        return table[isinstance(value, bool), value]

    return Shape({**schema, "enum": [_plain(value) for value in values]}, frozenset(kinds), load)


_KIND_OF: Final[Mapping[type, str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}


def _plain(value: Any) -> Any:
    """Return the value as the built-in class; a member of a ``StrEnum`` becomes a string."""
    for base in (bool, str, int, float):
        if isinstance(value, base):
            return base(value)
    return value


def _load_float(value: Any) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise Misfit(((), "beyond the range of a floating-point number"))
    return number


def _load_decimal(value: Any) -> decimal.Decimal:
    return decimal.Decimal(repr(value) if isinstance(value, float) else value)


def _loads(cls: type, text: str) -> bool:
    try:
        msgspec.convert(text, cls)
    except msgspec.ValidationError:
        return False
    return True


_RFC3339: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def _is_date_time(text: str) -> bool:
    return _RFC3339.fullmatch(text) is not None and _loads(dt.datetime, text)


def _is_date(text: str) -> bool:
    return _loads(dt.date, text)


FORMATS: Final[Mapping[str, Callable[[str], bool]]] = {"date-time": _is_date_time, "date": _is_date}
"""Formats that accept only values of the Python classes; for `trio_mcp.schema`."""

_TIME: Final = r"^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])?$"
_COUNT: Final = "[0-9]{1,8}"
_SECONDS: Final = rf"{_COUNT}(\.[0-9]{{1,6}})?S"
_CLOCK: Final = rf"T({_COUNT}H({_COUNT}M)?({_SECONDS})?|{_COUNT}M({_SECONDS})?|{_SECONDS})"
_DURATION: Final = rf"^-?P({_COUNT}D({_CLOCK})?|{_CLOCK})$"
_NUMERAL: Final = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,6})?$"
_BASE64: Final = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"


def _formatted(cls: type, **schema: Any) -> Shape:
    return Shape({"type": "string", **schema}, frozenset({"string"}), partial(msgspec.convert, type=cls))


_DECIMAL_OUT: Final = Shape({"type": "string", "pattern": _NUMERAL}, frozenset({"string"}))

_SCALARS: Final[Mapping[Any, Shape]] = {
    Any: Shape({}, ANY_KINDS, hashable=False),
    object: Shape({}, ANY_KINDS, hashable=False),
    None: Shape({"type": "null"}, frozenset({"null"})),
    type(None): Shape({"type": "null"}, frozenset({"null"})),
    bool: Shape({"type": "boolean"}, frozenset({"boolean"})),
    int: Shape({"type": "integer"}, frozenset({"integer"}), int),
    float: Shape({"type": "number"}, frozenset({"integer", "number"}), _load_float),
    str: Shape({"type": "string"}, frozenset({"string"})),
    bytes: Shape(
        {"type": "string", "contentEncoding": "base64", "pattern": _BASE64}, frozenset({"string"}), base64.b64decode
    ),
    dt.datetime: _formatted(dt.datetime, format="date-time"),
    dt.date: _formatted(dt.date, format="date"),
    dt.time: _formatted(dt.time, pattern=_TIME, examples=["09:30:00"]),
    dt.timedelta: _formatted(dt.timedelta, pattern=_DURATION, examples=["P1DT2H30M"]),
    uuid.UUID: _formatted(uuid.UUID, format="uuid"),
    decimal.Decimal: Shape(
        {"anyOf": [{"type": "number"}, {"type": "string", "pattern": _NUMERAL}]},
        frozenset({"integer", "number", "string"}),
        _load_decimal,
    ),
}
