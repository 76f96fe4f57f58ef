"""One duplex byte stream that carries JSON-RPC lines, used in both roles.

A link owns two tasks: its reader and its outbox's writer. The reader waits for bytes and for nothing else;
everything it does with a message is synchronous.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from copy import copy

import trio
from attrs import define, field

from .._errors import ConnectionBroken, ConnectionClosed, ConnectionLost
from ..wire import JsonObject, LineFramer, Oversized, RequestId
from ._connection import MessageConnection, Outlet, QueuedMessage

__all__ = ["Link", "Outbox"]

_READ_BYTES = 64 * 1024
_MAX_READ_BYTES = 1024 * 1024
_BATCH_BYTES = 64 * 1024
"""Small messages travel together up to this size; a large one is handed over in pieces of it."""
_LINES_AT_ONCE = 16
"""After so many lines of one read, what they have begun may go out: else the two processes work in turns."""
_MOST_LISTENS = 4
"""Where more than so many requests are under way, it is not asked which of them listen."""
_FLUSH_SECONDS = 1.0
"""How long a link that is closed from our side may take to send what is queued."""


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


@define(eq=False)
class Link(MessageConnection):
    """One connection that carries lines, from its first byte to its last; see also `MessageConnection`.

    Args:
        stream: carries the bytes. The link closes it.
        send_now: sends what the stream takes without waiting, and returns how many bytes that was; must not raise. None
            where that is not possible.
    """

    stream: trio.abc.Stream
    _send_now: Callable[[bytes | memoryview], int] | None = field(default=None, kw_only=True, alias="send_now")
    outbox: Outbox = field(init=False)
    _stopped: bool = field(default=False, init=False)
    _reading: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _has_cancelled: bool = field(default=False, init=False)
    """Whether there is somebody who shall notice a cancellation before the next line is taken."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        limits = self.limits
        self.outbox = Outbox(
            limits.outbox_bytes,
            limits.outbox_urgent_bytes,
            self._on_outbox_failure,
            send_now=self._send_now,
            is_quiet=self._is_quiet,
        )

    @property
    def outlet(self) -> Outlet:
        """The one lane that there is."""
        return self.outbox

    async def run(self, *, drain: bool, disconnect_reason: Callable[[], ConnectionLost] | None = None) -> None:
        """Carry messages until the other side's input ends, the link breaks, or `stop`; then close the stream.

        Cancelled, it closes the stream after a bounded flush; what waits for an answer is told `ConnectionClosed`.

        Args:
            drain: let accepted requests of the other side go on for `Limits.drain_seconds` after the input has ended.
            why_lost: names the reason for an unexpected end; asked for when it has come.
        """
        sending, flush_seconds = trio.CancelScope(shield=True), _FLUSH_SECONDS
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send, sending)
                try:
                    await self._read()
                    self.disconnect(self._reason(disconnect_reason))
                    if drain and self.outbox.failure is None:
                        flush_seconds = self.limits.drain_seconds
                        await self.drain()
                finally:
                    self.disconnect(ConnectionClosed("this side closed the connection"))
                    await self._wind_down(flush_seconds)
                    sending.cancel()
        finally:
            # Shielded, because a `Cancelled` raised here would take the place of a stream's own exception. It is
            # forceful, so it does not wait.
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(self.stream)

    async def _send(self, sending: trio.CancelScope) -> None:
        # Shielded, because the last words are said after a cancellation, too; `run` ends it after a bounded time.
        with sending:
            await self.outbox.drain(self.stream.send_all, self.limits.stall_seconds)

    def stop(self) -> None:
        """Accept no more messages: `run` drains, flushes and returns. Synchronous; harmless when repeated."""
        self._stopped = True
        self._reading.cancel(reason="stopped")

    def _reason(self, disconnect_reason: Callable[[], ConnectionLost] | None) -> ConnectionLost:
        if self._stopped:
            return ConnectionClosed("this side closed the connection")
        if self.outbox.failure is not None and self._reading.cancelled_caught:
            return self.outbox.failure
        return disconnect_reason() if disconnect_reason else ConnectionBroken("the other side ended the connection")

    async def _wind_down(self, flush_seconds: float) -> None:
        self.abandon(lambda exchange: exchange.open)
        with trio.move_on_after(flush_seconds, shield=True):
            await self.outbox.flush()
        assert self.lost is not None
        self.outbox.fail(self.lost)

    def _on_outbox_failure(self, failure: ConnectionLost) -> None:
        for exchange in list(self.ledger.answering.values()):
            exchange.disconnect()
        if self.outbox.deaf:
            self._reading.cancel(reason=str(failure))
        else:  # it closed its input, but may have answered before: what is under way is still read
            self._reading.deadline = trio.current_time() + self.limits.drain_seconds

    async def _read(self) -> None:
        framer, size = LineFramer(self.limits.max_message_bytes), _READ_BYTES
        with self._reading:
            try:
                while chunk := await self.stream.receive_some(size):
                    lines = framer.feed(bytes(chunk))
                    taken = self._take_some(lines, 0)
                    while taken < len(lines) or self._has_cancelled:
                        await self._let_others_run()
                        if self._stopped:
                            return
                        taken = self._take_some(lines, taken)
                    size = min(2 * size, _MAX_READ_BYTES) if len(chunk) == size else _READ_BYTES
                self._take_some(framer.finish(), 0)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass

    def _take_some(self, lines: Sequence[bytes | Oversized], start: int) -> int:
        """Take lines from that one on, until others shall run; return which is the next.

        These are whoever has been cancelled, who shall notice before it goes on, and after some lines all.
        """
        end = min(start + _LINES_AT_ONCE, len(lines))
        self.outbox.hold()  # the answers that are given at once travel together
        try:
            for number in range(start, end):
                self.take(lines[number], self.outbox)
                if self._has_cancelled:
                    return number + 1
        finally:  # a handler that runs here may be interrupted, and whoever was answered before shall hear of it
            self.outbox.release()
        return end

    async def _let_others_run(self) -> None:
        await trio.lowlevel.cancel_shielded_checkpoint()
        if self._has_cancelled:  # Trio may have woken this task first, but before its next turn all others have theirs
            self._has_cancelled = False
            await trio.lowlevel.cancel_shielded_checkpoint()

    def _on_cancelled(self, id: RequestId, params: JsonObject) -> None:
        self._has_cancelled = self._has_cancelled or id in self.ledger.answering
        super()._on_cancelled(id, params)

    def _is_quiet(self) -> bool:
        """Whether the other side has nothing to wait for but what is queued, and this side has asked one thing at most.

        Those that listen for changes do not count: they say something now and then.
        """
        answering, asked = self.ledger.answering, self.ledger.asked
        if len(answering) > self.listens.running:
            return False
        if len(asked) > _MOST_LISTENS:
            return False
        return len(asked) <= 1 or sum(each.listener is None for each in asked.values()) <= 1

    def _outbox_bytes(self) -> int:
        return self.outbox.size
