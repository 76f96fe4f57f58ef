"""The limits: finite by default, and checked."""

from __future__ import annotations

import math

import attrs
import pytest

from trio_mcp.peer import Limits


def test_every_bound_is_finite_by_default() -> None:
    values = attrs.asdict(Limits())

    assert all(0 < value < math.inf for value in values.values())


@pytest.mark.parametrize("name", [attribute.name for attribute in attrs.fields(Limits)])
@pytest.mark.parametrize("value", [0, -1, math.nan, True])
def test_a_limit_that_is_not_a_number_above_zero_is_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"Limits\({name}={value!r}\): must be a number above 0"):
        Limits(**{name: value})  # type: ignore[arg-type] # some of them are integers


def test_a_time_limit_may_be_infinite() -> None:
    assert Limits(stall_seconds=math.inf).stall_seconds == math.inf
