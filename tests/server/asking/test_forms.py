"""Tests of forms: their schemas in each revision, and the instances made from answers."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import gc
import uuid
import weakref
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypeAlias, TypedDict

import annotated_types
import attrs
import msgspec
import pydantic
import pytest

from trio_mcp import Choices, MissingCapability
from trio_mcp.server.asking._forms import AnswerFaults, Form, form_of
from trio_mcp.server.signature import ArgumentFaults

Meta = msgspec.Meta

FIRST = "2025-06-18"
MIDDLE = "2025-11-25"
MODERN = "2026-07-28"


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.StrEnum):
    S = "s"
    M = "m"


SIZES = Choices({"s": "Small", "m": "Medium"})


@attrs.frozen
class Seats:
    """What to book.

    Attributes:
        _row: the row to sit in
    """

    count: Annotated[int, Meta(ge=1, le=9, description="how many")]
    _row: Annotated[str, Meta(title="Row", max_length=2)] = "A"


@dataclasses.dataclass
class Trip:
    day: dt.date
    at: dt.datetime
    mail: Annotated[str, Meta(extra_json_schema={"format": "email"})] = ""
    site: Annotated[str, Meta(extra_json_schema={"format": "uri"}, min_length=10)] = "https://a.example/"


class Options(TypedDict):
    verbose: bool
    depth: NotRequired[int]
    colour: NotRequired[Literal["red", "blue"]]


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Packet(msgspec.Struct, rename="camel"):
    packet_id: int
    time_to_live: float = 1.5


class Order(pydantic.BaseModel):
    amount: int = pydantic.Field(gt=1, le=1000)
    colour: Colour = Colour.RED
    colours: list[Colour] | None = None
    kind: Literal["parcel"]
    due: dt.date | None = None


@dataclasses.dataclass
class Pizza:
    size: Annotated[str, SIZES]
    toppings: Annotated[list[str], Choices({"c": "Cheese", "h": "Ham"}), Meta(min_length=1, max_length=2)]
    crust: Literal["thin", "thick"] = "thin"
    sauces: list[Colour] = dataclasses.field(default_factory=lambda: [Colour.RED])
    hot: bool = False


def member(annotation: Any, **default: Any) -> type[Any]:
    """Make a class with one member, called `it`."""
    return dataclasses.make_dataclass("Asked", [("it", annotation, dataclasses.field(**default))])


def published(annotation: Any, revision: str = MODERN, **default: Any) -> dict[str, Any]:
    """Return the published schema of the one member."""
    schema: dict[str, Any] = form_of(member(annotation, **default)).requested_schema(revision)["properties"]["it"]
    return schema


def faults_of(form: Form[Any], content: Mapping[str, Any]) -> list[str]:
    """Return the faults of an answer."""
    with pytest.raises(AnswerFaults) as refusal:
        form.load(content)
    return list(refusal.value.faults)


# -- Classes.


def test_a_class_becomes_a_flat_object_of_its_members() -> None:
    form = form_of(Seats)

    assert form.requested_schema(MODERN) == {
        "type": "object",
        "properties": {
            "count": {"type": "integer", "minimum": 1, "maximum": 9, "description": "how many"},
            "row": {
                "type": "string",
                "maxLength": 2,
                "title": "Row",
                "description": "the row to sit in",
                "default": "A",
            },
        },
        "required": ["count"],
    }


@pytest.mark.parametrize(
    ("cls", "content", "value"),
    [
        (Seats, {"count": 2}, Seats(2)),
        (Seats, {"count": 2.0, "row": "B"}, Seats(2, "B")),
        (
            Trip,
            {"day": "2026-01-31", "at": "2026-01-31T09:30:00Z"},
            Trip(dt.date(2026, 1, 31), dt.datetime(2026, 1, 31, 9, 30, tzinfo=dt.UTC)),
        ),
        (Options, {"verbose": True}, {"verbose": True}),
        (Options, {"verbose": True, "depth": 3}, {"verbose": True, "depth": 3}),
        (Pair, {"left": 1}, Pair(1)),
        (Packet, {"packetId": 7}, Packet(7)),
        (
            Order,
            {"amount": 2, "kind": "parcel", "colours": ["blue"]},
            Order(amount=2, kind="parcel", colours=[Colour.BLUE]),
        ),
        (Pizza, {"size": "s", "toppings": ["c", "h"]}, Pizza("s", ["c", "h"])),
        (Pizza, {"size": "s", "toppings": ["h"], "sauces": ["blue"]}, Pizza("s", ["h"], sauces=[Colour.BLUE])),
    ],
    ids=lambda part: part.__name__ if isinstance(part, type) else "",
)
def test_an_answer_becomes_an_instance_with_defaults_for_absent_members(
    cls: type[Any], content: dict[str, Any], value: Any
) -> None:
    loaded = form_of(cls).load(content)

    assert loaded == value
    assert type(loaded) is type(value)


def test_a_pydantic_model_becomes_a_form() -> None:
    assert form_of(Order).requested_schema(MODERN) == {
        "type": "object",
        "properties": {
            "amount": {"type": "integer", "minimum": 2, "maximum": 1000, "title": "Amount"},
            "colour": {"type": "string", "title": "Colour", "enum": ["red", "blue"], "default": "red"},
            "colours": {"type": "array", "title": "Colours", "items": {"type": "string", "enum": ["red", "blue"]}},
            "kind": {"type": "string", "title": "Kind", "enum": ["parcel"]},
            "due": {"type": "string", "format": "date", "title": "Due"},
        },
        "required": ["amount", "kind"],
    }


def test_a_class_without_members_becomes_a_form_to_accept_or_decline() -> None:
    empty: type[Any] = attrs.make_class("Confirmation", {})
    form = form_of(empty)

    assert form.requested_schema(MODERN) == {"type": "object", "properties": {}}
    assert type(form.load(None)).__name__ == "Confirmation"


def test_formats_are_published_and_enforced() -> None:
    form = form_of(Trip)

    properties = form.requested_schema(FIRST)["properties"]
    assert {name: schema["format"] for name, schema in properties.items()} == {
        "day": "date",
        "at": "date-time",
        "mail": "email",
        "site": "uri",
    }
    wrong = {"day": "2026-02-30", "at": "2026-01-31T09:30:00", "mail": "no-at-sign", "site": "not a site"}
    assert [fault.split(":")[0] for fault in faults_of(form, wrong)] == ["$.day", "$.at", "$.mail", "$.site"]


def test_exclusive_bounds_of_integers_become_inclusive_bounds() -> None:
    assert published(Annotated[int, Meta(gt=0, lt=9)]) == {"type": "integer", "minimum": 1, "maximum": 8}
    assert published(Annotated[int, Meta(gt=0.5, lt=2.5)]) == {"type": "integer", "minimum": 1, "maximum": 2}
    assert published(Annotated[int, Meta(ge=5), Meta(gt=2, lt=9), Meta(le=7)]) == {
        "type": "integer",
        "minimum": 5,
        "maximum": 7,
    }


def test_numbers_may_have_bounds_and_defaults() -> None:
    number = Annotated[float, Meta(ge=-1, le=2.5)]

    assert published(number, default=0.5) == {"type": "number", "minimum": -1, "maximum": 2.5, "default": 0.5}
    assert form_of(member(number)).load({"it": 2}).it == 2.0


# -- Optional members.


@dataclasses.dataclass
class Spare:
    number: int | None
    text: str | None = None
    colour: Literal["red", "blue", None] = "red"  # noqa: PYI061  # the other spelling is tested elsewhere
    size: Annotated[str | None, SIZES] = None


def test_a_member_that_may_be_none_is_optional() -> None:
    form = form_of(Spare)

    assert form.requested_schema(FIRST) == {
        "type": "object",
        "properties": {
            "number": {"type": "integer"},
            "text": {"type": "string"},
            "colour": {"type": "string", "enum": ["red", "blue"]},
            "size": {"type": "string", "enum": ["s", "m"], "enumNames": ["Small", "Medium"]},
        },
    }
    assert form.load({}) == Spare(None)
    assert form.load({"number": 1, "text": "t", "colour": "blue", "size": "m"}) == Spare(1, "t", "blue", "m")


def test_null_is_refused_because_a_form_cannot_offer_it() -> None:
    assert faults_of(form_of(Spare), {"number": None}) == ["$.number: expected integer, got null"]


def test_members_of_a_typed_dict_that_may_be_none_are_always_present() -> None:
    class Loose(TypedDict):
        number: int | None
        text: NotRequired[str | None]

    assert form_of(Loose).load({}) == {"number": None}


def test_a_default_that_does_not_fit_is_not_proposed_but_applied() -> None:
    address = Annotated[str, Meta(extra_json_schema={"format": "email"})]

    assert published(address, default="") == {"type": "string", "format": "email"}
    without_zone = dt.datetime(2026, 1, 1)  # noqa: DTZ001  # what does not fit
    assert published(dt.datetime, default=without_zone) == {"type": "string", "format": "date-time"}
    assert published(float, default=float("inf")) == {"type": "number"}
    assert form_of(member(address, default="")).load({}).it == ""


def test_defaults_of_every_kind_are_proposed() -> None:
    properties = form_of(Pizza).requested_schema(MODERN)["properties"]

    assert properties["crust"] == {"type": "string", "enum": ["thin", "thick"], "default": "thin"}
    assert properties["hot"] == {"type": "boolean", "default": False}
    assert published(dt.date, default=dt.date(2026, 1, 31))["default"] == "2026-01-31"
    assert published(int, default=3)["default"] == 3
    assert published(Size, default=Size.M)["default"] == "m"
    assert published(tuple[Size, ...], default=(Size.M,))["default"] == ["m"]


@attrs.define
class MadeByAttrs:
    some: list[Colour] = attrs.field(factory=lambda: [Colour.RED])
    same: list[Colour] = attrs.Factory(lambda self: list(self.some), takes_self=True)
    text: str = attrs.field(factory=lambda: "anew")


class MadeByStruct(msgspec.Struct):
    some: list[Colour] = msgspec.field(default_factory=lambda: [Colour.RED])
    none: list[Colour] = []


def test_lists_of_choices_from_a_factory_are_proposed() -> None:
    by_attrs = form_of(MadeByAttrs).requested_schema(MODERN)["properties"]
    by_struct = form_of(MadeByStruct).requested_schema(MODERN)["properties"]
    by_dataclass = form_of(Pizza).requested_schema(MODERN)["properties"]

    assert by_attrs["some"]["default"] == by_struct["some"]["default"] == by_dataclass["sauces"]["default"] == ["red"]
    assert by_struct["none"]["default"] == []
    assert "default" not in by_attrs["same"]
    assert "default" not in by_attrs["text"]


# -- Revisions.


def test_the_first_revision_with_forms_lists_titles_separately() -> None:
    assert published(Annotated[str, SIZES], FIRST) == {
        "type": "string",
        "enum": ["s", "m"],
        "enumNames": ["Small", "Medium"],
    }


@pytest.mark.parametrize("revision", [MIDDLE, MODERN])
def test_later_revisions_have_each_title_beside_its_value(revision: str) -> None:
    assert published(Annotated[str, SIZES, Meta(title="Size")], revision) == {
        "type": "string",
        "title": "Size",
        "oneOf": [{"const": "s", "title": "Small"}, {"const": "m", "title": "Medium"}],
    }
    properties = form_of(Pizza).requested_schema(revision)["properties"]
    assert properties["toppings"] == {
        "type": "array",
        "minItems": 1,
        "maxItems": 2,
        "items": {"anyOf": [{"const": "c", "title": "Cheese"}, {"const": "h", "title": "Ham"}]},
    }
    assert properties["sauces"] == {
        "type": "array",
        "items": {"type": "string", "enum": ["red", "blue"]},
        "default": ["red"],
    }


def test_a_multiple_choice_is_refused_for_a_revision_without_it() -> None:
    with pytest.raises(MissingCapability, match=FIRST) as missing:
        form_of(Pizza).requested_schema(FIRST)

    assert str(missing.value) == f"revision {FIRST} has no multiple choice, which $.toppings needs"
    assert missing.value.required == {"elicitation": {"form": {}}}


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26"])
def test_a_form_is_refused_for_a_revision_without_elicitation(revision: str) -> None:
    with pytest.raises(MissingCapability) as missing:
        form_of(Seats).requested_schema(revision)

    assert str(missing.value) == f"revision {revision} has no elicitation"
    assert missing.value.required == {"elicitation": {"form": {}}}


def test_the_first_revision_with_forms_has_defaults_of_booleans_only() -> None:
    assert published(bool, FIRST, default=True) == {"type": "boolean", "default": True}
    assert published(str, FIRST, default="x") == {"type": "string"}
    assert published(int, FIRST, default=1) == {"type": "integer"}
    assert published(Size, FIRST, default=Size.M) == {"type": "string", "enum": ["s", "m"]}


def test_a_pattern_is_sent_in_one_revision_and_enforced_in_all() -> None:
    name = Annotated[str, Meta(pattern="^[a-z]+$", description="in small letters")]

    has_pattern = {revision: "pattern" in published(name, revision) for revision in (FIRST, MIDDLE, MODERN)}

    assert has_pattern == {FIRST: False, MIDDLE: True, MODERN: False}
    assert faults_of(form_of(member(name)), {"it": "ABC"}) == ['$.it: "ABC" does not match the pattern ^[a-z]+$']


def test_an_unknown_revision_raises() -> None:
    with pytest.raises(KeyError):
        form_of(Seats).requested_schema("1999-01-01")


# -- Choices.


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Annotated[Size, SIZES], Size.M),
        (Annotated[Literal["m", "s"], SIZES], "m"),
    ],
    ids=str,
)
def test_choices_may_give_titles_to_an_enumeration_or_literal(annotation: Any, value: Any) -> None:
    form = form_of(member(annotation))

    assert form.requested_schema(MODERN)["properties"]["it"]["oneOf"][1] == {"const": "m", "title": "Medium"}
    assert form.load({"it": "m"}).it is value


def test_items_of_a_list_may_have_titles() -> None:
    inside, outside = list[Annotated[str, SIZES]], Annotated[list[str], SIZES]

    assert published(inside) == published(outside)
    assert form_of(member(Annotated[tuple[Size, ...], SIZES])).load({"it": ["m"]}).it == (Size.M,)


def test_a_set_of_choices_accepts_each_value_once() -> None:
    form = form_of(member(Annotated[frozenset[str], SIZES]))

    assert "uniqueItems" not in form.requested_schema(MODERN)["properties"]["it"]
    assert form.load({"it": ["m", "s"]}).it == frozenset({"s", "m"})
    assert len(faults_of(form, {"it": ["m", "m"]})) == 1


def test_choices_are_equal_by_their_titles() -> None:
    assert Choices({"s": "Small", "m": "Medium"}) == SIZES
    assert hash(Choices({"s": "Small", "m": "Medium"})) == hash(SIZES)
    assert Choices({"m": "Medium", "s": "Small"}) != SIZES


@pytest.mark.parametrize("titles", [{}, {"s": 1}, {1: "Small"}, ["s"], "s", None], ids=repr)
def test_choices_must_be_strings_with_string_titles(titles: Any) -> None:
    with pytest.raises(TypeError, match=r"^Choices\("):
        Choices(titles)


# -- Types that cannot be forms.


@dataclasses.dataclass
class Inner:
    x: int = 0


@pytest.mark.requirement("B.23-S4")
@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (Inner, "forms do not have the type object"),
        (Inner | None, "forms do not have the type object"),
        (dict[str, int], "forms do not have the type object"),
        (list[int], "the items of a list must be a choice of strings"),
        (list[str], "the items of a list must be a choice of strings"),
        (list[Any], "the items of a list must be a choice of strings"),
        (list[Literal["a"] | None], "the items of a list must be a choice of strings"),
        (list[list[Literal["a"]]], "the items of a list must be a choice of strings"),
        (list[Literal[1, 2]], "the items of a list must be a choice of strings"),
        (tuple[Size, Size], "the items of a list must be a choice of strings"),
        (bytes, "contentEncoding='base64': this keyword is not allowed in a form"),
        (int | str, "it has no single type"),
        (Decimal, "it has no single type"),
        (Any, "it has no single type"),
        (None, "forms do not have the type null"),
        (uuid.UUID, "format='uuid': the formats of a form are date, date-time, email, uri"),
        (Literal[1, 2], "enum=[1, 2]: the choices must be strings"),
        (Literal[None], "the choices must be different strings, and at least one"),  # noqa: PYI061  # not None
        (Annotated[float, Meta(gt=0)], "exclusiveMinimum=0: a form has no exclusive bounds; use ge in place of gt"),
        (Annotated[float, Meta(lt=1)], "exclusiveMaximum=1: a form has no exclusive bounds; use le in place of lt"),
        (Annotated[int, annotated_types.Gt(float("-inf"))], "exclusiveMinimum=-inf: a form has no exclusive bounds"),
        (Annotated[int, annotated_types.Le(float("inf"))], "maximum=inf: expected a number"),
        (Annotated[int, Meta(multiple_of=5)], "multipleOf=5: this keyword is not allowed in a form"),
        (Annotated[str, Meta(extra_json_schema={"pattern": "("})], 'not a usable JSON Schema: $.pattern: "("'),
        (complex, "complex has no JSON form"),
        (Annotated[int, SIZES], "Choices are for str and list[str]"),
        (Annotated[list[Any], SIZES], "Choices are for str and list[str]"),
        (Annotated[Colour, SIZES], "the Choices ['s', 'm'] are not the values of the type, ['red', 'blue']"),
        (Annotated[str, SIZES, Meta(min_length=1)], "minLength=1: this keyword is not allowed in a form"),
        (Annotated[str, SIZES, Choices({"a": "A"})], "Choices are given twice"),
        (Annotated[list[Annotated[str, SIZES]], SIZES], "Choices are given twice"),
    ],
    ids=str,
)
def test_a_member_that_forms_do_not_support_is_refused_by_name(annotation: Any, reason: str) -> None:
    with pytest.raises(TypeError) as refusal:
        form_of(member(annotation))

    text = str(refusal.value)
    assert text.startswith(f"Asked cannot be a form: Asked.it: {reason}")
    assert text.endswith(
        "A member may be a str, int, float, bool, date or datetime, a choice of strings (Literal, an enumeration, or "
        "Choices), or a list of such choices"
    )


@pytest.mark.parametrize("cls", [int, list, dict[str, int], Seats(1), None, Colour], ids=str)
def test_a_type_without_members_cannot_be_a_form(cls: Any) -> None:
    with pytest.raises(TypeError, match=r"cannot be a form: .*A member may be"):
        form_of(cls)


# -- Answers.


def test_every_fault_of_an_answer_is_reported() -> None:
    wrong = {"size": "l", "toppings": ["c", "x", "h"], "crust": 1, "hot": "yes"}

    with pytest.raises(ArgumentFaults) as refusal:
        form_of(Pizza).load(wrong)

    first, *faults = str(refusal.value).splitlines()
    assert first == "Pizza: the answer does not fit the form"
    assert sorted(faults) == [
        '$.crust: expected "thin" or "thick", got 1',
        "$.hot: expected boolean, got string",
        '$.size: expected "s" or "m", got "l"',
        '$.toppings: ["c","x","h"] has more than 2 items',
        '$.toppings[1]: expected "c" or "h", got "x"',
    ]


@pytest.mark.parametrize("value", ["3", 3.5, True, None, [3], {}], ids=repr)
def test_values_of_an_answer_are_not_converted_between_json_types(value: Any) -> None:
    assert [fault.split(":")[0] for fault in faults_of(form_of(Seats), {"count": value})] == ["$.count"]


@pytest.mark.parametrize("content", [None, {}], ids=repr)
def test_an_answer_without_content_lacks_the_required_members(content: dict[str, Any] | None) -> None:
    with pytest.raises(AnswerFaults, match=r"\$\.count: required, but missing"):
        form_of(Seats).load(content)


def test_unknown_members_of_an_answer_are_ignored() -> None:
    assert form_of(Seats).load({"count": 1, "colour": "red"}) == Seats(1)


@attrs.frozen
class Even:
    number: int

    def __attrs_post_init__(self) -> None:
        if self.number % 2:
            raise ValueError("must be even")


def test_an_error_of_a_validator_of_the_class_is_a_fault_of_the_answer() -> None:
    form = form_of(Even)

    assert form.load({"number": 2}) == Even(2)
    assert faults_of(form, {"number": 3}) == ["$: must be even"]


# -- The cache of forms.


def test_a_form_and_its_schemas_are_cached() -> None:
    assert form_of(Seats) is form_of(Seats)
    assert form_of(Seats).requested_schema(MODERN) is form_of(Seats).requested_schema(MODERN)


def test_an_unhashable_type_becomes_a_form_that_is_not_cached() -> None:
    unhashable: Any = Annotated[Seats, ["a note"]]

    assert form_of(unhashable).load({"count": 1}) == Seats(1)


def test_forms_of_short_lived_classes_leave_the_cache() -> None:
    def make() -> type:
        return dataclasses.make_dataclass("Passing", [("x", int)])

    first = make()
    form_of(first)
    gone = weakref.ref(first)
    del first

    for _ in range(300):
        form_of(make())
    gc.collect()

    assert gone() is None


# -- Schemas instead of classes.


Json: TypeAlias = dict[str, Any]

RAW: Json = {
    "type": "object",
    "properties": {
        "mail": {
            "type": "string",
            "format": "email",
            "minLength": 3,
            "maxLength": 40,
            "title": "Mail",
            "default": "a@b.c",
        },
        "count": {"type": "integer", "minimum": 1, "maximum": 9.5, "description": "how many", "default": 2},
        "share": {"type": "number"},
        "sure": {"type": "boolean", "default": True},
        "plain": {"type": "string", "enum": ["a", "b"]},
        "older": {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]},
        "newer": {"type": "string", "oneOf": [{"const": "a", "title": "A"}]},
    },
    "required": ["mail"],
}
SEVERAL: dict[str, Any] = {
    "type": "object",
    "properties": {
        "plain": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "default": ["a"]},
        "titled": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}, "minItems": 0, "maxItems": 1},
    },
}


def test_a_given_schema_is_rewritten_for_each_revision() -> None:
    form = form_of(RAW)

    assert form.requested_schema(MODERN) == RAW
    first = form.requested_schema(FIRST)["properties"]
    assert first["newer"] == {"type": "string", "enum": ["a"], "enumNames": ["A"]}
    assert first["older"] == RAW["properties"]["older"]
    assert [name for name, schema in first.items() if "default" in schema] == ["sure"]
    assert form_of(SEVERAL).requested_schema(MODERN) == SEVERAL


def test_an_answer_to_a_given_schema_stays_unchanged() -> None:
    form = form_of(RAW)
    content = {"mail": "x@y.z", "count": 2.0, "more": [1, None]}

    assert form.load(content) == content
    assert sorted(faults_of(form, {"mail": "x", "count": "2"})) == [
        "$.count: expected integer, got string",
        '$.mail: "x" is not a email',
        '$.mail: "x" is shorter than 3 characters',
    ]


def test_formats_in_a_given_schema_are_enforced_like_those_of_tools() -> None:
    form = form_of({"type": "object", "properties": {"day": {"type": "string", "format": "date"}}})

    assert form.load({"day": "2026-01-31"}) == {"day": "2026-01-31"}
    assert len(faults_of(form, {"day": "0000-01-01"})) == 1  # a date in RFC 3339, but not in Python


def test_a_form_does_not_depend_on_later_changes_of_its_schema() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "default": ["a"]}},
        "required": ["a"],
    }
    form = form_of(schema)

    schema["properties"]["a"]["items"]["enum"].append("c")
    schema["properties"]["a"]["default"].append("c")
    schema["required"].clear()

    published = form.requested_schema(MODERN)
    assert published["properties"]["a"]["items"]["enum"] == ["a", "b"]
    assert published["properties"]["a"]["default"] == ["a"]
    assert published["required"] == ["a"]


def test_the_dialect_of_a_schema_is_kept_for_revisions_that_allow_it() -> None:
    dialect = "http://json-schema.org/draft-04/schema#"
    form = form_of({"$schema": dialect, "type": "object", "properties": {"a": {"type": "integer"}}})

    assert form.requested_schema(MODERN)["$schema"] == dialect
    assert "$schema" not in form.requested_schema(FIRST)
    assert faults_of(form, {"a": "1"}) == ["$.a: expected integer, got string"]


@pytest.mark.requirement("B.23-S4")
@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (Json(), "its type must be 'object'"),
        ({"type": "array", "properties": Json()}, "its type must be 'object'"),
        ({"type": "object"}, "its properties an object"),
        ({"type": "object", "properties": list[Any]()}, "its properties an object"),
        ({"type": "object", "properties": Json(), "required": ["a"]}, r"required=\['a'\] must be a list of names"),
        ({"type": "object", "properties": Json(), "required": [None]}, r"required=\[None\] must be a list of names"),
        ({"type": "object", "properties": Json(), "required": "a"}, "required='a' must be a list of names"),
        (
            {"type": "object", "properties": Json(), "additionalProperties": False},
            "additionalProperties is not allowed",
        ),
        ({"type": "object", "properties": Json(), "$schema": "urn:mine"}, "unknown JSON Schema dialect 'urn:mine'"),
    ],
    ids=str,
)
def test_a_schema_that_cannot_be_a_form_is_refused(schema: dict[str, Any], reason: str) -> None:
    with pytest.raises(TypeError, match=f"^the form: .*{reason}"):
        form_of(schema)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (True, "its schema is not a JSON object"),
        ({}, "it has no single type"),
        ({"type": ["string", "null"]}, "it has no single type"),
        ({"type": "object", "properties": {}}, "forms do not have the type object"),
        ({"type": "array"}, "the items of a list must be a choice of strings"),
        ({"type": "array", "items": {"type": "string"}}, "the items of a list must be a choice of strings"),
        (
            {"type": "array", "items": {"type": "integer", "enum": ["a"]}},
            "the items of a list must be a choice of strings",
        ),
        ({"type": "array", "items": {"enum": ["a"], "minLength": 1}}, "minLength is not allowed beside the choices"),
        (
            {"type": "array", "items": {"enum": ["a"]}, "uniqueItems": True},
            "uniqueItems=True: this keyword is not allowed",
        ),
        ({"type": "array", "items": {"enum": ["a"]}, "minItems": -1}, "minItems=-1: expected an integer of at least 0"),
        ({"type": "array", "items": {"enum": ["a"]}, "maxItems": True}, "maxItems=True: expected an integer"),
        ({"type": "string", "minLength": 1.5}, "minLength=1.5: expected an integer of at least 0"),
        ({"type": "string", "format": "uuid"}, "format='uuid': the formats of a form are date, date-time, email, uri"),
        ({"type": "string", "title": 1}, "title=1: expected a string"),
        ({"type": "string", "pattern": "("}, "not a usable JSON Schema"),
        ({"type": "integer", "minimum": "1"}, "minimum='1': expected a number"),
        ({"type": "integer", "minLength": 1}, "minLength=1: this keyword is not allowed in a form"),
        ({"type": "string", "enum": []}, "the choices must be different strings, and at least one"),
        ({"type": "string", "enum": ["a", "a"]}, "the choices must be different strings"),
        ({"type": "string", "enum": [1]}, "the choices must be different strings"),
        ({"type": "string", "enum": "a"}, "the choices must be different strings"),
        ({"type": "string", "enum": ["a"], "enumNames": []}, "there must be one title, a string, for each choice"),
        ({"type": "string", "enum": ["a"], "enumNames": "A"}, "there must be one title, a string, for each choice"),
        ({"type": "string", "enumNames": ["A"]}, r"enumNames=\['A'\]: this keyword is not allowed"),
        ({"type": "string", "oneOf": [{"const": "a"}]}, "oneOf must be a list of objects with const and title"),
        ({"type": "string", "oneOf": "a"}, "oneOf must be a list of objects with const and title"),
        (
            {"type": "string", "oneOf": [{"const": "a", "title": 1}]},
            "there must be one title, a string, for each choice",
        ),
        ({"type": "string", "oneOf": [], "enum": ["a"]}, "the choices are given twice, in oneOf and in enum"),
        ({"type": "string", "enum": ["a"], "minLength": 1}, "minLength=1: this keyword is not allowed in a form"),
    ],
    ids=str,
)
def test_a_schema_with_a_member_that_forms_do_not_support_is_refused(schema: Any, reason: str) -> None:
    with pytest.raises(TypeError, match=rf"^the form: \$\.it: {reason}.*A member may be"):
        form_of({"type": "object", "properties": {"it": schema}})


def test_a_schema_whose_default_does_not_fit_is_refused() -> None:
    schema = {"type": "object", "properties": {"it": {"type": "integer", "maximum": 3, "default": 4}}}

    with pytest.raises(TypeError, match=r"^the form: the default of \$\.it does not fit: \$: 4 is greater than"):
        form_of(schema)
