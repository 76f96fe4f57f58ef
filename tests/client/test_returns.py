"""`call_tool(..., returns=T)`: the results of tools as Python values."""

from __future__ import annotations

import datetime as dt
import enum
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, assert_type

import attrs
import msgspec
import pydantic
import pytest

from trio_mcp import (
    Context,
    RemoteProtocolError,
    Server,
    ToolError,
    ToolFailed,
    UnexpectedResult,
    open_client,
    open_clients,
    types,
)
from trio_mcp.types import REVISIONS


@dataclass
class Hit:
    title: str
    score: float


@attrs.frozen
class Point:
    x: int
    _y: int = 0


class Box(msgspec.Struct, rename="camel"):
    inner_points: list[Point]


class Page(pydantic.BaseModel):
    hits: list[Hit]
    next_page: int | None = pydantic.Field(None, alias="next")


class Place(TypedDict):
    name: str


class Pair(NamedTuple):
    left: int
    right: str


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Outcome:
    result: int


@dataclass
class Settings:
    dark: bool = False


@dataclass
class Circle:
    radius: float


@dataclass
class Square:
    side: float


def answering(result: types.CallToolResult) -> Server:
    """Return a server whose tool `get` has a fixed result, and no output schema."""
    server = Server("fixed")

    @server.tool
    async def get() -> types.CallToolResult:
        return result

    return server


async def converted(content: Any, returns: Any) -> Any:
    """Return structured content as a value; the client does not know the output schema."""
    server = answering(types.CallToolResult(content=[], structured_content=content))
    async with open_client(server) as client:
        return await client.call_tool("get", returns=returns)


async def read(texts: list[str], returns: Any) -> Any:
    """Return a result without structured content as a value."""
    result = types.CallToolResult(content=[types.TextContent(text=text) for text in texts])
    async with open_client(answering(result)) as client:
        return await client.call_tool("get", returns=returns)


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_value_of_a_tool_of_this_package_arrives_as_it_was_in_every_revision(
    revision: str, listed: bool
) -> None:
    server = Server("values")
    values: dict[str, tuple[Any, Any]] = {
        "hits": (list[Hit], [Hit("tea", 2.5)]),
        "point": (Point, Point(1, 2)),
        "box": (Box, Box([Point(1)])),
        "page": (Page, Page(hits=[Hit("tea", 1.0)], next=2)),
        "place": (Place, {"name": "here"}),
        "pair": (Pair, Pair(1, "one")),
        "colour": (Colour, Colour.BLUE),
        "maybe": (Hit | None, None),
        "shape": (Circle | Square, Square(2.0)),
        "stock": (dict[str, int], {"tea": 3}),
        "ids": (set[int], {1, 2}),
        "moment": (dt.date, dt.date(2026, 1, 31)),
        "text": (str, "3"),
        "number": (int, 3),
        "outcome": (Outcome, Outcome(7)),
        "data": (bytes, b"\x00\xff"),
        "settings": (Settings | None, Settings(dark=True)),
    }
    for name, (returns, value) in values.items():
        server.tools.add(returning(value, returns), name=name)
    async with open_client(server, revision=revision) as client:
        if listed:
            assert {each.name async for each in client.tools()} == values.keys()
        got = {name: await client.call_tool(name, returns=returns) for name, (returns, _) in values.items()}

    assert got == {name: value for name, (_, value) in values.items()}


def returning(value: Any, annotation: Any) -> Any:
    async def get() -> Any:
        return value

    get.__annotations__["return"] = annotation
    return get


async def test_type_checkers_know_the_type_of_the_value() -> None:
    """Both type checkers read this file in the project's gates; a wrong `assert_type` fails there."""
    server = Server("typed")

    @server.tool
    async def find() -> list[Hit]:
        return [Hit("tea", 1.0)]

    async with open_client(server) as client:
        assert_type(await client.call_tool("find"), types.CallToolResult)
        assert_type(await client.call_tool("find", raise_on_error=True), types.CallToolResult)
        hits = assert_type(await client.call_tool("find", {}, returns=list[Hit]), list[Hit])
        same: list[Hit] | None = await client.call_tool("find", returns=list[Hit] | None)

    assert hits == same == [Hit("tea", 1.0)]


async def test_a_tool_that_fails_raises_tool_failed() -> None:
    server = Server("failing")

    @server.tool
    async def find() -> list[Hit]:
        raise ToolError("no tea")

    async with open_client(server) as client:
        with pytest.raises(ToolFailed, match="no tea"):
            await client.call_tool("find", returns=list[Hit])


async def test_a_result_that_does_not_fit_names_the_tool_and_every_part() -> None:
    content = {"result": [{"title": "tea", "score": "high"}, {"score": 1}]}
    with pytest.raises(UnexpectedResult) as caught:
        await converted(content, list[Hit])

    assert caught.value.tool == "get"
    assert caught.value.type_name == "list[Hit]"
    assert caught.value.faults == (
        "$.result[0].score: expected number, got string",
        "$.result[1].title: required, but missing",
    )
    assert caught.value.result.structured_content == content
    assert str(caught.value).startswith("the result of tool 'get' is not a list[Hit]: $.result[0].score: expected")


@dataclass
class Even:
    number: int

    def __post_init__(self) -> None:
        if self.number % 2:
            raise ValueError(f"{self.number} is odd")


@pytest.mark.parametrize(
    ("content", "returns", "fault"),
    [
        ({"number": 3}, Even, "$: 3 is odd"),
        ({"result": [{"number": 2}, {"number": 3}]}, list[Even], "$.result[1]: 3 is odd"),
        ({"result": 1}, Place, "$.result: expected object, got integer"),
        ({"name": 1}, Place, "$.name: expected string, got integer"),
        ({"name": "x"}, int, "$: expected integer, got object"),
        ({"result": "x"}, Outcome, "$.result: expected integer, got string"),
        ({"result": "2026-13-01"}, dt.date, "$.result: "),
        ({"result": 6}, Annotated[int, msgspec.Meta(le=5)], "$.result: 6 is greater than the maximum of 5"),
    ],
)
async def test_a_fault_has_its_path_in_the_structured_content(content: Any, returns: Any, fault: str) -> None:
    with pytest.raises(UnexpectedResult) as caught:
        await converted(content, returns)

    (found,) = caught.value.faults
    assert found.startswith(fault)


@pytest.mark.parametrize(
    ("content", "returns", "value"),
    [
        ([{"title": "tea", "score": 1}], list[Hit], [Hit("tea", 1.0)]),  # not wrapped, as a modern server may send it
        (None, Hit | None, None),
        ({"result": 3}, Outcome, Outcome(3)),
        ({"result": {"result": 3}}, Outcome, Outcome(3)),
        ({"result": {"dark": True}}, Settings, Settings(dark=True)),
        ({"result": None}, Settings | None, None),
        ({"result": {"tea": 3}}, dict[str, int], {"tea": 3}),
        ({"result": 3}, dict[str, int], {"result": 3}),
        ({"result": 3}, dict, {"result": 3}),
        ({"result": [1]}, Any, {"result": [1]}),
        ({"title": "tea", "score": 1, "new": True}, Hit, Hit("tea", 1.0)),  # the server is newer
        ({"hits": [], "next": 2, "new": 1}, Page, Page(hits=[], next=2)),
        ({"side": 2, "radius": 1}, Square | Circle, Square(2.0)),
        ({"side": 2, "radius": 1}, Circle | Square, Circle(1.0)),
        ({"result": "red"}, Literal["red", "blue"], "red"),
        ({"result": 5}, Annotated[int, ["unhashable"]], 5),
    ],
)
async def test_structured_content_becomes_a_value(content: Any, returns: Any, value: Any) -> None:
    assert await converted(content, returns) == value


async def test_content_that_the_output_schema_wraps_is_unwrapped_for_every_type() -> None:
    server = Server("wrapping")

    @server.tool
    async def find() -> dict[str, int] | None:
        return {"tea": 3}

    async with open_client(server) as client:
        async for _ in client.tools():
            pass
        assert await client.call_tool("find", returns=dict) == {"tea": 3}
        assert await client.call_tool("find", returns=object) == {"tea": 3}


async def test_the_output_schema_of_a_listed_tool_is_checked_first() -> None:
    server = Server("lying")

    @server.tool(output_schema={"type": "object", "properties": {"n": {"type": "integer"}}})
    async def get() -> None: ...

    async def lie(request: Any, call_next: Any) -> Any:
        if request.method != "tools/call":
            return await call_next(request)
        return {"content": [], "structuredContent": {"n": "x"}}

    server.middleware(lie)
    async with open_client(server) as client:
        async for _ in client.tools():
            pass
        with pytest.raises(RemoteProtocolError, match="does not fit its output schema"):
            await client.call_tool("get", returns=dict)


@pytest.mark.parametrize(
    ("text", "returns", "value"),
    [
        ("3", str, "3"),
        ("tea", str, "tea"),
        ('"tea"', str, '"tea"'),
        ("2026-01-31", dt.date, dt.date(2026, 1, 31)),
        ("red", Colour, Colour.RED),
        ("3", int, 3),
        ('[{"title": "tea", "score": 1}]', list[Hit], [Hit("tea", 1.0)]),
        ('{"result": [1]}', list[int], [1]),
        ("null", str | None, None),
        ("tea", str | None, "tea"),
        ("5", str | None, "5"),
        ("tea", Any, "tea"),
        ("[1]", Any, [1]),
    ],
)
async def test_without_structured_content_a_single_text_is_read(text: str, returns: Any, value: Any) -> None:
    assert await read([text], returns) == value


@pytest.mark.parametrize(
    ("texts", "returns", "fault"),
    [
        ([], list[Hit], "$: no structured content, and not a single text block, but nothing"),
        (["1", "2"], list[int], "$: no structured content, and not a single text block, but text, text"),
        (["tea"], list[int], "$: no structured content, and the text is not JSON: "),
        (['["x"]'], list[int], "$[0]: expected integer, got string"),
        (["green"], Colour, '$: expected "red" or "blue", got "green"'),
    ],
)
async def test_without_structured_content_any_other_result_is_refused(
    texts: list[str], returns: Any, fault: str
) -> None:
    with pytest.raises(UnexpectedResult) as caught:
        await read(texts, returns)

    (found,) = caught.value.faults
    assert found.startswith(fault)


@dataclass
class Node:
    inner: list[Node]


async def test_running_out_of_stack_while_converting_is_a_fault() -> None:
    content: dict[str, Any] = {"inner": []}
    for _ in range(95):
        content = {"inner": [content]}
    server = answering(types.CallToolResult(content=[], structured_content=content))
    async with open_client(server) as client:
        await client.call_tool("get", returns=Node)
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(350)
        try:
            with pytest.raises(UnexpectedResult, match="nested too deeply"):
                await client.call_tool("get", returns=Node)
        finally:
            sys.setrecursionlimit(limit)


class Opaque:
    pass


@pytest.mark.parametrize(
    ("returns", "message"),
    [
        (Opaque, "returns=Opaque: Opaque has no JSON form"),
        (list[Opaque], r"returns=list\[Opaque\]: Opaque has no JSON form"),
        ("list[Hit]", "returns='list.Hit.': .* has no JSON form"),
        (types.CallToolResult, "returns=CallToolResult: it is a message of the protocol; leave out returns="),
    ],
)
async def test_a_type_without_a_json_form_is_refused_before_anything_is_sent(returns: Any, message: str) -> None:
    called: list[str] = []
    server = Server("s")

    @server.tool
    async def get() -> None:
        called.append("get")

    async with open_client(server) as client:
        with pytest.raises(TypeError, match=message):
            await client.call_tool("get", returns=returns)

    assert called == []


async def test_progress_arrives_before_the_value() -> None:
    server, seen = Server("s"), list[float]()

    @server.tool
    async def count(ctx: Context) -> int:
        await ctx.report_progress(1)
        return 2

    async def on_progress(update: types.ProgressNotificationParams) -> None:
        seen.append(update.progress)

    async with open_client(server) as client:
        assert await client.call_tool("count", returns=int, on_progress=on_progress) == 2

    assert seen == [1]


async def test_the_tools_of_many_servers_return_values_too() -> None:
    program = Path(__file__).parent / "programs" / "tool_server.py"
    table = {"mcpServers": {"one": {"command": sys.executable, "args": [str(program), "one", "greet"]}}}
    async with open_clients(table) as clients:
        said = assert_type(await clients.call_tool("greet", returns=str), str)
        same = assert_type(await clients.call_tool("greet"), types.CallToolResult)

    assert same.content == [types.TextContent(text=said)]
