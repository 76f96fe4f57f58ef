"""Gateways whose processes die, and whose servers are killed and stopped: no process outlives the gateway."""

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
import trio.testing

from tests.client.test_many import wait_until_gone
from tests.gateway.upstreams import text_of
from trio_mcp import Client, ConnectionLost, ErrorResponse, Restart, open_client
from trio_mcp.gateway import Gateway

PROGRAMS = Path(__file__).parent / "programs"
ECHO = Path(__file__).parents[1] / "client" / "programs" / "echo_server.py"
TIMEOUT_SECONDS = 60
SECONDS_TO_END = 30
"""The seconds within which all is over, on a busy machine; it takes less than one, or five for stubborn programs."""


def gateway_command(**programs: Path) -> list[str]:
    servers = [f"{name}={program}" for name, program in programs.items()]
    return [sys.executable, str(PROGRAMS / "gateway_server.py"), *servers]


@asynccontextmanager
async def gateway_process(**programs: Path) -> AsyncGenerator[tuple[trio.Process, Client]]:
    """Run a gateway as a process, as a host does that takes care of nothing."""
    process = await trio.lowlevel.open_process(
        gateway_command(**programs), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(os.environ)
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with trio.fail_after(TIMEOUT_SECONDS):
            async with open_client(trio.StapledStream(process.stdin, process.stdout)) as client:
                yield process, client
    finally:
        process.kill()
        await process.wait()


async def process_of(client: Client, server: str) -> int:
    return await client.call_tool(f"{server}__process", returns=int)


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


async def is_lost(client: Client) -> None:
    """Make a call that is not answered."""
    with pytest.raises((ConnectionLost, ErrorResponse)):
        await client.call_tool("first__echo", {"number": 1, "seconds": 1000.0})


async def end(process: trio.Process, client: Client, how: str) -> None:
    """End a gateway, or the connection to it."""
    match how:
        case "SIGTERM" | "SIGKILL" | "SIGINT":
            process.send_signal(signal.Signals[how])
        case _:
            await client.aclose()


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "SIGKILL", "its input ends"])
async def test_no_server_outlives_the_gateway_however_it_ends(how: str) -> None:
    async with gateway_process(first=ECHO, second=ECHO) as (process, client), trio.open_nursery() as nursery:
        children = [await process_of(client, name) for name in ("first", "second")]
        assert len({*children, process.pid}) == 3
        nursery.start_soon(is_lost, client)
        await trio.testing.wait_all_tasks_blocked()
        await end(process, client, how)
        with trio.fail_after(SECONDS_TO_END):
            await process.wait()
            for child in children:
                await wait_until_gone(child)


@pytest.mark.parametrize("how", ["SIGTERM", "its input ends"])
async def test_a_server_that_does_not_want_to_end_is_killed_with_the_gateway(how: str) -> None:
    async with gateway_process(first=PROGRAMS / "stubborn_server.py", second=ECHO) as (process, client):
        children = [await process_of(client, name) for name in ("first", "second")]
        os.kill(children[1], signal.SIGSTOP)
        await end(process, client, how)
        with trio.fail_after(SECONDS_TO_END):
            await process.wait()
            for child in children:
                await wait_until_gone(child)


async def test_a_client_of_this_package_ends_what_a_killed_gateway_could_not_end() -> None:
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_client(gateway_command(first=PROGRAMS / "stubborn_server.py")) as client:
            child = await process_of(client, "first")
            gateway = parent_of(child)
            os.kill(gateway, signal.SIGKILL)
        await wait_until_gone(child)


def descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


async def test_servers_that_are_killed_or_stopped_leave_no_process_and_no_descriptor() -> None:
    before, processes = descriptors(), list[int]()
    gateway = Gateway("front")
    for name in ("first", "second"):
        command: list[Any] = [sys.executable, ECHO]
        gateway.mount(command, name=name, prefix=name, restart=Restart(after=0.01), timeout=2)
    with trio.fail_after(TIMEOUT_SECONDS):
        async with open_client(gateway) as client:
            for number in range(3):
                first = await process_of(client, "first")
                processes.append(first)
                os.kill(first, signal.SIGKILL)
                echo = {"number": number, "seconds": 0.0}
                assert await client.call_tool("second__echo", echo, returns=int) == number
                while await gone(client, first):
                    pass
            second = await process_of(client, "second")
            os.kill(second, signal.SIGSTOP)
            assert "'second' behind this gateway did not answer in time" in text_of(
                await client.call_tool("second__echo", {"number": 1, "seconds": 0.0})
            )
            await gateway.upstreams["second"].restart()
            processes += [second, await process_of(client, "second"), await process_of(client, "first")]
            assert [each.restarts for each in gateway.status.values()] == [3, 1]
    for process in processes:
        await wait_until_gone(process)
    assert descriptors() == before


async def gone(client: Client, process: int) -> bool:
    """Return True unless another process answers by now."""
    result = await client.call_tool("first__process")
    return bool(result.is_error) or text_of(result) == str(process)
