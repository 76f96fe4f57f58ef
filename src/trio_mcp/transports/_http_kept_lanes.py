"""Lanes over HTTP whose messages are kept, for clients that come back for what they have missed.

Rules of this file:

1. A kept lane is emptied into a record, by one task. Readers get from memory what was kept last, and from the record
   what they have missed. So nobody waits for a reader that has left, and it is never abandoned.
2. The id of an event names its lane, and its place there: a client that names one gets what came after it in that lane,
   and nothing of another.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import define, field

from ..wire import sse_event
from ._event_record import Record
from ._http_lanes import MESSAGE_EVENT, HttpLane, LaneReader

__all__ = ["KeptLane", "Replay", "read_mark"]


def _mark_of(stream: int, number: int) -> str:
    """Return the id of an event: it names its stream as well."""
    return f"{stream}-{number}"


def read_mark(mark: str) -> tuple[int, int] | None:
    """Return the stream and the number of an event's id; None where it is none of ours."""
    stream, separator, number = mark.partition("-")
    if not separator or not all(part.isascii() and part.isdigit() and len(part) < 16 for part in (stream, number)):
        return None
    return int(stream), int(number)


def _events(stream: int, first: int, lines: Iterable[bytes]) -> bytes:
    numbered = enumerate(lines, first)
    return b"".join(sse_event(line, id=_mark_of(stream, number), event=MESSAGE_EVENT) for number, line in numbered)


@define(eq=False)
class KeptLane(HttpLane):
    """One way out whose messages are kept, so that those who have missed some can come back (rule 1).

    Args:
        record: where they are kept.
        stream: the lane's number in it.
        waits: whether what nobody reads fills the lane, so that `room` waits for a reader, however much can be kept.
    """

    _record: Record
    stream: int
    _waits: bool
    last: int = field(default=0, init=False)
    """The number of the event that was kept last."""
    _position: int = field(default=0, init=False)
    """The number of the event that a reader took last, or has been sent otherwise."""
    _fresh: list[bytes] = field(factory=list[bytes], init=False)
    """The events kept last, as far as readers want them and have not taken them."""
    _fresh_size: int = field(default=0, init=False)
    """In bytes."""
    is_kept: bool = field(default=False, init=False)
    """Whether nothing more will be kept: it is complete and all of it is, or what runs the sessions was cancelled."""

    @property
    def size(self) -> int:
        """Bytes that wait in it, those included that are kept already and wait for a reader."""
        return super().size + self._fresh_size

    @property
    def mark(self) -> str | None:
        """The id of the event that was taken last."""
        return _mark_of(self.stream, self._position)

    def attach_after(self, number: int) -> LaneReader:
        """Return a reader who has had the events up to a number, and wants the others."""
        self._position = number
        return self.attach()

    def detach(self, reader: LaneReader) -> None:
        """A reader has ended; its client may come back."""
        super().detach(reader)
        if not self._readers and not self._waits:
            self._forget_fresh()

    def send_away(self, retry_ms: int) -> None:
        """Have the readers end though the lane is not complete; their clients shall come back."""
        for reader in self._readers:
            reader.retry_ms = retry_ms
        self._news.unpark_all()

    async def keep(self) -> None:
        """Empty the lane into the record, until it is complete; to be run by one task.

        If cancelled, its readers get what was kept, and end: they are tasks of others, which nobody else would wake.
        """
        try:
            while lines := await self._next_lines():
                await self._keep_lines(lines)
                while self._fresh_size >= self.limits.outbox_bytes and not self._is_deserted():
                    await self._news.park()
        finally:
            self.is_kept = True
            self._news.unpark_all()

    async def _keep_lines(self, lines: Sequence[bytes]) -> None:
        events, size = [line.removesuffix(b"\n") for line in lines], sum(map(len, lines))
        await self._record.append(self.stream, self.last + 1, events)
        self.last += len(events)
        self._outbox.sent(size)
        if self._readers or self._waits:
            self._fresh += events
            self._fresh_size += size
        self._news.unpark_all()

    def _is_deserted(self) -> bool:
        return self._reason is not None and not self._readers

    async def _next_lines(self) -> Sequence[bytes]:
        while not (lines := self._outbox.take()):
            if self.is_complete:
                return ()
            await self._news.park()
        return lines

    def _is_drained(self) -> bool:
        return self.is_kept

    async def _take(self, reader: LaneReader) -> bytes:
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
                if not found:  # the record could not keep it for so long
                    self._position = first_fresh - 1
                    continue
                lines = [*found]
            self._position = first + len(lines) - 1
            return _events(self.stream, first, lines)
        return b""

    def _forget_fresh(self) -> None:
        if self._fresh:
            self._fresh, self._fresh_size = [], 0
            self._news.unpark_all()


@define(eq=False)
class Replay:
    """The kept events of a lane that is complete, and gone."""

    _record: Record
    _stream: int
    _position: int
    retry_ms: int | None = field(default=None, init=False)
    _chunk: bytes = field(default=b"", init=False)
    """What was read, and not sent yet."""

    @property
    def mark(self) -> str | None:
        """Its client knows where it goes on: it has said so."""
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
