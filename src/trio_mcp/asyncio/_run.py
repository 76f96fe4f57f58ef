"""Trio as a guest of a running asyncio loop: one run for all clients and applications of the loop.

Rules of this file:

1. Trio and asyncio share a thread, so each may set events and futures of the other directly.
2. Whoever is cancelled cancels the other side, and waits until it has ended.
3. The run ends when the loop shuts down its async generators, as `asyncio.run` does before it closes the loop: one of
   them belongs to the run, and is closed then.
4. A Trio task that has ended a call waits for the next one: a new task with a cancel scope costs as much as the rest of
   the bridge. A cancelled one ends, and so do those beyond `MOST_IDLE`.
"""

from __future__ import annotations

import asyncio
import inspect
import signal
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from typing import Any

import trio
from attrs import define, field
from outcome import Error, Outcome, Value, acapture

from .._mirrors import Perform, RunBridge, TrioBlock, result_of
from ._host import LoopHost

__all__ = ["AsyncioRun", "EnteredBlock", "current_run", "hosting_run"]

MOST_IDLE = 64
"""The most Trio tasks of one run that wait for calls."""


@contextmanager
def _own_sigint() -> Generator[None]:
    """Keep Trio from taking SIGINT: it belongs to asyncio, which cancels its main task."""
    default = signal.default_int_handler
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is not default:
        yield
        return
    signal.signal(signal.SIGINT, partial(default))  # Trio takes only the default one
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, default)


@define(eq=False)
class AsyncioRun(RunBridge):
    """The Trio run of one asyncio loop."""

    loop: asyncio.AbstractEventLoop
    _nursery: trio.Nursery = field(init=False)
    _started: asyncio.Future[None] = field(init=False)
    _finished: asyncio.Future[None] = field(init=False)
    _keeper: AsyncGenerator[None] = field(init=False)
    _idle: list[Worker] = field(factory=list["Worker"], init=False)

    def start(self) -> None:
        """Start Trio on the loop, which runs."""
        self._started = self.loop.create_future()
        self._finished = self.loop.create_future()
        self._keeper = self._keep()
        with suppress(StopIteration):  # now the loop knows it, and closes it
            self._keeper.__anext__().send(None)
        with _own_sigint():
            LoopHost(self.loop).start(self._main, self._done)

    async def _main(self) -> None:
        async with trio.open_nursery() as self._nursery:
            self._started.set_result(None)
            await trio.sleep_forever()

    def _done(self, _: Outcome[None]) -> None:
        del _runs[self.loop]  # which starts another one if it goes on nevertheless
        self._finished.set_result(None)

    async def _keep(self) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await self._started
            self._nursery.cancel_scope.cancel()
            await self._finished

    async def started(self) -> AsyncioRun:
        """Wait until Trio runs, and return this run."""
        await asyncio.wait([self._started])
        return self

    # --- asyncio calls Trio ---

    async def wait(self, perform: Perform) -> Any:
        """Run *perform* in a Trio task, and return its result. A cancellation cancels it, and waits for its end."""
        task = self.begin(perform)
        await task.wait_finished()
        return task.result()

    def begin(self, perform: Perform) -> TrioTask:
        """Start a Trio task that runs *perform*.

        Raises:
            RuntimeError: this is not the loop of the run, or the run has ended.
        """
        if asyncio.get_running_loop() is not self.loop:
            raise RuntimeError("this object belongs to another event loop: open a client in each loop that uses one")
        if self._finished.done():
            raise trio.RunFinishedError("the Trio run ended, because its event loop ends")
        if self._idle:
            worker = self._idle.pop()
            task = TrioTask(self.loop, perform, worker.scope)
            worker.resume(task)
        else:
            worker = Worker(self._idle)
            task = TrioTask(self.loop, perform, worker.scope)
            self._nursery.start_soon(worker.run, task)
        return task

    def look(self, function: Callable[[], Any]) -> Any:
        """Call a function; Trio runs in this thread."""
        return function()

    # --- Trio calls asyncio ---

    def callback(self, function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        """Return an async function for Trio that runs *function* in a task of the loop."""

        async def run(*values: Any, **named: Any) -> Any:
            return await self.run_on_loop(partial(function, *values, **named))

        return run

    async def run_on_loop(self, function: Callable[[], Any]) -> Any:
        """Run a function, and what it returns if that is awaitable, in a task of the loop; called by a Trio task.

        Raises:
            RuntimeError: the task was cancelled by someone else than the caller.
        """

        async def body() -> Any:
            value = function()
            return await value if inspect.isawaitable(value) else value

        waiting, cancellations = trio.lowlevel.current_task(), list[Callable[[], Any]]()
        task = self.loop.create_task(body())
        task.add_done_callback(lambda _: trio.lowlevel.reschedule(waiting, Value(None)))

        def abort(raise_cancel: Callable[[], Any]) -> trio.lowlevel.Abort:
            cancellations.append(raise_cancel)
            task.cancel()
            return trio.lowlevel.Abort.FAILED  # wait for the end of the task

        await trio.lowlevel.wait_task_rescheduled(abort)
        if not task.cancelled():
            return task.result()
        for raise_cancel in cancellations:
            raise_cancel()
        raise RuntimeError("the asyncio task of a callback was cancelled") from None


@define(eq=False)
class Worker:
    """A Trio task that does one piece of work after the other."""

    _idle: list[Worker]
    """The workers of the run that wait."""
    scope: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _task: trio.lowlevel.Task = field(init=False)

    async def run(self, work: TrioTask) -> None:
        """Do *work*, and then what `resume` gives."""
        self._task = trio.lowlevel.current_task()
        with self.scope:
            await work.run()
            while not self.scope.cancel_called and len(self._idle) < MOST_IDLE:
                del work  # it refers to the client
                self._idle.append(self)
                work = await trio.lowlevel.wait_task_rescheduled(self._stop_waiting)
                await work.run()

    def _stop_waiting(self, _: object) -> trio.lowlevel.Abort:
        self._idle.remove(self)
        return trio.lowlevel.Abort.SUCCEEDED

    def resume(self, work: TrioTask) -> None:
        """Do *work*, in a copy of the context of the caller, as a new task would; called while the worker waits."""
        self._task.context = copy_context()
        trio.lowlevel.reschedule(self._task, Value(work))


@define(eq=False)
class TrioTask:
    """A piece of work of Trio for which an asyncio task waits."""

    _loop: asyncio.AbstractEventLoop
    _perform: Perform
    _scope: trio.CancelScope
    """The scope in which it runs, and other work later."""
    outcome: Outcome[Any] | None = field(default=None, init=False)
    """The outcome of the work; None before its end."""
    _changed: asyncio.Future[None] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._changed = self._loop.create_future()

    async def run(self) -> None:
        """Do the work, in a task of Trio; a cancellation is an outcome too."""
        self.outcome = await acapture(self._perform)
        self.wake()

    def cancel(self) -> None:
        """Cancel the work, unless it has ended."""
        if self.outcome is None:
            self._scope.cancel()

    def wake(self) -> None:
        """Wake the asyncio task."""
        if not self._changed.done():  # else it is cancelled
            self._changed.set_result(None)

    async def wait_changed(self) -> None:
        """Wait for `wake`; a cancellation cancels the Trio task, and waits for its end."""
        try:
            await self._changed
        except asyncio.CancelledError:
            self.cancel()
            while self.outcome is None:
                self._changed = self._loop.create_future()
                with suppress(asyncio.CancelledError):  # the first one is raised below
                    await self._changed
            raise

    async def wait_finished(self) -> None:
        """Wait for the end; a cancellation cancels the Trio task, and waits nevertheless."""
        while self.outcome is None:
            if self._changed.done():
                self._changed = self._loop.create_future()
            await self.wait_changed()

    def result(self) -> Any:
        """Return the result of the finished task, or raise its exception."""
        assert self.outcome is not None
        return result_of(self.outcome)


@define(eq=False)
class EnteredBlock:
    """A block that an asyncio task has entered."""

    _task: TrioTask
    _block: TrioBlock

    @classmethod
    async def enter(cls, run: AsyncioRun, open_block: Callable[[], Any]) -> tuple[EnteredBlock, Any]:
        """Enter a block in a Trio task; return it and its value."""
        values: list[Any] = []

        def entered(value: Any) -> None:
            values.append(value)
            task.wake()

        block = TrioBlock(open_block, entered)
        task = run.begin(block.run)
        await task.wait_changed()
        if not values:
            task.result()
        return cls(task, block), values[0]

    async def leave(self, raised: BaseException | None) -> None:
        """Leave the block; if it ends by a cancellation, cancelled."""
        is_cancelled = isinstance(raised, asyncio.CancelledError | GeneratorExit | KeyboardInterrupt)
        if is_cancelled:
            self._task.cancel()
        self._block.leaving.set()
        await self._task.wait_finished()
        if not is_cancelled or not isinstance(self._task.outcome, Error):
            self._task.result()


_runs: dict[asyncio.AbstractEventLoop, AsyncioRun] = {}
"""The Trio run of each loop that has one."""


async def current_run() -> AsyncioRun:
    """Return the Trio run of the running loop; start it if there is none yet.

    Raises:
        RuntimeError: no loop runs here.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            "trio_mcp.asyncio needs asyncio, and no event loop of asyncio runs here: start the program with "
            "asyncio.run(main()); or import the same name from trio_mcp, if it runs on Trio"
        ) from None
    run = _runs.get(loop)
    if run is None:
        run = AsyncioRun(loop)
        run.start()
        _runs[loop] = run
    return await run.started()


def hosting_run(function: str) -> AsyncioRun:
    """Return the run of the calling Trio task.

    Args:
        function: the public function that is called, for the message.

    Raises:
        RuntimeError: asyncio does not host it.
    """
    with suppress(RuntimeError):
        run = _runs.get(asyncio.get_running_loop())
        if run is not None and trio.lowlevel.in_trio_task():
            return run
    raise RuntimeError(f"{function} is for handlers of a server that asyncio hosts, and asyncio does not host this one")
