"""What tests of the garbage collector have in common."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager

from trio.testing import wait_all_tasks_blocked

__all__ = ["collector_disabled", "garbage_of"]


@contextmanager
def collector_disabled() -> Generator[None]:
    """Collect what there is, and nothing by itself while the block lasts."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def garbage_of(use: Callable[[], Awaitable[object]], times: int) -> int:
    """Return the number of objects that so many uses leave to the collector."""
    for _ in range(2):  # which load modules
        await use()
    await wait_all_tasks_blocked(0.01)
    with collector_disabled():
        for _ in range(times):
            await use()
        await wait_all_tasks_blocked(0.01)
        return gc.collect()
