"""The detection of growth, and of processes that do not rest."""

from __future__ import annotations

import pytest

from soak.growth import ALLOWED, growth_of
from soak.report import Rest, idle_limit


@pytest.mark.parametrize("metric", ALLOWED)
def test_a_constant_metric_does_not_grow(metric: str) -> None:
    growth = growth_of(metric, [100.0] * 9)

    assert growth is not None
    assert (growth.grown, growth.is_too_much) == (0, False)


@pytest.mark.parametrize("metric", ["tasks", "descriptors", "processes"])
def test_one_leaked_resource_in_each_third_is_growth(metric: str) -> None:
    growth = growth_of(metric, [5, 5, 5, 6, 6, 6, 7, 7, 7])

    assert growth is not None
    assert (growth.grown, growth.is_too_much) == (1, True)


@pytest.mark.parametrize("metric", ["memory_kib", "objects", "threads"])
def test_a_metric_may_grow_by_its_tolerance_only(metric: str) -> None:
    allowed = ALLOWED[metric]

    little, much = (
        growth_of(metric, [0, 0, 0, 0, allowed, allowed]),
        growth_of(metric, [0, 0, 0, 0, *[allowed + 1] * 2]),
    )

    assert little is not None
    assert much is not None
    assert (little.is_too_much, much.is_too_much) == (False, True)


def test_the_warm_up_is_not_growth() -> None:
    growth = growth_of("descriptors", [3, 30, 40, 50, 50, 50, 50, 50, 50])

    assert growth is not None
    assert not growth.is_too_much


def test_a_momentary_peak_is_not_growth() -> None:
    growth = growth_of("threads", [3, 3, 3, 3, 5, 3, 9, 3, 9])

    assert growth is not None
    assert (growth.middle, growth.last, growth.is_too_much) == (3, 3, False)


def test_the_last_third_is_judged_for_any_number_of_samples() -> None:
    growths = [growth_of("tasks", [1.0] * (count - 2) + [2.0] * 2) for count in (6, 7, 8)]

    assert [growth is not None and growth.is_too_much for growth in growths] == [True, True, True]


def test_few_samples_have_no_verdict() -> None:
    assert growth_of("tasks", [1, 2, 3, 4, 5]) is None


def test_the_cpu_limit_at_rest_is_10_ms_in_30_seconds() -> None:
    assert idle_limit(30) == 10


def test_a_process_that_uses_the_limit_is_not_at_rest() -> None:
    rest = Rest("hung up", 30, {"client": 9.99, "server": 10.0})

    assert rest.restless == {"server": 10.0}
