"""Tests of sixty signatures: values that fit the schema reach the handler converted, all others are refused.

A strategy makes values from the published schema alone, without the annotations. The results are compared with those of
the independent `jsonschema` package.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime as dt
import enum
import functools
import inspect
import json
import math
import operator
import types
import typing
import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NotRequired,
    Optional,
    TypedDict,
    Union,
    cast,
    get_args,
    get_origin,
)

import attrs
import jsonschema  # type: ignore[import-untyped]  # has no annotations, and we need none
import msgspec
import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trio_mcp.server.signature import ArgumentFaults, Signature, describe


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"
    AMBER = "amber"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 10


class Ratio(enum.Enum):
    HALF = 0.5
    DOUBLE = 2.0


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


@dataclasses.dataclass
class Route:
    """A way through points.

    Attributes:
        points: in the order of the journey
    """

    points: list[Point]
    colour: Colour = Colour.RED
    via: Route | None = None
    notes: dict[str, str] = dataclasses.field(default_factory=dict[str, str])


@attrs.frozen
class Seats:
    count: Annotated[int, msgspec.Meta(ge=1, le=9, description="how many")]
    _row: str = "A"
    price: float = attrs.field(default=1.0, alias="cost")


@attrs.define
class Tree:
    label: str
    kids: list[Tree] = attrs.Factory(list["Tree"])


class Options(TypedDict):
    verbose: bool
    depth: NotRequired[int]


class Loose(TypedDict, total=False):
    when: dt.date
    seats: Seats


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Packet(msgspec.Struct, rename="camel"):
    packet_id: int
    pay_load: bytes = b""
    time_to_live: int | msgspec.UnsetType = msgspec.UNSET


class Cat(msgspec.Struct, tag=True, frozen=True):
    lives: int = 9


class Dog(msgspec.Struct, tag=True, frozen=True):
    name: str


class Line(pydantic.BaseModel):
    article: str
    amount: int = pydantic.Field(ge=1, le=1000)


class Order(pydantic.BaseModel):
    lines: list[Line]
    due: dt.date | None = None
    state: Colour = Colour.RED


T = typing.TypeVar("T")


@dataclasses.dataclass
class Box(typing.Generic[T]):
    content: T
    spare: list[T] = dataclasses.field(default_factory=list[T])


UserId = typing.NewType("UserId", int)
Meta = msgspec.Meta
REQUIRED = inspect.Parameter.empty

SIGNATURES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "two integers": {"a": int, "b": int},
    "float": {"x": float},
    "text": {"s": str},
    "truth": {"b": bool},
    "null": {"n": None},
    "anything": {"value": Any, "thing": object},
    "bare list": {"items": list},
    "bare dict": {"members": dict},
    "bare tuple": {"items": tuple},
    "bare set": {"items": set, "frozen": frozenset},
    "bytes": {"data": bytes},
    "optional integer": {"a": Optional[int]},  # noqa: UP045  # both spellings are under test
    "optional with default": {"a": (int | None, None)},
    "pipe optional": {"a": str | None},
    "union of scalars": {"a": int | str | bool},
    "int or float": {"a": int | float},
    "float or int or null": {"a": float | int | None},
    "bounded int or float": {"a": Annotated[int, Meta(ge=10)] | float},
    "literal strings": {"mode": Literal["fast", "slow"]},
    "mixed literal": {"mode": Literal["auto", 1, True, None]},  # noqa: PYI061  # null among others is under test
    "optional literal": {"mode": (Literal["a", "b"] | None, None)},
    "enum": {"colour": Colour},
    "enum default": {"colour": (Colour, Colour.BLUE)},
    "int enum": {"level": Level},
    "float enum": {"ratio": Ratio},
    "enum or any text": {"colour": Colour | str},
    "literal of enum": {"colour": Literal[Colour.RED, Colour.AMBER]},
    "dataclass": {"point": Point},
    "nested dataclass": {"route": Route},
    "optional dataclass": {"point": (Point | None, None)},
    "two classes": {"thing": Point | Seats},
    "class or text": {"thing": Union[Point, str, None]},  # noqa: UP007  # both spellings are under test
    "attrs": {"seats": Seats},
    "recursive attrs": {"tree": Tree},
    "typed dict": {"options": Options},
    "loose typed dict": {"options": Loose},
    "named tuple": {"pair": Pair},
    "struct": {"packet": Packet},
    "tagged structs": {"animal": Cat | Dog},
    "pydantic": {"order": Order},
    "pydantic inside": {"orders": list[Order], "line": (Line | None, None)},
    "list of int": {"xs": list[int]},
    "list of classes": {"points": list[Point], "seats": list[Seats]},
    "list of optional": {"xs": list[int | None]},
    "sequence and mapping": {"xs": Sequence[float], "m": Mapping[str, Point]},
    "list of lists": {"grid": list[list[int]]},
    "dict of lists": {"m": dict[str, list[Colour]]},
    "dict of classes": {"m": dict[str, Seats]},
    "dict by enum": {"m": dict[Colour, int]},
    "dict by int": {"m": dict[int, str]},
    "dict by date": {"m": dict[dt.date, float]},
    "sets": {"a": set[int], "b": frozenset[Colour], "c": set[Cat]},
    "tuple of two": {"pair": tuple[int, Colour]},
    "tuple of many": {"xs": tuple[Point, ...]},
    "constrained integer": {"n": Annotated[int, Meta(ge=1, le=9, description="how many")]},
    "constrained float": {"n": Annotated[float, Meta(gt=0, lt=1)]},
    "constrained text": {"s": Annotated[str, Meta(min_length=2, max_length=5)]},
    "pattern": {"s": Annotated[str, Meta(pattern="^[a-z]{1,4}$")]},
    "constrained list": {"xs": Annotated[list[int], Meta(min_length=1, max_length=3)]},
    "optional constrained": {"n": (Optional[Annotated[int, Meta(multiple_of=5)]], 5)},  # noqa: UP045  # pyright knows no | of Annotated
    "described": {"n": Annotated[int, "how many"], "s": (Annotated[str, "a name"], "x")},
    "pydantic field": {"n": Annotated[int, pydantic.Field(ge=3, description="three or more")]},
    "moment": {"when": dt.datetime},
    "date and time": {"day": dt.date, "at": (dt.time, dt.time(9, 30))},
    "duration": {"wait": dt.timedelta},
    "identifier": {"id": uuid.UUID},
    "money": {"amount": Decimal},
    "moment or text": {"when": dt.datetime | str},
    "new type": {"user": UserId},
    "generic": {"box": Box[int], "boxes": list[Box[Point]]},
    "many": {"a": int, "b": (str, "x"), "c": (list[int], [1]), "d": (Point, Point(1)), "e": (float, math.inf)},
}


class Handler:
    """A function with the given signature that records its arguments."""

    __name__ = "handler"

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self.calls: list[dict[str, Any]] = []
        self.annotations: dict[str, Any] = {}
        made: list[inspect.Parameter] = []
        for name, given_ in parameters.items():
            annotation, default = cast("tuple[Any, Any]", given_) if isinstance(given_, tuple) else (given_, REQUIRED)
            self.annotations[name] = annotation
            made.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default))
        self.__signature__ = inspect.Signature(made)

    def __call__(self, **arguments: Any) -> None:
        self.calls.append(arguments)


CASES = {name: Handler(parameters) for name, parameters in SIGNATURES.items()}
DESCRIBED: dict[str, Signature] = {name: describe(handler) for name, handler in CASES.items()}
OTHERS: dict[str, Any] = {
    name: jsonschema.Draft202012Validator(found.input_schema) for name, found in DESCRIBED.items()
}
INLINED: dict[str, Any] = {
    name: jsonschema.Draft202012Validator(describe(handler, schema_refs="inline").input_schema)
    for name, handler in CASES.items()
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def fitting(schema: Any, definitions: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Make values from the keywords of JSON Schema that are published here."""
    if schema in ({}, True):
        return json_values
    if "$ref" in schema:
        target = definitions[schema["$ref"].removeprefix("#/$defs/")]
        return st.deferred(lambda: fitting(target, definitions))
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        arms = [fitting({**rest_of(schema), **arm}, definitions) for arm in schema["anyOf"]]
        return st.one_of(arms)
    if isinstance(schema["type"], list):
        return st.one_of([fitting({**schema, "type": kind}, definitions) for kind in schema["type"]])
    return MAKERS[schema["type"]](schema, definitions)


def rest_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in {"anyOf", "default", "description"}}


def integers(schema: Any, _definitions: Any) -> st.SearchStrategy[Any]:
    step = schema.get("multipleOf", 1)
    whole = st.integers(schema.get("minimum"), schema.get("maximum")).map(lambda n: n * step)
    safe = whole.filter(lambda n: abs(n) < 2**53)
    return whole | safe.map(float)


def numbers(schema: Any, _definitions: Any) -> st.SearchStrategy[Any]:
    low, high = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if low is None:
        return st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**80), 2**80)
    return st.floats(low, high, exclude_min=True, exclude_max=True)


def strings(schema: Any, _definitions: Any) -> st.SearchStrategy[str]:
    if "pattern" in schema:
        pattern: str = schema["pattern"]
        return st.from_regex(pattern.removesuffix("$") + r"\Z")
    match schema.get("format"):
        case "date-time":
            zones = st.integers(-1439, 1439).map(lambda minutes: dt.timezone(dt.timedelta(minutes=minutes)))
            return st.datetimes(timezones=zones).map(lambda when: when.isoformat())
        case "date":
            return st.dates().map(lambda day: day.isoformat())
        case "uuid":
            return st.uuids().map(str)
        case _:
            return st.text(min_size=schema.get("minLength", 0), max_size=schema.get("maxLength", 10))


def arrays(schema: Any, definitions: Any) -> st.SearchStrategy[list[Any]]:
    if "prefixItems" in schema:
        return st.tuples(*(fitting(item, definitions) for item in schema["prefixItems"])).map(list)
    return st.lists(
        fitting(schema.get("items", {}), definitions),
        min_size=schema.get("minItems", 0),
        max_size=schema.get("maxItems", 3),
        unique_by=repr_of_json if schema.get("uniqueItems") else None,
    )


def repr_of_json(value: Any) -> str:
    return repr(int(value) if isinstance(value, float) and value.is_integer() else value)


def objects(schema: Any, definitions: Any) -> st.SearchStrategy[dict[str, Any]]:
    properties = {name: fitting(inner, definitions) for name, inner in schema.get("properties", {}).items()}
    required = schema.get("required", [])
    optional = {name: made for name, made in properties.items() if name not in required}
    fixed = st.fixed_dictionaries({name: properties[name] for name in required}, optional=optional)
    more = schema.get("additionalProperties", True)
    if properties or more is False:
        return fixed
    names = fitting({"type": "string", **schema.get("propertyNames", {})}, definitions)
    return st.dictionaries(names, fitting(more, definitions), max_size=3)


MAKERS: dict[str, Callable[[Any, Any], st.SearchStrategy[Any]]] = {
    "null": lambda _schema, _definitions: st.none(),
    "boolean": lambda _schema, _definitions: st.booleans(),
    "integer": integers,
    "number": numbers,
    "string": strings,
    "array": arrays,
    "object": objects,
}


def conforms(value: Any, annotation: Any) -> bool:
    """Return True if a Python value and all values in it have the annotated types."""
    origin = get_origin(annotation) or annotation
    arguments = get_args(annotation)
    if isinstance(annotation, typing.NewType):
        return conforms(value, annotation.__supertype__)
    if origin in {Annotated, NotRequired}:
        return conforms(value, arguments[0])
    if origin in {Union, types.UnionType}:
        return any(conforms(value, arm) for arm in arguments)
    if origin is Literal:
        return any(value is arm or (type(value) is type(arm) and value == arm) for arm in arguments)
    if annotation in {None, msgspec.UnsetType}:
        return value is None or value is msgspec.UNSET
    return annotation in {Any, object, REQUIRED} or class_conforms(value, annotation, origin, arguments)


def class_conforms(value: Any, annotation: Any, origin: Any, arguments: tuple[Any, ...]) -> bool:
    if typing.is_typeddict(annotation):
        hints = typing.get_type_hints(annotation, include_extras=True)
        return value.__class__ is dict and all(conforms(item, hints[name]) for name, item in value.items())
    if origin is tuple and arguments and arguments[-1] is not Ellipsis:
        return value.__class__ is tuple and all(map(conforms, value, arguments))
    if issubclass(origin, collections.abc.Mapping):
        keys, items = arguments or (Any, Any)
        return value.__class__ is dict and all(conforms(k, keys) and conforms(v, items) for k, v in value.items())
    if origin in {list, tuple, set, frozenset, collections.abc.Sequence} and arguments:
        return issubclass(value.__class__, origin) and all(conforms(item, arguments[0]) for item in value)
    exact = type(value) is origin or (isinstance(value, origin) and isinstance(value, enum.Enum))
    return exact and fields_conform(value, annotation, origin)


def fields_conform(value: Any, annotation: Any, cls: Any) -> bool:
    if not (
        attrs.has(cls)
        or hasattr(cls, "__dataclass_fields__")
        or isinstance(value, (msgspec.Struct, pydantic.BaseModel))
    ):
        return True
    chosen: dict[Any, Any] = dict(zip(getattr(cls, "__parameters__", ()), get_args(annotation), strict=False))
    for name, hint in typing.get_type_hints(cls, include_extras=True).items():
        if name.startswith("_") and not attrs.has(cls):
            continue
        if isinstance(hint, typing.TypeVar):
            hint = chosen[hint]  # noqa: PLW2901  # the annotation with its variable put in
        elif parameters := getattr(hint, "__parameters__", ()):
            hint = hint[tuple(chosen[parameter] for parameter in parameters)]  # noqa: PLW2901  # likewise
        if get_origin(hint) is typing.ClassVar:
            continue
        if not conforms(getattr(value, name), hint):
            return False
    return True


bounded = settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


def test_there_are_sixty_signatures() -> None:
    assert len(SIGNATURES) >= 60


@pytest.mark.requirement("B.20-S4a")
@pytest.mark.parametrize("name", CASES)
def test_the_published_schema_is_a_valid_object_schema(name: str) -> None:
    schema = DESCRIBED[name].input_schema

    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert "$ref" not in schema


@pytest.mark.parametrize("name", CASES)
def test_every_value_that_fits_the_schema_reaches_the_handler_as_its_type(name: str) -> None:
    handler, signature = CASES[name], DESCRIBED[name]
    schema = signature.input_schema

    @bounded
    @given(arguments=fitting(schema, schema.get("$defs", {})))
    def check(arguments: dict[str, Any]) -> None:
        before = len(handler.calls)
        assert OTHERS[name].is_valid(arguments), "the strategy makes what the second opinion accepts"

        signature.call(signature.bind(arguments), {})

        assert len(handler.calls) == before + 1
        received = handler.calls.pop()
        assert received.keys() == arguments.keys()
        for label, value in received.items():
            assert conforms(value, handler.annotations[label]), (label, value)

    check()


def faults_of(signature: Signature, arguments: dict[str, Any]) -> tuple[str, ...]:
    try:
        signature.bind(arguments)
    except ArgumentFaults as refusal:
        return refusal.faults
    return ()


wrong_values = st.sampled_from([None, True, "wrong", "", 3.5, -1, 10**30, [], [None], {}, {"zz": 1}, {"x": "no"}])


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values inside a value."""
    members: list[tuple[Any, Any]] = []
    if value.__class__ is dict:
        members += value.items()
    elif value.__class__ is list:
        members += enumerate(value)
    found = [(*path, step) for step, _ in members]
    return found + [deeper for step, inner in members for deeper in places(inner, (*path, step))]


def replaced(value: Any, path: Sequence[Any], new: Any) -> Any:
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


@pytest.mark.requirement("B.20-S1b")
@pytest.mark.parametrize("name", CASES)
def test_a_value_that_does_not_fit_the_schema_is_refused_with_its_faults(name: str) -> None:
    signature = DESCRIBED[name]
    schema = signature.input_schema

    @bounded
    @given(arguments=fitting(schema, schema.get("$defs", {})), data=st.data())
    def check(arguments: dict[str, Any], data: st.DataObject) -> None:
        inside = places(arguments)
        if inside:
            arguments = replaced(arguments, data.draw(st.sampled_from(inside)), data.draw(wrong_values))
        errors = list(OTHERS[name].iter_errors(arguments))
        found = faults_of(signature, arguments)

        # The jsonschema package checks RFC 3339 only with an extra package.
        alone = all("is not a " in fault or "alternatives" in fault for fault in found)
        assert bool(found) == bool(errors) or (found and alone)
        assert all(fault.startswith("$") for fault in found)
        tops = {error.absolute_path[0] for error in errors if error.absolute_path}
        assert all(any(f"$.{top}" in fault for fault in found) for top in tops)

    check()


@pytest.mark.parametrize("name", CASES)
def test_the_schema_without_references_accepts_the_same_values(name: str) -> None:
    inlined = INLINED[name].schema

    @bounded
    @given(arguments=fitting(inlined, inlined.get("$defs", {})), data=st.data())
    def check(arguments: dict[str, Any], data: st.DataObject) -> None:
        assert OTHERS[name].is_valid(arguments)
        for place in places(arguments):
            changed = replaced(arguments, place, data.draw(wrong_values))
            assert INLINED[name].is_valid(changed) == OTHERS[name].is_valid(changed)

    jsonschema.Draft202012Validator.check_schema(inlined)
    assert ("$defs" in inlined) == (name in {"nested dataclass", "recursive attrs"})
    check()


@pytest.mark.parametrize("name", CASES)
def test_a_value_sent_as_json_in_a_string_is_taken_as_exactly_this_value_or_not_at_all(name: str) -> None:
    handler, signature = CASES[name], DESCRIBED[name]
    schema = signature.input_schema

    @bounded
    @given(arguments=fitting(schema, schema.get("$defs", {})), data=st.data())
    def check(arguments: dict[str, Any], data: st.DataObject) -> None:
        place = data.draw(st.sampled_from(places(arguments))) if arguments else ()
        inner = functools.reduce(operator.getitem, place, arguments)
        sent = replaced(arguments, place, json.dumps(inner)) if place and not isinstance(inner, str) else arguments
        if faults_of(signature, sent) and (repaired := signature.repair(sent)) is not None:
            signature.call(repaired[0], {})
            signature.call(signature.bind(arguments), {})
            received, expected = handler.calls[-2:]
            assert repr(received) == repr(expected)

    check()


@pytest.mark.parametrize("name", CASES)
def test_all_unknown_and_missing_arguments_are_named(name: str) -> None:
    signature = DESCRIBED[name]

    with pytest.raises(ArgumentFaults) as refusal:
        signature.bind({"unknown_1": 1, "unknown 2": 2})

    missing = [f"$.{label}: required, but missing" for label in signature.input_schema.get("required", [])]
    unknown = ["$.unknown_1: unknown, not allowed here", '$["unknown 2"]: unknown, not allowed here']
    assert sorted(refusal.value.faults) == sorted(missing + unknown)
