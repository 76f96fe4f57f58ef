"""Listening on a connection with a handshake: lists are told of unasked, resources are subscribed to.

All listeners of a connection hear all that its server tells, and each keeps what it asked for. What several of them
want the server is asked for once, and told to stop when the last one has left.

Over HTTP a session may be lost, and another begun in its place. Then the server is asked for the same again, and each
listener is told that all it listens for may have changed, because nobody knows what has.

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
from ..wire import ChangeFilter, JsonObject, ListChanged, ResourceUpdated, read_change
from ._cache import ConnectionCache
from ._listen import ChangeInbox

__all__ = ["LegacyListen", "SessionChanges"]

_log = logging.getLogger("trio_mcp.client")


@define(eq=False)
class _ResourceSubscription:
    """The one subscription of a connection to a resource, while somebody wants it or it is being ended."""

    listeners: int = field(default=0, init=False)
    """Blocks that want it."""
    is_requested: bool = field(default=False, init=False)
    """Whether the server may know of it."""
    lock: trio.Lock = field(factory=trio.Lock, init=False)
    """Held while the server is being asked: what it is asked in what order is what counts."""


class SendRequest(Protocol):
    """`Connection.request`, as far as it is used here."""

    def __call__(
        self, method: str, params: JsonObject | None, result: type[types.EmptyResult]
    ) -> Awaitable[types.EmptyResult]:
        """Send a request and wait for its result."""
        ...


@define(eq=False)
class SessionChanges:
    """What the server of one connection tells unasked, and what it is subscribed to."""

    _request: SendRequest
    _cache: ConnectionCache
    _nursery: trio.Nursery
    """The tasks of the connection."""
    _inboxes: dict[ChangeInbox, None] = field(factory=dict[ChangeInbox, None], init=False)
    """A set in order: who listens."""
    _subscriptions: dict[str, _ResourceSubscription] = field(factory=dict[str, _ResourceSubscription], init=False)
    _explicit: set[str] = field(factory=set[str], init=False)
    """The resources that `Client.subscribe_resource` was used for: they are not for blocks to end."""
    _log_level: types.LoggingLevel | None = field(default=None, init=False)
    """What the server was asked to log."""
    _disconnect_reason: ConnectionLost | None = field(default=None, init=False)

    def take_notification(self, method: str, params: JsonObject) -> None:
        """Take a notification; those that are no news mean nothing."""
        change = read_change(method, params)
        if change is not None:
            self._cache.changed(change)
            for inbox in self._inboxes:
                inbox.put(change)

    def disconnected(self, reason: ConnectionLost) -> None:
        """The connection is gone."""
        self._disconnect_reason = reason
        for inbox in self._inboxes:
            inbox.end(copy(reason))

    def add(self, inbox: ChangeInbox) -> None:
        """Tell *inbox* what is heard from now on.

        Raises:
            ConnectionLost: nothing will be.
        """
        if self._disconnect_reason is not None:
            raise copy(self._disconnect_reason)
        self._inboxes[inbox] = None

    def discard(self, inbox: ChangeInbox) -> None:
        """Tell it no more."""
        del self._inboxes[inbox]

    async def set_log_level(self, level: types.LoggingLevel) -> None:
        """Ask for log messages of *level* and above, in this session and in those that may follow it."""
        await self._request("logging/setLevel", {"level": level}, types.EmptyResult)
        self._log_level = level

    def session_renewed(self) -> None:
        """Another session has begun: ask for the same as in the one before, in a task of the connection."""
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
                self._warn("the server may log less than it did", exc)
        for uri in dict.fromkeys([*self._subscriptions, *self._explicit]):
            await self._resubscribe(uri)

    async def _resubscribe(self, uri: str) -> None:
        subscription = self._subscriptions.get(uri, _ResourceSubscription())
        async with subscription.lock:
            if not subscription.is_requested and uri not in self._explicit:
                return  # nobody wants it any more
            try:
                await self._send("resources/subscribe", uri)
            except TrioMcpError as exc:
                self._warn(f"the server no longer tells of {uri!r}", exc)
                subscription.is_requested = False
                for inbox in self._inboxes:
                    if uri in inbox.wanted.resources:
                        inbox.end(copy(exc))
                return
        for inbox in self._inboxes:
            inbox.put(ResourceUpdated(uri))

    def _warn(self, what: str, why: TrioMcpError) -> None:
        if self._disconnect_reason is None:  # else nobody expects anything
            _log.warning("%s, since its session was lost: %s", what, why)

    async def subscribe(self, uri: str) -> None:
        """Want a resource to be told of, until `release`. If it fails or is cancelled, nothing is left.

        Raises:
            TrioMcpError: the server does not agree, or cannot be asked.
        """
        subscription = self._subscriptions.setdefault(uri, _ResourceSubscription())
        subscription.listeners += 1
        try:
            async with subscription.lock:
                if not subscription.is_requested:
                    subscription.is_requested = True  # also if the answer never comes: then it has to be told to stop
                    await self._send("resources/subscribe", uri)
        except BaseException as exc:
            subscription.is_requested &= not isinstance(exc, ErrorResponse)
            self.release(uri)
            raise

    def release(self, uri: str) -> None:
        """Want it no more. The server is told if nobody does, in a task of the connection; this does not wait."""
        subscription = self._subscriptions[uri]
        subscription.listeners -= 1
        if subscription.listeners == 0 and self._disconnect_reason is None:
            self._nursery.start_soon(self._end, uri, subscription)

    async def subscribe_explicitly(self, uri: str) -> None:
        """Ask the server to tell of a resource, until `unsubscribe_explicitly`."""
        await self._send("resources/subscribe", uri)
        self._explicit.add(uri)

    async def unsubscribe_explicitly(self, uri: str) -> None:
        """Ask it to tell no more, unless a block wants that it does."""
        self._explicit.discard(uri)
        if uri in self._subscriptions:
            await trio.lowlevel.checkpoint()
        else:
            await self._send("resources/unsubscribe", uri)

    async def _end(self, uri: str, subscription: _ResourceSubscription) -> None:
        async with subscription.lock:
            if subscription.listeners > 0:
                return  # somebody has come meanwhile
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
    """One block that listens."""

    _changes: SessionChanges
    _open_stream: Callable[[], Awaitable[None]]
    """Opens the stream on which the server reports changes, if the transport needs one."""
    _wanted: ChangeFilter
    _inbox: ChangeInbox
    _subscribed: list[str] = field(factory=list[str], init=False)

    async def begin(self) -> ChangeFilter:
        """Subscribe to the resources; return what the server does not refuse.

        Raises:
            RequestTimedOut: the server does not answer.
            RemoteProtocolError: what it says breaks the protocol.
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
                    _log.debug("the server does not tell of %r: %s", uri, exc)
        except BaseException:
            self.leave()
            raise
        return evolve(self._wanted, resources=self._subscribed)

    def leave(self) -> None:
        """End what this block has begun."""
        self._changes.discard(self._inbox)
        for uri in self._subscribed:
            self._changes.release(uri)
