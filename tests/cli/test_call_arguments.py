"""Arguments of a call: they are converted by the schema, and all faults are reported before the call is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trio_mcp.cli._commands import arguments_for, texts_of, whole_object
from trio_mcp.cli._errors import UsageError

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "count": {"type": "integer", "minimum": 1},
        "name": {"type": "string"},
        "place": {"$ref": "#/$defs/Place"},
        "anything": {},
    },
    "required": ["count"],
    "additionalProperties": False,
    "$defs": {"Place": {"type": "object", "properties": {"x": {"type": "number"}}}},
}


def test_strings_are_converted_by_the_schema() -> None:
    texts = texts_of(["count=3", "name=3", 'place={"x": 1}', "anything=a=b"])

    assert arguments_for(SCHEMA, texts, {}) == {"count": 3, "name": "3", "place": {"x": 1}, "anything": "a=b"}


def test_a_colon_before_the_equals_sign_overrides_the_schema_with_json() -> None:
    assert arguments_for({}, texts_of(["a:=[1, null]", "b:=true"]), {}) == {"a": [1, None], "b": True}


def test_single_arguments_override_the_whole_object() -> None:
    whole = {"count": 1, "name": "x"}

    assert arguments_for(SCHEMA, texts_of(["count=2"]), whole) == {"count": 2, "name": "x"}
    assert whole == {"count": 1, "name": "x"}


def test_an_argument_without_a_property_follows_additional_properties() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}

    assert arguments_for(schema, {"n": "4"}, {}) == {"n": 4}


def test_the_schema_of_an_argument_is_also_found_by_references_and_patterns() -> None:
    schema = {
        "type": "object",
        "allOf": [{"$ref": "#/$defs/Named"}],
        "patternProperties": {"^text_": {"type": "string"}},
        "$defs": {"Named": {"type": "object", "properties": {"name": {"type": "string"}}}},
    }

    assert arguments_for(schema, {"name": "5", "text_a": "6", "other": "7"}, {}) == {
        "name": "5",
        "text_a": "6",
        "other": 7,
    }


def test_a_string_may_look_like_an_object_with_a_duplicate_member() -> None:
    assert arguments_for(SCHEMA, texts_of(["count=1", 'name={"a": 1, "a": 2}']), {})["name"] == '{"a": 1, "a": 2}'


@pytest.mark.parametrize(
    ("texts", "faults"),
    [
        (["count=0"], ["$.count: 0 is less than the minimum of 1"]),
        (["count=three"], ["$.count: expected integer, got the string 'three'"]),
        (["count=1.5"], ["$.count: expected integer, got number"]),
        (["name=x"], ["$.count: required, but missing"]),
        (["count=1", "cuont=1"], ["$.cuont: unknown, not allowed here"]),
        (["count=x", 'place={"x": "y"}'], ["$.count: expected integer, got", "$.place.x: expected number, got string"]),
        (["place:=x", "count=1"], ["$.place: not JSON", "got the string 'x'"]),
        (['place={"x": 1, "x": 2}', "count=1"], ["$.place: member 'x' is given twice"]),
        (['place:={"x": 1, "x": 2}', "count=1"], ["$.place: member 'x' is given twice"]),
    ],
)
def test_every_fault_is_reported_once_with_its_path(texts: list[str], faults: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        arguments_for(SCHEMA, texts_of(texts), {})

    assert [fault for fault in faults if fault not in str(caught.value)] == []
    assert str(caught.value).count("$.") == len([fault for fault in faults if fault.startswith("$")])
    assert "nothing was sent" in str(caught.value)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["count"], "expected KEY=VALUE, got 'count'"),
        (["=3"], "expected KEY=VALUE, got '=3'"),
        (["a=1", "a=2"], "'a' is given twice"),
        (["a=1", "a:=2"], "'a' is given twice"),
    ],
)
def test_an_argument_that_is_not_a_pair_is_refused(pairs: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        texts_of(pairs)


def test_a_whole_object_comes_from_the_line_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"b": 2}')

    assert whole_object(None) == {}
    assert whole_object('{"a": 1}') == {"a": 1}
    assert whole_object(f"@{tmp_path}/a.json") == {"b": 2}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("{a}", "--arguments: not JSON"),
        ("[1]", "expected a JSON object"),
        ("@/no/such", "cannot read /no/such"),
        ('{"a": {"b": 1, "b": 2}}', "--arguments: member 'b' is given twice"),
    ],
)
def test_an_invalid_whole_object_is_refused(given: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        whole_object(given)
