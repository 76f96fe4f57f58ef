"""Cancel a coroutine at every moment, one run after the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio
from attrs import define

__all__ = ["cancel_everywhere", "cancelled_after"]


async def cancel_everywhere(
    attempt: Callable[[], Awaitable[object]],
    after_each: Callable[[], Awaitable[object]] | None = None,
    *,
    max_points: int = 10_000,
) -> int:
    """Run *attempt* again and again, cancelling it after the program's first step, then its second, until it completes.

    A step is what one task does between two checkpoints, whichever task it is: so *attempt* is cancelled at every
    place, and with every task it works with at every stage. One call takes the place of dozens of hand-timed tests:
    whatever happens halfway must leave everything consistent, and *after_each* is where you assert that.

    Args:
        attempt: makes the coroutine to cancel; called anew for each run.
        after_each: awaited after each run, cancelled or not.
        max_points: the most steps to try.

    Returns:
        After how many different steps it was cancelled.

    Raises:
        RuntimeError: it had not completed after *max_points* runs.
    """
    for point in range(1, max_points + 1):
        with trio.CancelScope() as scope:
            await cancelled_after(point, attempt, scope)
        if after_each is not None:
            await after_each()
        if not scope.cancelled_caught:
            return point - 1
    raise RuntimeError(f"not completed after {max_points} runs")


async def cancelled_after(steps: int, attempt: Callable[[], Awaitable[object]], scope: trio.CancelScope) -> None:
    """Await *attempt*, and cancel *scope* after so many steps of the program."""
    instrument = _Steps(steps, scope)
    trio.lowlevel.add_instrument(instrument)
    try:
        await attempt()
    finally:
        trio.lowlevel.remove_instrument(instrument)


@define(eq=False)
class _Steps(trio.abc.Instrument):
    """Cancels a scope after the n-th step of the program."""

    _left: int
    _scope: trio.CancelScope

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self._left -= 1
        if self._left == 0:
            self._scope.cancel(reason=f"cancel_everywhere, in {task.name}")
