"""Where the peers live: the `peers` session of nox makes a home for each and names the folder in the environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

HOMES = "TRIO_MCP_PEERS"


@pytest.fixture(scope="session")
def homes() -> Path:
    """The folder with one home for each peer."""
    if HOMES not in os.environ:
        pytest.fail(f"{HOMES} is not set: run these tests with `nox -s peers`, which installs the peers")
    return Path(os.environ[HOMES]).absolute()


@pytest.fixture(scope="session")
def everything_server(homes: Path) -> list[str]:
    """The command of the reference server that has something of everything, up to revision 2025-11-25."""
    package = homes / "everything" / "node_modules" / "@modelcontextprotocol" / "server-everything"
    return ["node", str(package / "dist" / "index.js")]


@pytest.fixture
def sqlite_server(homes: Path, tmp_path: Path) -> list[str]:
    """The command of the reference SQLite server, made with the first major version of the official SDK."""
    return [str(homes / "sqlite" / "bin" / "mcp-server-sqlite"), "--db-path", str(tmp_path / "reference.db")]


@pytest.fixture(scope="session")
def official_python(homes: Path) -> str:
    """The interpreter whose environment has the second major version of the official SDK."""
    return str(homes / "official" / "bin" / "python")
