"""The growth of memory over the calls of one session, and over sessions in sequence."""

from __future__ import annotations

from functools import partial

from ..adapters.sides import Adapter, Session
from ..adapters.tools import resident_after_collection
from ..effort import Effort

__all__ = ["calls", "cycles"]

IN_FLIGHT = 16


async def calls(adapter: Adapter, _name: str, era: str, effort: Effort) -> dict[str, float]:
    """Measure the growth from the first fifth of the calls to the last call, in memory."""
    async with adapter.memory(adapter.server(0), era) as session:
        first = effort.calls // 5
        await _many(adapter, session, first)
        before = resident_after_collection()
        await _many(adapter, session, effort.calls - first)
        return {"growth_mb": (resident_after_collection() - before) / 2**20}


async def cycles(adapter: Adapter, _name: str, era: str, effort: Effort) -> dict[str, float]:
    """Measure the growth from the first quarter of the sessions to the last one, in memory, each with one call."""
    server = adapter.server(0)
    before, first = 0, effort.cycles // 4
    for number in range(effort.cycles):
        if number == first:
            before = resident_after_collection()
        async with adapter.memory(server, era) as session:
            await session.call("add", {"a": 1, "b": 1})
    return {"growth_kb": (resident_after_collection() - before) / (effort.cycles - first) / 1024}


async def _many(adapter: Adapter, session: Session, count: int) -> None:
    await adapter.loop.together([partial(_some, session, count // IN_FLIGHT)] * IN_FLIGHT)


async def _some(session: Session, count: int) -> None:
    for number in range(count):
        total = await session.call("add", {"a": number, "b": 1})
        if total != number + 1:
            raise AssertionError(f"add({number}, 1) was {total!r}")
