"""Tests of the modules that an import loads, each in a new process."""

from __future__ import annotations

import json
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

HEAVY = {
    *("hypercorn", "httpx2", "httptools", "h11", "cryptography", "joserfc", "jsonschema_rs", "opentelemetry", "rich"),
    "yaml",
}


def modules_after(program: str, *arguments: str) -> set[str]:
    """Run a program in a new process; return the names in its `sys.modules`."""
    report = "\nimport sys\nnames = sorted(sys.modules)\nimport json\nprint(json.dumps(names))\n"
    child = subprocess.run(
        [sys.executable, "-c", program + report, *arguments], check=True, capture_output=True, encoding="utf-8"
    )
    return set(json.loads(child.stdout))


def packages_after(program: str, *arguments: str) -> set[str]:
    """Run a program in a new process; return the top-level packages that it has imported."""
    return {name.split(".")[0] for name in modules_after(program, *arguments)}


def matching(names: set[str], *patterns: str) -> list[str]:
    """Return the modules of this package, without its name, that match one of the patterns."""
    modules = (name.removeprefix("trio_mcp.") for name in names if name.startswith("trio_mcp."))
    return sorted(name for name in modules if any(fnmatchcase(name, pattern) for pattern in patterns))


def test_importing_a_client_loads_no_transport_and_no_message_types() -> None:
    loaded = modules_after("from trio_mcp import open_client")

    assert matching(loaded, "transports.*", "types._generated*", "server*") == []
    assert matching(loaded, "auth*", "client._many", "client._mcp_json", "wire._http_rules", "wire._sse") == []
    assert "cattrs" not in loaded


def test_importing_a_server_loads_no_client_and_no_http_modules() -> None:
    loaded = modules_after("from trio_mcp import Server, serve_stdio")

    assert matching(loaded, "client*", "auth*", "transports.http*", "wire._sse") == []


def test_importing_the_package_loads_no_heavy_packages() -> None:
    loaded = packages_after("import trio_mcp")

    assert loaded & HEAVY == set()


HTTP_CLIENT = """
import trio
from trio_mcp import ConnectionBroken, open_http_client


async def main():
    try:
        async with open_http_client("http://127.0.0.1:1/mcp"):
            raise AssertionError
    except ConnectionBroken:
        pass


trio.run(main)
"""


def test_a_client_over_http_loads_no_general_http_library() -> None:
    assert packages_after(HTTP_CLIENT) & HEAVY == {"httptools"}


def test_using_only_the_types_loads_neither_trio_nor_heavy_packages() -> None:
    loaded = packages_after(
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


def test_importing_the_wire_folder_does_not_load_trio() -> None:
    assert "trio" not in packages_after("import trio_mcp.wire")


def test_opening_a_stdio_client_loads_no_heavy_packages_and_no_http_modules(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER, encoding="utf-8")

    loaded = modules_after(CLIENT, str(tmp_path / "server.py"))

    assert {name.split(".")[0] for name in loaded} & HEAVY == set()
    assert matching(loaded, "client._returns", "schema._annotations", "schema._conversion", "schema._docstrings") == []
    assert (
        matching(loaded, "transports.http*", "auth*", "wire._http_rules", "wire._sse", "types._generated.others") == []
    )
    assert matching(loaded, "types._generated.messages", "types._messages") == []


SERVED_ONCE = SERVER.replace("trio.run(serve_stdio, server)", "trio.run(server_once)").replace(
    "server = Server",
    "async def server_once():\n    async with server.serving():\n        pass\n\n\nserver = Server",
)
CAPABILITIES = ("apps*", "asyncio*", "gateway*", "openapi*", "skills*", "sync*", "tasks*")


def test_serving_loads_nothing_for_looking_inside() -> None:
    assert matching(modules_after(SERVED_ONCE), "server._snapshot", "server._inspection") == []


def test_programs_that_use_no_capability_load_none(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER, encoding="utf-8")
    llm = CLIENT.replace("import trio\n", "import trio\nfrom trio_mcp.llm import load_toolkit\n").replace(
        "        assert", "        await load_toolkit(client)\n        assert"
    )

    assert matching(modules_after(llm, str(tmp_path / "server.py")), *CAPABILITIES) == []
    assert matching(modules_after(SERVED_ONCE), *CAPABILITIES) == []


def test_a_server_with_apps_loads_neither_bridge_nor_client() -> None:
    program = SERVED_ONCE.replace("@server.tool", '@server.tool(app="ui://page")').replace(
        "trio.run", 'server.app("ui://page")(lambda: "<!doctype html>")\ntrio.run'
    )

    assert matching(modules_after(program), "apps*", "client*") == ["apps", "apps._csp", "apps._metadata"]


def test_types_and_servers_load_no_types_of_extensions() -> None:
    loaded = modules_after("from trio_mcp import Server, types\ntypes.Tool, Server('s')")

    assert matching(loaded, *CAPABILITIES) == []


LISTING = """
import trio
from trio_mcp import Server, open_client
from trio_mcp.llm import load_toolkit


async def main():
    async with open_client(Server("s")) as client:
        await load_toolkit(client)


trio.run(main)
"""


def test_programs_without_skills_load_neither_them_nor_yaml() -> None:
    loaded = modules_after(LISTING)

    assert matching(loaded, "skills*") == []
    assert "yaml" not in loaded


def test_a_client_that_looks_for_skills_loads_nothing_for_serving_them() -> None:
    program = LISTING.replace("await load_toolkit(client)", "[each async for each in client.skills()]")
    loaded = modules_after(program)

    assert matching(loaded, "skills._*") == ["skills._client", "skills._folder", "skills._frontmatter"]
