"""The faults of every transport: floods of cancellations, and short-lived clients. Also the inspection of a server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import trio

from trio_mcp import Client

from .load import cancel_at_work, cancel_soon, echo
from .places import ERAS, Fault, Place, Watched

__all__ = ["SHARED", "inside", "pid_of"]

_CANCELS = 50
_VISITS = 3


async def inside(client: Client) -> Mapping[str, int]:
    """Return the values that only the server process can report: its pid, tasks and objects."""
    content: Any = (await client.call_tool("inside")).structured_content
    return {name: int(value) for name, value in content.items()}


async def pid_of(client: Client) -> int:
    """Return the process that answers."""
    return (await inside(client))["pid"]


@asynccontextmanager
async def cancelled(place: Place) -> AsyncGenerator[Watched]:
    """Cancel many calls at once."""
    async with place.client(place.rng.choice(ERAS)) as client:
        async with trio.open_nursery() as nursery:
            for index in range(_CANCELS):
                nursery.start_soon(cancel_at_work if index % 2 else cancel_soon, client, place.book, place.rng)
        yield {}


@asynccontextmanager
async def reconnected(place: Place) -> AsyncGenerator[Watched]:
    """Connect and disconnect many clients."""
    for _ in range(_VISITS):
        for revision in ERAS:
            async with place.client(revision) as client:
                await echo(client, place.book, place.rng)
    yield {}


SHARED: Mapping[str, Fault] = {"cancelled": cancelled, "reconnected": reconnected}
