"""Changes and handshaken connections: those are told of lists unasked, and of resources that they have subscribed to.

Rules of this file:

1. What the answer to `initialize` has declared is what a session is told of, and no more.
2. Lists are news to a session from `notifications/initialized` on: what changed before, it cannot have listed.
3. What waits to be told is kept once for each list and resource; one task sends it, while there is something.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/server/resources#subscriptions
"""

from __future__ import annotations

from attrs import define, field

from ... import types
from ..._errors import ConnectionLost, McpError
from ...peer import BUSY, Peer
from ...wire import Change, ChangeFilter, ResourceUpdated, notification_of
from ._resources import RESOURCE_NOT_FOUND
from ._subscriptions import ListeningServing, has_resource

__all__ = ["SessionListeners"]

_EVERY_LIST = ChangeFilter(tools=True, prompts=True, resource_list=True)


@define(eq=False)
class SessionListeners:
    """The sessions of one serving."""

    _serving: ListeningServing
    _sessions: dict[Peer, _SessionListener] = field(factory=dict["Peer", "_SessionListener"], init=False)

    def begin(self, peer: Peer, declared: types.ServerCapabilities) -> None:
        """A session has begun whose handshake was answered with these capabilities; it ends with its connection."""
        listener = _SessionListener(self._serving, peer, _EVERY_LIST.within(declared).changes())
        self._sessions[peer] = listener
        self._serving.changes.add(listener)

        def end(_: ConnectionLost) -> None:
            self._serving.changes.discard(listener)
            self._sessions.pop(peer, None)

        peer.on_disconnect(end)

    def subscribe(self, peer: Peer, uri: str) -> None:
        """Tell the session when this resource is updated.

        Raises:
            McpError: there is no such resource, or the session has subscribed to as many as it may.
        """
        self._sessions[peer].subscribe(uri)

    def unsubscribe(self, peer: Peer, uri: str) -> None:
        """Tell it no more; harmless where it was not told."""
        self._sessions[peer].unsubscribe(uri)


@define(eq=False)
class _SessionListener:
    """One session."""

    _serving: ListeningServing
    _peer: Peer
    _lists: frozenset[Change]
    """The lists whose changes it is told of."""
    _uris: set[str] = field(factory=set[str], init=False)
    """The resources it has subscribed to."""
    _waiting: dict[Change, None] = field(factory=dict["Change", None], init=False)
    """A set in order: what is to be told."""
    _telling: bool = field(default=False, init=False)
    """Whether a task is about to tell what waits."""

    def subscribe(self, uri: str) -> None:
        most = self._serving.limits.max_subscriptions
        if not has_resource(self._serving.resources, uri):
            raise McpError(RESOURCE_NOT_FOUND, f"no resource {uri!r}", {"uri": uri})
        if len(self._uris) >= most and uri not in self._uris:
            raise McpError(BUSY, f"this connection has subscribed to {most} resources already; it may not to more")
        self._uris.add(uri)

    def unsubscribe(self, uri: str) -> None:
        self._uris.discard(uri)
        self._waiting.pop(ResourceUpdated(uri), None)

    def changed(self, change: Change) -> None:
        """Take note of a change."""
        if self._is_told(change):
            self._waiting[change] = None
            if not self._telling:
                self._telling = True
                self._serving.pool.nursery.start_soon(self._notify, name="changes for a session")

    def notify_now(self) -> None:
        """Tell of what waits, as far as there is room."""
        while self._waiting and self._peer.has_room():
            self._notify_next()

    def _is_told(self, change: Change) -> bool:
        if isinstance(change, ResourceUpdated):
            return change.uri in self._uris
        return change in self._lists and self._peer.admission.operating

    async def _notify(self) -> None:
        """Tell of all that waits, and of what comes meanwhile."""
        try:
            while True:
                await self._peer.room()
                if not self._waiting:  # told meanwhile, or taken back by an `unsubscribe`
                    return
                self._notify_next()
        except ConnectionLost:
            self._waiting.clear()
        finally:
            self._telling = False

    def _notify_next(self) -> None:
        change = next(iter(self._waiting))
        del self._waiting[change]
        self._peer.notify_nowait(*notification_of(change))
