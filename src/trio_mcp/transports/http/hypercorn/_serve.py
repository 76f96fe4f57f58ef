"""An HTTP/1.1 and HTTP/2 server for ASGI applications, in one process or in several worker processes.

Uses Hypercorn's protocols, but not its Trio worker, which a client can crash, stall and fill, and whose shutdown can
hardly be controlled. `_connection` (bytes, timeouts, protocols) and `_application` (requests, lifespan) describe the
differences. They depend on the internals of Hypercorn 0.18.

The application has to know:

- `send` after the client has left does nothing, and raises nothing. Call `receive` concurrently, which returns
  `http.disconnect`.
- That the client has left is noticed when the server reads from it. It does not read while the next request has arrived
  already (HTTP/1.1 pipelining), or while the application has not received the body; write something now and then.
- The size of a body, and the time it takes, are not limited.
- A prefix that a host application strips is in `root_path`, and still in `path`.
- WebSockets are served too. To refuse one, receive until `websocket.disconnect` and return.

A worker is a program of its own. It is started with the command that the parent is given, finds in its environment what
it inherits (`take_inheritance`), and serves on the sockets of the parent. So the command can be that of the parent:
`trio-mcp serve module:server --http 8000 --workers 4` calls `take_inheritance` first. In the parent it returns None, so
the parent calls `serve_workers` with its own command line. In a worker it returns the inheritance, so the worker serves
with that, and ignores `--workers`. The worker stops at a signal, or when `Inheritance.wait_dismissed` returns, and
drains in both cases.

The environment names the inherited descriptors: the listening sockets, and one end of a socket pair. On the pair, the
worker reports once that it serves, and the parent sends nothing. Its end tells the worker to stop, however the parent
ends.

Rules of this file:

1. The parent binds the address before it starts a worker, and keeps it while workers come and go: clients wait
   meanwhile.
2. A worker that ends before all have been ready once is an error of the program, and ends all. Later it is restarted,
   with growing pauses while it does not last.
3. Workers are not in the process group of the parent, so Ctrl+C reaches only the parent. When the parent ends, its end
   of the socket pair closes, and the workers stop.
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
    """Serve an ASGI 3 application until *stopping* returns; `task_status.started` gets the bound addresses.

    Startup: the address is bound, the lifespan of the application starts, connections are accepted. Shutdown: no more
    connections are accepted, idle ones end, *drain* is awaited, the others end after the responses they have begun, and
    what is left after *drain_seconds* is cut off; then the lifespan ends.

    An error of a client, or an exception of the application (except KeyboardInterrupt), ends that connection or
    request, and is logged to `trio_mcp.transports`.

    Args:
        app: the application.
        listening: the address, and the limits of a connection.
        stopping: returns when the server is to stop; before the start is complete, it cancels the start.
        drain: called when the server stops: tell the application to end its streams.
        drain_seconds: the maximum time, in seconds, for requests in flight after *stopping* has returned.
        sockets: listened on in place of the address in *listening*; closed at the end.
        task_status: of `trio.Nursery.start`.

    Raises:
        OSError: the address cannot be bound, or a certificate file cannot be read. The message names it.
        ValueError: the certificate cannot be used.
        BaseException: the unchanged exception of the application's lifespan; see `lifespan_of`.

    Cancellation: cancels all connections and the lifespan at once; the sockets are closed.
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
    """The request to stop. Before the server has started, it cancels the start."""

    opening: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _asked: trio.Event | None = field(default=None, init=False)

    async def watch(self, stopping: Callable[[], Awaitable[object]]) -> None:
        await stopping()
        if self._asked is None:
            self.opening.cancel(reason="stopped before it was started")
        else:
            self._asked.set()

    def obey(self) -> trio.Event:
        """Return the event that is set from now on, instead of cancelling the start."""
        self._asked = trio.Event()
        return self._asked


_Listener: TypeAlias = "trio.abc.Listener[trio.SocketStream] | trio.abc.Listener[trio.SSLStream[trio.SocketStream]]"


def _listeners(listened: HttpSockets, context: ssl.SSLContext | None) -> list[_Listener]:
    plain = [trio.SocketListener(trio.socket.from_stdlib_socket(each)) for each in listened.sockets]
    return [*plain] if context is None else [trio.SSLListener(each, context) for each in plain]


@define(eq=False)
class _AcceptPhase:
    """Accepts connections until the stop, then drains them."""

    _connections: Connections
    _listeners: list[_Listener]
    _stop: trio.Event
    _accepting: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _refusing: trio.Event = field(factory=trio.Event, init=False)
    """Set when the sockets are closed, so that the system refuses connections."""

    async def run(
        self, started: Callable[[], None], drain: Callable[[], Awaitable[object]], drain_seconds: float
    ) -> None:
        async with owned_nursery() as nursery:
            nursery.start_soon(self._accept, nursery)
            started()
            try:
                await self._stop.wait()
                self._accepting.cancel(reason="the server stops")
                # A client whose idle connection ends reconnects, and must be refused then. While the sockets still
                # listen, the system would accept it, and its request would be cut off.
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


_VARIABLE = "TRIO_MCP_HTTP_WORKER"
_READY = b"\n"


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
        """Return when the parent wants this worker to stop, or has ended."""
        with suppress(OSError):
            await self._line.recv(1)

    def close(self) -> None:
        """Close all sockets."""
        self.sockets.close()
        self._line.close()


_log = logging.getLogger("trio_mcp.transports")

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
    leave_seconds: float = 10.0,
    env: Mapping[str, str] | None = None,
    task_status: trio.TaskStatus[Bound] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Keep worker processes serving on one address until *stopping* returns and all have ended.

    `task_status.started` gets the bound addresses, once all workers are ready.

    Args:
        command: the command line of each worker. Its standard input is empty; its output is that of this process.
        listening: the address; the other settings are up to each worker.
        workers: their number, 1 or more.
        stopping: returns when the workers are to stop.
        drain_seconds: the maximum time, in seconds, for requests in flight in a stopping worker.
        leave_seconds: the additional time for its lifespan, for example. Then it is killed.
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
    """The numbers of the workers that have not been ready yet."""
    stop: trio.Event = field(factory=trio.Event, init=False)
    failure: ChildProcessError | None = field(default=None, init=False)
    _running: int = field(init=False)
    _changed: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def __attrs_post_init__(self) -> None:
        self._running = len(self._unready)

    async def watch(self, stopping: Callable[[], Awaitable[object]]) -> None:
        """Wait for the request to stop, and pass it on."""
        await stopping()
        self._end()

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
            try:
                async with trio.open_nursery() as nursery:
                    line = trio.socket.from_stdlib_socket(ours)
                    nursery.start_soon(self._read_ready, number, line)
                    nursery.start_soon(self._stop_worker, number, line, process)
                    await process.wait()
                    nursery.cancel_scope.cancel()
            finally:
                kill_group(process)  # child processes of the worker end with it
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
        with suppress(OSError):  # the worker has ended already
            line.shutdown(socket.SHUT_WR)
        await trio.sleep(self._stop_seconds)
        _log.warning("worker %d (process %d) does not end in time and is killed", number, process.pid)
        kill_group(process)


def _ending(process: trio.Process) -> str:
    status = process.returncode
    assert status is not None
    how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
    return f"(process {process.pid}) {how}"
