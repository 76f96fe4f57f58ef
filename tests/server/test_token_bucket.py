"""Token buckets: tokens that arrive at a steady rate, up to a burst."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.server._progress import TokenBucket


def test_a_bucket_starts_with_the_tokens_of_one_second_and_refills_at_its_rate() -> None:
    bucket = TokenBucket(2)

    assert [bucket.take(100) for _ in range(3)] == [True, True, False]
    assert [bucket.take(100.4), bucket.take(100.5), bucket.take(100.5)] == [False, True, False]
    assert [bucket.take(1000) for _ in range(3)] == [True, True, False]


def test_a_burst_may_be_larger_or_smaller_than_the_tokens_of_one_second() -> None:
    large, small = TokenBucket(1, burst=3), TokenBucket(100, burst=1)

    assert [large.take(0) for _ in range(4)] == [True, True, True, False]
    assert [small.take(now) for now in (0, 0.005, 0.01)] == [True, False, True]


def test_a_rate_below_one_per_second_is_possible() -> None:
    bucket = TokenBucket(0.1)

    assert [bucket.take(now) for now in (0, 9, 10, 19.5, 20)] == [True, False, True, False, True]


def test_a_bucket_with_an_infinite_rate_is_never_empty() -> None:
    bucket = TokenBucket(math.inf)

    assert all(bucket.take(7) for _ in range(1000))
    assert bucket.due(7) == 7


def test_a_bucket_reports_when_the_next_token_is_due() -> None:
    bucket = TokenBucket(4, burst=1)

    assert bucket.due(10) == 10
    bucket.take(10)
    assert (bucket.due(10), bucket.due(10.1), bucket.due(11)) == (10.25, 10.25, 11)


@given(
    rate=st.floats(0.001, 1e6),
    burst=st.integers(1, 1000),
    start=st.floats(0, 1e6),
    pauses=st.lists(st.floats(0, 100), max_size=20),
)
def test_a_bucket_yields_its_burst_at_once_and_each_token_when_it_is_due(
    rate: float, burst: int, start: float, pauses: list[float]
) -> None:
    bucket, now = TokenBucket(rate, burst=burst), start
    assert sum(bucket.take(now) for _ in range(burst + 10)) == burst

    for pause in pauses:
        now = bucket.due(now + pause)
        assert bucket.take(now)


@given(
    rate=st.floats(0.01, 1000),
    burst=st.integers(1, 100),
    steps=st.lists(st.floats(0, 1), max_size=300),
)
def test_no_period_yields_more_tokens_than_its_rate_and_burst_allow(
    rate: float, burst: int, steps: list[float]
) -> None:
    bucket, now, passed = TokenBucket(rate, burst=burst), 0.0, list[float]()
    for step in steps:
        now += step
        if bucket.take(now):
            passed.append(now)

    for number, when in enumerate(passed):
        assert number + 1 <= (burst + when * rate) * (1 + 1e-9)
    for earlier, later in zip(passed, passed[burst:], strict=False):
        assert (later - earlier) * rate >= 1 - 1e-6


@pytest.mark.parametrize("rate", [0.5, 3, 100])
def test_tokens_do_not_accumulate_beyond_the_burst(rate: float) -> None:
    bucket = TokenBucket(rate)
    burst = max(1, int(rate))
    assert [sum(bucket.take(now) for _ in range(1000)) for now in (0, 1e6, 2e6)] == [burst] * 3


def test_a_bucket_is_full_at_first_and_again_after_its_refill() -> None:
    bucket = TokenBucket(2, 3)
    assert bucket.is_full(0)

    bucket.take(10)

    assert not bucket.is_full(10.25)
    assert bucket.is_full(10.5)
