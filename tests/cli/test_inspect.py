"""`trio-mcp inspect`: what it shows of real processes, who may look, and the errors if nobody may."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest
import trio
from attrs import frozen

from tests.cli.command import PROGRAMS, environment, run
from tests.cli.conftest import Command
from tests.server.isolated_calls import Calls, taking_calls, value_of
from trio_mcp import Client, Server, open_client, open_http_client, open_stdio_client
from trio_mcp.server import inspection_sockets

PROGRAM = str(PROGRAMS / "inspected_server.py")
SERVE = [sys.executable, "-m", "trio_mcp", "serve", PROGRAM]
ROOT = str(Path(__file__).parents[2])


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the runtime folder of the user, which holds the sockets."""
    folder = tmp_path / "runtime"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.delenv("TRIO_MCP_INSPECT", raising=False)
    return folder


@frozen
class Inspected:
    """A server process, a client of it, and the calls that its handlers make to the test."""

    client: Client
    pid: int
    calls: Calls

    async def inspect(self, *options: str) -> subprocess.CompletedProcess[bytes]:
        """Run the command in another process."""
        return await inspect(self.pid, *options)


async def inspect(pid: int, *options: str) -> subprocess.CompletedProcess[bytes]:
    return await trio.to_thread.run_sync(partial(run, "inspect", str(pid), *options))


def variables(**more: str) -> dict[str, str]:
    """Return the variables of a stdio server that is inspected."""
    measured = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")}
    path = os.pathsep.join([ROOT, *sys.path])
    return {"XDG_RUNTIME_DIR": os.environ["XDG_RUNTIME_DIR"], "PYTHONPATH": path, **measured, **more}


@asynccontextmanager
async def inspected(
    tmp_path: Path, *, command: list[str] | None = None, inspect: str = "1", revision: str | None = None
) -> AsyncGenerator[Inspected]:
    env = variables(TRIO_MCP_INSPECT=inspect)
    with trio.fail_after(60):
        async with (
            taking_calls(tmp_path / "calls") as calls,
            open_stdio_client(command or [sys.executable, PROGRAM], env=env, revision=revision) as client,
        ):
            yield Inspected(client, await value_of(client, "pid"), calls)


async def test_it_shows_the_requests_of_another_process_and_no_arguments(tmp_path: Path) -> None:
    async with inspected(tmp_path) as seen, trio.open_nursery() as nursery:
        nursery.start_soon(seen.client.call_tool, "rest", {"path": seen.calls.path, "secret": "s3cr3t"})
        line, _ = await seen.calls.take()
        done = await seen.inspect()
        await line.aclose()
        nursery.cancel_scope.cancel()

    title, connection, request = done.stdout.decode().splitlines()
    number = connection.split("\t")[0]
    assert (done.returncode, done.stderr) == (0, b"")
    assert title == f"inspected 2, process {seen.pid}: 1 connection, 1 request, 0 background tasks"
    assert re.fullmatch(rf"{number}\tstdio\ttrio-mcp \S+\t2026-07-28\t\t\d+\.\d s", connection)
    place = rf"{re.escape(PROGRAM)}:\d+ in rest\ttrio\._timeouts\.sleep_forever"
    assert re.fullmatch(rf"tools/call rest\t\d+\t{number}\trunning\t\d+\.\d s\t{place}", request)
    assert b"s3cr3t" not in done.stdout


async def test_json_has_the_fields_of_a_snapshot(tmp_path: Path) -> None:
    async with inspected(tmp_path) as seen, trio.open_nursery() as nursery:
        nursery.start_soon(seen.client.call_tool, "rest", {"path": seen.calls.path, "secret": "s3cr3t"})
        line, _ = await seen.calls.take()
        await seen.client.call_tool("tidy")
        done = await seen.inspect("--json")
        await line.aclose()
        nursery.cancel_scope.cancel()

    (document,) = json.loads(done.stdout)
    (server,) = document["servers"]
    (request,), (task,) = server["requests"], server["background"]
    assert (document["pid"], document["parent"], server["fault"]) == (seen.pid, os.getpid(), None)
    assert (request["method"], request["name"], request["state"]) == ("tools/call", "rest", "running")
    assert task["name"] == "tidying"
    assert b"s3cr3t" not in done.stdout


async def test_a_background_task_is_shown_with_its_line(tmp_path: Path) -> None:
    async with inspected(tmp_path, revision="2025-11-25") as seen:
        await seen.client.call_tool("tidy")
        done = await seen.inspect()

    title, connection, task = done.stdout.decode().splitlines()
    assert title.endswith("1 connection, 0 requests, 1 background task")
    assert connection.split("\t")[3] == "2025-11-25"
    assert task.startswith("tidying\t")


async def test_a_handler_that_swallows_its_cancellation_is_marked(tmp_path: Path) -> None:
    async with inspected(tmp_path) as seen:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(seen.client.call_tool, "stubborn", {"path": seen.calls.path})
            line, _ = await seen.calls.take()
            nursery.cancel_scope.cancel()
        await seen.client.call_tool("pid")  # the cancellation has arrived before it
        done = await seen.inspect()
        await line.aclose()

    assert done.stdout.decode().splitlines()[-1].split("\t")[3] == "running, cancelled"


async def test_a_blocked_event_loop_is_named_with_the_line_that_blocks_it(tmp_path: Path) -> None:
    async with inspected(tmp_path) as seen, trio.open_nursery() as nursery:
        nursery.start_soon(seen.client.call_tool, "block", {"path": seen.calls.path})
        line, _ = await seen.calls.take()
        done = await seen.inspect()
        as_json = await seen.inspect("--json")
        await line.aclose()

    printed = done.stdout.decode()
    assert re.fullmatch(
        rf"inspected 2, process {seen.pid}: the event loop is blocked at {re.escape(PROGRAM)}:\d+ in block\n", printed
    )
    assert "in block" in json.loads(as_json.stdout)[0]["servers"][0]["fault"]


@pytest.mark.parametrize("options", [("--inspect",), ("--inspect", "--http", "0")], ids=["stdio", "http"])
async def test_an_option_of_serve_permits_the_inspection(options: tuple[str, ...], tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        if "--http" in options:
            url, process = await stack.enter_async_context(serving(*options))
            client, pid = await stack.enter_async_context(open_http_client(url)), process.pid
            assert await value_of(client, "pid") == pid
        else:
            seen = await stack.enter_async_context(inspected(tmp_path, command=[*SERVE, *options], inspect=""))
            pid = seen.pid
        done = await inspect(pid)

    assert done.stdout.decode().startswith(f"inspected 2, process {pid}: ")


@asynccontextmanager
async def serving(*options: str) -> AsyncGenerator[tuple[str, trio.Process]]:
    """Run `trio-mcp serve`; yield its URL and its process."""
    with trio.fail_after(60):
        process = await trio.lowlevel.open_process([*SERVE, *options], stderr=subprocess.PIPE, env=environment())
        assert process.stderr is not None
        try:
            printed = b""
            while not printed.endswith(b"\n"):
                printed += await process.stderr.receive_some()
            yield printed.decode().split()[-1], process
        finally:
            process.send_signal(signal.SIGTERM)
            with trio.CancelScope(shield=True):
                await process.wait()
            await process.stderr.aclose()


async def test_the_parent_of_workers_stands_for_all_of_them(runtime: Path) -> None:
    async with serving("--inspect", "--http", "0", "--workers", "2") as (_, process):
        done = await inspect(process.pid, "--json")

    documents = json.loads(done.stdout)
    assert [each["parent"] for each in documents] == [process.pid] * 2
    assert len({each["pid"] for each in documents}) == 2
    assert os.listdir(runtime / "trio-mcp") == []  # noqa: PTH208 # as above


# --- Who may look ---


async def test_folder_and_socket_are_for_the_owner_alone_and_the_socket_goes_with_the_server(
    runtime: Path, tmp_path: Path
) -> None:
    async with inspected(tmp_path) as seen:
        (path,) = inspection_sockets(seen.pid)
        modes = [stat.S_IMODE(each.stat().st_mode) for each in (path.parent, path)]

    assert path.parent == runtime / "trio-mcp"
    assert modes == [0o700, 0o600]
    assert not path.exists()


async def test_a_server_whose_environment_does_not_permit_it_has_no_socket(runtime: Path, tmp_path: Path) -> None:
    async with inspected(tmp_path, inspect="0") as seen:
        done = await seen.inspect()

    assert (done.returncode, done.stdout) == (3, b"")
    assert re.search(
        rf"process {seen.pid} does not permit it, .* TRIO_MCP_INSPECT=1 .* --inspect", done.stderr.decode()
    )
    assert os.listdir(runtime) == []  # noqa: PTH208 # no blocking method of a path in a task


async def test_a_server_whose_socket_cannot_be_opened_goes_on_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    long = tmp_path / ("long" * 30)  # the path of a Unix socket has about a hundred bytes
    long.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    monkeypatch.setenv("TRIO_MCP_INSPECT", "1")

    async with open_client(Server("s")):
        assert inspection_sockets(os.getpid()) == []

    assert "trio-mcp inspect will not find this process: AF_UNIX path too long" in caplog.text


@pytest.mark.parametrize("kind", ["open", "link", "file"])
async def test_a_folder_that_others_may_use_is_refused_by_both_sides(
    kind: str, runtime: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, command: Command
) -> None:
    folder = runtime / "trio-mcp"
    if kind == "open":
        folder.mkdir()
        folder.chmod(0o755)
    elif kind == "link":
        (runtime / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(runtime / "elsewhere")
    else:
        folder.touch(mode=0o600)
    monkeypatch.setenv("TRIO_MCP_INSPECT", "1")

    async with open_client(Server("s")):
        assert inspection_sockets(os.getpid()) == []

    assert f"{folder} must be a folder of this user that is closed to all others (mode 0700)" in caplog.text


async def test_a_stale_socket_of_a_former_process_of_that_number_is_replaced(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIO_MCP_INSPECT", "1")
    stale = runtime / "trio-mcp" / f"{os.getpid()}-1.sock"
    stale.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as former:
        former.bind(str(stale))

    async with open_client(Server("s")), open_client(Server("t")):
        (path,) = inspection_sockets(os.getpid())
        done = await inspect(os.getpid(), "--json")

    assert path.name == f"{os.getpid()}-{os.getppid()}.sock"
    assert [each["name"] for each in json.loads(done.stdout)[0]["servers"]] == ["s", "t"]


async def test_a_process_of_another_user_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIO_MCP_INSPECT", "1")
    async with open_client(Server("s")):
        (path,) = inspection_sockets(os.getpid())
        other = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: other)  # whoever connects is of another user than this process
        with suppress(trio.BrokenResourceError):
            async with await trio.open_unix_socket(str(path)) as stream:
                assert await stream.receive_some() == b""


async def test_without_unix_sockets_the_server_goes_on_and_the_command_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, command: Command
) -> None:
    monkeypatch.setenv("TRIO_MCP_INSPECT", "1")
    monkeypatch.delattr(socket, "AF_UNIX")

    async with open_client(Server("s")) as client:
        await client.ping() if client.revision == "2025-11-25" else await client.discover()

    done = command("inspect", str(os.getpid()))
    assert "trio-mcp inspect will not find this process" in caplog.text
    assert (done.status, done.err) == (
        3,
        "trio-mcp inspect: processes cannot be inspected on this system, because Python has no Unix sockets here\n",
    )


async def test_a_snapshot_that_fails_does_not_harm_the_server(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(Server):
        def snapshot(self) -> NoReturn:
            raise RuntimeError("no snapshot today")

    monkeypatch.setenv("TRIO_MCP_INSPECT", "1")
    async with open_client(Failing("s")):
        done = await inspect(os.getpid())

    assert done.stdout.decode().endswith(
        f"process {os.getpid()}: the snapshot has failed; the log of the server says why\n"
    )
    assert "no snapshot today" in caplog.text


# --- Errors ---


def ended_process() -> int:
    with subprocess.Popen([sys.executable, "-S", "-c", ""]) as process:
        process.wait()
    return process.pid


def test_a_process_that_does_not_exist_is_reported(command: Command) -> None:
    pid = ended_process()

    done = command("inspect", str(pid))

    assert (done.status, done.out, done.err) == (3, "", f"trio-mcp inspect: there is no process {pid}\n")


def test_a_process_of_another_user_is_reported(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, number: int) -> NoReturn:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)

    done = command("inspect", str(os.getppid()))

    message = f"trio-mcp inspect: process {os.getppid()} belongs to another user, who alone may inspect it\n"
    assert (done.status, done.err) == (3, message)


def test_a_socket_that_nobody_serves_any_more_counts_as_none(command: Command, runtime: Path) -> None:
    folder = runtime / "trio-mcp"
    folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as former:
        former.bind(str(folder / f"{os.getpid()}-1.sock"))

    assert "does not permit it" in command("inspect", str(os.getpid())).err


@pytest.mark.parametrize("pid", ["0", "-1", "x", "99999999999"])
def test_what_is_not_the_id_of_a_process_is_refused(pid: str, command: Command) -> None:
    done = command("inspect", pid)

    assert done.status == 2
    assert done.err.startswith("trio-mcp inspect: ")


def test_an_empty_runtime_directory_is_replaced_by_the_temporary_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder: Any = tmp_path / f"trio-mcp-{os.geteuid()}"
    folder.mkdir(mode=0o700)
    (folder / "4711-1.sock").touch()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    assert inspection_sockets(4711) == [folder / "4711-1.sock"]
