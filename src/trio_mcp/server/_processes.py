"""Runs tools in worker processes, for `@tool(isolate="process")`.

A thread cannot be stopped from outside; a process can. The costs: the first call starts a Python process that imports
the program again, each call pickles its arguments and its result, and each worker takes its own memory.

The library for this, `trio-parallel` 1.3, was tried. It leaves a busy worker behind when a signal ends the server,
kills a worker without the processes that the worker has started, starts no worker in a daemonic process (such as those
of hypercorn), and starts workers in an endless loop if they fail to start and the job is larger than a pipe.

Rules of this file:

1. Each worker process leads a session of its own: the Ctrl+C of a terminal does not reach it, and the processes that it
   starts are killed with it. On Linux, so are those that have left the session (`transports.DescendantMark`).
2. A worker gets pipes and standard error, and no other descriptor of the server: no socket, no protocol.
3. One task for each process watches it, reaps it, and shuts it down when the serving ends.
4. On Linux, a worker that a signal has stopped (SIGSTOP) gets no call: it is killed, and another is started. One that
   is stopped during a call is killed after some seconds, which fails the call. A worker that is only busy is left alone
   until its call is cancelled or has used up its time.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, cast

import trio
from attrs import define, evolve, field, frozen

from .._errors import ToolError
from .._util import owned_nursery
from ..peer import FairLimiter, HandlerRun, Hold
from ..transports import DescendantMark
from ._process_worker import HEAD, READY, JobResult, is_starting
from ._threads import clock_stands_still, take_place
from .signature import Signature

__all__ = [
    "Isolated",
    "Processes",
    "WorkerProcess",
    "isolated",
    "open_processes",
    "program_of_main",
    "refuse_in_starting_worker",
    "start_worker",
]


_log = logging.getLogger("trio_mcp.server")

# --- One worker process ---

_EXIT_SECONDS = 2.0
"""The time an idle worker gets to exit when the serving ends."""
_KILL_SECONDS = 2.0
"""The time to wait for a killed worker; only one that is stuck in the kernel takes longer."""
_LOOK_SECONDS = 2.0
"""The time between two looks at a worker. A worker that is found stopped twice in a row is killed."""
_DRAIN_SECONDS = 1.0
"""The time to wait, after a worker has exited, for its result on a pipe that one of its child processes still holds."""

if sys.platform == "win32":  # pragma: no cover # the tests run on POSIX
    _GROUP: dict[str, Any] = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}

    def _kill(process: trio.Process) -> None:
        with suppress(OSError):
            process.kill()

else:
    _GROUP: dict[str, Any] = {"start_new_session": True}

    def _kill(process: trio.Process) -> None:
        with suppress(OSError):  # the process group is gone
            os.killpg(process.pid, signal.SIGKILL)


def program_of_main() -> dict[str, Any] | None:
    """Return the arguments with which a worker imports the main module of this program; None if it cannot."""
    module: Any = sys.modules["__main__"]
    spec = getattr(module, "__spec__", None)
    if spec is not None:
        importable = spec.name.rpartition(".")[2] != "__main__"  # the __main__ of `python -m package` would run instead
        return {"init_main_from_name": spec.name} if importable else None
    path = Path(getattr(module, "__file__", None) or "").absolute()
    return {"init_main_from_path": str(path)} if path.is_file() else None


async def start_worker() -> WorkerProcess:
    """Start a process; the caller must run its `watch` from then on.

    Raises:
        OSError: the system cannot start another process.
    """
    sys.modules.setdefault("__mp_main__", sys.modules["__main__"])  # its name in a worker of `multiprocessing`
    # The worker imports from the same path as this program, and not from the current folder.
    code = f"import sys; sys.path[:] = {sys.path!r}; from trio_mcp.server._process_worker import main; main()"
    private: Any = subprocess
    flags: list[str] = private._args_from_interpreter_flags()  # noqa: SLF001 # it has no public name
    mark = DescendantMark()
    process = await trio.lowlevel.open_process(
        [sys.executable, *flags, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None if sys.__stderr__ is not None else subprocess.DEVNULL,
        env=mark.added_to(os.environ),
        **_GROUP,
    )
    return WorkerProcess(process, mark)


@define(eq=False)
class WorkerProcess:
    """A worker process as the server sees it. It runs one job at a time."""

    _process: trio.Process
    _mark: DescendantMark
    gone: trio.Event = field(factory=trio.Event, init=False)
    """Set when the process has ended and is reaped."""
    _is_killed: bool = field(default=False, init=False)
    """True if it was killed, and may not have ended yet."""
    _received: bytearray = field(factory=bytearray, init=False)
    _job_done: trio.Event | None = field(default=None, init=False)
    """Set when the current job is done; None between jobs."""

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """True unless the process was killed, or is known to have ended."""
        return not self._is_killed and self._process.poll() is None

    @property
    def is_stopped(self) -> bool:
        """True if a signal has stopped the process, which would answer nothing. Known on Linux only."""
        if sys.platform != "linux":  # pragma: no cover # the tests run on Linux
            return False
        try:
            return os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # it has ended
            return False

    @property
    def exit_description(self) -> str:
        """The cause of its end, for error messages."""
        status = self._process.returncode
        if status is None:
            return "cannot be reached any more"
        return f"was killed by signal {-status}" if status < 0 else f"exited with status {status}"

    async def watch(self) -> None:
        """Wait until the process ends. If cancelled, shut it down: an idle process may exit, a busy one is killed."""
        try:
            await self._ended()
        finally:
            with trio.CancelScope(shield=True), clock_stands_still():
                await self._shut_down()

    async def _ended(self) -> None:
        """Wait until the process ends. Kill it if a signal has stopped it, because it would answer nothing."""
        was_stopped = False
        while True:
            with trio.move_on_after(_LOOK_SECONDS):
                await self._process.wait()
                return
            is_stopped = self.is_stopped
            if is_stopped and was_stopped:
                _log.warning("worker process %d is stopped; it is killed", self.pid)
                self._is_killed = True
                _kill(self._process)
            was_stopped = is_stopped

    async def _shut_down(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        await self._process.stdin.aclose()  # tells the worker to exit
        with trio.move_on_after(_EXIT_SECONDS):
            await self._process.wait()
        _kill(self._process)
        with trio.move_on_after(_KILL_SECONDS):
            await self._process.wait()
        await trio.to_thread.run_sync(self._mark.kill_all, limiter=trio.CapacityLimiter(1))
        if self._job_done is not None:  # its last result may still be in the pipe
            with trio.move_on_after(_DRAIN_SECONDS):
                await self._job_done.wait()
        await self._process.stdout.aclose()
        self.gone.set()

    async def kill(self) -> None:
        """Kill the process and all that it has started; wait until it is gone. Cannot be cancelled."""
        _kill(self._process)
        with trio.move_on_after(_EXIT_SECONDS + _KILL_SECONDS, shield=True):
            await self.gone.wait()

    async def prepare(self) -> bool:
        """Wait until the worker is ready for jobs; return False if it ended instead."""
        program = {"name": "trio-mcp worker", "sys_argv": sys.argv, **(program_of_main() or {})}
        return await self._answered(pickle.dumps(program), self._until_ready) is not None

    async def ask(self, job: bytes) -> bytes | None:
        """Run a job and return its answer; None if the worker ended. If cancelled, call `kill` next."""
        return await self._answered(job, self._frame)

    async def _answered(self, job: bytes, read: Callable[[], Awaitable[bytes | None]]) -> bytes | None:
        assert self._process.stdin is not None
        self._job_done = trio.Event()
        try:
            await self._process.stdin.send_all(HEAD.pack(len(job)) + job)
            return await read()
        except (trio.BrokenResourceError, trio.ClosedResourceError):  # it has ended, or is shut down
            return None
        finally:
            self._job_done.set()
            self._job_done = None

    async def _until_ready(self) -> bytes | None:
        while (at := self._received.find(READY)) < 0:
            if not await self._receive():
                return None
        del self._received[: at + len(READY)]
        return READY

    async def _frame(self) -> bytes | None:
        size = HEAD.size
        while len(self._received) < size:
            if not await self._receive():
                return None
            if size == HEAD.size <= len(self._received):
                size += HEAD.unpack_from(self._received)[0]
        answer = bytes(self._received[HEAD.size : size])
        del self._received[:size]
        return answer

    async def _receive(self) -> bool:
        assert self._process.stdout is not None
        data = await self._process.stdout.receive_some()
        self._received += data
        return bool(data)


# --- Tools and their workers ---

_START_SECONDS = 60.0
"""The time a worker gets to import the program."""


class _RemoteTraceback(Exception):
    """The traceback of a tool in its worker process, for the log."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@frozen
class Isolated:
    """The function of a tool that runs in worker processes. Made by `isolated`."""

    name: str
    """The name of the tool."""
    _function: Callable[..., Any]
    _as_called: Signature
    """The signature of the function; its `call` returns the arguments instead of calling the function."""

    def job(self, bound: Mapping[str, Any]) -> bytes:
        """Return a pickled call of the function.

        Raises:
            TypeError: the function or an argument cannot be pickled.
        """
        try:
            return pickle.dumps((self._function, *self._as_called.call(bound, {})), pickle.HIGHEST_PROTOCOL)
        except Exception as exc:
            message = f'{self.name}: isolate="process" must pickle the function and its arguments, which failed: {exc}'
            raise TypeError(message) from exc


def isolated(function: Callable[..., Any], signature: Signature) -> Isolated:
    """Return *function* as a function for worker processes.

    Raises:
        TypeError: it cannot run in a worker process; the message says why.
    """
    name = signature.name
    if signature.is_async:
        raise TypeError(f'{name}: isolate="process" is for plain `def` functions: a worker process does not run Trio')
    if signature.injected:
        raise TypeError(
            f'{name}: with isolate="process" it cannot have a Context or a Resolve, '
            "which stay in the process of the server"
        )
    _check_importable(function, name)
    return Isolated(name, function, evolve(signature, function=_as_called))


def _as_called(*given: Any, **keywords: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return given, keywords


def _check_importable(function: Any, name: str) -> None:
    while isinstance(function, partial):
        function = function.func
    found: Any = function if hasattr(function, "__qualname__") else cast("Any", type(function))
    where = f"{found.__module__}.{found.__qualname__}"
    rule = f'{name}: with isolate="process" a worker process imports the function by its name, and {where} '
    if "<" in found.__qualname__:  # a lambda, or a function inside a function
        raise TypeError(f"{rule}cannot be imported: define it at the top level of a module")
    if found.__module__ == "__main__" and program_of_main() is None:
        raise TypeError(f"{rule}is in a main module that cannot be imported again: define it in a module of its own")


def refuse_in_starting_worker() -> None:
    """Prevent a worker process that imports the main module from starting a server itself.

    Raises:
        RuntimeError: this process is such a worker.
    """
    if is_starting():
        raise RuntimeError(
            "the worker process of an isolated tool imports the main module, which started to serve: put the code that "
            'only the program itself shall run under `if __name__ == "__main__":`'
        )


@define(eq=False)
class Processes:
    """The worker processes of one serving. Made by `open_processes`.

    A worker is reused, so the next call of a function may or may not see its changes of global variables.
    """

    limit: int
    """The number of workers that may be busy at the same time; further calls wait."""
    _nursery: trio.Nursery
    _limiter: FairLimiter = field(init=False)
    _idle: list[WorkerProcess] = field(factory=list[WorkerProcess], init=False)
    _alive: set[WorkerProcess] = field(factory=set[WorkerProcess], init=False)
    _at_work: dict[HandlerRun, WorkerProcess] = field(factory=dict[HandlerRun, WorkerProcess], init=False)

    def __attrs_post_init__(self) -> None:
        self._limiter = FairLimiter(self.limit, leaves_places=True)

    @property
    def alive(self) -> int:
        """The number of worker processes, idle ones included."""
        return len(self._alive)

    def by_run(self) -> Mapping[HandlerRun, int]:
        """Return the ids of the processes that work for handlers."""
        return {run: worker.pid for run, worker in self._at_work.items()}

    @property
    def working(self) -> int:
        """The number of calls that have a worker process or start one."""
        return self._limiter.taken

    async def run(
        self,
        function: Isolated,
        bound: Mapping[str, Any],
        run: HandlerRun,
        *,
        limiter: FairLimiter | None = None,
        on_begin: Callable[[], object] = lambda: None,
    ) -> Any:
        """Call *function* in a worker process. If cancelled, kill the process and wait until it is gone.

        Args:
            bound: the result of `Signature.bind`.
            run: the handler run that makes the call.
            limiter: a second limit for concurrent calls.
            on_begin: called when a worker is ready for the call.

        Raises:
            ToolError: the worker process died, or did not start.
            TypeError: the function, its arguments or its result cannot be pickled.
            Exception: the function raised it.
        """
        job = function.job(bound)
        held: list[Hold] = []
        try:
            for each in [self._limiter] if limiter is None else [limiter, self._limiter]:
                held.append(await take_place(run, each))  # noqa: PERF401 # earlier holds are dropped if a later one fails
            with clock_stands_still():
                answer = await self._answer(function.name, job, run, on_begin)
        finally:
            for hold in held:
                run.holds.drop(hold)
        return _outcome(answer)

    async def _answer(self, name: str, job: bytes, run: HandlerRun, on_begin: Callable[[], object]) -> JobResult:
        worker = await self._ready_worker(name)
        self._at_work[run] = worker
        try:
            on_begin()
            answer = await worker.ask(job)
        except BaseException:
            await worker.kill()
            raise
        finally:
            del self._at_work[run]
        if answer is None:
            await self._fail(worker, f"{name}: its worker process")
        self._idle.append(worker)
        read: JobResult = pickle.loads(answer)  # noqa: S301 # from a process that runs this program
        return read

    async def _ready_worker(self, name: str) -> WorkerProcess:
        while self._idle:
            worker = self._idle.pop()
            if worker.is_alive and worker.is_stopped:
                _log.warning("worker process %d is stopped; it is killed and replaced", worker.pid)
                await worker.kill()
            elif worker.is_alive:
                return worker
        worker = await start_worker()
        self._alive.add(worker)
        self._nursery.start_soon(self._watch, worker, name=f"worker process {worker.pid}")
        with trio.move_on_after(_START_SECONDS):
            try:
                if await worker.prepare():
                    return worker
            except BaseException:
                await worker.kill()
                raise
            await self._fail(worker, f"{name}: while it started (see its standard error), its worker process")
        raise ToolError(f"{name}: its worker process did not start within {_START_SECONDS:g} s")

    async def _watch(self, worker: WorkerProcess) -> None:
        try:
            await worker.watch()
        finally:
            self._alive.discard(worker)

    async def _fail(self, worker: WorkerProcess, subject: str) -> NoReturn:
        """Fail the call whose worker has ended."""
        await worker.kill()
        message = f"{subject} {worker.exit_description}"
        _log.warning("%s (process %d)", message, worker.pid)
        raise ToolError(message)


def _outcome(answer: JobResult) -> Any:
    """Return the result of the function, or raise its exception."""
    try:
        value = None if answer.pickled is None else pickle.loads(answer.pickled)  # noqa: S301 # as above
    except Exception as exc:
        if not answer.failed:
            raise TypeError(f"its result cannot be unpickled in the process of the server: {exc}") from exc
        value = None
    if not answer.failed:
        return value
    failure = value if isinstance(value, Exception) else RuntimeError(answer.text)
    raise failure from _RemoteTraceback(answer.trace)


@asynccontextmanager
async def open_processes(limit: int) -> AsyncGenerator[Processes]:
    """Provide worker processes inside the block; all of them are gone when it ends."""
    async with owned_nursery() as nursery:
        yield Processes(limit, nursery)
