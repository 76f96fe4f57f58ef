"""Tools in processes of their own, `@tool(isolate="process")`: what can be one, and the workers of one serving.

A thread cannot be stopped from outside; a process can. What it costs: the first call starts a Python that imports
the program anew, each call pickles its arguments and its result, and a worker takes its own memory.

Why not a library: `trio-parallel` 1.3, the one there is for Trio, leaves a busy worker behind when a signal ends the
server, kills a worker without what it has started, starts no worker in a daemonic process (such as those of hypercorn),
and starts workers without end where they cannot start and the job is larger than a pipe. All of it was tried.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NoReturn, cast

import trio
from attrs import define, evolve, field, frozen

from .._errors import ToolError
from .._util import owned_nursery
from ..peer import Hold, Run, Turns
from ._isolation_process import WorkerProcess, program_of_main, start_worker
from ._isolation_worker import Answer, is_starting
from ._signature import Signature
from ._threads import clock_stands_still, take_turn

__all__ = ["Isolated", "Processes", "isolated", "open_processes", "refuse_in_starting_worker"]

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
    _turns: Turns = field(init=False)
    _idle: list[WorkerProcess] = field(factory=list[WorkerProcess], init=False)
    _alive: set[WorkerProcess] = field(factory=set[WorkerProcess], init=False)

    def __attrs_post_init__(self) -> None:
        self._turns = Turns(self.limit)

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
        run: Run,
        *,
        turns: Turns | None = None,
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

    async def _answer(self, name: str, job: bytes, on_begin: Callable[[], object]) -> Answer:
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
        read: Answer = pickle.loads(answer)  # noqa: S301 # from a process that runs this program
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


def _outcome(answer: Answer) -> Any:
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
