"""The ways out over HTTP of a conversation made of messages: the response to each POST, and the stream for the rest.

A lane is filled by the engine, which never waits, and emptied by the HTTP responses that read it.

Rules of this file:

1. A message leaves by one response: of several that read a lane, by the newest. When that ends, the one before goes on.
2. What is in a lane waits for a reader, within the lane's bound. A lane that nobody will read is abandoned: what is put
   there is dropped, and whoever puts it is not held up.
3. A lane that owes no answer is complete: its readers end when they have sent what is there.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import trio
from attrs import define, field

from .._errors import ConnectionBroken, ConnectionLost
from ..peer import Entry, Envelope, Limits, Outbox
from ..wire import sse_event

__all__ = ["MESSAGE_EVENT", "HttpLane", "LaneReader", "Source"]

MESSAGE_EVENT = "message"
"""What events are called. It is the name of those without one, but there are clients that look for it."""


class Source(Protocol):
    """What an event stream is fed from."""

    @property
    def mark(self) -> str | None:
        """The id of the event after which it goes on; None where events have no ids."""
        ...

    @property
    def retry_ms(self) -> int | None:
        """After how many milliseconds the client shall come back; None where the stream has not been broken off."""
        ...

    async def next_chunk(self) -> bytes:
        """Wait for what is to be sent next, whole events; empty when there is no more."""
        ...

    def leave(self) -> None:
        """The stream has ended; synchronous."""
        ...


@define(eq=False)
class LaneReader:
    """One HTTP response that reads a lane. Made by `HttpLane.attach`."""

    lane: HttpLane
    retry_ms: int | None = field(default=None, init=False)
    """Set when it is sent away: after how many milliseconds its client shall come back."""
    taken: int = field(default=0, init=False)
    """Bytes of the lane's queue that it has taken, and not sent as far as is known."""

    @property
    def mark(self) -> str | None:
        """Where the lane stands."""
        return self.lane.mark

    async def next_chunk(self) -> bytes:
        """Wait for what to send next. What was returned before has been sent."""
        return await self.lane.next_chunk(self)

    def leave(self) -> None:
        """Read no more."""
        self.lane.detach(self)


@define(eq=False)
class HttpLane:
    """One way out, which holds its messages in memory.

    Args:
        limits: what may wait in it.
        on_failure: called once, synchronously, when more waits in it than a client may have this side hold.
        envelope: what the messages that are answered here came in.
    """

    limits: Limits
    _on_failure: Callable[[ConnectionLost], None]
    envelope: Envelope
    is_abandoned: bool = field(default=False, init=False)
    _outbox: Outbox = field(init=False)
    _owed: int = field(default=1, init=False)
    """Answers that are owed, and one more until all that they are owed to has been taken."""
    _reason: ConnectionLost | None = field(default=None, init=False)
    """Why nothing more goes out."""
    _readers: list[LaneReader] = field(factory=list[LaneReader], init=False)
    """The newest is the last."""
    _news: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def __attrs_post_init__(self) -> None:
        limits = self.limits
        self._outbox = Outbox(limits.outbox_bytes, limits.outbox_urgent_bytes, self._on_outbox_failure)

    def _on_outbox_failure(self, failure: ConnectionLost) -> None:
        if self._outbox.deaf:
            self._on_failure(failure)

    @property
    def size(self) -> int:
        """Bytes that wait in it."""
        return self._outbox.size

    @property
    def mark(self) -> str | None:
        """Its events have no ids."""
        return None

    @property
    def is_read(self) -> bool:
        """Whether anybody reads it now."""
        return bool(self._readers)

    @property
    def is_complete(self) -> bool:
        """Whether nothing more will be put into it."""
        return self._owed == 0 or self._reason is not None

    @property
    def is_silent(self) -> bool:
        """Whether nothing is in it, and nothing will be."""
        return self.is_complete and not self._outbox.waiting

    def has_room(self) -> bool:
        """Whether `room` would return at once."""
        return self.is_abandoned or self._outbox.has_room()

    async def room(self) -> None:
        """Wait until a message may be put in; raises `ConnectionLost` where none will ever leave."""
        try:
            await self._outbox.room()
        except ConnectionLost:
            if not self.is_abandoned:
                raise

    def put(self, line: bytes) -> Entry:
        """Queue a message; after `room`, without a checkpoint in between."""
        entry = self._outbox.put(line)
        if self._news:
            self._news.unpark_all()
        return entry

    def put_urgent(self, line: bytes) -> None:
        """Queue a message that nobody could wait for."""
        self._outbox.put_urgent(line)
        self._news.unpark_all()

    def withdraw(self, entry: Entry) -> bool:
        """Take back a message; False if it has left already."""
        return self._outbox.withdraw(entry)

    def expect(self) -> None:
        """One more answer is owed."""
        self._owed += 1

    def settle(self) -> None:
        """One answer is in the lane, or about to be put there in this step, or will not come."""
        self._owed -= 1
        if self._news:
            self._news.unpark_all()

    async def said(self) -> None:
        """Wait until there is something in it, or never will be."""
        while not self._outbox.waiting and not self.is_complete:
            await self._news.park()

    def only_answer(self) -> bytes | None:
        """Take the answer, if it is there and nothing else is, or will be."""
        if not self.is_complete or self._outbox.waiting != 1:
            return None
        (line,) = self._outbox.take()
        self._outbox.sent(len(line))
        return line.removesuffix(b"\n")

    def attach(self) -> LaneReader:
        """Return a reader, who gets what goes out from now on; the ones before get nothing meanwhile."""
        self._readers.append(LaneReader(self))
        return self._readers[-1]

    def detach(self, reader: LaneReader) -> None:
        """A reader has ended."""
        self._readers.remove(reader)
        self._count_as_sent(reader)
        self._news.unpark_all()
        if self._reason is not None and not self._readers:
            self._outbox.fail(self._reason)

    async def next_chunk(self, reader: LaneReader) -> bytes:
        """Wait for what a reader is to send next; empty when it is to end."""
        if reader.retry_ms is not None:
            return b""
        self._count_as_sent(reader)
        while True:
            chunk = await self._take(reader) if self._is_newest(reader) else b""
            if chunk or self._is_drained() or reader.retry_ms is not None:
                return chunk
            await self._news.park()

    def _is_newest(self, reader: LaneReader) -> bool:
        return self._readers[-1] is reader

    def _is_drained(self) -> bool:
        """Whether all that was put into it has been made available to readers, and nothing more will be."""
        return self.is_complete

    def _count_as_sent(self, reader: LaneReader) -> None:
        self._outbox.sent(reader.taken)
        reader.taken = 0

    async def _take(self, reader: LaneReader) -> bytes:
        """Return what is there for a reader to send; empty if nothing is, right now."""
        lines = self._outbox.take()
        reader.taken = sum(map(len, lines))
        return b"".join(sse_event(line.removesuffix(b"\n"), event=MESSAGE_EVENT) for line in lines)

    def abandon(self) -> None:
        """Nobody will read it any more (rule 2)."""
        self.is_abandoned = True
        self._outbox.fail(ConnectionBroken("the client has closed the response"))

    def end(self, reason: ConnectionLost) -> None:
        """Nothing more goes out, except to those who read it now: they get what is there, and end."""
        self._reason = reason
        self._news.unpark_all()
        if not self._readers:
            self._outbox.fail(reason)
