"""The queue of notifications that a server receives: custom handlers and middleware take them in wire order.

Rules of this file:

1. The notifications of one connection are handled one at a time, in the order in which they were received. Those of
   different connections do not wait for each other.
2. If more than `Limits.max_queued` notifications of a connection wait, further ones are dropped; the first are logged.
3. When a connection is lost, its notifications may be handled for `Limits.drain_seconds`; then they are cancelled.
4. A notification may be handled for `Limits.notification_seconds`; then its handler is cancelled, and the log names the
   notification. So a handler that never returns delays the later notifications of its connection, but not for ever.
5. `notifications/cancelled` and `notifications/progress` are handled by the engine and never reach this queue.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import trio
from attrs import define, field

from .. import types
from .._errors import ConnectionLost, LocalProtocolError, McpError, StructureError
from .._util import exc_info_of
from ..peer import HandlerRun, HandlerSlots, IncomingRequest, MessageOrigin, OutgoingRequest, OutOfTimeError, Peer
from ..wire import INTERNAL_ERROR, INVALID_PARAMS, JsonObject
from ._context import Context
from ._extensions import refusal_of
from ._middleware import MiddlewareChain

if TYPE_CHECKING:
    from ._serving import ActiveServer

__all__ = ["NotificationQueue", "SlotsByKind"]


@define(eq=False)
class SlotsByKind:
    """The slots of each connection for small kinds of work, beside the slots for its requests.

    No kind of work waits for another kind, or for the places of handlers.

    Args:
        max_running: the tasks of one kind and one connection that run at once.
        max_waiting: the tasks that wait; more are refused.
    """

    _max_running: int
    _max_waiting: int
    _slots: WeakKeyDictionary[Peer, dict[str, HandlerSlots]] | None = field(default=None, init=False)
    """Made when needed, because most servers need none and it is 1 KB (benchmark cell `idle`)."""

    def of(self, peer: Peer, kind: str = "") -> HandlerSlots:
        """Return the slots of one connection for one kind of work."""
        if self._slots is None:
            self._slots = WeakKeyDictionary()
        slots = self._slots.setdefault(peer, {})
        if kind not in slots:
            slots[kind] = HandlerSlots(self._max_running, self._max_waiting, listens=True)
        return slots[kind]


_log = logging.getLogger("trio_mcp.server")

_ENGINE_METHODS = ("notifications/cancelled", "notifications/progress")
_REQUESTS = frozenset(
    method for methods in types.METHODS.values() for method, row in methods.items() if row.kind == "request"
)
"""A notification with the name of a request has no meaning, and must not be taken for the request."""
_MAX_WARNINGS = 10
"""The number of warnings of one kind about notifications in one serving, so that a client cannot fill the log."""


@define(eq=False)
class _QueuedNotification(IncomingRequest):
    """A notification that is handled like a request; its response is dropped."""

    is_notification = True

    def has_room(self) -> bool:
        return self.peer.has_room()

    async def room(self) -> None:
        await self.peer.room()

    def ask(self, method: str, params: JsonObject | None) -> OutgoingRequest:
        del params
        raise LocalProtocolError(f"{method!r}: a handler of a notification cannot send requests")

    def _send(self, outcome: JsonObject | McpError) -> None:
        if isinstance(outcome, McpError):
            _log.debug("notification %s: %s", self.method, outcome)

    def _notify(self, method: str, params: JsonObject) -> None:
        if self.peer.admission.operating:  # before, the client accepts only what belongs to a request
            self.peer.notify_nowait(method, params)

    def _end(self) -> None:
        """Do nothing, because a notification has no response."""


@define(eq=False)
class NotificationQueue:
    """The queue of the notifications of all connections of one serving."""

    _serving: ActiveServer
    _slots: SlotsByKind = field(init=False)
    dropped: int = field(default=0, init=False)
    """The number of notifications that were dropped because too many waited."""
    _open: WeakKeyDictionary[Peer, set[_QueuedNotification]] = field(
        factory=WeakKeyDictionary[Peer, "set[_QueuedNotification]"], init=False
    )
    """The notifications that are handled or wait, by connection."""
    _warnings: Counter[str] = field(factory=Counter[str], init=False)
    """The number of warnings of each kind."""

    def __attrs_post_init__(self) -> None:
        self._slots = SlotsByKind(1, self._serving.limits.max_queued)

    def take(self, method: str, params: JsonObject, peer: Peer, envelope: MessageOrigin) -> None:
        """Take a notification; synchronous, and never raises."""
        internals = self._serving.internals
        wanted = method in internals.custom.notifications or internals.middleware or self._serving.forwarder is not None
        if not wanted or method in _ENGINE_METHODS or method in _REQUESTS:
            _log.debug("notification %s with %d params", method, len(params))
            return
        try:
            terms = peer.admission.admit(method, params)
        except McpError as error:
            self._warn(f"notification {method!r}: {error}")
            return
        context = terms.arrived_by(envelope)
        notification, slots = _QueuedNotification(method, params, context, 0, peer), self._slots.of(peer)
        if slots.full:
            self.dropped += 1
            self._warn(f"notification {method!r} was dropped: {slots.waiting} of its connection wait already")
            return

        open_now, seconds = self._open_of(peer), self._serving.limits.notification_seconds

        async def handle(run: HandlerRun) -> JsonObject:
            try:
                await trio.lowlevel.checkpoint_if_cancelled()  # its time may have run out in the queue
                self._serving.background.adopt()
                with trio.move_on_after(seconds) as scope:
                    await self._handle(notification, run)
                if scope.cancelled_caught:
                    message = f"its handler did not return within {seconds:g} s (Limits.notification_seconds)"
                    self._warn(f"notification {method!r} was cancelled: {message}", kind="overdue")
            finally:
                open_now.discard(notification)
            self._serving.changes.notify_now()
            return {}

        def explain(failure: Exception) -> McpError:
            refusal = refusal_of(failure, context)
            if refusal is not None:
                self._warn(f"notification {method!r}: {refusal}")
            elif isinstance(failure, OutOfTimeError | ConnectionLost):
                self._warn(f"notification {method!r} was cancelled: its connection is gone")
            else:
                _log.error("notification %r: its handler failed", method, exc_info=exc_info_of(failure))
            return refusal or McpError(INTERNAL_ERROR, "failed")

        open_now.add(notification)
        self._serving.pool.begin(notification, handle, explain, slots)

    def _open_of(self, peer: Peer) -> set[_QueuedNotification]:
        open_now = self._open.get(peer)
        if open_now is None:
            self._open[peer] = open_now = set[_QueuedNotification]()
            peer.on_disconnect(partial(self._limit, open_now))
        return open_now

    def _limit(self, notifications: set[_QueuedNotification], _: ConnectionLost) -> None:
        """Limit the time of the notifications of a connection that is gone (rule 3)."""
        for notification in notifications:
            assert notification.run is not None  # it is open
            notification.run.allow(self._serving.limits.drain_seconds)

    async def _handle(self, notification: _QueuedNotification, run: HandlerRun) -> None:
        internals, view = self._serving.internals, Context(run, self._serving)

        async def work(typed: Any) -> None:
            custom = internals.custom.notifications.get(notification.method)
            if custom is not None:
                await custom.call(view, typed)
            elif self._serving.forwarder is not None:
                await self._serving.forwarder.notified(notification, typed)

        received: JsonObject = notification.params or {}
        params: Any = received
        refusal: McpError | None = None
        read = partial(self._typed, notification)
        try:
            params = read(received)
        except McpError as error:
            refusal = error
        chain = MiddlewareChain(internals.middleware, received, read, work, params, refusal)
        await chain.run(notification.method, view, is_notification=True)

    def _typed(self, notification: _QueuedNotification, params: Mapping[str, Any]) -> Any:
        method, revision = notification.method, notification.context.revision
        row, custom = types.METHODS[revision].get(method), self._serving.internals.custom.notifications.get(method)
        if custom is not None:
            return custom.read(dict(params), notification.context)
        if row is None:
            return params
        try:
            return types.structure(params, row.params, revision=revision)
        except StructureError as error:
            raise McpError(INVALID_PARAMS, f"the params do not fit: {'; '.join(error.faults)}") from None

    def _warn(self, message: str, *, kind: str = "refused") -> None:
        self._warnings[kind] += 1
        _log.log(logging.WARNING if self._warnings[kind] <= _MAX_WARNINGS else logging.DEBUG, "%s", message)
