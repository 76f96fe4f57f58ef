"""Integration and typing: decorated functions stay unchanged, and lists are serialized once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, assert_type

import pytest

from trio_mcp import Context, Server, open_client, types
from trio_mcp.schema import _validate as _schema
from trio_mcp.server.features import _catalog
from trio_mcp.wire import encode as json_encode

server = Server("s")


@server.tool
async def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@server.tool(name="other", timeout=5)
def shout(text: str, *, times: int = 1) -> str:
    return text.upper() * times


@server.prompt
async def review(code: str, ctx: Context) -> str:
    return f"{code} {ctx.revision}"


@server.prompt(title="Greeting")
def greet(name: str) -> list[str]:
    return [name]


@server.resource("memo://{name}")
async def memo(name: str) -> bytes:
    return name.encode()


@server.completion(prompt="greet", argument="name")
async def names(typed: str) -> list[str]:
    return [typed]


# Complaint 39.


@pytest.mark.complaint(39)
async def test_decorated_functions_keep_their_types() -> None:
    """Both type checkers read this file in the project's gates; a wrong `assert_type` fails there.

    An unnecessary `type: ignore` fails there as well: each one marks a call that must be refused as for the plain
    function.
    """
    assert assert_type(await add(1, b=3), int) == 4
    assert assert_type(shout("a", times=2), str) == "AA"
    assert assert_type(await memo("x"), bytes) == b"x"
    assert assert_type(await names("x"), list[str]) == ["x"]
    assert assert_type(greet("x"), list[str]) == ["x"]
    narrowed: Callable[[str], Coroutine[Any, Any, bytes]] = memo
    assert narrowed is memo

    with pytest.raises(TypeError):
        await add("1", "2", "3")  # type: ignore[call-arg, arg-type] # pyright: ignore[reportArgumentType, reportCallIssue] # must be refused
    with pytest.raises(TypeError):
        shout("a", 2)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue] # must be refused


@pytest.mark.complaint(39)
def test_decorators_return_the_same_function_object() -> None:
    def plain(a: int, *, b: str = "x") -> str:
        """Repeat a string."""
        return b * a

    fresh = Server("s")
    before = (plain.__name__, plain.__doc__, plain.__dict__.copy(), inspect.signature(plain))

    decorators: list[Callable[[Any], Any]] = [
        fresh.tool,
        fresh.tool(name="called", title="Called", max_concurrency=1),
        fresh.prompt,
        fresh.prompt(name="called"),
    ]
    for decorate in decorators:
        assert decorate(plain) is plain
    assert fresh.resource("memo://{a}/{b}")(plain) is plain
    assert (plain.__name__, plain.__doc__, plain.__dict__, inspect.signature(plain)) == before
    assert not hasattr(plain, "__wrapped__")


# Complaint 26.


@pytest.mark.complaint(26)
@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_a_list_is_serialized_once_for_all_requests_and_clients(
    revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[object] = []
    compiled: list[object] = []
    compile_schema = _schema.compile_schema

    def record_encode(value: Any) -> bytes:
        encoded.append(value)
        return json_encode(value)

    def record_compile(*arguments: Any, **options: Any) -> _schema.Validator:
        compiled.append(arguments)
        return compile_schema(*arguments, **options)

    fresh = Server("s")
    for number in range(20):
        fresh.tool(name=f"t{number}")(lambda: None)
    monkeypatch.setattr(_catalog, "encode", record_encode)
    monkeypatch.setattr(_schema, "compile_schema", record_compile)
    for _ in range(3):
        async with open_client(fresh, revision=revision) as client:
            for _ in range(10):
                assert len([tool async for tool in client.tools()]) == 20

    assert len(encoded) in {0, 20}  # 0 if the lists are serialized at registration
    assert compiled == []
