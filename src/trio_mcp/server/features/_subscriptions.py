"""`subscriptions/listen`: a request that is told of changes until somebody ends it.

Rules of this file:

1. The acknowledgement is the first message of a subscription. Changes count from before it on, so none is lost.
2. What waits to be told is kept once for each list and resource; one that reads nothing holds no more than that.
3. A subscription ends when its client cancels it, or when the server stops: then what is known is told as far as there
   is room, and an empty result says that this was no accident.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import NoReturn, Protocol

import trio
from attrs import define, evolve, field

from ... import types
from ..._errors import McpError
from ...peer import HandlerPool, IncomingRequest, Limits
from ...wire import (
    ACKNOWLEDGED,
    INVALID_PARAMS,
    SERVER_INFO_KEY,
    SUBSCRIPTION_ID_KEY,
    Change,
    ChangeFilter,
    JsonObject,
    ResourceUpdated,
    notification_of,
    stamp,
)
from .._context import Context, run_of
from ._resources import Resources

__all__ = [
    "ChangeHub",
    "ChangeListener",
    "ChangeSource",
    "ListenSubscription",
    "ListeningServing",
    "has_resource",
    "listen",
]


# What changes on a server, and who is told: from wherever it happens to every listener of every serving.
#
# Rules of this file:
#
# 1. One source per server. Registrations and updates may come from any thread, and before anything is served.
# 2. One hub per serving. Listeners live in its Trio run, and are only ever told there.
# 3. Telling never waits and never fails. A listener notes each change once until it sends it, so that what is changed
#    in one go is one piece of news, and one that cannot send holds no more than there are lists and resources it
#    wants.
# 4. What a handler has changed is said before the handler's own result, as far as there is room: whoever has the
# result
#    knows then that what they had listed before is out of date.


class ChangeListener(Protocol):
    """Somebody who is told."""

    def changed(self, change: Change) -> None:
        """Take note, and say so soon; synchronous, and never raises."""
        ...

    def notify_now(self) -> None:
        """Say what was noted, as far as there is room; likewise."""
        ...


@define(eq=False)
class ChangeHub:
    """The listeners of one serving."""

    _token: trio.lowlevel.TrioToken = field(factory=trio.lowlevel.current_trio_token, init=False)
    _listeners: dict[ChangeListener, None] = field(factory=dict["ChangeListener", None], init=False)
    """A set in order."""
    unsaid: bool = field(default=False, init=False)
    """Whether somebody may have noted something since `notify_now`."""

    @property
    def listening(self) -> int:
        """How many there are."""
        return len(self._listeners)

    def add(self, listener: ChangeListener) -> None:
        """Tell *listener* from now on."""
        self._listeners[listener] = None

    def discard(self, listener: ChangeListener) -> None:
        """Tell *listener* no more; harmless when repeated."""
        self._listeners.pop(listener, None)

    def close(self) -> None:
        """Tell nobody any more, not even of what is on its way from another thread."""
        self._listeners.clear()

    def notify_nowait(self, change: Change) -> None:
        """Tell all listeners; from any thread, where equal changes that wait for the Trio run count once."""
        if self._is_here():
            self._notify(change)
        else:
            with suppress(trio.RunFinishedError):  # then nobody listens any more
                self._token.run_sync_soon(self._notify, change, idempotent=True)

    def notify_now(self) -> None:
        """Have all listeners say what they noted (rule 4)."""
        if self.unsaid:
            self.unsaid = False
            for listener in self._listeners:
                listener.notify_now()

    def _is_here(self) -> bool:
        try:
            return trio.lowlevel.current_trio_token() is self._token
        except RuntimeError:  # a thread without a Trio run
            return False

    def _notify(self, change: Change) -> None:
        self.unsaid = True
        for listener in self._listeners:
            listener.changed(change)


@define(eq=False)
class ChangeSource:
    """Where the changes of one server come together."""

    _hubs: tuple[ChangeHub, ...] = field(default=(), init=False)
    """Replaced as a whole, because another thread may be going through it."""
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def notify_nowait(self, change: Change) -> None:
        """Tell all listeners of all servings; from any thread, at any time."""
        for hub in self._hubs:
            hub.notify_nowait(change)

    def resource_updated(self, uri: str) -> None:
        """Tell that the resource of this URI is not what it was."""
        self.notify_nowait(ResourceUpdated(uri))

    @contextmanager
    def serving(self) -> Generator[ChangeHub]:
        """Open the hub of a serving, in its Trio run."""
        hub = ChangeHub()
        with self._lock:
            self._hubs = (*self._hubs, hub)
        try:
            yield hub
        finally:
            with self._lock:
                self._hubs = tuple(each for each in self._hubs if each is not hub)
            hub.close()


def has_resource(resources: Resources, uri: str) -> bool:
    """Tell whether *uri* is registered, or follows a template that is."""
    return resources.catalog.get(uri) is not None or any(
        template.match(uri) is not None for template in resources.templates
    )


class ListeningServing(Protocol):
    """The part of a serving that subscriptions need."""

    @property
    def changes(self) -> ChangeHub:
        """The listeners of the serving."""
        ...

    @property
    def pool(self) -> HandlerPool:
        """The pool in which the handlers run."""
        ...

    @property
    def limits(self) -> Limits:
        """The limits of each connection."""
        ...

    @property
    def info_json(self) -> JsonObject:
        """The name of the server, in the shape of `types.Implementation`."""
        ...

    @property
    def capabilities(self) -> types.ServerCapabilities:
        """The capabilities that the server declares."""
        ...

    @property
    def resources(self) -> Resources:
        """The resources and resource templates of the server."""
        ...


def listen(
    serving: ListeningServing, exchange: IncomingRequest, params: types.SubscriptionsListenRequestParams
) -> ListenSubscription:
    """Return the subscription that answers `subscriptions/listen`.

    Raises:
        McpError: the refusal.
    """
    wanted, most = ChangeFilter.from_wire(params.notifications), serving.limits.max_subscriptions
    if len(wanted.resources) > most:
        fault = f"$.notifications.resourceSubscriptions: at most {most} resources, not {len(wanted.resources)}"
        raise McpError(INVALID_PARAMS, fault)
    agreed = wanted.within(serving.capabilities)
    resources = [uri for uri in agreed.resources if has_resource(serving.resources, uri)]
    return ListenSubscription(serving, exchange, evolve(agreed, resources=resources))


@define(eq=False)
class ListenSubscription:
    """One of them, from its request to its end."""

    _serving: ListeningServing
    _exchange: IncomingRequest
    _agreed: ChangeFilter
    _told: frozenset[Change] = field(init=False)
    """All that it may be told of."""
    waits: bool = field(default=True, init=False)
    may_ask: bool = field(default=False, init=False)
    _acknowledged: bool = field(default=False, init=False)
    _waiting: dict[Change, None] = field(factory=dict["Change", None], init=False)
    """A set in order: what is to be told."""
    _news: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def __attrs_post_init__(self) -> None:
        self._told = self._agreed.changes()

    async def call(self, context: Context, _: object) -> NoReturn:
        """Notify the client of changes until cancelled."""
        run_of(context).closing_result = self.conclude
        self._serving.changes.add(self)
        try:
            await self._room()
            self._acknowledge()
            while True:
                while not self._waiting:
                    await self._news.park()
                await self._room()
                self.notify_now()
        finally:
            self._serving.changes.discard(self)

    def changed(self, change: Change) -> None:
        """Take note of a change."""
        if change in self._told:
            self._waiting[change] = None
            self._news.unpark()

    def notify_now(self) -> None:
        """Tell of what waits, as far as there is room; of nothing before the acknowledgement."""
        while self._waiting and self._acknowledged and self._exchange.has_room():
            self._notify_next()

    def conclude(self) -> JsonObject:
        """Say what there is still to say, and return the result."""
        if not self._acknowledged:
            self._acknowledge()
        self.notify_now()
        meta = {SERVER_INFO_KEY: self._serving.info_json, SUBSCRIPTION_ID_KEY: self._exchange.id}
        return {"resultType": "complete", "_meta": meta}

    async def _room(self) -> None:
        if not self._exchange.has_room():
            await self._exchange.room()

    def _acknowledge(self) -> None:
        self._acknowledged = True
        self._notify(ACKNOWLEDGED, {"notifications": self._agreed.to_wire()})

    def _notify_next(self) -> None:
        change = next(iter(self._waiting))
        del self._waiting[change]
        self._notify(*notification_of(change))

    def _notify(self, method: str, params: JsonObject) -> None:
        self._exchange.notify(method, stamp(params, {SUBSCRIPTION_ID_KEY: self._exchange.id}))
