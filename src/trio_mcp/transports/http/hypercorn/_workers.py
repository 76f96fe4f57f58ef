"""Worker processes that serve HTTP on the same sockets, and the parent process that supervises them.

A worker is a program of its own. It is started with the command that the parent is given, finds in its environment what
it inherits (`take_inheritance`), and serves on the sockets of the parent. So the command can be that of the parent:
`trio-mcp serve module:server --http 8000 --workers 4` calls `take_inheritance` first. In the parent it returns None, so
the parent calls `serve_workers` with its own command line. In a worker it returns the inheritance, so the worker serves
with that, and ignores `--workers`. The worker stops at a signal, or when `Inheritance.wait_dismissed` returns, and
drains in both cases.

The environment names the inherited descriptors: the listening sockets, and one end of a socket pair. On the pair, the
worker reports once that it serves, and answers each byte that the parent sends. Its end tells the worker to stop,
however the parent ends.

Rules of this file:

1. The parent binds the address before it starts a worker, and keeps it while workers come and go: clients wait
   meanwhile.
2. A worker that ends before all have been ready once is an error of the program, and ends all. Later it is restarted,
   with growing pauses while it does not last.
3. A worker that hangs is killed and replaced like one that has ended. It hangs if it answers none of several bytes in a
   row, over `hang_seconds` in all: its process is stopped, or a handler blocks its event loop. Rounds are counted, not
   time: when the whole machine or all processes were suspended, only one round is lost. Before its first answer, while
   it imports the program, it has `start_seconds`.
4. Workers are not in the process group of the parent, so Ctrl+C reaches only the parent, which passes signals on. When
   the parent ends, its end of the socket pair closes, and the workers stop.
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

from ...._util import owned_nursery
from ...stdio import kill_group
from ._sockets import Bound, HttpListening, HttpSockets, bind_sockets

__all__ = ["Inheritance", "inheritance_variables", "serve_workers", "take_inheritance"]

_VARIABLE = "TRIO_MCP_HTTP_WORKER"
_READY, _ALIVE = b"\n", b"."


def inheritance_variables(line: socket.socket, sockets: Sequence[socket.socket]) -> Mapping[str, str]:
    """Return the environment variables of a worker that inherits these descriptors with their numbers."""
    return {_VARIABLE: f"{line.fileno()}:{','.join(str(each.fileno()) for each in sockets)}"}


def take_inheritance(listening: HttpListening) -> Inheritance | None:
    """Return what this process has inherited as a worker; None if it is not a worker.

    Can be called once: the inheritance is not passed on to child processes.
    """
    value = os.environ.pop(_VARIABLE, None)
    if value is None:
        return None
    line, _, rest = value.partition(":")
    sockets = [_taken(int(each)) for each in rest.split(",")]
    return Inheritance(HttpSockets.of(sockets, listening), _taken(int(line)))


def _taken(descriptor: int) -> socket.socket:
    os.set_inheritable(descriptor, False)
    return socket.socket(fileno=descriptor)


@define(eq=False)
class Inheritance:
    """The inheritance of a worker.

    `sockets` are for `serve_asgi`, which must also stop when `wait_dismissed` returns.
    """

    sockets: HttpSockets
    _raw_line: socket.socket
    _line: trio.socket.SocketType = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._line = trio.socket.from_stdlib_socket(self._raw_line)

    async def report_ready(self) -> None:
        """Tell the parent that this worker serves."""
        with suppress(OSError):  # without a parent, `wait_dismissed` returns
            await self._line.send(_READY)

    async def wait_dismissed(self) -> None:
        """Return when the parent wants this worker to stop, or has ended. Until then, show the parent signs of life."""
        with suppress(OSError):
            while await self._line.recv(_MANY):
                await self._line.send(_ALIVE)

    def close(self) -> None:
        """Close all sockets."""
        self.sockets.close()
        self._line.close()


_log = logging.getLogger("trio_mcp.transports")

_MANY = 64
"""More bytes than ever wait on a socket pair."""
_ROUNDS = 10
"""The number of bytes without an answer after which a worker hangs."""
_LASTING_SECONDS = 10.0
"""A worker that has lived for that long is restarted without the pauses of its predecessors."""
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 30.0


async def serve_workers(
    command: Sequence[str],
    listening: HttpListening,
    *,
    workers: int,
    stopping: Callable[[], Awaitable[object]],
    drain_seconds: float,
    hang_seconds: float,
    leave_seconds: float = 10.0,
    signals: Callable[[], Awaitable[object]] = trio.sleep_forever,
    start_seconds: float = 300.0,
    env: Mapping[str, str] | None = None,
    task_status: trio.TaskStatus[Bound] = trio.TASK_STATUS_IGNORED,
) -> Sequence[int]:
    """Keep worker processes serving on one address until *stopping* returns and all have ended.

    Returns the last exit status of each worker, which is negative if a signal has killed it.

    `task_status.started` gets the bound addresses, once all workers are ready.

    Args:
        command: the command line of each worker. Its standard input is empty; its output is that of this process.
        listening: the address; the other settings are up to each worker.
        workers: their number, 1 or more.
        stopping: returns when the workers are to stop.
        drain_seconds: the maximum time, in seconds, for requests in flight in a stopping worker.
        hang_seconds: the time without a sign of life of its event loop after which a worker is killed and replaced. It
            must be longer than any handler blocks the event loop.
        leave_seconds: the additional time for its lifespan, for example. Then it is killed.
        signals: returns at each signal that requests the stop, the first included. Each worker gets it as SIGTERM: a
            worker that cannot react to its dismissal may react to a signal.
        start_seconds: the maximum time from the start of a worker to its first sign of life.
        env: variables to add to those of this process, such as a key that the workers share.
        task_status: of `trio.Nursery.start`.

    Raises:
        OSError: the address cannot be bound, or this system has no such processes.
        ChildProcessError: a worker could not be started, or ended before it served. Standard error may say why.

    Cancellation: kills the workers.
    """
    if sys.platform == "win32":  # pragma: no cover # the tests run on POSIX
        raise OSError(errno.ENOTSUP, "several workers on one port need POSIX processes")
    with await bind_sockets(listening) as listened:
        variables = {**os.environ, **(env or {})}
        group = _WorkerGroup(
            command,
            listened.sockets,
            variables,
            drain_seconds + leave_seconds,
            hang_seconds,
            start_seconds,
            set(range(1, workers + 1)),
        )
        async with owned_nursery() as nursery:
            nursery.start_soon(group.watch, stopping)
            nursery.start_soon(group.pass_on, signals)
            for number in range(1, workers + 1):
                nursery.start_soon(group.supervise, number, name=f"worker {number}")
            await group.wait_ready()
            if not group.stop.is_set():
                task_status.started(listened.bound)
            await group.wait_ended()
        if group.failure is not None:
            raise group.failure
        return group.statuses


@define(eq=False)
class _WorkerGroup:
    """The workers of one parent."""

    _command: Sequence[str]
    _sockets: Sequence[socket.socket]
    _env: Mapping[str, str]
    _stop_seconds: float
    _hang_seconds: float
    _start_seconds: float
    _unready: set[int]
    """The numbers of the workers that have not been ready yet."""
    stop: trio.Event = field(factory=trio.Event, init=False)
    failure: ChildProcessError | None = field(default=None, init=False)
    statuses: list[int] = field(factory=list[int], init=False)
    """The exit statuses of the workers that have ended after the stop."""
    _processes: set[trio.Process] = field(factory=set[trio.Process], init=False)
    _running: int = field(init=False)
    _changed: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def __attrs_post_init__(self) -> None:
        self._running = len(self._unready)

    async def watch(self, stopping: Callable[[], Awaitable[object]]) -> None:
        """Wait for the request to stop, and pass it on."""
        await stopping()
        self._end()

    async def pass_on(self, signals: Callable[[], Awaitable[object]]) -> None:
        """Send SIGTERM to each worker whenever *signals* returns."""
        while True:
            await signals()
            for process in self._processes:
                process.terminate()

    async def wait_ready(self) -> None:
        """Wait until all workers have been ready once, or the group stops."""
        while self._unready and not self.stop.is_set():
            await self._changed.park()

    async def wait_ended(self) -> None:
        """Wait until all workers have ended for good."""
        while self._running:
            await self._changed.park()

    def _end(self, failure: ChildProcessError | None = None) -> None:
        if not self.stop.is_set():
            self.failure = failure
        self.stop.set()
        self._changed.unpark_all()

    async def supervise(self, number: int) -> None:
        """Run one worker, and restart it when it ends."""
        pause = _FIRST_PAUSE_SECONDS
        while not self.stop.is_set():
            born = trio.current_time()
            try:
                ending = await self._run(number)
            except OSError as error:
                ending = f"cannot be started: {error}"
            if self._unready:
                self._end(ChildProcessError(f"worker {number} {ending} before it served"))
            elif not self.stop.is_set():
                if trio.current_time() - born >= _LASTING_SECONDS:
                    pause = _FIRST_PAUSE_SECONDS
                _log.warning("worker %d %s; it is restarted in %.1f seconds", number, ending, pause)
                with trio.move_on_after(pause):
                    await self.stop.wait()
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        self._running -= 1
        self._changed.unpark_all()

    async def _run(self, number: int) -> str:
        """Run a worker until it ends; return a description of how it ended."""
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
            self._processes.add(process)
            try:
                async with trio.open_nursery() as nursery:
                    line = trio.socket.from_stdlib_socket(ours)
                    life = _Life()
                    nursery.start_soon(self._listen, number, line, life)
                    nursery.start_soon(self._watch_life, number, line, life, process)
                    nursery.start_soon(self._stop_worker, number, line, process)
                    await process.wait()
                    nursery.cancel_scope.cancel()
            finally:
                kill_group(process)  # child processes of the worker end with it
                with trio.CancelScope(shield=True):
                    await process.wait()
                self._processes.discard(process)
        if self.stop.is_set() and process.returncode is not None:
            self.statuses.append(process.returncode)
        return _ending(process)

    async def _listen(self, number: int, line: trio.socket.SocketType, life: _Life) -> None:
        """Take the signs of life of a worker, and its report that it is ready."""
        with suppress(OSError):
            while data := await line.recv(_MANY):
                life.begun.set()
                life.silent_rounds = 0
                if _READY in data:
                    self._unready.discard(number)
                    self._changed.unpark_all()

    async def _watch_life(self, number: int, line: trio.socket.SocketType, life: _Life, process: trio.Process) -> None:
        """Ask for signs of life, and kill a worker that hangs. A stopping worker has a time limit of its own."""
        fault = f"has shown no sign of life for {self._hang_seconds:g} s (is it stopped, or does a handler block it?)"
        await _ask(line)
        with trio.move_on_after(self._start_seconds) as starting:
            await life.begun.wait()
        if starting.cancelled_caught:
            fault = f"has not started within {self._start_seconds:g} s"
        else:
            while life.silent_rounds < _ROUNDS:
                life.silent_rounds += 1
                await _ask(line)
                await trio.sleep(self._hang_seconds / _ROUNDS)
        if not self.stop.is_set():
            _log.warning("worker %d (process %d) %s and is killed", number, process.pid, fault)
            kill_group(process)

    async def _stop_worker(self, number: int, line: trio.socket.SocketType, process: trio.Process) -> None:
        await self.stop.wait()
        with suppress(OSError):  # the worker has ended already
            line.shutdown(socket.SHUT_WR)
        await trio.sleep(self._stop_seconds)
        _log.warning("worker %d (process %d) does not end in time and is killed", number, process.pid)
        kill_group(process)


@define(eq=False)
class _Life:
    """The signs of life of a worker."""

    begun: trio.Event = field(factory=trio.Event, init=False)
    """Set at the first sign."""
    silent_rounds: int = field(default=0, init=False)
    """The number of bytes in a row that it was sent and has not answered."""


async def _ask(line: trio.socket.SocketType) -> None:
    with suppress(OSError):  # the worker has ended
        await line.send(_ALIVE)


def _ending(process: trio.Process) -> str:
    status = process.returncode
    assert status is not None
    how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
    return f"(process {process.pid}) {how}"
