"""Event streams: parsed by the WHATWG algorithm for any chunking, within limits, and read back as written."""

from __future__ import annotations

import re

from attrs import define, field

from fuzz.effort import effort
from fuzz.source import Source
from trio_mcp.wire import SseDecoder, SseEvent, SseOverflowError, sse_comment, sse_event

_NAME = len(b"event: ")
_WORDS: tuple[bytes, ...] = (
    *(b"data:", b"data: ", b"data", b"id:", b"id: 7", b"id: a\0b", b"event: ping", b"retry: 10", b"retry: +5"),
    *(b": comment", b"other: x", b"\xef\xbb\xbf", b"\xff", b"\r", b"\n", b"\r\n", b"\n\n", b"\r\r", b"\r\n\r\n"),
)


def target(data: bytes) -> None:
    """Read a stream in pieces, or write events and read them again."""
    source = Source(data)
    if source.below(4):
        _read(source)
    else:
        _write(source)


def _read(source: Source) -> None:
    limit = source.choose((1_000, 4, 12, 40))
    cuts = Source(source.take(source.below(32)))
    stream = b"".join(_stream(source))
    decoder = SseDecoder(limit)
    events: list[SseEvent] = []
    expected = _ByTheBook(limit)
    expected.read(stream)
    try:
        for piece in cuts.cut(stream):
            found, calls = effort(decoder.feed, piece)
            assert calls <= 24 + 16 * (1 + piece.count(b"\r") + piece.count(b"\n")), "more work than the new bytes are"
            held = len(decoder._tail) + len(decoder._data or b"") + len(decoder._event) + len(decoder._id.encode())
            assert held <= 4 * limit + 2 * _NAME + 8 * limit, "more is held than the limit allows"
            events += found
    except SseOverflowError:
        assert expected.over
        assert events == expected.events[: len(events)]
        return
    assert not expected.over
    assert (events, decoder.last_event_id) == (expected.events, expected.stored_id)
    assert decoder.retry_ms == expected.retry


def _stream(source: Source) -> list[bytes]:
    pieces: list[bytes] = []
    while not source.used_up:
        pieces.append(source.choose(_WORDS) if source.flag() else source.binary(16))
    return pieces


@define
class _ByTheBook:
    """A whole stream, one step of the specification after the other."""

    limit: int
    events: list[SseEvent] = field(factory=list[SseEvent])
    stored_id: str = ""
    retry: int | None = None
    over: bool = False
    """Return True if a line or an event is longer than the limit."""

    def read(self, stream: bytes) -> None:
        longest = max(len(line) for line in re.split(rb"\r\n|\r|\n", stream))
        *lines, _ = re.split(rb"\r\n|\r|\n", stream.removeprefix(b"\xef\xbb\xbf"))
        self.over = longest > self.limit + _NAME
        data, name, last_id = b"", "", ""
        for line in lines:
            field, _, value = line.partition(b":")
            value = value[1:] if value.startswith(b" ") else value
            if not line:
                self.stored_id = last_id
                if data:
                    self.events.append(SseEvent(name or "message", data[:-1], last_id))
                data, name = b"", ""
            elif field == b"data":
                data += value + b"\n"
                self.over |= len(data) - 1 > self.limit
            elif field == b"event":
                name = value.decode(errors="replace")
            elif field == b"id" and b"\0" not in value:
                last_id = value.decode(errors="replace")
            elif field == b"retry" and re.fullmatch(rb"[0-9]+", value):
                self.retry = int(value.lstrip(b"0")[:18] or b"0")


def _write(source: Source) -> None:
    stream, expected, last_id = b"", list[SseEvent](), ""
    cuts = Source(source.take(source.below(32)))
    while not source.used_up:
        data, id, event = source.binary(), source.text(), source.text()
        broken = any(mark in part for mark in (b"\n", b"\r") for part in (data, id.encode(), event.encode()))
        try:
            written = sse_event(data, id=id, event=event)
        except ValueError:
            assert broken or "\0" in id
            continue
        assert not broken
        assert "\0" not in id
        stream += written
        if not ({"\n", "\r"} & set(event)):
            stream += sse_comment(event)
        last_id = id
        expected.append(SseEvent(event or "message", data, last_id))
    decoder = SseDecoder(1_000)

    assert [event for piece in cuts.cut(stream) for event in decoder.feed(piece)] == expected
    assert decoder.last_event_id == last_id
