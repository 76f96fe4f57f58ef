"""Processes that use a backend together, and what must be true of it afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import trio
from trio.lowlevel import open_process

from tests.shared.programs.backends import backend_of
from trio_mcp.abc import SharedState

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[2]


@asynccontextmanager
async def running(program: str, *arguments: str) -> AsyncGenerator[trio.Process]:
    """Run a program until the end of the block."""
    command = [sys.executable, str(PROGRAMS / program), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = await open_process(command, stdout=subprocess.PIPE, env=environment)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            assert process.stdout is not None
            await process.stdout.aclose()


async def lines_of(process: trio.Process) -> AsyncGenerator[str]:
    """Yield what a process prints, line by line."""
    assert process.stdout is not None
    buffered = b""
    async for data in process.stdout:
        *lines, buffered = (buffered + data).split(b"\n")
        for line in lines:
            yield line.decode()


async def check_writers(url: str) -> None:
    """Check that processes count and append at once without losing anything, and that another one follows it all."""
    writers, turns = 3, 20
    count = writers * turns * 3
    followed: list[str] = []
    async with backend_of(url).open() as state, running("follow.py", url, "written", str(count)) as follower:
        async with aclosing(lines_of(follower)) as lines:
            assert await anext(lines) == "ready"
            async with trio.open_nursery() as nursery:
                for number in range(writers):
                    nursery.start_soon(run_writer, url, str(number), turns)
                followed = [line async for line in lines]
        assert await state.get("count") == b"%d" % (writers * turns)
        entries = await all_entries(state)
    assert followed == [f"{number} {entry} False" for number, entry in enumerate(entries, 1)]
    check_entries(entries)
    for number in range(writers):
        assert [entry for entry in entries if entry.startswith(f"{number} ")] == [
            f"{number} {turn} {part}" for turn in range(turns) for part in range(3)
        ]


async def run_writer(url: str, name: str, turns: int) -> None:
    async with running("write.py", url, name, str(turns)) as writer:
        assert [line async for line in lines_of(writer)] != []
        assert await writer.wait() == 0


async def check_killed_writer(url: str) -> None:
    """Check that a process that is killed in the middle of writing leaves nothing half done, and loses nothing."""
    async with backend_of(url).open() as state:
        for kill in range(3):
            async with running("write.py", url, f"{kill}", "100000") as writer, aclosing(lines_of(writer)) as lines:
                last = [int(await anext(lines)) for _ in range(10)][-1]
                writer.send_signal(signal.SIGKILL)
            entries = await all_entries(state)
            assert len(entries) == await state.last("written") >= last
            check_entries(entries)
            count = await state.get("count")
            assert count is not None
            assert int(count) >= len(entries) // 3


def check_entries(entries: list[str]) -> None:
    """Check that the entries of each append are complete and together."""
    assert len(entries) % 3 == 0
    for at in range(0, len(entries), 3):
        start = entries[at].rpartition(" ")[0]
        assert entries[at : at + 3] == [f"{start} {part}" for part in range(3)]


async def all_entries(state: SharedState) -> list[str]:
    found: list[str] = []
    while (part := await state.read("written", len(found))).entries:
        assert not part.is_gap
        found += [entry.decode() for entry in part.entries]
    return found
