"""Tests of the schemas and loaders of annotations, and of annotations that have none."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    NamedTuple,
    NotRequired,
    Required,
    TypedDict,
    TypeVar,
)

import annotated_types
import attrs
import msgspec
import pydantic
import pytest

from trio_mcp.server.signature import ArgumentFaults, TypeReader, describe_type

T = TypeVar("T")
Meta = msgspec.Meta


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    """A place.

    Attributes:
        x: to the right
        y: up
    """

    x: int
    y: Annotated[int, "upwards"] = 0
    tags: list[str] = dataclasses.field(default_factory=list[str])
    norm: float = dataclasses.field(init=False, default=0.0)


@dataclasses.dataclass
class Chain:
    next: Chain | None = None


@attrs.frozen
class Account:
    _owner: str
    balance: Decimal = attrs.field(default=Decimal(0), alias="cents")
    pin: int = attrs.field(default=1, validator=attrs.validators.lt(10))
    log: list[str] = attrs.field(factory=list[str])
    opened: bool = attrs.field(init=False, default=False)


def form(annotation: Any) -> TypeReader:
    return describe_type(annotation, name="it")


def schema(annotation: Any) -> dict[str, Any]:
    return form(annotation).schema


def refusal(annotation: Any) -> str:
    with pytest.raises(TypeError) as error:
        form(annotation)
    return str(error.value)


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (int, {"type": "integer"}),
        (None, {"type": "null"}),
        (Any, {}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Literal["b", "a"], {"type": "string", "enum": ["b", "a"]}),
        (Literal["b", 1], {"enum": ["b", 1]}),
        (Colour, {"type": "string", "enum": ["red", "blue"]}),
        (list, {"type": "array"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (
            tuple[int, str],
            {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
        ),
        (dict, {"type": "object"}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (dict[Any, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (
            Mapping[Colour, Any],
            {"type": "object", "additionalProperties": True, "propertyNames": {"enum": ["red", "blue"]}},
        ),
        (dt.datetime, {"type": "string", "format": "date-time"}),
        (Final[int], {"type": "integer"}),
        (Annotated[int, "some"], {"type": "integer", "description": "some"}),
        (
            Annotated[int, Meta(gt=0, lt=9, multiple_of=2, title="t", examples=[2], extra_json_schema={"x-a": 1})],
            {
                "type": "integer",
                "exclusiveMinimum": 0,
                "exclusiveMaximum": 9,
                "multipleOf": 2,
                "title": "t",
                "examples": [2],
                "x-a": 1,
            },
        ),
        (
            Annotated[dict[str, int], Meta(max_length=3)],
            {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 3},
        ),
        (
            Annotated[int | str, Meta(ge=1), Meta(pattern="^a")],
            {"anyOf": [{"type": "integer"}, {"type": "string"}], "minimum": 1, "pattern": "^a"},
        ),
        (Annotated[int, annotated_types.Ge(3)], {"type": "integer", "minimum": 3}),
        (
            Annotated[str, pydantic.Field(min_length=2, description="two")],
            {"type": "string", "minLength": 2, "description": "two"},
        ),
        (Annotated[int, object(), re.compile("x")], {"type": "integer"}),
        (Annotated[dt.datetime, Meta(tz=True)], {"type": "string", "format": "date-time"}),
    ],
)
def test_an_annotation_becomes_its_schema(annotation: Any, expected: dict[str, Any]) -> None:
    assert schema(annotation) == expected


def test_a_class_is_published_with_its_descriptions_and_defaults() -> None:
    assert schema(Point) == {
        "type": "object",
        "description": "A place.",
        "properties": {
            "x": {"description": "to the right", "type": "integer"},
            "y": {"type": "integer", "description": "upwards", "default": 0},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["x"],
        "additionalProperties": False,
    }


def test_attrs_members_have_the_names_of_the_constructor_arguments() -> None:
    assert schema(Account)["properties"].keys() == {"owner", "cents", "pin", "log"}
    assert form(Account).load({"owner": "Ada", "cents": 1.5}) == Account("Ada", Decimal("1.5"))


def test_an_error_of_a_validator_is_a_fault_with_its_path() -> None:
    accounts = form(dict[str, list[Account]])

    with pytest.raises(ArgumentFaults) as error:
        accounts.load({"a": [{"owner": "A", "pin": 11}, {"owner": "B"}, {"owner": "C", "pin": 12}]})

    assert error.value.faults == ("$.a[0]: 'pin' must be < 10: 11", "$.a[2]: 'pin' must be < 10: 12")


def test_a_constructor_that_raises_without_a_message_is_reported_by_the_class_of_its_exception() -> None:
    def refuse(_instance: object, _attribute: object, _value: object) -> None:
        raise AssertionError

    cls = attrs.make_class("Strict", {"n": attrs.field(type=int, validator=refuse), "free": attrs.field(default=None)})

    with pytest.raises(ArgumentFaults, match=r"\$: AssertionError"):
        form(cls).load({"n": 1})
    assert schema(cls)["properties"]["free"] == {"default": None}


def test_a_class_that_contains_itself_refers_to_its_definition() -> None:
    found = schema(Chain)

    assert found["type"] == "object"
    assert found["$defs"]["Chain"]["properties"]["next"]["anyOf"][0] == {"$ref": "#/$defs/Chain"}
    assert form(Chain).load({"next": {"next": None}}) == Chain(Chain(None))


def test_a_chain_of_the_greatest_depth_is_loaded_or_refused_but_never_crashes() -> None:
    chain: dict[str, Any] = {}
    for _ in range(100):
        chain = {"next": chain}
    deeper: dict[str, Any] = chain
    for _ in range(100_000):
        deeper = {"next": deeper}

    assert isinstance(form(Chain).load(chain), Chain)
    with pytest.raises(ArgumentFaults, match="nested"):
        form(Chain).load(deeper)


def test_running_out_of_stack_while_loading_is_a_fault() -> None:
    chain: dict[str, Any] = {}
    for _ in range(150):
        chain = {"next": chain}
    limit = sys.getrecursionlimit()
    chains = form(Chain)
    chains.load({})

    sys.setrecursionlimit(400)
    try:
        with pytest.raises(ArgumentFaults, match="nested too deeply"):
            chains.load(chain)
    finally:
        sys.setrecursionlimit(limit)


def test_classes_with_the_same_name_get_separate_definitions() -> None:
    other = dataclasses.make_dataclass("Point", [("z", str)])

    found = schema(types.GenericAlias(tuple, (Point, other)))

    assert found["prefixItems"] == [{"$ref": "#/$defs/Point"}, {"$ref": "#/$defs/Point2"}]
    assert found["$defs"]["Point2"]["properties"] == {"z": {"type": "string"}}


def test_unused_definitions_are_omitted() -> None:
    assert "$defs" not in schema(Point)
    assert schema(list[Point])["$defs"].keys() == {"Point"}


def test_qualifiers_of_a_typed_dict_are_recognised_in_string_annotations() -> None:
    class Half(TypedDict, total=False):
        a: Required[int]
        b: str

    class Whole(TypedDict):
        a: int
        b: NotRequired[Annotated[str, "text"]]

    assert schema(Half)["required"] == schema(Whole)["required"] == ["a"]
    assert schema(Whole)["properties"]["b"] == {"type": "string", "description": "text"}


def test_a_named_tuple_becomes_an_object_with_named_members() -> None:
    class Pair(NamedTuple):
        left: int
        right: str = "r"

    untyped = collections.namedtuple("untyped", ["a"])  # noqa: PYI024  # pyright: ignore[reportUntypedNamedTuple]  # is under test

    assert form(Pair).load({"left": 1.0}) == Pair(1)
    assert schema(Pair)["properties"]["right"] == {"type": "string", "default": "r"}
    assert schema(untyped)["properties"] == {"a": {}}


def test_tagged_structs_are_distinguished_by_their_tag() -> None:
    class Cat(msgspec.Struct, tag_field="kind", tag="cat"):
        name: str

    class Dog(msgspec.Struct, tag_field="kind", tag="dog"):
        name: str

    animals = form(Cat | Dog)

    assert animals.schema["$defs"]["Cat"]["properties"]["kind"] == {"const": "cat"}
    assert animals.load({"kind": "dog", "name": "Rex"}) == Dog("Rex")
    assert animals.load({"kind": "cat", "name": "Tom"}) == Cat("Tom")


def test_a_struct_member_that_may_be_unset_is_optional() -> None:
    class Packet(msgspec.Struct, rename="camel"):
        time_to_live: int | msgspec.UnsetType = msgspec.UNSET
        stamps: list[int] = msgspec.field(default_factory=list[int])

    assert schema(Packet)["properties"]["timeToLive"] == {"type": "integer"}
    assert form(Packet).load({}) == Packet()


def test_type_arguments_replace_the_type_variables_of_generic_classes() -> None:
    @dataclasses.dataclass
    class Box(Generic[T]):
        content: T
        label: str
        spare: list[T]
        other: dict[str, list[T]]

    namespace = {"T": T}
    found = describe_type(Box[int], name="it", namespace=namespace).schema["properties"]

    assert found["content"] == {"type": "integer"}
    assert found["spare"] == {"type": "array", "items": {"type": "integer"}}
    assert found["other"]["additionalProperties"] == {"type": "array", "items": {"type": "integer"}}
    with pytest.raises(TypeError, match=r"it: Box\.content: T has no JSON form"):
        describe_type(Box, name="it", namespace=namespace)


def test_new_types_and_aliases_stand_for_their_types() -> None:
    alias = types.SimpleNamespace(__value__=list[int], __name__="Numbers")

    assert schema(typing.NewType("UserId", int)) == {"type": "integer"}
    assert schema(alias) == {"type": "array", "items": {"type": "integer"}}


def test_an_alias_that_contains_itself_is_refused() -> None:
    class Alias:
        __name__ = "Loop"
        __value__: Any

    loop = Alias()
    loop.__value__ = loop

    assert refusal(loop) == "it: the alias Loop contains itself"


@pytest.mark.parametrize(
    ("value", "annotation", "expected"),
    [
        (1.0, int, 1),
        (1, float, 1.0),
        (1, float | int, 1),
        (1.0, int | float, 1.0),
        (2.0, int | str, 2),
        (3, Annotated[int, Meta(ge=10)] | float, 3.0),
        (12, Annotated[int, Meta(ge=10)] | float, 12),
        ("2026-01-31T09:30:00Z", dt.datetime | str, dt.datetime(2026, 1, 31, 9, 30, tzinfo=dt.UTC)),
        ("soon", dt.datetime | str, "soon"),
        ("2026-01-31", str | dt.date, "2026-01-31"),
        ("red", Colour | str, Colour.RED),
        (1.0, Literal[1, True], 1),
        ("P1DT2H", dt.timedelta, dt.timedelta(days=1, hours=2)),
        ("09:30:00+01:00", dt.time, dt.time(9, 30, tzinfo=dt.timezone(dt.timedelta(hours=1)))),
        ("aGk=", bytes, b"hi"),
        ("1.10", Decimal, Decimal("1.10")),
        (1.1, Decimal, Decimal("1.1")),
        ({"7": "a"}, dict[int, str], {7: "a"}),
        ([1, 2], set, {1, 2}),
    ],
)
def test_a_json_value_becomes_the_annotated_type(value: Any, annotation: Any, expected: Any) -> None:
    loaded = form(annotation).load(value)

    assert (loaded, type(loaded)) == (expected, type(expected))


VALUELESS: list[tuple[Any, Any]] = [
    ("0000-01-01", dt.date),
    ("0000-01-01T00:00:00Z", dt.datetime),
    ("2026-01-31T09:30:00", dt.datetime),
    ("2026-01-31 09:30:00Z", dt.datetime),
    ("2016-12-31T23:59:60Z", dt.datetime),
    ("P1Y", dt.timedelta),
    ("P", dt.timedelta),
    ("PT", dt.timedelta),
    ("25:00:00", dt.time),
    ("aGk", bytes),
    ("1e", Decimal),
    ("NaN", Decimal),
    (True, Literal[1]),
    ({"007": "a"}, dict[int, str]),
    (["a", "a"], set[str]),
    ([{}], set),
    (10**400, float),
    (float("nan"), float | None),
]


@pytest.mark.parametrize(("value", "annotation"), VALUELESS)
def test_a_json_value_without_a_python_value_is_refused(value: Any, annotation: Any) -> None:
    with pytest.raises(ArgumentFaults):
        form(annotation).load(value)


class Line(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    amount: int = pydantic.Field(ge=1)
    day: dt.date | None = None

    @pydantic.field_validator("amount")
    @classmethod
    def refuse_thirteen(cls, value: int) -> int:
        if value == 13:
            raise ValueError("not thirteen")
        return value


class Order(pydantic.BaseModel):
    lines: list[Line]
    parent: Order | None = None


class Names(pydantic.RootModel[list[str]]):
    pass


def test_pydantic_models_are_published_and_loaded_by_pydantic() -> None:
    orders = form(list[Order])

    loaded = orders.load([{"lines": [{"amount": 2, "day": "2026-01-31"}], "parent": {"lines": []}}])

    assert loaded == [Order(lines=[Line(amount=2, day=dt.date(2026, 1, 31))], parent=Order(lines=[]))]
    assert orders.schema["items"] == {"$ref": "#/$defs/Order"}
    assert orders.schema["$defs"].keys() == {"Order", "Order.Line", "Order.Order"}
    assert schema(Order)["type"] == "object"


def test_an_error_of_a_pydantic_validator_has_the_path() -> None:
    with pytest.raises(ArgumentFaults) as error:
        form(list[Order]).load([{"lines": [{"amount": 13}, {"amount": 1}, {"amount": 13}]}])

    assert error.value.faults == (
        "$[0].lines[0].amount: Value error, not thirteen",
        "$[0].lines[2].amount: Value error, not thirteen",
    )


def test_any_exception_of_a_pydantic_hook_is_a_fault() -> None:
    class Odd(pydantic.BaseModel):
        def model_post_init(self, context: Any, /) -> None:  # pydantic's signature
            raise KeyError("lost")

    with pytest.raises(ArgumentFaults, match=r"\$: 'lost'"):
        form(Odd).load({})


def test_a_pydantic_root_model_may_be_any_value() -> None:
    assert form(Names | None).load(["a"]) == Names(["a"])


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (complex, "complex has no JSON form"),
        (Callable[[], int], "has no JSON form"),
        (T, "T has no JSON form"),
        ([int], r"\[<class 'int'>\] is not a type"),
        (list[complex], "complex has no JSON form"),
        (int | complex, "complex has no JSON form"),
        (set[list[int]], r"list\[int\]|list cannot be an item of a set"),
        (set[Point], "Point cannot be an item of a set"),
        (set[Account], "Account cannot be an item of a set"),
        (frozenset[Line], "Line cannot be an item of a set"),
        (dict[Point, int], "Point cannot be a key"),
        (dict[float, int], "float cannot be a key"),
        (Literal[b"x"], "holds b'x', which is not a JSON scalar"),
        (Annotated[str, Meta(ge=1)], "ge=1 does not apply to str"),
        (Annotated[Decimal, Meta(ge=1)], "ge=1 does not apply to Decimal"),
        (Annotated[int, annotated_types.Ge(Decimal(1))], r"ge=Decimal\('1'\) is not a JSON number"),
        (Annotated[int, Meta(min_length=1)], "min_length=1 does not apply to int"),
        (Annotated[dt.date | None, Meta(max_length=1)], "max_length=1 does not apply to"),
        (Annotated[int, Meta(pattern="a")], "pattern='a' does not apply to int"),
        (Annotated[dt.datetime, Meta(tz=False)], "tz=False"),
    ],
)
def test_an_annotation_that_cannot_be_published_is_refused_with_the_reason(annotation: Any, reason: str) -> None:
    assert re.search(reason, refusal(annotation))


# --- Metadata that only pydantic runs ---

ELSEWHERE = "put the member into a pydantic model, or check the value in the handler"
CHANGED = "put the member into a pydantic model, or change the value in the handler"
UNDISCRIMINATED = "leave it out, and each value becomes the first class of the union that it fits"
RENAMED = "name the parameter so"


class Late(pydantic.AfterValidator):
    """A validator as a subclass of pydantic's."""


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (Annotated[int, pydantic.AfterValidator(abs)], f"AfterValidator is not run here: {ELSEWHERE}"),
        (Annotated[int, pydantic.BeforeValidator(abs)], f"BeforeValidator is not run here: {ELSEWHERE}"),
        (Annotated[int, pydantic.PlainValidator(abs)], f"PlainValidator is not run here: {ELSEWHERE}"),
        (Annotated[int, pydantic.WrapValidator(lambda n, _: n)], f"WrapValidator is not run here: {ELSEWHERE}"),
        (Annotated[int, "text", Late(abs)], f"AfterValidator is not run here: {ELSEWHERE}"),
        (Annotated[int, annotated_types.Predicate(bool)], f"Predicate is not run here: {ELSEWHERE}"),
        (pydantic.UUID4, f"UuidVersion is not run here: {ELSEWHERE}"),
        (pydantic.Base64Str, f"EncodedStr is not run here: {ELSEWHERE}"),
        (pydantic.Json[int], f"Json is not run here: {ELSEWHERE}"),
        (
            Annotated[str, pydantic.StringConstraints(to_lower=True)],
            f"StringConstraints(to_lower=...) is not supported here: {CHANGED}",
        ),
        (
            Annotated[str, pydantic.StringConstraints(to_upper=True)],
            f"StringConstraints(to_upper=...) is not supported here: {CHANGED}",
        ),
        (
            Annotated[str, pydantic.StringConstraints(strip_whitespace=True)],
            f"StringConstraints(strip_whitespace=...) is not supported here: {CHANGED}",
        ),
        (Annotated[int, pydantic.Field(alias="a")], f"Field(alias=...) is not supported here: {RENAMED}"),
        (
            Annotated[int, pydantic.Field(validation_alias="a")],
            f"Field(validation_alias=...) is not supported here: {RENAMED}",
        ),
        (
            Annotated[Order | Line, pydantic.Field(discriminator="kind")],
            f"Field(discriminator=...) is not supported here: {UNDISCRIMINATED}",
        ),
        (
            Annotated[Decimal, pydantic.Field(max_digits=3)],
            f"Field(max_digits=...) is not supported here: {ELSEWHERE}",
        ),
        (
            Annotated[Decimal, pydantic.Field(decimal_places=0)],
            f"Field(decimal_places=...) is not supported here: {ELSEWHERE}",
        ),
    ],
)
def test_metadata_that_checks_or_changes_a_value_is_refused(annotation: Any, reason: str) -> None:
    assert refusal(annotation) == f"it: {reason}"
    assert refusal(list[annotation]) == f"it: {reason}"
    assert refusal(dict[str, annotation | None]) == f"it: {reason}"


def halved(size: int) -> int:
    if size % 2:
        raise ValueError("it is odd")
    return size // 2


Half = Annotated[int, pydantic.AfterValidator(halved)]


class Model(pydantic.BaseModel):
    sizes: list[Half]


@pydantic.dataclasses.dataclass
class Checked:
    sizes: list[Half]


@dataclasses.dataclass
class Unchecked:
    sizes: list[Half]


@pydantic.dataclasses.dataclass
class Outer:
    inner: Unchecked


@pytest.mark.parametrize("cls", [Model, Checked])
def test_pydantic_runs_the_validators_of_the_members_of_its_own_classes(cls: type[Model | Checked]) -> None:
    assert form(cls).load({"sizes": [4]}).sizes == [2]
    with pytest.raises(ArgumentFaults, match="it is odd"):
        form(cls).load({"sizes": [3]})


def test_a_validator_of_a_member_is_refused_unless_pydantic_makes_the_object() -> None:
    assert refusal(Unchecked) == f"it: Unchecked.sizes: AfterValidator is not run here: {ELSEWHERE}"
    assert refusal(tuple[Checked, Half]) == f"it: AfterValidator is not run here: {ELSEWHERE}"
    assert refusal(Outer) == f"it: Outer.inner: Unchecked.sizes: AfterValidator is not run here: {ELSEWHERE}"


class Odd:
    """Metadata of another library."""

    alias = "odd"
    to_lower = True


def test_metadata_that_does_nothing_to_a_value_is_accepted() -> None:
    lengths = pydantic.StringConstraints(min_length=1, max_length=3, pattern="a", strip_whitespace=False)

    assert schema(Annotated[str, lengths]) == {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "a"}
    assert schema(Annotated[int, Odd(), pydantic.Strict(), annotated_types.Interval(ge=1, lt=5)]) == {
        "type": "integer",
        "minimum": 1,
        "exclusiveMaximum": 5,
    }
    assert schema(Annotated[int, pydantic.Field(frozen=True, multiple_of=2)]) == {"type": "integer", "multipleOf": 2}


def test_the_additions_of_a_field_to_the_schema_are_published() -> None:
    assert schema(Annotated[int, pydantic.Field(deprecated=True, json_schema_extra={"examples": [3]})]) == {
        "type": "integer",
        "deprecated": True,
        "examples": [3],
    }
    changed = pydantic.Field(deprecated=False, json_schema_extra=lambda made: made.clear())
    assert schema(Annotated[int, changed]) == {"type": "integer"}


def test_enumerations_without_json_scalars_are_refused() -> None:
    class Empty(enum.Enum):
        pass

    class Tuples(enum.Enum):
        A = (1, 2)

    assert refusal(Empty) == "it: a choice has no members"
    assert refusal(Tuples) == "it: Tuples.A has a value that is not a JSON scalar: (1, 2)"


def test_a_refused_member_is_named_with_its_class() -> None:
    @dataclasses.dataclass
    class Wave:
        phase: complex

    @dataclasses.dataclass
    class Lost:
        what: Nowhere  # type: ignore[name-defined]  # noqa: F821  # an unknown name is under test

    @dataclasses.dataclass
    class Starting:
        seed: dataclasses.InitVar[int]

    assert refusal(list[Wave]) == "it: Wave.phase: complex has no JSON form"
    assert "Lost: name 'Nowhere' is not defined" in refusal(Lost)
    assert "Starting.seed is an InitVar" in refusal(Starting)
