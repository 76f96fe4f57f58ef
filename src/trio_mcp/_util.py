"""Nurseries and jobs without exception groups, failures of applications, delayed cancellation, estimates of tokens.

Every layer may use them.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import trio

from ._misuse import asyncio_failure

__all__ = [
    "CHARACTERS_PER_TOKEN",
    "WIND_DOWN_SECONDS",
    "estimated_tokens",
    "exc_info_of",
    "failure_of",
    "has_cancelled",
    "outlast",
    "own_cancellation",
    "owned_nursery",
    "run_all",
    "succeeds",
]

CHARACTERS_PER_TOKEN = 4
"""The average number of characters in a token."""
WIND_DOWN_SECONDS = 10.0
"""The timeout of a shielded wind-down."""
_TRIO = Path(trio.__file__).parent
_CALLERS = tuple(str(folder) + os.sep for folder in (Path(__file__).parent, _TRIO, _TRIO.parent / "outcome"))
"""The folders of the code through which the functions of an application are called."""


def _split(exc: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """Split an exception into its cancellations and the rest; each part is None if it is empty."""
    if isinstance(exc, trio.Cancelled):
        return exc, None
    if isinstance(exc, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", exc)
        cancelled, rest = group.split(trio.Cancelled)
        return (cancelled, rest) if cancelled is not None else (None, group)
    return None, exc


def exc_info_of(failure: BaseException) -> tuple[type[BaseException], BaseException, TracebackType | None]:
    """Return what the log shall show of a failure of an application: a traceback that begins with its own code.

    A function of an application is called through a dozen functions of this package and of Trio, which say nothing
    about the failure. If there is no code of an application in the traceback, it is shown whole.
    """
    shown = failure.__traceback__
    while shown is not None and shown.tb_frame.f_code.co_filename.startswith(_CALLERS):
        shown = shown.tb_next
    return type(failure), failure, shown or failure.__traceback__


def has_cancelled(exc: BaseException) -> bool:
    """Return True if *exc* is a `trio.Cancelled`, or a group with one."""
    return _split(exc)[0] is not None


def failure_of(raised: BaseException, actor: str, log: logging.Logger) -> Exception:
    """Return the failure of application code that has raised *raised*, so that it affects nothing but its own call.

    A cancellation passes only if the current task is being cancelled. Any other `trio.Cancelled` belongs to another
    task: the code has stored it there and raised it here, where no scope would catch it, so that it would end the whole
    program. `SystemExit`, `KeyboardInterrupt`, and exceptions of other libraries that are no `Exception`, such as
    `asyncio.CancelledError`, are failures too. Application code shall run with protection from interrupts
    (`trio.lowlevel.enable_ki_protection`): then a real Ctrl+C is raised in the main task and not here. An error that
    comes from using asyncio becomes the cause of one that says so.

    Call this outside of the cancel scopes of the code, in the task that ran it.

    Args:
        actor: the code, for the message of the failure, such as "the handler".
        log: the logger for the failure of a clean-up during a cancellation.

    Raises:
        trio.Cancelled: the task is being cancelled; or a group of them.
        GeneratorExit: the coroutine is being closed, because its Trio run is over.
    """
    if isinstance(raised, Exception):
        return asyncio_failure(raised, actor) or raised
    if not trio.lowlevel.in_trio_task():
        raise raised
    cancelled, rest = _split(raised)
    if cancelled is not None and _is_being_cancelled():
        if rest is not None:
            log.error("%s failed while it was cancelled", actor, exc_info=rest)
        raise cancelled from None
    if isinstance(raised, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", raised)
        kinds = ", ".join(dict.fromkeys(type(each).__name__ for each in _leaves(group)))
        failure = RuntimeError(f"a task of {actor} raised {kinds}")
    elif isinstance(raised, SystemExit):
        failure = RuntimeError(f"{actor} tried to exit the process: sys.exit({raised.code!r})")
    elif isinstance(raised, trio.Cancelled):
        failure = RuntimeError(
            f"{actor} raised trio.Cancelled, but was not cancelled: it is the exception of another task"
        )
    else:
        failure = RuntimeError(f"{actor} raised {type(raised).__name__}, which is not an Exception")
    failure.__cause__ = raised
    return failure


def _is_being_cancelled() -> bool:
    """Return True if a scope around the current task is cancelled."""
    return trio.current_effective_deadline() == -math.inf


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """Return the exceptions in a group that are not groups."""
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(cast("BaseExceptionGroup[BaseException]", each))
        else:
            yield each


@trio.lowlevel.enable_ki_protection  # see `failure_of`
async def succeeds(work: Callable[[], Awaitable[object]], actor: str, log: logging.Logger) -> bool:
    """Run application code; return False if it failed, which is logged and affects nothing else (see `failure_of`).

    Args:
        work: an async function.
        actor: the code, for the log.
        log: the logger.
    """
    try:
        await work()
    except BaseException as exc:  # `failure_of` raises it again unless it is a failure
        log.log(logging.ERROR, "%s failed", actor, exc_info=exc_info_of(failure_of(exc, actor, log)))
        return False
    return True


@contextmanager
def own_cancellation(actor: str, log: logging.Logger) -> Generator[None]:
    """Let all exceptions of application code pass unchanged, except a `trio.Cancelled` of another task (`failure_of`).

    Args:
        actor: the code, for the message of the failure.
        log: the logger of `failure_of`.
    """
    try:
        yield
    except BaseException as exc:
        if has_cancelled(exc) and not _is_being_cancelled():
            raise failure_of(exc, actor, log) from exc
        raise


def owned_nursery(
    wind_down: Callable[[], Awaitable[None]] | None = None, *, on_cancel: Callable[[], None] | None = None
) -> AbstractAsyncContextManager[trio.Nursery]:
    """Open a nursery for tasks of this package that does not wrap the exceptions of its body.

    An exception of the body leaves the block unchanged, whatever its class and group depth (KeyboardInterrupt and
    SystemExit too). Only if a task fails as well, which is a bug, the block raises a group with both. A cancellation
    inside the body reaches the scope that it belongs to.

    Args:
        wind_down: awaited at the end of the body, unless the body is cancelled: shielded, for at most
            `WIND_DOWN_SECONDS`. Then the tasks are cancelled.
        on_cancel: called when the tasks have been cancelled; must not raise.

    Leave the block in the task that entered it, innermost first, as with any Trio nursery; inside an async generator
    close the generator with `contextlib.aclosing`.
    """
    return _OwnedNursery(wind_down, on_cancel)


class _OwnedNursery(AbstractAsyncContextManager[trio.Nursery]):
    """The block of `owned_nursery`.

    It is a class and not a generator, and it deletes its references to exceptions: if a frame refers to an exception
    whose traceback refers to that frame, all that a cancelled block held stays until the next full garbage collection.
    """

    def __init__(self, wind_down: Callable[[], Awaitable[None]] | None, on_cancel: Callable[[], None] | None) -> None:
        self._wind_down = wind_down
        self._on_cancel = on_cancel
        self._manager = trio.open_nursery(strict_exception_groups=True)  # also if trio.run was called without
        self._nursery: trio.Nursery

    @trio.lowlevel.enable_ki_protection  # an interrupt in between would leave the nursery open
    async def __aenter__(self) -> trio.Nursery:
        """Open the nursery."""
        self._nursery = await self._manager.__aenter__()
        return self._nursery

    @trio.lowlevel.enable_ki_protection  # as above
    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """End the tasks, and raise the exception of the body."""
        cancelled, error = (None, None) if raised is None else _split(raised)
        bugs: BaseException | None = None
        try:
            try:
                await self._close(cancelled)
            except BaseExceptionGroup as group:
                if error is None:
                    raise
                _, bugs = _split(group)  # a cancellation finds its scope without being raised
            if error is None:
                return True  # the nursery has caught its own cancellation
            if bugs is not None:
                message = "the block failed, and so did the connection"
                raise BaseExceptionGroup(message, [error, *getattr(bugs, "exceptions", (bugs,))]) from None
            if error is raised:
                return False
            raise error
        finally:
            del raised, trace, cancelled, error, bugs

    async def _close(self, cancelled: BaseException | None) -> None:
        """End the tasks; raise *cancelled*, or what the wind-down raises, and what tasks raise, as a group."""
        try:
            if self._wind_down is not None and cancelled is None:
                with trio.move_on_after(WIND_DOWN_SECONDS, shield=True):
                    await _run_unprotected(self._wind_down)
            self._nursery.cancel_scope.cancel()
            if self._on_cancel is not None:
                self._on_cancel()
        except BaseException as exc:  # noqa: BLE001 # the nursery raises it again
            cancelled = exc
        try:
            if cancelled is None:
                await self._manager.__aexit__(None, None, None)
            else:
                await self._manager.__aexit__(type(cancelled), cancelled, cancelled.__traceback__)
        finally:
            del cancelled


@trio.lowlevel.disable_ki_protection
async def _run_unprotected(work: Callable[[], Awaitable[None]]) -> None:
    await work()


async def run_all(
    jobs: Sequence[Callable[[], Awaitable[None]]], *, log: logging.Logger, at_once: int | None = None
) -> None:
    """Run jobs of the application concurrently, and return when all have ended.

    The first job that fails cancels the others, and its exception is raised unchanged, whatever its class; also if the
    caller is cancelled and a job fails nevertheless. Further exceptions are logged. A KeyboardInterrupt of the calling
    task is raised unchanged, too. Only a `trio.Cancelled` that belongs to another task is replaced (see `failure_of`).

    Args:
        jobs: async functions.
        log: the logger for failures that cannot be raised.
        at_once: the number of jobs that run at the same time, at least 1; None for all of them.
    """
    if not jobs:
        await trio.lowlevel.checkpoint()
        return
    running = _Jobs(jobs, len(jobs) if at_once is None else min(len(jobs), at_once), log)
    try:
        async with owned_nursery() as nursery:
            for _ in range(running.workers):
                nursery.start_soon(running.work)
            await running.done.wait()  # not at the end of the nursery, which would wrap a KeyboardInterrupt
    finally:
        for lost in running.failures[1:]:
            log.error("another job failed as well", exc_info=lost)
        if running.failures:
            raise running.failures[0]


class _Jobs:
    """The shared state of the workers of one `run_all`."""

    def __init__(self, jobs: Sequence[Callable[[], Awaitable[None]]], workers: int, log: logging.Logger) -> None:
        self.waiting = iter(jobs)
        self.log = log
        self.workers = workers
        self.failures: list[BaseException] = []
        self.done = trio.Event()

    async def work(self) -> None:
        """Run one job after the other; set `done` when all have ended, or one has failed."""
        try:
            for job in self.waiting:
                with own_cancellation("the application", self.log):
                    await job()
        except BaseException as exc:  # noqa: BLE001 # raised by `run_all`
            cancelled, failure = _split(exc)
            if failure is not None:
                self.failures.append(failure)
                self.done.set()
            if cancelled is not None:
                raise cancelled from None  # the scope it belongs to is outside
        self.workers -= 1
        if self.workers == 0:
            self.done.set()


async def outlast(work: Callable[[], Awaitable[None]], *, seconds: float, grace: float) -> None:
    """Run work that should not be interrupted: a cancellation takes effect only after a grace period.

    Args:
        work: an async function.
        seconds: the time limit.
        grace: the time limit after a cancellation.

    Raises:
        trio.TooSlowError: the time limit was exceeded.
    """
    async with owned_nursery() as nursery:
        with trio.fail_after(seconds, shield=True) as scope:
            nursery.start_soon(_hurry, scope, grace)
            await work()


async def _hurry(scope: trio.CancelScope, grace: float) -> None:
    try:
        await trio.sleep_forever()
    finally:
        scope.deadline = min(scope.deadline, trio.current_time() + grace)


def estimated_tokens(value: Any) -> int:
    """Return about how many tokens a JSON value takes in the context of a model.

    Raises:
        RecursionError: it is nested too deeply.
    """
    return len(json.dumps(value, ensure_ascii=False)) // CHARACTERS_PER_TOKEN
