"""Many sessions at once: the cost of opening one, the memory of an idle one, and their calls in parallel."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack

from ..adapters.sides import Adapter, Session
from ..adapters.tools import resident_after_collection
from ..effort import Effort
from ..figures import percentile
from .calls import until
from .connections import http_server

__all__ = ["clients", "idle"]


async def clients(adapter: Adapter, name: str, era: str, effort: Effort) -> dict[str, float]:
    """Open clients of one HTTP server in one process; each makes one call before it is idle."""
    opened: list[float] = []
    called: list[float] = []
    sessions: list[Session] = []
    with http_server(name) as url:
        async with adapter.http(url, era) as watcher, AsyncExitStack() as stack:
            for _ in range(2):  # the first ones import and compile for the later ones
                async with adapter.http(url, era) as session:
                    await session.call("add", {"a": 1, "b": 1})
            ours, theirs = resident_after_collection(), (await watcher.call("usage", {"collect": True}))[1]
            for _ in range(effort.clients):
                began = time.perf_counter()
                session = await stack.enter_async_context(adapter.http(url, era))
                opened.append(time.perf_counter() - began)
                await session.call("add", {"a": 1, "b": 1})
                called.append(time.perf_counter() - began)
                sessions.append(session)
            theirs = (await watcher.call("usage", {"collect": True}))[1] - theirs
            ours = resident_after_collection() - ours
            await until(adapter, sessions, effort.warm_up)
            began = time.perf_counter()
            calls = len(await until(adapter, sessions, effort.seconds))
            rate = calls / (time.perf_counter() - began)
    return {
        "open_ms": percentile(opened, 0.5) * 1e3,
        "first_call_ms": percentile(called, 0.5) * 1e3,
        "client_kb": ours / effort.clients / 1024,
        "server_kb": theirs / effort.clients / 1024,
        "rate": rate,
    }


async def idle(adapter: Adapter, _name: str, era: str, effort: Effort) -> dict[str, float]:
    """Open sessions in memory with one server, and measure both sides together."""
    server = adapter.server(0)
    async with adapter.memory(server, era) as session:
        await session.call("add", {"a": 1, "b": 1})
    async with AsyncExitStack() as stack:
        before = resident_after_collection()
        for _ in range(effort.sessions):
            session = await stack.enter_async_context(adapter.memory(server, era))
            await session.call("add", {"a": 1, "b": 1})
        return {"pair_kb": (resident_after_collection() - before) / effort.sessions / 1024}
