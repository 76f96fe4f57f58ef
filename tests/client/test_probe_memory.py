"""What clients remember of the servers that know only the handshake, and the choice of the probe."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.client.http_origin import LEGACY, MODERN, HttpOrigin, Page, served
from trio_mcp import ErrorResponse, Server, ServerExited, open_client, open_http_client, open_stdio_client
from trio_mcp.testing import AsgiEngine

DISCOVER, INITIALIZE = "server/discover", "initialize"
HANDSHAKE = [INITIALIZE, "notifications/initialized"]
DAY = 24 * 3600

CHILD = """
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
how = json.loads((folder / "how").read_text())
for line in sys.stdin:
    message = json.loads(line)
    method = message["method"]
    with (folder / "log").open("a") as log:
        log.write(method + "\\n")
    if method in how.get("exits", []):
        sys.exit(3)
    if "id" not in message:
        continue
    answer = {"error": {"code": -32601, "message": "unknown"}}
    if method == "initialize" and "initialize" in how:
        named = {"name": "child", "version": how.get("version", "1")}
        answer = {"result": {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": named}}
    if method == "server/discover" and "discover" in how:
        answer = {"result": {"supportedVersions": ["2026-07-28"], "capabilities": {}, "resultType": "complete"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""


class Child:
    """A server that is a child process, which a test can upgrade."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.command = [sys.executable, "-c", CHILD, str(folder)]

    def behave(self, **how: Any) -> None:
        (self.folder / "how").write_text(json.dumps(how))

    async def methods(self, **options: Any) -> list[str]:
        """Connect and disconnect; return the methods of the messages that the server has received."""
        (self.folder / "log").write_text("")
        with trio.fail_after(60):
            async with open_stdio_client(self.command, **options) as client:
                self.revision = client.revision
        return (self.folder / "log").read_text().split()


@pytest.fixture
def child(tmp_path: Path) -> Child:
    child = Child(tmp_path)
    child.behave(initialize=True)
    return child


class MemoryFile:
    """The file of the memory in a cache folder."""

    def __init__(self, cache: str | Path) -> None:
        self.path = Path(cache, "trio-mcp", "servers.json")

    @property
    def exists(self) -> bool:
        return self.path.exists()

    @property
    def text(self) -> str:
        return self.path.read_text()

    @property
    def neighbours(self) -> list[str]:
        """The names of all files of its folder."""
        return [path.name for path in self.path.parent.iterdir()]

    @property
    def servers(self) -> dict[str, list[Any]]:
        servers: dict[str, list[Any]] = json.loads(self.text)["handshakeOnly"]
        return servers

    def replace(self, content: bytes) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_bytes(content)

    def replace_servers(self, servers: dict[str, list[Any]]) -> None:
        self.replace(json.dumps({"handshakeOnly": servers}).encode())


def folder_in(parent: Path) -> Path:
    """Make a folder."""
    folder = parent / "another"
    folder.mkdir()
    return folder


@pytest.fixture
def file() -> MemoryFile:
    return MemoryFile(os.environ["XDG_CACHE_HOME"])


async def test_a_server_that_knows_only_the_handshake_is_probed_once(child: Child, file: MemoryFile) -> None:
    assert await child.methods() == [DISCOVER, *HANDSHAKE]
    assert await child.methods() == HANDSHAKE
    assert await child.methods(probe="remember") == HANDSHAKE

    ((until, info),) = file.servers.values()
    assert info == "child 1"
    assert 0 < until - time.time() <= DAY
    assert str(child.folder) not in file.text
    assert file.neighbours == ["servers.json"]


@pytest.mark.parametrize("options", [{"probe": "always"}, {"probe": "never"}, {"revision": "2025-06-18"}])
async def test_other_choices_remember_nothing(options: Any, child: Child, file: MemoryFile) -> None:
    probe = [DISCOVER] if options.get("probe") == "always" else []
    for _ in range(2):
        assert await child.methods(**options) == [*probe, *HANDSHAKE]

    assert not file.exists


async def test_always_probes_a_server_that_is_remembered(child: Child) -> None:
    await child.methods()

    assert await child.methods(probe="always") == [DISCOVER, *HANDSHAKE]


async def test_nothing_is_remembered_of_a_modern_server(child: Child, file: MemoryFile) -> None:
    child.behave(discover=True)

    assert await child.methods() == [DISCOVER]
    assert not file.exists


async def test_an_upgraded_server_is_probed_at_the_second_start(child: Child) -> None:
    await child.methods()
    child.behave(initialize=True, discover=True, version="2")

    assert await child.methods() == HANDSHAKE
    assert await child.methods() == [DISCOVER]
    assert child.revision == MODERN


@pytest.mark.parametrize("how", [{}, {"exits": [INITIALIZE]}])
async def test_a_remembered_server_that_refuses_the_handshake_is_probed_at_once(
    how: dict[str, Any], child: Child, file: MemoryFile
) -> None:
    await child.methods()
    child.behave(discover=True, **how)

    assert await child.methods() == [INITIALIZE, DISCOVER]
    assert child.revision == MODERN
    assert file.servers == {}


async def test_a_remembered_server_that_has_stopped_to_work_raises_its_failure(child: Child, file: MemoryFile) -> None:
    await child.methods()
    child.behave(exits=[INITIALIZE, DISCOVER])

    with pytest.raises(ServerExited):
        await child.methods()
    assert file.servers == {}


async def test_a_server_that_exits_on_the_probe_is_not_probed_again(child: Child) -> None:
    child.behave(initialize=True, exits=[DISCOVER])

    assert await child.methods() == [DISCOVER, *HANDSHAKE]
    assert await child.methods() == HANDSHAKE


async def test_never_is_corrected_by_a_server_that_names_newer_revisions() -> None:
    server = Server("modern", revisions=[MODERN])
    async with open_client(server, probe="never") as client:
        assert client.revision == MODERN


async def test_a_pinned_modern_revision_is_probed_whatever_the_choice() -> None:
    async with open_client(Server("s"), probe="never", revision=MODERN) as client:
        assert client.revision == MODERN


async def test_a_refused_handshake_without_a_probe_is_raised(child: Child) -> None:
    child.behave()
    with pytest.raises(ErrorResponse):
        await child.methods(probe="never")


async def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(ValueError, match="probe='sometimes': expected one of 'always', 'never', 'remember'"):
        async with open_client(Server("s"), probe="sometimes"):  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
            pass


async def test_a_command_is_another_server_in_another_folder(child: Child, tmp_path: Path, file: MemoryFile) -> None:
    await child.methods()
    other = folder_in(tmp_path)

    assert await child.methods(cwd=other) == [DISCOVER, *HANDSHAKE]
    assert await child.methods(cwd=str(other)) == HANDSHAKE
    assert len(file.servers) == 2


async def test_a_url_is_remembered(file: MemoryFile) -> None:
    origin = HttpOrigin(LEGACY)
    async with served(origin) as url:
        for _ in range(2):
            async with open_http_client(url) as client:
                assert client.revision == LEGACY

    assert origin.methods() == [DISCOVER, *HANDSHAKE, *HANDSHAKE]
    assert url not in file.text


async def test_an_application_in_this_process_is_not_remembered(file: MemoryFile) -> None:
    async with open_http_client("http://server.example/mcp", engine=AsgiEngine(HttpOrigin(LEGACY))):
        pass

    assert not file.exists


@pytest.mark.parametrize("status", [429, 500])
async def test_a_failing_server_is_not_remembered(status: int, file: MemoryFile) -> None:
    origin = HttpOrigin(LEGACY, {DISCOVER: lambda _: Page(status)})
    async with served(origin) as url, open_http_client(url) as client:
        assert client.revision == LEGACY

    assert not file.exists


# The file.

GARBAGE = [
    b"",
    b"\xff\x00",
    b"[]",
    b"{",
    b'{"handshakeOnly": []}',
    b'{"handshakeOnly": {"a": 1, "b": [], "c": [1, 2, 3], "d": ["x", "y"], "e": [true, "y"]}}',
]


@pytest.mark.parametrize("content", GARBAGE)
async def test_garbage_in_the_file_is_replaced(content: bytes, child: Child, file: MemoryFile) -> None:
    file.replace(content)

    assert await child.methods() == [DISCOVER, *HANDSHAKE]
    assert await child.methods() == HANDSHAKE
    assert len(file.servers) == 1


@pytest.mark.parametrize("seconds", [-1, 2 * DAY])
async def test_an_entry_that_has_expired_or_lies_too_far_ahead_is_ignored(
    seconds: float, child: Child, file: MemoryFile
) -> None:
    await child.methods()
    ((digest, (_, info)),) = file.servers.items()
    file.replace_servers({digest: [time.time() + seconds, info]})

    assert await child.methods() == [DISCOVER, *HANDSHAKE]


async def test_an_entry_whose_time_is_not_a_number_is_ignored(child: Child, file: MemoryFile) -> None:
    await child.methods()
    ((digest, _),) = file.servers.items()
    file.replace_servers({digest: ["soon", "child 1"]})

    assert await child.methods() == [DISCOVER, *HANDSHAKE]


async def test_the_file_keeps_a_limited_number_of_servers(child: Child, file: MemoryFile) -> None:
    now = time.time()
    file.replace_servers({str(number): [now + 100 + number, ""] for number in range(600)})

    await child.methods()

    assert len(file.servers) == 500
    assert "0" not in file.servers
    assert "599" in file.servers


def blocked_paths(tmp_path: Path) -> Iterator[str]:
    regular = tmp_path / "regular"
    regular.write_text("")
    yield str(regular)  # no folder
    pipe = tmp_path / "pipe" / "trio-mcp"
    pipe.mkdir(parents=True)
    os.mkfifo(pipe / "servers.json")
    yield str(tmp_path / "pipe")
    folder = tmp_path / "folder" / "trio-mcp" / "servers.json"
    folder.mkdir(parents=True)
    (folder / "x").write_text("")
    yield str(tmp_path / "folder")


@pytest.mark.parametrize("which", [0, 1, 2])
async def test_a_file_that_cannot_be_read_or_written_does_no_harm(
    which: int, child: Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", list(blocked_paths(tmp_path))[which])

    for _ in range(2):
        assert HANDSHAKE[0] in await child.methods()


async def test_a_user_without_a_home_does_no_harm(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Path:
        raise RuntimeError("no home")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", staticmethod(fail))

    for _ in range(2):
        assert await child.methods() == [DISCOVER, *HANDSHAKE]


async def test_by_default_the_file_is_in_the_cache_folder_of_the_home(
    child: Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setattr(Path, "home", staticmethod(lambda: tmp_path))

    await child.methods()

    assert len(MemoryFile(tmp_path / ".cache").servers) == 1


async def test_processes_that_write_at_the_same_time_leave_a_whole_file(child: Child, file: MemoryFile) -> None:
    commands = [[*child.command, str(number)] for number in range(8)]

    async def connect(command: list[str]) -> None:
        async with open_stdio_client(command):
            pass

    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            for command in commands:
                nursery.start_soon(connect, command)

    assert 1 <= len(file.servers) <= 8
    assert file.neighbours == ["servers.json"]


async def test_a_process_whose_folder_is_gone_can_connect(
    child: Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = folder_in(tmp_path)
    monkeypatch.chdir(lost)
    lost.rmdir()

    assert await child.methods() == [DISCOVER, *HANDSHAKE]
