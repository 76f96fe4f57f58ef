"""Snapshots of a server at work: its connections, its requests, and the lines of code at which the handlers stand.

Rules of this file:

1. A snapshot is made of what the engine keeps anyway: the tasks of the handlers, their queues, threads and processes.
   So nothing is written down while nobody looks.
2. It holds no arguments, results or tokens. It names what a request is for: a tool, a prompt, or the URI of a resource.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import trio
from attrs import define, field, frozen

from ..peer import Arrival, ExchangeContext, FairLimiter, HandlerRun, Peer, ServerSession
from ..wire import JsonObject, RequestId
from ._extension_points import internals_of
from ._stopping import Frames, awaited_by, frames_in_thread, frames_of, named_in, place_of

if TYPE_CHECKING:
    from ._server import Server
    from ._serving import ActiveServer

__all__ = [
    "BackgroundSnapshot",
    "ConnectionSnapshot",
    "HandlerState",
    "RequestSnapshot",
    "ServerSnapshot",
    "ServerStatistics",
    "take_snapshot",
]

_LONGEST = 200
"""The number of characters of a string that a client chose."""

HandlerState: TypeAlias = Literal["running", "waiting", "asking", "thread", "process", "answering"]
"""The state of a handler.

``"running"``: it runs in the event loop, or waits for something there. ``"waiting"``: it waits for a place, by
`Limits.max_in_flight`, `max_running`, `max_threads` or `max_processes`, or by *max_concurrency* of its tool.
``"asking"``: it waits for an answer of the client. ``"thread"`` and ``"process"``: it is at work in a worker thread or
process. ``"answering"``: it has ended, and its result waits to be sent.
"""


@frozen(kw_only=True)
class ConnectionSnapshot:
    """One connection; over HTTP one session, or one client of a revision without sessions, while it has requests."""

    number: int
    """The number of the connection: connections of a process are numbered in the order of their arrival."""
    transport: str
    """``"stdio"``, ``"tcp"``, ``"unix"``, ``"memory"``, ``"http"``, ``"http session"``, ``"http+sse"``, or
    ``"stream"`` for another stream."""
    client: str | None
    """The name and version of the client, as it gave them in the handshake or in a request that is in flight."""
    revision: str | None
    """The protocol revision of the handshake, or of a request that is in flight."""
    principal: str | None
    """The name of the authenticated principal; None without authentication."""
    age: float
    """The seconds since it began; of an ``"http"`` client, since its first request that the server remembers."""


@frozen(kw_only=True)
class RequestSnapshot:
    """One request in flight, or one notification, whose handler runs or waits for a place."""

    method: str
    """The method of the request."""
    name: str | None
    """The name of the tool or prompt, or the URI of the resource; None if the request is for neither."""
    id: RequestId | None
    """The id that the client gave it; None for a notification."""
    connection: int | None
    """The number of the connection; None if a transport of another author carries it."""
    age: float
    """The seconds since the handler began, or since the request began to wait for a place."""
    state: HandlerState
    """The work that the handler does now, or what it waits for."""
    is_cancelled: bool
    """True if nobody waits for the result any more: the handler cleans up, or swallows its cancellation."""
    place: str | None
    """The line of the application at which the handler stands: file, line and function. None before it begins, and in
    another process."""
    waits_in: str | None
    """The function that this line has called and not returned from, with its module; None if that is not known."""
    process: int | None
    """The id of the worker process that works for it; None if none does."""


@frozen(kw_only=True)
class BackgroundSnapshot:
    """One background task."""

    name: str
    """The name of the function that it runs."""
    place: str
    """The line of the application at which it stands, as in `RequestSnapshot`."""
    waits_in: str | None
    """The function that this line has called and not returned from, as in `RequestSnapshot`."""


@frozen(kw_only=True)
class ServerSnapshot:
    """A server at one moment. `Server.snapshot` makes it."""

    name: str
    """The name of the server."""
    version: str
    """The version of the server."""
    connections: Sequence[ConnectionSnapshot]
    """The oldest first."""
    requests: Sequence[RequestSnapshot]
    """The handlers that have begun, the oldest first; then those that wait to begin. A handler that never waits for
    anything is not in it, because nothing else runs before it ends."""
    background: Sequence[BackgroundSnapshot]
    """The background tasks, the oldest first."""


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


def take_snapshot(server: Server) -> ServerSnapshot:
    """Return a snapshot of a server, in all its servings."""
    servings = [_ServingView(serving) for serving in internals_of(server).servings]
    return ServerSnapshot(
        name=server.info.name,
        version=server.info.version,
        connections=tuple(each for serving in servings for each in serving.connections()),
        requests=tuple(each for serving in servings for each in serving.requests()),
        background=tuple(each for serving in servings for each in serving.background()),
    )


@define(eq=False)
class _ServingView:
    """One serving, seen at one moment."""

    _serving: ActiveServer
    _now: float = field(factory=time.perf_counter, init=False)
    _arrivals: Mapping[Peer, Arrival] = field(init=False)
    _threads: Mapping[HandlerRun, int] = field(init=False)
    _processes: Mapping[HandlerRun, int] = field(init=False)
    _queued: set[HandlerRun] = field(init=False)
    """The runs that wait for a slot."""
    _runs: dict[HandlerRun, trio.lowlevel.Task | None] = field(init=False)
    """All runs, in the order of the snapshot, with their tasks."""

    def __attrs_post_init__(self) -> None:
        serving = self._serving
        self._arrivals = {peer: each for peer, each in serving.arrivals.items() if not _is_lost(peer)}
        self._threads, self._processes = serving.threads.by_run(), serving.processes.by_run()
        self._runs = {**serving.pool.live}
        slots = {*(peer.slots for peer in self._arrivals), *(run.slots for run in self._runs)}
        queued = [run for each in slots for run in each.queue]
        self._queued = set(queued)
        for run in [*self._threads, *queued]:  # a thread goes on when its handler is cancelled
            self._runs.setdefault(run, None)

    def connections(self) -> Iterable[ConnectionSnapshot]:
        """Yield the connections."""
        contexts = {run.peer: run.context for run in self._runs}
        for peer, arrival in self._arrivals.items():
            context = contexts.get(peer)
            if arrival.lasts or context is not None:
                yield self._connection(peer, arrival, context)

    def _connection(self, peer: Peer, arrival: Arrival, context: ExchangeContext | None) -> ConnectionSnapshot:
        admission = peer.admission
        info = admission.peer_info if isinstance(admission, ServerSession) else None
        owner: str | None = getattr(peer, "principal", None)  # a session over HTTP has one
        return ConnectionSnapshot(
            number=arrival.number,
            transport=arrival.transport,
            client=_client_of(info if context is None else context.peer_info),
            revision=admission.revision if context is None else context.revision,
            principal=owner if context is None else context.principal,
            age=self._now - arrival.since,
        )

    def requests(self) -> Iterable[RequestSnapshot]:
        """Yield the requests."""
        for run, task in self._runs.items():
            yield self._request(run, task)

    def _request(self, run: HandlerRun, task: trio.lowlevel.Task | None) -> RequestSnapshot:
        frames = self._frames(run, task)
        arrival, request, named = self._arrivals.get(run.peer), run.request, named_in(run.request)
        is_parked = run.pending is not None and run.pending.token is not None
        return RequestSnapshot(
            method=run.method,
            name=None if named is None else str(named)[:_LONGEST],
            id=None if request.is_notification else request.id,
            connection=None if arrival is None else arrival.number,
            age=self._now - run.since,
            state=self._state(run, frames),
            is_cancelled=run.exchange is None and not is_parked,
            place=place_of(frames) if frames else None,
            waits_in=awaited_by(frames),
            process=self._processes.get(run),
        )

    def _frames(self, run: HandlerRun, task: trio.lowlevel.Task | None) -> Frames:
        if run in self._processes:
            return ()
        if run in self._threads:
            return frames_in_thread(self._threads[run])
        return () if task is None else frames_of(task)

    def _state(self, run: HandlerRun, frames: Frames) -> HandlerState:
        if run.has_ended and run not in self._threads:
            return "answering"
        if run in self._queued or any(frame.f_code is _ACQUIRE for frame, _ in frames):
            return "waiting"
        if run.open:
            return "asking"
        if run in self._processes:
            return "process"
        return "thread" if run in self._threads else "running"

    def background(self) -> Iterable[BackgroundSnapshot]:
        """Yield the background tasks."""
        for label, task in self._serving.background.going_on():
            frames, name = frames_of(task), label.removeprefix("background task ")
            yield BackgroundSnapshot(name=name, place=place_of(frames), waits_in=awaited_by(frames))


_ACQUIRE = FairLimiter.acquire.__code__
"""The code in which a handler waits for a place that is not its slot."""


def _is_lost(peer: Peer) -> bool:
    """Return True if a connection has ended, and is only not collected yet."""
    return getattr(peer, "lost", None) is not None


def _client_of(info: JsonObject | None) -> str | None:
    """Return the name and version of a client, which may have sent anything in their place."""
    words = [] if info is None else [info.get("name"), info.get("version")]
    return " ".join(each for each in words if isinstance(each, str))[:_LONGEST] or None
