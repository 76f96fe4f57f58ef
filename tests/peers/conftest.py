"""Fixtures for the peers: the `peers` session of nox installs each and names their folder in the environment."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any, Protocol

import pytest

from tests.peers.everything_tools import MARK
from trio_mcp import Client, Clients, types

HOMES = "TRIO_MCP_PEERS"
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXAMPLES = ROOT / "examples"
TIMEOUT = 60  # seconds for a whole conversation
MODES = {"legacy": "2025-11-25", "auto": "2026-07-28"}
"""The modes of the official client, with the newest revision of each."""


async def text_of(client: Client | Clients, tool: str, **arguments: Any) -> str:
    """Call a tool and return the one text that it answers with."""
    (content,) = (await client.call_tool(tool, arguments, raise_on_error=True)).content
    assert isinstance(content, types.TextContent)
    return content.text


@pytest.fixture(scope="session")
def homes() -> Path:
    """The folder with one home for each peer."""
    if HOMES not in os.environ:
        pytest.fail(f"{HOMES} is not set: run these tests with `nox -s peers`, which installs the peers")
    return Path(os.environ[HOMES]).absolute()


@pytest.fixture(scope="session")
def everything_server(homes: Path) -> list[str]:
    """The command of the reference server with every feature, up to revision 2025-11-25."""
    package = homes / "everything" / "node_modules" / "@modelcontextprotocol" / "server-everything"
    return ["node", str(package / "dist" / "index.js")]


@pytest.fixture(scope="session", params=["stdio", "streamableHttp", "sse"])
def everything(request: pytest.FixtureRequest, everything_server: list[str]) -> Generator[str | list[str]]:
    """The reference server over each of its transports: its command, or the URL of a running one."""
    if request.param == "stdio":
        yield everything_server
        return
    port = free_port()
    with running([*everything_server, request.param], stderr=subprocess.STDOUT, PORT=str(port), MARK=MARK) as process:
        assert process.stdout
        while f"port {port}" not in process.stdout.readline():
            assert process.poll() is None, "it ended before it served"
        with draining(process):
            yield f"http://127.0.0.1:{port}/{'sse' if request.param == 'sse' else 'mcp'}"


@pytest.fixture
def sqlite_server(homes: Path, tmp_path: Path) -> list[str]:
    """The command of the reference SQLite server, made with the first major version of the official SDK."""
    return [str(homes / "sqlite" / "bin" / "mcp-server-sqlite"), "--db-path", str(tmp_path / "reference.db")]


@pytest.fixture(scope="session")
def official_python(homes: Path) -> str:
    """The interpreter whose environment has the second major version of the official SDK."""
    return str(homes / "official" / "bin" / "python")


@contextmanager
def running(command: Sequence[str], *, stderr: int | None = None, **env: str) -> Generator[subprocess.Popen[str]]:
    """Run a program in the folder of the project until the block ends."""
    environment = {**os.environ, **env}
    with subprocess.Popen(
        command, stdin=PIPE, stdout=PIPE, stderr=stderr, encoding="utf-8", cwd=ROOT, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


@contextmanager
def draining(process: subprocess.Popen[str]) -> Generator[None]:
    """Read the output of a program until it exits, so that a full pipe does not block it; show it if a test fails."""
    assert process.stdout
    thread = threading.Thread(target=sys.stderr.writelines, args=[process.stdout], daemon=True)
    thread.start()
    try:
        yield
    finally:
        process.terminate()
        thread.join()


def free_port() -> int:
    """Return a free port for a program that cannot choose one itself."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


class Perform(Protocol):
    """A function that lets the official client play `steps` on a new connection and returns its report.

    `auth` is the authentication of the client: {} for a user who signs in, or the credentials of the client itself.
    """

    def __call__(
        self, *, mode: str, server: str | Sequence[str], steps: Sequence[Any], auth: Mapping[str, str] | None = None
    ) -> dict[str, Any]: ...


@pytest.fixture(scope="session")
def official_player(official_python: str) -> Generator[Perform]:
    """The official client, in one process for the plans of all tests."""
    with running([official_python, str(HERE / "official_client.py")]) as process:
        assert process.stdin
        assert process.stdout
        orders, reports = process.stdin, process.stdout

        def perform(
            *, mode: str, server: str | Sequence[str], steps: Sequence[Any], auth: Mapping[str, str] | None = None
        ) -> dict[str, Any]:
            orders.write(json.dumps({"mode": mode, "server": server, "steps": steps, "auth": auth}) + "\n")
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
    """The URLs of our servers by name."""
    folder = str(tmp_path_factory.mktemp("databases"))
    with serving([sys.executable, "-W", "error", "-m", "tests.peers.our_http_servers", folder]) as urls:
        yield urls


@pytest.fixture(scope="session")
def official_urls(official_python: str) -> Generator[Mapping[str, str]]:
    """The URLs of the servers made with the official SDK, by name."""
    with serving([official_python, str(HERE / "official_http_servers.py")]) as urls:
        yield urls


class Protect(Protocol):
    """A function that starts another protected server made with the official SDK and returns its URL.

    `official_protected_servers.py` documents its arguments.
    """

    def __call__(self, **order: Any) -> str: ...


@pytest.fixture(scope="session")
def official_protection(official_python: str) -> Generator[Protect]:
    """A starter of protected servers made with the official SDK, all in one process."""
    with running([official_python, str(HERE / "official_protected_servers.py")]) as process:
        assert process.stdin
        assert process.stdout
        orders, urls = process.stdin, process.stdout

        def protect(**order: Any) -> str:
            orders.write(json.dumps(order) + "\n")
            orders.flush()
            url: str = json.loads(urls.readline())
            return url

        yield protect


@pytest.fixture(scope="session")
def inspector(homes: Path) -> list[str]:
    """The command of the official Inspector without its pages, with the Node it needs."""
    modules = homes / "inspector" / "node_modules"
    return [str(modules / "node" / "bin" / "node"), str(modules / ".bin" / "mcp-inspector"), "--cli"]
