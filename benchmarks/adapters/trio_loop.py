"""The event loop of this project and of the floors, on Trio."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence

import trio

from .sides import Doing

__all__ = ["TrioLoop"]


class TrioLoop:
    """See `sides.Loop`."""

    def run(self, main: Callable[[], Awaitable[dict[str, float]]]) -> dict[str, float]:
        """Run it with `trio.run`."""
        return trio.run(main)

    async def together(self, doings: Sequence[Doing]) -> None:
        """Run them in one nursery."""
        async with trio.open_nursery() as nursery:
            for doing in doings:
                nursery.start_soon(doing)

    async def sleep(self, seconds: float) -> None:
        """Sleep by Trio's clock."""
        await trio.sleep(seconds)

    async def cancelled_after(self, doing: Doing, seconds: float) -> float:
        """Cancel the scope of a nursery."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(doing)
            await trio.sleep(seconds)
            cancelled = time.perf_counter()
            nursery.cancel_scope.cancel()
        return cancelled
