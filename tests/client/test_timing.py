"""Defaults and bounds of `TimeLimits`; tests/interaction/test_time_limits.py tests their effects."""

from __future__ import annotations

import math
from typing import Any

import pytest

from trio_mcp import TimeLimits


def test_the_defaults_are_finite() -> None:
    limits = TimeLimits()

    assert (limits.idle, limits.total, limits.connect, limits.probe) == (300, 3600, 60, 5)


@pytest.mark.parametrize("name", ["idle", "total", "connect", "probe"])
@pytest.mark.parametrize("value", [0, -1, math.nan, True])
def test_a_limit_is_a_number_above_0(name: str, value: float) -> None:
    limits: dict[str, Any] = {name: value}

    with pytest.raises(ValueError, match=rf"TimeLimits\({name}="):
        TimeLimits(**limits)


def test_infinity_lifts_a_limit() -> None:
    assert TimeLimits(idle=math.inf).idle == math.inf
