"""Server-sent events: a decoder of text/event-stream bodies, and the encoding of events.

Rules of this file:

1. A line ends in LF, CR or CR LF, and nowhere else; the two bytes of a CR LF may come in different chunks. A line is
   read as soon as its CR is there, because nothing may follow it for minutes.
2. One byte order mark at the start of the stream is ignored.
3. A blank line ends an event. It is dispatched if it has `data`, even empty `data`; otherwise only its `id` counts.
4. Comments and unknown fields are ignored, and so are an `id` with a NUL and a `retry` that is not all digits.
5. An event that is incomplete at the end of the stream is dropped.
6. The work is linear in the bytes fed: only new bytes are searched, and a line is joined once. The memory held
   between chunks is bounded by the limit.

The data stay bytes, because the JSON decoder reads UTF-8.

Specification: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field, frozen

__all__ = ["SseDecoder", "SseEvent", "SseOverflowError", "sse_comment", "sse_event"]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LONGEST_NAME = len(b"event: ")
_MEANINGFUL_DIGITS = 18
"""How many digits of a `retry` are read. More would be millions of years, and a million digits an attack."""


class SseOverflowError(ValueError):
    """An event, or a line of one, is over the limit of the decoder, which cannot be used any more."""


@frozen
class SseEvent:
    """One dispatched event."""

    event: str
    """The name of the event; `message` if the stream gave it none."""
    data: bytes
    """The data, lines joined by LF; empty for an event that only carries its id."""
    id: str
    """The last event id when the event was dispatched, which an earlier event may have set; empty if there was none."""


@define(eq=False)
class SseDecoder:
    """A decoder of a stream of chunks into events.

    Args:
        limit: the longest event accepted, in bytes of its data. No line, not even a comment, may be longer either,
            without the name of its field.
        last_event_id: the id after which the stream continues, if it resumes an earlier one.
    """

    limit: int
    last_event_id: str = ""
    """The id to resume from: that of the last complete event, dispatched or not; empty if none had one."""
    retry_ms: int | None = field(default=None, init=False)
    """The delay before a reconnection that the stream requested last, in milliseconds; None if it requested none."""
    _tail: bytearray = field(factory=bytearray, init=False)
    _after_cr: bool = field(default=False, init=False)
    _at_start: bool = field(default=True, init=False)
    _data: bytearray | None = field(default=None, init=False)
    _event: bytes = field(default=b"", init=False)
    _id: str = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._id = self.last_event_id

    def feed(self, chunk: bytes) -> Sequence[SseEvent]:
        """Take the next bytes; return the events they complete, in order.

        Raises:
            SseOverflowError: an event is over the limit. Those before it in the same chunk are lost, and so is the
                rest of the stream.
        """
        events: list[SseEvent] = []
        for line in self._lines(chunk):
            if line:
                self._take_field(line)
            else:
                self._end_event(events)
        return events

    def _lines(self, chunk: bytes) -> Sequence[bytes]:
        if not chunk:
            return ()
        if self._after_cr:
            chunk = chunk.removeprefix(b"\n")  # the other half of a CR LF
        self._after_cr = chunk.endswith(b"\r")
        lines = chunk.splitlines()  # of bytes: at CR, LF and CR LF only
        rest = lines.pop() if lines and not chunk.endswith((b"\r", b"\n")) else b""
        if lines and self._tail:
            self._tail += lines[0]
            lines[0], self._tail = bytes(self._tail), bytearray()
        self._tail += rest
        if max(map(len, (self._tail, *lines))) > self.limit + _LONGEST_NAME:
            raise SseOverflowError(f"a line of an event stream is longer than {self.limit} bytes")
        if lines and self._at_start:
            self._at_start = False
            lines[0] = lines[0].removeprefix(_BYTE_ORDER_MARK)
        return lines

    def _take_field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")  # of a comment, the name is empty
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._take_data(value)
            case b"event":
                self._event = value
            case b"id" if b"\0" not in value:
                self._id = value.decode(errors="replace")
            case b"retry" if value.isdigit():  # of bytes: ASCII digits only
                self.retry_ms = int(value.lstrip(b"0")[:_MEANINGFUL_DIGITS] or b"0")
            case _:
                pass

    def _take_data(self, value: bytes) -> None:
        if self._data is None:
            self._data = bytearray(value)
        else:
            self._data += b"\n" + value
        if len(self._data) > self.limit:
            raise SseOverflowError(f"the data of an event are longer than {self.limit} bytes")

    def _end_event(self, events: list[SseEvent]) -> None:
        self.last_event_id = self._id
        if self._data is not None:
            name = self._event.decode(errors="replace") or "message"
            events.append(SseEvent(name, bytes(self._data), self._id))
        self._data, self._event = None, b""


def sse_event(data: bytes, *, id: str | None = None, event: str | None = None, retry_ms: int | None = None) -> bytes:
    """Return the bytes of one event.

    Args:
        data: one line without its line break; empty for an event that only carries its id or `retry`.
        id: the id from which the client resumes.
        event: the name of the event; None for `message`.
        retry_ms: the delay before a reconnection, in milliseconds.

    Raises:
        ValueError: a line break in *data*, *id* or *event*, or a NUL in *id*: it would end the field.
    """
    fields: list[bytes] = []
    if event is not None:
        fields.append(b"event: " + event.encode())
    if id is not None:
        if "\0" in id:
            raise ValueError(f"the event id {id!r} holds a NUL")
        fields.append(b"id: " + id.encode())
    if retry_ms is not None:
        fields.append(b"retry: %d" % retry_ms)
    fields.append(b"data: " + data)
    for line in fields:
        if b"\n" in line or b"\r" in line:
            raise ValueError(f"a field of an event holds a line break: {line[:100]!r}")
    return b"\n".join(fields) + b"\n\n"


def sse_comment(text: str = "") -> bytes:
    """Return a comment, which only shows that the stream is alive; raise ValueError for a line break."""
    if "\n" in text or "\r" in text:
        raise ValueError(f"a comment holds a line break: {text[:100]!r}")
    return f": {text}".rstrip().encode() + b"\n\n"
