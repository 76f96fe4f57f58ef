"""Tools in processes of their own, `@tool(isolate="process")`: what can be one, and the workers of one serving.

A thread cannot be stopped from outside; a process can. What it costs: the first call starts a Python that imports
the program anew, each call pickles its arguments and its result, and a worker takes its own memory.

Why not a library: `trio-parallel` 1.3, the one there is for Trio, leaves a busy worker behind when a signal ends the
server, kills a worker without what it has started, starts no worker in a daemonic process (such as those of hypercorn),
and starts workers without end where they cannot start and the job is larger than a pipe. All of it was tried.
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
from ._process_worker import HEAD, READY, JobResult, is_starting
from ._threads import clock_stands_still, take_turn
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


# One worker process, as the server sees it: its start, its jobs, and an end that is certain.
#
# Rules of this file:
#
# 1. Each process leads a session of its own: the Ctrl+C of a terminal does not reach it, and whatever it has started
# is
#    killed with it.
# 2. It gets pipes and standard error, and no other descriptor of the server: no socket, no protocol.
# 3. One task per process watches over it, reaps it, and buries it when the serving ends.

_LEAVE_SECONDS = 2.0
"""How long an idle worker may take to leave when the serving ends."""
_KILL_SECONDS = 2.0
"""How long a killed worker is waited for: only one stuck in the kernel outlasts it."""
_DRAIN_SECONDS = 1.0
"""How long, after its end, an answer is awaited on a pipe that something it has started still holds."""

if sys.platform == "win32":  # pragma: no cover # the tests run on POSIX
    _GROUP: dict[str, Any] = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}

    def _kill(process: trio.Process) -> None:
        with suppress(OSError):
            process.kill()

else:
    _GROUP: dict[str, Any] = {"start_new_session": True}

    def _kill(process: trio.Process) -> None:
        with suppress(OSError):  # nobody is left of the group
            os.killpg(process.pid, signal.SIGKILL)


def program_of_main() -> dict[str, Any] | None:
    """Return how a worker imports the main module of this program; None where it cannot."""
    module: Any = sys.modules["__main__"]
    spec = getattr(module, "__spec__", None)
    if spec is not None:
        importable = spec.name.rpartition(".")[2] != "__main__"  # that of `python -m package` just runs
        return {"init_main_from_name": spec.name} if importable else None
    path = Path(getattr(module, "__file__", None) or "").absolute()
    return {"init_main_from_path": str(path)} if path.is_file() else None


async def start_worker() -> WorkerProcess:
    """Start a process; `watch` must run from then on.

    Raises:
        OSError: the system starts no more processes.
    """
    sys.modules.setdefault("__mp_main__", sys.modules["__main__"])  # what `multiprocessing` in a worker calls it
    # The worker finds what this program finds, and nothing in a folder that happens to be the current one.
    code = f"import sys; sys.path[:] = {sys.path!r}; from trio_mcp.server._process_worker import main; main()"
    private: Any = subprocess
    flags: list[str] = private._args_from_interpreter_flags()  # noqa: SLF001 # it has no public name
    process = await trio.lowlevel.open_process(
        [sys.executable, *flags, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None if sys.__stderr__ is not None else subprocess.DEVNULL,
        **_GROUP,
    )
    return WorkerProcess(process)


@define(eq=False)
class WorkerProcess:
    """A process that does one job at a time."""

    _process: trio.Process
    gone: trio.Event = field(factory=trio.Event, init=False)
    """Set when it is dead and reaped."""
    _received: bytearray = field(factory=bytearray, init=False)
    _at_work: trio.Event | None = field(default=None, init=False)
    """Set when the job is over; None between jobs."""

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended, as far as can be told."""
        return self._process.poll() is None

    @property
    def end(self) -> str:
        """How it ended, in words."""
        status = self._process.returncode
        if status is None:
            return "cannot be reached any more"
        return f"was killed by signal {-status}" if status < 0 else f"exited with status {status}"

    async def watch(self) -> None:
        """Wait for its end; cancelled, bring it about, politely if it has nothing to do."""
        try:
            await self._process.wait()
        finally:
            with trio.CancelScope(shield=True), clock_stands_still():
                await self._bury()

    async def _bury(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        await self._process.stdin.aclose()  # it leaves
        with trio.move_on_after(_LEAVE_SECONDS):
            await self._process.wait()
        _kill(self._process)
        with trio.move_on_after(_KILL_SECONDS):
            await self._process.wait()
        if self._at_work is not None:  # its last words lie in the pipe, which ends behind them
            with trio.move_on_after(_DRAIN_SECONDS):
                await self._at_work.wait()
        await self._process.stdout.aclose()
        self.gone.set()

    async def kill(self) -> None:
        """Kill it, whatever it does, and all it has started; wait until it is gone, which cannot be cancelled."""
        _kill(self._process)
        with trio.move_on_after(_LEAVE_SECONDS + _KILL_SECONDS, shield=True):
            await self.gone.wait()

    async def prepare(self) -> bool:
        """Wait until it can work; False if it ended instead."""
        program = {"name": "trio-mcp worker", "sys_argv": sys.argv, **(program_of_main() or {})}
        return await self._answered(pickle.dumps(program), self._until_ready) is not None

    async def ask(self, job: bytes) -> bytes | None:
        """Have it do a job, and return the answer; None if it ended instead. Cancelled, it must be killed."""
        return await self._answered(job, self._frame)

    async def _answered(self, job: bytes, read: Callable[[], Awaitable[bytes | None]]) -> bytes | None:
        assert self._process.stdin is not None
        self._at_work = trio.Event()
        try:
            await self._process.stdin.send_all(HEAD.pack(len(job)) + job)
            return await read()
        except (trio.BrokenResourceError, trio.ClosedResourceError):  # dead, or dead and buried
            return None
        finally:
            self._at_work.set()
            self._at_work = None

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


_log = logging.getLogger("trio_mcp.server")

_START_SECONDS = 60.0
"""How long a worker may take to import the program."""


class _RemoteTraceback(Exception):
    """Shows, in the log, where in its worker process a tool failed."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@frozen
class Isolated:
    """A tool's function, for worker processes. Made by `isolated`."""

    name: str
    """The tool's."""
    _function: Callable[..., Any]
    _as_called: Signature
    """The function's signature; called, it returns how the function would be."""

    def job(self, bound: Mapping[str, Any]) -> bytes:
        """Return a call of the function, pickled.

        Raises:
            TypeError: it cannot be pickled.
        """
        try:
            return pickle.dumps((self._function, *self._as_called.call(bound, {})), pickle.HIGHEST_PROTOCOL)
        except Exception as exc:
            text = (
                f'{self.name}: with isolate="process" the function and its arguments are pickled, which failed: {exc}'
            )
            raise TypeError(text) from exc


def isolated(function: Callable[..., Any], signature: Signature) -> Isolated:
    """Return *function* for worker processes.

    Raises:
        TypeError: it cannot be called in one; says why.
    """
    name = signature.name
    if signature.is_async:
        raise TypeError(f'{name}: isolate="process" is for plain `def` functions: there is no Trio in a worker process')
    if signature.injected:
        raise TypeError(
            f'{name}: with isolate="process" it gets no Context, which belongs to the process of the server'
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
    if "<" in found.__qualname__:  # of a lambda, or of a function in a function
        raise TypeError(f"{rule}cannot be imported: define it at the top level of a module")
    if found.__module__ == "__main__" and program_of_main() is None:
        raise TypeError(f"{rule}is in a main module that cannot be imported again: define it in a module of its own")


def refuse_in_starting_worker() -> None:
    """Keep a worker process that imports the program from becoming a server itself.

    Raises:
        RuntimeError: that is about to happen.
    """
    if is_starting():
        raise RuntimeError(
            "the worker process of an isolated tool imports the main module, which began to serve: put what only the "
            'program itself shall do under `if __name__ == "__main__":`'
        )


@define(eq=False)
class Processes:
    """The worker processes of one serving. Made by `open_processes`.

    A worker is reused, so what a function leaves in global variables may be there at the next call, or not.
    """

    limit: int
    """How many may work at once; more calls wait."""
    _nursery: trio.Nursery
    _turns: FairLimiter = field(init=False)
    _idle: list[WorkerProcess] = field(factory=list[WorkerProcess], init=False)
    _alive: set[WorkerProcess] = field(factory=set[WorkerProcess], init=False)

    def __attrs_post_init__(self) -> None:
        self._turns = FairLimiter(self.limit)

    @property
    def alive(self) -> int:
        """Worker processes there are, those that wait for work included."""
        return len(self._alive)

    @property
    def working(self) -> int:
        """Calls that have a worker process, or start one."""
        return self._turns.taken

    async def run(
        self,
        function: Isolated,
        bound: Mapping[str, Any],
        run: HandlerRun,
        *,
        turns: FairLimiter | None = None,
        on_begin: Callable[[], object] = lambda: None,
    ) -> Any:
        """Call *function* in a worker process; cancelled, kill the process, and return when it is gone.

        Args:
            bound: what `Signature.bind` returned.
            run: the handler it is.
            turns: bounds further how many work at once.
            on_begin: called when a worker is ready for it.

        Raises:
            ToolError: the worker process died, or did not start.
            TypeError: the function, its arguments or its result cannot be pickled.
            Exception: what the function raised.
        """
        job = function.job(bound)
        held: list[Hold] = []
        try:
            for each in [self._turns] if turns is None else [turns, self._turns]:
                held.append(await take_turn(run, each))  # noqa: PERF401 # what was taken is dropped if the next is not
            with clock_stands_still():
                answer = await self._answer(function.name, job, on_begin)
        finally:
            for hold in held:
                run.holds.drop(hold)
        return _outcome(answer)

    async def _answer(self, name: str, job: bytes, on_begin: Callable[[], object]) -> JobResult:
        worker = await self._ready_worker(name)
        try:
            on_begin()
            answer = await worker.ask(job)
        except BaseException:
            await worker.kill()
            raise
        if answer is None:
            await self._mourn(worker, f"{name}: its worker process")
        self._idle.append(worker)
        read: JobResult = pickle.loads(answer)  # noqa: S301 # from a process that runs this program
        return read

    async def _ready_worker(self, name: str) -> WorkerProcess:
        while self._idle:
            worker = self._idle.pop()
            if worker.is_alive:
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
            await self._mourn(worker, f"{name}: while it started (see its standard error), its worker process")
        raise ToolError(f"{name}: its worker process did not start within {_START_SECONDS:g} s")

    async def _watch(self, worker: WorkerProcess) -> None:
        try:
            await worker.watch()
        finally:
            self._alive.discard(worker)

    async def _mourn(self, worker: WorkerProcess, subject: str) -> NoReturn:
        """Fail the call of a worker that answers no more."""
        await worker.kill()
        text = f"{subject} {worker.end}"
        _log.warning("%s (process %d)", text, worker.pid)
        raise ToolError(text)


def _outcome(answer: JobResult) -> Any:
    """Return what the function returned, or raise what it raised."""
    try:
        value = None if answer.pickled is None else pickle.loads(answer.pickled)  # noqa: S301 # as above
    except Exception as exc:
        if not answer.failed:
            text = f"what it returned cannot be unpickled, and so did not leave its worker process: {exc}"
            raise TypeError(text) from exc
        value = None
    if not answer.failed:
        return value
    failure = value if isinstance(value, Exception) else RuntimeError(answer.text)
    raise failure from _RemoteTraceback(answer.trace)


@asynccontextmanager
async def open_processes(limit: int) -> AsyncGenerator[Processes]:
    """Keep worker processes for as long as the block lasts; afterwards all of them are gone."""
    async with owned_nursery() as nursery:
        yield Processes(limit, nursery)
