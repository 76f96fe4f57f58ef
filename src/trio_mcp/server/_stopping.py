"""The last part of a stop: what goes on after its end was requested is named, and may end the process.

A handler, a background task or a lifespan may swallow its cancellation, or never give the event loop back. Trio waits
for it, and rightly so: nothing can end a task from outside. What this module adds is to say so.

Rules of this file:

1. `EndWatch` belongs to one serving. When handlers or background tasks have been cancelled, or the lifespan is being
   left, it waits for a while, in Trio's system nursery, because nothing else runs on through every cancellation. Then
   it names each task that goes on, in the log and to `Server(on_stuck=...)`.
2. A `StopGuard` belongs to a process that exists to serve: one whose signals the server listens for. It ends the
   process, and nothing else does. The first serving that is opened takes the guard, so that a serving inside of a
   handler never finds one.
3. The guard decides in a thread of its own, which begins with the stop and asks the event loop for a sign of life all
   the time. So it finds out that the loop is blocked, and acts without it.
4. A signal handler may strike anywhere, so the guard has no locks, and starts its thread with `_thread`, which takes
   none either.
5. Nothing that the guard writes may keep it from ending the process: a log whose lock is taken, or standard error that
   nobody reads.
"""

from __future__ import annotations

import _thread
import logging
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TypeAlias

import trio
from attrs import define, field, frozen

from .._util import WIND_DOWN_SECONDS
from ..peer import HandlerPool, IncomingRequest, Limits

__all__ = [
    "STUCK_STATUS",
    "EndWatch",
    "OnStuck",
    "StopGuard",
    "StuckTask",
    "awaited_by",
    "frames_in_thread",
    "frames_of",
    "name_of",
    "named_in",
    "place_in_thread",
    "place_of",
    "running_handlers",
    "stopped_by_signals",
]

_log = logging.getLogger("trio_mcp.server")

STUCK_STATUS = 199
"""The exit status of a process that was ended because something in it did not end.

The Linux Standard Base leaves 150 to 199 to applications, and 128 plus the number of a signal is at most 192."""
_CLEAN_UP_SECONDS = 1.0
"""The time that a cancelled task has to clean up before it is named."""
_TICK_SECONDS = 0.05
_LOOKS = 10  # see `StopGuard.look`
_FAREWELL_SECONDS = 1.0
"""The time that logging and standard error have to take the last words."""
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)

GoingOn: TypeAlias = "Callable[[], Iterable[tuple[str, trio.lowlevel.Task]]]"
"""A function that returns the tasks that have not ended yet, with their names."""


# --- Names and places ---


@frozen
class StuckTask:
    """A task that goes on although its server has cancelled it: a handler, a background task, or the lifespan."""

    name: str
    """The method, with the tool, prompt or resource, and the id of the request; or the name of the background task."""
    place: str
    """The line at which it stands: file, line and function."""


OnStuck: TypeAlias = Callable[[Sequence[StuckTask]], object]
"""A function of the host that is told of what does not end."""


Frames: TypeAlias = "Sequence[tuple[FrameType, int]]"
"""A stack of frames with their lines, the outermost first."""


def frames_of(task: trio.lowlevel.Task) -> Frames:
    """Return the frames of a task, or those of a child task whose end it awaits."""
    if trio.lowlevel.in_trio_task() and task is trio.lowlevel.current_task():
        return frames_in_thread(threading.get_ident())
    frames = [*task.iter_await_frames()]
    if any(frame.f_code.co_name == "_nested_child_finished" for frame, _ in frames[-3:]):  # it leaves a nursery
        children = task.child_nurseries[-1].child_tasks
        if children:
            return frames_of(next(iter(children)))
    return frames


def frames_in_thread(thread: int) -> Frames:
    """Return the frames of a thread, given its identity; empty if it has ended."""
    frame: FrameType | None = sys._current_frames().get(thread)  # noqa: SLF001 # documented, in spite of its name
    frames: list[tuple[FrameType, int]] = []
    while frame is not None:
        frames.insert(0, (frame, frame.f_lineno))
        frame = frame.f_back
    return frames


def place_of(frames: Frames) -> str:
    """Return the line of the application at which a stack of frames stands: file, line and function.

    That is the innermost frame outside of Python and installed packages; else the innermost frame of a package other
    than Trio and this one; else the innermost.
    """
    if not frames:
        return "its end"
    frame, line = frames[_index_of_place(frames)]
    return f"{frame.f_code.co_filename}:{line} in {frame.f_code.co_qualname}"


def awaited_by(frames: Frames) -> str | None:
    """Return the function that `place_of` has called, with its module; None if that is not known."""
    called = frames[_index_of_place(frames) + 1 :] if frames else ()
    return f"{called[0][0].f_globals.get('__name__')}.{called[0][0].f_code.co_qualname}" if called else None


def _index_of_place(frames: Frames) -> int:
    return min(reversed(range(len(frames))), key=lambda index: _distance(frames[index][0].f_code.co_filename))


def place_in_thread(thread: int) -> str:
    """Return the line at which another thread stands, given its identity."""
    return place_of(frames_in_thread(thread))


_PYTHON = str(Path(os.__file__).parent) + os.sep
_MACHINERY = ("<frozen ", str(Path(__file__).parents[1]) + os.sep, str(Path(trio.__file__).parent) + os.sep)
_PACKAGES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


def _distance(file: str) -> int:
    """Return 0 for a file of the application, 1 for one of an installed package, 2 for one of Python or Trio."""
    if file.startswith(_MACHINERY):
        return 2
    if any(folder in file for folder in _PACKAGES):  # it may be inside of the folder of Python
        return 1
    return 2 if file.startswith(_PYTHON) else 0


# --- One serving ---


@define(eq=False)
class EndWatch:
    """Names what goes on in one serving after its end was requested."""

    _stop_seconds: float
    _on_stuck: OnStuck | None
    _guard: StopGuard | None
    _scope: trio.CancelScope | None = field(default=None, init=False)
    _lifespan: trio.lowlevel.Task | None = field(default=None, init=False)
    """The task that enters or leaves the lifespan."""
    _named: set[trio.lowlevel.Task] = field(factory=set[trio.lowlevel.Task], init=False)

    @classmethod
    def of(cls, limits: Limits, on_stuck: OnStuck | None) -> EndWatch:
        """Return the watch of a new serving, which takes the guard of the process if there is one (rule 2).

        Args:
            on_stuck: called with the tasks that were named.
        """
        guard = _guard.get()
        if guard is None or guard.is_taken:
            return cls(limits.stop_seconds, on_stuck, None)
        guard.is_taken, guard.limits = True, limits
        return cls(limits.stop_seconds, on_stuck, guard)

    def expect_end(self, going_on: GoingOn, *, within: float = _CLEAN_UP_SECONDS) -> None:
        """Name what *going_on* returns *within* seconds from now, unless `ended` or this is called before."""
        self.ended()
        self._scope = trio.CancelScope()
        if self._guard is not None:
            self._guard.begin()
        trio.lowlevel.spawn_system_task(self._name_the_rest, self._scope, going_on, within)

    def ended(self) -> None:
        """Name nothing any more, because what was expected to end has ended."""
        if self._scope is not None:
            self._scope.cancel(reason="what was expected to end has ended")
            self._scope = None
            if self._guard is not None:
                self._guard.relieve()

    def entering_lifespan(self) -> None:
        """Expect this task to enter the lifespan soon after a signal, which cancels it."""
        self._lifespan = trio.lowlevel.current_task()
        if self._guard is not None:
            self._guard.on_stop = partial(self._expect_lifespan, self._entering_or_leaving)

    def entered_lifespan(self) -> None:
        """Expect no more that this task enters the lifespan."""
        self.ended()
        if self._guard is not None:
            self._guard.on_stop = None

    def leaving_lifespan(self, background: GoingOn) -> None:
        """Expect this task to leave the lifespan, and what is left of *background* to end."""
        self._expect_lifespan(lambda: [*background(), *self._entering_or_leaving()])

    def left_lifespan(self, background: GoingOn) -> None:
        """Expect no more that this task leaves the lifespan."""
        self._lifespan = None
        if not [*background()]:
            self.ended()

    def _expect_lifespan(self, going_on: GoingOn) -> None:
        self.expect_end(going_on, within=min(WIND_DOWN_SECONDS, self._stop_seconds))  # it may have much to clean up

    def _entering_or_leaving(self) -> Iterable[tuple[str, trio.lowlevel.Task]]:
        return [] if self._lifespan is None else [("the lifespan", self._lifespan)]

    async def _name_the_rest(self, scope: trio.CancelScope, going_on: GoingOn, seconds: float) -> None:
        with scope:
            await trio.sleep(seconds)
            rest = [*going_on()]
            try:
                self._report(rest)
            except BaseException:  # noqa: BLE001 # whatever the host's code raises, its other tasks go on
                with suppress(Exception):
                    _log.exception("reporting what does not end has failed")
            if rest and self._guard is not None:
                self._guard.raise_alarm()

    def _report(self, tasks: Iterable[tuple[str, trio.lowlevel.Task]]) -> None:
        """Name the tasks that were not named before."""
        stuck = [StuckTask(name, place_of(frames_of(task))) for name, task in tasks if task not in self._named]
        self._named.update(task for _, task in tasks)
        try:
            for each in stuck:
                _log.error("%s does not end; it stands at %s", each.name, each.place)
        finally:  # even if the log fails
            if stuck and self._on_stuck is not None:
                self._on_stuck(stuck)


def running_handlers(pool: HandlerPool) -> Iterable[tuple[str, trio.lowlevel.Task]]:
    """Return the tasks of the handlers that have not ended, with their names."""
    return [(name_of(run.request), task) for run, task in pool.live.items()]


def named_in(request: IncomingRequest) -> object:
    """Return the name of the tool or prompt, or the URI of the resource, that a request is for; None if it has none."""
    params = request.params or {}
    return params.get("name", params.get("uri"))


def name_of(request: IncomingRequest) -> str:
    """Return the method of a request, the tool, prompt or resource that it is for, and its id."""
    named = named_in(request)
    return f"{request.method}{'' if named is None else f' {named!r:.200}'} (request {request.id!r:.200})"


# --- A process of the server's own ---

_guard: ContextVar[StopGuard | None] = ContextVar("trio_mcp_stop_guard", default=None)
"""The guard of the process, in its main task and what that starts."""


@contextmanager
def stopped_by_signals(stop: Callable[[], None], *, listen: bool) -> Generator[StopGuard | None]:
    """Call *stop* in the event loop at each SIGINT and SIGTERM, if *listen* is true and this is the main thread.

    Then the process is the server's own: the block gets the guard of the serving that is opened inside.
    """
    if not listen or threading.current_thread() is not threading.main_thread():
        yield None
        return
    guard, token = StopGuard(), trio.lowlevel.current_trio_token()

    def obey() -> None:
        stop()
        if guard.on_stop is not None:
            guard.on_stop()
            guard.on_stop = None

    def on_signal(_: int, __: FrameType | None) -> None:
        token.run_sync_soon(obey)
        guard.signalled()

    former = {number: signal.signal(number, on_signal) for number in _STOP_SIGNALS}
    _guard.set(guard)
    try:
        yield guard
    finally:
        _guard.set(None)
        guard.is_over = True
        for number, handler in former.items():
            signal.signal(number, handler or signal.SIG_DFL)  # None was not made by Python, and cannot be restored


@frozen
class _Alarm:
    """The state in which the next signal, or some seconds, end the process."""

    began: float
    signals: int
    """The number of signals before."""
    is_blocked: bool
    """True if the event loop did not react."""


@define(eq=False)
class StopGuard:
    """Ends this process if a stop does not come to its end. `stopped_by_signals` makes it."""

    limits: Limits = field(factory=Limits)
    """The limits of the server, as soon as it is known."""
    _exit: Callable[[int], object] = os._exit
    _token: trio.lowlevel.TrioToken = field(factory=trio.lowlevel.current_trio_token, init=False)
    _loop: int = field(factory=threading.get_ident, init=False)
    """The thread of the event loop."""
    on_stop: Callable[[], None] | None = field(default=None, init=False)
    """Called once, in the event loop, after a signal."""
    is_taken: bool = field(default=False, init=False)
    """True if a serving is guarded."""
    is_over: bool = field(default=False, init=False)
    """True if the stop has come to its end."""
    _has_begun: bool = field(default=False, init=False)
    _signals: int = field(default=0, init=False)
    _asked: float = field(default=0.0, init=False)
    """The time at which the event loop was last asked for a sign of life."""
    _looks: int = field(default=0, init=False)
    """The looks since then."""
    _has_answered: bool = field(default=True, init=False)
    _alarm: _Alarm | None = field(default=None, init=False)

    def signalled(self) -> None:
        """Count a signal. The signal handler calls this, between any two steps of the program."""
        self._signals += 1
        self.begin()
        self.look(time.monotonic(), at_least=1)  # some code never lets the thread run

    def begin(self) -> None:
        """Begin to watch, because the stop has begun."""
        if not self._has_begun:
            self._has_begun = True
            with suppress(RuntimeError):  # the system has no more threads; the signal handler still looks
                _thread.start_new_thread(self.run, ())

    def run(self) -> None:
        """Watch until the stop is over."""
        with suppress(trio.RunFinishedError):
            while not self.is_over:
                self.look(time.monotonic())
                time.sleep(_TICK_SECONDS)

    def raise_alarm(self) -> None:
        """Let the next signal, or `Limits.stop_seconds`, end the process."""
        self._alarm = _Alarm(time.monotonic(), self._signals, is_blocked=False)
        self._announce()

    def _announce(self) -> None:
        seconds = self.limits.stop_seconds
        _log.error("the next SIGINT or SIGTERM ends this process%s", f", or {seconds:g} s" * math.isfinite(seconds))

    def relieve(self) -> None:
        """End the alarm, because what was in the way has ended."""
        self._alarm = None

    def look(self, now: float, *, at_least: int = _LOOKS) -> None:
        """Ask the event loop for a sign of life, name the line that blocks it, or end the process, if it is time.

        Args:
            now: the time of `time.monotonic`.
            at_least: the number of looks without a sign of life after which the event loop is blocked, if the time is
                over as well. A process that was suspended for that time is not blocked.
        """
        self._looks += 1
        patience = self.limits.drain_seconds + _CLEAN_UP_SECONDS
        if self._has_answered:
            if self._alarm is not None and self._alarm.is_blocked:
                self.relieve()
            self._asked, self._looks, self._has_answered = now, 0, False
            self._token.run_sync_soon(self._answer)
        elif self._alarm is None and self._looks >= at_least and now - self._asked > patience:
            self._alarm = _Alarm(now, self._signals, is_blocked=True)
            _try(self._name_the_block)
        alarm = self._alarm
        if alarm is not None and (self._signals > alarm.signals or now - alarm.began > self.limits.stop_seconds):
            self.is_over = True
            _try(_say_farewell)
            self._exit(STUCK_STATUS)

    def _answer(self) -> None:
        self._has_answered = True

    def _name_the_block(self) -> None:
        _log.error("the event loop is blocked at %s", place_in_thread(self._loop))
        self._announce()


def _say_farewell() -> None:
    _log.error("this process ends with status %d, because something in it does not end", STUCK_STATUS)
    logger: logging.Logger | None = _log
    while logger is not None:
        for handler in logger.handlers:
            handler.flush()
        logger = logger.parent
    for file in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # there is none, or it is closed
            file.flush()


def _try(work: Callable[[], None]) -> None:
    """Run *work* in a thread of its own, and wait for a bounded time (rule 5)."""
    thread = threading.Thread(target=work, daemon=True)
    with suppress(RuntimeError):  # the system has no more threads
        thread.start()
        thread.join(_FAREWELL_SECONDS)
