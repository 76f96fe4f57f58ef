"""Changes of a server that were heard of and not read yet.

Rules of this file:

1. Each change is kept once until it is read, in the order they were first heard of: whoever reads slowly costs neither
   memory nor the connection, and still learns all that is of use.
2. All that was heard is read before the end is.
3. A server may name parts of a resource, of which there are many; beyond the limits the oldest goes, and is counted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import trio
from attrs import define, field

from ..peer import Limits
from ..wire import Change, ChangeFilter, ResourceUpdated

__all__ = ["ChangeInbox", "Changes"]


@define(eq=False)
class ChangeInbox:
    """Where the reader of a connection puts changes, and one task takes them out."""

    _wanted: ChangeFilter
    _limits: Limits
    skipped: int = field(default=0, init=False)
    """Changes that were dropped because too many waited."""
    _waiting: dict[Change, None] = field(factory=dict["Change", None], init=False)
    """A set in order."""
    _bytes: int = field(default=0, init=False)
    """Of the URIs in it."""
    _end: Exception | None = field(default=None, init=False)
    """What is raised when all has been read."""
    _news: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def put(self, change: Change) -> None:
        """Take a change, if it was asked for and does not wait already; synchronous."""
        if self._end is None and change not in self._waiting and self._wanted.covers(change):
            self._waiting[change] = None
            self._bytes += _size(change)
            while len(self._waiting) > self._limits.max_updates or (
                self._bytes > self._limits.max_update_bytes and len(self._waiting) > 1
            ):
                self._pop()
                self.skipped += 1
            self._news.unpark()

    @property
    def wanted(self) -> ChangeFilter:
        """What was asked for."""
        return self._wanted

    def end(self, reason: Exception) -> None:
        """Nothing more will come, and why; the first reason stands. `StopAsyncIteration` is an end in peace."""
        if self._end is None:
            self._end = reason
            self._news.unpark_all()

    async def take(self) -> Change:
        """Wait for the next change.

        Raises:
            Exception: the reason of the end.
            trio.BusyResourceError: another task waits.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._waiting:
            if self._end is not None:
                # One cancellation may take down the connection and its reader: that is cancelled, not surprised.
                await trio.lowlevel.checkpoint_if_cancelled()
                raise self._end
            if self._news:
                raise trio.BusyResourceError("another task is waiting for changes here")
            await self._news.park()
        return self._pop()

    def _pop(self) -> Change:
        change = next(iter(self._waiting))
        del self._waiting[change]
        self._bytes -= _size(change)
        return change


def _size(change: Change) -> int:
    return len(change.uri) if isinstance(change, ResourceUpdated) else 0


@define(eq=False)
class Changes(AsyncIterator[Change]):
    """What changes on a server, as long as the block of `Client.listen` lasts: iterate over it, in one task at a time.

    Yields a `ListChanged` or a `ResourceUpdated`. The same change is not there twice before it is read. The iteration
    ends when the server stops in an orderly way; when the connection is lost, it raises `ConnectionLost`. Over HTTP a
    stream of changes may be lost alone: then it raises `ResponseLost`, and what has changed since is to be asked for.
    """

    honored: ChangeFilter
    """What the server has agreed to tell of: all that was asked for, or a part of it."""
    _inbox: ChangeInbox

    @property
    def skipped(self) -> int:
        """Changes that were dropped because too many different ones waited unread; see `Limits.max_updates`."""
        return self._inbox.skipped

    async def __anext__(self) -> Change:
        return await self._inbox.take()
