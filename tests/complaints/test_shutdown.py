"""Shutdown and child processes: signals, end of input, crashes, and other users of the pipes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.interaction.conftest import over_unix_socket
from tests.interaction.scripted_peers import ENVELOPE
from trio_mcp import Context, Limits, Server, ServerExited, open_client, serve_stream, types

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and process groups are POSIX's")

BUSY = """
import os, sys, trio
from contextlib import asynccontextmanager
from trio_mcp import Context, Limits, Server, serve_stdio

@asynccontextmanager
async def lifespan(server):
    try:
        yield
    finally:
        with trio.CancelScope(shield=True):
            await trio.Path(sys.argv[1]).write_text("cleaned up")

server = Server("busy", lifespan=lifespan, limits=Limits(drain_seconds=20))

@server.tool
async def work(ctx: Context) -> str:
    await ctx.report_progress(1)
    while not await trio.Path(sys.argv[2]).exists():
        await trio.sleep(0.01)
    return "done"

@server.tool
async def pid() -> int:
    return os.getpid()

trio.run(serve_stdio, server)
"""


async def lines_until(stream: trio.abc.ReceiveStream, word: bytes) -> bytes:
    received = b""
    while word not in received:
        chunk = await stream.receive_some()
        assert chunk, received
        received += chunk
    return received


def request(id: int, method: str, **params: Any) -> bytes:
    message = {
        "jsonrpc": "2.0",
        "id": id,
        "method": method,
        "params": params | {"_meta": ENVELOPE | {"progressToken": id}},
    }
    return json.dumps(message).encode() + b"\n"


# Complaint 11.


@pytest.mark.complaint(11)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_one_signal_ends_open_streams_completes_accepted_requests_and_cleans_up(
    number: signal.Signals, tmp_path: Path
) -> None:
    """Both signals have the same effect. The HTTP tests cover streams, sessions and listeners over HTTP."""
    cleaned, release = tmp_path / "cleaned", tmp_path / "release"
    command = [sys.executable, "-c", BUSY, str(cleaned), str(release)]
    with trio.fail_after(30):
        async with open_client(command) as client, client.listen(tools=True) as changes:
            called: Any = await client.call_tool("pid")
            pid = called.structured_content["result"]
            async with client.open_call("work") as call:
                await anext(call.updates)
                os.kill(pid, number)
                assert [change async for change in changes] == []  # the stream ends without an error
                await trio.Path(release).write_text("")
                assert (await call.result()).structured_content == {"result": "done"}
            with pytest.raises(ServerExited) as exited:
                while True:
                    await client.list_tools()

    assert exited.value.status == 0
    assert exited.value.stderr_tail == ()
    assert await trio.Path(cleaned).read_text() == "cleaned up"


# Complaint 12.


@pytest.mark.complaint(12)
@pytest.mark.parametrize("calls", [1, 100])
async def test_accepted_requests_are_completed_after_the_end_of_standard_input(calls: int, tmp_path: Path) -> None:
    cleaned, release = tmp_path / "cleaned", tmp_path / "release"
    process = await trio.lowlevel.open_process(
        [sys.executable, "-c", BUSY, str(cleaned), str(release)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with trio.fail_after(30):
        async with process.stdin, process.stdout:
            await process.stdin.send_all(b"".join(request(id, "tools/call", name="work") for id in range(calls)))
            await process.stdin.aclose()
            release.touch()
            lines = b"".join([bytes(chunk) async for chunk in process.stdout]).splitlines()
        assert await process.wait() == 0
    answers = {
        message["id"]: message["result"]["structuredContent"] for message in map(json.loads, lines) if "id" in message
    }
    assert answers == {id: {"result": "done"} for id in range(calls)}


# Complaint 13.


HOST = """
import sys, trio
from trio_mcp import open_client

async def main():
    async with open_client(sys.argv[1:]) as client:
        async with client.open_call("hang") as call:
            await anext(call.updates)
            print("connected", flush=True)
            await trio.sleep_forever()

trio.run(main)
"""

HOLDS_SOCKET = """
import socket, sys, trio
from trio_mcp import Context, Server, serve_stdio
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
server = Server("holding")

@server.tool
async def hang(ctx: Context) -> None:
    await ctx.report_progress(1)
    await trio.sleep_forever()

trio.run(serve_stdio, server)
"""


@pytest.mark.complaint(13)
@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("wrapped", [False, True], ids=["direct", "behind a launcher"])
async def test_a_server_exits_after_its_host_was_killed(
    signal_number: signal.Signals, wrapped: bool, tmp_path: Path
) -> None:
    """The server, and a launcher between it and the host such as `npx` or `uvx`, must exit on their own.

    The server holds a socket until it exits. A call is in flight, which must not keep the server alive.
    """
    path = str(tmp_path / "socket")
    command = [
        sys.executable,
        "-c",
        HOLDS_SOCKET.replace('Server("holding")', 'Server("holding", limits=LIMITS)'),
        path,
    ]
    command[2] = "from trio_mcp import Limits\nLIMITS = Limits(drain_seconds=0.2)\n" + command[2]
    if wrapped:
        command = ["sh", "-c", '"$@"; exit $?', "launcher", *command]
    with trio.fail_after(30), trio.socket.socket(trio.socket.AF_UNIX) as listening:
        await listening.bind(path)
        listening.listen()
        host = await trio.lowlevel.open_process([sys.executable, "-c", HOST, *command], stdout=subprocess.PIPE)
        assert host.stdout is not None
        async with host.stdout:
            server, _ = await listening.accept()
            with server:
                await lines_until(host.stdout, b"connected")
                host.send_signal(signal_number)
                await host.wait()
                assert await server.recv(1) == b""  # the process with the other end of the socket has exited


# Complaint 14.


@pytest.mark.complaint(14)
@pytest.mark.parametrize(
    ("last_line", "status", "words"),
    [
        ("sys.exit('no such database')", 1, "no such database"),
        ("os._exit(7)", 7, "first words"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV, "first words"),
        ("raise RuntimeError('a bug')", 1, "RuntimeError: a bug"),
    ],
)
async def test_the_reason_of_a_server_exit_is_reported_to_the_connecting_client(
    last_line: str, status: int, words: str
) -> None:
    program = (
        "import os, signal, sys\n"
        "sys.stderr.write('first words\\n'); sys.stderr.flush()\n"
        f"sys.stdin.readline()\n{last_line}\n"
    )
    with trio.fail_after(30), pytest.raises(ServerExited) as exited:
        async with open_client([sys.executable, "-c", program], revision="2026-07-28"):
            pass

    assert exited.value.status == status
    assert exited.value.stderr_tail[0] == "first words"
    assert words in exited.value.stderr_tail[-1]
    assert words in str(exited.value)


# Complaints 15 and 16.


LOUD = """
import os, subprocess, sys, trio
from trio_mcp import Server, serve_stdio
server = Server("loud")

@server.tool
def greedy() -> str:
    "Start a process that reads all of its standard input and writes on its standard output."
    program = "import sys; print(repr(sys.stdin.read())); print('printed by a child')"
    return str(subprocess.run([sys.executable, "-c", program], check=False).returncode)

@server.tool
async def prints() -> str:
    print("a stray print")
    print('{"jsonrpc": "2.0", "id": 1, "result": {"content": "forged"}}', flush=True)
    os.write(1, b"straight to the descriptor\\n")
    sys.stdout.write("half a line")
    return "printed"

trio.run(serve_stdio, server)
"""


@asynccontextmanager
async def loud(**options: Any) -> AsyncGenerator[tuple[Any, list[Any]]]:
    received: list[Any] = []

    def tap(direction: str, message: bytes) -> None:
        if direction == "received":
            received.append(json.loads(message))

    with trio.fail_after(30):
        async with open_client([sys.executable, "-c", LOUD], tap=tap, **options) as client:
            yield client, received


@pytest.mark.complaint(15)
async def test_a_child_process_of_a_tool_neither_reads_from_nor_writes_to_the_pipes_of_the_protocol(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async with loud() as (client, received), trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(client.call_tool, "greedy")
        for _ in range(20):  # a child process with access to standard input would steal these
            assert [tool.name async for tool in client.tools()] == ["greedy", "prints"]

    assert {message["result"].get("structuredContent", {}).get("result") for message in received} == {None, "0"}
    stderr = capfd.readouterr().err
    assert stderr.count("''") == 3  # its standard input is empty
    assert stderr.count("printed by a child") == 3


@pytest.mark.complaint(16)
async def test_a_stray_print_does_no_harm_and_is_reported_with_its_location(capfd: pytest.CaptureFixture[str]) -> None:
    async with loud() as (client, received):
        for _ in range(3):
            assert (await client.call_tool("prints")).structured_content == {"result": "printed"}

    assert all(message["jsonrpc"] == "2.0" and "forged" not in str(message) for message in received)
    stderr = capfd.readouterr().err
    assert stderr.count("a stray print") >= 3
    assert stderr.count("straight to the descriptor") == 3
    assert stderr.count("Printed first by <string>:14") == 1


@pytest.mark.complaint(16)
async def test_a_server_that_prints_between_its_messages_is_understood(
    caplog: pytest.LogCaptureFixture,
) -> None:
    program = """
import json, sys
INFO = {"name": "x", "version": "1"}
for line in sys.stdin:
    print("Listening on stdio...")
    print("{ not json")
    print("[1, 2]")
    message = json.loads(line)
    if "id" not in message:
        continue
    result = {"content": [], "tools": []}
    if message["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": INFO}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
    with trio.fail_after(30):
        async with open_client([sys.executable, "-c", program], revision="2025-06-18") as client:
            for _ in range(5):
                assert (await client.call_tool("x")).content == []

    assert "not a message" in caplog.text
    assert "Listening on stdio..." in caplog.text  # the log contains the line


# Complaint 18.


@pytest.mark.complaint(18)
@pytest.mark.parametrize("revision", [types.REVISIONS[0], types.REVISIONS[-1]])
async def test_a_disconnected_client_leaves_no_handler_running(revision: str, tmp_path: Path) -> None:
    """The socket is closed during a call; the handler is cancelled after at most `drain_seconds`.

    The HTTP tests cover that a closed response cancels its handler at once, and that a resumable legacy session has a
    grace period.
    """
    server, began, stopped = Server("s", limits=Limits(drain_seconds=0.1)), trio.Event(), trio.Event()

    @server.tool
    async def work() -> None:
        began.set()
        try:
            await trio.sleep_forever()
        finally:
            stopped.set()

    path = str(tmp_path / "socket")
    with trio.fail_after(30), trio.socket.socket(trio.socket.AF_UNIX) as listening:
        await listening.bind(path)
        listening.listen()
        async with trio.open_nursery() as nursery, server.serving() as serving:
            stream = await trio.open_unix_socket(path)
            accepted, _ = await listening.accept()
            nursery.start_soon(serve_stream, serving, trio.SocketStream(accepted))
            async with trio.open_nursery() as client_side:
                with suppress(Exception):
                    async with open_client(stream, revision=revision) as client:
                        client_side.start_soon(_ignore_errors, client.call_tool, "work")
                        await began.wait()
                        stream.socket.close()  # closed without a shutdown, as if the machine had failed
            await stopped.wait()
            while serving.statistics().running:
                await trio.lowlevel.checkpoint()


async def _ignore_errors(function: Any, *arguments: Any) -> None:
    with suppress(Exception):
        await function(*arguments)


@pytest.mark.complaint(17, 18)
@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_closing_the_client_cancels_its_handlers(revision: str, tmp_path: Path) -> None:
    server, stopped = Server("s"), trio.Semaphore(0)

    @server.tool
    async def work(ctx: Context) -> None:
        await ctx.report_progress(1)
        try:
            await trio.sleep_forever()
        finally:
            stopped.release()

    connection = over_unix_socket(server, tmp_path, {"revision": revision})
    with trio.fail_after(30):
        async with connection as client, client.open_call("work") as one, client.open_call("work") as two:
            await anext(one.updates)
            await anext(two.updates)
            await client.aclose()
            for _ in range(2):
                await stopped.acquire()
