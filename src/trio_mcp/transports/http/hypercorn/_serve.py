"""An ASGI application served over HTTP/1.1 and HTTP/2: Hypercorn's protocols, with a worker of our own around them.

Hypercorn's Trio worker can be crashed, stalled and filled by a client, and its stop hardly controlled. What is wrong
there and how it is cured stands in the files where it is: `_hypercorn_connection` (bytes and time), `_hypercorn_tasks`
(running the application), `_hypercorn_http1` and `_hypercorn_http2` (protocols), `_hypercorn_lifespan`. They know
Hypercorn from inside, and are made for its version 0.18.

What stays with the application:

- `send` after the client has wait_ended does nothing, and says nothing. Await `receive` beside it, which returns
  `http.disconnect`.
- A client's leaving is noticed when it is tried to read from it. That is not done while it has sent another request
  already (HTTP/1.1 pipelining), or more of a body than the application wants; write something now and then.
- The size of a body, and the time it takes, are not limited.
- A prefix that a host application strips is in `root_path`, and in `path` still.
- WebSockets are served too. To refuse them, receive until `websocket.disconnect` and return.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import trio
from attrs import define, field

from ...._util import owned_nursery
from ...stdio import kill_group
from ..server import AsgiApp
from ._application import lifespan_of
from ._sockets import Bound, HttpListening, HttpSockets, bind_sockets, tls_context

if TYPE_CHECKING:
    from ._connection import Connections

__all__ = ["Inheritance", "inheritance_variables", "serve_asgi", "serve_workers", "take_inheritance"]


async def serve_asgi(
    app: AsgiApp,
    listening: HttpListening,
    *,
    stopping: Callable[[], Awaitable[object]],
    drain: Callable[[], Awaitable[object]],
    drain_seconds: float,
    sockets: HttpSockets | None = None,
    task_status: trio.TaskStatus[Bound] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve an ASGI 3 application until *stopping* returns; `task_status.started` gets what it is bound to.

    In this order: the address is taken, the application's lifespan starts, connections are accepted. At the end: no
    more is accepted, idle connections end, *drain* is awaited, connections end after the answers they have begun, and
    what is left after *drain_seconds* is cut off; then the lifespan ends.

    What a client does, or the application raises for it (KeyboardInterrupt excepted), costs that client's connection
    or request, and is logged to `trio_mcp.transports`.

    Args:
        listening: where, and what a connection may cost.
        stopping: returns when the server is to stop; before it has started, that gives up the start.
        drain: called when the server stops: tell the application to end its streams.
        drain_seconds: how long, in seconds, requests that are being answered may go on after *stopping*.
        sockets: what to listen on, in place of what *listening* names. Closed at the end.

    Raises:
        OSError: the address cannot be taken, or a file of the certificate cannot be read. The value names it.
        ValueError: the certificate cannot be used.
        BaseException: whatever the application's lifespan raises when it starts or ends, as it is; see `lifespan_of`.

    Cancellation: ends all connections and the lifespan at once, by cancellation; the sockets are closed.
    """
    from ._connection import Connections  # noqa: PLC0415  # it loads Hypercorn

    stop = _Stop()
    async with owned_nursery() as nursery:
        nursery.start_soon(stop.watch, stopping)
        with stop.opening, sockets or await bind_sockets(listening) as listened:
            listeners = _listeners(listened, tls_context(listening))
            async with lifespan_of(app) as state:
                serving = _AcceptPhase(Connections(app, listening, state), listeners, stop.obey())
                await serving.run(partial(task_status.started, listened.bound), drain, drain_seconds)


@define(eq=False)
class _Stop:
    """The wish to stop. Before anything is served it gives up the start."""

    opening: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _asked: trio.Event | None = field(default=None, init=False)

    async def watch(self, stopping: Callable[[], Awaitable[object]]) -> None:
        await stopping()
        if self._asked is None:
            self.opening.cancel(reason="stopped before it was started")
        else:
            self._asked.set()

    def obey(self) -> trio.Event:
        """Return what is set instead from now on."""
        self._asked = trio.Event()
        return self._asked


_Listener: TypeAlias = "trio.abc.Listener[trio.SocketStream] | trio.abc.Listener[trio.SSLStream[trio.SocketStream]]"


def _listeners(listened: HttpSockets, context: ssl.SSLContext | None) -> list[_Listener]:
    plain = [trio.SocketListener(trio.socket.from_stdlib_socket(each)) for each in listened.sockets]
    return [*plain] if context is None else [trio.SSLListener(each, context) for each in plain]


@define(eq=False)
class _AcceptPhase:
    """The time in which connections are accepted, and the time until they have ended."""

    _connections: Connections
    _listeners: list[_Listener]
    _stop: trio.Event
    _accepting: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _refusing: trio.Event = field(factory=trio.Event, init=False)
    """Set when the sockets are closed, and the system refuses connections."""

    async def run(
        self, started: Callable[[], None], drain: Callable[[], Awaitable[object]], drain_seconds: float
    ) -> None:
        async with owned_nursery() as nursery:
            nursery.start_soon(self._accept, nursery)
            started()
            try:
                await self._stop.wait()
                self._accepting.cancel(reason="the server stops")
                # A client whose idle connection ends connects anew, and is to be refused then. While the sockets still
                # listen it would be let in by the system, and be cut off with a request on its way.
                await self._refusing.wait()
                await self._connections.stop()
                with trio.move_on_after(drain_seconds):
                    await drain()
                    await self._connections.wait_left()
            finally:
                self._connections.abort()

    async def _accept(self, nursery: trio.Nursery) -> None:
        with self._accepting:
            listeners = cast("list[trio.abc.Listener[Any]]", self._listeners)
            await trio.serve_listeners(self._connections.serve, listeners, handler_nursery=nursery)
        self._refusing.set()


# What a worker process of an HTTP server gets from its parent: the sockets, and a line that ends when it shall.
#
# The parent says in the environment which descriptors they are, so that a worker can be started with the very command
# line of its parent. Over the line, a socket pair, the worker says once that it serves; the parent says nothing. Its
# end
# tells the worker to stop, and comes however the parent ends.

_VARIABLE = "TRIO_MCP_HTTP_WORKER"
_READY = b"\n"


def inheritance_variables(line: socket.socket, sockets: Sequence[socket.socket]) -> Mapping[str, str]:
    """Return what is to be in the environment of a worker that inherits these descriptors with their numbers."""
    return {_VARIABLE: f"{line.fileno()}:{','.join(str(each.fileno()) for each in sockets)}"}


def take_inheritance(listening: HttpListening) -> Inheritance | None:
    """Return what this process has inherited as a worker; None if it is none.

    Can be called once: what is found is not handed on to the processes that this one starts.
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
    """What a worker serves with. `sockets` are for `serve_asgi`, which also stops when `wait_dismissed` returns."""

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
        """Return when the parent wants this worker to stop, or is wait_ended."""
        with suppress(OSError):
            await self._line.recv(1)

    def close(self) -> None:
        """Close all of it, at the end."""
        self.sockets.close()
        self._line.close()


# Several processes behind one HTTP port: the parent, which owns the address and keeps the workers running.
#
# A worker is a program of its own: it is started with the command that the parent is given, finds in its environment
# what it has inherited (`take_inheritance`), and serves on the parent's sockets. So the command can be the parent's
# own
# command line:
#
# - `trio-mcp serve module:server --http 8000 --workers 4` calls `take_inheritance` first. In the parent there is
#   nothing, so it calls `serve_workers` with its own command line.
# - In a worker there is something, so it serves with that, whatever `--workers` says. It stops at a signal, or when
#   `Inheritance.wait_dismissed` returns, with the same drain.
#
# The rules of this file:
#
# - The address is taken before a worker starts, and kept while workers come and go: clients meanwhile wait.
# - A worker that ends before all have been ready once is a mistake in the program, and ends everything. Later it is
#   started again, with growing pauses while it does not last.
# - Workers are no part of the parent's process group, so that Ctrl+C reaches the parent alone. Whatever becomes of the
#   parent, its end of the line closes, and they stop.

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
        group = _WorkerGroup(
            command, listened.sockets, variables, drain_seconds + leave_seconds, set(range(1, workers + 1))
        )
        async with owned_nursery() as nursery:
            nursery.start_soon(group.watch, stopping)
            for number in range(1, workers + 1):
                nursery.start_soon(group.supervise, number, name=f"worker {number}")
            await group.wait_ready()
            if not group.stop.is_set():
                task_status.started(listened.bound)
            await group.wait_ended()
        if group.failure is not None:
            raise group.failure


@define(eq=False)
class _WorkerGroup:
    """The workers of one parent."""

    _command: Sequence[str]
    _sockets: Sequence[socket.socket]
    _env: Mapping[str, str]
    _stop_seconds: float
    _unready: set[int]
    """Those that have not served yet, not even once."""
    stop: trio.Event = field(factory=trio.Event, init=False)
    failure: ChildProcessError | None = field(default=None, init=False)
    _running: int = field(init=False)
    _changed: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def __attrs_post_init__(self) -> None:
        self._running = len(self._unready)

    async def watch(self, stopping: Callable[[], Awaitable[object]]) -> None:
        """Pass the wish to stop on."""
        await stopping()
        self._end()

    async def wait_ready(self) -> None:
        """Wait until all have served once, or the end has come."""
        while self._unready and not self.stop.is_set():
            await self._changed.park()

    async def wait_ended(self) -> None:
        """Wait until no worker is left, nor will be."""
        while self._running:
            await self._changed.park()

    def _end(self, failure: ChildProcessError | None = None) -> None:
        if not self.stop.is_set():
            self.failure = failure
        self.stop.set()
        self._changed.unpark_all()

    async def supervise(self, number: int) -> None:
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
        self._running -= 1
        self._changed.unpark_all()

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
                    nursery.start_soon(self._read_ready, number, line)
                    nursery.start_soon(self._stop_worker, number, line, process)
                    await process.wait()
                    nursery.cancel_scope.cancel()
            finally:
                kill_group(process)  # what a worker has started ends with it
                with trio.CancelScope(shield=True):
                    await process.wait()
        return _ending(process)

    async def _read_ready(self, number: int, line: trio.socket.SocketType) -> None:
        with suppress(OSError):
            if await line.recv(1):
                self._unready.discard(number)
                self._changed.unpark_all()

    async def _stop_worker(self, number: int, line: trio.socket.SocketType, process: trio.Process) -> None:
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
