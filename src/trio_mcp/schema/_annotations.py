"""Turns a type annotation into its JSON Schema and a loader that agrees with it.

The server reads the parameters and return annotations of its tools with it, and forms; the client reads the types that
callers want results in. `AnnotationReader` collects the classes it meets under ``$defs``. `_conversion` reads classes,
and makes the loaders of objects and arrays.

``Annotated[...]`` may add a description, bounds, lengths and patterns to the schema: as plain strings, as
`msgspec.Meta`, and, without importing them, as the classes of annotated-types and pydantic's ``Field``. Those of their
classes that check or change a value in Python are refused. All other metadata is ignored.

Rules of this file:

1. Schema and loader are made together; the loader accepts every value that the schema accepts.
2. A type that cannot be published exactly raises `Inexpressible` at registration.
3. Only the schema enforces constraints. A constraint that does not apply to its type is therefore refused: it would be
   published and never be enforced.

The shapes of scalars, enumerations and literals hold a schema and a loader side by side, because a loader must accept
every value that its schema accepts. If a standard format is wider than the Python class (year 0 is a date in RFC 3339),
`FORMATS` makes the validator as narrow. If it is narrower (a time without an offset is not valid), the schema has a
pattern instead.
"""

from __future__ import annotations

import base64
import collections.abc
import datetime as dt
import decimal
import enum
import math
import re
import sys
import types
import typing
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import PurePath
from typing import Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin

import attrs
import msgspec
from attrs import define, evolve, field, frozen

from ._conversion import (
    FOREIGN,
    MISSING,
    Loader,
    Misfit,
    ObjectMember,
    ObjectSpec,
    array_loader,
    is_pydantic_model,
    is_validated_by_pydantic,
    mapping_loader,
    object_loader,
    pydantic_loader,
    read_object,
    refused_metadata,
    to_json,
    tuple_loader,
)
from ._docstrings import parse_docstring
from ._validate import TYPE_NAMES, LazyValidator

__all__ = [
    "ANY_KINDS",
    "FORMATS",
    "AnnotationReader",
    "Definitions",
    "Inexpressible",
    "Shape",
    "annotated_schema",
    "enum_shape",
    "literal_shape",
    "publish_member",
    "reference_to",
    "scalar_shape",
    "union_loader",
]


# --- Shapes of scalars, enumerations and literals ---

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


# --- Metadata of Annotated[...] ---

_NUMBERS: Final = frozenset({"integer", "number"})

_BOUNDS: Final[Mapping[str, str]] = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
_LENGTHS: Final[Mapping[str, Mapping[str, str]]] = {
    "min_length": {"string": "minLength", "array": "minItems", "object": "minProperties"},
    "max_length": {"string": "maxLength", "array": "maxItems", "object": "maxProperties"},
}
_ANNOTATIONS: Final[Mapping[str, str]] = {"title": "title", "description": "description", "examples": "examples"}
_STRING_FORMS: Final = frozenset({"pattern", "format", "contentEncoding", "enum"})


def annotated_schema(shape: Shape, annotation: Any, metadata: Sequence[Any]) -> dict[str, Any]:
    """Return the schema of a shape with the additions of its metadata.

    Raises:
        Inexpressible: a constraint does not apply to the type, or cannot be published.
    """
    schema = dict(shape.schema)
    for note in metadata:
        if isinstance(note, str):
            schema["description"] = note
    for fact in _facts(metadata):
        for name, keyword in _ANNOTATIONS.items():
            if (value := getattr(fact, name, None)) is not None:
                schema[keyword] = value
        schema.update(_constraints(fact, shape, annotation))
        schema.update(getattr(fact, "extra_json_schema", None) or {})
        if getattr(fact, "deprecated", None):
            schema["deprecated"] = True
        if isinstance(extra := getattr(fact, "json_schema_extra", None), dict):  # else it is a function
            schema.update(cast("dict[str, Any]", extra))
    return schema


def _facts(metadata: Sequence[Any]) -> Iterator[Any]:
    for note in metadata:
        if isinstance(note, msgspec.Meta) or type(note).__module__.partition(".")[0] in FOREIGN:
            yield note
            # pydantic's Field keeps its bounds as annotated-types here.
            yield from _facts(getattr(note, "metadata", ()))


def _constraints(fact: Any, shape: Shape, annotation: Any) -> Iterator[tuple[str, Any]]:
    if getattr(fact, "tz", None) is False:
        raise Inexpressible("tz=False cannot be published: the format date-time always has an offset")
    for name, keyword in _BOUNDS.items():
        if (bound := getattr(fact, name, None)) is not None:
            # A Decimal may arrive as a string, which a bound does not constrain.
            _require(shape.kinds & _NUMBERS and not _is_formatted(shape.schema, {"pattern"}), name, bound, annotation)
            if not isinstance(bound, (int, float)):
                raise Inexpressible(f"{name}={bound!r} is not a JSON number")
            yield keyword, bound
    for name, keywords in _LENGTHS.items():
        if (length := getattr(fact, name, None)) is not None:
            fitting = [keyword for kind, keyword in keywords.items() if kind in shape.kinds]
            _require(fitting and not _is_formatted(shape.schema, _STRING_FORMS), name, length, annotation)
            yield from ((keyword, length) for keyword in fitting)
    if (pattern := getattr(fact, "pattern", None)) is not None:
        _require(
            "string" in shape.kinds and not _is_formatted(shape.schema, _STRING_FORMS), "pattern", pattern, annotation
        )
        yield "pattern", pattern


def _require(fits: object, name: str, value: Any, annotation: Any) -> None:
    if not fits:
        raise Inexpressible(f"{name}={value!r} does not apply to {getattr(annotation, '__name__', annotation)}")


def _is_formatted(schema: Mapping[str, Any], keywords: AbstractSet[str]) -> bool:
    """Return True if values of a type are strings of a fixed form, which one of these keywords shows."""
    arms: Sequence[Mapping[str, Any]] = schema.get("anyOf", ())
    here = schema.get("type") == "string" and not keywords.isdisjoint(schema)
    return here or any(_is_formatted(arm, keywords) for arm in arms)


# --- Unions ---


def union_loader(shapes: Sequence[Shape], definitions: Mapping[str, Any]) -> Loader | None:
    """Return a loader for a union.

    The JSON type of a value selects the arm. If several arms accept that type (two classes, or a date and any string),
    the value goes to the first declared arm whose schema accepts it.

    Args:
        shapes: its arms in the order of declaration.
        definitions: the definitions that the arms refer to; may still grow until the first value is loaded.
    """
    if all(shape.load is None for shape in shapes):
        return None
    arms = {kind: [_Arm(shape, definitions) for shape in _candidates(shapes, kind)] for kind in TYPE_NAMES.values()}

    def load(value: Any) -> Any:
        *earlier, last = arms[TYPE_NAMES[type(value)]]
        # The value fits the schema of the union, so it fits the last arm if it fits no earlier one.
        chosen = next((arm for arm in earlier if arm.validator.accepts(value)), last)
        return value if chosen.load is None else chosen.load(value)

    return load


class _Arm:
    """One arm of a union, with a validator of its schema."""

    def __init__(self, shape: Shape, definitions: Mapping[str, Any]) -> None:
        self.load = shape.load
        self.validator = LazyValidator({**shape.schema, "$defs": definitions}, FORMATS)


def _candidates(shapes: Sequence[Shape], kind: str) -> list[Shape]:
    """Return the arms that accept values of this JSON type, the most exact first."""
    if kind == "integer":
        return sorted(
            (shape for shape in shapes if "integer" in shape.kinds), key=lambda shape: "number" in shape.kinds
        )
    if kind == "number":
        # A float without a fraction counts as an integer, too, if no arm accepts numbers.
        takers = [shape for shape in shapes if not shape.kinds.isdisjoint({"integer", "number"})]
        return sorted(takers, key=lambda shape: "number" not in shape.kinds)
    return [shape for shape in shapes if kind in shape.kinds]


# --- Definitions ---

_PREFIX = "#/$defs/"


@define(eq=False)
class Definitions:
    """The ``$defs`` of one signature: one entry for each class, each under a different name."""

    by_name: dict[str, dict[str, Any]] = field(factory=dict[str, dict[str, Any]], init=False)

    def reserve(self, wanted: str) -> str:
        """Reserve a name; classes with the same name get numbers."""
        name = wanted
        number = 1
        while name in self.by_name:
            number += 1
            name = f"{wanted}{number}"
        self.by_name[name] = {}
        return name

    def resolve(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return a schema without a reference at its root."""
        while "$ref" in schema:
            beside = {keyword: fact for keyword, fact in schema.items() if keyword != "$ref"}
            schema = {**self.by_name[schema["$ref"].removeprefix(_PREFIX)], **beside}
        return schema

    def complete(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return a self-contained schema: with the definitions that it uses, and without a reference at its root."""
        root = self.resolve(schema)
        needed = _reachable(root, self.by_name)
        if not needed:
            return root
        return {**root, "$defs": {name: schema for name, schema in self.by_name.items() if name in needed}}


def reference_to(name: str) -> dict[str, Any]:
    """Return the schema that refers to a definition."""
    return {"$ref": f"{_PREFIX}{name}"}


def _reachable(schema: Any, definitions: Mapping[str, Any]) -> set[str]:
    """Return the names of the definitions a schema needs, directly or through others."""
    found: set[str] = set()
    waiting: list[Any] = [schema]
    while waiting:
        part: Any = waiting.pop()
        if part.__class__ is list:
            waiting += part
        elif part.__class__ is dict:
            waiting += part.values()
            # A property may have the name $ref, too; its value is then a schema, not a string.
            reference: Any = part.get("$ref")
            name = reference.removeprefix(_PREFIX) if isinstance(reference, str) else ""
            if name in definitions and name not in found:
                found.add(name)
                waiting.append(definitions[name])
    return found


_ARRAYS: Final[Mapping[Any, Callable[..., Any]]] = {
    list: list,
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Collection: list,
    collections.abc.Iterable: list,
    tuple: tuple,
    set: set,
    collections.abc.MutableSet: set,
    frozenset: frozenset,
    collections.abc.Set: frozenset,
}
_UNIQUE: Final = (set, frozenset)
_MAPPINGS: Final = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_OBJECT: Final = frozenset({"object"})
_ARRAY: Final = frozenset({"array"})

# The items of a set whose annotation does not name their type.
_SCALAR_ITEMS: Final = Shape({"type": ["string", "number", "boolean", "null"]}, ANY_KINDS - {"array", "object"})
_INT_KEY: Final = Shape({"pattern": "^(0|-?[1-9][0-9]{0,17})$"}, frozenset({"string"}), int)


@define(eq=False)
class AnnotationReader:
    """A reader that turns the annotations of one signature into shapes: JSON Schemas with loaders.

    The annotations share one set of definitions, so the published schema contains each class once.
    """

    output: bool
    """True for results, which are written; False for arguments, which are read."""

    namespace: Mapping[str, Any] = field(factory=dict[str, Any])
    """Names that the annotations of classes may use in addition to those of their modules."""

    ignores_unknown: bool = False
    """True to accept and ignore members that a class does not declare, because the sender may be newer."""

    definitions: Definitions = field(factory=Definitions, init=False)
    """The classes for ``$defs``; `Definitions.complete` puts them there."""

    _classes: dict[Any, Shape] = field(factory=dict[Any, Shape], init=False)
    _aliases: list[Any] = field(factory=list[Any], init=False)
    _is_validated: bool = field(default=False, init=False)
    """True inside a class whose constructor runs the validators of its members."""

    def shape(self, annotation: Any) -> Shape:
        """Return the JSON form of an annotation.

        Raises:
            Inexpressible: the annotation has no JSON form.
        """
        if scalar := scalar_shape(annotation, output=self.output):
            return scalar
        origin = get_origin(annotation)
        if origin is typing.Annotated:
            inner, *metadata = get_args(annotation)
            if not self._is_validated and (reason := next(refused_metadata(metadata), None)):
                raise Inexpressible(reason)
            shape = self.shape(inner)
            return Shape(annotated_schema(shape, inner, metadata), shape.kinds, shape.load, shape.hashable)
        if origin is Literal:
            return literal_shape(annotation)
        if origin in {Union, types.UnionType}:
            return self._union(get_args(annotation))
        if origin is typing.Final:
            return self.shape(get_args(annotation)[0])
        if hasattr(annotation, "__value__") or hasattr(annotation, "__supertype__"):
            return self._alias(annotation)
        return self._class(annotation, origin or annotation)

    def _class(self, annotation: Any, origin: Any) -> Shape:
        if type(origin).__hash__ is None:
            raise Inexpressible(f"{annotation!r} is not a type")
        if origin in _ARRAYS:
            return self._array(get_args(annotation), _ARRAYS[origin])
        if origin in _MAPPINGS:
            return self._mapping(get_args(annotation))
        if isinstance(origin, type) and issubclass(origin, enum.Enum):
            return enum_shape(origin)
        if annotation in self._classes:
            return self._classes[annotation]
        if is_pydantic_model(origin):
            return self._model(annotation)
        spec = self._read(origin)
        if spec is None:
            is_plain = isinstance(origin, type) and not attrs.has(origin)
            is_of_python = getattr(origin, "__module__", "").partition(".")[0] in sys.stdlib_module_names
            can_become_data = is_plain and not is_of_python
            cure = "; make it a dataclass, a TypedDict, an attrs class or a pydantic model" if can_become_data else ""
            if isinstance(origin, type) and issubclass(origin, PurePath):
                cure = "; annotate it with str, and make the path in the function"
            raise Inexpressible(f"{_name_of(annotation)} has no JSON form{cure}")
        return self._object(annotation, origin, spec)

    def _read(self, cls: Any) -> ObjectSpec | None:
        try:
            return read_object(cls, self.namespace)
        except NameError as error:
            raise Inexpressible(f"{_name_of(cls)}: {error}; import it outside of `if TYPE_CHECKING:`") from error
        except TypeError as error:
            raise Inexpressible(str(error)) from error

    def _alias(self, annotation: Any) -> Shape:
        if annotation in self._aliases:
            raise Inexpressible(f"the alias {_name_of(annotation)} contains itself")
        self._aliases.append(annotation)
        inner = annotation.__value__ if hasattr(annotation, "__value__") else annotation.__supertype__
        shape = self.shape(inner)
        self._aliases.pop()
        return shape

    def _union(self, arms: tuple[Any, ...]) -> Shape:
        shapes = [self.shape(arm) for arm in arms if arm is not msgspec.UnsetType]
        if len(shapes) == 1:
            return shapes[0]
        kinds = frozenset[str]().union(*(shape.kinds for shape in shapes))
        load = union_loader(shapes, self.definitions.by_name)
        return Shape(
            {"anyOf": [shape.schema for shape in shapes]}, kinds, load, all(shape.hashable for shape in shapes)
        )

    def _array(self, arguments: tuple[Any, ...], make: Callable[..., Any]) -> Shape:
        if make is tuple and arguments and arguments[-1] is not Ellipsis:
            return self._tuple(arguments)
        if make in _UNIQUE:
            return self._set(arguments, make)
        schema: dict[str, Any] = {"type": "array"}
        load: Loader | None = None if make is list else make
        item = self.shape(arguments[0]) if arguments else None
        if item is not None:
            schema["items"] = item.schema
            load = array_loader(item.load, make)
        return Shape(schema, _ARRAY, load, hashable=make is tuple and item is not None and item.hashable)

    def _set(self, arguments: tuple[Any, ...], make: Callable[..., Any]) -> Shape:
        item = _SCALAR_ITEMS if not arguments or arguments[0] in {Any, object} else self.shape(arguments[0])
        if not item.hashable:
            raise Inexpressible(f"{_name_of(arguments[0])} cannot be an item of a set: it is not hashable")
        schema = {"type": "array", "items": item.schema, "uniqueItems": True}
        return Shape(schema, _ARRAY, array_loader(item.load, make), hashable=make is frozenset)

    def _tuple(self, arguments: tuple[Any, ...]) -> Shape:
        items = [self.shape(argument) for argument in arguments]
        schema = {
            "type": "array",
            "prefixItems": [item.schema for item in items],
            "minItems": len(items),
            "maxItems": len(items),
        }
        load = tuple_loader([item.load for item in items])
        return Shape(schema, _ARRAY, load, all(item.hashable for item in items))

    def _mapping(self, arguments: tuple[Any, ...]) -> Shape:
        if not arguments:
            return Shape({"type": "object"}, _OBJECT, hashable=False)
        key, value = (self.shape(argument) for argument in arguments)
        if arguments[0] is int:
            key = _INT_KEY
        elif key.kinds != frozenset({"string"}) and arguments[0] is not Any:
            raise Inexpressible(f"{_name_of(arguments[0])} cannot be a key: the names of JSON members are strings")
        schema: dict[str, Any] = {"type": "object", "additionalProperties": value.schema or True}
        names = {keyword: fact for keyword, fact in key.schema.items() if keyword != "type"}
        if names:
            schema["propertyNames"] = names
        return Shape(schema, _OBJECT, mapping_loader(key.load, value.load), hashable=False)

    def _object(self, annotation: Any, cls: Any, spec: ObjectSpec) -> Shape:
        name = self.definitions.reserve(_name_of(cls))
        loader: Loader | None = None

        def load(value: Any) -> Any:
            assert loader is not None
            return loader(value)

        # Stored before the members are read, because a class may contain itself.
        hashable = cls is not dict and getattr(cls, "__hash__", None) is not None
        shape = Shape(reference_to(name), _OBJECT, load, hashable)
        self._classes[annotation] = shape
        documented = parse_docstring(_written_docstring(cls))
        members = [member for member in spec.members if member.accepted or self.output]
        shapes = {member.wire: self._member(cls, annotation, member) for member in members}
        schema = self.definitions.by_name[name]
        schema.update({"type": "object", "description": documented.description})
        if not documented.description:
            del schema["description"]
        properties = {
            member.wire: publish_member(
                shapes[member.wire], documented.parameters.get(member.attribute), member.default
            )
            for member in members
        }
        required = [member.wire for member in members if member.required]
        if spec.tag is not None:
            properties = {spec.tag[0]: {"const": spec.tag[1]}, **properties}
            required.insert(0, spec.tag[0])
        schema["properties"] = properties
        if required:
            schema["required"] = required
        if not (self.output or self.ignores_unknown):
            schema["additionalProperties"] = False
        loader = object_loader(
            spec.construct, {member.wire: (member.keyword, shapes[member.wire].load) for member in members}
        )
        hashable = hashable and all(member.hashable for member in shapes.values())
        self._classes[annotation] = evolve(shape, hashable=hashable)
        return self._classes[annotation]

    def _member(self, cls: Any, annotation: Any, member: ObjectMember) -> Shape:
        outer, self._is_validated = self._is_validated, is_validated_by_pydantic(cls)
        try:
            return self.shape(_specialised(member.annotation, cls, annotation))
        except Inexpressible as error:
            raise Inexpressible(f"{_name_of(cls)}.{member.attribute}: {error}") from error
        finally:
            self._is_validated = outer

    def _model(self, model: Any) -> Shape:
        mode = "serialization" if self.output else "validation"
        name = self.definitions.reserve(_name_of(model))
        # The definitions of a model get a prefix, because pydantic does not know the names that are taken here.
        schema = model.model_json_schema(mode=mode, ref_template=f"#/$defs/{name}.{{model}}")
        for inner, definition in schema.pop("$defs", {}).items():
            self.definitions.by_name[f"{name}.{inner}"] = definition
        self.definitions.by_name[name].update(schema)
        kinds = _OBJECT if self.definitions.resolve(schema).get("type") == "object" else ANY_KINDS
        shape = Shape(reference_to(name), kinds, pydantic_loader(model), hashable=False)
        self._classes[model] = shape
        return shape


def publish_member(shape: Shape, documentation: str | None, default: Any) -> dict[str, Any]:
    """Return the schema of a parameter or member, with its description and default.

    Args:
        shape: the shape of its annotation.
        documentation: its description in the docstring; a description in the annotation takes precedence.
        default: published if it has a JSON form of the right type; `MISSING` if there is no default.
    """
    schema = shape.schema
    if documentation:
        schema = {"description": documentation, **schema}
    if default is MISSING or (default is None and "null" not in shape.kinds):
        return schema
    try:
        return {**schema, "default": to_json(default)}
    except Misfit:
        return schema


def _name_of(annotation: Any) -> str:
    name = getattr(annotation, "__name__", None) or repr(annotation)
    return str(name)


def _written_docstring(cls: Any) -> str | None:
    text: str | None = cls.__dict__.get("__doc__")
    # A dataclass or named tuple without a docstring gets its signature as one.
    return None if text is None or text.startswith(f"{cls.__name__}(") else text


def _specialised(annotation: Any, cls: Any, alias: Any) -> Any:
    """Return an annotation of ``Box`` with its type variables replaced by the arguments of ``Box[int]``."""
    chosen: dict[Any, Any] = dict(zip(getattr(cls, "__parameters__", ()), get_args(alias), strict=False))
    if isinstance(annotation, TypeVar):
        return chosen.get(annotation, annotation)
    open_ = getattr(annotation, "__parameters__", ())
    if isinstance(annotation, type) or not open_:
        return annotation
    return annotation[tuple(chosen.get(variable, variable) for variable in open_)]
