"""`stderr=`: where the standard error of a child process goes, with real processes."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from trio_mcp import ClientOptions, open_client, open_clients, open_http_client, open_stdio_client, start_stdio_client
from trio_mcp.transports.stdio._client import ChildProcess, open_child_process

if sys.platform == "win32":
    pytest.skip("the children are POSIX programs", allow_module_level=True)

TIMEOUT_SECONDS = 60  # seconds: far more than any test needs, so that a test that hangs fails
SERVER = """
import sys
from trio_mcp import Server
sys.stderr.write("starting " + sys.argv[1] + "\\n")
Server(sys.argv[1]).run()
"""


async def run(script: str, stderr: Any) -> ChildProcess:
    """Run a script to its end."""
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_child_process(["/bin/sh", "-c", script], stderr=stderr) as child:
            async for _ in child.stream:
                pass
    return child


def command(name: str) -> list[str]:
    """Return the command of a server that writes one line to standard error."""
    return [sys.executable, "-c", SERVER, name]


async def test_standard_error_may_be_dropped_but_its_last_lines_are_kept(capfd: pytest.CaptureFixture[str]) -> None:
    child = await run("echo words >&2", subprocess.DEVNULL)

    assert capfd.readouterr().err == ""
    assert child.stderr_tail == ("words",)


@pytest.mark.parametrize("kind", [str, Path])
async def test_standard_error_may_be_appended_to_a_file(
    kind: type[Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    await run("echo first >&2", kind(path))
    child = await run("printf 'caf\\303\\251\\n' >&2", kind(path))

    assert path.read_text(encoding="utf-8") == "first\ncafé\n"
    assert capfd.readouterr().err == ""
    assert child.stderr_tail == ("café",)


async def test_a_file_that_cannot_be_opened_is_named_before_a_process_is_started(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="missing"):
        await run(f"touch {tmp_path / 'started'}", tmp_path / "missing" / "log")

    assert [*os.scandir(tmp_path)] == []


async def test_standard_error_may_go_to_an_open_file_which_stays_open(tmp_path: Path) -> None:
    memory = io.StringIO()
    with (tmp_path / "log").open("w", encoding="utf-8") as file:
        for target in (memory, file):
            await run("echo words >&2", target)
        file.write("and more")

    assert memory.getvalue() == "words\n"
    assert (tmp_path / "log").read_text(encoding="utf-8") == "words\nand more"


async def test_a_function_gets_each_line_and_the_unfinished_one_at_the_end() -> None:
    lines: list[str] = []
    await run("printf 'one\\r\\n\\ntwo \\377\\nthree' >&2", lines.append)

    assert lines == ["one", "", "two \N{REPLACEMENT CHARACTER}", "three"]


async def test_a_function_gets_a_line_without_end_in_pieces() -> None:
    lines: list[str] = []
    await run("yes | tr -d '\\n' | head -c 1000000 >&2", lines.append)

    assert "".join(lines) == "y" * 1_000_000
    assert len(lines) > 1


async def test_a_function_that_raises_is_logged_once_and_not_called_again(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[str] = []

    def take(line: str) -> None:
        calls.append(line)
        raise ValueError("full")

    with caplog.at_level(logging.ERROR, "trio_mcp"):
        child = await run("echo one >&2; echo two >&2", take)

    assert calls == ["one"]
    assert [record.message for record in caplog.records] == [
        "the function of stderr= raised; it gets no more lines of this server"
    ]
    assert child.stderr_tail == ("one", "two")


async def test_every_opener_of_a_process_takes_the_option() -> None:
    lines: list[str] = []
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_client(command("a"), stderr=lines.append):
            pass
        entry = {"command": sys.executable, "args": command("b")[1:]}
        async with open_client(entry, stderr=lines.append):
            pass
        async with open_stdio_client(command("c"), stderr=lines.append):
            pass
        async with trio.open_nursery() as nursery:
            client = await start_stdio_client(nursery, command("d"), stderr=lines.append)
            await client.aclose()

    assert lines == [f"starting {name}" for name in "abcd"]


async def test_each_of_many_servers_may_have_a_function_of_its_own() -> None:
    lines: dict[str, list[str]] = {"a": [], "b": []}

    def options_for(name: str) -> ClientOptions:
        return {"stderr": lines[name].append}

    table = {name: {"command": sys.executable, "args": command(name)[1:]} for name in lines}
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_clients({"mcpServers": table}, options_for=options_for):
            pass

    assert lines == {"a": ["starting a"], "b": ["starting b"]}


async def take_later(line: str) -> None:
    raise AssertionError(line)


@pytest.mark.parametrize(
    "stderr", [0, subprocess.PIPE, io.BytesIO(), object(), take_later], ids=["0", "a pipe", "bytes", "object", "async"]
)
async def test_anything_else_is_refused_by_every_opener(stderr: Any) -> None:
    with pytest.raises(TypeError, match=r"stderr=.*: expected subprocess\.DEVNULL, a path, a file that takes text"):
        async with open_client(command("a"), stderr=stderr):
            pass
    with pytest.raises(TypeError, match=r"stderr="):
        async with open_clients({"mcpServers": {}}, stderr=stderr):
            pass
    with pytest.raises(TypeError, match=r"stderr="):
        async with open_http_client("http://127.0.0.1:1/mcp", stderr=stderr):
            pass
