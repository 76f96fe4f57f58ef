"""Converts JSON values that fit the published schema into Python values, and Python values back into JSON.

The file has four parts:

- Loaders convert JSON into Python. `_annotations` combines them, one for each annotation; a loader of None stands for a
  JSON value that is used as it is. A loader refuses only values that no schema can exclude: those that a validator of
  the class rejects, and numbers beyond the range of a float.
- `read_object` reads the classes whose JSON form is an object: their members, names on the wire, defaults and
  constructor. There is one reader for each kind of class, and all return the same `ObjectSpec`.
- `refused_metadata` finds metadata of ``Annotated`` that only pydantic honours, which no loader may ignore.
- `to_json` converts the result of a handler, under the names that the output schema published. `msgspec.to_builtins`
  converts the single values only: it leaves out the private attributes of attrs classes, and lets NaN through.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime as dt
import decimal
import enum
import math
import typing
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args, get_origin

import attrs
import msgspec

from .._misuse import unawaited

__all__ = [
    "FOREIGN",
    "MISSING",
    "PLAIN",
    "Form",
    "Loader",
    "Misfit",
    "ObjectMember",
    "ObjectSpec",
    "array_loader",
    "form_of",
    "is_named_tuple",
    "is_pydantic_model",
    "is_validated_by_pydantic",
    "load_each",
    "mapping_loader",
    "object_loader",
    "pydantic_loader",
    "read_object",
    "refused_metadata",
    "resolve_hints",
    "to_json",
    "tuple_loader",
]

Loader: TypeAlias = Callable[[Any], Any]
"""Converts a JSON value that fits the schema into the annotated type."""

Step: TypeAlias = "str | int"


class Misfit(Exception):
    """A value cannot be converted into its type, or into JSON. Holds each fault with the path to it."""

    def __init__(self, *faults: tuple[tuple[Step, ...], str]) -> None:
        super().__init__(*faults)
        self.faults = faults

    def under(self, step: Step) -> list[tuple[tuple[Step, ...], str]]:
        """Return the faults with *step* in front of each path."""
        return [((step, *path), fault) for path, fault in self.faults]


def load_each(items: Iterable[tuple[Step, Any, Loader | None]]) -> list[Any]:
    """Load several members, collecting the faults of all of them.

    Raises:
        Misfit: with every fault; each path begins with the step of the member.
    """
    loaded: list[Any] = []
    faults: list[tuple[tuple[Step, ...], str]] = []
    cause: Misfit | None = None
    for step, value, load in items:
        try:
            loaded.append(value if load is None else load(value))
        except Misfit as misfit:
            cause = misfit
            faults += misfit.under(step)
    if faults:
        raise Misfit(*faults) from cause
    return loaded


def array_loader(load_item: Loader | None, make: Callable[[Iterable[Any]], Any]) -> Loader | None:
    """Return a loader of arrays whose items have one type; `make` is the collection class."""
    if load_item is None:
        return None if make is list else make

    def load(values: Sequence[Any]) -> Any:
        return make(load_each((index, value, load_item) for index, value in enumerate(values)))

    return load


def tuple_loader(loaders: Sequence[Loader | None]) -> Loader:
    """Return a loader of tuples of a fixed length."""

    def load(values: Sequence[Any]) -> Any:
        pairs = zip(values, loaders, strict=True)
        return tuple(load_each((index, value, load_item) for index, (value, load_item) in enumerate(pairs)))

    return load


def mapping_loader(load_key: Loader | None, load_value: Loader | None) -> Loader | None:
    """Return a loader of dictionaries."""
    if load_key is None and load_value is None:
        return None

    def load(members: Mapping[str, Any]) -> dict[Any, Any]:
        keys = load_each((name, name, load_key) for name in members)
        return dict(zip(keys, load_each((name, value, load_value) for name, value in members.items()), strict=True))

    return load


def object_loader(construct: Callable[..., Any], members: Mapping[str, tuple[str, Loader | None]]) -> Loader:
    """Return a loader that calls a class.

    Args:
        construct: called with keyword arguments; every exception that it raises is a fault of the value.
        members: for each name on the wire the keyword and the loader of its value. Other names are ignored: the
            schema admits only those that have no meaning for the class, such as a tag.
    """

    def load(value: Mapping[str, Any]) -> Any:
        known = [(name, item, *members[name]) for name, item in value.items() if name in members]
        loaded = load_each((name, item, load_item) for name, item, _, load_item in known)
        arguments = dict(zip((keyword for _, _, keyword, _ in known), loaded, strict=True))
        try:
            return construct(**arguments)
        except Exception as error:
            raise Misfit(((), str(error) or type(error).__name__)) from error

    return load


def pydantic_loader(model: Any) -> Loader:
    """Return a loader for a pydantic model, which runs its validators."""

    def load(value: Any) -> Any:
        try:
            # Not model_validate: strict models accept a JSON string as a date, or an array as a set, only from JSON.
            return model.model_validate_json(msgspec.json.encode(value))
        except Exception as error:
            raise Misfit(*_pydantic_faults(error)) from error

    return load


def _pydantic_faults(error: Any) -> list[tuple[tuple[Step, ...], str]]:
    if not hasattr(error, "errors"):
        return [((), str(error) or type(error).__name__)]
    return [(tuple(fault["loc"]), fault["msg"]) for fault in error.errors(include_url=False)]


# --- Classes whose JSON form is an object ---

MISSING: Final = object()
"""Stands for a default that is absent, or that a factory computes."""

_QUALIFIERS: Final = ("Required", "NotRequired", "ReadOnly")


@attrs.frozen
class ObjectMember:
    """One member of an object."""

    wire: str
    """Its name in JSON."""

    keyword: str
    """Its name as an argument of the constructor."""

    attribute: str
    """Its name on the instance."""

    annotation: Any
    required: bool
    default: Any = MISSING
    accepted: bool = True
    """True if the constructor takes it; otherwise it occurs in results only."""


@attrs.frozen
class ObjectSpec:
    """A class whose JSON form is an object."""

    construct: Callable[..., Any]
    members: tuple[ObjectMember, ...]
    tag: tuple[str, str | int] | None = None
    """The name and value of the member that identifies a msgspec class in a union."""


def is_pydantic_model(cls: Any) -> bool:
    """Return True if `cls` is a pydantic model, without importing pydantic."""
    return isinstance(cls, type) and hasattr(cls, "model_json_schema") and hasattr(cls, "model_validate_json")


FOREIGN: Final = frozenset({"annotated_types", "pydantic"})
"""The packages whose metadata is read without importing them."""


def is_validated_by_pydantic(cls: Any) -> bool:
    """Return True if pydantic checks the members of `cls` in its constructor, as in pydantic's dataclasses."""
    return hasattr(cls, "__pydantic_validator__")


_RUN_BY_PYDANTIC: Final = frozenset({
    "AfterValidator", "BeforeValidator", "Discriminator", "EncodedBytes", "EncodedStr", "GetPydanticSchema", "Json",
    "PathType", "PlainValidator", "Predicate", "UuidVersion", "ValidateAs", "WrapValidator",
})  # fmt: skip
"""Classes of metadata that check or change a value."""
_WITH_OPTIONS: Final = {"FieldInfo": "Field", "StringConstraints": "StringConstraints", "PydanticMetadata": "Field"}
"""Classes of metadata that have options, with the names under which users call them."""
_ELSEWHERE: Final = "put the member into a pydantic model, or check the value in the handler"
_CHANGED: Final = "put the member into a pydantic model, or change the value in the handler"
_RENAMED: Final = "name the parameter so"
_REFUSED_OPTIONS: Final[Mapping[str, str]] = {
    "alias": _RENAMED,
    "validation_alias": _RENAMED,
    "discriminator": "leave it out, and each value becomes the first class of the union that it fits",
    "max_digits": _ELSEWHERE,
    "decimal_places": _ELSEWHERE,
    "ascii_only": _ELSEWHERE,
    "strip_whitespace": _CHANGED,
    "to_lower": _CHANGED,
    "to_upper": _CHANGED,
}
"""Options that check or change a value or rename it, and what to do instead."""


def refused_metadata(metadata: Iterable[Any]) -> Iterator[str]:
    """Yield why metadata of ``Annotated`` is refused: only pydantic does what it says, and here nothing would happen.

    Validators are often the checks that keep bad values out, so they must not be ignored. The classes are those of
    pydantic and annotated-types, and their subclasses; they are recognised without importing these packages.
    """
    for note in metadata:
        classes = type(note).__mro__
        names = [cls.__name__ for cls in classes if cls.__module__.partition(".")[0] in FOREIGN]
        yield from (f"{name} is not run here: {_ELSEWHERE}" for name in names if name in _RUN_BY_PYDANTIC)
        for owner in (_WITH_OPTIONS[name] for name in names if name in _WITH_OPTIONS):
            for name, cure in _REFUSED_OPTIONS.items():
                value = getattr(note, name, None)
                if value is not None and value is not False:  # decimal_places=0 is a check, too
                    yield f"{owner}({name}=...) is not supported here: {cure}"
        if "FieldInfo" in names:  # the rest of its options is here
            yield from refused_metadata(note.metadata)


def is_named_tuple(cls: Any) -> bool:
    """Return True if `cls` is a class made by `typing.NamedTuple` or `collections.namedtuple`."""
    return isinstance(cls, type) and tuple in cls.__mro__ and hasattr(cls, "_fields")


def read_object(cls: Any, namespace: Mapping[str, Any]) -> ObjectSpec | None:
    """Return the members of a class; None if its JSON form is not an object.

    Args:
        cls: a dataclass, attrs class, TypedDict, NamedTuple or `msgspec.Struct`.
        namespace: names that its annotations may use in addition to those of its module.

    Raises:
        NameError: an annotation contains an undefined name.
    """
    for is_kind, read in _READERS:
        if is_kind(cls):
            return read(cls, namespace)
    return None


def resolve_hints(owner: Any, namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Return the annotations of a class or function, with strings evaluated.

    Raises:
        NameError: a string contains a name that is neither in the module nor in `namespace`.
    """
    return typing.get_type_hints(owner, localns=dict(namespace), include_extras=True)


def _read_dataclass(cls: Any, namespace: Mapping[str, Any]) -> ObjectSpec:
    hints = resolve_hints(cls, namespace)
    for name, hint in hints.items():
        if isinstance(hint, dataclasses.InitVar):
            raise TypeError(f"{cls.__name__}.{name} is an InitVar, which cannot be written as JSON")
    members = (
        ObjectMember(
            wire=field.name,
            keyword=field.name,
            attribute=field.name,
            annotation=hints[field.name],
            required=field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
            default=MISSING if field.default is dataclasses.MISSING else field.default,
            accepted=field.init,
        )
        for field in dataclasses.fields(cls)
    )
    return ObjectSpec(cls, tuple(members))


def _read_attrs(cls: Any, namespace: Mapping[str, Any]) -> ObjectSpec:
    hints = resolve_hints(cls, namespace)
    members = (
        ObjectMember(
            wire=field.alias,
            keyword=field.alias,
            attribute=field.name,
            annotation=hints.get(field.name, Any if field.type is None else field.type),
            required=field.default is attrs.NOTHING,
            default=MISSING if isinstance(field.default, attrs.Factory) else _without_nothing(field.default),  # type: ignore[arg-type]
            accepted=field.init,
        )
        for field in attrs.fields(cls)
    )
    return ObjectSpec(cls, tuple(members))


def _without_nothing(default: Any) -> Any:
    return MISSING if default is attrs.NOTHING else default


def _read_struct(cls: Any, _namespace: Mapping[str, Any]) -> ObjectSpec:
    members = (
        ObjectMember(
            wire=field.encode_name,
            keyword=field.name,
            attribute=field.name,
            annotation=field.type,
            required=field.required,
            default=MISSING if field.default in (msgspec.NODEFAULT, msgspec.UNSET) else field.default,
        )
        for field in msgspec.structs.fields(cls)
    )
    config = cls.__struct_config__
    tag = None if config.tag is None else (config.tag_field, config.tag)
    return ObjectSpec(cls, tuple(members), tag)


def _read_typed_dict(cls: Any, namespace: Mapping[str, Any]) -> ObjectSpec:
    members: list[ObjectMember] = []
    for name, hint in resolve_hints(cls, namespace).items():
        # If annotations are strings, __required_keys__ ignores the qualifiers.
        required = name in cls.__required_keys__
        bare = hint
        while (qualifier := getattr(get_origin(bare), "_name", None)) in _QUALIFIERS:
            required = {"Required": True, "NotRequired": False}.get(str(qualifier), required)
            (bare,) = get_args(bare)
        members.append(ObjectMember(name, name, name, bare, required))
    return ObjectSpec(dict, tuple(members))


def _read_named_tuple(cls: Any, namespace: Mapping[str, Any]) -> ObjectSpec:
    hints = resolve_hints(cls, namespace)
    defaults = cls._field_defaults
    members = (
        ObjectMember(name, name, name, hints.get(name, Any), name not in defaults, defaults.get(name, MISSING))
        for name in cls._fields
    )
    return ObjectSpec(cls, tuple(members))


def _is_struct(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, msgspec.Struct)


def _is_dataclass(cls: Any) -> bool:
    return isinstance(cls, type) and dataclasses.is_dataclass(cls)


def _is_attrs(cls: Any) -> bool:
    return isinstance(cls, type) and attrs.has(cls)


def _is_typed_dict(cls: Any) -> bool:
    # typing.is_typeddict does not recognise those of typing_extensions on every Python.
    return isinstance(cls, type) and dict in cls.__mro__ and hasattr(cls, "__required_keys__")


_READERS: Final[tuple[tuple[Callable[[Any], bool], Callable[[Any, Mapping[str, Any]], ObjectSpec]], ...]] = (
    (_is_struct, _read_struct),
    (_is_attrs, _read_attrs),
    (_is_dataclass, _read_dataclass),
    (is_named_tuple, _read_named_tuple),
    (_is_typed_dict, _read_typed_dict),
)


# --- From Python to JSON ---

PLAIN: Final = frozenset({str, int, bool, type(None)})
"""Classes whose instances are JSON values already."""
_FORMATTED: Final = (bytes, bytearray, memoryview, dt.date, dt.time, dt.timedelta, uuid.UUID, decimal.Decimal)
"""Classes whose instances become formatted strings."""
_ARRAYS: Final = (collections.abc.Sequence, collections.abc.Set)
Form: TypeAlias = Literal["object", "array", "scalar", "bytes"]


def to_json(value: Any) -> Any:
    """Return the JSON form of a value: a new value made of dict, list, str, int, float, bool and None.

    Raises:
        Misfit: part of the value has no JSON form; holds the path to the part.
        RecursionError: it is nested too deeply, or contains itself.
    """
    cls: Any = value.__class__
    return value if cls in PLAIN else _MOST.get(cls, _rest_to_json)(value)


def form_of(cls: type) -> Form | None:
    """Return the JSON form that `to_json` gives to instances of a class; None if it has none.

    The form of bytes has a name of its own, because it is a string that nobody expects.
    """
    if issubclass(cls, (bytes, bytearray, memoryview)):
        return "bytes"
    if issubclass(cls, (str, int, float, enum.Enum, type(None), *_FORMATTED)):
        return "scalar"
    if issubclass(cls, Mapping) or is_pydantic_model(cls) or any(is_kind(cls) for is_kind, _ in _READERS):
        return "object"
    return "array" if issubclass(cls, _ARRAYS) else None


def _rest_to_json(value: Any) -> Any:
    cls: Any = value.__class__
    if isinstance(value, enum.Enum):
        return to_json(value.value)
    if isinstance(value, (str, int, float)):
        return _number_or_string(value)
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
    raise Misfit(((), unawaited(value) or f"a value of type {type(value).__name__} has no JSON form"))


def _number_or_string(value: str | float) -> str | float:
    """Return the value as the built-in class, and refuse NaN and infinity."""
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
    """Return the name on the wire and the value of each declared member; None if the class declares none."""
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
    # A member that was never set is left out; the schema reports it if it is required.
    found = [(wire, getattr(value, attribute, msgspec.UNSET)) for attribute, wire in names]
    config = getattr(cls, "__struct_config__", None)
    return found if config is None or config.tag is None else [(config.tag_field, config.tag), *found]


_MOST: Final[Mapping[type, Callable[[Any], Any]]] = {dict: _mapping, list: _array}
"""A shortcut for the most common classes that are not `PLAIN`."""
