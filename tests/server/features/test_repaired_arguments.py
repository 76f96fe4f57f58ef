"""Tests of arguments that hold JSON as a string, as some hosts send them: they are taken where that is unambiguous."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
import pytest

from tests.server.helpers import text_of
from trio_mcp import Context, Server, open_client, types
from trio_mcp.server.signature import ArgumentFaults, describe


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Cat(msgspec.Struct, tag="cat"):
    lives: list[int]


class Dog(msgspec.Struct, tag="dog"):
    lives: int
    walks: list[int]


@dataclasses.dataclass
class Exact:
    n: int


@dataclasses.dataclass
class Loose:
    n: str
    m: int


def bound(annotation: Any, value: Any) -> Any:
    """Return what a parameter with an annotation receives after a repair; the text "refused" without a repair."""

    def function(p: Any) -> None: ...

    function.__annotations__["p"] = annotation
    signature = describe(function)
    with pytest.raises(ArgumentFaults):
        signature.bind({"p": value})
    repaired = signature.repair({"p": value})
    return "refused" if repaired is None else repaired[0]["p"]


def nested(levels: int) -> Any:
    value: Any = "[]"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (list[int], "[1, 2]", [1, 2]),
        (Point, '{"x": 1}', Point(1)),
        (Point, {"x": "1", "y": " 2 "}, Point(1, 2)),
        (list[Point], ['{"x": 1}', {"x": "2"}], [Point(1), Point(2)]),
        (dict[str, list[int]], {"a": "[1]", "7": "[2]", "": "[3]"}, {"a": [1], "7": [2], "": [3]}),
        (int, "5", 5),
        (int, "5.0", 5),
        (float, "1e3", 1000.0),
        (bool, "true", True),
        (list[int] | None, "[1]", [1]),
        (int | None, "null", None),
        (Point | None, {"x": "1"}, Point(1)),
        (Literal[1, 2], "2", 2),
        (Literal[1, 2] | None, "1", 1),
        (Literal[1, True], "true", True),
        (Cat | Dog, {"type": "dog", "lives": "1", "walks": "[2]"}, Dog(1, [2])),
        (Annotated[int, msgspec.Meta(ge=1)], "1", 1),
    ],
)
def test_json_in_a_string_is_taken_where_no_string_fits(annotation: Any, value: Any, expected: Any) -> None:
    assert bound(annotation, value) == expected


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (list[int], "1, 2"),
        (list[int], "NaN"),
        (list[int], '"[1]"'),
        (list[int], '["1"]'),
        (list[int], '{"x": 1}'),
        (int, "1.5"),
        (int, "\ud800"),
        (Annotated[int, msgspec.Meta(ge=1)], "0"),
        (Annotated[str, msgspec.Meta(min_length=9)], "[1]"),
        (Literal["a", 1], "2"),
        (Literal["a"], "1"),
        (Point, {"x": "1", "z": 1}),
        (Point, {"x": "1", "y": "up"}),
        (Exact | Loose, {"n": "1"}),
        (Cat | Dog, {"type": "bird", "lives": "[1]"}),
        (Cat | Dog, 5),
    ],
)
def test_other_arguments_are_refused_as_before(annotation: Any, value: Any) -> None:
    assert bound(annotation, value) == "refused"


LARGE: Mapping[str, tuple[Any, Any]] = {
    "deep": (list[int], "[" * 100_000),
    "many": (list[int], ["1"] * 101),
    "too many": (list[int], ["1"] * 10_000),
    "too deep": (list[Any], nested(300)),
    "long": (list[str], json.dumps(["x" * 1_000_001])),
    "too long": (list[str], json.dumps(["x" * 20_000_000])),
}


@pytest.mark.parametrize("name", LARGE)
def test_arguments_that_would_be_expensive_to_repair_are_refused(name: str) -> None:
    assert bound(*LARGE[name]) == "refused"


def test_a_constant_that_is_a_string_is_never_replaced() -> None:
    schema: Any = {"type": "object", "properties": {"p": {"const": 1}, "q": {"const": "1"}}}

    def function(**arguments: Any) -> None: ...

    signature = describe(function, input_schema=schema)

    assert signature.repair({"p": "1"}) == ({"p": 1}, ["$.p"])
    assert signature.repair({"q": "2"}) is None


def test_a_value_that_its_class_refuses_is_refused() -> None:
    assert bound(float, "1" + "0" * 400) == "refused"


def test_the_received_arguments_are_not_changed() -> None:
    def function(points: list[Point]) -> None: ...

    arguments: Mapping[str, Any] = {"points": [{"x": "1", "y": "2"}, {"x": 3}]}
    before = json.dumps(arguments)

    assert describe(function).repair(arguments) == (
        {"points": [Point(1, 2), Point(3)]},
        ["$.points[0].x", "$.points[0].y"],
    )
    assert json.dumps(arguments) == before


def server_of_sums(**options: Any) -> Server:
    server = Server("s", **options)

    @server.tool
    async def total(numbers: list[int], times: int = 1) -> int:
        return sum(numbers) * times

    return server


@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_a_call_with_json_in_strings_is_answered_counted_and_logged_without_its_values(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = server_of_sums()
    caplog.set_level(logging.DEBUG, "trio_mcp.server")

    async with open_client(server, revision=revision) as client:
        assert text_of(await client.call_tool("total", {"numbers": [1, 2]})) == "3"
        assert server.tools.repaired == 0
        assert text_of(await client.call_tool("total", {"numbers": "[1001, 1002]", "times": "2"})) == "4006"

    assert server.tools.repaired == 2
    logged = [record.message for record in caplog.records if "JSON in a string" in record.message]
    assert logged == [
        "tool 'total': $.numbers was JSON in a string; its value was taken",
        "tool 'total': $.times was JSON in a string; its value was taken",
    ]


async def test_the_faults_of_a_call_that_cannot_be_repaired_are_those_of_its_own_arguments() -> None:
    server = server_of_sums()

    async with open_client(server) as client:
        result = await client.call_tool("total", {"numbers": '["x"]', "times": "2"})

    assert result.is_error
    assert text_of(result).splitlines()[1:] == [
        "$.numbers: expected array, got string",
        "$.times: expected integer, got string",
    ]
    assert server.tools.repaired == 0


async def test_a_server_can_refuse_json_in_strings() -> None:
    server = server_of_sums(repair_arguments=False)

    async with open_client(server) as client:
        result = await client.call_tool("total", {"numbers": "[1]"})

    assert text_of(result).splitlines()[1:] == ["$.numbers: expected array, got string"]
    assert server.tools.repaired == 0


async def test_a_tool_with_a_given_schema_receives_the_value() -> None:
    server = Server("s")
    schema = '{"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "array"}}}'

    @server.tool(input_schema=schema)
    async def show(ctx: Context, **arguments: Any) -> str:
        return repr(arguments)

    async with open_client(server) as client:
        assert text_of(await client.call_tool("show", {"n": "[1]", "more": "[2]"})) == "{'n': [1], 'more': '[2]'}"
