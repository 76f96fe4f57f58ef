"""The types of the clients for asyncio and for programs without async, compared with the Trio client."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_overloads

import pytest

import trio_mcp
from codegen.mirrors import ALIASES, CLASSES, FUNCTIONS, STUB, stub
from codegen.mirrors_prose import PHRASES, without_async, wrapped
from trio_mcp import Client, ClientOptions, Clients
from trio_mcp._mirrors import CALLBACKS
from trio_mcp.llm import Toolkit, load_toolkit

ROOT = Path(__file__).parents[2]

PROGRAM = """
from typing import Any, assert_type

from trio_mcp import types
from trio_mcp.llm import ToolCall
from trio_mcp.sync import Client, TaskHandle, load_toolkit, open_client, open_clients


def on_elicit(question: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="decline")


def use(client: Client) -> None:
    assert_type(client.call_tool("add"), types.CallToolResult)
    assert_type(client.call_tool("add", returns=int), int)
    assert_type([tool.name for tool in client.tools()], list[str])
    with client.open_call("add") as call:
        assert_type([update.progress for update in call.updates], list[float])
        assert_type(call.result(), types.CallToolResult)
    assert_type(client.start_task("add"), TaskHandle)


def approve(call: ToolCall) -> bool | str:
    return call.server is None


with open_client(["server"], on_elicit=on_elicit) as client:
    use(client)
with open_clients("mcp.json", on_log=print) as clients:
    use(clients["one"])
    toolkit = load_toolkit(clients, only=["add"])
    assert_type([function["name"] for function in toolkit.functions], list[Any])
    assert_type(toolkit.answer({}, approve=approve), list[dict[str, Any]])
"""
ASYNCIO = """
import asyncio
from typing import Any, assert_type

from trio_mcp import Server, types
from trio_mcp.asyncio import Client, http_app, load_toolkit, open_client, run_asyncio
from trio_mcp.llm import ToolCall


async def use(client: Client) -> None:
    assert_type(await client.call_tool("add", returns=int), int)
    assert_type([tool.name async for tool in client.tools()], list[str])
    async with client.open_call("add") as call:
        assert_type(await call.result(), types.CallToolResult)
    toolkit = await load_toolkit(client)
    assert_type(await toolkit.answer({}, approve=approve), list[dict[str, Any]])


async def approve(call: ToolCall) -> bool | str:
    return call.server is None


async def main() -> None:
    async with open_client(["server"]) as client:
        await use(client)
    assert_type(await run_asyncio(asyncio.sleep(0, "x")), str)


app = http_app(Server("s"), path="/mcp")
asyncio.run(main())
"""
WRONG = PROGRAM.replace('client.call_tool("add")', 'client.call_tool("add", argumets={})')


def test_the_stub_is_what_the_sources_give() -> None:
    assert STUB.read_text(encoding="utf-8") == stub()


def public_attributes(kind: type[object]) -> list[str]:
    return list(vars(kind))


def names_in_stub() -> Iterator[tuple[str, ast.stmt]]:
    for node in ast.parse(STUB.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.AnnAssign):
            yield ast.unparse(node.target), node


def test_the_stub_has_the_names_of_the_module() -> None:
    module = importlib.import_module("trio_mcp.sync")

    assert {name for name, _ in names_in_stub()} == set(module.__all__)


def test_the_classes_of_the_stub_have_the_members_of_the_classes_of_the_module() -> None:
    module = importlib.import_module("trio_mcp.sync")
    for name, node in names_in_stub():
        if isinstance(node, ast.ClassDef) and name != "ClientOptions":
            declared = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
            mirrored = {each for each in public_attributes(getattr(module, name)) if not each.startswith("_")}
            assert {each for each in declared if not each.startswith("_")} == mirrored, name


def texts_in(body: list[ast.stmt]) -> Iterator[tuple[str, str | None]]:
    """Yield each definition, and what it contains, with its text: its docstring, or the string below a variable."""
    seen: set[str] = set()
    for node, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name not in seen:  # the first of several overloads
            seen.add(node.name)
            yield node.name, ast.get_docstring(node)
            for name, text in texts_in(node.body):
                yield f"{node.name}.{name}", text
        elif isinstance(node, ast.AnnAssign):
            match following:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield ast.unparse(node.target), text
                case _:
                    yield ast.unparse(node.target), None


TEXTS = dict(texts_in(ast.parse(STUB.read_text(encoding="utf-8")).body))


def test_everything_in_the_stub_has_a_text_for_editors() -> None:
    special = {"__next__", "__getitem__", "__iter__", "__len__"}

    assert {
        "open_client",
        "Client.call_tool",
        "Client.revision",
        "ClientOptions.on_log",
        "OnLog",
    } <= TEXTS.keys()
    assert [name for name, text in TEXTS.items() if not text and name.rpartition(".")[2] not in special] == []


def test_the_texts_of_the_stub_speak_of_nothing_that_a_program_without_async_lacks() -> None:
    lacking = re.compile(r"\basync\b|\bawait|asynchronous|event loop|nursery|start_clients?`|cancel scope")

    assert [name for name, text in TEXTS.items() if text and lacking.search(text)] == []
    assert "with client.listen(" in (TEXTS["Client.listen"] or "")


def test_every_phrase_that_is_replaced_occurs() -> None:
    inherited = (
        base.rpartition(".")[0] for classes in CLASSES.values() for bases in classes.values() for base in bases
    )
    modules = {*ALIASES, *CLASSES, *FUNCTIONS, *inherited}
    paths = [ROOT / "src" / "trio_mcp" / f"{name.replace('.', '/')}.py" for name in modules]
    prose = " ".join(word for path in paths for word in path.read_text(encoding="utf-8").split())

    assert [phrase for phrase in PHRASES if phrase not in prose] == []


def test_a_phrase_is_replaced_where_it_is_broken_into_lines() -> None:
    assert (
        without_async("It may be used from any number\nof tasks at once.")
        == "It may be used from any number of threads at once."
    )


def test_the_rest_of_a_line_that_is_too_long_begins_the_next() -> None:
    text = "one two three\nfour\n\nArgs:\n    key: of a lock\n        or two\n    other: nine"

    assert wrapped(text, 14).split("\n") == [
        *("one two three", "four", ""),
        *("Args:", "    key: of a", "        lock", "        or two", "    other:", "        nine"),
    ]
    assert wrapped("one two three\nfour", 10) == "one two\nthree four"
    assert wrapped("    immeasurable\nlonging", 10) == "    immeasurable\nlonging"


@pytest.mark.parametrize("world", ["asyncio", "sync"])
def test_both_worlds_have_the_classes_and_the_openers_of_blocks(world: str) -> None:
    module = importlib.import_module(f"trio_mcp.{world}")
    openers = {name for name in vars(trio_mcp)["__all__"] if name.startswith("open_")} - {"open_stream_client"}

    assert openers <= set(module.__all__)
    for name in openers:
        assert inspect.signature(getattr(module, name)) == inspect.signature(getattr(trio_mcp, name))
    assert inspect.signature(module.load_toolkit) == inspect.signature(load_toolkit)
    for name in ("Client", "Clients"):
        shown = {each for each in dir(getattr(module, name)) if not each.startswith("_")}
        assert shown == {each for each in dir(getattr(trio_mcp, name)) if not each.startswith("_")}


def awaited_callbacks() -> Iterator[str]:
    """Yield the options and parameters whose annotations are types of callbacks that Trio awaits."""
    aliases = (
        *("Approve", "Consent", "OnCallProgress", "OnElicit", "OnElicitComplete", "OnLog", "OnProgress", "OnSample"),
        "Roots",
    )
    annotations: dict[str, Any] = dict(ClientOptions.__annotations__)
    for kind in (Client, Clients, Toolkit):
        for _, function in inspect.getmembers(kind, inspect.isfunction):
            callables: list[Any] = [function, *get_overloads(function)]
            for overload in callables:
                annotations |= {name: each.annotation for name, each in inspect.signature(overload).parameters.items()}
    for name, annotation in annotations.items():
        text = getattr(annotation, "__forward_arg__", str(annotation))
        if text.removesuffix(" | None") in aliases:
            yield name


def test_the_callbacks_are_those_of_the_annotations() -> None:
    assert set(awaited_callbacks()) == CALLBACKS


@pytest.mark.parametrize("program", [PROGRAM, ASYNCIO], ids=["sync", "asyncio"])
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_program_passes_the_type_checkers(program: str, checker: str, tmp_path: Path) -> None:
    done = checked(program, checker, tmp_path)

    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_wrong_argument_does_not_pass(checker: str, tmp_path: Path) -> None:
    done = checked(WRONG, checker, tmp_path)

    assert done.returncode == 1
    assert "program.py" in done.stdout


def checked(program: str, checker: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(program, encoding="utf-8")
    if checker == "mypy":
        pytest.importorskip("mypy", reason="the type checker is not installed here")
        command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "program.py"]
    else:
        pyright = shutil.which("pyright")
        if pyright is None:
            pytest.skip("pyright is not installed here")
        settings = f'{{"typeCheckingMode": "strict", "extraPaths": ["{ROOT / "src"}"]}}'
        (folder / "pyrightconfig.json").write_text(settings, encoding="utf-8")
        command = [pyright, "-p", str(folder)]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    return subprocess.run(command, cwd=folder, capture_output=True, check=False, encoding="utf-8", env=environment)
