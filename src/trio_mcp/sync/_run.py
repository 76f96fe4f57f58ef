"""Trio in a thread of its own: one run for all clients of the process, used from any number of threads.

Rules of this file:

1. The thread is a daemon: it does not keep the process. At the exit of the interpreter the run is cancelled first, so
   that child processes are ended.
2. Ctrl+C in a waiting call cancels the Trio side, and waits for its end; a second one does not wait.
3. Callbacks run in worker threads, which are abandoned if the question is withdrawn.
4. A Trio task that has ended a call does the next one, in the context of its caller. Those beyond `MOST_IDLE` end.
"""

from __future__ import annotations

import atexit
import inspect
import math
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeAlias

import trio
from attrs import define, field
from outcome import Error, Outcome, Value, capture

from .._mirrors import Perform, RunBridge, TrioBlock, performed, result_of

__all__ = ["ThreadBlock", "ThreadRun", "shared_run"]

Work: TypeAlias = Callable[[], Awaitable[None]]
MOST_IDLE = 64
"""The number of Trio tasks that wait for the next call."""
EXIT_SECONDS = 10.0
"""How long the exit of the interpreter waits for the clients that are still open."""


@define(eq=False)
class ThreadRun(RunBridge):
    """A Trio run in a thread of its own."""

    _token: trio.lowlevel.TrioToken = field(init=False)
    _nursery: trio.Nursery = field(init=False)
    _thread: threading.Thread = field(init=False)
    _idle: list[_Worker] = field(factory=list["_Worker"], init=False)
    """The tasks that wait for work."""
    _limiter: trio.CapacityLimiter = field(factory=lambda: trio.CapacityLimiter(math.inf), init=False)

    def start(self) -> None:
        """Start the thread, and wait until Trio runs."""
        started: SimpleQueue[None] = SimpleQueue()
        self._thread = threading.Thread(
            target=trio.run, args=(self._main, started), name="trio-mcp clients", daemon=True
        )
        self._thread.start()
        started.get()
        atexit.register(self.stop)

    async def _main(self, started: SimpleQueue[None]) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as self._nursery:
            started.put(None)
            await trio.sleep_forever()

    def stop(self) -> None:
        """Cancel everything, and wait for the end for a limited time."""
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._nursery.cancel_scope.cancel)
        self._thread.join(EXIT_SECONDS)

    # --- Threads call Trio ---

    def wait(self, perform: Perform) -> Any:
        """Run *perform* in a Trio task, and return its result."""
        scope = trio.CancelScope()
        finished: SimpleQueue[Outcome[Any] | None] = SimpleQueue()
        self.begin(perform, scope, finished.put)
        result = self.wait_for(finished, scope)
        assert result is not None
        return result_of(result)

    def begin(self, perform: Perform, scope: trio.CancelScope, finished: Callable[[Outcome[Any]], object]) -> None:
        """Start a Trio task that passes the outcome of *perform* to *finished*."""
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                "a function that Trio calls in its own thread must not use the client: it would wait for itself"
            )

        async def work() -> None:
            finished(await performed(perform, scope))

        self.soon(self._assign, copy_context(), work)

    def _assign(self, context: Context, work: Work) -> None:
        """Have a task do *work* in *context*: one that waits, or a new one."""
        if self._idle:
            self._idle.pop().resume(context, work)
        else:
            context.run(self._nursery.start_soon, _Worker(self._idle).run, work)

    def soon(self, function: Callable[..., Any], *args: Any) -> None:
        """Have the thread of Trio call a function."""
        self._token.run_sync_soon(function, *args)

    def wait_for(self, events: SimpleQueue[Outcome[Any] | None], scope: trio.CancelScope) -> Outcome[Any] | None:
        """Wait for an event; an exception of a signal, such as Ctrl+C, cancels *scope* and is raised at the end."""
        try:
            return events.get()
        except BaseException:
            self.soon(scope.cancel)
            next(filter(None, iter(events.get, self)))  # None: a block was entered meanwhile
            raise

    def look(self, function: Callable[[], Any]) -> Any:
        """Call a function in the thread of Trio."""
        if threading.current_thread() is self._thread:
            return function()
        found: SimpleQueue[Outcome[Any]] = SimpleQueue()
        self.soon(lambda: found.put(capture(function)))
        return found.get().unwrap()

    # --- Trio calls threads ---

    def callback(self, function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        """Return an async function for Trio that calls *function* in a worker thread.

        Raises:
            TypeError: it is an async function.
        """
        if inspect.iscoroutinefunction(function):
            raise TypeError(
                f"{function!r} is an async function: callbacks of trio_mcp.sync are plain ones; trio_mcp.asyncio takes "
                "async ones"
            )

        async def run(*values: Any, **named: Any) -> Any:
            call = partial(function, *values, **named)
            return await trio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=self._limiter)

        return run


@define(eq=False)
class _Worker:
    """A Trio task that does one piece of work after the other, because a task for each call takes a fifth of it."""

    _idle: list[_Worker]
    """The workers of the run that wait."""
    _task: trio.lowlevel.Task = field(init=False)

    async def run(self, work: Work) -> None:
        """Do *work*, and then what `resume` gives."""
        self._task = trio.lowlevel.current_task()
        await work()
        while len(self._idle) < MOST_IDLE:
            del work  # it refers to the client
            self._idle.append(self)
            work = await trio.lowlevel.wait_task_rescheduled(self._stop_waiting)
            await work()

    def _stop_waiting(self, _: object) -> trio.lowlevel.Abort:
        self._idle.remove(self)
        return trio.lowlevel.Abort.SUCCEEDED

    def resume(self, context: Context, work: Work) -> None:
        """Do *work* in *context*, as a new task would; called while the worker waits."""
        self._task.context = context
        trio.lowlevel.reschedule(self._task, Value(work))


@define(eq=False)
class ThreadBlock:
    """A block that a thread has entered."""

    _run: ThreadRun
    _block: TrioBlock
    _scope: trio.CancelScope
    _events: SimpleQueue[Outcome[Any] | None]
    """Gets None when the block was entered, and the outcome at its end."""

    @classmethod
    def enter(cls, run: ThreadRun, open_block: Callable[[], Any]) -> tuple[ThreadBlock, Any]:
        """Enter a block in a Trio task; return it and its value."""
        events, scope = SimpleQueue[Outcome[Any] | None](), trio.CancelScope()
        values: list[Any] = []

        def entered(value: Any) -> None:
            values.append(value)
            events.put(None)

        block = TrioBlock(open_block, entered)
        run.begin(block.run, scope, events.put)
        event = run.wait_for(events, scope)
        if event is not None:
            result_of(event)
        return cls(run, block, scope, events), values[0]

    def leave(self, raised: BaseException | None) -> None:
        """Leave the block; if it ends by Ctrl+C, cancelled."""
        is_cancelled = isinstance(raised, KeyboardInterrupt | GeneratorExit)
        with suppress(trio.RunFinishedError):  # the outcome tells
            self._run.soon(self._scope.cancel if is_cancelled else self._block.leaving.set)
        result = self._run.wait_for(self._events, self._scope)
        assert result is not None
        if not is_cancelled or not isinstance(result, Error):
            result_of(result)


_lock = threading.Lock()
_run: ThreadRun | None = None


def shared_run() -> ThreadRun:
    """Return the run of the process; start it if there is none yet."""
    global _run  # noqa: PLW0603 # one for the process
    with _lock:
        if _run is None:
            run = ThreadRun()
            run.start()
            _run = run
        return _run
