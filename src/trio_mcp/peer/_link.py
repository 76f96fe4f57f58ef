"""One duplex byte stream that carries JSON-RPC lines, used in both roles.

A link owns two tasks: its reader and its outbox's writer. The reader waits for bytes and for nothing else;
everything it does with a message is synchronous.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import trio
from attrs import define, field

from .._errors import ConnectionBroken, ConnectionClosed, ConnectionLost
from ..wire import JsonObject, LineFramer, Oversized, RequestId
from ._connection import MessageConnection
from ._outbox import Outbox, Outlet

__all__ = ["Link"]

_READ_BYTES = 64 * 1024
_MAX_READ_BYTES = 1024 * 1024
_LINES_AT_ONCE = 16
"""After so many lines of one read, what they have begun may go out: else the two processes work in turns."""
_MOST_LISTENS = 4
"""Where more than so many requests are under way, it is not asked which of them listen."""
_FLUSH_SECONDS = 1.0
"""How long a link that is closed from our side may take to send what is queued."""


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
