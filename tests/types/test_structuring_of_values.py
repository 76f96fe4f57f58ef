"""Limits of numbers and lengths."""

from __future__ import annotations

from typing import Any

import pytest

from trio_mcp.types import Bounds
from trio_mcp.types._faults import Mismatch
from trio_mcp.types._structure_hooks import bounded


def anything(value: Any, _: Any = None) -> Any:
    return value


@pytest.mark.parametrize("value", [1, 1.0, 3, "a", "abc", [1], None, True, {}])
def test_a_limit_does_not_apply_to_values_of_other_types(value: Any) -> None:
    hook = bounded(anything, Bounds(minimum=1, maximum=3, min_length=1, max_length=3))

    assert hook(value, None) is value


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (0, "expected at least 1, got 0"),
        (3.5, "expected at most 3, got 3.5"),
        (float("nan"), "expected at least 1, got nan"),
        ("", "expected a length of at least 1, got a length of 0"),
        ([1, 2, 3, 4], "expected a length of at most 3, got a length of 4"),
    ],
)
def test_a_value_beyond_a_limit_is_refused(value: Any, fault: str) -> None:
    hook = bounded(anything, Bounds(minimum=1, maximum=3, min_length=1, max_length=3))

    with pytest.raises(Mismatch) as caught:
        hook(value, None)

    assert caught.value.lines() == [f"$: {fault}"]
