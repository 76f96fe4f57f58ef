"""Tests of typed params and results of custom messages: values, refusals and their messages."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired, TypedDict

import attrs
import msgspec
import pydantic
import pytest

from tests.interaction.not_exceptions import NOT_EXCEPTIONS
from trio_mcp import StructureError, types
from trio_mcp._user_types import is_async, look_at, reader_of, to_object


def refuse(_: object, __: object, ___: int) -> None:
    raise LookupError("not there")


def say_nothing(_: object, __: object, ___: int) -> None:
    raise RuntimeError


class SayingMore(Exception):
    errors = "not a method"


def say_more(_: object, __: object, ___: int) -> None:
    raise SayingMore("more")


@attrs.frozen
class Picky:
    refused: int = attrs.field(validator=[refuse])


@attrs.frozen
class Silent:
    silent: int = attrs.field(validator=[say_nothing])


@attrs.frozen
class Talkative:
    talkative: int = attrs.field(validator=[say_more])


class PickyModel(pydantic.BaseModel):
    refused: int

    @pydantic.field_validator("refused")
    @classmethod
    def refuse(cls, _: int) -> int:
        raise LookupError("not there")


@attrs.frozen
class Point:
    x: int
    y: int = 0


@dataclass
class Line:
    start: Point
    labels: list[str]


class Circle(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    center_point: Point
    drawn_at: dt.datetime | None = None


class Named(TypedDict):
    name: str
    size: NotRequired[Annotated[int, msgspec.Meta(ge=1)]]


class Model(pydantic.BaseModel):
    when: dt.date
    how_many: int = pydantic.Field(alias="howMany")


@pytest.mark.parametrize(
    ("kind", "json", "value"),
    [
        (Point, {"x": 1}, Point(1)),
        (Line, {"start": {"x": 1, "y": 2}, "labels": []}, Line(Point(1, 2), [])),
        (Circle, {"centerPoint": {"x": 1}}, Circle(Point(1))),
        (Named, {"name": "a", "size": 2}, {"name": "a", "size": 2}),
        (Model, {"when": "2026-07-28", "howMany": 2}, Model(when=dt.date(2026, 7, 28), howMany=2)),
        (types.Root, {"uri": "file:///a"}, types.Root(uri="file:///a")),
        (dict[str, int], {"a": 1}, {"a": 1}),
    ],
)
def test_a_type_is_read_and_undeclared_members_are_ignored(kind: Any, json: Any, value: Any) -> None:
    assert reader_of(kind)({**json, "_meta": {"a": 1}} if kind is not types.Root else json) == value
    if kind not in {Circle, dict[str, int], types.Root}:
        assert reader_of(kind)({**json, "newer": 1}) == value


@pytest.mark.parametrize("kind", [dict, Any, object, Mapping, Mapping[str, Any]])
def test_a_plain_object_is_passed_unchanged(kind: Any) -> None:
    json = {"a": [1], "_meta": {"b": 2}}
    assert reader_of(kind)(json) is json


@pytest.mark.parametrize(
    ("kind", "json", "faults"),
    [
        (Point, {"x": "1"}, ["$.x: Expected `int`, got `str`"]),
        (Point, {}, ["$: Object missing required field `x`"]),
        (Line, {"start": {"x": None}, "labels": []}, ["$.start.x: Expected `int`, got `null`"]),
        (Named, {"name": "a", "size": 0}, ["$.size: Expected `int` >= 1"]),
        (Circle, {"centerPoint": {"x": 1}, "radius": 1}, ["$: Object contains unknown field `radius`"]),
        (types.Root, {"uri": 7}, ["$.uri: expected string, got integer"]),
        (Model, {"when": "soon", "howMany": "many"}, None),
        # A validator may raise any exception, and every one must become a fault.
        (Picky, {"refused": 1}, ["$: not there"]),
        (PickyModel, {"refused": 1}, ["$: not there"]),
        (Silent, {"silent": 1}, ["$: RuntimeError"]),
        (Talkative, {"talkative": 1}, ["$: more"]),
    ],
)
def test_a_fault_is_reported_with_its_path(kind: Any, json: Any, faults: list[str] | None) -> None:
    with pytest.raises(StructureError) as refusal:
        reader_of(kind)(json)
    if faults is None:  # messages of pydantic, for both members
        assert [fault.partition(":")[0] for fault in refusal.value.faults] == ["$.when", "$.howMany"]
    else:
        assert list(refusal.value.faults) == faults


@pytest.mark.parametrize("kind", NOT_EXCEPTIONS)
def test_a_validator_that_raises_what_is_no_exception_refuses_the_value_unless_it_is_an_interrupt(kind: str) -> None:
    def raise_it(_: object, __: object, ___: object) -> None:
        failure = NOT_EXCEPTIONS[kind]()
        raise failure

    checked = attrs.make_class("Checked", {"member": attrs.field(type=int, validator=raise_it)}, frozen=True)
    with pytest.raises(KeyboardInterrupt if kind == "interrupt" else StructureError):
        reader_of(checked)({"member": 1})


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        (int, "int is not a type of JSON objects"),
        (list[int], "is not a type of JSON objects"),
        (Point | Line, "more than one"),
    ],
)
def test_a_type_that_can_never_be_read_is_refused_at_once(kind: Any, fault: str) -> None:
    with pytest.raises(TypeError, match=fault):
        reader_of(kind)


@pytest.mark.parametrize(
    ("value", "json"),
    [
        (None, {}),
        ({"a": 1}, {"a": 1}),
        (Point(1, 2), {"x": 1, "y": 2}),
        (Circle(Point(1)), {"centerPoint": {"x": 1, "y": 0}, "drawnAt": None}),
        (Model(when=dt.date(2026, 7, 28), howMany=2), {"when": "2026-07-28", "howMany": 2}),
        (types.Root(uri="file:///a", meta={"b": 1}), {"uri": "file:///a", "_meta": {"b": 1}}),
    ],
)
def test_every_sent_value_becomes_an_object(value: Any, json: Any) -> None:
    assert to_object(value) == json


@pytest.mark.parametrize("value", [7, "text", [1], Point])
def test_a_value_that_is_not_an_object_is_not_sent(value: Any) -> None:
    with pytest.raises(TypeError):
        to_object(value)


def test_members_that_the_revision_lacks_are_not_sent() -> None:
    root = types.Root(uri="file:///a", meta={"b": 1})
    assert to_object(root, "2024-11-05") == {"uri": "file:///a"}


class Desk:
    """A class that stands for the context."""


def plain(params: Point, desk: Desk) -> Any:
    return params, desk


async def reversed_order(desk: Desk | None, params: Point) -> Any:
    return params, desk


def positional(params: Point, desk: Desk, /, unit: str = "m", *rest: int, **more: int) -> Any:
    return params, desk


@functools.wraps(plain)
def wrapped(*arguments: Any, **keywords: Any) -> Any:
    return plain(*arguments, **keywords)


class Callee:
    def __call__(self, params: Point, *, desk: Desk) -> Any:
        return params, desk

    def method(self, params: Point, desk: Desk) -> Any:
        return params, desk


@pytest.mark.parametrize(
    "function",
    [
        plain,
        positional,
        Callee(),
        Callee().method,
        functools.partial(plain),
        wrapped,
    ],
    ids=["a function", "by position", "an object", "a method", "a partial", "wrapped"],
)
def test_every_kind_of_callable_gets_its_params_and_its_context(function: Any) -> None:
    looked_at, desk = look_at(function, "it", context=Desk), Desk()
    assert looked_at.call(looked_at.read({"x": 1}), desk) == (Point(1), desk)
    assert not looked_at.is_async


async def test_the_context_is_found_by_its_annotation() -> None:
    looked_at, desk = look_at(reversed_order, "it", context=Desk), Desk()
    assert looked_at.is_async
    assert await looked_at.call(looked_at.read({"x": 1}), desk) == (Point(1), desk)


def nothing() -> int:
    return 7


def anything(params: Any) -> Any:
    return params


anything.__annotations__.clear()


def test_a_handler_may_take_no_arguments_or_any() -> None:
    assert look_at(nothing, "it").call({"x": 1}) == 7
    assert look_at(anything, "it").call({"x": 1}) == {"x": 1}


def test_annotations_may_name_local_classes() -> None:
    @dataclass
    class Local:
        n: int

    def closed_over(params: Local) -> bool:
        return params == Local(3)

    def named(params: Any) -> None:
        raise NotImplementedError

    named.__annotations__["params"] = "Elsewhere"
    looked_at = look_at(closed_over, "it")
    assert looked_at.call(looked_at.read({"n": 3}))
    assert look_at(named, "it", namespace={"Elsewhere": Local}).read({"n": 3}) == Local(3)
    with pytest.raises(TypeError, match="method 'acme/a': an annotation cannot be resolved: name 'Elsewhere'"):
        look_at(named, "method 'acme/a'")


def test_an_unassigned_variable_of_the_closure_is_ignored() -> None:
    def handler(params: dict[str, Any]) -> Any:
        return later

    looked_at = look_at(handler, "it")
    later = 7
    assert looked_at.call({}) == later


def needs_more(params: Point, other: int) -> None:
    raise NotImplementedError


def test_a_handler_that_cannot_be_called_with_params_is_refused() -> None:
    with pytest.raises(TypeError, match="it: there is no value for its parameter 'other'"):
        look_at(needs_more, "it")


def test_a_callable_that_hides_its_signature_is_refused() -> None:
    with pytest.raises(TypeError, match="it: its signature cannot be read"):
        look_at(min, "it")


def test_optional_parameters_of_a_handler_keep_their_defaults() -> None:
    def handler(*, option: int = 3, **more: int) -> int:
        return option

    assert look_at(handler, "it").call({"x": 1}) == 3


def test_a_handler_whose_params_are_not_an_object_is_refused() -> None:
    def handler(params: int) -> None:
        raise NotImplementedError

    with pytest.raises(TypeError, match="it: parameter 'params': int is not a type of JSON objects"):
        look_at(handler, "it")


def test_callable_objects_are_async_if_their_call_is() -> None:
    class Async:
        async def __call__(self) -> None:
            raise NotImplementedError

    assert is_async(Async())
    assert is_async(functools.partial(Async()))
    assert not is_async(Callee())
