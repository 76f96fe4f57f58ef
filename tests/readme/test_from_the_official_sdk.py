"""The page about the official SDK: its program runs, and the names and options in its tables exist."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import trio_mcp
from trio_mcp import Client, Context, Server, testing, types
from trio_mcp.server import HttpOptions

PAGE = (Path(__file__).parents[2] / "docs" / "from-the-official-sdk.md").read_text(encoding="utf-8")
OURS = [row.split(" | ")[1] for row in re.findall(r"^\| (.+?) \|$", PAGE, re.MULTILINE)]
HOLDERS = {"server": Server("s"), "client": Client, "ctx": Context, "types": types, "testing": testing}
OPTIONS_OF = {
    "http_app": HttpOptions.__annotations__,
    "open_client": trio_mcp.ClientOptions.__annotations__,
    "open_http_client": trio_mcp.ClientOptions.__annotations__,
}
OPTIONS = set(re.findall(r"`(\w+)=[^`]*`", " ".join(OURS)))
FROM_ELSEWHERE = {"Annotated", "Args", "Meta", "data", "msgspec", "trio"}


def documented() -> list[str]:
    """Return the dotted names of this package in the middle column, without their arguments."""
    codes = [code for cell in OURS for code in re.findall(r"`([^`]+)`", cell)]
    names = [re.sub(r"^(await |@|async for tool in )", "", code).split("(")[0].split("=")[0] for code in codes]
    names += re.findall(r"\b([A-Z]\w+)\(", " ".join(codes))
    return sorted({name for name in names if re.split(r"[.\[:]", name)[0] not in FROM_ELSEWHERE} - OPTIONS - {""})


@pytest.mark.parametrize("name", documented())
def test_a_documented_name_exists(name: str) -> None:
    first, _, rest = name.removesuffix(" is types.UNSET").partition(".")
    holder = types.CallToolResult if first == "result" else HOLDERS.get(first) or getattr(trio_mcp, first)
    for part in filter(None, rest.split(".")):
        assert hasattr(holder, part), f"{name}: {holder} has no {part}"
        holder = getattr(holder, part)


def test_the_names_and_options_of_the_page_are_found() -> None:
    assert {"Server", "server.tools.add", "client.complete", "ctx.log", "types.structure"} <= set(documented())
    assert {"roots", "on_log", "page_size"} <= OPTIONS


@pytest.mark.parametrize("option", sorted(OPTIONS))
def test_a_documented_option_is_accepted_by_a_function(option: str) -> None:
    functions = (
        *(Server, Server.tool, Server.resource, Server.completion),
        *(Client.call_tool, Client.open_call, Client.list_tools, Context.elicit, Context.sample),
    )
    parameters = {name for function in functions for name in inspect.signature(function).parameters}

    assert option in parameters | set(trio_mcp.ClientOptions.__annotations__)


def calls() -> list[tuple[str, str]]:
    """Return the calls of this package in the middle column, each with one of its options."""
    codes = [code for cell in OURS for code in re.findall(r"`(\w+\([^`]+\))`", cell)]
    trees = [node for code in codes for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    named = [(node.func.id, each.arg) for node in trees for each in node.keywords if isinstance(node.func, ast.Name)]
    return sorted({(name, option) for name, option in named if option is not None})


@pytest.mark.parametrize(("name", "option"), calls())
def test_a_documented_call_accepts_its_options(name: str, option: str) -> None:
    called = getattr(trio_mcp, name)

    assert option in {*inspect.signature(called).parameters, *OPTIONS_OF.get(name, ())}


def test_the_program_of_the_page_runs(tmp_path: Path) -> None:
    found = re.search(r'^```python title="migrated.py"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    (tmp_path / "migrated.py").write_text(found[1], encoding="utf-8")
    program = [sys.executable, "-W", "error", "migrated.py"]

    done = subprocess.run(program, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, check=False)

    assert (done.returncode, done.stderr) == (0, b"")
