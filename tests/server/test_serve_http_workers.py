"""`serve_http(workers=...)`: the program of the server runs again in each further process."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from tests.cli.command import environment
from trio_mcp import Client, MemoryShared, Server, open_http_client, serve_http

PROGRAM = """
import os
import sys
from functools import partial
import trio
from trio_mcp import Server, SqliteShared, serve_http

server = Server("many")


@server.tool
async def process() -> list[object]:
    return [os.getpid(), sys.argv[1:]]


async def main():
    async with trio.open_nursery() as nursery:
        bound = await nursery.start(partial(serve_http, server, port=0, workers=2, {options}))
        print(bound.url, flush=True)
        {then}


{start}
"""
STARTED = {
    "a started server": ("trio.run(main)", "await trio.sleep_forever()"),
    "a server that is stopped": ("trio.run(main)", "await trio.sleep(1)\n        await bound.stop()"),
}


@asynccontextmanager
async def running(path: Path, *arguments: str) -> AsyncGenerator[tuple[trio.Process, str]]:
    """Run a program; yield its process and the first line that it prints."""
    command = [sys.executable, str(path), *arguments]
    process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE, env=environment())
    try:
        assert process.stdout is not None
        with trio.fail_after(60):
            line = b""
            while not line.endswith(b"\n"):
                line += await process.stdout.receive_some(1)
        yield process, line.decode().strip()
    finally:
        if process.poll() is None:
            process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
        assert process.stdout is not None
        await process.stdout.aclose()


def program(path: Path, how: str, options: str = "") -> Path:
    start, then = STARTED[how]
    path.write_text(PROGRAM.format(options=options, start=start, then=then))
    return path


async def processes_of(client: Client) -> set[int]:
    """Return the processes that answer, one connection after the other."""
    answers = [await client.call_tool("process", returns=list[object]) for _ in range(20)]
    assert all(arguments == ["an argument"] for _, arguments in answers)
    return {int(str(process)) for process, _ in answers}


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
@pytest.mark.parametrize("options", ["", "shared=SqliteShared(sys.argv[0] + '.db')"])
async def test_each_process_runs_the_program_with_its_arguments_and_serves_every_revision(
    tmp_path: Path, revision: str, options: str
) -> None:
    path = program(tmp_path / "many.py", "a started server", options)
    async with running(path, "an argument") as (process, url):
        seen: set[int] = set()
        with trio.fail_after(60):
            while len(seen) < 2:  # the fastest process accepts a connection
                async with open_http_client(url, revision=revision) as client:
                    seen |= await processes_of(client)
        assert process.pid not in seen
        process.send_signal(signal.SIGTERM)


async def test_a_program_stops_its_processes(tmp_path: Path) -> None:
    path = program(tmp_path / "many.py", "a server that is stopped")
    async with running(path, "an argument") as (process, _):
        with trio.fail_after(60):
            assert await process.wait() == 0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"workers": 0}, "workers=0: must be an integer above 0"),
        ({"workers": 2, "worker_timeout": 0.0}, r"worker_timeout=0\.0: must be a number above 0"),
        ({"workers": "2"}, "workers='2': must be an integer above 0"),
        ({"workers": 2, "shared": MemoryShared()}, r"shared=MemoryShared\(\): .* use SqliteShared\(path\)"),
    ],
)
async def test_options_that_cannot_work_are_refused(options: dict[str, object], complaint: str) -> None:
    with trio.fail_after(30), pytest.raises(ValueError, match=complaint):
        await serve_http(Server("s"), port=0, **options)  # type: ignore[arg-type]  # which is the point


async def test_a_backend_of_another_kind_is_refused() -> None:
    with (
        trio.fail_after(30),
        pytest.raises(TypeError, match=r"shared='redis://x': must be a backend such as RedisShared"),
    ):
        await serve_http(Server("s"), port=0, shared="redis://x")  # type: ignore[arg-type]  # which is the point
