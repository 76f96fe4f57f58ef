"""Several processes as one service: what it costs that they share state, and to be at the wrong one of them.

What is compared is measured in turns within one run, so that a disturbance hits both.
"""

from __future__ import annotations

import random
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import cast

from ..adapters.ours_nodes import SHARED, OursNodes
from ..adapters.sides import Adapter, Session
from ..effort import Effort
from ..figures import Spread, percentile
from .calls import until
from .connections import http_server

__all__ = ["change", "forwarded", "many", "sharing"]

TURNS = 10
"""The number of times that each side has its turn."""
PROCESSES = 4
CHANGES_PER_REPEAT = 10
LONGEST_PAUSE = 0.03
"""The longest pause between changes in seconds: longer than a process looks away from a file that it follows."""
START_SECONDS = 60.0


async def sharing(adapter: Adapter, name: str, era: str, effort: Effort, in_flight: int) -> dict[str, float]:
    """Call a process that shares state through Redis, with nobody, and one that does not."""
    del era
    nodes = cast("OursNodes", adapter)
    with redis() as shared, _processes(name, 1, shared) as [with_redis], _processes(name, 1, "") as [without]:
        async with nodes.calls([with_redis]) as one, nodes.calls([without]) as other:
            return await _compared(adapter, one, other, effort, in_flight)


async def forwarded(adapter: Adapter, name: str, era: str, effort: Effort, in_flight: int) -> dict[str, float]:
    """Call in a session through a process that does not have it, and directly."""
    del era
    nodes = cast("OursNodes", adapter)
    with redis() as shared, _processes(name, 2, shared) as [owner, other]:
        async with nodes.session_through(owner, other) as through, nodes.session_through(owner, owner) as direct:
            return await _compared(adapter, through, direct, effort, in_flight)


async def many(adapter: Adapter, name: str, era: str, effort: Effort, in_flight: int) -> dict[str, float]:
    """Call four processes of one service in turn, and one process alone."""
    del era
    nodes = cast("OursNodes", adapter)
    with redis() as shared, _processes(name, PROCESSES, shared) as urls, _processes(name, 1, "") as [alone]:
        async with nodes.calls(urls) as all_of_them, nodes.calls([alone]) as one:
            return await _compared(adapter, all_of_them, one, effort, in_flight)


async def change(adapter: Adapter, name: str, era: str, effort: Effort, backend: str) -> dict[str, float]:
    """Measure from a change in one process to its arrival at a client that listens at another one.

    The pauses are of random lengths, because a process that follows a file looks at it in intervals.
    """
    del era
    nodes, pauses = cast("OursNodes", adapter), random.Random(0)
    taken: list[float] = []
    with _backend(backend) as shared, _processes(name, 2, shared) as [one, other]:
        async with nodes.http(one, "2026") as session, nodes.changes(other) as changes:
            for _ in range(effort.repeats * CHANGES_PER_REPEAT):
                began: float = await session.call("touch", {})
                await anext(changes)
                taken.append(time.perf_counter() - began)
                await adapter.loop.sleep(pauses.uniform(0, LONGEST_PAUSE))
    return {"p50_ms": percentile(taken, 0.5) * 1e3, "max_ms": max(taken) * 1e3}


async def _compared(adapter: Adapter, one: Session, other: Session, effort: Effort, in_flight: int) -> dict[str, float]:
    """Let both have turns, the second one first in every second round; return the figures of the first, and ratios."""
    for side in (one, other):
        await until(adapter, [side] * in_flight, effort.warm_up)
    taken: list[float] = []
    rates: list[float] = []
    ratios: list[tuple[float, float]] = []
    for turn in range(TURNS):
        both = [await _turn(adapter, side, effort, in_flight) for side in ((one, other) if turn % 2 else (other, one))]
        (times, rate), (other_times, other_rate) = both if turn % 2 else reversed(both)
        taken += times
        rates.append(rate)
        ratios.append((percentile(times, 0.5) / percentile(other_times, 0.5), rate / other_rate))
    p50_times, rate_times = zip(*ratios, strict=True)
    return {
        "p50_us": percentile(taken, 0.5) * 1e6,
        "p99_us": percentile(taken, 0.99) * 1e6,
        "rate": Spread.of(rates).median,
        "p50_times": Spread.of(p50_times).median,
        "rate_times": Spread.of(rate_times).median,
    }


async def _turn(adapter: Adapter, side: Session, effort: Effort, in_flight: int) -> tuple[list[float], float]:
    """Return the seconds that each call took, and the calls per second."""
    began = time.perf_counter()
    times = await until(adapter, [side] * in_flight, effort.seconds / 2)
    return times, len(times) / (time.perf_counter() - began)


@contextmanager
def _processes(name: str, count: int, shared: str) -> Generator[list[str]]:
    """Run server processes with one backend, or none; yield their URLs."""
    with ExitStack() as stack:
        yield [stack.enter_context(http_server(name, {SHARED: shared})) for _ in range(count)]


@contextmanager
def _backend(kind: str) -> Generator[str]:
    if kind == "redis":
        with redis() as url:
            yield url
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield str(Path(folder) / "shared.db")


@contextmanager
def redis() -> Generator[str]:
    """Run a Redis server that keeps nothing; yield its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    command = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            _wait_for(port)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.kill()


def _wait_for(port: int) -> None:
    """Wait until somebody listens at a port."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.01)
    raise RuntimeError(f"nobody listens at the port {port}")
