"""Servers as child processes: kills, signals, terminals and redirections."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.interaction.scripted_peers import ENVELOPE
from trio_mcp import Client, ServerExited, open_client

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and terminals are POSIX's")

PROGRAM = str(Path(__file__).with_name("process_server.py"))


@pytest.fixture
def cleaned_up(tmp_path: Path) -> Path:
    return tmp_path / "cleaned up"


@asynccontextmanager
async def child(cleaned_up: Path) -> AsyncGenerator[Client]:
    with trio.fail_after(30):
        async with open_client([sys.executable, PROGRAM, str(cleaned_up)]) as client:
            yield client


async def pid_of(client: Client) -> int:
    content: Any = (await client.call_tool("pid")).structured_content
    return int(content["result"])


@pytest.mark.complaint(2, 5, 13, 14)
async def test_a_killed_server_fails_only_its_own_calls_and_its_processes_are_killed(tmp_path: Path) -> None:
    failures: list[ServerExited] = []
    path = str(tmp_path / "held")
    listening = trio.socket.socket(trio.socket.AF_UNIX)
    await listening.bind(path)
    listening.listen()

    async def call(client: Client) -> None:
        try:
            async with client.open_call("hang") as one:
                await anext(one.updates)
                under_way.release()
                await one.result()
        except ServerExited as exc:
            failures.append(exc)

    under_way = trio.Semaphore(0)
    with listening:
        async with child(tmp_path / "a") as doomed, child(tmp_path / "b") as other:
            await doomed.call_tool("spawn", {"socket": path})
            grandchild, _ = await listening.accept()
            with grandchild:
                assert await grandchild.recv(4) == b"here"
                await doomed.call_tool("mutter", {"text": "first words\nlast words"})
                async with trio.open_nursery() as nursery:
                    for _ in range(3):
                        nursery.start_soon(call, doomed)
                    nursery.start_soon(call, other)
                    for _ in range(4):
                        await under_way.acquire()
                    os.kill(await pid_of(doomed), signal.SIGKILL)
                    with suppress(ConnectionResetError):
                        assert await grandchild.recv(1) == b""  # the grandchild has exited too
                    while len(failures) < 3:  # noqa: ASYNC110 # the calls fail by themselves
                        await trio.sleep(0.01)
                    assert await pid_of(other)
                    nursery.cancel_scope.cancel()
            with pytest.raises(ServerExited):
                await doomed.list_tools()
            assert await pid_of(other)
    assert [failure.status for failure in failures] == [-signal.SIGKILL] * 3
    assert len({id(failure) for failure in failures}) == 3
    assert all(failure.stderr_tail[-2:] == ("first words", "last words") for failure in failures)
    assert "was killed by signal 9" in str(failures[0])
    assert "last words" in str(failures[0])


@pytest.mark.requirement("B.5-C3a")
async def test_closing_the_client_lets_the_server_clean_up(cleaned_up: Path) -> None:
    async with child(cleaned_up) as client:
        assert await pid_of(client)
    assert cleaned(cleaned_up)


async def test_closing_the_client_stops_a_call_in_flight_at_once(cleaned_up: Path) -> None:
    async with child(cleaned_up) as client, client.open_call("hang") as call:
        await anext(call.updates)
        with trio.fail_after(60):
            await client.aclose()
    assert cleaned(cleaned_up)


def cleaned(path: Path) -> bool:
    return path.read_text() == "cleaned up"


# The server without a client.


def call_line(id: int, tool: str) -> bytes:
    params = {"name": tool, "_meta": ENVELOPE | {"progressToken": id}}
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).encode() + b"\n"


async def lines_until(stream: trio.abc.ReceiveStream, word: bytes) -> bytes:
    received = b""
    while word not in received:
        chunk = await stream.receive_some()
        assert chunk, received
        received += chunk
    return received


async def all_of(stream: trio.abc.ReceiveStream) -> bytes:
    return b"".join([bytes(chunk) async for chunk in stream])


@asynccontextmanager
async def piped(*arguments: str) -> AsyncGenerator[trio.Process]:
    """Run the program with pipes and a timeout."""
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = await trio.lowlevel.open_process([sys.executable, PROGRAM, *arguments], **pipes)
    try:
        with trio.fail_after(60):
            yield process
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            await pipe.aclose()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.complaint(11)
async def test_one_signal_ends_a_server_silently_with_status_0(number: int, cleaned_up: Path) -> None:
    async with piped(str(cleaned_up)) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        await process.stdin.send_all(call_line(1, "hang"))
        await lines_until(process.stdout, b"notifications/progress")
        process.send_signal(number)
        answer = json.loads(await all_of(process.stdout))
        assert answer["error"]["message"] == "the server stopped before the request was done"
        assert await all_of(process.stderr) == b""
    assert process.returncode == 0
    assert cleaned(cleaned_up)


@pytest.mark.parametrize("how", ["started", "without signals"])
async def test_an_embedded_server_leaves_signals_to_its_program(how: str, cleaned_up: Path) -> None:
    async with piped(str(cleaned_up), how) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        await process.stdin.send_all(call_line(1, "pid"))
        await lines_until(process.stdout, b'"id":1')
        process.send_signal(signal.SIGTERM)
    assert process.returncode == 5
    assert cleaned(cleaned_up)


ON_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.mark.requirement("B.5-S1")
@pytest.mark.complaint(10)
async def test_one_control_c_on_a_terminal_ends_a_server_silently_with_status_0(cleaned_up: Path) -> None:
    ours, theirs = pty.openpty()
    modes = termios.tcgetattr(theirs)
    modes[3] &= ~termios.ECHO
    termios.tcsetattr(theirs, termios.TCSANOW, modes)
    terminal = trio.lowlevel.FdStream(ours)
    command = [sys.executable, "-c", ON_TERMINAL, PROGRAM, str(cleaned_up)]
    process = await trio.lowlevel.open_process(
        command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    async with terminal:
        with trio.fail_after(60):
            await terminal.send_all(call_line(1, "hang"))
            output = await lines_until(terminal, b"notifications/progress")
            await terminal.send_all(b"\x03")
            with suppress(trio.BrokenResourceError):  # the error at the end of a terminal
                while chunk := await terminal.receive_some():
                    output += chunk
            assert await process.wait() == 0
    messages = [json.loads(line) for line in output.splitlines()]  # there is no other output
    assert [message.get("id") for message in messages] == [None, 1]
    assert cleaned(cleaned_up)


@pytest.mark.requirement("B.5-S2")
async def test_files_may_be_input_and_output(tmp_path: Path, cleaned_up: Path) -> None:
    questions, answers = tmp_path / "questions", tmp_path / "answers"
    fill(questions, call_line(1, "pid") + call_line(2, "pid"))
    with questions.open("rb") as stdin, answers.open("wb") as stdout, trio.fail_after(60):
        done = await trio.run_process(
            [sys.executable, PROGRAM, str(cleaned_up)], stdin=stdin, stdout=stdout, capture_stderr=True
        )
    assert (done.returncode, done.stderr) == (0, b"")
    assert {json.loads(line)["id"] for line in lines_of(answers)} == {1, 2}


def fill(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


@pytest.mark.requirement("B.5-S2")
async def test_the_null_device_is_an_empty_input(cleaned_up: Path) -> None:
    with trio.fail_after(60):
        done = await trio.run_process(
            [sys.executable, PROGRAM, str(cleaned_up)],
            stdin=subprocess.DEVNULL,
            capture_stdout=True,
            capture_stderr=True,
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert cleaned(cleaned_up)


@pytest.mark.parametrize(("closed", "named"), [("<&-", b"standard input"), (">&-", b"standard output")])
async def test_a_closed_descriptor_raises_a_clear_error(closed: str, named: bytes, cleaned_up: Path) -> None:
    shell = ["sh", "-c", f'exec "$0" "$@" {closed}', sys.executable, PROGRAM, str(cleaned_up)]
    with trio.fail_after(60):
        done = await trio.run_process(shell, capture_stderr=True, check=False)
    assert done.returncode == 1
    assert named in done.stderr


SLOW_TO_OPEN = """
import sys, trio
from contextlib import asynccontextmanager
from trio_mcp import Server, serve_stdio

@asynccontextmanager
async def lifespan(server):
    try:
        print("opening", file=sys.stderr, flush=True)
        await trio.sleep_forever()
        yield
    finally:
        print("given up", file=sys.stderr, flush=True)

trio.run(serve_stdio, Server("slow", lifespan=lifespan))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_the_start_of_the_lifespan_ends_a_server_cleanly(number: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SLOW_TO_OPEN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"opening\n"
        process.send_signal(number)
        assert process.stderr.read() == b"given up\n"
    assert process.returncode == 0
