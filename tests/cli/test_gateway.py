"""`trio-mcp gateway`: many servers behind one, stdio made HTTP and back, and what it says on standard error."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.command import environment, run

SERVER = """
from trio_mcp import Server

server = Server("{name}")


@server.tool
async def hello() -> str:
    return "hello from {name}"
"""
GATEWAY = [sys.executable, "-m", "trio_mcp", "gateway"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two programs, and a file of servers that names them."""
    serve = ["-m", "trio_mcp", "serve"]
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(SERVER.format(name=name))
    entries = {
        name: {"command": sys.executable, "args": [*serve, f"{name}.py"], "cwd": str(tmp_path)}
        for name in ("one", "two")
    }
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
    return tmp_path


@contextmanager
def serving(*arguments: str, cwd: Path) -> Generator[str]:
    """Run a gateway over HTTP; yield its URL."""
    command = [*GATEWAY, *arguments, "--http", "0"]
    with subprocess.Popen(command, cwd=cwd, stderr=subprocess.PIPE, text=True, env=environment()) as process:
        try:
            assert process.stderr is not None
            line = next(line for line in process.stderr if line.startswith("serving "))
            yield line.split()[-1]
        finally:
            process.terminate()


def lines(*arguments: str, cwd: Path) -> list[str]:
    done = run(*arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().splitlines()


def test_the_servers_of_a_file_are_one(folder: Path) -> None:
    listed = lines("tools", "--", *GATEWAY, "--config", "mcp.json", cwd=folder)
    assert [line.split()[0] for line in listed] == ["one__hello", "two__hello"]
    called = lines("call", "two__hello", "--", *GATEWAY, "--config", "mcp.json", cwd=folder)
    assert called == ["hello from two"]


def test_one_server_of_a_file_keeps_its_names_unless_a_prefix_is_wanted(folder: Path) -> None:
    assert lines("call", "hello", "--", *GATEWAY, "--config", "mcp.json", "one", cwd=folder) == ["hello from one"]
    prefixed = lines("tools", "--", *GATEWAY, "--config", "mcp.json", "one", "--prefix", cwd=folder)
    assert prefixed[0].split()[0] == "one__hello"


def test_stdio_is_made_http_and_http_is_made_stdio(folder: Path) -> None:
    with serving("one.py", "--trace", "trace.txt", "--prefix", cwd=folder) as url:
        assert lines("call", "one__hello", "--", url, cwd=folder) == ["hello from one"]
        header = ["--header", "X-Tenant: a"]
        for options in ([], header):
            command = ["call", "one__hello", "--", *GATEWAY, *options, "--", url]
            assert lines(*command, cwd=folder) == ["hello from one"]
    trace = (folder / "trace.txt").read_text()
    assert "one --> " in trace
    assert "one <-- " in trace


def test_many_tools_are_found_by_search(folder: Path) -> None:
    listed = lines("tools", "--", *GATEWAY, "one.py", "--search", "1", "--only", "h*", "--without", "x", cwd=folder)
    assert [line.split()[0] for line in listed] == ["find_tools", "use_tool"]


def test_each_event_has_a_line(folder: Path) -> None:
    done = run("gateway", "--config", "mcp.json", "--login", cwd=folder)
    text = done.stderr.decode()
    assert done.returncode == 0
    assert "serving gateway with 2 servers over standard input and output" in text


def test_a_url_may_need_a_sign_in_that_is_not_asked_for_before_it_is_used(folder: Path) -> None:
    done = run("gateway", "--login", "--log-level", "error", "--prefix", "--", "http://127.0.0.1:9/mcp", cwd=folder)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config", "missing.json"], "cannot read missing.json: No such file or directory"),
        (["--config", "one.py"], "one.py: not JSON"),
        (["--config", "mcp.json", "three"], "mcp.json has no server 'three'; it has one, two"),
        (["--config", "mcp.json", "--header", "A: b"], "--header needs a URL after --; for a config file"),
        (["--header", "A: b", "one.py"], "--header needs a URL after --"),
        (["--config", "bad.json"], "bad.json: server 'x'"),
        (["--host", "::1", "one.py"], "--host can only be used with --http PORT"),
        (["--search", "0", "one.py"], "expected a number from 1 to"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(arguments: list[str], message: str, folder: Path) -> None:
    (folder / "bad.json").write_text('{"mcpServers": {"x": {"args": []}}}')
    done = run("gateway", *arguments, cwd=folder)
    assert done.returncode == 2
    assert message in done.stderr.decode()
