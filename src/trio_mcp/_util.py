"""Small tools every layer may use: nurseries that keep the exceptions of a body, and of tasks, as they are."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import cast

import trio

__all__ = ["WIND_DOWN_SECONDS", "is_failure", "owned_nursery", "run_all"]

WIND_DOWN_SECONDS = 10.0
"""The longest a shielded wind-down may take."""


def _split(exc: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """Divide into (the cancellation part, the rest); the object itself where there is nothing to divide."""
    if isinstance(exc, trio.Cancelled):
        return exc, None
    if isinstance(exc, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", exc)
        cancelled, rest = group.split(trio.Cancelled)
        return (cancelled, rest) if cancelled is not None else (None, group)
    return None, exc


def is_failure(group: BaseExceptionGroup[BaseException]) -> bool:
    """Tell whether what some tasks of a handler raised concerns nobody else: all of it but an interrupt and its like.

    An attempt to exit the process is the handler's own, or of code it calls; it does not speak for the program.
    """
    return group.split((Exception, SystemExit))[1] is None


@asynccontextmanager
async def owned_nursery(wind_down: Callable[[], Awaitable[None]] | None = None) -> AsyncGenerator[trio.Nursery]:
    """Open a nursery for this package's own tasks, invisible to the exceptions of its body.

    The body's exception leaves the block as it is, whatever its class and at its own group depth
    (KeyboardInterrupt and SystemExit too). Only a bug in the tasks themselves makes a group, and that
    group holds both. Cancellation inside the body goes to the scope it belongs to.

    Args:
        wind_down: awaited when the body is left, unless it is cancelled: shielded, for at most `WIND_DOWN_SECONDS`.
            Then the tasks are cancelled.

    Leave the block in the task that entered it, innermost first, as with any Trio nursery; inside an async
    generator close the generator with `contextlib.aclosing`.
    """
    error: BaseException | None = None
    try:
        async with trio.open_nursery(strict_exception_groups=True) as nursery:  # whatever trio.run was told
            try:
                yield nursery
            except BaseException as exc:  # noqa: BLE001 # every class passes: raised again below, outside the nursery
                cancelled, error = _split(exc)
                if cancelled is not None:
                    nursery.cancel_scope.cancel()
                    raise cancelled from None  # the scope it belongs to is outside
            if wind_down is not None:
                with trio.move_on_after(WIND_DOWN_SECONDS, shield=True):
                    await wind_down()
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        cancelled, bugs = _split(group)
        if error is None or (bugs is None and cancelled is None):
            raise
        if bugs is not None:
            both: list[BaseException] = [error, *getattr(bugs, "exceptions", (bugs,))]
            raise BaseExceptionGroup("the block failed, and so did the connection", both) from None
    if error is not None:
        try:
            raise error
        finally:
            del error  # its traceback refers to this frame


async def run_all(
    jobs: Sequence[Callable[[], Awaitable[None]]], *, log: logging.Logger, at_once: int | None = None
) -> None:
    """Run jobs of the application's beside one another, and return when all have ended.

    The first that fails cancels the others, and what it raised is raised as it is, whatever its class; so it is when
    this is cancelled and a job fails all the same. What others raise then is logged. An interrupt of the calling task
    comes out as it is, too.

    Args:
        jobs: async functions.
        log: where failures go that cannot be raised.
        at_once: how many jobs run at the same time, 1 or more; None: all of them.
    """
    if not jobs:
        await trio.lowlevel.checkpoint()
        return
    running = _Jobs(jobs, len(jobs) if at_once is None else min(len(jobs), at_once))
    try:
        async with owned_nursery() as nursery:
            for _ in range(running.workers):
                nursery.start_soon(running.work)
            await running.resolved.wait()  # here, and not at the nursery's end, because of interrupts
    finally:
        for lost in running.failures[1:]:
            log.error("something else failed as well", exc_info=lost)
        if running.failures:
            raise running.failures[0]


class _Jobs:
    """What the workers of one `run_all` have in common."""

    def __init__(self, jobs: Sequence[Callable[[], Awaitable[None]]], workers: int) -> None:
        self.waiting = iter(jobs)
        self.workers = workers
        self.failures: list[BaseException] = []
        self.resolved = trio.Event()

    async def work(self) -> None:
        """Do one job after the other; say when all are done, or one has failed."""
        try:
            for job in self.waiting:
                await job()
        except BaseException as exc:  # noqa: BLE001 # raised above, as it is
            cancelled, failure = _split(exc)
            if failure is not None:
                self.failures.append(failure)
                self.resolved.set()
            if cancelled is not None:
                raise cancelled from None  # the scope it belongs to is outside
        self.workers -= 1
        if self.workers == 0:
            self.resolved.set()
