"""Whole messages on their way out: one FIFO per link, drained by one task.

Only the draining task waits for the stream, because a cancelled `send_all` may leave half a message on the wire.

Rules of this file:

1. Nothing overtakes: a cancellation that overtook its request would cancel nothing.
2. Whoever starts a message waits for `room` *before* it is queued; `put` itself never waits.
3. What the reader must say (refusals, quick answers, cancellations) has nobody who could wait. What of it is queued
   while there is no room is counted, and a peer that makes us hold more of that than the limit loses the link.
4. A message not yet taken by the draining task can be withdrawn, and then was never sent.
5. A peer that takes nothing for the stall limit loses the link.
6. Where the stream can take bytes without waiting, and nothing else is under way that could have something to say, a
   message is sent by whoever puts it: waking the draining task costs more than all else that is done with a small call.
   While much is under way, messages wait for each other and travel together, which takes a tenth of the system calls.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable
from copy import copy
from typing import Protocol

import trio
from attrs import define, field

from .._errors import ConnectionBroken, ConnectionLost

__all__ = ["Outbox", "Outlet", "QueuedMessage"]

_BATCH_BYTES = 64 * 1024
"""Small messages travel together up to this size; a large one is handed over in pieces of it."""


@define(eq=False)
class QueuedMessage:
    """A message in the queue; `line` is empty once it was taken or withdrawn."""

    line: bytes
    urgent: bool


@define(eq=False)
class Outbox:
    """The queue of one link.

    Args:
        bound: bytes that may wait before `room` waits.
        urgent_bound: bytes of urgent messages beyond the bound that may wait before the link breaks.
        on_failure: called once, synchronously, when the queue can no longer be drained.
        send_now: sends what the stream takes without waiting, and returns how many bytes that was; must not raise. None
            where nothing is known about the stream.
        is_quiet: whether nothing else is under way (rule 6).
    """

    bound: int
    urgent_bound: int
    on_failure: Callable[[ConnectionLost], None]
    _send_now: Callable[[bytes | memoryview], int] | None = field(default=None, kw_only=True, alias="send_now")
    _is_quiet: Callable[[], bool] = field(default=lambda: True, kw_only=True, alias="is_quiet")
    size: int = field(default=0, init=False)
    """Bytes waiting, those being written included."""
    failure: ConnectionLost | None = field(default=None, init=False)
    deaf: bool = field(default=False, init=False)
    """Whether it failed because the other side does not read, rather than because it closed its input."""
    _urgent: int = field(default=0, init=False)
    _queue: deque[QueuedMessage] = field(factory=deque[QueuedMessage], init=False)
    _withdrawn: int = field(default=0, init=False)
    """Entries in the queue that were taken back."""
    _begun: memoryview = field(default=memoryview(b""), init=False)
    """The rest of what was sent in part, without waiting: it goes before the queue."""
    _is_idle: bool = field(default=False, init=False)
    """Whether the draining task sleeps, so that somebody else may send."""
    _is_held: bool = field(default=False, init=False)
    _work: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _space: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _empty: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def has_room(self) -> bool:
        """Whether `room` would return at once."""
        return self.size < self.bound and self.failure is None

    async def room(self) -> None:
        """Wait until a message may be queued. If cancelled, nothing was queued.

        Raises:
            ConnectionLost: no message will ever leave again.
        """
        while self.size >= self.bound and self.failure is None:
            await self._space.park()
        if self.failure is not None:
            await trio.lowlevel.checkpoint_if_cancelled()
            raise copy(self.failure)  # many may be waiting, and a raised exception belongs to one task
        if self._space:
            self._space.unpark()  # the next one looks too, after this one has queued its message

    def put(self, line: bytes) -> QueuedMessage:
        """Queue a message; after `room`, without a checkpoint in between."""
        entry = QueuedMessage(line, urgent=False)
        self._append(entry)
        return entry

    def put_urgent(self, line: bytes) -> None:
        """Queue a message that may have had nobody to wait for room (rule 3)."""
        urgent = self.failure is None and self.size >= self.bound
        if urgent:
            self._urgent += len(line)
            if self._urgent > self.urgent_bound:
                self._give_up(f"does not read: {self._urgent} bytes of replies to it wait")
        self._append(QueuedMessage(line, urgent=urgent))

    @property
    def waiting(self) -> int:
        """Messages in the queue."""
        return len(self._queue) - self._withdrawn

    def _append(self, entry: QueuedMessage) -> None:
        if self.failure is None:
            self._queue.append(entry)
            self.size += len(entry.line)
            if self._is_idle and not self._is_held:
                self._begin_sending()
        else:
            entry.line = b""

    def hold(self) -> None:
        """Keep what is queued until `release`, because more may follow before anybody waits for anything."""
        self._is_held = True

    def release(self) -> None:
        """Let what was kept go."""
        self._is_held = False
        if self._queue and self._is_idle:
            self._begin_sending()

    @trio.lowlevel.enable_ki_protection  # else an interrupt could forget what a half-sent line goes on with
    def _begin_sending(self) -> None:
        """Send what is queued, here and now or by the draining task (rule 6)."""
        if self._send_now is not None and self._is_quiet():
            batch = b"".join(self.take())
            sent = self._send_now(batch)
            self.sent(sent)
            self._begun = memoryview(batch)[sent:]
            if not self._begun and not self._queue:
                if self._empty:
                    self._empty.unpark_all()
                return
        self._is_idle = False
        self._work.unpark()

    def withdraw(self, entry: QueuedMessage) -> bool:
        """Take back a message; False if it has left already."""
        if not entry.line:
            return False
        self.size -= len(entry.line)
        entry.line = b""
        self._withdrawn += 1
        if 2 * self._withdrawn > len(self._queue):  # else callers that come and go would fill memory
            self._queue = deque(entry for entry in self._queue if entry.line)
            self._withdrawn = 0
        if self._space:
            self._space.unpark()
        return True

    async def drain(self, send_all: Callable[[bytes | memoryview], Awaitable[object]], stall_seconds: float) -> None:
        """Send what is queued, for ever; returns when sending failed. Runs in one task of the link."""
        with trio.CancelScope() as stall:
            try:
                while True:
                    batch = self._begun or memoryview(b"".join(self.take()))
                    if not batch:
                        await self._wait_for_work()
                        continue
                    self._begun = batch[:0]
                    sent = 0 if self._send_now is None else self._send_now(batch)
                    for start in range(sent, len(batch), _BATCH_BYTES):
                        stall.deadline = trio.current_time() + stall_seconds
                        await send_all(batch[start : start + _BATCH_BYTES])
                        stall.deadline = math.inf
                    self.sent(len(batch))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self.fail(ConnectionBroken("the other side stopped reading"))
        if stall.cancelled_caught:
            self._give_up(f"has read nothing for {stall_seconds:g} s")

    async def _wait_for_work(self) -> None:
        self._empty.unpark_all()
        self._is_idle = True
        try:
            await self._work.park()
        finally:
            self._is_idle = False

    def take(self) -> list[bytes]:
        """Take some messages, as many as travel together, for whoever sends them; `sent` says that they have left."""
        lines: list[bytes] = []
        size = 0
        while self._queue and size < _BATCH_BYTES:
            entry = self._queue.popleft()
            if entry.line:
                lines.append(entry.line)
            else:
                self._withdrawn -= 1
            size += len(entry.line)
            if entry.urgent:
                self._urgent -= len(entry.line)
            entry.line = b""
        return lines

    def sent(self, size: int) -> None:
        """So many bytes of what was taken have left."""
        self.size -= size
        if self._space:
            self._space.unpark()

    async def flush(self) -> None:
        """Wait until everything queued so far has left, or never will."""
        while self.size and self.failure is None:
            await self._empty.park()

    def _give_up(self, why: str) -> None:
        self.deaf = True
        self.fail(ConnectionBroken(f"the other side {why}"))

    def fail(self, failure: ConnectionLost) -> None:
        """Give up: nothing is queued or sent any more. The first failure stands."""
        if self.failure is None:
            self.failure = failure
            for entry in self._queue:
                self.size -= len(entry.line)
                entry.line = b""
            self._queue.clear()
            self._space.unpark_all()
            self._empty.unpark_all()
            self.on_failure(failure)


# Where messages go out: the whole link's one queue, or one of the several response streams of a session over HTTP.


class Outlet(Protocol):
    """Takes whole messages, each a line with its newline, and keeps their order. Only `room` ever waits."""

    def has_room(self) -> bool:
        """Whether `room` would return at once."""
        ...

    async def room(self) -> None:
        """Wait until a message may be queued. If cancelled, nothing was queued.

        Raises:
            ConnectionLost: no message will ever leave again.
        """
        ...

    def put(self, line: bytes) -> QueuedMessage:
        """Queue a message; after `room`, without a checkpoint in between."""
        ...

    def put_urgent(self, line: bytes) -> None:
        """Queue a message that may have had nobody to wait for room: an answer, or a cancellation."""
        ...

    def withdraw(self, entry: QueuedMessage) -> bool:
        """Take back a message; False if it has left already."""
        ...
