"""Run `trio-mcp` as users do: with pipes, or on a pseudo-terminal."""

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
"""The end of a command line that names the sample server."""

ON_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "trio_mcp", *sys.argv[1:]])
"""


def raw(**config: Any) -> list[str]:
    """Return the end of a command line that starts a scripted server; see `raw_server.py`."""
    return ["--", sys.executable, str(PROGRAMS / "raw_server.py"), json.dumps(config)]


def environment() -> dict[str, str]:
    """Return an environment without the variables by which rich overrides the terminal."""
    overriding = ("COLUMNS", "FORCE_COLOR", "LINES", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
    return {name: value for name, value in os.environ.items() if name not in overriding} | {"TERM": "xterm-256color"}


def run(
    *arguments: str, cwd: Path | None = None, stdin: bytes = b"", **variables: str
) -> subprocess.CompletedProcess[bytes]:
    """Run the command with pipes, and with *variables* in its environment; return its output."""
    command = [sys.executable, "-m", "trio_mcp", *arguments]
    return subprocess.run(
        command, input=stdin, capture_output=True, cwd=cwd, env={**environment(), **variables}, timeout=60, check=False
    )


@define(eq=False)
class Terminal:
    """A pseudo-terminal on which the command runs."""

    process: trio.Process
    _stream: trio.lowlevel.FdStream
    _unread: str = field(default="", init=False)
    shown: str = field(default="", init=False)
    """All output so far."""

    async def until(self, expected: str) -> str:
        """Wait until *expected* is shown; return all output since the last call, up to and including it."""
        while expected not in self._unread:
            chunk = await self._receive()
            assert chunk, self.shown
        before, _, self._unread = self._unread.partition(expected)
        return before + expected

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
        with suppress(trio.BrokenResourceError):  # raised at the end of the terminal
            chunk = await self._stream.receive_some()
        text = bytes(chunk).decode("utf-8", "replace").replace("\r\n", "\n")
        self._unread += text
        self.shown += text
        return text


@asynccontextmanager
async def terminal(*arguments: str, stdout: IO[bytes] | None = None, columns: int = 100) -> AsyncGenerator[Terminal]:
    """Run the command on a terminal of some *columns*; *stdout* redirects its standard output."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))  # rows, columns
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
