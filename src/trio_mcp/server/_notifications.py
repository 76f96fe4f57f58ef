"""Notifications that a server takes: handlers of its own, and its middleware, one after the other in wire order.

Rules of this file:

1. Those of one connection are worked on in the order in which they came; those of several do not wait for each other.
2. Beyond `Limits.max_queued` that wait, those of a connection are dropped, and the first of them are logged.
3. When a connection is gone, those of it may be worked on for `Limits.drain_seconds`; then they are given up.
4. `notifications/cancelled` and `notifications/progress` are the engine's, and seen by nobody else.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import trio
from attrs import define, evolve, field

from .. import types
from .._errors import ConnectionLost, LocalProtocolError, McpError, StructureError
from ..peer import HandlerRun, HandlerSlots, IncomingRequest, MessageOrigin, OutgoingRequest, OutOfTimeError, Peer
from ..wire import INTERNAL_ERROR, INVALID_PARAMS, JsonObject
from ._context import Context
from ._extensions import refusal_of
from ._middleware import MiddlewareChain

if TYPE_CHECKING:
    from ._serving import ActiveServer

__all__ = ["NotificationQueue", "SlotsByKind"]


# Room that every connection has for small kinds of work, beside the room for its requests.


@define(eq=False)
class SlotsByKind:
    """The slots of all connections, for each kind of work; none of it waits for another kind, or for handlers' turns.

    Args:
        max_running: how much of one kind runs at once, of one connection.
        max_waiting: how much of it waits; more is refused.
    """

    _max_running: int
    _max_waiting: int
    _lanes: WeakKeyDictionary[Peer, dict[str, HandlerSlots]] = field(
        factory=WeakKeyDictionary[Peer, dict[str, HandlerSlots]], init=False
    )

    def of(self, peer: Peer, kind: str = "") -> HandlerSlots:
        """Return those of one connection for one kind."""
        lanes = self._lanes.setdefault(peer, {})
        if kind not in lanes:
            lanes[kind] = HandlerSlots(self._max_running, self._max_waiting, listens=True)
        return lanes[kind]


_log = logging.getLogger("trio_mcp.server")

_ENGINES = ("notifications/cancelled", "notifications/progress")
_REQUESTS = frozenset(
    method for methods in types.METHODS.values() for method, row in methods.items() if row.kind == "request"
)
"""A notification of such a name means nothing, and must not be taken for the request."""
_MAX_COMPLAINTS = 10
"""Notifications that a serving could not take about which the log says so; a client that goes on fills no log."""


@define(eq=False)
class _QueuedNotification(IncomingRequest):
    """A notification, to be worked on as a request is; what would be its answer goes nowhere."""

    def has_room(self) -> bool:
        return self.peer.has_room()

    async def room(self) -> None:
        await self.peer.room()

    def ask(self, method: str, params: JsonObject | None) -> OutgoingRequest:
        del params
        raise LocalProtocolError(f"{method!r} cannot be asked in the handler of a notification: nobody waits for it")

    def _send(self, outcome: JsonObject | McpError) -> None:
        if isinstance(outcome, McpError):
            _log.debug("notification %s: %s", self.method, outcome)

    def _notify(self, method: str, params: JsonObject) -> None:
        if self.peer.admission.operating:  # else the other side takes nothing that belongs to no request
            self.peer.notify_nowait(method, params)

    def _end(self) -> None:
        """There is nobody to tell."""


@define(eq=False)
class NotificationQueue:
    """Takes the notifications of all connections of one serving."""

    _serving: ActiveServer
    _lanes: SlotsByKind = field(init=False)
    dropped: int = field(default=0, init=False)
    """Notifications that nobody worked on, because too many waited."""
    _open: WeakKeyDictionary[Peer, set[_QueuedNotification]] = field(
        factory=WeakKeyDictionary[Peer, "set[_QueuedNotification]"], init=False
    )
    """Those that are worked on or wait, by connection."""
    _complaints: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._lanes = SlotsByKind(1, self._serving.limits.max_queued)

    def take(self, method: str, params: JsonObject, peer: Peer, envelope: MessageOrigin) -> None:
        """Take a notification; synchronous, and never raises."""
        server = self._serving.server
        wanted = method in server.custom.notifications or server.all_middleware
        if not wanted or method in _ENGINES or method in _REQUESTS:
            _log.debug("notification %s with %d params", method, len(params))
            return
        try:
            terms = peer.admission.admit(method, params)
        except McpError as error:
            self._complain(f"notification {method!r}: {error}")
            return
        context = evolve(terms, access=envelope.access, headers=envelope.headers)
        notice, slots = _QueuedNotification(method, params, context, 0, peer), self._lanes.of(peer)
        if slots.full:
            self.dropped += 1
            self._complain(f"notification {method!r} was dropped: {slots.waiting} of its connection wait already")
            return

        open_now = self._open_of(peer)

        async def handle(run: HandlerRun) -> JsonObject:
            try:
                await trio.lowlevel.checkpoint_if_cancelled()  # it may have waited for too long
                self._serving.background.adopt()
                await self._work_on(notice, run)
            finally:
                open_now.discard(notice)
            self._serving.changes.notify_now()
            return {}

        def explain(failure: Exception) -> McpError:
            refusal = refusal_of(failure, context)
            if refusal is not None:
                self._complain(f"notification {method!r}: {refusal}")
            elif isinstance(failure, OutOfTimeError | ConnectionLost):
                self._complain(f"notification {method!r} was given up: its connection is gone")
            else:
                _log.error("notification %r: its handler failed", method, exc_info=failure)
            return refusal or McpError(INTERNAL_ERROR, "failed")

        open_now.add(notice)
        self._serving.pool.begin(notice, handle, explain, slots)

    def _open_of(self, peer: Peer) -> set[_QueuedNotification]:
        open_now = self._open.get(peer)
        if open_now is None:
            self._open[peer] = open_now = set[_QueuedNotification]()
            peer.on_disconnect(partial(self._limit, open_now))
        return open_now

    def _limit(self, notices: set[_QueuedNotification], _: ConnectionLost) -> None:
        """Give the notifications of a connection that is gone some more time."""
        for notice in notices:
            assert notice.run is not None  # it is open
            notice.run.allow(self._serving.limits.drain_seconds)

    async def _work_on(self, notice: _QueuedNotification, run: HandlerRun) -> None:
        server, view = self._serving.server, Context(run, self._serving)

        async def work(typed: Any) -> None:
            own = server.custom.notifications.get(notice.method)
            if own is not None:
                await own.call(view, typed)

        came: JsonObject = notice.params or {}
        params: Any = came
        refusal: McpError | None = None
        read = partial(self._typed, notice)
        try:
            params = read(came)
        except McpError as error:
            refusal = error
        chain = MiddlewareChain(server.all_middleware, came, read, work, params, refusal)
        await chain.run(notice.method, view, is_notification=True)

    def _typed(self, notice: _QueuedNotification, params: Mapping[str, Any]) -> Any:
        method, revision = notice.method, notice.context.revision
        row, own = types.METHODS[revision].get(method), self._serving.server.custom.notifications.get(method)
        if own is not None:
            return own.read(dict(params), notice.context)
        if row is None:
            return params
        try:
            return types.structure(params, row.params, revision=revision)
        except StructureError as error:
            raise McpError(INVALID_PARAMS, f"its params do not fit: {'; '.join(error.faults)}") from None

    def _complain(self, text: str) -> None:
        self._complaints += 1
        _log.log(logging.WARNING if self._complaints <= _MAX_COMPLAINTS else logging.DEBUG, "%s", text)
