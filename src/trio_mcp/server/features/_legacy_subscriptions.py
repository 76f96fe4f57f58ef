"""Notifications of changes to legacy sessions: of lists always, of resources after `resources/subscribe`.

Rules of this file:

1. A session is notified only of the lists that the response to `initialize` has declared.
2. A session is notified of lists from `notifications/initialized` on, because it cannot have listed them before.
3. A pending change is stored once for each list and resource; one task sends the pending changes.
4. A session whose client makes another handshake keeps its subscriptions: they may belong to a client behind a gateway.
5. A session that continues one of another process keeps its subscriptions. It is notified of a change of all that it
   listens for: this process may have other tools, and what has changed in between is unknown.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/server/resources#subscriptions
"""

from __future__ import annotations

import logging

import trio
from attrs import define, field, frozen

from ... import types
from ..._errors import ConnectionLost, McpError
from ...peer import BUSY, Access, Peer, ServerSession
from ...wire import EVERY_LIST, Change, ChangeFilter, JsonObject, ListChanged, ResourceUpdated, notification_of
from .._forwarder import Forwarder
from ._resources import RESOURCE_NOT_FOUND
from ._subscriptions import ListeningServing, has_resource

__all__ = ["SessionListeners", "SessionSubscription"]

_log = logging.getLogger("trio_mcp.server")


@define(eq=False)
class SessionListeners:
    """The legacy sessions of one serving that are notified of changes."""

    _serving: ListeningServing
    _sessions: dict[Peer, _SessionListener] = field(factory=dict["Peer", "_SessionListener"], init=False)

    def begin(self, peer: Peer, declared: types.ServerCapabilities, access: Access | None) -> None:
        """Begin to notify a session whose handshake was answered with these capabilities, until its connection ends."""
        lists, known = EVERY_LIST.within(declared).changes(), self._sessions.get(peer)
        if known is not None:
            known.lists, known.access = lists, access
            return
        listener = _SessionListener(self._serving, peer, lists, access)
        self._sessions[peer] = listener
        self._serving.changes.add(listener)

        def end(_: ConnectionLost) -> None:
            self._serving.changes.discard(listener)
            listener.end()
            self._sessions.pop(peer, None)

        peer.on_disconnect(end)

    def to_json(self, peer: Peer) -> JsonObject | None:
        """Return the handshake and the subscriptions of a session, for `restore` in another process.

        Returns None before its handshake, and when it has ended.
        """
        assert isinstance(peer.admission, ServerSession)
        handshake, listener = peer.admission.to_json(), self._sessions.get(peer)
        if handshake is None or listener is None:
            return None
        return {"handshake": handshake, **listener.to_json()}

    def restore(
        self, peer: Peer, record: JsonObject, declared: types.ServerCapabilities, access: Access | None
    ) -> None:
        """Continue a session of another process (rule 5); see `begin`.

        Args:
            record: returned by `to_json` there.

        Raises:
            KeyError, TypeError, ValueError: the record is from another version of this package.
        """
        assert isinstance(peer.admission, ServerSession)
        peer.admission.restore(record["handshake"])
        self.begin(peer, declared, access)
        self._sessions[peer].restore(record)

    @property
    def forwarder(self) -> Forwarder | None:
        """Answers requests on behalf of others; None if the server has none."""
        return self._serving.forwarder

    async def subscribe(self, peer: Peer, uri: str, access: Access | None) -> None:
        """Subscribe the session to a resource; waits only if a forwarder is asked for it.

        Raises:
            McpError: the caller sees no such resource, or the session has too many subscriptions.
        """
        await self._sessions[peer].subscribe(uri, access)

    def unsubscribe(self, peer: Peer, uri: str) -> None:
        """Unsubscribe the session from a resource; do nothing if it is not subscribed."""
        self._sessions[peer].unsubscribe(uri)


@frozen(eq=False)
class SessionSubscription:
    """Answers `resources/subscribe`."""

    _listeners: SessionListeners
    _peer: Peer
    _uri: str
    _access: Access | None
    may_ask: bool = field(default=False, init=False)

    @property
    def waits(self) -> bool:
        """True if a forwarder may be asked for the resource."""
        return self._listeners.forwarder is not None

    async def call(self, context: object, params: object) -> types.EmptyResult:
        """Subscribe the session, or raise the refusal."""
        del context, params
        await self._listeners.subscribe(self._peer, self._uri, self._access)
        return types.EmptyResult()


def _unknown(uri: str) -> McpError:
    return McpError(RESOURCE_NOT_FOUND, f"no resource {uri!r}", {"uri": uri})


@define(eq=False)
class _SessionListener:
    """The pending changes of one session."""

    _serving: ListeningServing
    _peer: Peer
    lists: frozenset[Change]
    """The lists of whose changes it is notified."""
    access: Access | None
    """The principal of the session; None without authentication."""
    _uris: dict[str, trio.CancelScope | None] = field(factory=dict[str, "trio.CancelScope | None"], init=False)
    """The URIs of its subscriptions, each with the scope of the task that listens through the forwarder."""
    _waiting: dict[Change, None] = field(factory=dict["Change", None], init=False)
    """The pending changes: an ordered set."""
    _sending: bool = field(default=False, init=False)
    """True while a task sends the pending changes."""

    async def subscribe(self, uri: str, access: Access | None) -> None:
        most, is_own = self._serving.limits.max_subscriptions, has_resource(self._serving.resources, uri, access)
        if not is_own and self._serving.forwarder is None:
            raise _unknown(uri)
        if uri in self._uris:
            return
        if len(self._uris) >= most:
            raise McpError(BUSY, f"this connection has {most} subscriptions already (Limits.max_subscriptions)")
        if is_own:
            self._uris[uri] = None
            return
        scope = self._uris[uri] = trio.CancelScope()
        refusal: Exception | None = await self._serving.pool.nursery.start(self._listen, uri, access, scope)
        if refusal is not None:
            raise refusal

    async def _listen(
        self,
        uri: str,
        access: Access | None,
        scope: trio.CancelScope,
        *,
        task_status: trio.TaskStatus[Exception | None],
    ) -> None:
        """Listen through the forwarder until the session unsubscribes; report the refusal, or None if it listens."""
        forwarder = self._serving.forwarder
        refusal: Exception | None = _unknown(uri)
        assert forwarder is not None
        try:
            with scope:
                wanted = ChangeFilter(resources=[uri])
                async with forwarder.listening(wanted, self._peer, access, self.changed) as agreed:
                    if uri in agreed.resources:
                        refusal = None
                        task_status.started(None)
                        await trio.sleep_forever()
        except Exception as failure:  # noqa: BLE001 # answered, or logged
            _log.debug("listening for changes of %r failed: %s", uri, failure)
            refusal = refusal and failure
        finally:
            if self._uris.get(uri) is scope:
                del self._uris[uri]
        if refusal is not None:
            task_status.started(refusal)

    def to_json(self) -> JsonObject:
        kinds = [each.kind for each in self.lists if isinstance(each, ListChanged)]
        return {"lists": kinds, "resources": [*self._uris]}

    def restore(self, record: JsonObject) -> None:
        """Take the subscriptions of `to_json`, and report a change of everything (rule 5)."""
        self.lists = frozenset(map(ListChanged, record["lists"]))
        for uri in record["resources"]:
            if has_resource(self._serving.resources, uri, self.access):
                self._uris[uri] = None
            elif self._serving.forwarder is not None:
                scope = self._uris[uri] = trio.CancelScope()
                self._serving.pool.nursery.start_soon(self._listen_again, uri, scope)
        self.all_changed()

    async def _listen_again(self, uri: str, scope: trio.CancelScope) -> None:
        """Listen through the forwarder as the process before did, and report what may have changed until then."""
        refusal: Exception | None = await self._serving.pool.nursery.start(self._listen, uri, self.access, scope)
        if refusal is None:
            self.changed(ResourceUpdated(uri))

    def unsubscribe(self, uri: str) -> None:
        scope = self._uris.pop(uri, None)
        if scope is not None:
            scope.cancel()
        self._waiting.pop(ResourceUpdated(uri), None)

    def end(self) -> None:
        """End all subscriptions, because the session is over."""
        for uri in list(self._uris):
            self.unsubscribe(uri)

    def changed(self, change: Change) -> None:
        """Store a change to be sent soon."""
        if self._wants(change):
            self._waiting[change] = None
            if not self._sending:
                self._sending = True
                self._serving.pool.nursery.start_soon(self._send_all, name="changes for a session")

    def all_changed(self) -> None:
        """Store every change that the session is notified of."""
        for change in (*self.lists, *map(ResourceUpdated, self._uris)):
            self.changed(change)

    def notify_now(self) -> None:
        """Send the pending changes, as far as there is room in the queue."""
        while self._waiting and self._peer.has_room():
            self._send_next()

    def _wants(self, change: Change) -> bool:
        if isinstance(change, ResourceUpdated):
            return change.uri in self._uris
        return change in self.lists and self._peer.admission.operating

    async def _send_all(self) -> None:
        """Send all pending changes, including those that are added meanwhile."""
        try:
            while True:
                await self._peer.room()
                if not self._waiting:  # sent meanwhile, or removed by an `unsubscribe`
                    return
                self._send_next()
        except ConnectionLost:
            self._waiting.clear()
        finally:
            self._sending = False

    def _send_next(self) -> None:
        change = next(iter(self._waiting))
        del self._waiting[change]
        self._peer.notify_nowait(*notification_of(change))
