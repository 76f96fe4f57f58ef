"""Tests of defaults: pydantic's ``Field``, the ``Depends`` of other frameworks, and values of another type."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import math
import subprocess
import sys
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NewType, Optional, TypedDict

import msgspec
import pydantic
import pytest

from trio_mcp import Context, ErrorResponse, Resolve, Server, open_client
from trio_mcp.server.signature import ArgumentFaults, describe

Id = NewType("Id", int)


class Colour(enum.StrEnum):
    RED = "red"


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    norm: float = dataclasses.field(init=False, default=0.5)


class Movie(TypedDict):
    title: str


@dataclasses.dataclass
class Depends:
    """A dependency as other frameworks write it."""

    dependency: Callable[..., Any] | None = None


def database() -> int:
    return 1


def refusal(function: Callable[..., Any], **options: Any) -> str:
    with pytest.raises(TypeError) as error:
        describe(function, **options)
    return str(error.value)


def with_default(annotation: Any, default: Any) -> Callable[..., Any]:
    def f(x: Any = default) -> Any:
        return x

    f.__annotations__["x"] = annotation
    return f


# --- Field(...) ---


def search(
    query: str = pydantic.Field(description="what to look for", min_length=2),
    limit: int = pydantic.Field(10, ge=1, le=50, title="Limit", examples=[5]),
    tags: list[str] = pydantic.Field(default_factory=list),  # noqa: B008 # as users write
) -> Any:
    return query, limit, tags


def test_a_field_as_default_describes_bounds_and_requires_its_parameter() -> None:
    assert describe(search).input_schema == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "what to look for", "minLength": 2},
            "limit": {
                "type": "integer", "title": "Limit", "examples": [5], "minimum": 1, "maximum": 50, "default": 10,
            },
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["query"],
        "additionalProperties": False,
    }  # fmt: skip


def test_the_default_of_a_field_reaches_the_function_anew_for_each_call() -> None:
    found = describe(search)
    first, second = (found.call(found.bind({"query": "tea"}), {}) for _ in range(2))

    assert first == ("tea", 10, [])
    assert first[2] is not second[2]
    assert found.call(found.bind({"query": "tea", "limit": 3, "tags": ["a"]}), {}) == ("tea", 3, ["a"])


@pytest.mark.parametrize(
    ("arguments", "fault"), [({}, "query"), ({"query": "t"}, "query"), ({"query": "tea", "limit": 51}, "limit")]
)
def test_arguments_that_do_not_fit_a_field_are_refused(arguments: dict[str, Any], fault: str) -> None:
    with pytest.raises(ArgumentFaults, match=fault):
        describe(search).bind(arguments)


def test_a_default_of_a_field_in_an_annotation_is_honoured_unless_there_is_another() -> None:
    def f(a: Annotated[int, pydantic.Field(3, ge=1)], b: Annotated[int, pydantic.Field(4)] = 5) -> Any:
        return a, b

    found = describe(f)
    assert found.call(found.bind({}), {}) == (3, 5)
    assert [found.input_schema["properties"][name]["default"] for name in "ab"] == [3, 5]


def test_a_positional_only_parameter_may_have_a_field() -> None:
    def f(a: int = pydantic.Field(3), b: int = pydantic.Field(default_factory=lambda: 4), /) -> Any:
        return a, b

    found = describe(f)
    assert found.call(found.bind({}), {}) == (3, 4)
    assert found.call(found.bind({"b": 1}), {}) == (3, 1)


def test_a_field_is_honoured_beside_a_schema_of_ones_own() -> None:
    def f(a: int = pydantic.Field(3)) -> int:
        return a

    found = describe(f, input_schema={"type": "object", "properties": {"a": {"type": "integer"}}})
    assert found.call(found.bind({}), {}) == 3


def test_a_factory_that_takes_the_other_arguments_is_refused() -> None:
    def f(a: int, b: int = pydantic.Field(default_factory=lambda data: int(data["a"]))) -> None: ...

    assert refusal(f) == "f: parameter 'b': its default_factory must be a function without parameters"


def test_a_constraint_of_a_field_that_does_not_apply_is_refused() -> None:
    assert refusal(with_default(int, pydantic.Field(1, min_length=1))) == (
        "f: parameter 'x': min_length=1 does not apply to int"
    )


def test_an_option_of_a_field_that_renames_a_parameter_is_refused() -> None:
    assert refusal(with_default(int, pydantic.Field(1, alias="n"))) == (
        "f: parameter 'x': Field(alias=...) is not supported here: name the parameter so"
    )


def test_a_parameter_with_a_field_needs_an_annotation() -> None:
    def f(x=pydantic.Field(1)) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001, B008 # as users write

    assert refusal(f) == "f: parameter 'x' has no annotation: annotate it with its type; `Any` takes every value"


async def test_fields_are_honoured_in_prompts_and_resource_templates() -> None:
    server = Server("s")

    @server.prompt
    def poem(lines: int = pydantic.Field(4, le=14, description="how many")) -> str:
        return "la " * lines

    @server.resource("note:///{name}")
    def note(name: str = pydantic.Field(min_length=2)) -> str:
        return name

    async with open_client(server) as client:
        (listed,) = [prompt async for prompt in client.prompts()]
        assert listed.arguments is not None
        assert [(each.name, each.description, each.required) for each in listed.arguments] == [
            ("lines", "how many", False)
        ]
        assert "la " * 4 in str(await client.get_prompt("poem"))
        with pytest.raises(ErrorResponse, match="lines"):
            await client.get_prompt("poem", {"lines": "15"})
        with pytest.raises(ErrorResponse, match="no resource"):
            await client.read_resource("note:///a")


# --- Depends(...) ---


@pytest.mark.parametrize(
    ("dependency", "named"), [(Depends(database), "database"), (Depends(), "function")], ids=["named", "nameless"]
)
def test_a_dependency_of_another_framework_is_refused_with_the_cure(dependency: Depends, named: str) -> None:
    cure = (
        f"f: parameter 'x': nothing would call Depends({named}) here: write "
        f"`x: Annotated[int, Resolve({named})]` with Resolve of trio_mcp"
    )

    assert refusal(with_default(int, dependency)) == cure
    assert refusal(with_default(Annotated[int, dependency], 1)) == cure


def test_a_dependency_in_a_default_is_refused_with_the_cure() -> None:
    assert refusal(with_default(int, Resolve(database))) == (
        "f: parameter 'x': nothing would call Resolve(database) here: write "
        "`x: Annotated[int, Resolve(database)]` with Resolve of trio_mcp"
    )


def test_a_dependency_of_another_framework_is_refused_without_annotation_too() -> None:
    def f(db=Depends(database)) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001, B008 # as users write

    assert "write `db: Annotated[Any, Resolve(database)]`" in refusal(f)


# --- Other defaults ---


@pytest.mark.parametrize(
    ("annotation", "default", "fault"),
    [
        (int, object(), "is not a value of int"),
        (int, "x", "'x' is not a value of int"),
        (int, 1.0, "1.0 is not a value of int"),
        (int, True, "True is not a value of int"),
        (float, True, "True is not a value of float"),
        (str, 1, "1 is not a value of str"),
        (bytes, "x", "'x' is not a value of bytes"),
        (Colour, "red", "'red' is not a value of Colour"),
        (Point, {"x": 1}, "{'x': 1} is not a value of Point"),
        (Movie, [], "[] is not a value of Movie"),
        (dt.date, "2026-01-01", "'2026-01-01' is not a value of date"),
        (list[int], ["x"], "['x'] is not a value of list[int]"),
        (list[int], (1,), "(1,) is not a value of list[int]"),
        (Sequence[str], "abc", "'abc' is not a value of collections.abc.Sequence[str]"),
        (tuple[int, str], (1,), "(1,) is not a value of tuple[int, str]"),
        (tuple[int, str], (1, 2), "(1, 2) is not a value of tuple[int, str]"),
        (dict[str, int], {"a": "b"}, "{'a': 'b'} is not a value of dict[str, int]"),
        (Literal["a", 1], True, "True is not a value of Literal['a', 1]"),
        (int | str, 1.5, "1.5 is not a value of int | str"),
        (Id, "x", "'x' is not a value of Id"),
        (Annotated[int, "how many"], "x", "'x' is not a value of int"),
        (int, pydantic.Field("x"), "'x' is not a value of int"),
    ],
)
def test_a_default_that_is_not_a_value_of_its_annotation_is_refused(annotation: Any, default: Any, fault: str) -> None:
    message = refusal(with_default(annotation, default), name="sum")

    assert message.startswith("sum: parameter 'x': its default ")
    assert message.endswith(fault)


def test_none_is_a_default_only_where_the_annotation_has_it() -> None:
    assert refusal(with_default(int, None)) == (
        "f: parameter 'x': its default None is not a value of int: annotate it with `int | None`"
    )
    assert describe(with_default(int | None, None)).input_schema["properties"]["x"]["default"] is None


@pytest.mark.parametrize(
    ("annotation", "default"),
    [
        (Annotated[int, msgspec.Meta(ge=1)], 0),
        (Optional[Annotated[str, msgspec.Meta(min_length=1)]], ""),  # noqa: UP045 # pyright takes Annotated for no operand of |
        (list[Annotated[int, msgspec.Meta(ge=1)]], [1, 0]),
        (int, pydantic.Field(0, ge=1)),
    ],
)
def test_a_default_that_does_not_fit_its_constraints_is_refused(annotation: Any, default: Any) -> None:
    assert "does not fit its constraints: $" in refusal(with_default(annotation, default))


@pytest.mark.parametrize(
    ("annotation", "default"),
    [
        (Any, object()),
        (object, "x"),
        (float, 1),
        (float, math.inf),
        (Annotated[float, msgspec.Meta(gt=0)], math.inf),
        (Annotated[int, msgspec.Meta(ge=1)], 1),
        (Annotated[decimal.Decimal, "exact"], decimal.Decimal("NaN")),
        (dt.datetime, dt.datetime(2026, 1, 1)),  # noqa: DTZ001 # as users write
        (uuid.UUID, uuid.UUID(int=1)),
        (Colour, Colour.RED),
        (Literal["a", Colour.RED], Colour.RED),
        (Point, Point(1)),
        (Movie, {"title": "M"}),
        (Sequence[str], ()),
        (Collection[int], frozenset({1})),
        (Mapping[str, int], {"a": 1}),
        (list, [object]),
        (tuple[int, ...], (1, 2)),
        (tuple[int, str], (1, "a")),
        (Id, 1),
        (Final[int], 1),
        (int | msgspec.UnsetType, msgspec.UNSET),
    ],
)
def test_a_default_that_is_a_value_of_its_annotation_is_accepted(annotation: Any, default: Any) -> None:
    found = describe(with_default(annotation, default))

    assert found.call(found.bind({}), {}) is default


def test_only_defaults_with_constraints_load_the_schema_validator_at_registration() -> None:
    program = (
        "import sys\n"
        "from typing import Annotated\n"
        "import msgspec\n"
        "from trio_mcp.server.signature import describe\n"
        "def f(a: int = 1, b: list[str] = [], c: Annotated[int, msgspec.Meta(ge=1)] | None = None) -> None: ...\n"
        "describe(f)\n"
        "sys.exit('jsonschema_rs' in sys.modules or 'pydantic' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# --- Parameters that no caller fills ---


class Shop:
    def search(self, query: str) -> str:
        return query


def count(self: int) -> int:
    return self


def test_a_method_is_registered_bound() -> None:
    assert refusal(Shop.search) == (
        "search: parameter 'self': this is not a method of an instance: register the bound method (`thing.method`)"
    )
    assert list(describe(Shop().search).input_schema["properties"]) == ["query"]
    assert list(describe(count).input_schema["properties"]) == ["self"]


@pytest.mark.parametrize("named", ["ctx", "context"])
def test_a_context_without_annotation_is_refused_with_the_cure(named: str) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def f(a: int, {named}): ...\ndef g({named}: str): ...", namespace)
    cure = (
        f"f: parameter '{named}' has no annotation: `{named}: Context` receives the context of trio_mcp; "
        "an argument of this name needs its type"
    )

    assert refusal(namespace["f"]) == cure
    assert refusal(namespace["f"], input_schema={"type": "object", "properties": {}}) == cure
    assert list(describe(namespace["g"]).input_schema["properties"]) == [named]


def test_prompts_resources_and_completions_refuse_them_too() -> None:
    server = Server("s")

    def greet(ctx: int, name: str) -> str:
        return name

    def plain(name: str) -> str:
        return name

    del greet.__annotations__["ctx"], plain.__annotations__["name"]

    @server.prompt
    def poem(name: str, ctx: Context) -> str:
        return name

    for register in (server.prompt, server.resource("a://{name}"), server.completion(prompt="poem", argument="name")):
        with pytest.raises(TypeError, match="'ctx' has no annotation: `ctx: Context` receives"):
            register(greet)
    for register in (server.tool, server.prompt, server.resource("a://{name}")):
        with pytest.raises(TypeError, match="plain: parameter 'name' has no annotation: annotate it with its type"):
            register(plain)
