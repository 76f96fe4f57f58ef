"""A process of a service: its name, its place among the others, and the requests that it forwards to them."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import trio
from attrs import define, field

from .. import HttpRequest, Server, SharedUnavailable
from ..abc import Shared, SharedService
from ..lowlevel import ForwardedApp, ForwardedExchange, LeftSession, ServerExtensionPoints, owned_nursery
from ..wire import JsonObject
from ._changes import ChangeRelay
from ._forwarding import RemoteNode
from ._keys import OwnerNames
from ._links import LinkListener
from ._membership import Membership
from ._owner import ForwardedRequests
from ._service import KeyedService
from ._sessions import SessionPlaces

__all__ = ["Node", "open_node"]

_LEAVE_SECONDS = 2.0
"""The maximum time for the last messages to the other processes, and to the backend."""


@define(eq=False)
class Node:
    """One process of a service, as a `lowlevel.HttpNodes`. `open_node` makes it."""

    name: str
    """The name of this process."""
    service: SharedService
    """The memory that the processes have in common, for the parts of the server."""
    _ids: OwnerNames
    _membership: Membership
    _places: SessionPlaces
    _nursery: trio.Nursery
    _remotes: dict[str, RemoteNode] = field(factory=dict[str, RemoteNode], init=False)
    """The other processes to which this one has forwarded requests."""

    def home(self) -> str:
        """Return the beginning of the request states of this process."""
        return self._ids.home()

    def new_id(self) -> str:
        """Return an id for a session of this process."""
        return self._ids.new_id()

    def owner_of(self, id: str) -> str | None:
        """Return the name of the other process that has the session *id*; see `lowlevel.HttpNodes`."""
        return self._places.known_owner(id) or self._ids.owner_of(id)

    async def hand_over(self, id: str, record: JsonObject, *, seconds: float) -> None:
        """Leave the session *id* to the other processes; see `lowlevel.HttpNodes`.

        Args:
            id: the id of the session.
            record: the JSON that another process needs to continue it.
            seconds: the time for which it is kept.

        Raises:
            SharedUnavailable: the backend cannot be reached.
        """
        await self._places.hand_over(id, record, seconds=seconds)

    async def find_session(self, id: str) -> str | LeftSession | None:
        """Return the process that has the session *id*, or the session that was left; see `lowlevel.HttpNodes`."""
        return await self._places.find(id)

    async def session_ended(self, id: str) -> None:
        """Forget the session *id*, which this process has continued, and which has ended."""
        await self._places.ended(id)

    def owner_of_home(self, home: str) -> str | None:
        """Return the name of the process whose request states begin with *home*; None if no other's do."""
        return self._ids.owner_of_home(home)

    def forward(self, owner: str, request: HttpRequest) -> ForwardedExchange:
        """Send *request* to the process *owner*; see `lowlevel.HttpNodes`."""
        remote = self._remotes.get(owner)
        if remote is None:
            for name in [name for name, each in self._remotes.items() if each.is_idle]:
                del self._remotes[name]
            keys, find = self._membership.keys, self._membership.find
            remote = self._remotes[owner] = RemoteNode(owner, self.name, keys, self._nursery, find)
        return remote.forward(request)


@asynccontextmanager
async def open_node(server: Server, shared: Shared, app: ForwardedApp) -> AsyncGenerator[Node]:
    """Make this process a node of its service for as long as the block lasts.

    Args:
        server: its keys become those of the service, unless it was given keys; its changes are relayed.
        shared: the backend of the service.
        app: answers the requests that other processes forward.

    Raises:
        SharedUnavailable: the backend cannot be reached.
        ValueError: the keys of the processes do not fit together.
        OSError: this process cannot listen for the others.
    """
    points, name = ServerExtensionPoints(server), secrets.token_hex(6)
    async with shared.open() as state, owned_nursery() as nursery:
        membership = Membership(state, name, points.given_keys, points.use_keys)
        await membership.open()
        requests = ForwardedRequests(app, nursery)
        listener = LinkListener(name, membership.keys, requests.serve)
        address = await nursery.start(listener.run, state.host, state.host, 0)
        places = SessionPlaces(state, name, membership.keys)
        relay = ChangeRelay(state, points, places.lost_data)
        await nursery.start(relay.receive)
        nursery.start_soon(relay.send)
        nursery.start_soon(places.run)
        with points.relaying_changes(relay.take):
            await membership.join(address)
            nursery.start_soon(membership.run)
            try:
                ids = OwnerNames(membership.keys, name)
                service = KeyedService(state, membership.keys, keeps=bool(points.given_keys))
                yield Node(name, service, ids, membership, places, nursery)
            finally:
                with trio.move_on_after(_LEAVE_SECONDS, shield=True):
                    with suppress(SharedUnavailable):
                        await membership.leave()
                    await requests.drained()
        nursery.cancel_scope.cancel()
