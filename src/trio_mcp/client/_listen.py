"""Listening for changes on a server: the changes that wait to be read, and the request `subscriptions/listen`.

Rules of this file:

1. Each change is kept once until it is read, in the order in which the changes were first received. A slow reader
   costs neither memory nor the connection, and still learns everything that matters.
2. All changes received so far are read before the end is reported.
3. A server may name parts of a resource, and there may be many. Beyond the limits the oldest change is dropped and
   counted.
4. Once the server has acknowledged a request `subscriptions/listen`, no time limit applies to it.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count

import trio
from attrs import define, field

from .. import types
from .._errors import RemoteProtocolError, RequestTimedOut, StructureError
from .._misuse import AsyncForOnly
from ..peer import Limits, OutgoingRequest
from ..wire import (
    ACKNOWLEDGED,
    LISTEN,
    Change,
    ChangeFilter,
    CustomChange,
    JsonObject,
    ResourceUpdated,
    encode,
    read_change,
)
from ._cache import ConnectionCache

__all__ = ["ChangeInbox", "Changes", "ListenRequest"]

_log = logging.getLogger("trio_mcp.client")


@define(eq=False)
class ChangeInbox:
    """The queue of unread changes: the reader of a connection puts them in, and one task takes them out."""

    _wanted: ChangeFilter
    _limits: Limits
    skipped: int = field(default=0, init=False)
    """The number of changes that were dropped because too many waited."""
    _waiting: dict[Change, None] = field(factory=dict["Change", None], init=False)
    """An ordered set."""
    _bytes: int = field(default=0, init=False)
    """The length of the URIs in it, and of what extensions report."""
    _end: Exception | None = field(default=None, init=False)
    """The exception that is raised when all changes have been read."""
    _wakeup: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def put(self, change: Change) -> None:
        """Add a change, if it is wanted and does not wait already. Synchronous."""
        if self._end is None and change not in self._waiting and self._wanted.covers(change):
            self._waiting[change] = None
            self._bytes += _size(change)
            while len(self._waiting) > self._limits.max_updates or (
                self._bytes > self._limits.max_update_bytes and len(self._waiting) > 1
            ):
                self._pop()
                self.skipped += 1
            self._wakeup.unpark()

    @property
    def wanted(self) -> ChangeFilter:
        """The changes that were asked for."""
        return self._wanted

    def end(self, reason: Exception) -> None:
        """Note that no more changes will come. The first reason is kept; `StopAsyncIteration` is an orderly end."""
        if self._end is None:
            self._end = reason
            self._wakeup.unpark_all()

    async def take(self) -> Change:
        """Wait for the next change.

        Raises:
            Exception: the reason of the end.
            trio.BusyResourceError: another task waits.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._waiting:
            if self._end is not None:
                # One cancellation may end the connection and its reader: the reader is then cancelled.
                await trio.lowlevel.checkpoint_if_cancelled()
                raise self._end
            if self._wakeup:
                raise trio.BusyResourceError("another task is waiting for changes here")
            await self._wakeup.park()
        return self._pop()

    def _pop(self) -> Change:
        change = next(iter(self._waiting))
        del self._waiting[change]
        self._bytes -= _size(change)
        return change


def _size(change: Change) -> int:
    if isinstance(change, ResourceUpdated):
        return len(change.uri)
    return len(encode(change.params)) if isinstance(change, CustomChange) else 0


@define(eq=False)
class Changes(AsyncForOnly, AsyncIterator[Change]):
    """The changes on a server during a block of `Client.listen`: an asynchronous iterator for one task at a time.

    Yields a `ListChanged`, a `ResourceUpdated` or a `CustomChange`. A change is contained once until it is read. The
    iteration ends when the server stops in an orderly way, and raises `ConnectionLost` when the connection is lost.
    Over HTTP the stream of changes alone may be lost: the iteration then raises `ResponseLost`, and the caller has to
    request the current state.
    """

    _usage = "async for change in changes"

    honored: ChangeFilter
    """The changes that the server has agreed to report: all that were asked for, or a part. A server of a revision
    before 2026-07-28 agrees by declaring them; it may report others too."""
    _inbox: ChangeInbox

    @property
    def skipped(self) -> int:
        """The number of changes that were dropped because too many waited unread; see `Limits.max_updates`."""
        return self._inbox.skipped

    async def __anext__(self) -> Change:
        return await self._inbox.take()


@define(eq=False)
class ListenRequest:
    """One request `subscriptions/listen`, from its beginning to its end."""

    _request: OutgoingRequest
    """The request, not sent yet."""
    _wanted: ChangeFilter
    _inbox: ChangeInbox
    _cache: ConnectionCache
    _also_notified: Callable[[str, JsonObject], None]
    """Takes each notification of a change too, for the handlers of the application."""
    _revision: str
    _idle_limit: float
    """The seconds within which the server must acknowledge the request."""
    _numbers: Iterator[int] = field(factory=count, init=False)
    """Numbers that keep the notifications of extensions apart, because only the extension knows which of them are about
    the same thing."""
    _acknowledged: trio.Event = field(factory=trio.Event, init=False)
    """Set when the acknowledgement has arrived, or the request has ended without one."""
    _acknowledgement: ChangeFilter | Exception | None = field(default=None, init=False)

    async def begin(self) -> ChangeFilter:
        """Send the request, and return the changes that the server acknowledges.

        Raises:
            ErrorResponse: the server refuses the request.
            RequestTimedOut: the server does not acknowledge it within the idle limit.
            RemoteProtocolError: the acknowledgement breaks the protocol.
            ConnectionLost: the connection is gone.
        """
        self._request.listener = self
        limit = self._idle_limit
        deadline, timeout_message = (
            trio.current_time() + limit,
            f"{LISTEN!r}: the server sent nothing for {limit:g} s (TimeLimits.idle)",
        )
        with trio.CancelScope(deadline=deadline) as sending:
            await self._request.begin()
        if sending.cancelled_caught:
            raise RequestTimedOut(timeout_message)
        agreed = False
        try:
            with trio.CancelScope(deadline=deadline):
                await self._acknowledged.wait()
            agreed = isinstance(self._acknowledgement, ChangeFilter)
        finally:
            if not agreed:
                self._request.leave()
        if self._acknowledgement is None:
            raise RequestTimedOut(timeout_message)
        if isinstance(self._acknowledgement, Exception):
            raise self._acknowledgement
        return self._acknowledgement

    def leave(self) -> None:
        """Cancel the request, unless it has ended."""
        self._request.leave()

    def on_notification(self, method: str, params: JsonObject) -> None:
        """Take a notification of this subscription."""
        change = read_change(method, params)
        if change is not None:
            self._cache.changed(change)
            self._inbox.put(change)
            self._also_notified(method, params)
        elif method == ACKNOWLEDGED and self._acknowledgement is None:
            self._acknowledgement = self._read(params)
            self._cache.missed(self._wanted)  # earlier changes were not reported
            self._acknowledged.set()
        elif self._wanted.custom and method != ACKNOWLEDGED:
            member = next(iter(self._wanted.custom))
            self._inbox.put(CustomChange(member, str(next(self._numbers)), method, params))
        else:
            _log.debug("ignored %s in a subscription", method)

    def _read(self, params: JsonObject) -> ChangeFilter | Exception:
        try:
            read = types.structure(params, types.SubscriptionsAcknowledgedNotificationParams, revision=self._revision)
        except StructureError as exc:
            return RemoteProtocolError(f"the acknowledgement of {LISTEN!r} does not fit: {'; '.join(exc.faults)}")
        return ChangeFilter.from_wire(read.notifications, self._wanted.custom)

    def on_outcome(self, outcome: JsonObject | Exception) -> None:
        """Note the end of the request, with an error or in an orderly way."""
        failure = outcome if isinstance(outcome, Exception) else None
        self._cache.missed(self._wanted)
        self._inbox.end(failure or StopAsyncIteration())
        if self._acknowledgement is None:
            unacknowledged = RemoteProtocolError(f"the server ended {LISTEN!r} without having acknowledged it")
            self._acknowledgement = failure or unacknowledged
            self._acknowledged.set()
