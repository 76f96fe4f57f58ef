"""The JSON codec: exact decoding, and encoding that refuses values that are not JSON."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.wire import NotJsonError, Undecodable, copy_json, decode, encode, is_array, is_object, json_text

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@dataclasses.dataclass
class Point:
    x: float


class Mapping(dict[str, Any]):
    pass


NAN_AT_THE_BOTTOM: list[tuple[Any, str]] = [
    (math.nan, "$"),
    (-math.inf, "$"),
    ([1, math.inf], "$[1]"),
    ({"a": [None, {"b": math.nan}], "c": math.inf}, "$.a[1].b"),
    ((math.nan,), "$[0]"),
    ([{math.nan}], "$[0][0]"),
    ({1: math.nan}, "$.1"),
    (Point(math.nan), "$.x"),
    (Mapping(y=math.nan), "$.y"),
]


def nested(depth: int, leaf: Any) -> Any:
    for _ in range(depth):
        leaf = [leaf]
    return leaf


@pytest.mark.requirement("B.1-P1b")
@given(JSON)
def test_encoding_and_decoding_a_value_returns_the_same_value(value: Any) -> None:
    assert decode(encode(value)) == value
    assert copy_json(value) == value


@pytest.mark.requirement("B.5-P1a")
def test_encoded_json_is_one_line_and_keeps_every_digit() -> None:
    assert encode({"text": "two\nlines\r", "big": 2**70}) == b'{"text":"two\\nlines\\r","big":1180591620717411303424}'


@pytest.mark.parametrize(("value", "path"), NAN_AT_THE_BOTTOM)
def test_nan_and_infinities_are_refused_with_their_paths(value: Any, path: str) -> None:
    with pytest.raises(NotJsonError) as refused:
        encode(value)

    assert str(refused.value) == f"{path}: NaN and infinities are not JSON"


@pytest.mark.parametrize(
    "beside", ["x" * 100_000, ["many"] * 20_000, [1.5, "x" * 100_000]], ids=["text", "list", "number"]
)
@pytest.mark.parametrize(("value", "path"), NAN_AT_THE_BOTTOM)
def test_nan_and_infinities_are_found_in_large_values(value: Any, path: str, beside: Any) -> None:
    with pytest.raises(NotJsonError) as refused:
        encode({"beside": beside, "value": value})

    assert str(refused.value) == f"{path.replace('$', '$.value')}: NaN and infinities are not JSON"


@pytest.mark.parametrize("value", [None, 1.5, "null", {"a": [True, json_text(b"null")]}, [None] * 20_000])
def test_a_large_json_value_is_encoded_unchanged(value: Any) -> None:
    text = "x" * 100_000
    assert encode([text, value]) == b'["%s",%s]' % (text.encode(), encode(value))


def test_null_is_encoded() -> None:
    assert encode({"a": None, "b": [None, "null", 1.5, (None,)]}) == b'{"a":null,"b":[null,"null",1.5,[null]]}'


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (object(), "object"),
        ("lone \ud800 surrogate", "holds a lone surrogate"),
        ({"\udfff": 1}, "lone surrogate"),
        ({(1, 2): 3}, "keys"),
        pytest.param(10**5000, "4300 digits", id="5000 digits"),
    ],
)
def test_values_that_are_not_json_are_refused(value: Any, fault: str) -> None:
    with pytest.raises(NotJsonError, match=fault):
        encode(value)


def test_a_value_that_contains_itself_is_refused() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)

    with pytest.raises(NotJsonError, match="contains itself"):
        encode(cycle)


@pytest.mark.parametrize("depth", [100, 300, 600, 900])
def test_a_nan_at_any_depth_is_refused(depth: int) -> None:
    for leaf in (None, math.nan):
        try:
            data = encode(nested(depth, leaf))
        except NotJsonError:
            continue
        assert leaf is None
        assert data == b"[" * depth + b"null" + b"]" * depth


@pytest.mark.requirement("B.1-P1b")
@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "truncated"),
        (b"{", "truncated"),
        (b"nonsense", "malformed"),
        (b"{} {}", "malformed"),
        (b"NaN", "malformed"),
        (b"[Infinity]", "malformed"),
        (b"1e999", "out of range"),
        pytest.param(b"1" * 5000, "out of range", id="5000 digits"),
        (b'"\xff"', "invalid UTF-8 at byte 0"),
        (b'["ok", "ab\xed\xa0\x80"]', "invalid UTF-8 at byte 2"),
        (b'"\\ud800"', "truncated"),
        (b'"\\ud800\\u0041"', "surrogate"),
        (b"\xef\xbb\xbf{}", "malformed"),
        pytest.param(b"[" * 100_000, "nested too deep", id="100,000 arrays begin"),
        pytest.param(b'{"a":' * 100_000, "nested too deep", id="100,000 objects begin"),
        pytest.param(b"[" * 100_000 + b"]" * 100_000, "nested too deep", id="100,000 arrays"),
    ],
)
def test_bytes_that_are_not_one_json_value_are_refused_with_a_message(data: bytes, fault: str) -> None:
    with pytest.raises(Undecodable, match=fault):
        decode(data)


@given(st.binary(max_size=40))
def test_any_bytes_are_decoded_or_raise_undecodable(data: bytes) -> None:
    try:
        value = decode(data)
    except Undecodable:
        return
    assert decode(encode(value)) == value


def test_integers_are_exact_and_numbers_with_a_fraction_or_exponent_are_floats() -> None:
    assert decode(b"123456789012345678901234567890") == 123456789012345678901234567890
    assert [type(number) for number in decode(b"[1, 1.0, 1e2]")] == [int, float, float]


def test_a_copy_shares_nothing_with_its_original() -> None:
    original: dict[str, Any] = {"list": [1, {}]}

    copied = copy_json(original)
    copied["list"][1]["new"] = True

    assert original == {"list": [1, {}]}
    assert copy_json((1, 2)) == [1, 2]


@pytest.mark.parametrize(
    ("value", "kinds"), [({}, (True, False)), ([], (False, True)), ("{}", (False, False)), (None, (False, False))]
)
def test_objects_and_arrays_are_distinguished(value: Any, kinds: tuple[bool, bool]) -> None:
    assert (is_object(value), is_array(value)) == kinds
