"""Listening for changes on a server: one block, whatever its revision makes of it.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
"""

from __future__ import annotations

from typing import Any, Protocol

import trio
from attrs import define, field

from .._errors import MissingCapability
from ..wire import ChangeFilter
from ._changes import ChangeInbox, Changes
from ._connection import Connection
from ._listen_request import ListenRequest
from ._listen_session import ListenInSession

__all__ = ["Listen"]


class _Way(Protocol):
    """How a revision listens."""

    async def begin(self) -> ChangeFilter:
        """Ask the server; return what it has agreed to. If it fails or is cancelled, nothing is left."""
        ...

    def leave(self) -> None:
        """Ask for no more; synchronous, and does not wait for the server to take note."""
        ...


@define(eq=False)
class Listen:
    """An `async with` block that hears of changes; see `Client.listen`."""

    _connection: Connection
    _wanted: ChangeFilter
    _inbox: ChangeInbox = field(init=False)
    _way: _Way = field(init=False)

    async def __aenter__(self) -> Changes:
        connection = self._connection
        possible = self._wanted.within(connection.server_capabilities)
        if not possible:
            raise MissingCapability("the server has not declared that it tells of any of this", _required(self._wanted))
        self._inbox = ChangeInbox(possible, connection.limits)
        way = ListenRequest if connection.is_modern else ListenInSession
        self._way = way(connection, possible, self._inbox)
        return Changes(await self._way.begin(), self._inbox)

    async def __aexit__(self, *_: object) -> None:
        self._inbox.end(trio.ClosedResourceError("the block that listened was left"))
        self._way.leave()


def _required(wanted: ChangeFilter) -> dict[str, Any]:
    """Return the capabilities that a server would have to declare for all of *wanted*."""
    resources = {"listChanged": wanted.resource_list, "subscribe": bool(wanted.resources)}
    features = {
        "tools": {"listChanged": wanted.tools},
        "prompts": {"listChanged": wanted.prompts},
        "resources": resources,
    }
    needed = {name: {flag: True for flag, is_wanted in flags.items() if is_wanted} for name, flags in features.items()}
    return {name: flags for name, flags in needed.items() if flags}
