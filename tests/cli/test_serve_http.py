"""`trio-mcp serve --http`: the printed URL, signals, worker processes and invalid command lines."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import pytest
import trio

from tests.cli.command import environment
from tests.server.raw_http_client import head_of
from tests.transports.http.asgi_caller import call
from trio_mcp import ErrorResponse, UnsupportedRevision, open_http_client
from trio_mcp.cli import main
from trio_mcp.cli._arguments import read_arguments
from trio_mcp.wire import CAPABILITIES_KEY, JsonObject, decode, encode

ROOTS: dict[str, Any] = {CAPABILITIES_KEY: {"roots": {}}}
PROGRAM = """
import os
from trio_mcp import Context, Server

server = Server("served")


@server.tool
async def root(ctx: Context) -> list[int | str]:
    before = await ctx.once("before", os.getpid)
    return [before, os.getpid(), str((await ctx.list_roots())[0].uri)]
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


Served = Callable[..., int]


@pytest.fixture
def served(program: Path, monkeypatch: pytest.MonkeyPatch) -> Served:
    """Return a function that runs the command in this process and returns its exit status."""
    monkeypatch.chdir(program.parent)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, program.stem, ModuleType(program.stem))

    def serve(*options: str) -> int:
        return main(["serve", program.name, *options])

    return serve


@asynccontextmanager
async def serving(
    program: Path, *options: str, ends: signal.Signals = signal.SIGTERM, logged: str = ""
) -> AsyncGenerator[str]:
    """Run the command and yield its printed URL; then send the signal and expect exit status 0.

    *logged* is the pattern of what it prints after the URL.
    """
    command = [sys.executable, "-m", "trio_mcp", "serve", str(program), "--http", "0", *options]
    with trio.fail_after(60):
        process = await trio.lowlevel.open_process(command, stderr=subprocess.PIPE, env=environment())
        assert process.stderr is not None
        printed = b""
        try:
            while not printed.endswith(b"\n"):
                chunk = await process.stderr.receive_some()
                assert chunk, printed
                printed += chunk
            found = re.fullmatch(r"serving served at (http://127\.0\.0\.1:\d+/\w+)\n", printed.decode())
            assert found, printed
            yield found[1]
            process.send_signal(ends)
            assert await process.wait() == 0
            rest = b"".join([chunk async for chunk in process.stderr])
            assert re.fullmatch(logged, rest.decode()), rest
        finally:
            if process.returncode is None:
                process.kill()
                with trio.CancelScope(shield=True):
                    await process.wait()
            await process.stderr.aclose()


@pytest.mark.parametrize("ends", [signal.SIGTERM, signal.SIGINT])
async def test_serve_prints_its_url_and_ends_at_a_signal_with_status_0(program: Path, ends: signal.Signals) -> None:
    async with serving(program, "--path", "/here", ends=ends) as url, open_http_client(url) as client:
        assert url.endswith("/here")
        assert client.server_info is not None
        assert client.server_info.name == "served"


async def test_worker_processes_continue_the_requests_of_one_another(program: Path) -> None:
    async with serving(program, "--workers", "2") as url:
        interim = await posted(url, call("root", **ROOTS))
        assert interim["resultType"] == "input_required"
        (key,) = interim["inputRequests"]
        retry = call("root", **ROOTS)
        answer = {"roots": [{"uri": "file:///here"}]}
        retry["params"] |= {"requestState": interim["requestState"], "inputResponses": {key: answer}}
        for _ in range(500):  # the fastest worker accepts the connection
            before, after, uri = (await posted(url, retry))["structuredContent"]["result"]
            assert uri == "file:///here"
            if before != after:
                break
        else:
            pytest.fail("one process has answered all requests")
        with pytest.raises((UnsupportedRevision, ErrorResponse), match="2025-11-25"):
            async with open_http_client(url, revision="2025-11-25"):
                pytest.fail("a session was begun in one of them")


async def got(url: str, path: str) -> bytes:
    """Send a GET to the server of an URL, as a load balancer does; return the response."""
    port = urlsplit(url).port
    assert port is not None
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(f"GET {path} HTTP/1.1\r\nhost: 10.1.2.3\r\nconnection: close\r\n\r\n".encode())
        return b"".join([chunk async for chunk in stream])


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_serve_answers_health_checks_and_logs_requests(program: Path, workers: str) -> None:
    options = ("--health-path", "/healthz", "--access-log", "--workers", workers)
    line = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} GET /(healthz 200|other 404) \d+\.\d ms -\n"
    async with serving(program, *options, logged=f"({line}){{2}}") as url:
        assert (await got(url, "/healthz")).endswith(b"serving")
        assert (await got(url, "/other")).startswith(b"HTTP/1.1 404")


def children_of(pid: int) -> set[int]:
    return {int(each) for thread in Path(f"/proc/{pid}/task").glob("*/children") for each in thread.read_text().split()}


@pytest.mark.skipif(sys.platform != "linux", reason="the child processes of a process are found in /proc")
async def test_a_worker_process_that_is_stopped_is_killed_after_the_worker_timeout_and_replaced(program: Path) -> None:
    options = ("--http", "0", "--workers", "2", "--worker-timeout", "3")
    command = [sys.executable, "-m", "trio_mcp", "serve", str(program), *options]
    with trio.fail_after(120):
        process = await trio.lowlevel.open_process(command, stderr=subprocess.PIPE, env=environment())
        assert process.stderr is not None
        try:
            printed = b""
            while b"served at" not in printed:
                printed += await process.stderr.receive_some()
            stopped, _ = workers = children_of(process.pid)
            os.kill(stopped, signal.SIGSTOP)
            while not children_of(process.pid) - workers:  # noqa: ASYNC110  # another process raises no event
                await trio.sleep(0.01)
            assert stopped not in children_of(process.pid)
            process.terminate()
            assert await process.wait() == 0
            printed += b"".join([chunk async for chunk in process.stderr])
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
            await process.stderr.aclose()

    assert f"(process {stopped}) has shown no sign of life for 3 s".encode() in printed


async def posted(url: str, message: JsonObject) -> JsonObject:
    """Send a POST on a new connection; return the result in the response."""
    port = urlsplit(url).port
    async with await trio.open_tcp_stream("127.0.0.1", port or 0) as stream:
        await stream.send_all(head_of(message, connection="close") + encode(message))
        response = b"".join([chunk async for chunk in stream])
    result: JsonObject = decode(response.partition(b"\r\n\r\n")[2])["result"]
    return result


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--http", "65536"], "expected a number from 0 to 65535, got '65536'"),
        (["--http", "-1"], "expected a number from 0 to 65535"),
        (["--http", "x"], "expected a number from 0 to 65535, got 'x'"),
        (["--http", "99999999999999999999"], "expected a number from 0 to 65535"),
        (["--http", "0", "--workers", "0"], "expected a number from 1 to 1000, got '0'"),
        (["--http", "0", "--worker-timeout", "0"], "expected a number of seconds above 0, got '0'"),
        (["--worker-timeout", "9"], "--worker-timeout can only be used with --http PORT"),
        (["--host", "x", "--workers", "2"], "--host, --workers can only be used with --http PORT"),
        (["--allow-host", "x"], "--allow-host can only be used with --http PORT"),
    ],
)
def test_an_invalid_command_line_is_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        read_arguments(["serve", "program.py", *arguments])

    assert caught.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["--host", "0.0.0.0"], 2, "--allow-host NAME"),
        (["--allow-origin", "example.com"], 2, "'example.com'"),
        (["--keyfile", "key.pem"], 2, "needs a certfile"),
        (["--certfile", "program.py"], 2, "cannot use program.py for TLS"),
        (["--certfile", "missing.pem"], 3, "missing.pem: No such file or directory"),
        (["--workers", "2", "--path", "mcp"], 2, "path='mcp'"),
        (["--allow-host", "any", "--host", "192.0.2.1"], 3, "cannot listen on 192.0.2.1:0"),
    ],
)
def test_a_server_that_cannot_be_served_is_reported_in_one_line(
    options: list[str], status: int, message: str, program: Path, served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    assert served("--http", "0", *options) == status

    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("trio-mcp serve: ")
    assert message in line


def test_a_port_in_use_is_reported_in_one_line(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert served("--http", port) == 3

    assert capsys.readouterr().err.startswith(f"trio-mcp serve: cannot listen on 127.0.0.1:{port}: ")
