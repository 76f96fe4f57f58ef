"""A server while it is being served: its lifespan's state, its hall, its threads, and the answer to every exchange."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from .._util import owned_nursery
from ..peer import NO_ORIGIN, Admission, HandlerPool, IncomingRequest, Limits, MessageOrigin, Peer, ServerSession
from ..wire import JsonObject
from ._background import BackgroundTasks, open_background
from ._dispatch import dispatch
from ._notifications import NotificationQueue, SlotsByKind
from ._processes import Processes, open_processes, refuse_in_starting_worker
from ._threads import Threads
from .asking import AskingMode
from .features import ChangeHub, SessionListeners

if TYPE_CHECKING:
    from ._server import Server

__all__ = ["ActiveServer", "ServerStatistics", "open_serving"]


@frozen(kw_only=True)
class ServerStatistics:
    """What a serving holds at one moment, for debugging."""

    running: int
    """Handlers that have started and not ended, those cleaning up after a cancellation included."""
    parked: int
    """Those of them that wait for answers while no request waits for them."""
    threads: int
    """Worker threads at work, those abandoned by a cancellation included."""
    processes: int
    """Worker processes of isolated tools, those that wait for work included."""
    background: int
    """Background tasks."""
    listening: int
    """Who is told of changes: open subscriptions, and connections that have made a handshake."""


@define(eq=False)
class ActiveServer:
    """One serving of a server, shared by all its connections. Made by `Server.serving`."""

    server: Server
    pool: HandlerPool
    state: Any
    """What the server's lifespan yielded."""
    changes: ChangeHub
    """Who is told of changes."""
    background: BackgroundTasks
    """Tasks that outlive the calls that start them."""
    processes: Processes
    """The worker processes of isolated tools."""
    asking: AskingMode
    """Where a handler is while a modern client finds the answer to its question."""
    subscribers: SessionListeners = field(init=False)
    """Those of them that have made a handshake."""
    threads: Threads = field(init=False)
    small_answers: SlotsByKind = field(init=False)
    """Where requests that are answered at once run while there is middleware: none waits for a handler to end."""
    notices: NotificationQueue = field(init=False)
    """Takes notifications that belong to no exchange."""

    def __attrs_post_init__(self) -> None:
        self.subscribers = SessionListeners(self)
        self.threads = Threads(self.limits.max_threads)
        self.small_answers = SlotsByKind(self.limits.max_in_flight, self.limits.max_queued)
        self.notices = NotificationQueue(self)

    @property
    def limits(self) -> Limits:
        """What each connection may cost."""
        return self.server.limits

    def input_schema(self, tool: str) -> JsonObject | None:
        """Return a tool's input schema, as modern clients list it; None where there is no such tool."""
        return self.server.tools.input_schema(tool)

    def needed_scopes(self, method: str, params: JsonObject) -> frozenset[str]:
        """Return what must have been granted to whoever makes a request; empty where nothing is needed."""
        return self.server.needed_scopes(method, params)

    def admission(self) -> Admission:
        """Return the gate of a new connection."""
        return ServerSession(self.server.revisions)

    def answer(self, exchange: IncomingRequest) -> None:
        """Begin to answer an exchange; synchronous."""
        span = exchange.begin_span()
        if span is None:
            dispatch(self, exchange)
        else:
            with span.active():
                dispatch(self, exchange)

    def notified(self, method: str, params: JsonObject, peer: Peer, envelope: MessageOrigin = NO_ORIGIN) -> None:
        """Take a notification that belongs to no exchange."""
        self.notices.take(method, params, peer, envelope)

    def stop(self) -> None:
        """Let open questions expire, and refuse new ones; synchronous. What else runs goes on until the block ends."""
        self.pool.parking.close()

    def statistics(self) -> ServerStatistics:
        """Return what the serving holds now."""
        return ServerStatistics(
            running=self.pool.running,
            parked=self.pool.parking.parked,
            threads=self.threads.working,
            processes=self.processes.alive,
            background=self.background.running,
            listening=self.changes.listening,
        )


@asynccontextmanager
async def open_serving(server: Server, asking: AskingMode, *, lasts: bool = True) -> AsyncGenerator[ActiveServer]:
    """Enter the server's lifespan and open its hall.

    Args:
        lasts: whether it outlives a single request, so that background tasks may.

    At the end open questions expire, their handlers clean up for a bounded time, and what still runs is cancelled.
    """
    opened: list[ActiveServer] = []

    async def wind_down() -> None:
        for serving in opened:
            await serving.pool.parking.emptied()

    refuse_in_starting_worker()
    async with (
        open_background(server, lasts=lasts) as (background, state),
        open_processes(server.limits.max_processes) as processes,
        owned_nursery(wind_down) as nursery,
    ):
        with server.changes.serving() as hub:
            opened.append(
                ActiveServer(server, HandlerPool(nursery, server.limits), state, hub, background, processes, asking)
            )
            try:
                yield opened[0]
            finally:
                opened[0].stop()  # also when cancelled: a clean-up that has shielded itself may wait for an answer
