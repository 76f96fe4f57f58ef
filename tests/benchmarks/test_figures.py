"""The statistics of the benchmarks, on a few numbers whose results are known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.figures import Spread, percentile

SOME = st.lists(st.floats(0, 1e6), min_size=1)


@pytest.mark.parametrize(("part", "value"), [(0.0, 1), (0.5, 2), (0.75, 3), (0.99, 4), (1.0, 4)])
def test_a_percentile_is_one_of_the_values(part: float, value: float) -> None:
    assert percentile([4, 1, 3, 2], part) == value


@given(values=SOME, part=st.floats(0, 1))
def test_at_least_that_part_of_the_values_is_no_larger_than_a_percentile(values: list[float], part: float) -> None:
    found = percentile(values, part)
    assert sum(value <= found for value in values) >= part * len(values)


@given(values=SOME)
def test_a_spread_is_ordered(values: list[float]) -> None:
    spread = Spread.of(values)
    assert min(values) == spread.least <= spread.median <= spread.most == max(values)


@pytest.mark.parametrize(("values", "median"), [([5.0], 5), ([3.0, 1.0, 2.0], 2), ([4.0, 1.0, 2.0, 3.0], 2.5)])
def test_the_median_is_in_the_middle(values: list[float], median: float) -> None:
    assert Spread.of(values).median == median


def test_no_values_are_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)
    with pytest.raises(ValueError, match="no values"):
        Spread.of([])
