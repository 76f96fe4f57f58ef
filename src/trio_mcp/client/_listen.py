"""Listening for changes on a server: one block, whatever its revision makes of it.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
"""

from __future__ import annotations

import logging
from typing import Any, Protocol

import trio
from attrs import define, field

from .. import types
from .._errors import MissingCapability, RemoteProtocolError, RequestTimedOut, StructureError
from ..peer import OutgoingRequest
from ..wire import ACKNOWLEDGED, LISTEN, ChangeFilter, JsonObject, read_change
from ._changes import ChangeInbox, Changes
from ._connection import Connection
from ._legacy_listen import LegacyListen

__all__ = ["Listen", "ListenRequest"]


# Listening as a request of its own that stays open: `subscriptions/listen`.
#
# The request is exempt from the time limits of the connection once it is acknowledged: silence is what it is for.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions

_log = logging.getLogger("trio_mcp.client")


@define(eq=False)
class ListenRequest:
    """One such request, from its beginning to its end."""

    _connection: Connection
    _wanted: ChangeFilter
    _inbox: ChangeInbox
    _asked: OutgoingRequest = field(init=False)
    _answered: trio.Event = field(factory=trio.Event, init=False)
    """The acknowledgement has come, or the end before it."""
    _acknowledgement: ChangeFilter | Exception | None = field(default=None, init=False)

    async def begin(self) -> ChangeFilter:
        """Send the request, and return what the server acknowledges.

        Raises:
            ErrorResponse: the server refuses it.
            RequestTimedOut: it acknowledges nothing within the idle limit.
            RemoteProtocolError: what it says breaks the protocol.
            ConnectionLost: the connection is gone.
        """
        self._asked = self._connection.ask(LISTEN, {"notifications": self._wanted.to_wire()})
        self._asked.listener = self
        limit = self._connection.stopwatch.limits.idle
        deadline, late = trio.current_time() + limit, f"{LISTEN!r}: nothing was heard for {limit:g} s (TimeLimits.idle)"
        with trio.CancelScope(deadline=deadline) as sending:
            await self._asked.begin()
        if sending.cancelled_caught:
            raise RequestTimedOut(late)
        agreed = False
        try:
            with trio.CancelScope(deadline=deadline):
                await self._answered.wait()
            agreed = isinstance(self._acknowledgement, ChangeFilter)
        finally:
            if not agreed:
                self._asked.leave()
        if self._acknowledgement is None:
            raise RequestTimedOut(late)
        if isinstance(self._acknowledgement, Exception):
            raise self._acknowledgement
        return self._acknowledgement

    def leave(self) -> None:
        """Cancel the request, unless it has ended."""
        self._asked.leave()

    def heard(self, method: str, params: JsonObject) -> None:
        """Take a notification of this subscription."""
        change = read_change(method, params)
        if change is not None:
            self._connection.cache.changed(change)
            self._inbox.put(change)
        elif method == ACKNOWLEDGED and self._acknowledgement is None:
            self._acknowledgement = self._read(params)
            self._connection.cache.unheard(self._wanted)  # what was cached before may have changed since
            self._answered.set()
        else:
            _log.debug("%s in a subscription means nothing", method)

    def _read(self, params: JsonObject) -> ChangeFilter | Exception:
        try:
            read = types.structure(
                params, types.SubscriptionsAcknowledgedNotificationParams, revision=self._connection.revision
            )
        except StructureError as exc:
            return RemoteProtocolError(f"the acknowledgement of {LISTEN!r} does not fit: {'; '.join(exc.faults)}")
        return ChangeFilter.from_wire(read.notifications)

    def ended(self, outcome: JsonObject | Exception) -> None:
        """The request is over: by an error, or in peace."""
        failure = outcome if isinstance(outcome, Exception) else None
        self._connection.cache.unheard(self._wanted)
        self._inbox.end(failure or StopAsyncIteration())
        if self._acknowledgement is None:
            unacknowledged = RemoteProtocolError(f"the server ended {LISTEN!r} without having acknowledged it")
            self._acknowledgement = failure or unacknowledged
            self._answered.set()


class _ListenMethod(Protocol):
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
    _way: _ListenMethod = field(init=False)

    async def __aenter__(self) -> Changes:
        connection = self._connection
        possible = self._wanted.within(connection.server_capabilities)
        if not possible:
            raise MissingCapability("the server has not declared that it tells of any of this", _required(self._wanted))
        self._inbox = ChangeInbox(possible, connection.limits)
        way = ListenRequest if connection.is_modern else LegacyListen
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
