"""Tests of functions as tools: their schemas, injected parameters, calls and results."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import functools
import math
import subprocess
import sys
import types
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Generic, NamedTuple, Never, TypedDict, TypeVar

import attrs
import msgspec
import pydantic
import pytest

from trio_mcp.schema import SchemaError
from trio_mcp.server.signature import ArgumentFaults, ResultFaults, Signature, describe, may_wait

T = TypeVar("T")


class Context:
    pass


class StateContext(Context, Generic[T]):
    pass


class Text:
    pass


class Whole:
    pass


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0
    norm: float = dataclasses.field(init=False, default=0.5)


@dataclasses.dataclass
class Chain:
    next: Chain | None = None


@attrs.frozen
class Secret:
    _word: str
    later: int = attrs.field(init=False)


class Colour(enum.StrEnum):
    RED = "red"


class Pair(NamedTuple):
    left: int
    right: Colour


class Cat(msgspec.Struct, tag=True, rename="camel"):
    lives_left: int = 9
    owner: str | msgspec.UnsetType = msgspec.UNSET


class Plain(msgspec.Struct):
    n: int


class Options(TypedDict):
    deep: bool


class Order(pydantic.BaseModel):
    due: dt.date
    share: float = pydantic.Field(default=0.5, serialization_alias="part")


async def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: first number
        b: second number
    """
    return a + b


def describe_here(function: Callable[..., Any], **options: Any) -> Signature:
    return describe(function, inject=[Context], content=[Text, Whole, bytes], **options)


def refusal(function: Any, **options: Any) -> str:
    with pytest.raises(TypeError) as error:
        describe_here(function, **options)
    return str(error.value)


def test_a_function_is_published_with_its_descriptions() -> None:
    found = describe(add)

    assert (found.name, found.description, found.is_async, found.injected) == ("add", "Add two numbers.", True, {})
    assert found.input_schema == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": "first number"},
            "b": {"type": "integer", "description": "second number", "default": 2},
        },
        "required": ["a"],
        "additionalProperties": False,
    }
    assert found.output_schema == {
        "type": "object",
        "properties": {"result": {"type": "integer"}},
        "required": ["result"],
    }


@pytest.mark.requirement("B.20-S4b")
def test_a_function_without_arguments_has_the_schema_the_specification_recommends() -> None:
    def ping() -> None: ...

    assert describe(ping).input_schema == {"type": "object", "additionalProperties": False}


def test_the_description_in_an_annotation_takes_precedence_over_the_docstring() -> None:
    def f(a: Annotated[int, "from here"], b: Annotated[int, msgspec.Meta(description="and here")]) -> None:
        """Do.

        Args:
            a: not this
            b: nor this
        """

    published = describe(f).input_schema["properties"]
    assert [published[name]["description"] for name in "ab"] == ["from here", "and here"]


def test_defaults_without_a_json_form_are_not_published() -> None:
    def f(b: float = math.nan, c: Any = object(), d: Point = Point(1)) -> None: ...  # noqa: B008  # as users write

    published = describe(f).input_schema
    assert {name: schema.get("default", ...) for name, schema in published["properties"].items()} == {
        "b": ...,
        "c": ...,
        "d": {"x": 1, "y": 0, "norm": 0.5},
    }
    assert "required" not in published


def test_registration_does_not_import_the_schema_validator() -> None:
    program = (
        "import sys\n"
        "from trio_mcp.server.signature._signature import describe\n"
        "def f(a: int, b: 'list[str] | None' = None) -> dict[str, int]: ...\n"
        "found = describe(f)\n"
        "before = 'jsonschema_rs' in sys.modules\n"
        "found.bind({'a': 1})\n"
        "sys.exit(before or 'jsonschema_rs' not in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_context_is_injected_at_any_position_and_never_published() -> None:
    def f(a: int, ctx: Context, /, b: int, other: StateContext[int] | None = None, *, last: Context | None) -> Any:
        return a, ctx, b, other, last

    found = describe_here(f)
    ctx = Context()

    assert found.injected == {"ctx": Context, "other": Context, "last": Context}
    assert found.input_schema["properties"].keys() == {"a", "b"}
    assert found.call(found.bind({"a": 1, "b": 2}), {Context: ctx}) == (1, ctx, 2, ctx, ctx)


def test_an_argument_with_the_name_of_an_injected_parameter_is_unknown() -> None:
    def f(ctx: Context) -> None: ...

    with pytest.raises(ArgumentFaults, match=r"\$\.ctx: unknown"):
        describe_here(f).bind({"ctx": 1})


def test_a_context_inside_a_wider_annotation_is_not_injected() -> None:
    def f(a: int, ctx: Context | int | None) -> None: ...

    assert refusal(f).startswith("f: parameter 'ctx': Context has no JSON form; make it a dataclass")


def test_positional_only_parameters_are_filled_in_order() -> None:
    def f(a: int, b: int = 5, c: int = 6, /, d: int = 7) -> Any:
        return a, b, c, d

    found = describe(f)
    assert found.call(found.bind({"c": 3, "a": 1}), {}) == (1, 5, 3, 7)


def test_partials_methods_callable_objects_and_wrapped_functions_are_supported() -> None:
    class Adder:
        """Adds."""

        async def __call__(self, a: int) -> int:
            return a

        def method(self, a: int) -> int:
            """Method."""
            return a

    @functools.wraps(add)
    def logged(*args: Any, **kwargs: Any) -> Any:
        return add(*args, **kwargs)

    adder = Adder()
    functions: list[Callable[..., Any]] = [
        adder,
        adder.method,
        functools.partial(add, 1),
        functools.partial(adder),
        logged,
    ]
    seen = [
        (found.name, found.description, found.is_async, list(found.input_schema["properties"]))
        for found in (describe(function) for function in functions)
    ]

    assert seen == [
        ("Adder", "Adds.", True, ["a"]),
        ("method", "Method.", False, ["a"]),
        ("add", "Add two numbers.", True, ["b"]),
        ("Adder", "Adds.", True, ["a"]),
        ("add", "Add two numbers.", True, ["a", "b"]),
    ]


async def without_await(a: int = 0) -> Any:
    async def inner() -> None:
        await other()

    async def generator() -> AsyncIterator[int]:
        yield 1

    return a, inner, generator, (item async for item in generator())


async def other() -> int:
    return 1


async def with_await() -> int:
    return await other()


async def with_async_for() -> None:
    async for _ in aiter_of():
        pass


async def with_async_with(scope: Any = None) -> None:
    async with scope:
        pass


async def with_async_comprehension() -> list[int]:
    return [item async for item in aiter_of()]


async def with_await_in_a_comprehension() -> dict[int, int]:
    return {item: await other() for item in range(3)}


async def with_await_that_is_seldom_reached(a: int = 0) -> int:
    if a < 0:
        await other()
    return a


async def aiter_of() -> AsyncIterator[int]:
    yield 1


def plain() -> int:
    return 1


def giving_a_coroutine() -> Any:
    return other()


@types.coroutine
def old_style() -> Iterator[Any]:
    yield 1


class Ready:
    async def __call__(self, a: int = 0) -> int:
        return a

    async def method(self, a: int = 0) -> int:
        return a

    @classmethod
    async def of_class(cls) -> int:
        return 1

    @staticmethod
    async def of_none() -> int:
        return 1


class Busy:
    async def __call__(self) -> int:
        return await other()


class Changed(functools.partial[Any]):
    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return with_await()


class Odd:
    __call__ = functools.partial(other)


@functools.wraps(other)
async def wrapper_with_await() -> int:
    return await other()


@functools.wraps(with_await)
async def wrapper_without_await() -> int:
    return 1


@pytest.mark.parametrize(
    "function",
    [
        without_await,
        functools.partial(without_await, 1),
        functools.partial(Ready().method, 1),
        types.MethodType(functools.partial(without_await), 1),
        Ready(),
        functools.partial(Ready()),
        Ready().method,
        Ready.of_class,
        Ready.of_none,
        wrapper_without_await,
    ],
)
def test_a_coroutine_function_without_await_never_waits(function: Callable[..., Any]) -> None:
    assert not describe(function, name="f").waits
    with pytest.raises(StopIteration):
        function().send(None)


@pytest.mark.parametrize(
    "function",
    [
        with_await,
        with_async_for,
        with_async_with,
        with_async_comprehension,
        with_await_in_a_comprehension,
        with_await_that_is_seldom_reached,
        plain,
        giving_a_coroutine,
        old_style,
        Busy(),
        Busy().__call__,
        functools.partial(with_await),
        Changed(other),
        Odd(),
        wrapper_with_await,
        functools.wraps(other)(plain),
        math.sqrt,
        Plain,
    ],
)
def test_any_other_function_may_wait(function: Callable[..., Any]) -> None:
    assert may_wait(function)


def test_any_function_may_wait_on_an_interpreter_with_unknown_instructions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trio_mcp.server.signature._inspect._READABLE", False)

    assert may_wait(without_await)


def test_a_builtin_function_without_annotations_can_be_a_tool_with_a_schema_of_its_own() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}
    found = describe(math.sqrt, name="root", input_schema=schema)

    assert found.call(found.bind({"x": 4}), {}) == 2.0


def test_names_of_the_closure_and_of_the_namespace_are_resolved() -> None:
    @dataclasses.dataclass
    class Local:
        n: int

    @dataclasses.dataclass
    class Outer:
        inner: Local

    def f(a: Local, b: Outer) -> Local:
        return Local(a.n + b.inner.n)

    found = describe(f, namespace={"Outer": Outer})

    assert found.call(found.bind({"a": {"n": 1}, "b": {"inner": {"n": 2}}}), {}) == Local(3)


def test_an_undefined_name_is_an_error_that_names_the_parameter() -> None:
    def f(a: int, b: Missing) -> None:  # type: ignore[name-defined]  # noqa: F821  # under test
        print(later)  # noqa: T201  # makes a cell that is empty when f is described

    assert refusal(f) == (
        "f: parameter 'b': 'Missing' cannot be resolved: name 'Missing' is not defined;"
        " define or import it at the top level of the module, and not under `if TYPE_CHECKING:`"
    )
    later = 1


def test_an_annotation_that_cannot_be_evaluated_is_an_error_that_names_the_parameter() -> None:
    def f(a: 1 / 0) -> None: ...  # type: ignore[valid-type]

    assert refusal(f) == "f: parameter 'a': '1 / 0' cannot be resolved: division by zero"


def test_a_wrong_return_annotation_is_named() -> None:
    def f() -> complex:
        return 1j

    def g() -> Missing: ...  # type: ignore[name-defined]  # noqa: F821  # under test

    assert refusal(f) == "f: the return annotation: complex has no JSON form"
    assert refusal(g).startswith("g: the return annotation: 'Missing' cannot be resolved")


def test_parameters_without_a_name_are_refused() -> None:
    def f(*things: int) -> None: ...
    def g(**things: int) -> None: ...

    assert refusal(f) == "f: parameter '*things: int' cannot be published: give every argument a name"
    assert refusal(g) == "g: parameter '**things: int' cannot be published: give every argument a name"


def test_generators_are_refused() -> None:
    def f() -> Iterator[int]:
        yield 1

    async def g() -> AsyncIterator[int]:
        yield 1

    assert refusal(f) == "f: a generator function cannot be a handler: return the values together"
    assert refusal(g).startswith("g: a generator function")


def test_a_callable_without_a_readable_signature_is_refused() -> None:
    odd = type("Odd", (), {"__call__": add, "__signature__": "odd"})()

    assert refusal(odd).startswith("Odd: its signature cannot be read")
    assert refusal(3).startswith("int: its signature cannot be read")


def test_a_class_method_is_refused_until_it_is_bound() -> None:
    class Notes:
        @classmethod
        def search(cls, query: str) -> str:
            return query

    assert refusal(vars(Notes)["search"]).endswith("register it below the class, as in server.tool(Notes.search)")
    assert describe_here(Notes.search).bind({"query": "a"}) == {"query": "a"}


def test_a_path_is_to_be_a_string() -> None:
    def f(path: Path) -> None: ...

    cure = "annotate it with str, and make the path in the function"
    assert refusal(f) == f"f: parameter 'path': Path has no JSON form; {cure}"


def test_one_message_contains_all_faults_of_a_call() -> None:
    with pytest.raises(ArgumentFaults) as error:
        describe(add).bind({"a": "x", "c": 1})

    assert str(error.value) == (
        "add: the arguments do not fit its schema\n$.a: expected integer, got string\n$.c: unknown, not allowed here"
    )
    assert error.value.name == "add"


def test_conversion_faults_of_all_arguments_are_collected() -> None:
    def f(a: float, b: float) -> None: ...

    with pytest.raises(ArgumentFaults) as error:
        describe(f).bind({"a": 10**400, "b": 10**401})

    assert [fault.partition(":")[0] for fault in error.value.faults] == ["$.a", "$.b"]


def test_running_out_of_stack_while_converting_is_a_fault() -> None:
    def f(chain: Chain) -> None: ...

    arguments: dict[str, Any] = {"chain": {}}
    for _ in range(150):
        arguments = {"chain": {"next": arguments["chain"]}}
    found = describe(f)
    found.bind({"chain": {}})
    limit = sys.getrecursionlimit()

    sys.setrecursionlimit(400)
    try:
        with pytest.raises(ArgumentFaults, match="nested too deeply"):
            found.bind(arguments)
    finally:
        sys.setrecursionlimit(limit)


def test_bind_does_not_change_the_arguments() -> None:
    def f(a: int, points: list[Point]) -> None: ...

    arguments = {"a": 1.0, "points": [{"x": 1}]}
    assert describe(f).bind(arguments) == {"a": 1, "points": [Point(1)]}
    assert arguments == {"a": 1.0, "points": [{"x": 1}]}


RAW = {"type": "object", "properties": {"a": {"type": "integer"}, "odd name": {}}, "required": ["a"]}


def test_a_given_schema_is_published_and_arguments_are_not_converted() -> None:
    def f(ctx: Context, **arguments: Any) -> Any:  # the test is about its injection
        return arguments

    found = describe_here(f, input_schema=RAW)

    assert found.input_schema == RAW
    assert found.call(found.bind({"a": 1.0, "odd name": [], "b": 2}), {Context: Context()}) == {
        "a": 1.0,
        "odd name": [],
        "b": 2,
    }
    with pytest.raises(ArgumentFaults, match=r"\$\.a: required"):
        found.bind({})


def test_arguments_without_a_parameter_are_refused_even_if_a_given_schema_allows_them() -> None:
    def f(a: int) -> None: ...

    found = describe(f, input_schema={"type": "object", "properties": {"a": {}}, "required": ["a"]})

    with pytest.raises(ArgumentFaults, match=r"\$\.b: unknown, not allowed here"):
        found.bind({"a": 1, "b": 2})


def test_a_given_schema_that_does_not_match_the_parameters_is_refused() -> None:
    def f(a: int, b: int = 1) -> None: ...
    def g(*things: int) -> None: ...

    assert refusal(f, input_schema={}) == "f: the type at the root of input_schema must be 'object', not None"
    assert refusal(f, input_schema={"type": "object"}) == (
        "f: parameter 'a' needs a default: input_schema does not require it"
    )
    assert refusal(f, input_schema=RAW) == (
        "f: input_schema publishes 'odd name', which is not a parameter of the function"
    )
    assert refusal(g, input_schema=RAW) == "g: parameter '*things' would stay empty: arguments are passed by name"
    with pytest.raises(SchemaError, match="unknown JSON Schema dialect"):
        describe(f, input_schema={"type": "object", "$schema": "mine"})


def test_a_given_schema_that_cannot_be_compiled_raises_at_its_first_use() -> None:
    found = describe(add, input_schema={"type": "object", "required": ["a"], "minProperties": "x"})

    with pytest.raises(SchemaError, match=r"\$\.minProperties"):
        found.bind({})


@pytest.mark.parametrize(
    "annotation",
    [
        None,
        Any,
        object,
        Never,
        Text,
        Whole | None,
        list[Text],
        list[str | Text],
        Sequence[Text | int],
        Annotated[Text, "x"],
        bytes,
        str | bytes,
    ],
)
def test_content_and_none_have_no_output_schema(annotation: Any) -> None:
    def f() -> None: ...

    f.__annotations__ = {"return": annotation}
    found = describe_here(f)

    assert (found.output_schema, found.wraps_result) == (None, False)


def test_a_function_without_a_return_annotation_has_no_output_schema() -> None:
    assert describe(lambda: 1, name="one").output_schema is None


@pytest.mark.requirement("B.20-S5a")
@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (int, 3, {"result": 3}),
        (str, "x", {"result": "x"}),
        (float, 1, {"result": 1}),
        (int | None, None, {"result": None}),
        (list[int], (1, 2), {"result": [1, 2]}),
        (Sequence[int], range(2), {"result": [0, 1]}),
        (list[Any], collections.deque([1, b"hi", {1: {2}}]), {"result": [1, "aGk=", {"1": [2]}]}),
        (set[int], {1}, {"result": [1]}),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (dict, types.MappingProxyType({Colour.RED: 1}), {"red": 1}),
        (dict[int, str], {7: "a"}, {"7": "a"}),
        (Point, Point(1), {"x": 1, "y": 0, "norm": 0.5}),
        (Point | None, Point(1), {"result": {"x": 1, "y": 0, "norm": 0.5}}),
        (Point | Pair, Pair(1, Colour.RED), {"left": 1, "right": "red"}),
        (Pair, Pair(1, Colour.RED), {"left": 1, "right": "red"}),
        (Cat, Cat(), {"type": "Cat", "livesLeft": 9}),
        (Cat, Cat(1, "Ada"), {"type": "Cat", "livesLeft": 1, "owner": "Ada"}),
        (Plain, Plain(1), {"n": 1}),
        (Options, {"deep": True}, {"deep": True}),
        (Order, Order(due=dt.date(2026, 1, 31)), {"due": "2026-01-31", "part": 0.5}),
        (list[Order], [Order(due=dt.date(2026, 1, 31))], {"result": [{"due": "2026-01-31", "part": 0.5}]}),
        (dt.datetime, dt.datetime(2026, 1, 31, tzinfo=dt.UTC), {"result": "2026-01-31T00:00:00Z"}),
        (dt.timedelta, dt.timedelta(days=-1, seconds=1.5), {"result": "-PT86398.5S"}),
        (decimal.Decimal, decimal.Decimal("1.50"), {"result": "1.50"}),
        (uuid.UUID, uuid.UUID(int=1), {"result": "00000000-0000-0000-0000-000000000001"}),
        (Colour, Colour.RED, {"result": "red"}),
        (str, type("S", (str,), {})("x"), {"result": "x"}),
        (int, type("I", (int,), {})(3), {"result": 3}),
        (int, 2**70, {"result": 2**70}),
    ],
)
def test_a_result_becomes_structured_content_that_fits_the_output_schema(
    annotation: Any, value: Any, expected: Any
) -> None:
    def f() -> None: ...

    f.__annotations__ = {"return": annotation}
    found = describe_here(f)
    assert found.output_schema is not None

    content = found.dump(value)

    assert content == expected
    assert found.output_schema["type"] == "object"
    assert found.wraps_result == (
        found.output_schema["properties"].keys() == {"result"} if "properties" in found.output_schema else False
    )
    assert all(type(part) in {int, str, float, list, dict, type(None), bool} for part in content.values())


def test_results_publish_all_members_of_an_object() -> None:
    def f() -> Point:
        return Point(1)

    def g() -> Secret:
        return Secret("x")

    assert describe(f).output_schema == {
        "type": "object",
        "properties": {
            "x": {"type": "integer"},
            "y": {"type": "integer", "default": 0},
            "norm": {"type": "number", "default": 0.5},
        },
        "required": ["x"],
    }
    schema = describe(g).output_schema
    assert schema is not None
    assert schema["required"] == ["word", "later"]


cyclic: list[Any] = []
cyclic.append(cyclic)


@pytest.mark.parametrize(
    ("annotation", "value", "fault"),
    [
        (int, "x", "$.result: expected integer, got string"),
        (float, math.nan, "$.result: nan is not a JSON number"),
        (list[float], [1.0, math.inf], "$.result[1]: inf is not a JSON number"),
        (dict[str, Any], {"a": [math.nan]}, "$.a[0]: nan is not a JSON number"),
        (Order, Order(due=dt.date(2026, 1, 31), share=math.nan), "$.part: nan is not a JSON number"),
        (list[Any], [object()], "$.result[0]: a value of type object has no JSON form"),
        (list[Any], cyclic, "$: nested too deeply"),
        (dict[str, Any], {"a": {True: 1}}, "$.a: True cannot be the name of a JSON member"),
        (dict[str, Any], {1.5: 1}, "$: 1.5 cannot be the name of a JSON member"),
        (Point, None, "$: expected object, got null"),
        (Secret, Secret("x"), "$.later: required, but missing"),
        (
            dt.datetime,
            dt.datetime(2026, 1, 31),  # noqa: DTZ001  # the missing zone is under test
            '$.result: "2026-01-31T00:00:00" is not a date-time (RFC 3339 with an offset, as in 2026-01-31T09:30:00Z)',
        ),
    ],
)
def test_a_result_that_does_not_fit_is_an_error_that_names_the_tool_and_the_fault(
    annotation: Any, value: Any, fault: str
) -> None:
    def f() -> None: ...

    f.__annotations__ = {"return": annotation}

    with pytest.raises(ResultFaults) as error:
        describe(f, name="tool").dump(value)

    assert str(error.value) == f"tool: the returned value does not fit the output schema\n{fault}"
    assert (error.value.name, error.value.faults) == ("tool", (fault,))


class _Awaited(type):
    async def __call__(cls, text: str = "") -> str:
        return text


class _Callable(metaclass=_Awaited):
    """A class whose call returns a coroutine without any `await`, although it is not declared asynchronous."""


def test_every_function_that_runs_in_a_thread_may_wait() -> None:
    signature = describe(_Callable, name="f")

    assert not signature.is_async
    assert signature.waits
