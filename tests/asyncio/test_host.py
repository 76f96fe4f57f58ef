"""How the loop of asyncio runs Trio: without a thread where it can watch Trio's I/O, with one elsewhere."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.asyncio.bridged_server import server as bridged_server
from trio_mcp import RequestTimedOut, ResourceUpdated, Server, TimeLimits
from trio_mcp.asyncio import open_client

COMMAND = [sys.executable, str(Path(__file__).with_name("bridged_server.py"))]
SECONDS = 60.0


class WithoutReaders(asyncio.SelectorEventLoop):
    """A loop that cannot watch files for others, as that of Windows."""

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:  # type: ignore[override]
        raise NotImplementedError


def run(main: Callable[[], Awaitable[None]], new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None) -> None:
    async def limited() -> None:
        async with asyncio.timeout(SECONDS):
            await main()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(limited())


THREADS = """
import asyncio, threading, uvloop
from trio_mcp import Server
from trio_mcp.asyncio import open_client

server = Server("s")

@server.tool
async def sleep() -> None:
    import trio
    await trio.sleep(0.01)

async def main():
    async with open_client(server) as client:
        await client.call_tool("sleep")
        print([thread.name for thread in threading.enumerate()])

with asyncio.Runner(loop_factory=LOOP) as runner:
    runner.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only there the loop watches the I/O of Trio")
@pytest.mark.parametrize("loop", ["None", "uvloop.new_event_loop"])
def test_a_call_needs_no_thread(loop: str) -> None:
    program = [sys.executable, "-c", THREADS.replace("LOOP", loop)]
    done = subprocess.run(program, capture_output=True, check=True, text=True, timeout=SECONDS)

    assert done.stdout == "['MainThread']\n"


async def call_and_time_out() -> None:
    async with open_client(COMMAND, time_limits=TimeLimits(total=0.5)) as client:
        with pytest.raises(RequestTimedOut):
            await client.call_tool("hang")
        assert await client.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3


def test_a_loop_that_cannot_watch_files_has_trio_wait_in_a_thread() -> None:
    run(call_and_time_out, WithoutReaders)


def test_a_trio_without_an_epoll_waits_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: object) -> None:
        return None

    monkeypatch.setattr("trio_mcp.asyncio._host._epoll_of", none)
    run(call_and_time_out)


def test_a_deadline_of_trio_expires_while_nothing_else_happens() -> None:
    run(call_and_time_out)


def test_handlers_that_are_always_ready_leave_the_loop_its_turn() -> None:
    server, turns = Server("busy"), list[int]()

    @server.tool
    async def spin() -> str:
        while len(turns) < 3:
            await trio.lowlevel.checkpoint()
        return "enough"

    async def main() -> None:
        async with open_client(server) as client:
            call = asyncio.create_task(client.call_tool("spin", returns=str))
            for turn in range(3):
                await asyncio.sleep(0)
                turns.append(turn)
            assert await call == "enough"

    run(main)


def test_a_cancelled_reader_loses_no_change_whenever_it_is_cancelled() -> None:
    received: list[bool] = []

    async def main() -> None:
        async with open_client(bridged_server) as client, client.listen(resources=["note://a"]) as changes:
            for turns in range(40):
                reader = asyncio.create_task(anext(changes))
                await asyncio.sleep(0)
                change = asyncio.create_task(client.call_tool("change"))
                for _ in range(turns):
                    await asyncio.sleep(0)
                reader.cancel()
                await asyncio.wait([reader])
                received.append(not reader.cancelled())
                await change
                if reader.cancelled():
                    assert await anext(changes) == ResourceUpdated("note://a")

    run(main)
    assert set(received) == {True, False}
