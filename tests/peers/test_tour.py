"""The tour (see `tour.py`) with other SDKs, in both directions: FastMCP, the first major version of the official Python
SDK, both of the TypeScript SDK, and supergateway, which puts a program behind HTTP.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias
from urllib.request import urlopen

import pytest

from tests.peers.conftest import HERE, ROOT, TIMEOUT, draining, free_port, running
from tests.peers.tour import SEEN, answer_with_name, tour
from trio_mcp import Bearer, open_client, open_http_client

MODERN, LEGACY = "2026-07-28", "2025-11-25"
TOKEN = "sesame"
STDIO_SERVER = [sys.executable, "-W", "error", str(HERE / "tour_server.py")]
"""Our server."""

Command: TypeAlias = "Callable[[str], list[str]]"
"""A function that returns the beginning of the command that runs a program of the tour."""


@pytest.fixture(scope="session")
def command(homes: Path) -> Command:
    """Programs in Python run where their SDK is. Programs for Node are copied there, where they find it."""
    pythons = {"fastmcp": "fastmcp", "official_1": "sqlite"}
    nodes = {"1": "typescript-1", "2": "typescript-2"}

    def start_of(program: str) -> list[str]:
        name, _, suffix = program.rpartition(".")
        if suffix == "py":
            home = pythons[name.removesuffix("_server").removesuffix("_client")]
            return [str(homes / home / "bin" / "python"), str(HERE / "python" / program)]
        home = nodes[name[-1]]
        for each in (program, "tour.mjs"):
            shutil.copy(HERE / "node" / each, homes / home)
        return ["node", str(homes / home / program)]

    return start_of


@contextmanager
def served(line: Sequence[str]) -> Generator[str]:
    """Run a server over HTTP that prints its URL."""
    with running(line) as process:
        assert process.stdout
        url = process.stdout.readline().strip()
        with draining(process):
            yield url


def seen_by(line: Sequence[str]) -> dict[str, Any]:
    """Return what a client sees on the tour, except for progress."""
    done = subprocess.run(line, capture_output=True, encoding="utf-8", timeout=TIMEOUT, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def without(seen: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: each for name, each in seen.items() if name not in names}


# --- Clients of others with our server ---

CLIENTS = [
    pytest.param("fastmcp_client.py", "auto", id="fastmcp, modern"),
    pytest.param("fastmcp_client.py", "legacy", id="fastmcp, legacy"),
    pytest.param("official_1_client.py", None, id="official 1.x"),
    pytest.param("client_1.mjs", None, id="typescript 1.x"),
    pytest.param("client_2.mjs", MODERN, id="typescript 2.x, modern"),
    pytest.param("client_2.mjs", "legacy", id="typescript 2.x, legacy"),
]
TARGETS = ["stdio", "tour", "tour-resumable", "tour-protected", "tour-nodes"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("program", "mode"), CLIENTS)
def test_a_client_of_another_sdk_goes_on_the_tour_with_our_server(
    command: Command, our_urls: Mapping[str, str], program: str, mode: str | None, target: str
) -> None:
    where = json.dumps(STDIO_SERVER) if target == "stdio" else our_urls[target]
    token = [our_urls["token"]] if target == "tour-protected" else []

    seen = seen_by([*command(program), where, *([] if mode is None else [mode]), *token])

    if program.endswith(".mjs"):  # this SDK drops progress that it reads together with the response
        assert without(seen, "progress") == without(SEEN, "progress")
    else:
        assert seen == SEEN


# --- Our client with servers of others ---


@pytest.mark.parametrize(
    ("program", "revision"),
    [
        ("fastmcp_server.py", MODERN),
        ("fastmcp_server.py", LEGACY),
        ("official_1_server.py", LEGACY),
        ("server_1.mjs", LEGACY),
        ("server_2.mjs", MODERN),
        ("server_2.mjs", LEGACY),
    ],
)
async def test_our_client_goes_on_the_tour_with_a_server_of_another_sdk_over_stdio(
    command: Command, program: str, revision: str
) -> None:
    asks = (program, revision) != ("fastmcp_server.py", MODERN)  # its handlers cannot ask there
    detects = revision == MODERN or program in {"official_1_server.py", "server_1.mjs"}
    options: Any = {} if detects else {"revision": revision}
    async with open_client([*command(program), "stdio"], on_elicit=answer_with_name, **options) as client:
        assert client.revision == revision
        seen = await tour(client, asks=asks)

    assert seen == (SEEN if asks else without(SEEN, "asked"))


@pytest.mark.parametrize("program", ["official_1_server.py", "server_1.mjs"])
@pytest.mark.parametrize("mode", ["sessions", "stateless", "json"])
async def test_our_client_goes_on_the_tour_over_each_form_of_legacy_http(
    command: Command, program: str, mode: str
) -> None:
    has_session, has_progress = mode == "sessions", mode != "json"
    with served([*command(program), mode]) as url:
        async with open_client(url, on_elicit=answer_with_name) as client:
            seen = await tour(client, asks=has_session)

    lacking = [] if has_session else ["asked"]
    assert seen == without(SEEN, *lacking) | ({} if has_progress else {"progress": []})


async def test_our_client_comes_back_for_the_rest_of_a_stream_that_the_typescript_sdk_closes(command: Command) -> None:
    with served([*command("server_1.mjs"), "resumable"]) as url:
        async with open_client(url, on_elicit=answer_with_name) as client:
            seen = await tour(client)
        with urlopen(url.replace("/mcp", "/replays")) as response:  # noqa: ASYNC210 # nothing else runs here
            replays = int(response.read())

    assert seen == SEEN
    assert replays == 1


@pytest.mark.parametrize("revision", [MODERN, LEGACY])
async def test_our_client_goes_on_the_tour_with_the_newest_typescript_sdk_over_http(
    command: Command, revision: str
) -> None:
    asks = revision == MODERN  # it serves older revisions without sessions
    with served([*command("server_2.mjs"), "http"]) as url:
        async with open_http_client(url, on_elicit=answer_with_name, revision=revision) as client:
            seen = await tour(client, asks=asks)

    assert seen == (SEEN if asks else without(SEEN, "asked"))


@pytest.mark.parametrize("revision", [MODERN, LEGACY])
async def test_our_client_goes_on_the_tour_with_a_protected_fastmcp_server(command: Command, revision: str) -> None:
    asks = revision == LEGACY  # its handlers cannot ask in the modern revision
    with served([*command("fastmcp_server.py"), "http", TOKEN]) as url:
        async with open_http_client(url, auth=Bearer(TOKEN), on_elicit=answer_with_name, revision=revision) as client:
            seen = await tour(client, asks=asks)

    assert seen == (SEEN if asks else without(SEEN, "asked"))


# --- Supergateway ---


@pytest.fixture
def gateway(homes: Path) -> list[str]:
    """The command of supergateway."""
    return ["node", str(homes / "supergateway" / "node_modules" / "supergateway" / "dist" / "index.js")]


@contextmanager
def behind(gateway: Sequence[str], *options: str) -> Generator[int]:
    """Put our server over standard input and output behind supergateway; yield the port."""
    port = free_port()
    program = ["--stdio", " ".join(map(shlex.quote, STDIO_SERVER)), "--port", str(port), *options]
    with running([*gateway, *program], stderr=subprocess.STDOUT) as process:
        assert process.stdout
        while "Listening on port" not in process.stdout.readline():
            assert process.poll() is None, "it ended before it served"
        with draining(process):
            yield port


async def test_one_process_of_our_server_serves_several_clients_through_supergateway(gateway: list[str]) -> None:
    with behind(gateway) as port:
        url = f"http://127.0.0.1:{port}/sse"
        async with open_client(url, on_elicit=answer_with_name) as first:
            seen = [await tour(first)]
        async with open_client(url, on_elicit=answer_with_name) as second:
            seen += [await tour(second)]

    assert seen == [SEEN, SEEN]


async def test_our_server_serves_sessions_through_supergateway(gateway: list[str]) -> None:
    with behind(gateway, "--outputTransport", "streamableHttp", "--stateful") as port:
        url = f"http://127.0.0.1:{port}/mcp"
        async with open_client(url, on_elicit=answer_with_name) as one, open_client(url) as other:
            seen = await tour(one)
            names = [tool.name async for tool in other.tools()]

    assert seen == SEEN
    assert sorted(names) == SEEN["tools"]


async def test_supergateway_reaches_our_server_over_http(gateway: list[str], our_urls: Mapping[str, str]) -> None:
    command = [*gateway, "--streamableHttp", our_urls["tour"], "--logLevel", "none"]
    async with open_client(command, on_elicit=answer_with_name, revision=LEGACY) as client:
        seen = await tour(client, asks=False)

    assert seen == without(SEEN, "asked") | {"progress": []}  # it passes on no notifications and no questions
