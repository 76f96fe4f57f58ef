"""Several processes behind one HTTP port: the parent, which owns the address and keeps the workers running.

A worker is a program of its own: it is started with the command that the parent is given, finds in its environment
what it has inherited (`take_inheritance`), and serves on the parent's sockets. So the command can be the parent's own
command line:

- `trio-mcp serve module:server --http 8000 --workers 4` calls `take_inheritance` first. In the parent there is
  nothing, so it calls `serve_workers` with its own command line.
- In a worker there is something, so it serves with that, whatever `--workers` says. It stops at a signal, or when
  `Inheritance.wait_dismissed` returns, with the same drain.

The rules of this file:

- The address is taken before a worker starts, and kept while workers come and go: clients meanwhile wait.
- A worker that ends before all have been ready once is a mistake in the program, and ends everything. Later it is
  started again, with growing pauses while it does not last.
- Workers are no part of the parent's process group, so that Ctrl+C reaches the parent alone. Whatever becomes of the
  parent, its end of the line closes, and they stop.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

import trio
from attrs import define, field

from .._util import owned_nursery
from ._child_platform import kill_group
from ._hypercorn_inherited import inheritance_variables
from ._hypercorn_listening import HttpListening
from ._hypercorn_sockets import Bound, bind_sockets

__all__ = ["serve_workers"]

_log = logging.getLogger("trio_mcp.transports")

_LASTING_SECONDS = 10.0
"""A worker that has lived for that long is started again without having to wait for its predecessors' sake."""
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 30.0


async def serve_workers(
    command: Sequence[str],
    listening: HttpListening,
    *,
    workers: int,
    stopping: Callable[[], Awaitable[object]],
    drain_seconds: float,
    leave_seconds: float = 10.0,
    env: Mapping[str, str] | None = None,
    task_status: trio.TaskStatus[Bound] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Keep worker processes serving on one address until *stopping* returns and they have left.

    `task_status.started` gets what they are bound to, once all are ready.

    Args:
        command: what each worker runs, and its arguments. Its standard input is empty; its output is this process's.
        listening: where they listen; the rest is each worker's own business.
        workers: how many, 1 or more.
        drain_seconds: how long, in seconds, a worker may go on answering requests when it is to stop.
        leave_seconds: how long it may take beyond that, for its lifespan for example. Then it is killed.
        env: variables to add to those of this process, such as a key that workers have in common.

    Raises:
        OSError: the address cannot be taken, or this system has no such processes.
        ChildProcessError: a worker could not be started, or ended before it served. Why is on standard error, if it has
            said so.

    Cancellation: kills the workers.
    """
    if sys.platform == "win32":  # pragma: no cover # the tests run on POSIX
        raise OSError(errno.ENOTSUP, "several workers on one port need a system with POSIX processes")
    with await bind_sockets(listening) as listened:
        variables = {**os.environ, **(env or {})}
        crew = _Crew(command, listened.sockets, variables, drain_seconds + leave_seconds, set(range(1, workers + 1)))
        async with owned_nursery() as nursery:
            nursery.start_soon(crew.watch, stopping)
            for number in range(1, workers + 1):
                nursery.start_soon(crew.keep, number, name=f"worker {number}")
            await crew.settled()
            if not crew.stop.is_set():
                task_status.started(listened.bound)
            await crew.gone()
        if crew.failure is not None:
            raise crew.failure


@define(eq=False)
class _Crew:
    """The workers of one parent."""

    _command: Sequence[str]
    _sockets: Sequence[socket.socket]
    _env: Mapping[str, str]
    _stop_seconds: float
    _unready: set[int]
    """Those that have not served yet, not even once."""
    stop: trio.Event = field(factory=trio.Event, init=False)
    failure: ChildProcessError | None = field(default=None, init=False)
    _kept: int = field(init=False)
    _news: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def __attrs_post_init__(self) -> None:
        self._kept = len(self._unready)

    async def watch(self, stopping: Callable[[], Awaitable[object]]) -> None:
        """Pass the wish to stop on."""
        await stopping()
        self._end()

    async def settled(self) -> None:
        """Wait until all have served once, or the end has come."""
        while self._unready and not self.stop.is_set():
            await self._news.park()

    async def gone(self) -> None:
        """Wait until no worker is left, nor will be."""
        while self._kept:
            await self._news.park()

    def _end(self, failure: ChildProcessError | None = None) -> None:
        if not self.stop.is_set():
            self.failure = failure
        self.stop.set()
        self._news.unpark_all()

    async def keep(self, number: int) -> None:
        """Run one worker after the other."""
        pause = _FIRST_PAUSE_SECONDS
        while not self.stop.is_set():
            born = trio.current_time()
            try:
                ending = await self._run(number)
            except OSError as error:
                ending = f"cannot be started: {error}"
            if self._unready:
                self._end(ChildProcessError(f"worker {number} {ending}, before it served anything"))
            elif not self.stop.is_set():
                if trio.current_time() - born >= _LASTING_SECONDS:
                    pause = _FIRST_PAUSE_SECONDS
                _log.warning("worker %d %s; another one is started in %.1f seconds", number, ending, pause)
                with trio.move_on_after(pause):
                    await self.stop.wait()
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        self._kept -= 1
        self._news.unpark_all()

    async def _run(self, number: int) -> str:
        """Run a worker to its end; say how that was."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            process = await trio.lowlevel.open_process(
                self._command,
                stdin=subprocess.DEVNULL,
                env={**self._env, **inheritance_variables(theirs, self._sockets)},
                pass_fds=[theirs.fileno(), *(each.fileno() for each in self._sockets)],
                process_group=0,
            )
            theirs.close()
            try:
                async with trio.open_nursery() as nursery:
                    line = trio.socket.from_stdlib_socket(ours)
                    nursery.start_soon(self._hear, number, line)
                    nursery.start_soon(self._dismiss, number, line, process)
                    await process.wait()
                    nursery.cancel_scope.cancel()
            finally:
                kill_group(process)  # what a worker has started ends with it
                with trio.CancelScope(shield=True):
                    await process.wait()
        return _ending(process)

    async def _hear(self, number: int, line: trio.socket.SocketType) -> None:
        with suppress(OSError):
            if await line.recv(1):
                self._unready.discard(number)
                self._news.unpark_all()

    async def _dismiss(self, number: int, line: trio.socket.SocketType, process: trio.Process) -> None:
        await self.stop.wait()
        with suppress(OSError):  # the worker was quicker
            line.shutdown(socket.SHUT_WR)
        await trio.sleep(self._stop_seconds)
        _log.warning("worker %d (process %d) does not end and is killed", number, process.pid)
        kill_group(process)


def _ending(process: trio.Process) -> str:
    status = process.returncode
    assert status is not None
    how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
    return f"(process {process.pid}) {how}"
