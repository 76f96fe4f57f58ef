"""The place of an attack: its parties, its time, and the ways in which many senders act at once."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Self, TypeAlias

import trio
from attrs import frozen

from .people import ATTACKER, USER, Parties
from .sender import Http1, Sender, Sightings

__all__ = ["Attack", "Place", "flood", "hold", "in_session"]

AT_ONCE = 8
"""The senders of a flood. A server of one process shares its time between all who send, so each of them costs the
ordinary user about one call's time."""
_AGAIN_SECONDS = 0.5
"""The wait before a refused connection is tried again."""
_CLEANUP_SECONDS = 5.0


@frozen
class Place:
    """All that an attack needs."""

    folder: Path
    port: int
    seconds: float
    parties: Parties
    attacker: Sender
    """A party with a token of its own."""
    stranger: Sender
    """A party without a token."""
    victim: Sender
    """The ordinary user, for what is stolen of it."""

    @classmethod
    def of(cls, folder: Path, port: int, seconds: float) -> Self:
        """Return the place of one attack; each party has an address of its own."""
        parties = Parties.read(folder)
        seen = Sightings(parties.secrets[USER].encode())
        return cls(
            folder,
            port,
            seconds,
            parties,
            Sender.of(parties, port, seen, ATTACKER, "127.0.0.2"),
            Sender.of(parties, port, seen, None, "127.0.0.3"),
            Sender.of(parties, port, Sightings(b"\0nothing is forbidden to it"), USER, "127.0.0.4"),
        )


Attack: TypeAlias = Callable[[Place], Awaitable[None]]
"""An attack, which lasts until it is cancelled."""


async def flood(sender: Sender, one: Callable[[Http1], Awaitable[object]], *, at_once: int = AT_ONCE) -> None:
    """Do something again and again on some connections, until cancelled; a cut connection is opened anew."""

    async def repeat(connection: Http1) -> None:
        while True:
            await one(connection)

    async def keep_doing() -> None:
        while True:
            async with sender.connect() as connection:
                await repeat(connection)
            await trio.sleep(_AGAIN_SECONDS / 10)

    async with trio.open_nursery() as nursery:
        for _ in range(at_once):
            nursery.start_soon(keep_doing)


async def read_on(connection: Http1) -> None:
    """Read until the server ends the connection."""
    while await connection.receive():
        pass
    connection.seen.outcomes["cut"] += 1


async def hold(
    sender: Sender,
    one: Callable[[Http1], Awaitable[object]],
    *,
    connections: int,
    then: Callable[[Http1], Awaitable[object]] = read_on,
) -> None:
    """Keep many connections open until cancelled; a cut one is opened anew.

    Args:
        one: done once on each; few connections at a time are at it.
        then: done on each for as long as it lasts.
    """
    turns = trio.CapacityLimiter(AT_ONCE)

    async def keep_open() -> None:
        for attempt in itertools.count():
            if attempt:
                await trio.sleep(_AGAIN_SECONDS)
            async with AsyncExitStack() as stack:
                async with turns:
                    connection = await stack.enter_async_context(sender.connect())
                    with trio.move_on_after(_CLEANUP_SECONDS):
                        await one(connection)
                await then(connection)

    async with trio.open_nursery() as nursery:
        for _ in range(connections):
            nursery.start_soon(keep_open)


@asynccontextmanager
async def in_session(sender: Sender) -> AsyncGenerator[str]:
    """Open a legacy session for the block; end it also when the block is cancelled."""
    session: str | None = None
    while session is None:
        async with sender.connect() as connection:
            session = await sender.open_session(connection)
        await trio.lowlevel.checkpoint()
    try:
        yield session
    finally:
        with trio.move_on_after(_CLEANUP_SECONDS, shield=True):
            await sender.end_session(session)
