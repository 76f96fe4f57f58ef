"""A process that serves ends even if a handler, a background task or the lifespan does not; it names the line.

The event loop, the signals and the exit are real: each test starts a process. `Limits.stop_seconds` is infinite where a
signal must end the process, so that nothing else can.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import define, field

from tests.interaction.scripted_peers import ENVELOPE
from trio_mcp import Client, ResponseLost, open_client

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and worker processes are POSIX's")

PROGRAM = Path(__file__).with_name("stuck_program.py")
STATUS = 199
SOON, NEVER = "0.1", "inf"
"""Values of `Limits.stop_seconds`."""
SERVE = [sys.executable, "-m", "trio_mcp", "serve", str(PROGRAM), "--http", "0"]


@define(eq=False)
class Stuck:
    """A process of the program, and what it has written to standard error."""

    process: trio.Process
    written: str = field(default="", init=False)

    async def until(self, words: str) -> None:
        """Read standard error until it contains *words*."""
        assert self.process.stderr is not None
        while words not in self.written:
            chunk = await self.process.stderr.receive_some()
            assert chunk, self.written
            self.written += chunk.decode()

    async def call(self, tool: str) -> None:
        """Call a tool over stdio, and wait for its first report."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        params = {"name": tool, "_meta": ENVELOPE | {"progressToken": 1}}
        message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
        await self.process.stdin.send_all(json.dumps(message).encode() + b"\n")
        if tool in {"block", "spin"}:
            await self.until("blocking")
        else:
            assert await self.process.stdout.receive_some()

    async def end_input(self) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.aclose()

    async def status(self) -> int:
        """Wait until the process has ended, and return its status."""
        assert self.process.stderr is not None
        async for chunk in self.process.stderr:
            self.written += chunk.decode()
        return await self.process.wait()

    def line_of(self, name: str) -> str:
        """Return the line of the program that the log names for what does not end."""
        (place,) = re.findall(
            rf"^{re.escape(name)} (?:does not end; it stands|is blocked) at (.*)$", self.written, re.MULTILINE
        )
        return str(place)


@asynccontextmanager
async def stuck(*command: str, seconds: str, lifespan: str = "") -> AsyncGenerator[Stuck]:
    env = {**os.environ, "STUCK_SECONDS": seconds, "STUCK_LIFESPAN": lifespan}
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with trio.fail_after(60):
        process = await trio.lowlevel.open_process([*(command or (sys.executable, str(PROGRAM)))], env=env, **pipes)
        try:
            yield Stuck(process)
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
                for pipe in (process.stdin, process.stdout, process.stderr):
                    assert pipe is not None
                    await pipe.aclose()


def line(words: str) -> str:
    """Return the place of a line of the program, as the log names it."""
    lines = PROGRAM.read_text().splitlines()
    number = next(number for number, each in enumerate(lines, 1) if words in each)
    function = next(each for each in reversed(lines[:number]) if "def " in each).partition("def ")[2].partition("(")[0]
    return f"{PROGRAM}:{number} in {function}"


async def test_after_the_end_of_input_a_handler_that_swallows_its_cancellation_is_named_and_ended() -> None:
    async with stuck(seconds=SOON) as server:
        await server.call("swallow")
        await server.end_input()
        assert await server.status() == STATUS

    assert server.line_of("tools/call 'swallow' (request 7)") == line("trio.sleep(FOREVER)")
    assert "the next SIGINT or SIGTERM ends this process, or 0.1 s\n" in server.written
    assert server.written.endswith("this process ends with status 199, because something in it does not end\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_next_signal_ends_a_process_whose_handler_was_named(number: int) -> None:
    async with stuck(seconds=NEVER) as server:
        await server.call("swallow")
        for _ in range(3):  # before, a signal means no more than the first
            server.process.send_signal(number)
        await server.until("the next SIGINT or SIGTERM ends this process\n")
        server.process.send_signal(number)
        assert await server.status() == STATUS

    assert server.line_of("tools/call 'swallow' (request 7)") == line("trio.sleep(FOREVER)")


async def test_a_second_signal_before_the_end_of_the_drain_ends_nothing() -> None:
    """The handler is answered although signals go on and on."""
    program = """
import os, signal, trio
from trio_mcp import Server, serve_stdio
server = Server("s")

@server.tool
async def finish() -> str:
    for _ in range(5):
        os.kill(os.getpid(), signal.SIGTERM)
        await trio.lowlevel.checkpoint()
    return "done"

trio.run(serve_stdio, server)
"""
    async with stuck(sys.executable, "-c", program, seconds=NEVER) as server:
        await server.call("finish")
        assert await server.status() == 0
    assert server.written == ""


@pytest.mark.parametrize(("tool", "standing"), [("block", "time.sleep"), ("spin", "pass")])
async def test_a_handler_that_blocks_the_event_loop_is_named_and_ended(tool: str, standing: str) -> None:
    async with stuck(seconds=SOON) as server:
        await server.call(tool)
        server.process.send_signal(signal.SIGTERM)
        assert await server.status() == STATUS

    assert server.line_of("the event loop").rpartition(" in ")[2] == tool
    assert server.line_of("the event loop").startswith(f"{PROGRAM}:")


async def test_the_next_signal_ends_a_process_whose_event_loop_is_blocked() -> None:
    async with stuck(seconds=NEVER) as server:
        await server.call("block")
        server.process.send_signal(signal.SIGINT)
        await server.until("the next SIGINT or SIGTERM ends this process\n")
        server.process.send_signal(signal.SIGINT)
        assert await server.status() == STATUS

    assert server.line_of("the event loop") == line("    time.sleep(FOREVER)")


async def test_a_handler_that_blocks_the_event_loop_when_it_is_cancelled_is_named_and_ended() -> None:
    async with stuck(seconds=SOON) as server:
        await server.call("block_at_the_end")
        await server.end_input()
        assert await server.status() == STATUS

    assert server.line_of("the event loop").endswith("in block_at_the_end")


async def test_a_background_task_that_swallows_its_cancellation_is_named_and_ended() -> None:
    async with stuck(seconds=SOON) as server:
        await server.call("background")
        await server.end_input()
        assert await server.status() == STATUS

    assert server.line_of("background task stay") == line("trio.sleep(FOREVER)")


async def test_a_lifespan_that_is_not_left_is_named_and_ended() -> None:
    async with stuck(seconds=SOON, lifespan="leaving") as server:
        await server.end_input()
        assert await server.status() == STATUS

    assert server.line_of("the lifespan").endswith(" in lifespan")


async def test_a_lifespan_that_swallows_its_cancellation_while_it_is_entered_is_named_and_ended() -> None:
    async with stuck(seconds=SOON, lifespan="entering") as server:
        await server.until("blocking")
        server.process.send_signal(signal.SIGTERM)
        assert await server.status() == STATUS

    assert server.line_of("the lifespan") == line("trio.sleep(FOREVER)")


async def test_a_thread_that_goes_on_does_not_keep_the_process() -> None:
    async with stuck(seconds=NEVER) as server:
        await server.call("thread")
        await server.end_input()
        assert await server.status() == 0

    (words,) = re.findall(
        r"^tools/call 'thread' \(request 7\) goes on in a worker thread after the stop; .* (in .*)$",
        server.written,
        re.MULTILINE,
    )
    assert words == "in thread"


async def test_over_sockets_a_handler_that_swallows_its_cancellation_is_named_and_ended() -> None:
    async with stuck(sys.executable, str(PROGRAM), "tcp", seconds=SOON) as server:
        assert server.process.stdout is not None
        port = int(await server.process.stdout.receive_some())
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with open_client(stream) as client, client.open_call("swallow") as call:
            await anext(call.updates)
            server.process.send_signal(signal.SIGTERM)
            assert await server.status() == STATUS

    assert "tools/call 'swallow' (request" in server.written
    assert line("trio.sleep(FOREVER)") in server.written


async def serving_at(server: Stuck) -> str:
    await server.until("\n")
    return server.written.rpartition(" at ")[2].strip()


@pytest.mark.parametrize("workers", [[], ["--workers", "2"]], ids=["one process", "workers"])
@pytest.mark.parametrize("ends", ["time", "the next signal"])
async def test_over_http_a_handler_that_swallows_its_cancellation_is_named_and_ended(
    workers: list[str], ends: str
) -> None:
    async with stuck(*SERVE, *workers, seconds=SOON if ends == "time" else NEVER) as server:
        url = await serving_at(server)
        async with open_client(url) as client, client.open_call("swallow") as call:
            await anext(call.updates)
            server.process.send_signal(signal.SIGINT)
            if ends != "time":
                await server.until("the next SIGINT or SIGTERM ends this process\n")
                server.process.send_signal(signal.SIGINT)
            assert await server.status() == STATUS

    assert "tools/call 'swallow' (request" in server.written
    assert line("trio.sleep(FOREVER)") in server.written


async def lose(client: Client) -> None:
    """Make a call during which the server dies."""
    with pytest.raises(ResponseLost):
        await client.call_tool("block")


async def test_a_worker_process_whose_event_loop_is_blocked_does_not_hold_its_parent() -> None:
    async with stuck(*SERVE, "--workers", "2", seconds=SOON) as server, trio.open_nursery() as nursery:
        url = await serving_at(server)
        async with open_client(url) as client:
            nursery.start_soon(lose, client)
            await server.until("blocking")
            server.process.send_signal(signal.SIGTERM)
            assert await server.status() == STATUS

    assert server.line_of("the event loop") == line("    time.sleep(FOREVER)")
