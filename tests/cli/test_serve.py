"""`trio-mcp serve`: how the server is found, and the errors if it is not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import PROGRAMS, run

SERVER = """
from trio_mcp import Server

print("imported")
{name} = Server("served")


@{name}.tool
async def hello() -> str:
    return "hello"
"""
SERVE = [sys.executable, "-m", "trio_mcp", "serve"]


def served(where: str, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    return run("call", "hello", "--", *SERVE, where, cwd=cwd)


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("server", "program"),
        ("server", "program:server"),
        ("server", "folder/program.py"),
        ("server", "./program.py"),
        ("server", "folder/program.py:server"),
        ("other", "program"),
        ("other", "program:other"),
        ("server", "folder.program"),
    ],
)
def test_a_server_is_found_by_module_or_file(name: str, where: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for place in (tmp_path, tmp_path / "folder"):
        (place / "program.py").write_text(SERVER.format(name=name))

    done = served(where, tmp_path)

    assert (done.returncode, done.stdout) == (0, b"hello\n")
    assert done.stderr == b"imported\n"  # output of the program is not taken for a message


def test_a_file_may_import_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "neighbour.py").write_text(SERVER.format(name="server"))
    (tmp_path / "folder" / "program.py").write_text("from neighbour import server\n")

    assert served("folder/program.py", tmp_path).stdout == b"hello\n"


@pytest.mark.parametrize("where", [str(PROGRAMS / "sample_server.py"), "program", "program:other"])
def test_the_end_of_standard_input_ends_the_command_with_status_0(where: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(SERVER.format(name="other"))

    done = run("serve", where, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr in {b"", b"imported\n"}


@pytest.mark.parametrize(
    ("content", "where", "message"),
    [
        ("", "program", "program: name the server, as in program:NAME; it has no Server"),
        ("server = 3", "program:server", "program: 'server' is a int, not a Server; it has no Server"),
        (SERVER.format(name="a"), "program:b", "program: 'b' does not exist; it has a"),
        (SERVER.format(name="a") + SERVER.format(name="b"), "program", "as in program:NAME; it has a, b"),
        ("", "nothing", "there is no module 'nothing' in this folder or installed"),
        ("", "nothing.at.all:server", "there is no module 'nothing' in this folder or installed"),
        ("", "nothing.py", "nothing.py: no such file"),
        ("", ":server", "'' does not name a module; expected MODULE[:NAME] or FILE.py[:NAME]"),
        ("", "..program", "expected MODULE[:NAME] or FILE.py[:NAME]"),
    ],
)  # fmt: skip
def test_a_missing_or_wrong_server_is_reported_in_one_line(
    content: str, where: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(content)

    done = run("serve", where, cwd=tmp_path)

    printed = done.stderr.decode().removeprefix("imported\n").removeprefix("imported\n")
    assert (done.returncode, done.stdout) == (2, b"")
    assert printed.startswith("trio-mcp serve: ")
    assert printed.endswith(f"{message}\n")
    assert printed.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("def f():\n    raise KeyError('inner')\nf()\n", "KeyError: 'inner'"),
        ("import nowhere_to_be_found\n", "No module named 'nowhere_to_be_found'"),
        ("def (:\n", "SyntaxError"),
        ("raise SystemExit(4)\n", "SystemExit: 4"),
    ],
)
@pytest.mark.parametrize("where", ["program", "program.py"])
def test_a_program_that_fails_shows_its_own_traceback(content: str, message: str, where: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(content)

    done = run("serve", where, cwd=tmp_path)

    printed = done.stderr.decode()
    assert (done.returncode, done.stdout) == (2, b"")
    assert message in printed
    assert printed.endswith(f"trio-mcp serve: {where} could not be imported; the traceback is above\n")
    assert "_serve.py" not in printed
    assert "importlib" not in printed


SERVING = """
from contextlib import suppress

import trio

from trio_mcp import Server, serve_stdio

server = Server("served")
{line}
"""


@pytest.mark.parametrize(
    "line",
    [
        "server.run()",
        "server.run(http=0)",
        "trio.run(serve_stdio, server)",
    ],
)
@pytest.mark.parametrize(
    "arguments",
    [("serve", "program"), ("serve", "program.py", "--http", "0"), ("install", "program.py", "--host", "json")],
    ids=" ".join,
)
def test_a_program_that_serves_at_import_is_refused(arguments: tuple[str, ...], line: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(SERVING.format(line=line))

    done = run(*arguments, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == (
        f"trio-mcp {arguments[0]}: {arguments[1]} serves while it is imported: put `server.run()` (or trio.run(...)) "
        'under `if __name__ == "__main__":`\n'
    )
    assert not (tmp_path / "mcp.json").exists()


def test_a_program_may_use_trio_at_import_and_is_served_even_if_it_has_tried_to_serve(tmp_path: Path) -> None:
    lines = "trio.run(trio.sleep, 0)\nwith suppress(RuntimeError):\n    server.run()\n"
    (tmp_path / "program.py").write_text(SERVING.format(line=lines) + "server.tool(name='hello')(trio.sleep)\n")

    done = run("tools", "program.py", cwd=tmp_path)

    assert (done.returncode, done.stderr) == (0, b"")
    assert b"hello" in done.stdout
