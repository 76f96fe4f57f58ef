"""Turns what a handler returned into JSON values, under the names the output schema published.

`msgspec.to_builtins` does the single values. Classes are walked here, because it names their members otherwise
than their constructors do (private attributes of attrs classes are left out) and lets NaN through.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime as dt
import decimal
import enum
import math
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import attrs
import msgspec

from ._annotations_load import Misfit, load_each
from ._annotations_objects import is_named_tuple, is_pydantic_model

__all__ = ["PLAIN", "to_json"]

PLAIN: Final = frozenset({str, int, bool, type(None)})
"""Classes whose instances are JSON values as they are."""
_FORMATTED: Final = (bytes, bytearray, memoryview, dt.date, dt.time, dt.timedelta, uuid.UUID, decimal.Decimal)
"""Become a text with a format."""
_ARRAYS: Final = (collections.abc.Sequence, collections.abc.Set)


def to_json(value: Any) -> Any:
    """Return the JSON form of a value: a new value made of dict, list, str, int, float, bool and None.

    Raises:
        Misfit: part of it has none, with the path to the part.
        RecursionError: it is nested too deeply, or contains itself.
    """
    cls: Any = value.__class__
    return value if cls in PLAIN else _MOST.get(cls, _rest_to_json)(value)


def _rest_to_json(value: Any) -> Any:
    cls: Any = value.__class__
    if isinstance(value, enum.Enum):
        return to_json(value.value)
    if isinstance(value, (str, int, float)):
        return _number_or_text(value)
    if isinstance(value, _FORMATTED):
        return msgspec.to_builtins(value)
    if issubclass(cls, Mapping):
        return _mapping(value)
    if is_pydantic_model(type(value)):
        return to_json(value.model_dump(mode="json", by_alias=True))
    if (members := _members(value)) is not None:
        return _object((wire, item) for wire, item in members if item is not msgspec.UNSET)
    if issubclass(cls, _ARRAYS):
        return _array(value)
    raise Misfit(((), f"a value of type {type(value).__name__} has no JSON form"))


def _number_or_text(value: str | float) -> str | float:
    """Strip subclasses of what JSON has, and refuse the numbers it has not."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if not math.isfinite(value):
        raise Misfit(((), f"{value!r} is not a JSON number"))
    return float(value)


def _mapping(members: Mapping[Any, Any]) -> dict[str, Any]:
    return _object((key if key.__class__ is str else _key(key), item) for key, item in members.items())


def _object(members: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    pairs = list(members)
    values = load_each([(name, item, None if item.__class__ in PLAIN else to_json) for name, item in pairs])
    return {name: value for (name, _), value in zip(pairs, values, strict=True)}


def _array(items: Collection[Any]) -> list[Any]:
    return load_each([(index, item, None if item.__class__ in PLAIN else to_json) for index, item in enumerate(items)])


def _key(key: Any) -> str:
    plain = to_json(key)
    if isinstance(plain, str):
        return plain
    if isinstance(plain, int) and not isinstance(plain, bool):
        return str(plain)
    raise Misfit(((), f"{key!r} cannot be the name of a JSON member"))


def _members(value: Any) -> Iterable[tuple[str, Any]] | None:
    """Return the members of an instance of a class with declared ones: name on the wire and value."""
    cls: Any = value.__class__
    names: Iterable[tuple[str, str]]
    if issubclass(cls, msgspec.Struct):
        names = zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True)
    elif attrs.has(cls):
        names = ((field.name, field.alias) for field in attrs.fields(cls))
    elif dataclasses.is_dataclass(cls):
        names = ((field.name, field.name) for field in dataclasses.fields(cls))
    elif is_named_tuple(cls):
        names = zip(cls._fields, cls._fields, strict=True)
    else:
        return None
    # A member that was never set stays out, and is missed by the schema if it is required.
    found = [(wire, getattr(value, attribute, msgspec.UNSET)) for attribute, wire in names]
    config = getattr(cls, "__struct_config__", None)
    return found if config is None or config.tag is None else [(config.tag_field, config.tag), *found]


_MOST: Final[Mapping[type, Callable[[Any], Any]]] = {dict: _mapping, list: _array}
"""Classes of most values that are not `PLAIN`: no search is needed to know what they are."""
