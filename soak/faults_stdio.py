"""The faults over stdio: servers that are killed or suspended, and clients that do not read or disconnect."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import trio

from trio_mcp import ConnectionLost

from .accounting import KILL, SAFE
from .load import start_many_calls
from .places import ERAS, ROOT, Fault, Place, Watched, stdio_command
from .raw_client import RawClient, leave_at_work, read_late
from .shared_faults import SHARED, inside, pid_of

__all__ = ["STDIO_FAULTS"]

_ENDS_WITHIN = 20.0
"""The seconds within which a server must exit after its client is gone."""


@asynccontextmanager
async def server_killed(place: Place) -> AsyncGenerator[Watched]:
    """Kill a server with calls in flight: each call fails, and the client survives."""
    async with place.client(place.rng.choice(ERAS)) as client:
        pid = await pid_of(client)
        async with trio.open_nursery() as nursery:
            start_many_calls(nursery, client, place.book, peril=KILL)
            await trio.sleep(place.rng.uniform(0, 0.2))
            os.kill(pid, signal.SIGKILL)
        try:
            await inside(client)
        except ConnectionLost:
            pass
        else:
            place.book.fault("a server that was killed still answers")
        yield {}


@asynccontextmanager
async def server_frozen(place: Place) -> AsyncGenerator[Watched]:
    """Suspend a server with calls in flight and resume it: every call is answered."""
    async with place.client(place.rng.choice(ERAS)) as client, trio.open_nursery() as nursery:
        pid = await pid_of(client)
        start_many_calls(nursery, client, place.book, peril=SAFE)
        await trio.sleep(place.rng.uniform(0, 0.1))
        os.kill(pid, signal.SIGSTOP)
        try:
            yield {"frozen server": pid}
        finally:
            os.kill(pid, signal.SIGCONT)


@asynccontextmanager
async def raw_client(place: Place) -> AsyncGenerator[tuple[RawClient, int]]:
    """Run a server process, and yield its client and its pid; at the end the client disconnects and it must exit."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = await trio.lowlevel.open_process(stdio_command(place.folder), cwd=ROOT, **pipes)
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None
    try:
        async with stdin, stdout:
            yield RawClient(place.book, lambda message: stdin.send_all(message + b"\n"), _lines(stdout)), process.pid
        with trio.move_on_after(_ENDS_WITHIN):
            await process.wait()
        if process.returncode is None:
            place.book.fault(f"a server still ran {_ENDS_WITHIN:g} s after its client had disconnected")
    finally:
        with trio.CancelScope(shield=True):
            if process.returncode is None:
                process.kill()
            await process.wait()


async def _lines(stream: trio.abc.ReceiveStream) -> AsyncGenerator[bytes]:
    waiting = b""
    async for chunk in stream:
        *lines, waiting = (waiting + bytes(chunk)).split(b"\n")
        for line in lines:
            yield line


@asynccontextmanager
async def slow_reader(place: Place) -> AsyncGenerator[Watched]:
    """Request an answer larger than the pipe buffer and read it much later: it is complete and not duplicated."""
    async with raw_client(place) as (peer, pid), read_late(peer, place.book):
        yield {"server that is not read": pid}


@asynccontextmanager
async def hung_up(place: Place) -> AsyncGenerator[Watched]:
    """Disconnect without notice with calls in flight: the server and its handlers end."""
    async with raw_client(place) as (peer, _):
        await leave_at_work(peer, place.book)
        await trio.sleep(place.rng.uniform(0, 0.5))
    yield {}


STDIO_FAULTS: Mapping[str, Fault] = {
    "server killed": server_killed,
    "server frozen": server_frozen,
    "slow reader": slow_reader,
    "hung up": hung_up,
    **SHARED,
}
