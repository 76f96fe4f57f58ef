"""The deadline of a caller in `_meta`: written as the seconds that are left, and read again."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.wire import DEADLINE_KEY, decode, encode_request, seconds_left, with_deadline

YEAR = 366 * 24 * 3600


@pytest.mark.parametrize("params", [None, {}, {"_meta": {}}, {"name": "x", "_meta": {"mine": 1}}])
def test_the_seconds_that_are_left_are_added_to_the_metadata(params: dict[str, Any] | None) -> None:
    before = json.dumps(params)
    stamped = with_deadline(params, 105.0, 100.0)

    given = params or {}
    assert stamped == {**given, "_meta": {**given.get("_meta", {}), DEADLINE_KEY: 5.0}}
    assert json.dumps(params) == before


@pytest.mark.parametrize("deadline", [100.0, 99.0, -math.inf, math.inf, 101.0 + YEAR])
def test_a_deadline_that_has_passed_or_is_more_than_a_year_away_is_not_written(deadline: float) -> None:
    params: dict[str, Any] = {"name": "x"}

    assert with_deadline(params, deadline, 100.0) is params


def test_a_deadline_in_the_metadata_is_replaced_and_null_is_kept() -> None:
    assert with_deadline({"_meta": {DEADLINE_KEY: 7}}, 105.0, 100.0) == {"_meta": {DEADLINE_KEY: 5.0}}
    assert with_deadline({"_meta": {DEADLINE_KEY: None}}, 105.0, 100.0) == {"_meta": {DEADLINE_KEY: None}}


def test_metadata_that_is_no_object_is_left_alone() -> None:
    assert with_deadline({"_meta": 7}, 105.0, 100.0) == {"_meta": 7}


@given(now=st.floats(0, 1e9), seconds=st.floats(1e-9, YEAR - 1))
def test_a_receiver_with_the_same_clock_is_never_early_and_hardly_late(now: float, seconds: float) -> None:
    deadline = now + seconds
    params = with_deadline(None, deadline, now)
    if deadline == now:
        assert params is None
        return
    message: Any = decode(encode_request(1, "ping", params))
    left = seconds_left(message["params"]["_meta"])
    assert left is not None

    assert deadline <= now + left <= math.nextafter(deadline, math.inf)


@pytest.mark.parametrize("value", [1, 0.25, YEAR, float(YEAR)])
def test_a_positive_number_of_at_most_a_year_is_read(value: float) -> None:
    assert seconds_left({DEADLINE_KEY: value}) == value


@pytest.mark.parametrize(
    "value", [0, -1, True, False, None, "5", [5], {}, math.nan, math.inf, -math.inf, YEAR + 1, 10**400, -(10**400)]
)
def test_every_other_value_is_ignored(value: object) -> None:
    assert seconds_left({DEADLINE_KEY: value}) is None


def test_metadata_without_the_member_states_no_deadline() -> None:
    assert seconds_left({}) is None
