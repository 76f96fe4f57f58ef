"""Work that outlives the call that starts it, `Server.background`: one supervised nursery per serving.

Rules of this file:

1. The nursery is opened before the lifespan is entered, and its tasks have ended before the lifespan is left: what the
   lifespan yielded is there for them.
2. A task that fails costs nothing but itself.
3. Which serving `Server.background` means is a context variable, set for the lifespan and for every handler: what they
   start, tasks and threads, inherits it, and a server may be served several times at once.
"""

from __future__ import annotations

import inspect
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVarTuple

import trio
from attrs import define, field

from .._errors import TooManyTasks
from .._util import WIND_DOWN_SECONDS, is_failure, owned_nursery

if TYPE_CHECKING:
    from ._server import Server

__all__ = ["Background", "BackgroundTasks", "open_background"]

_log = logging.getLogger("trio_mcp.server")

Ts = TypeVarTuple("Ts")

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
"""Seconds between a failure and the restart. Each pause is twice as long as the one before; a task that has run for
longer than the longest pause begins anew."""

_servings: ContextVar[Mapping[Server, BackgroundTasks]] = ContextVar("trio_mcp_servings")
"""By server, what `Server.background` means to the code that looks."""
_NONE: Mapping[Server, BackgroundTasks] = {}


@define(eq=False)
class Background:
    """Starts tasks that outlive the call that starts them. It is `Server.background`."""

    _server: Server

    def start_soon(
        self,
        async_fn: Callable[[*Ts], Awaitable[object]],
        *args: *Ts,
        name: str | None = None,
        restart: bool = False,
    ) -> None:
        """Run ``async_fn(*args)`` in a task that belongs to the serving, not to the call.

        For handlers, lifespans, and tasks that these have started; in plain `def` handlers, as
        ``trio.from_thread.run_sync(server.background.start_soon, async_fn)``. The task has the context variables of
        the caller. It goes on when the call is answered or cancelled and when its connection is lost; what it reports
        through the call's `Context` afterwards is dropped.

        A task that raises is logged, under ``trio_mcp``, and disturbs nothing else. When the serving stops, tasks may
        come to their end for `Limits.drain_seconds`; then they are cancelled. They end before the lifespan does.

        Args:
            name: for the log; the function's by default.
            restart: start it again when it raises, after a pause that grows from about a second to about a minute. When
                it returns, it is over. Such a task is not waited for when the serving stops: it is cancelled after all
                that are.

        Raises:
            RuntimeError: there is no telling which serving is meant, because neither a handler nor a lifespan of this
                server calls; or the serving stops; or a thread calls without `trio.from_thread`.
            TooManyTasks: `Limits.max_background` tasks run already.
            TypeError: *async_fn* is no function, but a coroutine, say.
        """
        tasks = _servings.get(_NONE).get(self._server)
        if tasks is None:
            raise RuntimeError(
                f"background tasks belong to a serving, and no handler or lifespan of the server "
                f"{self._server.info.name!r} has called this"
            )
        tasks.start_soon(async_fn, *args, name=name, restart=restart)


@define(eq=False)
class BackgroundTasks:
    """The background tasks of one serving. Made by `open_background`."""

    _server: Server
    _lasts: bool
    """Whether the serving outlives a single request."""
    _nursery: trio.Nursery
    _token: trio.lowlevel.TrioToken = field(factory=trio.lowlevel.current_trio_token, init=False)
    _stops: bool = field(default=False, init=False)
    _awaited: int = field(default=0, init=False)
    """Tasks that are waited for when the serving stops: those without a restart."""
    _running: int = field(default=0, init=False)
    _fewer: trio.Event = field(factory=trio.Event, init=False)
    """Set when a task has ended, and replaced."""
    _before: Mapping[Server, BackgroundTasks] = field(default=_NONE, init=False)
    _adopted: Mapping[Server, BackgroundTasks] = field(init=False)
    """What `Server.background` means after `adopt` where it meant `_before`: most calls come from the same place."""
    _scopes: dict[trio.CancelScope, None] = field(factory=dict[trio.CancelScope, None], init=False)
    """One for each task: the nursery's own is around the lifespan as well, which is to end in peace."""

    def __attrs_post_init__(self) -> None:
        self._adopted = {self._server: self}

    @property
    def running(self) -> int:
        """Tasks that have been started and not ended."""
        return self._running

    def adopt(self) -> Mapping[Server, BackgroundTasks]:
        """Let the server's `background` mean this serving, in the calling context; return what it meant there."""
        before = _servings.get(_NONE)
        if before is not self._before:
            self._before, self._adopted = before, {**before, self._server: self}
        _servings.set(self._adopted)
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
            hint = ": pass the function and its arguments" if inspect.iscoroutine(given) else ""
            raise TypeError(f"{given!r} is no async function{hint}")
        if not self._lasts:
            raise RuntimeError(
                "background tasks need a serving that lasts, and this request has one of its own, because nobody runs "
                "the lifespan of the HTTP application: let the host pass on lifespan events, or enter `app.run()`"
            )
        if self._stops:
            raise RuntimeError(f"the server {self._server.info.name!r} stops, and starts no background tasks any more")
        most = self._server.limits.max_background
        if self._running >= most:
            raise TooManyTasks(f"{most} background tasks run already (Limits.max_background)")
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
            text = (
                "a thread starts background tasks by trio.from_thread.run_sync(server.background.start_soon, async_fn)"
            )
            raise RuntimeError(text) from None
        if here is not self._token:
            raise RuntimeError("this is another Trio run than that of the serving")

    async def _run(
        self, scope: trio.CancelScope, work: Callable[[], Awaitable[object]], label: str, restart: bool
    ) -> None:
        try:
            with scope:
                await _supervise(work, label, restart=restart)
        finally:
            del self._scopes[scope]
            self._running -= 1
            self._awaited -= not restart
            self._fewer.set()
            self._fewer = trio.Event()

    async def stop(self) -> None:
        """Start no more; wait for what is waited for, cancel the rest, and return when all have ended."""
        self._stops = True
        try:
            with trio.move_on_after(self._server.limits.drain_seconds):
                while self._awaited:
                    await self._fewer.wait()
        finally:
            for scope in self._scopes:
                scope.cancel(reason="the serving stops")
            with trio.move_on_after(WIND_DOWN_SECONDS, shield=True):
                while self._running:
                    await self._fewer.wait()


async def _supervise(work: Callable[[], Awaitable[object]], label: str, *, restart: bool) -> None:
    pause = _FIRST_PAUSE
    while True:
        began = trio.current_time()
        if await _succeeds(work, label) or not restart:
            return
        if trio.current_time() - began > _LONGEST_PAUSE:
            pause = _FIRST_PAUSE
        await trio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 # no secret: it spreads the restarts
        pause = min(2 * pause, _LONGEST_PAUSE)


async def _succeeds(work: Callable[[], Awaitable[object]], label: str) -> bool:
    """Tell whether *work* returned; otherwise say in the log what it raised (rule 2)."""
    try:
        await work()
    except Exception:  # noqa: BLE001 # the one boundary between a background task and the server
        _log.exception("the background task %s failed", label)
        return False
    except SystemExit as exc:  # it does not speak for the server
        _log.error("the background task %s tried to exit the process: sys.exit(%r)", label, exc.code)
        return False
    except BaseExceptionGroup as group:
        cancelled, rest = group.split(trio.Cancelled)
        if rest is None or not is_failure(rest):  # KeyboardInterrupt and its like pass
            raise
        if cancelled is None:
            _log.error("a task of the background task %s tried to exit the process", label, exc_info=rest)
            return False
        _log.error("the background task %s failed while it was cancelled", label, exc_info=rest)
        raise cancelled from None
    return True


@asynccontextmanager
async def open_background(server: Server, *, lasts: bool) -> AsyncGenerator[tuple[BackgroundTasks, Any]]:
    """Enter the server's lifespan, with background tasks around it (rule 1); yields both the tasks and its state.

    Args:
        lasts: whether there may be tasks.
    """
    async with owned_nursery() as nursery:
        tasks = BackgroundTasks(server, lasts, nursery)
        before = tasks.adopt()
        try:
            async with server.lifespan(server) as state:
                _servings.set(before)
                try:
                    yield tasks, state
                finally:
                    await tasks.stop()
        finally:
            _servings.set(before)
