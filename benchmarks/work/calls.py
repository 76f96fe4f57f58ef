"""Small calls, in sequence and many in flight on one session: their durations, and the CPU time of both sides."""

from __future__ import annotations

import time
from functools import partial

from ..adapters.sides import Adapter, Session
from ..effort import Effort
from ..figures import percentile
from .connections import connected

__all__ = ["http", "memory", "stdio", "until", "waiting", "websocket"]


async def stdio(adapter: Adapter, name: str, era: str, effort: Effort, in_flight: int) -> dict[str, float]:
    """Call a child process."""
    async with connected(adapter, name, era, "stdio") as session:
        return await _measured(adapter, session, effort, in_flight, processes=2)


async def waiting(adapter: Adapter, name: str, era: str, effort: Effort, in_flight: int) -> dict[str, float]:
    """Call a child process whose handler runs a checkpoint before it answers, like a handler that waits."""
    async with connected(adapter, name, era, "stdio") as session:
        return await _measured(adapter, session, effort, in_flight, processes=2, tool="add_later")


async def memory(adapter: Adapter, name: str, era: str, effort: Effort, in_flight: int) -> dict[str, float]:
    """Call a server in this process, which uses the CPU time of both sides."""
    async with connected(adapter, name, era, "memory") as session:
        return await _measured(adapter, session, effort, in_flight, processes=1)


async def http(adapter: Adapter, name: str, era: str, effort: Effort, in_flight: int) -> dict[str, float]:
    """Call an HTTP server on this machine."""
    async with connected(adapter, name, era, "http") as session:
        return await _measured(adapter, session, effort, in_flight, processes=2)


async def websocket(adapter: Adapter, name: str, era: str, effort: Effort, in_flight: int) -> dict[str, float]:
    """Call an HTTP server on this machine over a WebSocket."""
    async with connected(adapter, name, era, "websocket") as session:
        return await _measured(adapter, session, effort, in_flight, processes=2)


async def _measured(
    adapter: Adapter, session: Session, effort: Effort, in_flight: int, *, processes: int, tool: str = "add"
) -> dict[str, float]:
    workers = [session] * in_flight
    await until(adapter, workers, effort.warm_up, tool)
    theirs = (await session.call("usage", {"collect": False}))[0]
    ours, began = time.process_time(), time.perf_counter()
    taken = await until(adapter, workers, effort.seconds, tool)
    seconds, used = time.perf_counter() - began, time.process_time() - ours
    theirs = (await session.call("usage", {"collect": False}))[0] - theirs
    calls = len(taken)
    figures = {
        "p50_us": percentile(taken, 0.5) * 1e6,
        "p99_us": percentile(taken, 0.99) * 1e6,
        "rate": calls / seconds,
        "client_cpu_us": used / calls * 1e6,
    }
    return figures if processes == 1 else {**figures, "server_cpu_us": theirs / calls * 1e6}


async def until(adapter: Adapter, sessions: list[Session], seconds: float, tool: str = "add") -> list[float]:
    """Call *tool* on each session, one call after the other, for *seconds*, and return the seconds each call took."""
    end = time.perf_counter() + seconds
    taken: list[float] = []
    await adapter.loop.together([partial(_worker, session, tool, end, taken) for session in sessions])
    return taken


async def _worker(session: Session, tool: str, end: float, taken: list[float]) -> None:
    number = 0
    now = time.perf_counter()
    while True:
        number += 1
        total = await session.call(tool, {"a": number, "b": 1})
        if total != number + 1:
            raise AssertionError(f"{tool}({number}, 1) was {total!r}")
        began, now = now, time.perf_counter()
        taken.append(now - began)
        if now >= end:
            return
