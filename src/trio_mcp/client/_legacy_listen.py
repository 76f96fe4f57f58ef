"""Listening for changes on a legacy connection: list changes arrive unrequested, resources are subscribed to.

All listeners of a connection receive every notification of its server, and each keeps the changes it asked for. The
client sends one subscription for a resource, however many listeners want it, and ends it when the last listener has
left.

Some servers report changes of lists that they have not declared. A listener receives them too, after a warning, and
does not count on them (`Changes.honored`).

Over HTTP a session may be lost and replaced by another. The client then makes the same subscriptions again and reports
everything that is listened for as changed, because changes may have been missed.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/server/resources#subscriptions
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from copy import copy
from typing import Protocol

import trio
from attrs import define, evolve, field

from .. import types
from .._errors import ConnectionLost, ErrorResponse, TrioMcpError
from ..wire import EVERY_LIST, ChangeFilter, JsonObject, ListChanged, ResourceUpdated, read_change
from ._cache import ConnectionCache
from ._listen import ChangeInbox

__all__ = ["LegacyListen", "SessionChanges"]

_log = logging.getLogger("trio_mcp.client")


@define(eq=False)
class _ResourceSubscription:
    """The subscription of a connection to one resource, while it has listeners or is being ended."""

    listeners: int = field(default=0, init=False)
    """The number of blocks that listen for the resource."""
    is_requested: bool = field(default=False, init=False)
    """True if the server may know of the subscription."""
    lock: trio.Lock = field(factory=trio.Lock, init=False)
    """Held during a request, because the order of requests matters."""


class SendRequest(Protocol):
    """The type of `Connection.request`, as far as it is used here."""

    def __call__(
        self, method: str, params: JsonObject | None, result: type[types.EmptyResult]
    ) -> Awaitable[types.EmptyResult]:
        """Send a request and wait for its result."""
        ...


@define(eq=False)
class SessionChanges:
    """A client's record of the notifications of a legacy server, and of its subscriptions to resources there."""

    _request: SendRequest
    _cache: ConnectionCache
    _nursery: trio.Nursery
    """The nursery of the connection's tasks."""
    _warn_once: Callable[[str], None]
    declared: ChangeFilter = field(default=EVERY_LIST, init=False)
    """The changes of lists that the server has declared; all of them before it has declared its capabilities."""
    _inboxes: dict[ChangeInbox, None] = field(factory=dict[ChangeInbox, None], init=False)
    """An ordered set: the inboxes of all listeners."""
    _subscriptions: dict[str, _ResourceSubscription] = field(factory=dict[str, _ResourceSubscription], init=False)
    _explicit: set[str] = field(factory=set[str], init=False)
    """The resources subscribed with `Client.subscribe_resource`: blocks must not end these."""
    _log_level: types.LoggingLevel | None = field(default=None, init=False)
    """The log level that the server was asked for."""
    _disconnect_reason: ConnectionLost | None = field(default=None, init=False)

    def take_notification(self, method: str, params: JsonObject) -> None:
        """Take a notification; one that reports no change is ignored."""
        change = read_change(method, params)
        if change is not None:
            if isinstance(change, ListChanged) and not self.declared.covers(change):
                self._warn_once(f"the server sends {method!r}, and has not declared '{change.kind}.listChanged'")
            self._cache.changed(change)
            for inbox in self._inboxes:
                inbox.put(change)

    def disconnected(self, reason: ConnectionLost) -> None:
        """End all listeners: the connection is gone."""
        self._disconnect_reason = reason
        for inbox in self._inboxes:
            inbox.end(copy(reason))

    def expect(self, lists: ChangeFilter) -> None:
        """Warn of the changes of lists in *lists* that the server has not declared."""
        for change in lists.changes() - self.declared.changes():
            if isinstance(change, ListChanged):
                self._warn_once(
                    f"listen() for changes of {change.kind}: the server has not declared that it reports them "
                    f"('{change.kind}.listChanged'); they are received if it does"
                )

    def add(self, inbox: ChangeInbox) -> None:
        """Put the changes that arrive from now on into *inbox*.

        Raises:
            ConnectionLost: the connection is gone.
        """
        if self._disconnect_reason is not None:
            raise copy(self._disconnect_reason)
        self._inboxes[inbox] = None

    def discard(self, inbox: ChangeInbox) -> None:
        """Put no more changes into *inbox*."""
        del self._inboxes[inbox]

    async def set_log_level(self, level: types.LoggingLevel) -> None:
        """Ask for log messages of *level* and above, in this session and in those that replace it."""
        await self._request("logging/setLevel", {"level": level}, types.EmptyResult)
        self._log_level = level

    def session_renewed(self) -> None:
        """Make the subscriptions of the lost session again, in a task of the connection."""
        for inbox in self._inboxes:
            for change in inbox.wanted.changes():
                if isinstance(change, ListChanged):
                    inbox.put(change)
        self._nursery.start_soon(self._restore)

    async def _restore(self) -> None:
        if self._log_level is not None:
            try:
                await self.set_log_level(self._log_level)
            except TrioMcpError as exc:
                self._warn("the log level of the server is not restored", exc)
        for uri in dict.fromkeys([*self._subscriptions, *self._explicit]):
            await self._resubscribe(uri)

    async def _resubscribe(self, uri: str) -> None:
        subscription = self._subscriptions.get(uri, _ResourceSubscription())
        async with subscription.lock:
            if not subscription.is_requested and uri not in self._explicit:
                return  # the last listener has left
            try:
                await self._send("resources/subscribe", uri)
            except TrioMcpError as exc:
                self._warn(f"the server no longer reports changes of {uri!r}", exc)
                subscription.is_requested = False
                for inbox in self._inboxes:
                    if uri in inbox.wanted.resources:
                        inbox.end(copy(exc))
                return
        for inbox in self._inboxes:
            inbox.put(ResourceUpdated(uri))

    def _warn(self, what: str, why: TrioMcpError) -> None:
        if self._disconnect_reason is None:  # else the listeners have received the reason
            _log.warning("%s after the loss of its session: %s", what, why)

    async def subscribe(self, uri: str) -> None:
        """Subscribe to a resource until `release`. If this fails or is cancelled, no subscription remains.

        Raises:
            TrioMcpError: the server refuses, or cannot be reached.
        """
        subscription = self._subscriptions.setdefault(uri, _ResourceSubscription())
        subscription.listeners += 1
        try:
            async with subscription.lock:
                if not subscription.is_requested:
                    subscription.is_requested = True  # also without an answer: the server must then be asked to stop
                    await self._send("resources/subscribe", uri)
        except BaseException as exc:
            subscription.is_requested &= not isinstance(exc, ErrorResponse)
            self.release(uri)
            raise

    def release(self, uri: str) -> None:
        """Release a subscription. The last release ends it in a task of the connection; this method does not wait."""
        subscription = self._subscriptions[uri]
        subscription.listeners -= 1
        if subscription.listeners == 0 and self._disconnect_reason is None:
            self._nursery.start_soon(self._end, uri, subscription)

    async def subscribe_explicitly(self, uri: str) -> None:
        """Subscribe to a resource until `unsubscribe_explicitly`."""
        await self._send("resources/subscribe", uri)
        self._explicit.add(uri)

    async def unsubscribe_explicitly(self, uri: str) -> None:
        """Unsubscribe from a resource, unless a block listens for it."""
        self._explicit.discard(uri)
        if uri in self._subscriptions:
            await trio.lowlevel.checkpoint()
        else:
            await self._send("resources/unsubscribe", uri)

    async def _end(self, uri: str, subscription: _ResourceSubscription) -> None:
        async with subscription.lock:
            if subscription.listeners > 0:
                return  # a new listener has come meanwhile
            is_requested, subscription.is_requested = subscription.is_requested, False
            if is_requested and uri not in self._explicit:
                try:
                    await self._send("resources/unsubscribe", uri)
                except TrioMcpError as exc:
                    _log.debug("the subscription to %r could not be ended: %s", uri, exc)
        if subscription.listeners == 0 and self._subscriptions.get(uri) is subscription:
            del self._subscriptions[uri]

    async def _send(self, method: str, uri: str) -> None:
        await self._request(method, {"uri": uri}, types.EmptyResult)


@define(eq=False)
class LegacyListen:
    """One block that listens on a legacy connection."""

    _changes: SessionChanges
    _open_stream: Callable[[], Awaitable[None]]
    """Opens the stream on which the server reports changes, if the transport needs one."""
    _wanted: ChangeFilter
    _inbox: ChangeInbox
    _subscribed: list[str] = field(factory=list[str], init=False)

    async def begin(self) -> ChangeFilter:
        """Subscribe to the resources; return the changes that the server does not refuse.

        Raises:
            RequestTimedOut: the server does not answer.
            RemoteProtocolError: the answer breaks the protocol.
            ConnectionLost: the connection is gone.
        """
        await trio.lowlevel.checkpoint()
        self._changes.add(self._inbox)
        try:
            await self._open_stream()
            for uri in self._wanted.resources:
                try:
                    await self._changes.subscribe(uri)
                    self._subscribed.append(uri)
                except ErrorResponse as exc:
                    _log.debug("the server does not report changes of %r: %s", uri, exc)
        except BaseException:
            self.leave()
            raise
        return evolve(self._wanted, resources=self._subscribed)

    def leave(self) -> None:
        """End the subscriptions of this block."""
        self._changes.discard(self._inbox)
        for uri in self._subscribed:
            self._changes.release(uri)
