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

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import trio
from attrs import define, field

from ...._errors import ConnectionBroken, ConnectionLost
from ....peer import Limits, MessageOrigin, Outbox, QueuedMessage
from ....wire import sse_event
from ._event_store import EventRecord

__all__ = ["MESSAGE_EVENT", "EventReplay", "EventSource", "HttpOutlet", "OutletReader", "StoredOutlet", "read_event_id"]

MESSAGE_EVENT = "message"
"""What events are called. It is the name of those without one, but there are clients that look for it."""


class EventSource(Protocol):
    """What an event stream is fed from."""

    @property
    def event_id(self) -> str | None:
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
class OutletReader:
    """One HTTP response that reads a lane. Made by `HttpOutlet.attach`."""

    outlet: HttpOutlet
    retry_ms: int | None = field(default=None, init=False)
    """Set when it is sent away: after how many milliseconds its client shall come back."""
    taken: int = field(default=0, init=False)
    """Bytes of the lane's queue that it has taken, and not sent as far as is known."""

    @property
    def event_id(self) -> str | None:
        """Where the lane stands."""
        return self.outlet.event_id

    async def next_chunk(self) -> bytes:
        """Wait for what to send next. What was returned before has been sent."""
        return await self.outlet.next_chunk(self)

    def leave(self) -> None:
        """Read no more."""
        self.outlet.detach(self)


@define(eq=False)
class HttpOutlet:
    """One way out, which holds its messages in memory.

    Args:
        limits: what may wait in it.
        on_failure: called once, synchronously, when more waits in it than a client may have this side hold.
        envelope: what the messages that are answered here came in.
    """

    limits: Limits
    _on_failure: Callable[[ConnectionLost], None]
    envelope: MessageOrigin
    is_abandoned: bool = field(default=False, init=False)
    _outbox: Outbox = field(init=False)
    _owed: int = field(default=1, init=False)
    """Answers that are owed, and one more until all that they are owed to has been taken."""
    _reason: ConnectionLost | None = field(default=None, init=False)
    """Why nothing more goes out."""
    _readers: list[OutletReader] = field(factory=list[OutletReader], init=False)
    """The newest is the last."""
    _changed: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def __attrs_post_init__(self) -> None:
        limits = self.limits
        self._outbox = Outbox(limits.outbox_bytes, limits.outbox_urgent_bytes, self._on_outbox_failure)

    def _on_outbox_failure(self, failure: ConnectionLost) -> None:
        if self._outbox.is_stalled:
            self._on_failure(failure)

    @property
    def size(self) -> int:
        """Bytes that wait in it."""
        return self._outbox.size

    @property
    def event_id(self) -> str | None:
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

    def put(self, line: bytes) -> QueuedMessage:
        """Queue a message; after `room`, without a checkpoint in between."""
        entry = self._outbox.put(line)
        if self._changed:
            self._changed.unpark_all()
        return entry

    def put_urgent(self, line: bytes) -> None:
        """Queue a message that nobody could wait for."""
        self._outbox.put_urgent(line)
        self._changed.unpark_all()

    def withdraw(self, entry: QueuedMessage) -> bool:
        """Take back a message; False if it has left already."""
        return self._outbox.withdraw(entry)

    def expect(self) -> None:
        """One more answer is owed."""
        self._owed += 1

    def resolve(self) -> None:
        """One answer is in the lane, or about to be put there in this step, or will not come."""
        self._owed -= 1
        if self._changed:
            self._changed.unpark_all()

    async def wait_output(self) -> None:
        """Wait until there is something in it, or never will be."""
        while not self._outbox.waiting and not self.is_complete:
            await self._changed.park()

    def sole_answer(self) -> bytes | None:
        """Take the answer, if it is there and nothing else is, or will be."""
        if not self.is_complete or self._outbox.waiting != 1:
            return None
        (line,) = self._outbox.take()
        self._outbox.sent(len(line))
        return line.removesuffix(b"\n")

    def attach(self) -> OutletReader:
        """Return a reader, who gets what goes out from now on; the ones before get nothing meanwhile."""
        self._readers.append(OutletReader(self))
        return self._readers[-1]

    def detach(self, reader: OutletReader) -> None:
        """A reader has ended."""
        self._readers.remove(reader)
        self._count_as_sent(reader)
        self._changed.unpark_all()
        if self._reason is not None and not self._readers:
            self._outbox.fail(self._reason)

    async def next_chunk(self, reader: OutletReader) -> bytes:
        """Wait for what a reader is to send next; empty when it is to end."""
        if reader.retry_ms is not None:
            return b""
        self._count_as_sent(reader)
        while True:
            chunk = await self._take(reader) if self._is_newest(reader) else b""
            if chunk or self._is_drained() or reader.retry_ms is not None:
                return chunk
            await self._changed.park()

    def _is_newest(self, reader: OutletReader) -> bool:
        return self._readers[-1] is reader

    def _is_drained(self) -> bool:
        """Whether all that was put into it has been made available to readers, and nothing more will be."""
        return self.is_complete

    def _count_as_sent(self, reader: OutletReader) -> None:
        self._outbox.sent(reader.taken)
        reader.taken = 0

    async def _take(self, reader: OutletReader) -> bytes:
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
        self._changed.unpark_all()
        if not self._readers:
            self._outbox.fail(reason)


# Lanes over HTTP whose messages are stored, for clients that come back for what they have missed.
#
# Rules of this file:
#
# 1. A stored lane is emptied into a record, by one task. Readers get from memory what was stored last, and from the record
#    what they have missed. So nobody waits for a reader that has left, and it is never abandoned.
# 2. The id of an event names its lane, and its place there: a client that names one gets what came after it in that
# lane,
#    and nothing of another.
#
# Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery


def _event_id_of(stream: int, number: int) -> str:
    """Return the id of an event: it names its stream as well."""
    return f"{stream}-{number}"


def read_event_id(event_id: str) -> tuple[int, int] | None:
    """Return the stream and the number of an event's id; None where it is none of ours."""
    stream, separator, number = event_id.partition("-")
    if not separator or not all(part.isascii() and part.isdigit() and len(part) < 16 for part in (stream, number)):
        return None
    return int(stream), int(number)


def _events(stream: int, first: int, lines: Iterable[bytes]) -> bytes:
    numbered = enumerate(lines, first)
    return b"".join(sse_event(line, id=_event_id_of(stream, number), event=MESSAGE_EVENT) for number, line in numbered)


@define(eq=False)
class StoredOutlet(HttpOutlet):
    """One way out whose messages are stored, so that those who have missed some can come back (rule 1).

    Args:
        record: where they are stored.
        stream: the lane's number in it.
        waits: whether what nobody reads fills the lane, so that `room` waits for a reader, however much can be stored.
    """

    _record: EventRecord
    stream: int
    _waits: bool
    last: int = field(default=0, init=False)
    """The number of the event that was stored last."""
    _position: int = field(default=0, init=False)
    """The number of the event that a reader took last, or has been sent otherwise."""
    _fresh: list[bytes] = field(factory=list[bytes], init=False)
    """The events stored last, as far as readers want them and have not taken them."""
    _fresh_size: int = field(default=0, init=False)
    """In bytes."""
    is_stored: bool = field(default=False, init=False)
    """Whether nothing more will be stored: it is complete and all of it is, or what runs the sessions was cancelled."""

    @property
    def size(self) -> int:
        """Bytes that wait in it, those included that are stored already and wait for a reader."""
        return super().size + self._fresh_size

    @property
    def event_id(self) -> str | None:
        """The id of the event that was taken last."""
        return _event_id_of(self.stream, self._position)

    def attach_after(self, number: int) -> OutletReader:
        """Return a reader who has had the events up to a number, and wants the others."""
        self._position = number
        return self.attach()

    def detach(self, reader: OutletReader) -> None:
        """A reader has ended; its client may come back."""
        super().detach(reader)
        if not self._readers and not self._waits:
            self._forget_fresh()

    def dismiss_readers(self, retry_ms: int) -> None:
        """Have the readers end though the lane is not complete; their clients shall come back."""
        for reader in self._readers:
            reader.retry_ms = retry_ms
        self._changed.unpark_all()

    async def store(self) -> None:
        """Empty the lane into the record, until it is complete; to be run by one task.

        If cancelled, its readers get what was stored, and end: they are tasks of others, which nobody else would wake.
        """
        try:
            while lines := await self._next_lines():
                await self._store_lines(lines)
                while self._fresh_size >= self.limits.outbox_bytes and not self._is_deserted():
                    await self._changed.park()
        finally:
            self.is_stored = True
            self._changed.unpark_all()

    async def _store_lines(self, lines: Sequence[bytes]) -> None:
        events, size = [line.removesuffix(b"\n") for line in lines], sum(map(len, lines))
        await self._record.append(self.stream, self.last + 1, events)
        self.last += len(events)
        self._outbox.sent(size)
        if self._readers or self._waits:
            self._fresh += events
            self._fresh_size += size
        self._changed.unpark_all()

    def _is_deserted(self) -> bool:
        return self._reason is not None and not self._readers

    async def _next_lines(self) -> Sequence[bytes]:
        while not (lines := self._outbox.take()):
            if self.is_complete:
                return ()
            await self._changed.park()
        return lines

    def _is_drained(self) -> bool:
        return self.is_stored

    async def _take(self, reader: OutletReader) -> bytes:
        while self._is_newest(reader):
            position, first_fresh = self._position, self.last - len(self._fresh) + 1
            if position + 1 >= first_fresh:
                first, lines = position + 1, self._fresh[position + 1 - first_fresh :]
                self._forget_fresh()
                if not lines:
                    break
            else:
                first, found = await self._record.read(self.stream, position)
                if self._position != position or not self._is_newest(reader):
                    continue
                if not found:  # the record could not store it for so long
                    self._position = first_fresh - 1
                    continue
                lines = [*found]
            self._position = first + len(lines) - 1
            return _events(self.stream, first, lines)
        return b""

    def _forget_fresh(self) -> None:
        if self._fresh:
            self._fresh, self._fresh_size = [], 0
            self._changed.unpark_all()


@define(eq=False)
class EventReplay:
    """The stored events of a lane that is complete, and gone."""

    _record: EventRecord
    _stream: int
    _position: int
    retry_ms: int | None = field(default=None, init=False)
    _chunk: bytes = field(default=b"", init=False)
    """What was read, and not sent yet."""

    @property
    def event_id(self) -> str | None:
        """Its client knows where it goes on: it has wait_output so."""
        return None

    async def find(self) -> bool:
        """Return whether there is anything to replay; to be called first."""
        self._chunk = await self._read()
        return bool(self._chunk)

    async def next_chunk(self) -> bytes:
        """Return what to send next."""
        chunk, self._chunk = self._chunk, b""
        return chunk or await self._read()

    async def _read(self) -> bytes:
        first, lines = await self._record.read(self._stream, self._position)
        if lines:
            self._position = first + len(lines) - 1
        return _events(self._stream, first, lines)

    def leave(self) -> None:
        """Nothing depends on it."""
