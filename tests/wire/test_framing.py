"""The framer: lines out of any chunks of bytes, and the limit on their length."""

from __future__ import annotations

import itertools
import sys
import tracemalloc
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.wire import Line, LineFramer, Oversized, without_preamble

LIMIT = 8
LINES = st.lists(
    st.one_of(
        st.binary(max_size=2 * LIMIT).map(lambda line: line.replace(b"\n", b"")),
        st.sampled_from([b"", b"\r", b" \t", b"x\r", b" " * LIMIT, b" " * 9, b"x" * LIMIT, b"x" * 9]),
    ),
    max_size=12,
)


def fed(chunks: Sequence[bytes], limit: int = LIMIT) -> list[Line | Oversized]:
    framer = LineFramer(limit)
    lines = [line for chunk in chunks for line in framer.feed(chunk)]
    return [*lines, *framer.finish()]


def chunked(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


@pytest.mark.requirement("B.5-P1b")
@given(LINES, st.booleans(), st.lists(st.integers(min_value=0), max_size=20))
def test_the_lines_do_not_depend_on_the_chunks(lines: list[bytes], ended: bool, cuts: list[int]) -> None:
    data = b"\n".join(lines) + (b"\n" if ended else b"")
    long_or_not_blank = [line for line in data.split(b"\n") if len(line) > LIMIT or line.strip()]
    expected = [Oversized(LIMIT) if len(line) > LIMIT else line for line in long_or_not_blank]

    # Oversized appears where the framer detects it, and finish() does not report a skipped line: the order is kept.
    assert fed([data]) == expected
    assert fed(chunked(data, cuts)) == expected
    assert fed([data[at : at + 1] for at in range(len(data))]) == expected


def test_a_line_may_end_in_cr_lf_and_blank_lines_are_skipped() -> None:
    lines = fed([b'\r\n{"a":1}\r\n\n  \n{"b":2}\n'], limit=100)

    assert [line if isinstance(line, Oversized) else line.strip() for line in lines] == [b'{"a":1}', b'{"b":2}']


def test_finish_returns_an_incomplete_last_line_once() -> None:
    framer = LineFramer(LIMIT)

    assert list(framer.feed(b"abc")) == []
    assert list(framer.finish()) == [b"abc"]
    assert list(framer.finish()) == []


def test_an_oversized_line_is_reported_once_and_early_and_the_next_line_is_read() -> None:
    framer = LineFramer(3)

    assert list(framer.feed(b"abc")) == []
    assert list(framer.feed(b"d")) == [Oversized(3)]
    assert list(framer.feed(b"efghij")) == []
    assert list(framer.feed(b"k\nok\nlonger")) == [b"ok", Oversized(3)]
    assert list(framer.feed(b"\n")) == []
    assert list(framer.finish()) == []


def test_the_limit_does_not_count_the_newline() -> None:
    assert fed([b"abc\nabcd\n"], limit=3) == [b"abc", Oversized(3)]


def test_a_line_of_100_mb_costs_no_memory_beyond_the_limit() -> None:
    framer, chunk, found = LineFramer(2**20), b"x" * 2**16, 0
    tracemalloc.start()
    try:
        for _ in range(100 * 2**20 // len(chunk)):
            found += len(framer.feed(chunk))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert found == 1
    assert peak < 4 * 2**20
    assert list(framer.feed(b"\n{}\n")) == [b"{}"]


@pytest.mark.parametrize("size", [1, 100, 5000])
def test_a_line_in_many_small_chunks_costs_little_more_memory_than_its_bytes(size: int) -> None:
    framer, line = LineFramer(2**20), bytes(number % 251 + 1 for number in range(200_000)).replace(b"\n", b"x")
    for start in range(0, len(line), size):
        assert framer.feed(line[start : start + size]) == ()

    assert sys.getsizeof(framer._begun) < 1.2 * len(line)
    assert list(framer.feed(b"\n{}\n")) == [line, b"{}"]


@pytest.mark.parametrize("size", [1, 3])
def test_lines_are_copies_of_the_received_bytes(size: int) -> None:
    data = b"ab\ncd\n"

    lines = fed([data[at : at + size] for at in range(0, len(data), size)])

    assert lines == [b"ab", b"cd"]
    assert all(type(line) is bytes for line in lines)


BOM = b"\xef\xbb\xbf"


@pytest.mark.parametrize(
    "preamble",
    [
        BOM,
        b"\x1b[2J\x1b[1;1H",
        b"\x1b[?25l\x1b[0m ",
        b"\x1b]0;npm run start\x07",
        b"\x1b]0;title\x1b\\",
        b"\x1b(B\x1b=",
        BOM + b" \x1b[m",
    ],
)
@pytest.mark.parametrize("message", [b'{"a":1}', b'[{"a":1}]', b""])
def test_what_editors_and_terminals_put_before_a_message_is_removed(preamble: bytes, message: bytes) -> None:
    assert without_preamble(preamble + message) == message


@pytest.mark.parametrize(
    "line", [b'{"a":"\x1b[0m"}', b" {}", b"\x1b[32m[INFO] ready", b"\x1b[1mready", BOM + b"ready", b"\x1b]0;title{}"]
)
def test_other_lines_are_left_as_they_are(line: bytes) -> None:
    assert without_preamble(line) is line
