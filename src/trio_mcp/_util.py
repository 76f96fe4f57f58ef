"""Small tools every layer may use: a nursery whose body keeps its exceptions as they are."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import cast

import trio

__all__ = ["WIND_DOWN_SECONDS", "owned_nursery"]

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
