"""Integration and typing: what a program's own functions look like after the SDK has seen them, and what it repeats."""

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
async def test_decorators_return_the_function_with_the_type_it_had() -> None:
    """Both type checkers read this file in the project's gates: an `assert_type` that is wrong fails there.

    So does a `type: ignore` that nothing needs: each stands on a call that is refused, as it would be undecorated.
    """
    assert assert_type(await add(1, b=3), int) == 4
    assert assert_type(shout("a", times=2), str) == "AA"
    assert assert_type(await memo("x"), bytes) == b"x"
    assert assert_type(await names("x"), list[str]) == ["x"]
    assert assert_type(greet("x"), list[str]) == ["x"]
    narrowed: Callable[[str], Coroutine[Any, Any, bytes]] = memo
    assert narrowed is memo

    with pytest.raises(TypeError):
        await add("1", "2", "3")  # type: ignore[call-arg, arg-type] # pyright: ignore[reportArgumentType, reportCallIssue] # the refusal is the case
    with pytest.raises(TypeError):
        shout("a", 2)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue] # likewise


@pytest.mark.complaint(39)
def test_decorators_return_the_very_function() -> None:
    def plain(a: int, *, b: str = "x") -> str:
        """What it does."""
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
async def test_a_list_is_put_into_json_once_however_often_and_by_whomever_it_is_asked_for(
    revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[object] = []
    compiled: list[object] = []
    compile_it = _schema.compile_schema

    def counting(value: Any) -> bytes:
        encoded.append(value)
        return json_encode(value)

    def compiling(*arguments: Any, **options: Any) -> _schema.Validator:
        compiled.append(arguments)
        return compile_it(*arguments, **options)

    fresh = Server("s")
    for number in range(20):
        fresh.tool(name=f"t{number}")(lambda: None)
    monkeypatch.setattr(_catalog, "encode", counting)
    monkeypatch.setattr(_schema, "compile_schema", compiling)
    for _ in range(3):
        async with open_client(fresh, revision=revision) as client:
            for _ in range(10):
                assert len([tool async for tool in client.tools()]) == 20

    assert len(encoded) in {0, 20}  # none where it was done at registration
    assert compiled == []
