"""Notifications over stdio and HTTP: a storm of progress, the first progress of a call, and cancellations."""

from __future__ import annotations

import time
from functools import partial

from ..adapters.sides import Adapter
from ..effort import Effort
from ..figures import percentile
from .connections import connected

__all__ = ["cancel", "first", "storm"]

IDLE = 0.04
"""The idle seconds of both processes before a call is cancelled."""
POLL_SECONDS = 0.002
"""The seconds between two checks for the cancellation of the handler."""
TIMEOUT_SECONDS = 5.0
"""The seconds after which a cancellation counts as lost."""


async def storm(adapter: Adapter, name: str, era: str, effort: Effort, transport: str) -> dict[str, float]:
    """Call a tool that reports progress continuously; count the progress received before the result."""
    received: list[float] = []
    async with connected(adapter, name, era, transport) as session:
        await session.storm(effort.updates, received.append)
        await adapter.loop.sleep(2 * IDLE)  # an SDK may still be delivering progress sent before the result
        taken: list[float] = []
        in_time = effort.updates
        for _ in range(3):
            received.clear()
            began = time.perf_counter()
            result = await session.storm(effort.updates, received.append)
            taken.append(time.perf_counter() - began)
            in_time = min(in_time, len(received))
            if result != effort.updates or received != sorted(received):
                raise AssertionError(f"{result!r} after {received[:20]!r}...")
            await adapter.loop.sleep(2 * IDLE)
    return {
        "per_update_us": percentile(taken, 0.5) / effort.updates * 1e6,
        "late_updates": float(effort.updates - in_time),
    }


async def first(adapter: Adapter, name: str, era: str, effort: Effort, transport: str) -> dict[str, float]:
    """Measure from a call to its first progress, which is the first event of a stream over HTTP."""
    taken: list[float] = []
    async with connected(adapter, name, era, transport) as session:
        for _ in range(effort.cancels):
            arrived: list[float] = []
            began = time.perf_counter()
            await session.storm(1, partial(_note_time, arrived))
            end = time.perf_counter() + TIMEOUT_SECONDS
            while not arrived:  # an SDK may still be delivering progress sent before the result
                if time.perf_counter() > end:
                    raise AssertionError("no progress arrived")
                await adapter.loop.sleep(POLL_SECONDS)
            taken.append(arrived[0] - began)
    return {"p50_us": percentile(taken, 0.5) * 1e6, "max_us": max(taken) * 1e6}


def _note_time(arrived: list[float], _: float) -> None:
    arrived.append(time.perf_counter())


async def cancel(adapter: Adapter, name: str, era: str, effort: Effort, transport: str) -> dict[str, float]:
    """Measure from the client's cancellation to that of the handler, by the clock that both processes share.

    The client first asks for the time of the latter after a pause: its next call would run on the processor on which
    the server is about to take the cancellation.
    """
    taken: list[float] = []
    async with connected(adapter, name, era, transport) as session:
        for number in range(1, effort.cancels + 1):
            cancelled = await adapter.loop.cancelled_after(session.wait, IDLE)
            end = cancelled + TIMEOUT_SECONDS
            await adapter.loop.sleep(IDLE)
            times = await session.call("cancelled", {})
            while len(times) < number:
                if time.perf_counter() > end:
                    raise AssertionError(f"cancellation {number} did not reach the handler")
                await adapter.loop.sleep(POLL_SECONDS)
                times = await session.call("cancelled", {})
            taken.append(times[-1] - cancelled)
    return {"p50_us": percentile(taken, 0.5) * 1e6, "max_us": max(taken) * 1e6}
