"""`trio-mcp dev`: it serves a file anew after each change, keeps its port, and opens the MCP Inspector."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trio
from attrs import define, field

from tests.cli.command import environment, run
from tests.server.isolated_calls import is_gone, until, value_of
from trio_mcp import open_http_client

PROGRAM = """
import os
from trio_mcp import Server
{imports}
server = Server("served")


@server.tool
async def version() -> int:
    return {version}


@server.tool
async def pid() -> int:
    return os.getpid()
"""


def write(folder: Path, version: object, imports: str = "") -> None:
    """Write the program; its size changes with each version, because clocks of files may be coarse."""
    (folder / "server.py").write_text(PROGRAM.format(version=version, imports=imports) + "#" * len(str(version)))


@define(eq=False)
class Developing:
    """The running command."""

    process: trio.Process
    _output: trio.abc.ReceiveStream
    _unread: str = field(default="", init=False)
    _is_ending: bool = field(default=False, init=False)

    async def until(self, expected: str) -> str:
        """Wait until *expected* is printed; return what was printed since the last call."""
        while expected not in self._unread:
            chunk = await self._output.receive_some()
            assert chunk, self._unread
            self._unread += chunk.decode()
        before, _, self._unread = self._unread.partition(expected)
        return before + expected

    def end(self, number: signal.Signals = signal.SIGINT) -> None:
        """Send a signal, unless one was sent."""
        if not self._is_ending:
            self._is_ending = True
            with suppress(ProcessLookupError):
                self.process.send_signal(number)

    async def url(self) -> str:
        """Wait until the program is served, and return its URL."""
        await self.until("serving server.py at ")
        return (await self.until("\n")).strip()


@asynccontextmanager
async def developing(folder: Path, *options: str, path: str | None = None) -> AsyncGenerator[Developing]:
    """Run the command in a folder; end it with Ctrl+C."""
    env = environment() if path is None else {**environment(), "PATH": path}
    with trio.fail_after(60):
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", "trio_mcp", "dev", "server.py", "--port", "0", *options],
            cwd=folder,
            stderr=subprocess.PIPE,
            env=env,
        )
        assert process.stderr is not None
        command = Developing(process, process.stderr)
        try:
            yield command
        finally:
            command.end()
            with trio.CancelScope(shield=True), trio.move_on_after(30):
                await process.wait()
            await process.stderr.aclose()
            process.kill()


async def test_a_change_serves_the_program_anew_on_the_same_port_and_clients_go_on(tmp_path: Path) -> None:
    write(tmp_path, 1)
    async with developing(tmp_path, "--no-inspector") as command:
        url = await command.url()
        async with open_http_client(url) as modern, open_http_client(url, revision="2025-11-25") as legacy:
            first = [await value_of(client, "version") for client in (modern, legacy)]
            write(tmp_path, 22)
            assert "changed: server.py\n" in await command.until("changed: server.py\n")
            assert await command.url() == url
            second = [await value_of(client, "version") for client in (modern, legacy)]
    assert (first, second) == ([1, 1], [22, 22])
    assert command.process.returncode == 130


async def test_a_change_of_a_module_beside_the_file_counts_and_one_of_an_installed_module_does_not(
    tmp_path: Path,
) -> None:
    package, installed = tmp_path / "package", tmp_path / "venv"
    for folder in (package, installed, tmp_path / ".hidden"):
        folder.mkdir()
    (installed / "pyvenv.cfg").touch()
    (package / "__init__.py").write_text("value = 1\n")
    write(tmp_path, "value", "from package import value")
    async with developing(tmp_path, "--no-inspector") as command:
        url = await command.url()
        for ignored in (installed / "module.py", tmp_path / ".hidden" / "module.py", tmp_path / "notes.txt"):
            ignored.write_text("new = 1\n")
        (package / "__init__.py").write_text("value = 222\n")
        changed = await command.until("\n")
        await command.url()
        async with open_http_client(url) as client:
            assert await value_of(client, "version") == 222

    assert changed == f"changed: {Path('package', '__init__.py')}\n"


async def test_a_program_that_cannot_be_imported_is_shown_and_served_after_the_next_change(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text("raise ValueError('half a program')\n")
    async with developing(tmp_path, "--no-inspector") as command:
        shown = await command.until("it starts again when a file changes\n")
        write(tmp_path, 2)
        async with open_http_client(await command.url()) as client:
            assert await value_of(client, "version") == 2

    assert "ValueError: half a program" in shown
    assert "server.py has ended with status 2" in shown


async def test_a_program_that_ends_is_served_again_after_a_change_and_not_before(tmp_path: Path) -> None:
    write(tmp_path, 1)
    async with developing(tmp_path, "--no-inspector") as command, open_http_client(await command.url()) as client:
        os.kill(await value_of(client, "pid"), signal.SIGKILL)
        await command.until("server.py has ended with status -9; it starts again when a file changes\n")
        write(tmp_path, 22)
        await command.url()
        assert await value_of(client, "version") == 22


async def test_the_program_ends_with_the_command(tmp_path: Path) -> None:
    write(tmp_path, 1)
    async with developing(tmp_path, "--no-inspector") as command, open_http_client(await command.url()) as client:
        pid = await value_of(client, "pid")
        command.end(signal.SIGTERM)
        await until(lambda: is_gone(pid))

    assert command.process.returncode == 128 + signal.SIGTERM


async def test_the_program_can_be_inspected_by_the_id_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    write(tmp_path, 1)
    async with developing(tmp_path, "--no-inspector") as command:
        await command.url()
        done = await trio.to_thread.run_sync(run, "inspect", str(command.process.pid))

    assert done.stdout.startswith(b"served 0, process ")


# --- The MCP Inspector ---


def fake_npx(folder: Path, last: str) -> str:
    """Write an `npx` that notes its arguments; return the path of its folder."""
    programs = folder / "bin"
    programs.mkdir()
    npx = programs / "npx"
    npx.write_text(
        f"#!{sys.executable}\nimport json, pathlib, sys\n"
        f"pathlib.Path({str(folder / 'arguments.json')!r}).write_text(json.dumps(sys.argv[1:]))\n{last}\n"
    )
    npx.chmod(0o755)
    return str(programs)


async def test_the_inspector_is_opened_once_with_the_url_and_the_server_outlives_it(tmp_path: Path) -> None:
    served = tmp_path / "served"
    served.mkdir()
    write(served, 1)
    async with developing(served, path=fake_npx(tmp_path, "sys.exit(7)")) as command:
        url = await command.url()
        await command.until("the MCP Inspector has ended with status 7; the server goes on\n")
        (tmp_path / "bin" / "npx").unlink()  # it would fail to start again
        write(served, 22)
        await command.url()
        async with open_http_client(url) as client:
            assert await value_of(client, "version") == 22

    arguments = json.loads((tmp_path / "arguments.json").read_text())
    package, era = "@modelcontextprotocol/inspector@latest", ["--protocol-era", "auto"]
    assert arguments == ["--yes", package, "--transport", "http", "--server-url", url, *era]


async def test_the_inspector_ends_with_the_command(tmp_path: Path) -> None:
    served = tmp_path / "served"
    served.mkdir()
    write(served, 1)
    last = "import os, signal\nprint('inspecting', os.getpid(), file=sys.stderr, flush=True)\nsignal.pause()"
    async with developing(served, path=fake_npx(tmp_path, last)) as command:
        await command.until("inspecting ")
        pid = int(await command.until("\n"))
        command.end()
        await until(lambda: is_gone(pid))


def test_without_npx_the_command_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 1)
    monkeypatch.setenv("PATH", str(tmp_path))

    done = run("dev", "server.py", cwd=tmp_path)

    assert (done.returncode, done.stderr.decode()) == (
        2,
        "trio-mcp dev: the MCP Inspector needs npx, which is not installed: install Node.js, or use --no-inspector\n",
    )


@pytest.mark.parametrize("where", ["nothing.py", "nothing.py:server", "module", "folder.py"])
def test_what_is_not_a_python_file_is_refused(where: str, tmp_path: Path) -> None:
    (tmp_path / "folder.py").mkdir()

    done = run("dev", where, "--no-inspector", cwd=tmp_path)

    assert (done.returncode, done.stderr.decode()) == (
        2,
        f"trio-mcp dev: {where.removesuffix(':server')}: no such Python file\n",
    )
