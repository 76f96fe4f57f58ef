"""First programs of other SDKs and their ports, each client with each server; and the names that the pages map."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.peers.conftest import HERE, ROOT, TIMEOUT

HOMES_OF = {"mcp 1": "sqlite", "mcp 2": "official", "fastmcp": "fastmcp"}
"""The folder in which each package is installed."""
CLIENTS = {"mcp 1": "ported_official_1_client", "mcp 2": "ported_official_2_client", "fastmcp": "ported_fastmcp_client"}
SERVERS = {"mcp 1": "ported_official_server", "mcp 2": "ported_official_server", "fastmcp": "ported_fastmcp_server"}
PRINTED = ["['add']", "{'result': 3}", "Hello, Ada!", "Write a friendly greeting for Ada."]


def client_of(package: str, homes: Path) -> list[str]:
    """Return the command of the first client with this package."""
    if package == "trio-mcp":
        return [sys.executable, str(HERE / "ported_client.py")]
    return [str(homes / HOMES_OF[package] / "bin" / "python"), str(HERE / "python" / f"{CLIENTS[package]}.py")]


def server_of(package: str, homes: Path) -> list[str]:
    """Return the command of the first server with this package."""
    if package == "trio-mcp":
        return [sys.executable, str(HERE / "ported_server.py")]
    return [str(homes / HOMES_OF[package] / "bin" / "python"), str(HERE / "python" / f"{SERVERS[package]}.py")]


@pytest.mark.parametrize(
    ("client", "server"),
    [
        *((package, package) for package in [*HOMES_OF, "trio-mcp"]),
        *((package, "trio-mcp") for package in HOMES_OF),
        *(("trio-mcp", package) for package in HOMES_OF),
    ],
)
def test_a_first_client_prints_the_same_with_each_server(client: str, server: str, homes: Path) -> None:
    command = [*client_of(client, homes), *server_of(server, homes)]

    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=TIMEOUT, check=False)

    assert (done.returncode, done.stdout.splitlines()) == (0, PRINTED), done.stderr


@pytest.mark.parametrize(
    ("package", "page", "column"),
    [
        ("mcp 1", "from-the-official-sdk.md", 0),
        ("mcp 2", "from-the-official-sdk.md", 1),
        ("fastmcp", "from-fastmcp.md", 0),
    ],
)
def test_the_names_that_a_page_maps_exist_in_the_package(package: str, page: str, column: int, homes: Path) -> None:
    python = str(homes / HOMES_OF[package] / "bin" / "python")
    check = [python, "-m", "tests.peers.python.names_of_tables", page, str(column), package]

    done = subprocess.run(check, capture_output=True, encoding="utf-8", cwd=ROOT, timeout=TIMEOUT, check=False)

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["missing"] == {}
    assert found["checked"] > 80
