"""Many open tasks of one server: what one of them occupies, and how long a client waits for the state of one."""

from __future__ import annotations

import time
from contextlib import AbstractAsyncContextManager
from itertools import cycle, islice
from typing import Any, Protocol, cast

from ..adapters.sides import Adapter, Session
from ..effort import Effort
from ..figures import percentile
from .connections import connected

__all__ = ["tasks"]


class TasksSession(Session, Protocol):
    """A session whose adapter has tasks, which all wait until they are cancelled."""

    async def begin(self) -> str:
        """Start a task; return its id."""
        ...

    async def status(self, id: str) -> Any:
        """Ask for the status of a task."""
        ...

    def waiting(self, count: int) -> AbstractAsyncContextManager[None]:
        """Have so many calls in flight that wait as the tasks do, but are none."""
        ...


async def tasks(adapter: Adapter, name: str, era: str, effort: Effort) -> dict[str, float]:
    """Ask two servers in turn, one with a single task and one with many; count the memory of the second.

    Calls that are no tasks have handlers as well. Their memory is taken off.
    """
    async with (
        connected(adapter, name, era, "stdio") as first,
        connected(adapter, name, era, "stdio") as second,
    ):
        single, many = cast("TasksSession", first), cast("TasksSession", second)
        one = await single.begin()
        await many.begin()  # the first one compiles for the later ones
        before = await _memory(many)
        ids = [await many.begin() for _ in range(effort.tasks)]
        of_tasks = await _memory(many) - before
        alone: list[float] = []
        among: list[float] = []
        for id in islice(cycle(ids), effort.polls):
            alone.append(await _asked(single, one))
            among.append(await _asked(many, id))
        before = await _memory(many)
        async with many.waiting(effort.tasks):
            of_calls = await _memory(many) - before
    return {
        "p50_us": percentile(among, 0.5) * 1e6,
        "p99_us": percentile(among, 0.99) * 1e6,
        "p99_times": percentile(among, 0.99) / percentile(alone, 0.99),
        "task_kb": (of_tasks - of_calls) / effort.tasks / 1024,
    }


async def _asked(session: TasksSession, id: str) -> float:
    """Return the seconds until the server has answered."""
    began = time.perf_counter()
    status = await session.status(id)
    taken = time.perf_counter() - began
    if status != "working":
        raise AssertionError(f"the task is {status!r}")
    return taken


async def _memory(session: TasksSession) -> float:
    memory: float = (await session.call("usage", {"collect": True}))[1]
    return memory
