"""Reading and writing real pipes: writes that do not wait, readers that wait, and closed ends."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trio_mcp.transports.stdio._pipes import PipeStream, read_pipe, wake_reader, write_now

if sys.platform == "win32":
    pytest.skip("the pipes are those of POSIX", allow_module_level=True)

MORE_THAN_FITS = bytes(2**20)
TIMEOUT_SECONDS = 30  # seconds: far more than any test needs, so that a test that hangs fails


@pytest.fixture
async def ends() -> AsyncGenerator[tuple[trio.lowlevel.FdStream, trio.lowlevel.FdStream]]:
    """Open a pipe; yield its reading end and its writing end."""
    reading, writing = map(trio.lowlevel.FdStream, os.pipe())
    async with reading, writing:
        yield reading, writing


Ends = tuple[trio.lowlevel.FdStream, trio.lowlevel.FdStream]


async def test_data_that_is_written_without_waiting_is_read(ends: Ends) -> None:
    reading, writing = ends
    assert write_now(writing, b"abc") == 3
    assert await read_pipe(reading) == b"abc"


async def test_a_pipe_accepts_a_part_of_the_data_and_nothing_once_it_is_full(ends: Ends) -> None:
    reading, writing = ends
    written = write_now(writing, MORE_THAN_FITS)
    assert 0 < written < len(MORE_THAN_FITS)
    assert write_now(writing, b"abc") == 0

    assert len(await read_pipe(reading, 10)) == 10


async def test_a_pipe_without_a_reader_accepts_nothing(ends: Ends) -> None:
    reading, writing = ends
    await reading.aclose()
    assert write_now(writing, b"abc") == 0

    with pytest.raises(trio.BrokenResourceError):
        await writing.send_all(b"abc")


async def test_a_closed_pipe_accepts_nothing(ends: Ends) -> None:
    _, writing = ends
    await writing.aclose()
    assert write_now(writing, b"abc") == 0


async def test_the_end_of_a_pipe_is_read_as_no_bytes(ends: Ends) -> None:
    reading, writing = ends
    await writing.aclose()
    assert await read_pipe(reading) == b""


async def test_a_waiting_reader_is_woken(nursery: trio.Nursery, ends: Ends) -> None:
    reading, writing = ends
    woken = trio.Event()

    async def read() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await read_pipe(reading)
        woken.set()

    nursery.start_soon(read)
    await wait_all_tasks_blocked()
    wake_reader(reading)
    with trio.fail_after(TIMEOUT_SECONDS):
        await woken.wait()

    write_now(writing, b"abc")
    assert await read_pipe(reading) == b"abc"


async def test_a_closed_pipe_wakes_no_task_and_cannot_be_read(ends: Ends) -> None:
    reading, _ = ends
    await reading.aclose()
    wake_reader(reading)

    with pytest.raises(trio.ClosedResourceError):
        await read_pipe(reading)


async def test_a_regular_file_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    async with trio.lowlevel.FdStream(os.open(path, os.O_RDONLY)) as stream:
        assert await read_pipe(stream, 2) == b"ab"
        assert await read_pipe(stream, 2) == b"c"
        assert await read_pipe(stream, 2) == b""


async def test_two_pipes_are_one_stream_that_closes_both(ends: Ends) -> None:
    reading, writing = ends
    stream = PipeStream(writing, reading)
    await stream.wait_send_all_might_not_block()
    assert stream.send_now(b"a") == 1
    await stream.send_all(b"b")
    assert await stream.receive_some() == b"ab"

    await stream.aclose()
    assert (reading.fileno(), writing.fileno()) == (-1, -1)
    with pytest.raises(trio.ClosedResourceError):
        await stream.receive_some()


async def test_a_regular_file_is_a_stream_that_ends(tmp_path: Path, ends: Ends) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    async with PipeStream(ends[1], trio.lowlevel.FdStream(os.open(path, os.O_RDONLY))) as stream:
        assert await stream.receive_some() == b"abc"
        assert await stream.receive_some() == b""
