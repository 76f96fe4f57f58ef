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
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import pytest
import trio

from tests.cli.command import environment
from tests.server.raw_http_client import head_of
from tests.transports.http.asgi_caller import call
from trio_mcp import open_http_client
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
    processes: set[int] = set()

    async with serving(program, "--workers", "2") as url:
        for _ in range(500):  # the fastest worker accepts the connection
            interim = await posted(url, call("root", **ROOTS))
            assert interim["resultType"] == "input_required"
            (key,) = interim["inputRequests"]
            retry = call("root", **ROOTS)
            answer = {"roots": [{"uri": "file:///here"}]}
            retry["params"] |= {"requestState": interim["requestState"], "inputResponses": {key: answer}}
            before, after, uri = (await posted(url, retry))["structuredContent"]["result"]
            assert (after, uri) == (before, "file:///here")
            processes.add(before)
            if len(processes) > 1:
                break
        else:
            pytest.fail("one process has answered all requests")


async def test_worker_processes_share_the_sessions_of_older_clients(program: Path) -> None:
    async with serving(program, "--workers", "2") as url:
        for _ in range(20):  # each request has a connection of its own, which either process may accept
            post = partial(posted_in_session, url)
            session, _ = await post(None, INITIALIZE)
            assert (await post(session, {"method": "notifications/initialized"}))[1] is None
            _, answer = await post(session, {"id": 2, "method": "ping"})
            assert answer == {"jsonrpc": "2.0", "id": 2, "result": {}}


@pytest.mark.parametrize(
    ("place", "complaint"),
    [("ftp://x", "--shared ftp://x: expected the path of a file, or a URL that begins with redis://")],
)
def test_a_backend_of_an_unknown_kind_is_refused(
    served: Served, place: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert served("--http", "0", "--shared", place) == 2
    assert complaint in capsys.readouterr().err


def test_the_option_names_a_file_or_a_server_of_redis(
    served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given: list[object] = []

    def of(_: object, __: object, ___: object, options: Any) -> Any:
        given.append(options["shared"])
        raise ValueError("enough")

    monkeypatch.setattr("trio_mcp.cli._serve.HttpService.of", of)
    for place in (str(tmp_path / "s.db"), f"sqlite:{tmp_path / 's.db'}", "redis://cache:6379/0"):
        assert served("--http", "0", "--shared", place) == 2

    assert [type(each).__name__ for each in given] == ["SqliteShared", "SqliteShared", "RedisShared"]


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


INITIALIZE: JsonObject = {
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
}


async def posted_in_session(url: str, session: str | None, message: JsonObject) -> tuple[str | None, JsonObject | None]:
    """Send a POST of a session on a new connection; return the id of the session, and the message in the response."""
    port = urlsplit(url).port
    body = encode({"jsonrpc": "2.0", **message})
    fields = [
        "POST /mcp HTTP/1.1",
        "host: localhost",
        "accept: application/json, text/event-stream",
        "content-type: application/json",
        "connection: close",
        f"content-length: {len(body)}",
        *([] if session is None else [f"mcp-session-id: {session}"]),
    ]
    async with await trio.open_tcp_stream("127.0.0.1", port or 0) as stream:
        await stream.send_all("\r\n".join([*fields, "", ""]).encode() + body)
        response = b"".join([chunk async for chunk in stream])
    head, _, answer = response.partition(b"\r\n\r\n")
    assert head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 202")), response
    begun = re.search(r"mcp-session-id: (\S+)", head.decode())
    return session if begun is None else begun[1], decode(answer) if answer else None


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


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_serve_goes_on_during_the_delay_until_a_second_signal(program: Path, workers: str) -> None:
    options = ("--http", "0", "--ready-path", "/readyz", "--drain-delay", "1000", "--workers", workers)
    command = [sys.executable, "-m", "trio_mcp", "serve", str(program), *options]
    with trio.fail_after(120):
        process = await trio.lowlevel.open_process(command, stderr=subprocess.PIPE, env=environment())
        assert process.stderr is not None
        try:
            printed = b""
            while not printed.endswith(b"\n"):
                printed += await process.stderr.receive_some()
            url = printed.split()[-1].decode()
            assert (await got(url, "/readyz")).endswith(b"ready")
            process.terminate()
            while (await got(url, "/readyz")).startswith(b"HTTP/1.1 200"):
                pass
            assert (await posted(url, call("root", **ROOTS)))["resultType"] == "input_required"
            while process.returncode is None:  # the system may give a worker two signals as one
                process.terminate()
                with trio.move_on_after(30):
                    await process.wait()
            assert process.returncode == 0
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
            await process.stderr.aclose()


async def test_serve_has_a_page_for_prometheus(program: Path) -> None:
    async with serving(program, "--metrics") as url:
        await posted(url, call("root", **ROOTS))
        found = await got(url, "/metrics")

    assert b'\ntrio_mcp_tool_calls_total{tool="root",outcome="input_required"} 1\n' in found


async def test_serve_logs_each_request_as_a_json_object(program: Path) -> None:
    parts = {
        "method": '"GET"',
        "path": '"/other"',
        "status": "404",
        "seconds": r"[0-9.e-]+",
        "principal": "null",
        "request_id": '"[0-9a-f]{16}"',
        "principal_hash": "null",
        "node": "null",
    }
    time = r'"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00"'
    line = ",".join([time, *(f'"{name}":{pattern}' for name, pattern in parts.items())])
    async with serving(program, "--access-log", "json", logged=f"\\{{{line}\\}}\n") as url:
        await got(url, "/other")


@pytest.mark.parametrize(
    ("words", "metrics", "access_log"),
    [
        ([], None, None),
        (["--metrics", "--access-log"], "/metrics", "text"),
        (["--metrics", "/page", "--access-log", "json"], "/page", "json"),
        (["--metrics=/page", "--access-log=json"], "/page", "json"),
        (["--access-log", "text", "--metrics", "--workers", "2"], "/metrics", "text"),
    ],
)
@pytest.mark.parametrize("file", ["program.py", "/srv/program.py", "program:server"])
@pytest.mark.parametrize("is_first", [True, False])
def test_an_option_whose_value_may_be_left_out_leaves_the_program_alone(
    words: list[str], metrics: str | None, access_log: str | None, file: str, *, is_first: bool
) -> None:
    line = ["serve", file, *words] if is_first else ["serve", *words, file]

    options = read_arguments([*line, "--http", "0"])

    assert (options.server, options.metrics, options.access_log) == (file, metrics, access_log)


def test_such_an_option_leaves_the_program_of_a_gateway_alone(program: Path) -> None:
    options = read_arguments(["gateway", "--http", "0", "--metrics", "--access-log", str(program)])

    assert (options.target[-1], options.metrics, options.access_log) == (str(program), "/metrics", "text")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--metrics"], "--metrics can only be used with --http PORT"),
        (["--ready-path", "/readyz", "--drain-delay", "5"], "--ready-path, --drain-delay can only be used with --http"),
        (["--http", "0", "--access-log=xml"], "invalid choice: 'xml'"),
        (["--http", "0", "--drain-delay", "-1"], "expected a number of seconds above 0"),
    ],
)
def test_an_invalid_option_of_operation_is_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        read_arguments(["serve", "program.py", *words])

    assert caught.value.code == 2
    assert message in capsys.readouterr().err
