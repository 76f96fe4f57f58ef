"""The event loop of the SDKs on asyncio. It uses only the standard library."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from .sides import Doing

__all__ = ["AsyncioLoop"]


class AsyncioLoop:
    """See `sides.Loop`."""

    def run(self, main: Callable[[], Awaitable[dict[str, float]]]) -> dict[str, float]:
        """Run it with `asyncio.run`."""

        async def awaited() -> dict[str, float]:
            return await main()

        return asyncio.run(awaited())

    async def together(self, doings: Sequence[Doing]) -> None:
        """Run them in one task group."""
        async with asyncio.TaskGroup() as group:
            for doing in doings:
                group.create_task(_coroutine(doing))

    async def sleep(self, seconds: float) -> None:
        """Sleep by the clock of the loop."""
        await asyncio.sleep(seconds)

    async def cancelled_after(self, doing: Doing, seconds: float) -> float:
        """Cancel the task."""
        task = asyncio.ensure_future(_coroutine(doing))
        await asyncio.sleep(seconds)
        cancelled = time.perf_counter()
        task.cancel()
        await asyncio.wait([task])
        return cancelled


async def _coroutine(doing: Doing) -> None:
    await doing()
