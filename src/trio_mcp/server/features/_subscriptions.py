"""The changes of a server, their listeners, and `subscriptions/listen`, a request that lasts until it is cancelled.

Rules of this file:

1. Each server has one source of changes. Registrations and updates may come from any thread, also before the server is
   served.
2. Each serving has one hub. Its listeners live in the Trio run of the serving, and are called only there.
3. Notifying never waits and never fails. A listener stores each change once until it sends it, so that a slow client
   holds no more than the lists and resources that it has subscribed to.
4. The changes that a handler makes are sent before the result of the handler, as far as there is room in the queue:
   a client that has the result then knows that its lists are out of date.
5. The acknowledgement is the first message of a subscription. Changes are stored from before it on, so none is lost.
6. A subscription ends when its client cancels it, or when the server stops. In the latter case the pending changes are
   sent as far as there is room, and an empty result shows that the end was regular.
7. An extension may add members to the filter of a subscription, such as the ids of tasks. It decides which of their
   values the client may listen for, before the acknowledgement.
8. A client is notified only of the entries that it sees (`visible=`). That is decided when an entry is added or
   removed, and for a resource when the client subscribes to it.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NoReturn, Protocol

import trio
from attrs import define, evolve, field, frozen

from ... import types
from ..._errors import McpError
from ..._extensions import extensions_in, missing_extension
from ...peer import Access, ExchangeContext, HandlerPool, IncomingRequest, Limits
from ...wire import (
    ACKNOWLEDGED,
    INVALID_PARAMS,
    MISSING_CAPABILITY,
    SERVER_INFO_KEY,
    SUBSCRIPTION_ID_KEY,
    Change,
    ChangeFilter,
    CustomChange,
    JsonObject,
    ResourceUpdated,
    is_string_list,
    notification_of,
    stamp,
)
from .._context import Context, run_of
from .._forwarder import Forwarder
from ._catalog import ShownTo
from ._resources import Resources

__all__ = [
    "ChangeHub",
    "ChangeListener",
    "ChangeSource",
    "ListenFilter",
    "ListenSubscription",
    "ListeningServing",
    "has_resource",
    "listen",
]


class ChangeListener(Protocol):
    """A listener for the changes of a server."""

    @property
    def access(self) -> Access | None:
        """The authenticated principal that listens; None without authentication."""
        ...

    def changed(self, change: Change) -> None:
        """Store a change to be sent soon; synchronous, and never raises."""
        ...

    def all_changed(self) -> None:
        """Store every change that it listens for, because some of them may have been missed; likewise."""
        ...

    def notify_now(self) -> None:
        """Send the stored changes, as far as there is room in the queue; synchronous, and never raises."""
        ...


@define(eq=False)
class ChangeHub:
    """The listeners of one serving."""

    _token: trio.lowlevel.TrioToken = field(factory=trio.lowlevel.current_trio_token, init=False)
    _listeners: dict[ChangeListener, None] = field(factory=dict["ChangeListener", None], init=False)
    """An ordered set."""
    _arriving: dict[tuple[Change, ShownTo | None], None] = field(
        factory=dict["tuple[Change, ShownTo | None]", None], init=False
    )
    """The changes from other threads that wait for the Trio run: an ordered set."""
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    """Held while `_arriving` is used."""
    unsaid: bool = field(default=False, init=False)
    """True if a listener may have stored a change since `notify_now`."""

    @property
    def listening(self) -> int:
        """The number of listeners."""
        return len(self._listeners)

    def add(self, listener: ChangeListener) -> None:
        """Add a listener."""
        self._listeners[listener] = None

    def discard(self, listener: ChangeListener) -> None:
        """Remove a listener; do nothing if it is not there."""
        self._listeners.pop(listener, None)

    def close(self) -> None:
        """Remove all listeners, so that changes on their way from another thread are dropped."""
        self._listeners.clear()

    def notify_nowait(self, change: Change, shown_to: ShownTo | None = None) -> None:
        """Notify all listeners; from any thread. Of equal changes that wait for the Trio run, the newest is kept.

        Args:
            shown_to: tells which principals see the entry that was added or removed; None if all do.
        """
        if self._is_here():
            self._take_arriving()  # they are older
            self._notify(change, shown_to)
            return
        with self._lock:
            self._arriving.pop((change, shown_to), None)  # an equal one may tell less
            self._arriving[change, shown_to] = None
        with suppress(trio.RunFinishedError):  # then there are no listeners
            self._token.run_sync_soon(self._take_arriving, idempotent=True)

    def all_changed(self) -> None:
        """Notify all listeners of everything that they listen for, in the Trio run of the serving."""
        self.unsaid = True
        for listener in self._listeners:
            listener.all_changed()

    def notify_now(self) -> None:
        """Let all listeners send their stored changes (rule 4)."""
        if self.unsaid:
            self.unsaid = False
            for listener in self._listeners:
                listener.notify_now()

    def _is_here(self) -> bool:
        try:
            return trio.lowlevel.current_trio_token() is self._token
        except RuntimeError:  # a thread without a Trio run
            return False

    def _take_arriving(self) -> None:
        if self._arriving:
            with self._lock:
                arriving, self._arriving = self._arriving, {}
            for change, shown_to in arriving:
                self._notify(change, shown_to)

    def _notify(self, change: Change, shown_to: ShownTo | None) -> None:
        self.unsaid = True
        for listener in self._listeners:
            if shown_to is None or shown_to(listener.access):
                listener.changed(change)


@define(eq=False)
class ChangeSource:
    """The source of the changes of one server."""

    _hubs: tuple[ChangeHub, ...] = field(default=(), init=False)
    """Replaced as a whole, because another thread may be iterating over it."""
    id: str = field(factory=lambda: secrets.token_hex(8), init=False)
    """A random string, which tells the changes of this server from those of others."""
    _relays: tuple[Callable[[Change], None], ...] = field(default=(), init=False)
    """Functions that pass changes to other processes. Replaced as a whole, likewise."""
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def notify_nowait(self, change: Change, shown_to: ShownTo | None = None) -> None:
        """Notify all listeners of all servings; from any thread, at any time. See `ChangeHub.notify_nowait`.

        What not every principal sees is not relayed, because other processes do not know who sees it.
        """
        self.deliver_nowait(change, shown_to)
        for relay in self._relays if shown_to is None else ():
            relay(change)

    def deliver_nowait(self, change: Change, shown_to: ShownTo | None = None) -> None:
        """Notify the listeners in this process, but no other process."""
        for hub in self._hubs:
            hub.notify_nowait(change, shown_to)

    def all_changed(self) -> None:
        """Notify the listeners in this process of everything that they listen for, in the Trio run of the servings."""
        for hub in self._hubs:
            hub.all_changed()

    @contextmanager
    def relaying(self, relay: Callable[[Change], None]) -> Generator[None]:
        """Call a function with each change as well, from any thread, for as long as the block lasts."""
        with self._lock:
            self._relays = (*self._relays, relay)
        try:
            yield
        finally:
            with self._lock:
                self._relays = tuple(each for each in self._relays if each is not relay)

    def resource_updated(self, uri: str) -> None:
        """Notify the listeners that a resource has changed."""
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


def has_resource(resources: Resources, uri: str, access: Access | None) -> bool:
    """Return True if *uri* is registered, or matches a registered template, and is not hidden from the caller."""
    return resources.catalog.find(uri, access) is not None or any(
        template.match(uri) is not None for template in resources.templates.shown(access)
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

    @property
    def forwarder(self) -> Forwarder | None:
        """Answers requests on behalf of others; None if the server has none."""
        ...

    @property
    def listen_filters(self) -> Iterable[ListenFilter]:
        """The members that extensions add to the filter of a subscription."""
        ...


@frozen
class ListenFilter:
    """A member of the filter of `subscriptions/listen` that an extension adds: a list of strings."""

    member: str
    extension: str
    """The extension that a request must declare to use it."""
    agree: Callable[[Sequence[str], Context], Awaitable[Iterable[str]]]
    """Returns those of the wanted strings that the client may listen for."""

    def read(self, wanted: object, most: int, context: ExchangeContext) -> Sequence[str]:
        """Return the strings that a request names.

        Raises:
            McpError: the request does not declare the extension, or the member is not a list of at most *most* strings.
        """
        place = f"$.notifications.{self.member}"
        if self.extension not in extensions_in(context.capabilities):
            missing = missing_extension(self.extension)
            raise McpError(MISSING_CAPABILITY, str(missing), {"requiredCapabilities": missing.required})
        if not is_string_list(wanted):
            raise McpError(INVALID_PARAMS, f"{place}: expected an array of strings")
        if len(wanted) > most:
            raise McpError(INVALID_PARAMS, f"{place}: at most {most} strings, not {len(wanted)}")
        return [*dict.fromkeys(wanted)]


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
    access = exchange.context.access
    resources = [uri for uri in agreed.resources if has_resource(serving.resources, uri, access)]
    forwarded = [uri for uri in agreed.resources if uri not in {*resources}] if serving.forwarder is not None else ()
    custom = {
        each: each.read(params.notifications.extra[each.member], most, exchange.context)
        for each in _filters(serving)
        if each.member in params.notifications.extra
    }
    return ListenSubscription(serving, exchange, evolve(agreed, resources=resources), custom, forwarded)


def _filters(serving: ListeningServing) -> Iterable[ListenFilter]:
    """Return the members that extensions of the server, or of its forwarder, add to the filter."""
    filters = {each.member: each for each in serving.listen_filters}
    if serving.forwarder is not None:
        for member, extension in serving.forwarder.listen_members.items():
            filters.setdefault(member, ListenFilter(member, extension, _agree_to_none))
    return filters.values()


async def _agree_to_none(_: Sequence[str], __: Context) -> Sequence[str]:
    await trio.lowlevel.checkpoint()
    return ()


@define(eq=False)
class ListenSubscription:
    """The responder of one `subscriptions/listen` request."""

    _serving: ListeningServing
    _exchange: IncomingRequest
    _agreed: ChangeFilter
    _custom: Mapping[ListenFilter, Sequence[str]]
    """The strings that the client wants to listen for, by the filter of the extension."""
    _forwarded: Sequence[str]
    """The URIs of resources that the forwarder may know."""
    _wanted: frozenset[Change] = field(init=False)
    """All changes that it may be notified of."""
    waits: bool = field(default=True, init=False)
    may_ask: bool = field(default=False, init=False)
    _acknowledged: bool = field(default=False, init=False)
    _waiting: dict[Change, None] = field(factory=dict["Change", None], init=False)
    """The pending changes: an ordered set."""
    _changed: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def __attrs_post_init__(self) -> None:
        self._wanted = self._agreed.changes()

    @property
    def access(self) -> Access | None:
        """The authenticated principal that listens; None without authentication."""
        return self._exchange.context.access

    async def call(self, context: Context, _: object) -> NoReturn:
        """Notify the client of changes until cancelled."""
        run_of(context).closing_result = self.conclude
        self._serving.changes.add(self)
        try:
            await self._agree(context)
            wanted, forwarder = self._left(), self._serving.forwarder
            if wanted and forwarder is not None:
                async with forwarder.listening(wanted, self._exchange.peer, self.access, self.changed) as agreed:
                    self._agree_on(agreed)
                    await self._notify_all()
            await self._notify_all()
        finally:
            self._serving.changes.discard(self)

    async def _notify_all(self) -> NoReturn:
        await self._wait_for_room()
        self._acknowledge()
        while True:
            while not self._waiting:
                await self._changed.park()
            await self._wait_for_room()
            self.notify_now()

    async def _agree(self, context: Context) -> None:
        """Agree on what the server itself knows."""
        custom = {each.member: list(await each.agree(wanted, context)) for each, wanted in self._custom.items()}
        self._settle(evolve(self._agreed, custom=custom))

    def _left(self) -> ChangeFilter:
        """Return what the client wants and the server does not know, but the forwarder may."""
        left = {
            each.member: [key for key in wanted if key not in self._agreed.custom[each.member]]
            for each, wanted in self._custom.items()
        }
        return ChangeFilter(resources=self._forwarded, custom={member: keys for member, keys in left.items() if keys})

    def _agree_on(self, agreed: ChangeFilter) -> None:
        """Add what the forwarder has agreed to."""
        custom = {name: [*keys, *agreed.custom.get(name, ())] for name, keys in self._agreed.custom.items()}
        resources = [*self._agreed.resources, *agreed.resources]
        self._settle(evolve(self._agreed, resources=resources, custom=custom))

    def _settle(self, agreed: ChangeFilter) -> None:
        custom = {CustomChange(member, key, "", {}) for member, keys in agreed.custom.items() for key in keys}
        self._agreed, self._wanted = agreed, agreed.changes() | custom

    def changed(self, change: Change) -> None:
        """Store a change to be sent soon."""
        if change in self._wanted:
            self._waiting.pop(change, None)  # an equal one may tell less
            self._waiting[change] = None
            self._changed.unpark()

    def all_changed(self) -> None:
        """Store every change that it listens for. The states of extensions are not known here: their clients ask."""
        for change in self._wanted:
            if not isinstance(change, CustomChange):
                self.changed(change)

    def notify_now(self) -> None:
        """Send the pending changes, as far as there is room; none before the acknowledgement."""
        while self._waiting and self._acknowledged and self._exchange.has_room():
            self._send_next()

    def conclude(self) -> JsonObject:
        """Send the acknowledgement and the pending changes, and return the result."""
        if not self._acknowledged:
            self._acknowledge()
        self.notify_now()
        meta = {SERVER_INFO_KEY: self._serving.info_json, SUBSCRIPTION_ID_KEY: self._exchange.id}
        return {"resultType": "complete", "_meta": meta}

    async def _wait_for_room(self) -> None:
        if not self._exchange.has_room():
            await self._exchange.room()

    def _acknowledge(self) -> None:
        self._acknowledged = True
        self._notify(ACKNOWLEDGED, {"notifications": self._agreed.to_wire()})

    def _send_next(self) -> None:
        change = next(iter(self._waiting))
        del self._waiting[change]
        self._notify(*notification_of(change))

    def _notify(self, method: str, params: JsonObject) -> None:
        self._exchange.notify(method, stamp(params, {SUBSCRIPTION_ID_KEY: self._exchange.id}))
