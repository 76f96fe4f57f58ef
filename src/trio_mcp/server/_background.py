"""Background tasks, which outlive the call that starts them: one supervised nursery for each serving.

Rules of this file:

1. The nursery is opened before the lifespan is entered, and its tasks end before the lifespan is left, so that they can
   use the value that the lifespan yielded.
2. A task that fails does not affect anything else, whatever it raises; see `_util.failure_of`.
3. A context variable holds the serving that `Server.background` refers to, because a server may be served several times
   at once. It is set for the lifespan and for every handler, and inherited by the tasks and threads that they start.
"""

from __future__ import annotations

import inspect
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVarTuple

import trio
from attrs import define, field

from .._errors import TooManyTasks
from .._util import WIND_DOWN_SECONDS, owned_nursery, succeeds

if TYPE_CHECKING:
    from ._server import Server
    from ._stopping import EndWatch

__all__ = ["Background", "BackgroundTasks", "open_background"]

_log = logging.getLogger("trio_mcp.server")

Ts = TypeVarTuple("Ts")

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
"""Seconds between a failure and the restart. Each pause is twice as long as the previous one; after a task has run for
longer than the longest pause, the first pause applies again."""

_servings: ContextVar[tuple[BackgroundTasks, ...]] = ContextVar("trio_mcp_servings", default=())
"""The servings that `Server.background` refers to in the current context, at most one of each server (rule 3)."""


@define(eq=False)
class Background:
    """Starts tasks that outlive the call that starts them: the attribute `Server.background`."""

    _server: Server

    def start_soon(
        self,
        async_fn: Callable[[*Ts], Awaitable[object]],
        *args: *Ts,
        name: str | None = None,
        restart: bool = False,
    ) -> None:
        """Run ``async_fn(*args)`` in a task that belongs to the serving, not to the call.

        May be called in handlers, in lifespans, and in tasks that these have started; in plain `def` handlers as
        ``trio.from_thread.run_sync(server.background.start_soon, async_fn)``. The task inherits the caller's context
        variables. It continues when the call is answered or cancelled, and when the connection is lost; reports through
        the call's `Context` are then dropped.

        An exception of the task is logged, under ``trio_mcp``, and affects nothing else. When the serving stops, tasks
        may run for `Limits.drain_seconds`; then they are cancelled. They end before the lifespan does.

        Args:
            name: the name of the task in the log; by default the name of the function.
            restart: True to start the task again when it raises, after a pause that grows from about a second to about
                a minute. It is not started again when it returns. When the serving stops, such a task is cancelled as
                soon as all tasks without *restart* have ended.

        Raises:
            RuntimeError: the caller is neither a handler nor a lifespan of this server, so that the serving is unknown;
                or the serving stops; or a thread calls this without `trio.from_thread`.
            TooManyTasks: `Limits.max_background` tasks are running.
            TypeError: *async_fn* is not a function, but, for example, a coroutine.
        """
        tasks = next((each for each in _servings.get() if each.server is self._server), None)
        if tasks is None:
            raise RuntimeError(
                f"server {self._server.info.name!r}: background tasks belong to a serving; start them in one of its "
                f"handlers or in its lifespan"
            )
        tasks.start_soon(async_fn, *args, name=name, restart=restart)


@define(eq=False)
class BackgroundTasks:
    """The background tasks of one serving. `open_background` makes it."""

    server: Server
    _lasts: bool
    """True if the serving outlives a single request."""
    _nursery: trio.Nursery
    _token: trio.lowlevel.TrioToken = field(factory=trio.lowlevel.current_trio_token, init=False)
    _stops: bool = field(default=False, init=False)
    _awaited: int = field(default=0, init=False)
    """The number of tasks without *restart*, which are waited for when the serving stops."""
    _running: int = field(default=0, init=False)
    _fewer: trio.Event = field(factory=trio.Event, init=False)
    """Set when a task has ended, and then replaced."""
    _scopes: dict[trio.CancelScope, None] = field(factory=dict[trio.CancelScope, None], init=False)
    """One scope for each task, because the scope of the nursery includes the lifespan, which must not be cancelled."""
    _tasks: dict[trio.lowlevel.Task, str] = field(factory=dict[trio.lowlevel.Task, str], init=False)
    """The tasks that have begun, with their names."""

    @property
    def running(self) -> int:
        """The number of tasks that have started and not ended."""
        return self._running

    def adopt(self) -> tuple[BackgroundTasks, ...]:
        """Make `Server.background` refer to this serving in the current context; return the value before (rule 3)."""
        before = _servings.get()
        _servings.set((self, *(each for each in before if each.server is not self.server)) if before else (self,))
        return before

    def start_soon(
        self,
        async_fn: Callable[[*Ts], Awaitable[object]],
        *args: *Ts,
        name: str | None = None,
        restart: bool = False,
    ) -> None:
        """Run ``async_fn(*args)`` in a task of this serving; see `Background.start_soon`."""
        self._check_place()
        given: object = async_fn
        if not callable(given):
            hint = "; pass the function and its arguments" if inspect.iscoroutine(given) else ""
            raise TypeError(f"{given!r} is not an async function{hint}")
        if not self._lasts:
            raise RuntimeError(
                "background tasks: this request has a serving of its own, because the lifespan of the HTTP application "
                "is not running; configure the host to send lifespan events, or enter `app.run()`"
            )
        if self._stops:
            raise RuntimeError(f"server {self.server.info.name!r}: it is stopping and starts no more tasks")
        most = self.server.limits.max_background
        if self._running >= most:
            raise TooManyTasks(f"{most} background tasks are running already (Limits.max_background)")
        label = name or getattr(async_fn, "__qualname__", None) or repr(async_fn)

        self._running += 1
        self._awaited += not restart
        scope = trio.CancelScope()
        self._scopes[scope] = None
        self._nursery.start_soon(
            self._run, scope, partial(async_fn, *args), label, restart, name=f"background task {label}"
        )

    def _check_place(self) -> None:
        try:
            here = trio.lowlevel.current_trio_token()
        except RuntimeError:
            fault = (
                "this is a worker thread; call trio.from_thread.run_sync(server.background.start_soon, async_fn) here"
            )
            raise RuntimeError(fault) from None
        if here is not self._token:
            raise RuntimeError("this Trio run is not the one of the serving; start background tasks in that one")

    async def _run(
        self, scope: trio.CancelScope, work: Callable[[], Awaitable[object]], label: str, restart: bool
    ) -> None:
        task = trio.lowlevel.current_task()
        self._tasks[task] = f"background task {label}"
        try:
            with scope:
                await _supervise(work, label, restart=restart)
        finally:
            del self._scopes[scope], self._tasks[task]
            self._running -= 1
            self._awaited -= not restart
            self._fewer.set()
            self._fewer = trio.Event()

    def going_on(self) -> Iterable[tuple[str, trio.lowlevel.Task]]:
        """Return the tasks that have not ended, with their names."""
        return [(name, task) for task, name in self._tasks.items()]

    async def stop(self, watch: EndWatch) -> None:
        """Start no more tasks, wait for those without *restart*, cancel the rest, and return when all have ended.

        Tasks that swallow their cancellation are waited for as long as `Limits.stop_seconds`, and for a bounded time.
        """
        self._stops = True
        limits = self.server.limits
        try:
            with trio.move_on_after(limits.drain_seconds):
                while self._awaited:
                    await self._fewer.wait()
        finally:
            for scope in self._scopes:
                scope.cancel(reason="the serving stops")
            if self._running:
                watch.expect_end(self.going_on)
            with trio.move_on_after(min(WIND_DOWN_SECONDS, limits.stop_seconds), shield=True):
                while self._running:
                    await self._fewer.wait()


async def _supervise(work: Callable[[], Awaitable[object]], label: str, *, restart: bool) -> None:
    pause = _FIRST_PAUSE
    while True:
        began = trio.current_time()
        if await succeeds(work, f"the background task {label}", _log) or not restart:
            return
        if trio.current_time() - began > _LONGEST_PAUSE:
            pause = _FIRST_PAUSE
        await trio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 # not a secret: it spreads the restarts
        pause = min(2 * pause, _LONGEST_PAUSE)


@asynccontextmanager
async def open_background(
    server: Server, watch: EndWatch, *, lasts: bool
) -> AsyncGenerator[tuple[BackgroundTasks, Any]]:
    """Enter the server's lifespan with background tasks around it (rule 1); yield the tasks and the lifespan's value.

    Args:
        watch: names the tasks, and the lifespan, if they do not end.
        lasts: True if tasks may be started.
    """
    async with owned_nursery() as nursery:
        tasks = BackgroundTasks(server, lasts, nursery)
        before = tasks.adopt()
        try:
            watch.entering_lifespan()
            async with server.lifespan(server) as state:
                watch.entered_lifespan()
                _servings.set(before)
                try:
                    yield tasks, state
                finally:
                    await tasks.stop(watch)
                    if lasts:  # else there is no lifespan
                        watch.leaving_lifespan(tasks.going_on)
        finally:
            watch.left_lifespan(tasks.going_on)
            _servings.set(before)
