"""Attacks by calls: handlers that fail in strange ways, that are slow, that ask and are not answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from itertools import cycle
from typing import Any

import trio

from .people import PATH
from .place import Place, flood, hold, in_session
from .sender import Http1, Sender
from .server import FAILURES

__all__ = ["connection_storm", "exceptions", "open_questions", "parked_questions", "slow_calls", "slow_threads"]

_SESSIONS = 4
_CALLS_OF_SESSION = 1024
_SLOW_SECONDS = 60.0
"""Longer than an attack, which ends its sessions."""
_FAILURE_SECONDS = 0.02
"""The pace of failing calls: each writes a traceback into the log, which says a fault of the server's own code."""
_THREADS = 200
"""Five times the worker threads of the server."""
_QUESTIONS = 300
_PARKED = 1500
"""More than the parked questions of all clients together."""


async def exceptions(place: Place) -> None:
    """Call handlers that raise what only the event loop, or the interpreter, should raise; in both eras."""
    sender = place.attacker
    ways: list[tuple[str, dict[str, Any]]] = [*(("fail", {"how": how}) for how in FAILURES), ("fail_in_asyncio", {})]
    async with in_session(sender) as session:
        for (tool, arguments), era in cycle([(way, era) for way in ways for era in (None, session)]):
            async with sender.connect() as connection:
                reply = await sender.post(connection, sender.call(tool, arguments, session=era))
                if not _has_failed(reply.message()):
                    sender.seen.breach(f"{tool} {arguments} was answered with {reply.body[:200]!r}")
            await trio.sleep(_FAILURE_SECONDS)


def _has_failed(message: Any) -> bool:
    return "error" in message or message["result"].get("isError") is True


async def slow_calls(place: Place) -> None:
    """Open four sessions, and post in each as many slow calls as run at once; leave when the response begins."""
    await _post_and_leave(place, Http1.head)


async def connection_storm(place: Place) -> None:
    """Do the same, and leave as soon as each call is sent, so that nothing slows the sender down."""

    async def leave(_: Http1) -> None:
        await trio.lowlevel.checkpoint()

    await _post_and_leave(place, leave)


async def _post_and_leave(place: Place, then: Callable[[Http1], Awaitable[object]]) -> None:
    """Post slow calls in several sessions, each call on a connection of its own, which is closed."""
    sender = place.attacker

    async def post(session: str) -> None:
        for _ in range(_CALLS_OF_SESSION):
            async with sender.connect() as connection:
                fields, body = sender.call("wait", {"seconds": _SLOW_SECONDS}, session=session)
                await connection.begin("POST", PATH, fields, body)
                await then(connection)

    async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
        for _ in range(_SESSIONS):
            nursery.start_soon(post, await stack.enter_async_context(in_session(sender)))
        await trio.sleep_forever()


async def slow_threads(place: Place) -> None:
    """Occupy the worker threads with plain functions that take long."""

    async def call(connection: Http1) -> None:
        fields, body = place.attacker.call("wait_in_thread", {"seconds": 1.0})
        await connection.begin("POST", PATH, fields, body)

    async def call_on(connection: Http1) -> None:
        while True:
            await connection.reply()
            await call(connection)

    await hold(place.attacker, call, connections=_THREADS, then=call_on)


async def open_questions(place: Place) -> None:
    """Leave many questions of one session open."""
    sender = place.attacker
    async with in_session(sender) as session:
        await hold(sender, partial(_call_unread, sender, session), connections=_QUESTIONS)


async def _call_unread(sender: Sender, session: str | None, connection: Http1) -> None:
    fields, body = sender.call("ask", {"n": 1}, session=session)
    await connection.begin("POST", PATH, fields, body)
    await connection.head()


async def parked_questions(place: Place) -> None:
    """Let handlers ask, and answer none of them; the newest revision needs no connection for that."""
    asked = 0

    async def ask(connection: Http1) -> None:
        nonlocal asked
        await place.attacker.post(connection, place.attacker.call("ask", {"n": 1}))
        asked += 1
        if asked > _PARKED:
            await trio.sleep(0.1)

    await flood(place.attacker, ask)
