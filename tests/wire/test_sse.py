"""Server-sent events: decoding any chunks as the specification of the WHATWG requires, and encoding."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.wire import SseDecoder, SseEvent, SseOverflowError, sse_comment, sse_event

PIECES = st.lists(
    st.sampled_from(
        [
            b"data",
            b"data:",
            b"data: ",
            b"id:",
            b"id: 7",
            b"id: a\0b",
            b"event: ping",
            b"retry: 10",
            b"retry: +5",
            b": comment",
            b"other: x",
            b"\xef\xbb\xbf",
            "data: \u2028\x85\x0b\x0c".encode(),
            b"\xff",
            b"x",
            b"\n",
            b"\r",
            b"\r\n",
            b"\n\n",
            b"\r\n\r\n",
            b"\r\r",
        ]
    ),
    max_size=30,
).map(b"".join)


def decoded(*chunks: bytes, limit: int = 10_000) -> list[SseEvent]:
    decoder = SseDecoder(limit)
    return [event for chunk in chunks for event in decoder.feed(chunk)]


def chunked(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


def decoded_by_the_specification(stream: bytes) -> tuple[list[SseEvent], str, int | None]:
    """Decode a whole stream, following the steps of the specification."""
    *lines, _ = re.split(rb"\r\n|\r|\n", stream.removeprefix(b"\xef\xbb\xbf"))
    events: list[SseEvent] = []
    data, name, last_id, stored_id, retry = b"", "", "", "", None
    for line in lines:
        field, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if not line:
            stored_id = last_id
            if data:
                events.append(SseEvent(name or "message", data[:-1], last_id))
            data, name = b"", ""
        elif field == b"data":
            data += value + b"\n"
        elif field == b"event":
            name = value.decode(errors="replace")
        elif field == b"id" and b"\0" not in value:
            last_id = value.decode(errors="replace")
        elif field == b"retry" and re.fullmatch(rb"[0-9]+", value):
            retry = int(value)
    return events, stored_id, retry


@given(PIECES, st.lists(st.integers(min_value=0), max_size=20))
def test_the_events_are_those_of_the_specification_for_any_chunks(stream: bytes, cuts: list[int]) -> None:
    for chunks in ([stream], chunked(stream, cuts), [stream[at : at + 1] for at in range(len(stream))]):
        decoder = SseDecoder(10_000)
        events = [event for chunk in chunks for event in decoder.feed(chunk)]
        last_id = decoder.last_event_id

        assert (events, last_id, decoder.retry_ms) == decoded_by_the_specification(stream)


SAFE_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=20)


@given(
    st.lists(st.tuples(SAFE_TEXT, st.none() | SAFE_TEXT, st.none() | SAFE_TEXT.filter(bool)), max_size=5),
    st.lists(st.integers(min_value=0), max_size=10),
)
def test_written_events_are_read_back(written: list[tuple[str, str | None, str | None]], cuts: list[int]) -> None:
    stream = b"".join(sse_event(data.encode(), id=id, event=event) for data, id, event in written)

    expected: list[SseEvent] = []
    last_id = ""
    for data, id, event in written:
        last_id = last_id if id is None else id
        expected.append(SseEvent(event or "message", data.encode(), last_id))
    assert decoded(*chunked(stream, cuts)) == expected


def test_an_event_is_written_as_one_line_for_each_field() -> None:
    assert sse_event(b"{}") == b"data: {}\n\n"
    assert sse_event(b"{}", id="7", event="ping", retry_ms=100) == b"event: ping\nid: 7\nretry: 100\ndata: {}\n\n"


def test_a_priming_event_has_an_id_and_empty_data_and_is_dispatched() -> None:
    priming = sse_event(b"", id="7", retry_ms=100)
    decoder = SseDecoder(100)

    assert list(decoder.feed(priming)) == [SseEvent("message", b"", "7")]
    assert decoder.retry_ms == 100


def test_an_id_alone_is_remembered_and_not_dispatched() -> None:
    decoder = SseDecoder(100)

    assert list(decoder.feed(b"id: 7\n\n")) == []
    assert decoder.last_event_id == "7"
    assert list(decoder.feed(b"data: x\n\n")) == [SseEvent("message", b"x", "7")]


def test_an_id_counts_only_when_its_event_is_complete() -> None:
    decoder = SseDecoder(100)

    decoder.feed(b"id: 1\ndata: a\n\nid: 2\ndata: b\n")

    assert decoder.last_event_id == "1"


def test_an_empty_id_resets_the_last_id() -> None:
    decoder = SseDecoder(100)
    decoder.feed(b"id: 1\n\nid\n\n")

    assert decoder.last_event_id == ""


def test_a_resumed_stream_continues_with_its_last_id() -> None:
    decoder = SseDecoder(100, last_event_id="7")

    assert list(decoder.feed(b"data: x\n\n")) == [SseEvent("message", b"x", "7")]


def test_an_incomplete_last_event_is_dropped() -> None:
    assert decoded(b"data: a\n\ndata: b\n") == [SseEvent("message", b"a", "")]


def test_an_event_is_dispatched_at_its_carriage_return_without_waiting_for_a_newline() -> None:
    decoder = SseDecoder(100)

    assert list(decoder.feed(b"data: a\r\n\r")) == [SseEvent("message", b"a", "")]
    assert list(decoder.feed(b"")) == []
    assert list(decoder.feed(b"\n")) == []
    assert list(decoder.feed(b"data: b\n\n")) == [SseEvent("message", b"b", "")]


@pytest.mark.requirement("B.8-C9")
def test_comments_are_ignored() -> None:
    assert decoded(sse_comment(), sse_comment("alive"), b":\r\n", b"data: a\n:in between\ndata: b\n\n") == [
        SseEvent("message", b"a\nb", "")
    ]


def test_a_comment_is_written_as_one_line_and_a_blank_line() -> None:
    assert sse_comment() == b":\n\n"
    assert sse_comment("alive") == b": alive\n\n"


def test_an_event_name_applies_to_one_event() -> None:
    assert decoded(b"event: ping\ndata: a\n\ndata: b\n\nevent: lost\n\ndata: c\n\n") == [
        SseEvent("ping", b"a", ""),
        SseEvent("message", b"b", ""),
        SseEvent("message", b"c", ""),
    ]


def test_only_the_first_space_after_the_colon_is_removed() -> None:
    assert decoded(b"data:  a \n\n") == [SseEvent("message", b" a ", "")]


def test_invalid_utf_8_is_replaced_in_names_and_kept_in_data() -> None:
    assert decoded(b"event: \xff\nid: \xff\ndata: \xff\n\n") == [SseEvent("\ufffd", b"\xff", "\ufffd")]


@pytest.mark.parametrize(
    ("value", "milliseconds"),
    [
        (b"0", 0),
        (b"0500", 500),
        (b"+5", None),
        (b"-5", None),
        (b"5.0", None),
        (b" 5", None),
        (b"", None),
        ("\u0665".encode(), None),
        (b"9" * 10_000, int("9" * 18)),
    ],
)
def test_a_retry_time_that_is_not_ascii_digits_is_ignored(value: bytes, milliseconds: int | None) -> None:
    decoder = SseDecoder(20_000)

    decoder.feed(b"retry: " + value + b"\n")

    assert decoder.retry_ms == milliseconds


@pytest.mark.parametrize("field", [b"data: %b\n\n", b"data:%b\n\n", b": %b\n\n", b"event: %b\n\n", b"id: %b\n\n"])
def test_a_line_longer_than_the_limit_is_refused(field: bytes) -> None:
    decoded(field % (b"x" * 100), limit=100)

    with pytest.raises(SseOverflowError, match="longer than 100 bytes"):
        decoded(field % (b"x" * 108), limit=100)
    with pytest.raises(SseOverflowError, match="longer than 100 bytes"):
        decoded(*[b"x" * 50] * 3, limit=100)  # a line without an end


def test_the_limit_applies_to_all_data_lines_of_each_event() -> None:
    assert decoded(b"data: xxxx\ndata: yyyyy\n\n" * 3, limit=10) == [SseEvent("message", b"xxxx\nyyyyy", "")] * 3

    with pytest.raises(SseOverflowError, match="the data of an event are longer than 10 bytes"):
        decoded(b"data: xxxxx\ndata: yyyyy\n\n", limit=10)
    with pytest.raises(SseOverflowError):
        decoded(b"data\n" * 12, limit=10)


def test_an_event_of_8_mb_in_small_chunks_is_read_in_linear_time() -> None:
    event = b"data: " + b"x" * 2**23 + b"\n\n"
    decoder = SseDecoder(2**24)
    begun = time.process_time()

    events = [each for at in range(0, len(event), 512) for each in decoder.feed(event[at : at + 512])]

    assert [len(each.data) for each in events] == [2**23]
    assert (
        time.process_time() - begun < 2
    )  # it takes about 0.05 s; joining the bytes at each chunk takes more than 10 s


@pytest.mark.parametrize("broken", ["\n", "\r", "a\r\nb"])
def test_a_line_break_in_a_written_field_is_refused(broken: str) -> None:
    with pytest.raises(ValueError, match="line break"):
        sse_event(broken.encode())
    with pytest.raises(ValueError, match="line break"):
        sse_event(b"", id=broken)
    with pytest.raises(ValueError, match="line break"):
        sse_event(b"", event=broken)
    with pytest.raises(ValueError, match="line break"):
        sse_comment(broken)


def test_an_id_with_a_nul_character_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        sse_event(b"", id="a\0b")
