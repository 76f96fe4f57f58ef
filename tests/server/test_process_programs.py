"""Tests of isolated tools in real programs: main modules, the wire, signals and cancellation."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.server.isolated_calls import Calls, hang_up, is_gone, taking_calls, until, value_of
from trio_mcp import Client, open_client

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups and Unix sockets are POSIX's")

ROOT = Path(__file__).parents[2]
PROGRAM = str(Path(__file__).with_name("isolated_program.py"))


@pytest.fixture
async def calls(tmp_path: Path) -> AsyncGenerator[Calls]:
    async with taking_calls(tmp_path / "calls") as taken:
        yield taken


@asynccontextmanager
async def program(*command: str) -> AsyncGenerator[Client]:
    target: dict[str, Any] = {"command": sys.executable, "args": command or [PROGRAM], "env": {"PYTHONPATH": str(ROOT)}}
    with trio.fail_after(60):
        async with open_client(target) as client:
            yield client


async def facts(client: Client) -> list[int]:
    """The id of the server's process, and its numbers of running handlers, threads and processes."""
    return [int(each) for each in await value_of(client, "facts")]


@pytest.mark.parametrize("command", [[PROGRAM], ["-m", "tests.server.isolated_program"]], ids=["file", "module"])
async def test_tools_and_classes_of_the_main_module_can_be_isolated(command: list[str]) -> None:
    async with program(*command) as client:
        value = await value_of(client, "answer", {"message": {"content": "hello"}})

    assert value == {"content": "hello, __mp_main__"}


async def test_output_of_a_worker_stays_off_the_wire() -> None:
    line = '{"jsonrpc": "2.0", "id": 1, "result": {}}\n'

    async with program() as client:
        result = await client.call_tool("say", {"text": line}, raise_on_error=True)
        assert (await facts(client))[0]
        assert client.statistics().unmatched_responses == 0

    assert result.content == []


@pytest.mark.parametrize("tool", ["spin", "poll"], ids=["a process that never asks", "a thread that asks"])
async def test_a_busy_tool_stops_when_its_call_is_cancelled(tool: str, calls: Calls) -> None:
    async with program() as client:
        async with client.open_call(tool, {"path": calls.path}):
            line, pid = await calls.take()
        with trio.fail_after(60):  # within a second, on an idle machine
            await hang_up(line)
            while (await facts(client))[1:] != [1, 0, 0]:
                await trio.lowlevel.checkpoint()
        assert (tool == "poll") != is_gone(int(pid))

        async with client.open_call(tool, {"path": calls.path}):  # the tool can be called again
            line, _ = await calls.take()
        await hang_up(line)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT], ids=lambda number: number.name)
@pytest.mark.parametrize("tool", ["spin", "wait"], ids=["busy", "blocked"])
async def test_no_worker_outlives_a_server_that_a_signal_kills(
    tool: str, number: signal.Signals, calls: Calls, tmp_path: Path
) -> None:
    async with (
        program_on_a_socket(str(tmp_path / "wire")) as (client, server),
        client.open_call(tool, {"path": calls.path}),
    ):
        line, pid = await calls.take()
        server.send_signal(number)
        await server.wait()
        await hang_up(line)
        await until(lambda: is_gone(int(pid)) or is_zombie(int(pid)))


@pytest.mark.skipif(sys.platform != "linux", reason="other processes' environments are read in /proc")
async def test_what_has_left_the_session_of_a_worker_does_not_outlive_a_killed_server(
    calls: Calls, tmp_path: Path
) -> None:
    async with program_on_a_socket(str(tmp_path / "wire")) as (client, server):
        await client.call_tool("leave_a_session", {"path": calls.path}, raise_on_error=True)
        of_idle, _ = await calls.take()
        async with client.open_call("spin_with_another_session", {"path": calls.path}):
            of_busy = [await calls.take(), await calls.take()]
            server.kill()
            await server.wait()
            for line in (of_idle, *(line for line, _ in of_busy)):
                await hang_up(line)


@asynccontextmanager
async def program_on_a_socket(path: str) -> AsyncGenerator[tuple[Client, trio.Process]]:
    """Run the program for a client on a socket. It does not handle signals, so SIGTERM kills it at once."""
    listening = trio.socket.socket(trio.socket.AF_UNIX)
    await listening.bind(path)
    listening.listen()

    with trio.fail_after(60), listening:
        async with trio.open_nursery() as nursery:
            command = [sys.executable, PROGRAM, path]
            environment = os.environ | {"PYTHONPATH": str(ROOT)}
            server = await trio.lowlevel.open_process(command, env=environment, stderr=subprocess.DEVNULL)
            wire, _ = await listening.accept()
            async with open_client(trio.SocketStream(wire)) as client:
                yield client, server
            nursery.cancel_scope.cancel()


def is_zombie(pid: int) -> bool:
    """Return True if the process has ended but the init process has not reaped it."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z"


async def test_the_workers_of_a_server_on_standard_input_end_with_it(calls: Calls) -> None:
    with trio.fail_after(60):
        async with program() as client, trio.open_nursery() as nursery:
            async with client.open_call("spin", {"path": calls.path}):
                line, worker = await calls.take()
                os.kill((await facts(client))[0], signal.SIGTERM)
                await hang_up(line)
                await until(lambda: is_gone(int(worker)))
            nursery.cancel_scope.cancel()
