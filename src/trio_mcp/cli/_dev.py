"""The command `dev`: it serves a program over HTTP, and serves it anew whenever a file of it changes.

Rules of this file:

1. This process binds the port and keeps it. The program runs in a child process that inherits the sockets, so clients
   that connect in between wait. A client with a session starts a new one, as after every restart of a server.
2. A program that cannot be imported, or ends, is not started again before a file changes.
3. Files are compared by time and size, and a change counts once nothing changes any more: editors write in steps.

Tool: https://modelcontextprotocol.io/docs/tools/inspector
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeAlias

import trio
from attrs import define, field

from .._util import owned_nursery
from ..transports import HttpListening, HttpSockets, bind_sockets, inheritance_variables, kill_group
from ._connect import Interrupts
from ._errors import UsageError
from ._output import Notes

__all__ = ["develop"]

_LOOK_SECONDS = 0.25
"""The time between two looks at the files."""
_STOP_SECONDS = 3.0
"""The time that a program has to stop before it is killed."""
_NO_MODULES = frozenset({"__pycache__", "node_modules", "site-packages"})
_ENDPOINT = "/mcp"

_Files: TypeAlias = Mapping[Path, tuple[int, int]]
"""The time and the size of each file."""


def develop(options: argparse.Namespace) -> None:
    """Run the command until a signal arrives.

    Raises:
        UsageError: there is no such file, npx is missing, or this system cannot pass sockets to a child process.
        Interrupted: a signal has arrived.
        OSError: the port cannot be bound.
    """
    if sys.platform == "win32":  # pragma: no cover # the tests run on POSIX
        raise UsageError("dev needs POSIX, because the server inherits a socket; use trio-mcp serve --http on Windows")
    place, colon, name = options.server.rpartition(":")
    path = Path(place if colon and name.isidentifier() else options.server)
    if path.suffix != ".py" or not path.is_file():
        raise UsageError(f"{path}: no such Python file")
    trio.run(_serve_for_ever, options, path.absolute().parent, _inspector() if options.inspector else None)


def _inspector() -> str:
    npx = shutil.which("npx")
    if npx is None:
        raise UsageError("the MCP Inspector needs npx, which is not installed: install Node.js, or use --no-inspector")
    return npx


async def _serve_for_ever(options: argparse.Namespace, folder: Path, npx: str | None) -> None:
    interrupts = Interrupts()
    with await bind_sockets(HttpListening(port=options.port)) as listened:
        async with owned_nursery() as nursery:
            await nursery.start(interrupts.listen)
            program = _Program(options.server, listened, npx, nursery)
            with interrupts.ending():
                await program.run(folder)
    interrupts.check()


# --- Files ---


def _files(folder: Path) -> _Files:
    """Return the modules in a folder and below it, except those that are hidden or installed."""
    found: dict[Path, tuple[int, int]] = {}
    for path, folders, names in os.walk(folder):
        folders[:] = [
            each
            for each in folders
            if each[0] != "." and each not in _NO_MODULES and not Path(path, each, "pyvenv.cfg").exists()
        ]
        for name in names:
            with suppress(OSError):  # removed meanwhile
                if name.endswith(".py"):
                    status = Path(path, name).stat()
                    found[Path(path, name)] = status.st_mtime_ns, status.st_size
    return found


async def _changed(folder: Path, before: _Files) -> _Files:
    """Wait until the files differ from *before*, and change no more; return them."""
    while True:
        after = _files(folder)
        await trio.sleep(_LOOK_SECONDS)
        if before != after == _files(folder):
            return after


def _named(folder: Path, before: _Files, after: _Files) -> str:
    """Return the names of the files that differ."""
    paths = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
    return ", ".join(str(path.relative_to(folder)) for path in paths)


# --- Processes ---


@define(eq=False)
class _Program:
    """The program that is served."""

    _server: str
    _listened: HttpSockets
    _npx: str | None
    """The path of npx; None to open no Inspector, or if it was opened."""
    _nursery: trio.Nursery
    """Holds the task of the Inspector."""
    _notes: Notes = field(factory=Notes, init=False)

    @property
    def _url(self) -> str:
        return self._listened.bound.urls[0] + _ENDPOINT

    async def run(self, folder: Path) -> None:
        """Serve the program, and serve it anew after each change in *folder*."""
        files = _files(folder)
        while True:
            async with self._served():
                before, files = files, await _changed(folder, files)
                self._notes.say(f"changed: {_named(folder, before, files)}")

    @asynccontextmanager
    async def _served(self) -> AsyncGenerator[None]:
        """Serve the program for the duration of the block, if it can be imported."""
        ours, theirs = socket.socketpair()
        sockets = self._listened.sockets
        with ours:
            with theirs:
                process = await _started(
                    [sys.executable, "-m", "trio_mcp", "serve", self._server, "--http", "0", "--inspect"],
                    inheritance_variables(theirs, sockets),
                    [theirs.fileno(), *(each.fileno() for each in sockets)],
                )
            try:
                async with owned_nursery() as nursery:
                    nursery.start_soon(self._report, trio.socket.from_stdlib_socket(ours), process)
                    yield
            finally:
                with suppress(OSError):  # it has ended
                    ours.shutdown(socket.SHUT_WR)  # tells it to stop
                await _end(process)

    async def _report(self, line: trio.socket.SocketType, process: trio.Process) -> None:
        """Say when the program is served, and when it has ended by itself."""
        if await line.recv(1):  # else it has ended
            self._notes.say(f"serving {self._server} at {self._url}")
            if self._npx is not None:
                self._nursery.start_soon(self._inspect, self._npx)
                self._npx = None
        status = await process.wait()
        self._notes.say(f"{self._server} has ended with status {status}; it starts again when a file changes")

    async def _inspect(self, npx: str) -> None:
        """Run the MCP Inspector."""
        # Without a version, npx takes an old one that an old Node can run. By default the Inspector would make a
        # handshake, and lose its session at each change.
        package = "@modelcontextprotocol/inspector@latest"
        command = [npx, "--yes", package, "--transport", "http", "--server-url", self._url, "--protocol-era", "auto"]
        process = await _started(command)
        try:
            status = await process.wait()
            self._notes.say(f"the MCP Inspector has ended with status {status}; the server goes on")
        finally:
            await _end(process, at_once=True)


async def _started(
    command: Sequence[str], variables: Mapping[str, str] | None = None, descriptors: Iterable[int] = ()
) -> trio.Process:
    return await trio.lowlevel.open_process(
        command,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **(variables or {})},
        pass_fds=[*descriptors],
        process_group=0,  # Ctrl+C reaches this process alone
    )


async def _end(process: trio.Process, *, at_once: bool = False) -> None:
    """Wait for the end of a process that was told to stop, for a bounded time; then kill it and what it has started."""
    with trio.CancelScope(shield=True):
        if at_once:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGTERM)
        with trio.move_on_after(_STOP_SECONDS):
            await process.wait()
        kill_group(process)
        await process.wait()
