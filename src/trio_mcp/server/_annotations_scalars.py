"""The JSON form of annotations that are not containers: numbers, text, dates, enumerations.

For each the schema and the loader stand side by side, because they have to agree: what the schema passes the loader
takes. Where the standard format is wider than the Python class (year 0 is a date in RFC 3339) `FORMATS` makes the
judge as narrow; where it is narrower (a time without an offset is none) a pattern is published instead.
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

from ._annotations_load import Loader, Misfit

__all__ = ["ANY_KINDS", "FORMATS", "Inexpressible", "Shape", "enum_shape", "literal_shape", "scalar_shape"]

ANY_KINDS: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
"""JSON Schema's names for the kinds of JSON value."""


class Inexpressible(TypeError):
    """An annotation has no JSON form; the text says which part of it and why."""


@frozen
class Shape:
    """The JSON form of one annotation."""

    schema: dict[str, Any]
    """What is published. Members of classes are referred to as ``#/$defs/...``."""

    kinds: frozenset[str]
    """The kinds of JSON value it can be."""

    load: Loader | None = None
    """Makes the Python value; None when the JSON value is it."""

    hashable: bool = True
    """Whether the Python value can be in a set or be a key."""


def scalar_shape(annotation: Any, *, output: bool) -> Shape | None:
    """Return the shape of a class that is one JSON value, None if `annotation` is not one."""
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
            raise Inexpressible(f"{cls.__name__}.{member.name} has a value that is no JSON scalar: {member.value!r}")
    return _choice_shape([member.value for member in members], members)


def literal_shape(annotation: Any) -> Shape:
    """Return the shape of a ``Literal``, in the order written."""
    members = get_args(annotation)
    values = [member.value if isinstance(member, enum.Enum) else member for member in members]
    for value in values:
        if not isinstance(value, (str, int, bool, type(None))):
            raise Inexpressible(f"{annotation} holds {value!r}, which is no JSON scalar")
    return _choice_shape(values, members)


def _choice_shape(values: Sequence[Any], members: Sequence[Any]) -> Shape:
    """Return the shape of a choice of fixed values, each standing for a member."""
    if not values:
        raise Inexpressible("a choice without members")
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
    """Strip the class off a value of ``StrEnum`` and its like."""
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
"""Formats as narrow as the Python classes behind them; for `trio_mcp._schema`."""

_TIME: Final = r"^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])?$"
_COUNT: Final = "[0-9]{1,8}"
_SECONDS: Final = rf"{_COUNT}(\.[0-9]{{1,6}})?S"
_CLOCK: Final = rf"T({_COUNT}H({_COUNT}M)?({_SECONDS})?|{_COUNT}M({_SECONDS})?|{_SECONDS})"
_DURATION: Final = rf"^-?P({_COUNT}D({_CLOCK})?|{_CLOCK})$"
_NUMERAL: Final = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,6})?$"
_BASE64: Final = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"


def _text(cls: type, **schema: Any) -> Shape:
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
    dt.datetime: _text(dt.datetime, format="date-time"),
    dt.date: _text(dt.date, format="date"),
    dt.time: _text(dt.time, pattern=_TIME, examples=["09:30:00"]),
    dt.timedelta: _text(dt.timedelta, pattern=_DURATION, examples=["P1DT2H30M"]),
    uuid.UUID: _text(uuid.UUID, format="uuid"),
    decimal.Decimal: Shape(
        {"anyOf": [{"type": "number"}, {"type": "string", "pattern": _NUMERAL}]},
        frozenset({"integer", "number", "string"}),
        _load_decimal,
    ),
}
