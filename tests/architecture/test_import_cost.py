"""Tests of what an import loads, each in a fresh process."""

from __future__ import annotations

import json
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

HEAVY = {"hypercorn", "httpx2", "h11", "cryptography", "joserfc", "jsonschema_rs", "opentelemetry", "rich"}


def modules_after(program: str, *arguments: str) -> set[str]:
    """The names in `sys.modules` of a fresh process that has run the program."""
    report = "\nimport sys\nnames = sorted(sys.modules)\nimport json\nprint(json.dumps(names))\n"
    child = subprocess.run(
        [sys.executable, "-c", program + report, *arguments], check=True, capture_output=True, encoding="utf-8"
    )
    return set(json.loads(child.stdout))


def loaded_after(program: str, *arguments: str) -> set[str]:
    """The top-level packages among them."""
    return {name.split(".")[0] for name in modules_after(program, *arguments)}


def among(names: set[str], *wanted: str) -> list[str]:
    """Those of the modules of this package that match one of the patterns."""
    own = (name.removeprefix("trio_mcp.") for name in names if name.startswith("trio_mcp."))
    return sorted(name for name in own if any(fnmatchcase(name, pattern) for pattern in wanted))


def test_importing_a_client_loads_no_way_to_travel_and_no_message() -> None:
    loaded = modules_after("from trio_mcp import open_client")

    assert among(loaded, "transports._*", "types._generated*", "server*") == []
    assert among(loaded, "auth*", "client._many*", "client._server_*", "wire._http_rules", "wire._sse") == []
    assert "cattrs" not in loaded


def test_importing_a_server_loads_no_client_and_nothing_of_http() -> None:
    loaded = modules_after("from trio_mcp import Server, serve_stdio")

    assert among(loaded, "client*", "auth._*", "transports._http*", "transports._hypercorn*", "wire._sse") == []


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = loaded_after("import trio_mcp")

    assert loaded & HEAVY == set()


def test_the_types_by_themselves_load_no_trio_and_nothing_heavy() -> None:
    loaded = loaded_after(
        "from trio_mcp import types\ntypes.structure({'name': 'x', 'inputSchema': {'type': 'object'}}, types.Tool)"
    )

    assert "trio" not in loaded
    assert loaded & HEAVY == set()


SERVER = """
import trio
from trio_mcp import Server, serve_stdio

server = Server("tiny")


@server.tool
async def add(a: int, b: int):
    return str(a + b)


trio.run(serve_stdio, server)
"""

CLIENT = """
import sys
import trio
from trio_mcp import open_client


async def main():
    async with open_client([sys.executable, sys.argv[1]]) as client:
        assert [tool.name async for tool in client.tools()] == ["add"]


trio.run(main)
"""


def test_the_grammar_by_itself_loads_no_trio() -> None:
    assert "trio" not in loaded_after("import trio_mcp.wire")


def test_opening_a_stdio_client_loads_nothing_heavy_and_nothing_of_http(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER, encoding="utf-8")

    loaded = modules_after(CLIENT, str(tmp_path / "server.py"))

    assert {name.split(".")[0] for name in loaded} & HEAVY == set()
    assert among(loaded, "transports._http*", "auth*", "wire._http_rules", "wire._sse", "types._generated.others") == []
