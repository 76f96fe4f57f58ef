"""A server while it is being served: its lifespan's state, its hall, its threads, and the answer to every exchange."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from .._util import owned_nursery
from ..peer import Exchange, Gate, Hall, Limits, ServerSession
from ..wire import JsonObject
from ._changes import ChangeHub
from ._dispatch import dispatch
from ._session_changes import SessionListeners
from ._threads import Threads

if TYPE_CHECKING:
    from ._server import Server

__all__ = ["ServerStatistics", "Serving", "open_serving"]

_log = logging.getLogger("trio_mcp.server")


@frozen(kw_only=True)
class ServerStatistics:
    """What a serving holds at one moment, for debugging."""

    running: int
    """Handlers that have started and not ended, those cleaning up after a cancellation included."""
    threads: int
    """Worker threads at work, those abandoned by a cancellation included."""
    listening: int
    """Who is told of changes: open subscriptions, and connections that have made a handshake."""


@define(eq=False)
class Serving:
    """One serving of a server, shared by all its connections. Made by `Server.serving`."""

    server: Server
    hall: Hall
    state: Any
    """What the server's lifespan yielded."""
    changes: ChangeHub
    """Who is told of changes."""
    subscribers: SessionListeners = field(init=False)
    """Those of them that have made a handshake."""
    threads: Threads = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.subscribers = SessionListeners(self)
        self.threads = Threads(self.limits.max_threads)

    @property
    def limits(self) -> Limits:
        """What each connection may cost."""
        return self.server.limits

    def gate(self) -> Gate:
        """Return the gate of a new connection."""
        return ServerSession(self.server.revisions)

    def answer(self, exchange: Exchange) -> None:
        """Begin to answer an exchange; synchronous."""
        dispatch(self, exchange)

    def notified(self, method: str, params: JsonObject) -> None:
        """Take a notification that belongs to no exchange. None of them means anything to a server so far."""
        _log.debug("notification %s with %d params", method, len(params))

    def statistics(self) -> ServerStatistics:
        """Return what the serving holds now."""
        return ServerStatistics(
            running=self.hall.running, threads=self.threads.working, listening=self.changes.listening
        )


@asynccontextmanager
async def open_serving(server: Server) -> AsyncGenerator[Serving]:
    """Enter the server's lifespan and open its hall; at the end, handlers that still run are cancelled."""
    async with server.lifespan(server) as state, owned_nursery() as nursery:
        with server.changes.serving() as hub:
            yield Serving(server, Hall(nursery), state, hub)
