"""The outlets of a session over HTTP: the response to each POST, and the standing stream.

The engine fills an outlet and never waits. The HTTP responses that read it empty it.

Rules of this file:

1. A message leaves in one response: if several read an outlet, in the newest. When that one ends, the one before goes
   on.
2. Messages wait in an outlet for a reader, within its bound. An outlet without any future reader is abandoned: its
   messages are dropped, and the sender is not blocked.
3. An outlet that expects no answer any more is complete: its readers end when they have sent what is left.
4. A stored outlet is emptied into a record, by one task. Readers get the latest events from memory, and those that they
   have missed from the record. So it never waits for a reader that has left, and is never abandoned.
5. The id of an event names its outlet and its position. A client that names it gets the later events of that outlet,
   and none of another.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import trio
from attrs import define, field

from ...._errors import ConnectionBroken, ConnectionLost
from ...._shares import Sender
from ....peer import Limits, MessageOrigin, Outbox, QueuedMessage
from ....wire import JsonObject, sse_event
from ._byte_budget import ByteHolder
from ._event_store import EventRecord

__all__ = ["MESSAGE_EVENT", "EventReplay", "EventSource", "HttpOutlet", "OutletReader", "StoredOutlet", "read_event_id"]

MESSAGE_EVENT = "message"
"""The name of events. It is the default name, but some clients require it."""


class EventSource(Protocol):
    """The source of an event stream."""

    @property
    def event_id(self) -> str | None:
        """The id of the event after which it goes on; None if events have no ids."""
        ...

    @property
    def retry_ms(self) -> int | None:
        """The milliseconds after which the client shall come back; None unless the stream was broken off."""
        ...

    async def next_chunk(self) -> bytes:
        """Wait for the next chunk to send, which consists of whole events; empty at the end."""
        ...

    def leave(self) -> None:
        """End the stream; synchronous."""
        ...


@define(eq=False)
class OutletReader:
    """An HTTP response that reads an outlet. Made by `HttpOutlet.attach`."""

    outlet: HttpOutlet
    retry_ms: int | None = field(default=None, init=False)
    """Set when it is sent away: the milliseconds after which its client shall come back."""
    taken: int = field(default=0, init=False)
    """The number of bytes that it has taken from the queue and may not have sent yet."""

    @property
    def event_id(self) -> str | None:
        """The current position of the outlet."""
        return self.outlet.event_id

    async def next_chunk(self) -> bytes:
        """Wait for the next chunk to send. The previous one has been sent."""
        return await self.outlet.next_chunk(self)

    def leave(self) -> None:
        """Stop reading."""
        self.outlet.detach(self)


@define(eq=False)
class HttpOutlet(ByteHolder):
    """The outlet of one response stream of a legacy session, which holds its messages in memory.

    Args:
        limits: bounds its queue.
        on_failure: called once, synchronously, when the queue exceeds the bound for one client.
        cut: called synchronously when its messages have to make room for those of other clients: it has to drop them.
        envelope: the origin of the messages that are answered here.
        sender: the client that its messages are for.
    """

    limits: Limits
    _on_failure: Callable[[ConnectionLost], None]
    _cut: Callable[[ConnectionLost], None]
    envelope: MessageOrigin
    sender: Sender
    is_abandoned: bool = field(default=False, init=False)
    _outbox: Outbox = field(init=False)
    _owed: int = field(default=1, init=False)
    """The number of answers expected, plus one until all requests have been taken."""
    _reason: ConnectionLost | None = field(default=None, init=False)
    """The reason why nothing more is sent."""
    _readers: list[OutletReader] = field(factory=list[OutletReader], init=False)
    """The readers; the newest is the last."""
    _changed: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def __attrs_post_init__(self) -> None:
        limits = self.limits
        # Failures are noticed by `put_urgent`: a method of this object as callback would be a reference cycle.
        self._outbox = Outbox(limits.outbox_bytes, limits.outbox_urgent_bytes, lambda _: None)

    def disown(self) -> None:
        """Call nobody any more: its session has ended."""
        self._on_failure = self._cut = _ignore

    def renew(self, envelope: MessageOrigin) -> None:
        """Serve another POST, after one whose answer was all that it ever held (`sole_answer`) and had no reader."""
        self.envelope, self._owed = envelope, 1

    def find_sender(self) -> Sender:
        """Return the client that its messages are for."""
        return self.sender

    def on_cut(self) -> None:
        """Drop the messages, because their client does not read them."""
        self._cut(ConnectionBroken("the client does not read, and its messages have no room"))

    def _note_size(self) -> None:
        """Count what waits, except what its readers have taken: their responses hold it."""
        waiting = self.size
        if self._readers:
            waiting -= sum([reader.taken for reader in self._readers])
        if waiting > self.held:
            self.hold(waiting - self.held)
        else:
            self.release(self.held - waiting)

    @property
    def size(self) -> int:
        """The number of bytes that wait in it."""
        return self._outbox.size

    @property
    def event_id(self) -> str | None:
        """None: its events have no ids."""
        return None

    @property
    def is_read(self) -> bool:
        """True if it has a reader."""
        return bool(self._readers)

    @property
    def is_complete(self) -> bool:
        """True if no more messages will be put into it."""
        return self._owed == 0 or self._reason is not None

    @property
    def is_silent(self) -> bool:
        """True if it is empty and complete."""
        return self.is_complete and not self._outbox.waiting

    def has_room(self) -> bool:
        """Return True if `room` would return at once."""
        return self.is_abandoned or self._outbox.has_room()

    async def room(self) -> None:
        """Wait until a message may be put in; raises `ConnectionLost` if none will ever be sent."""
        try:
            await self._outbox.room()
        except ConnectionLost:
            if not self.is_abandoned:
                raise

    def put(self, line: bytes) -> QueuedMessage:
        """Queue a message; call it after `room`, without a checkpoint in between."""
        entry = self._outbox.put(line)
        if self._changed:
            self._changed.unpark_all()
        self._note_size()
        return entry

    def put_urgent(self, line: bytes) -> None:
        """Queue a message whose sender cannot wait."""
        had_failed = self._outbox.failure is not None
        self._outbox.put_urgent(line)
        if not had_failed and self._outbox.failure is not None:
            self._on_failure(self._outbox.failure)
        if self._changed:
            self._changed.unpark_all()
        self._note_size()

    def put_pieces(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Queue a message that consists of these pieces, as `put_urgent` does."""
        self.put_urgent(b"".join(pieces))

    def withdraw(self, entry: QueuedMessage) -> bool:
        """Take back a message; return False if it has been sent already."""
        withdrawn = self._outbox.withdraw(entry)
        self._note_size()
        return withdrawn

    def expect(self) -> None:
        """Expect one more answer."""
        self._owed += 1

    def resolve(self) -> None:
        """Expect one answer less: it is in the outlet, is put there in this step, or will not come."""
        self._owed -= 1
        if self._changed:
            self._changed.unpark_all()

    async def wait_output(self) -> None:
        """Wait until it holds a message, or is complete."""
        while not self._outbox.waiting and not self.is_complete:
            await self._changed.park()

    def sole_answer(self) -> bytes | None:
        """Take the answer, if it is there and is all that will be sent."""
        if not self.is_complete or self._outbox.waiting != 1:
            return None
        (line,) = self._outbox.take()
        self._outbox.sent(len(line))
        self._note_size()
        return line.removesuffix(b"\n")

    def attach(self) -> OutletReader:
        """Return a reader that gets all messages from now on; earlier readers get none meanwhile."""
        self._readers.append(OutletReader(self))
        return self._readers[-1]

    def detach(self, reader: OutletReader) -> None:
        """Remove a reader that has ended."""
        self._readers.remove(reader)
        self._count_as_sent(reader)
        self._changed.unpark_all()
        if self._reason is not None and not self._readers:
            self._outbox.fail(self._reason)

    async def next_chunk(self, reader: OutletReader) -> bytes:
        """Wait for the next chunk of a reader; empty when the reader is to end."""
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
        """Return True if all messages have been made available to readers, and none will follow."""
        return self.is_complete

    def _count_as_sent(self, reader: OutletReader) -> None:
        self._outbox.sent(reader.taken)
        reader.taken = 0
        self._note_size()

    async def _take(self, reader: OutletReader) -> bytes:
        """Return the messages that a reader can send now; empty if there are none."""
        lines = self._outbox.take()
        reader.taken = sum(map(len, lines))
        self._note_size()
        return b"".join(sse_event(line.removesuffix(b"\n"), event=MESSAGE_EVENT) for line in lines)

    def abandon(self) -> None:
        """Drop all messages from now on, because no client will read them (rule 2)."""
        self.is_abandoned = True
        self._outbox.fail(ConnectionBroken("the client has closed the response"))
        self._note_size()

    async def to_json(self, reason: ConnectionLost) -> JsonObject:
        """End it, and return what another process needs to `restore` it: the messages that no reader will send."""
        lines = () if self._readers else self._outbox.take()
        self._outbox.sent(sum(map(len, lines)))
        self.end(reason)
        return {"unread": [line.decode() for line in lines]}

    def restore(self, left: JsonObject) -> None:
        """Continue an outlet of another process.

        Args:
            left: returned by `to_json` there.
        """
        for line in left["unread"]:
            self.put(line.encode())

    def end(self, reason: ConnectionLost) -> None:
        """Send nothing more, except to the current readers: they send what is left, and end."""
        self._reason = reason
        self._changed.unpark_all()
        if not self._readers:
            self._outbox.fail(reason)
            self._note_size()


def _ignore(_: ConnectionLost) -> None:
    """Drop the failure of an outlet whose session has ended."""


def _event_id_of(stream: int, number: int) -> str:
    """Return the id of an event, which names its stream as well."""
    return f"{stream}-{number}"


def read_event_id(event_id: str) -> tuple[int, int] | None:
    """Return the stream and the number that an event id names; None if it is not one of ours."""
    stream, separator, number = event_id.partition("-")
    if not separator or not all(part.isascii() and part.isdigit() and len(part) < 16 for part in (stream, number)):
        return None
    return int(stream), int(number)


def _events(stream: int, first: int, lines: Iterable[bytes]) -> bytes:
    numbered = enumerate(lines, first)
    return b"".join(sse_event(line, id=_event_id_of(stream, number), event=MESSAGE_EVENT) for number, line in numbered)


@define(eq=False)
class StoredOutlet(HttpOutlet):
    """An outlet whose messages are stored, so that clients that have missed some can resume (rule 4).

    Args:
        record: stores its events.
        stream: its number in the record.
        waits: True if unread messages fill it, so that `room` waits for a reader even if the store has space.
    """

    _record: EventRecord
    stream: int
    _waits: bool
    last: int = field(default=0, init=False)
    """The number of the event that was stored last."""
    _position: int = field(default=0, init=False)
    """The number of the event that was last taken by a reader, or sent otherwise."""
    _fresh: list[bytes] = field(factory=list[bytes], init=False)
    """The latest events, as far as readers want them and have not taken them."""
    _fresh_size: int = field(default=0, init=False)
    """Their size in bytes."""
    is_storing: bool = field(default=False, init=False)
    """True from the moment at which a task stores, or is about to."""
    is_stored: bool = field(default=False, init=False)
    """True if nothing more will be stored: all of it is, or the task that stores was cancelled."""

    @property
    def size(self) -> int:
        """The number of bytes that wait in it, including stored ones that wait for a reader."""
        return super().size + self._fresh_size

    @property
    def event_id(self) -> str | None:
        """The id of the event that was taken last."""
        return _event_id_of(self.stream, self._position)

    def on_cut(self) -> None:
        """Drop the latest events, which are stored: readers get them from the record."""
        self._forget_fresh()

    async def to_json(self, reason: ConnectionLost) -> JsonObject:
        """End it, wait until all is stored, and return what another process needs to `restore` it."""
        if self.is_storing:
            self.end(reason)
            await self.wait_stored()
        return {**await super().to_json(reason), "last": self.last, "position": self._position}

    def restore(self, left: JsonObject) -> None:
        """Continue an outlet of another process, whose events were stored here; see `HttpOutlet.restore`."""
        self.last, self._position = left.get("last", 0), left.get("position", 0)
        super().restore(left)

    async def wait_stored(self) -> None:
        """Wait until nothing more will be stored."""
        while not self.is_stored:
            await self._changed.park()

    def attach_after(self, number: int) -> OutletReader:
        """Return a reader that continues after event *number*."""
        self._position = number
        return self.attach()

    def detach(self, reader: OutletReader) -> None:
        """Remove a reader that has ended; its client may come back."""
        super().detach(reader)
        if not self._readers and not self._waits:
            self._forget_fresh()

    def dismiss_readers(self, retry_ms: int) -> None:
        """End the readers although the outlet is not complete; their clients shall come back."""
        for reader in self._readers:
            reader.retry_ms = retry_ms
        self._changed.unpark_all()

    async def store(self) -> None:
        """Empty the outlet into the record, until it is complete; to be run by one task.

        If cancelled, its readers get what was stored, and end: they are tasks of others, and must be woken.
        """
        self.is_storing = True
        try:
            while lines := await self._next_lines():
                await self._store_lines(lines)
                while self._fresh_size >= self.limits.outbox_bytes and not self.is_complete:
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
        self._note_size()
        self._changed.unpark_all()

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
                if not found:  # the record no longer holds it
                    self._position = first_fresh - 1
                    continue
                lines = [*found]
            self._position = first + len(lines) - 1
            return _events(self.stream, first, lines)
        return b""

    def _forget_fresh(self) -> None:
        if self._fresh:
            self._fresh, self._fresh_size = [], 0
            self._note_size()
            self._changed.unpark_all()


@define(eq=False)
class EventReplay:
    """The stored events of an outlet that is complete and forgotten."""

    _record: EventRecord
    _stream: int
    _position: int
    retry_ms: int | None = field(default=None, init=False)
    _chunk: bytes = field(default=b"", init=False)
    """The chunk that was read and not sent yet."""

    @property
    def event_id(self) -> str | None:
        """None: its client has named the position itself."""
        return None

    async def find(self) -> bool:
        """Return True if there are events to replay; to be called first."""
        self._chunk = await self._read()
        return bool(self._chunk)

    async def next_chunk(self) -> bytes:
        """Return the next chunk to send."""
        chunk, self._chunk = self._chunk, b""
        return chunk or await self._read()

    async def _read(self) -> bytes:
        first, lines = await self._record.read(self._stream, self._position)
        if lines:
            self._position = first + len(lines) - 1
        return _events(self._stream, first, lines)

    def leave(self) -> None:
        """Do nothing."""
