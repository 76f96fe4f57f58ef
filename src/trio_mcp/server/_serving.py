"""A server while it is being served: the state of one serving, from the lifespan to the wind-down."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from attrs import define, field, frozen

from .. import types
from .._misuse import require_trio
from .._tracing import TRACING_MODULE
from .._util import owned_nursery
from ..peer import (
    NO_ORIGIN,
    Access,
    Admission,
    Arrival,
    HandlerPool,
    IncomingRequest,
    Limits,
    MessageOrigin,
    Peer,
    ServerSession,
)
from ..wire import (
    JsonObject,
)
from ._background import BackgroundTasks, open_background
from ._dispatch import ListResponder, dispatch, internals_of
from ._notifications import NotificationQueue, SlotsByKind
from ._processes import Processes, open_processes, refuse_in_starting_worker
from ._stopping import EndWatch, running_handlers
from ._threads import Threads
from .asking import AskingMode, Seals
from .features import (
    Catalog,
    ChangeHub,
    Resources,
    SessionListeners,
)

if TYPE_CHECKING:
    from ._server import Server, ServerInternals

__all__ = ["ActiveServer", "ServerStatistics", "open_serving"]

_log = logging.getLogger("trio_mcp.server")


@frozen(kw_only=True)
class ServerStatistics:
    """A snapshot of what a serving holds, for debugging."""

    running: int
    """Handlers that have started and not ended, including those that clean up after a cancellation."""
    parked: int
    """Running handlers that wait for answers while no request waits for them."""
    threads: int
    """Worker threads at work, including those abandoned by a cancellation."""
    processes: int
    """Worker processes of isolated tools, including idle ones."""
    background: int
    """Background tasks."""
    listening: int
    """Listeners for changes: open subscriptions, and connections that have made a handshake."""


@define(eq=False)
class ActiveServer:
    """One serving of a server, shared by all its connections. `Server.serving` makes it."""

    server: Server
    pool: HandlerPool
    state: Any
    """The value that the server's lifespan yielded."""
    changes: ChangeHub
    """The listeners that are notified of changes."""
    background: BackgroundTasks
    """Tasks that outlive the calls that start them."""
    processes: Processes
    """The worker processes of isolated tools."""
    asking: AskingMode
    """The place where a handler waits for the answer of a modern client."""
    internals: ServerInternals = field(init=False)
    """The internals of the server."""
    arrivals: WeakKeyDictionary[Peer, Arrival] = field(factory=WeakKeyDictionary[Peer, Arrival], init=False)
    """Its connections, with their beginnings; see `peer.note_arrival`."""
    subscribers: SessionListeners = field(init=False)
    """The listeners that have made a handshake."""
    threads: Threads = field(init=False)
    """The worker threads of plain `def` handlers."""
    small_answers: SlotsByKind = field(init=False)
    """The slots of small answers that pass middleware, so that none waits for a handler to end."""
    notifications: NotificationQueue = field(init=False)
    """The queue of notifications that belong to no request."""
    lists: Mapping[str, ListResponder] = field(init=False)
    """The responders of the list requests, by method."""

    def __attrs_post_init__(self) -> None:
        server = self.server
        self.internals = internals_of(server)
        self.subscribers = SessionListeners(self)
        self.threads = Threads(self.limits.max_threads)
        self.small_answers = SlotsByKind(self.limits.max_in_flight, self.limits.max_queued)
        self.notifications = NotificationQueue(self)
        catalogs: Sequence[Catalog[Any]] = (
            server.tools.catalog,
            server.prompts.catalog,
            server.resources.catalog,
            server.resources.templates,
        )
        self.lists = {catalog.method: ListResponder(server, catalog) for catalog in catalogs}

    @property
    def limits(self) -> Limits:
        """The limits of each connection."""
        return self.server.limits

    @property
    def seals(self) -> Seals:
        """The keys that seal and open the states of questions."""
        return self.internals.seals

    @property
    def info_json(self) -> JsonObject:
        """The name of the server, in the shape of `types.Implementation`."""
        return self.internals.info_json

    @property
    def extensions(self) -> Mapping[str, JsonObject]:
        """The settings of each extension that the server declares, by id."""
        return self.server.extensions

    @property
    def capabilities(self) -> types.ServerCapabilities:
        """The capabilities that the server declares."""
        return self.server.capabilities

    @property
    def resources(self) -> Resources:
        """The resources and resource templates of the server."""
        return self.server.resources

    def has_method(self, name: str) -> bool:
        """Return True if the application has registered a method of this name."""
        return name in self.internals.custom.methods

    def has_tool(self, name: str, access: Access | None) -> bool:
        """Return True if the caller sees a tool of this name."""
        return self.server.tools.catalog.find(name, access) is not None

    def resource_updated(self, uri: str) -> None:
        """Notify every client that subscribed to a resource; never waits, and may be called from any thread."""
        self.internals.changes.resource_updated(uri)

    def input_schema(self, tool: str, access: Access | None) -> JsonObject | None:
        """Return a tool's input schema, as modern clients list it; None if the caller sees no such tool."""
        return self.server.tools.input_schema(tool, access)

    def needed_scopes(self, method: str, params: JsonObject, access: Access | None) -> frozenset[str]:
        """Return the scopes that a request needs; empty if it needs none."""
        return self.server.needed_scopes(method, params, access)

    def admission(self) -> Admission:
        """Return the admission of a new connection."""
        return ServerSession(self.server.revisions)

    def answer(self, exchange: IncomingRequest) -> None:
        """Begin to answer a request; synchronous."""
        span = exchange.begin_span() if TRACING_MODULE in sys.modules else None
        if span is None:
            dispatch(self, exchange)
        else:
            with span.active():
                dispatch(self, exchange)

    def notified(self, method: str, params: JsonObject, peer: Peer, envelope: MessageOrigin = NO_ORIGIN) -> None:
        """Take a notification that belongs to no request."""
        self.notifications.take(method, params, peer, envelope)

    def stop(self) -> None:
        """Let open questions expire and refuse new ones; synchronous. Handlers continue until the serving is closed."""
        self.pool.parking.close()

    def statistics(self) -> ServerStatistics:
        """Return a snapshot of what the serving holds."""
        return ServerStatistics(
            running=self.pool.running,
            parked=self.pool.parking.parked,
            threads=self.threads.working,
            processes=self.processes.alive,
            background=self.background.running,
            listening=self.changes.listening,
        )


def _inspection(server: Server) -> AbstractContextManager[None]:
    """Return the context in which `trio-mcp inspect` sees the server, if the environment of the process permits it."""
    if os.environ.get("TRIO_MCP_INSPECT", "0") in {"", "0"}:
        return nullcontext()
    from ._inspection import inspectable  # noqa: PLC0415 # almost no program permits it

    return inspectable(server)


@asynccontextmanager
async def open_serving(server: Server, asking: AskingMode, *, lasts: bool = True) -> AsyncGenerator[ActiveServer]:
    """Enter the server's lifespan and open its handler pool.

    When the block ends, open questions expire, their handlers clean up for a bounded time, and handlers that still run
    are cancelled.

    Args:
        lasts: True if the serving outlives a single request, so that there may be background tasks.
    """
    require_trio("a server")
    opened: list[ActiveServer] = []

    async def wind_down() -> None:
        for serving in opened:
            await serving.pool.parking.emptied()

    def cancelled() -> None:
        for serving in opened:
            if serving.pool.live:
                watch.expect_end(partial(running_handlers, serving.pool))

    refuse_in_starting_worker()
    watch = EndWatch.of(server.limits, server.on_stuck)
    try:
        with _inspection(server) if lasts else nullcontext():
            async with (
                open_background(server, watch, lasts=lasts) as (background, state),
                open_processes(server.limits.max_processes) as processes,
            ):
                try:
                    async with owned_nursery(wind_down, on_cancel=cancelled) as nursery:
                        with internals_of(server).changes.serving() as hub:
                            pool = HandlerPool(nursery, server.limits)
                            opened.append(ActiveServer(server, pool, state, hub, background, processes, asking))
                            internals_of(server).servings.append(opened[0])
                            try:
                                yield opened[0]
                            finally:
                                opened[0].stop()  # also when cancelled: a shielded clean-up may wait for an answer
                finally:
                    watch.ended()
    finally:
        watch.ended()
        for serving in opened:
            internals_of(server).servings.remove(serving)
        for left in [each for serving in opened for each in serving.threads.at_work()]:
            _log.warning("%s goes on in a worker thread after the stop; it stands at %s", left.name, left.place)
