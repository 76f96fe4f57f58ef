"""Where the peers live: the `peers` session of nox makes a home for each and names the folder in the environment."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest

HOMES = "TRIO_MCP_PEERS"
HERE = Path(__file__).parent
ROOT = HERE.parents[1]


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


@contextmanager
def running(command: Sequence[str], **env: str) -> Generator[subprocess.Popen[str]]:
    """Run a program, and end it with the block: its standard input first, then the program."""
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if env else None,
        encoding="utf-8",
        cwd=ROOT,
        env={**os.environ, **env},
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


class Perform(Protocol):
    """Has the official client play `steps` on a connection of its own; what it tells of that."""

    def __call__(self, *, mode: str, server: str | Sequence[str], steps: Sequence[Any]) -> dict[str, Any]: ...


@pytest.fixture(scope="session")
def official_player(official_python: str) -> Generator[Perform]:
    """The official client, in one process for the plans of all tests."""
    with running([official_python, str(HERE / "official_client.py")]) as process:
        assert process.stdin
        assert process.stdout
        orders, reports = process.stdin, process.stdout

        def perform(*, mode: str, server: str | Sequence[str], steps: Sequence[Any]) -> dict[str, Any]:
            orders.write(json.dumps({"mode": mode, "server": server, "steps": steps}) + "\n")
            orders.flush()
            report: dict[str, Any] = json.loads(reports.readline())
            assert "fault" not in report, report["fault"]
            return report

        yield perform


@contextmanager
def serving(command: Sequence[str]) -> Generator[Mapping[str, str]]:
    """Run a program that prints the URLs of its servers, by name."""
    with running(command) as process:
        assert process.stdout
        yield json.loads(process.stdout.readline())


@pytest.fixture(scope="session")
def our_urls(tmp_path_factory: pytest.TempPathFactory) -> Generator[Mapping[str, str]]:
    """Where our servers are."""
    folder = str(tmp_path_factory.mktemp("databases"))
    with serving([sys.executable, "-W", "error", "-m", "tests.peers.our_http_servers", folder]) as urls:
        yield urls


@pytest.fixture(scope="session")
def official_urls(official_python: str) -> Generator[Mapping[str, str]]:
    """Where the servers are that are made with the official SDK."""
    with serving([official_python, str(HERE / "official_http_servers.py")]) as urls:
        yield urls
