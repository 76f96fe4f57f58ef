"""A link: one duplex byte stream that carries JSON-RPC lines, with its reader, its writer and its queue.

A link owns two tasks, the reader and the writer. The reader waits for bytes and for nothing else, and all it does with
a message is synchronous. Only the writer waits for the stream, because a cancelled `send_all` may leave half a message
on the wire.

Rules of this file:

1. Messages are sent in the order in which they were queued. A cancellation that overtook its request would cancel
   nothing.
2. The sender of a message waits for `room` *before* it queues the message. `put` itself never waits.
3. The reader cannot wait for room for its own messages (refusals, immediate responses, cancellations). Those that are
   queued while there is no room are counted. A peer that makes this side queue more of them than the limit loses the
   link.
4. A message that the writer has not taken can be withdrawn, and then was never sent.
5. A peer that reads nothing for the stall limit loses the link.
6. If the stream can take bytes without waiting, and nothing else is in flight that may produce a message, the task that
   queues a message also sends it: waking the writer costs more than all other work of a small call. While much is in
   flight, messages wait for each other and are sent together, which takes a tenth of the system calls. The benchmark
   cells `stdio-1` and `stdio-64` measure this.
7. A reader passes over a few lines at a time. The messages that a pass produces, on any link of the thread, are sent
   together at its end, by the reader if the streams can take them (benchmark cell `hop-64`).

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from copy import copy

import trio
from attrs import define, field

from .._errors import ConnectionBroken, ConnectionClosed, ConnectionLost
from ..wire import JsonObject, Line, LineFramer, Oversized, RequestId, without_preamble
from ._connection import MessageConnection, Outlet, QueuedMessage

__all__ = ["READER_PASS", "Link", "Outbox"]

_READ_BYTES = 64 * 1024
_MAX_READ_BYTES = 1024 * 1024
_BATCH_BYTES = 64 * 1024
"""Small messages are sent together up to this size. A large message is sent in pieces of this size."""
_LINES_AT_ONCE = 24
"""The reader lets other tasks run after this many lines of one read, so that both processes work at the same time."""
_MOST_LISTENS = 4
"""With more requests in flight than this, the link is not quiet, whichever of them listen for changes."""
_SHOWN = 80
"""How many bytes the log shows of what precedes the first message."""
_FLUSH_SECONDS = 1.0
"""How long a link that this side closes may take to send the queued messages."""


class _Pass(threading.local):
    """The block in which a reader of this thread passes over some lines (rule 7). It is not nested."""

    outboxes: list[Outbox] | None = None
    """The outboxes that have got messages in the block; None outside of it."""

    def __enter__(self) -> None:
        self.outboxes = []

    def __exit__(self, *_: object) -> None:
        held, self.outboxes = self.outboxes, None
        for outbox in held or ():
            outbox.release()


READER_PASS = _Pass()


@define(eq=False)
class Outbox:
    """A FIFO queue of outgoing messages.

    Args:
        bound: how many bytes may wait before `room` waits.
        urgent_bound: how many bytes of urgent messages may wait beyond the bound before the link breaks.
        on_failure: called once, synchronously, when the queue can no longer be sent.
        send_now: sends what the stream takes without waiting, and returns the number of bytes sent. Must not raise.
            None if the stream cannot do that.
        is_quiet: returns True if nothing else is in flight (rule 6).
    """

    bound: int
    urgent_bound: int
    on_failure: Callable[[ConnectionLost], None]
    _send_now: Callable[[bytes | memoryview], int] | None = field(default=None, kw_only=True, alias="send_now")
    _is_quiet: Callable[[], bool] = field(default=lambda: True, kw_only=True, alias="is_quiet")
    size: int = field(default=0, init=False)
    """The number of bytes that wait, including those being written."""
    failure: ConnectionLost | None = field(default=None, init=False)
    is_stalled: bool = field(default=False, init=False)
    """True if the queue failed because the peer does not read, rather than because the peer closed its input."""
    _urgent: int = field(default=0, init=False)
    _queue: deque[QueuedMessage] = field(factory=deque[QueuedMessage], init=False)
    _withdrawn: int = field(default=0, init=False)
    """The number of entries in the queue that were withdrawn."""
    _begun: deque[memoryview] = field(factory=deque[memoryview], init=False)
    """The rest of what was sent in part without waiting. It is sent before the queue."""
    _is_idle: bool = field(default=False, init=False)
    """True while the writer sleeps, so that another task may send."""
    _is_held: bool = field(default=False, init=False)
    _work: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _space: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _empty: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    @property
    def is_read(self) -> bool:
        """True until it has failed: the stream of a link takes every message."""
        return self.failure is None

    def has_room(self) -> bool:
        """Return True if `room` would return at once."""
        return self.size < self.bound and self.failure is None

    async def room(self) -> None:
        """Wait until a message may be queued. If cancelled, nothing was queued.

        Raises:
            ConnectionLost: no message can be sent any more.
        """
        while self.size >= self.bound and self.failure is None:
            await self._space.park()
        if self.failure is not None:
            await trio.lowlevel.checkpoint_if_cancelled()
            raise copy(self.failure)  # a copy for each of the tasks that wait
        if self._space:
            self._space.unpark()  # the next task checks too, after this one has queued its message

    def put(self, line: bytes) -> QueuedMessage:
        """Queue a message. Call it after `room`, without a checkpoint in between."""
        entry = QueuedMessage(line, urgent=False)
        self._append(entry)
        return entry

    def put_urgent(self, line: bytes) -> None:
        """Queue a message for which its sender could not wait for room (rule 3)."""
        urgent = self.failure is None and self.size >= self.bound
        if urgent:
            self._urgent += len(line)
            if self._urgent > self.urgent_bound:
                self._fail_stalled(f"does not read: {self._urgent} bytes of replies to it wait")
        self._append(QueuedMessage(line, urgent=urgent))

    def put_pieces(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Queue a message that consists of these pieces, as `put_urgent` does, without joining them if it is the next.

        To join the pieces of a large message would take as long as to write it.
        """
        if self._is_idle and not self._queue and self._send_now is not None:
            self.size += sum(map(len, pieces))
            self._send_pieces(deque(memoryview(piece) for piece in pieces))
        else:
            self.put_urgent(b"".join(pieces))

    @property
    def waiting(self) -> int:
        """The number of messages in the queue."""
        return len(self._queue) - self._withdrawn

    def _append(self, entry: QueuedMessage) -> None:
        if self.failure is None:
            self._queue.append(entry)
            self.size += len(entry.line)
            if self._is_idle and not self._is_held:
                held = READER_PASS.outboxes
                if held is None:
                    self._begin_sending(now=False)
                else:
                    self._is_held = True
                    held.append(self)
        else:
            entry.line = b""

    def release(self) -> None:
        """Send the messages that were kept during a pass."""
        self._is_held = False
        if self._queue and self._is_idle:
            self._begin_sending(now=True)

    @trio.lowlevel.enable_ki_protection  # else an interrupt could lose the rest of a line that was sent in part
    def _begin_sending(self, *, now: bool) -> None:
        """Send the queued messages, in this task or by the writer (rule 6)."""
        if self._send_now is not None and (now or self._is_quiet()):
            batch = b"".join(self.take())
            sent = self._send_now(batch)
            self.sent(sent)
            if sent < len(batch):
                self._begun.append(memoryview(batch)[sent:])
            elif not self._queue:
                if self._empty:
                    self._empty.unpark_all()
                return
        self._wake_writer()

    @trio.lowlevel.enable_ki_protection  # as above
    def _send_pieces(self, pieces: deque[memoryview]) -> None:
        """Send what the stream takes of these pieces without waiting, and leave the rest to the writer."""
        assert self._send_now is not None
        self._begun = pieces
        while pieces:
            sent = self._send_now(pieces[0])
            self.sent(sent)
            if sent < len(pieces[0]):
                pieces[0] = pieces[0][sent:]
                self._wake_writer()
                return
            pieces.popleft()

    def _wake_writer(self) -> None:
        self._is_idle = False
        self._work.unpark()

    def withdraw(self, entry: QueuedMessage) -> bool:
        """Remove a message from the queue; return False if it was sent already."""
        if not entry.line:
            return False
        self.size -= len(entry.line)
        entry.line = b""
        self._withdrawn += 1
        if 2 * self._withdrawn > len(self._queue):  # else cancelled requests would fill the memory
            self._queue = deque(entry for entry in self._queue if entry.line)
            self._withdrawn = 0
        if self._space:
            self._space.unpark()
        return True

    async def drain(self, send_all: Callable[[bytes | memoryview], Awaitable[object]], stall_seconds: float) -> None:
        """Send the queued messages until sending fails. Run it in one task of the link."""
        with trio.CancelScope() as stall:
            try:
                while True:
                    batch = self._begun.popleft() if self._begun else memoryview(b"".join(self.take()))
                    if not batch:
                        await self._wait_for_work()
                        continue
                    size = len(batch)
                    while batch := self._unsent(batch):
                        stall.deadline = trio.current_time() + stall_seconds
                        await send_all(batch[:_BATCH_BYTES])
                        stall.deadline = math.inf
                        batch = batch[_BATCH_BYTES:]
                    self.sent(size)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self.fail(ConnectionBroken("the peer stopped reading"))
        if stall.cancelled_caught:
            self._fail_stalled(f"has read nothing for {stall_seconds:g} s")

    def _unsent(self, batch: memoryview) -> memoryview:
        """Send what the stream takes without waiting; return the rest."""
        return batch[self._send_now(batch) :] if batch and self._send_now is not None else batch

    async def _wait_for_work(self) -> None:
        self._empty.unpark_all()
        self._is_idle = True
        try:
            await self._work.park()
        finally:
            self._is_idle = False

    def take(self) -> list[bytes]:
        """Take the messages of the next batch out of the queue. The caller sends them and then calls `sent`."""
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
        """Note that *size* bytes of the messages that were taken have been sent."""
        self.size -= size
        if self._space:
            self._space.unpark()

    async def flush(self) -> None:
        """Wait until the queue is empty or has failed."""
        while self.size and self.failure is None:
            await self._empty.park()

    def _fail_stalled(self, why: str) -> None:
        self.is_stalled = True
        self.fail(ConnectionBroken(f"the peer {why}"))

    def fail(self, failure: ConnectionLost) -> None:
        """Drop all queued messages, and every later one. The first failure stands."""
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
    """A `MessageConnection` over one duplex byte stream.

    Args:
        stream: the byte stream. The link closes it.
        send_now: sends what the stream takes without waiting, and returns the number of bytes sent. Must not raise.
            None if the stream cannot do that.
    """

    stream: trio.abc.Stream
    """The byte stream."""
    _send_now: Callable[[bytes | memoryview], int] | None = field(default=None, kw_only=True, alias="send_now")
    outbox: Outbox = field(init=False)
    """The queue of messages that the stream has not taken yet."""
    _stopped: bool = field(default=False, init=False)
    _reading: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _has_message: bool = field(default=False, init=False)
    """True once the peer has sent a line that begins like a message."""
    _has_cancelled: bool = field(default=False, init=False)
    """True if a request was cancelled whose handler shall notice this before the reader takes the next line."""

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
        """The only outlet of the link."""
        return self.outbox

    async def run(self, *, drain: bool, disconnect_reason: Callable[[], ConnectionLost] | None = None) -> None:
        """Carry messages until the input ends, the link breaks, or `stop` is called; then close the stream.

        If cancelled, close the stream after a bounded flush. Requests in flight fail with `ConnectionClosed`.

        Args:
            drain: let accepted requests of the peer continue for `Limits.drain_seconds` after the end of the input.
            disconnect_reason: returns the reason of an unexpected end; called after it.
        """
        sending = trio.CancelScope(shield=True)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send, sending)
                nursery.start_soon(self._receive, sending, drain, disconnect_reason)
        finally:
            # Shielded, because a `Cancelled` raised here would replace an exception of the stream.
            # A forceful close does not wait.
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(self.stream)

    async def _receive(
        self, sending: trio.CancelScope, drain: bool, disconnect_reason: Callable[[], ConnectionLost] | None
    ) -> None:
        flush_seconds = _FLUSH_SECONDS
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

    async def _send(self, sending: trio.CancelScope) -> None:
        # Shielded, because the last messages are sent after a cancellation too. `run` ends it after a bounded time.
        with sending:
            await self.outbox.drain(self.stream.send_all, self.limits.stall_seconds)

    def stop(self) -> None:
        """Accept no more messages: `run` drains, flushes and returns. Synchronous, and may be repeated."""
        self._stopped = True
        self._reading.cancel(reason="stopped")

    def _reason(self, disconnect_reason: Callable[[], ConnectionLost] | None) -> ConnectionLost:
        if self._stopped:
            return ConnectionClosed("this side closed the connection")
        if self.outbox.failure is not None and self._reading.cancelled_caught:
            return self.outbox.failure
        return disconnect_reason() if disconnect_reason else ConnectionBroken("the peer ended the connection")

    async def _wind_down(self, flush_seconds: float) -> None:
        self.abandon(lambda exchange: exchange.open)
        with trio.move_on_after(flush_seconds, shield=True):
            await self.outbox.flush()
        assert self.lost is not None
        self.outbox.fail(self.lost)

    def _on_outbox_failure(self, failure: ConnectionLost) -> None:
        for exchange in list(self.ledger.incoming.values()):
            exchange.disconnect()
        if self.outbox.is_stalled:
            self._reading.cancel(reason=str(failure))
        else:  # the peer closed its input, but may have answered before: its output is still read
            self._reading.deadline = trio.current_time() + self.limits.drain_seconds

    async def _read(self) -> None:
        framer, size = LineFramer(self.limits.max_message_bytes), _READ_BYTES
        with self._reading:
            try:
                while chunk := await self.stream.receive_some(size):
                    lines = framer.feed(bytes(chunk))
                    if not self._has_message:
                        lines = self._from_first_message(lines)
                    taken = self._take_some(lines, 0)
                    while taken < len(lines) or self._has_cancelled:
                        await self._let_others_run()
                        if self._stopped:
                            return
                        taken = self._take_some(lines, taken)
                    size = min(2 * size, _MAX_READ_BYTES) if len(chunk) == size else _READ_BYTES
                    del chunk, lines  # a peer may be silent for hours after a large message
                lines = framer.finish()
                self._take_some(lines if self._has_message else self._from_first_message(lines), 0)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass

    def _from_first_message(self, lines: Sequence[Line | Oversized]) -> Sequence[Line | Oversized]:
        """Return the lines without what an editor or a terminal has put before the first message."""
        cleaned = list[Line | Oversized]()
        for number, line in enumerate(lines):
            if isinstance(line, Oversized):
                self._has_message = True
                return [*cleaned, *lines[number:]]
            plain = without_preamble(line)
            if len(plain) < len(line):
                preamble = line[: len(line) - len(plain)]
                self.note_bent("the first message is preceded by other bytes", repr(bytes(preamble[:_SHOWN])))
            if plain:
                cleaned.append(plain)
            if plain.lstrip().startswith(b"{"):
                self._has_message = True
                return [*cleaned, *lines[number + 1 :]]
        return cleaned

    def _take_some(self, lines: Sequence[Line | Oversized], start: int) -> int:
        """Process lines from index *start* on until other tasks shall run; return the index of the next line.

        Other tasks shall run after a cancellation, so that the handler notices it before the next line is processed,
        and after `_LINES_AT_ONCE` lines.
        """
        end = min(start + _LINES_AT_ONCE, len(lines))
        with READER_PASS:
            for number in range(start, end):
                self.take(lines[number], self.outbox)
                if self._has_cancelled:
                    return number + 1
        return end

    async def _let_others_run(self) -> None:
        await trio.lowlevel.cancel_shielded_checkpoint()
        if self._has_cancelled:  # Trio may have woken this task first, but runs all others before it wakes it again
            self._has_cancelled = False
            await trio.lowlevel.cancel_shielded_checkpoint()

    def _on_cancelled(self, id: RequestId, params: JsonObject) -> None:
        self._has_cancelled = self._has_cancelled or id in self.ledger.incoming
        super()._on_cancelled(id, params)

    def _is_quiet(self) -> bool:
        """Return True if no request of the peer and at most one of this side is in flight (rule 6).

        Requests that listen for changes do not count, because they rarely produce messages.
        """
        incoming, outgoing = self.ledger.incoming, self.ledger.outgoing
        if len(incoming) > self.listens.running:
            return False
        if len(outgoing) > _MOST_LISTENS:
            return False
        return len(outgoing) <= 1 or sum(each.listener is None for each in outgoing.values()) <= 1

    def _outbox_bytes(self) -> int:
        return self.outbox.size
