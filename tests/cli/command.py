"""Runs `trio-mcp` as users do: with pipes, or on a terminal of its own."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, Any

import trio
from attrs import define, field

PROGRAMS = Path(__file__).with_name("programs")
SAMPLE = ["--", sys.executable, str(PROGRAMS / "sample_server.py")]
"""The end of a command line that means the sample server."""

ON_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "trio_mcp", *sys.argv[1:]])
"""
SIZE = struct.pack("HHHH", 50, 100, 0, 0)  # rows, columns


def raw(**config: Any) -> list[str]:
    """Return the end of a command line that means a server by hand; see `raw_server.py`."""
    return ["--", sys.executable, str(PROGRAMS / "raw_server.py"), json.dumps(config)]


def environment() -> dict[str, str]:
    """Return an environment in which rich looks at the terminal and at nothing else."""
    told = ("COLUMNS", "FORCE_COLOR", "LINES", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
    return {name: value for name, value in os.environ.items() if name not in told} | {"TERM": "xterm-256color"}


def run(*arguments: str, cwd: Path | None = None, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run the command with pipes."""
    command = [sys.executable, "-m", "trio_mcp", *arguments]
    return subprocess.run(
        command, input=stdin, capture_output=True, cwd=cwd, env=environment(), timeout=60, check=False
    )


@define(eq=False)
class Terminal:
    """A terminal with the command in front."""

    process: trio.Process
    _stream: trio.lowlevel.FdStream
    _unread: str = field(default="", init=False)
    shown: str = field(default="", init=False)
    """Everything that was shown so far."""

    async def until(self, words: str) -> str:
        """Wait until the words are shown; return them and what came before, since the last such wait."""
        while words not in self._unread:
            chunk = await self._receive()
            assert chunk, self.shown
        before, _, self._unread = self._unread.partition(words)
        return before + words

    async def type(self, text: str) -> None:
        """Type on the keyboard."""
        await self._stream.send_all(text.encode())

    async def end(self) -> int:
        """Wait for the end of the command; return its exit status."""
        while await self._receive():
            pass
        return await self.process.wait()

    async def _receive(self) -> str:
        chunk = b""
        with suppress(trio.BrokenResourceError):  # how the end of a terminal is told
            chunk = await self._stream.receive_some()
        text = bytes(chunk).decode("utf-8", "replace").replace("\r\n", "\n")
        self._unread += text
        self.shown += text
        return text


@asynccontextmanager
async def terminal(*arguments: str, stdout: IO[bytes] | None = None) -> AsyncGenerator[Terminal]:
    """Run the command on a terminal of 100 columns that it leads, perhaps with its output elsewhere."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, SIZE)
    process = await trio.lowlevel.open_process(
        [sys.executable, "-c", ON_TERMINAL, *arguments],
        stdin=theirs,
        stdout=theirs if stdout is None else stdout,
        stderr=theirs,
        env=environment(),
        start_new_session=True,
    )
    os.close(theirs)
    stream = trio.lowlevel.FdStream(ours)
    try:
        with trio.fail_after(60):
            yield Terminal(process, stream)
    finally:
        if process.returncode is None:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
        await stream.aclose()
