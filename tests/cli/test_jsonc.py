"""JSON with comments: what is read, what is refused, and that setting a member changes nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.cli._jsonc import read_document


@pytest.mark.parametrize(
    ("text", "value", "is_plain"),
    [
        ("", {}, True),
        (" \r\n", {}, True),
        ("\ufeff", {}, True),
        ("// nothing yet\n", {}, False),
        ("\ufeff{}", {}, True),
        ('{"a": [1, -2.5e3, true, null, "b\\u00e9//\\"/*"]}', {"a": [1, -2500.0, True, None, 'bé//"/*']}, True),
        ('// first\n{"a": /* x */ 1}', {"a": 1}, False),
        ('{"a": 1,}', {"a": 1}, False),
        ("[1, ]", [1], False),
        ("[] // last", [], False),
        ('{"url": "https://example.org"}', {"url": "https://example.org"}, True),
        ('{"a": 1, "a": 2}', {"a": 2}, True),
    ],
)
def test_json_with_comments_is_read(text: str, value: Any, is_plain: bool) -> None:
    document = read_document(text)

    assert (document.value, document.is_plain) == (value, is_plain)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "line 1, column 2: expected a value"),
        ('{\n  "a" 1}', "line 2, column 7: expected ':'"),
        ('{"a": 1 "b": 2}', "line 1, column 9: expected ',' or '}'"),
        ("[1 2]", "line 1, column 4: expected ',' or ']'"),
        ("{,}", "expected a value"),
        ("[,]", "expected a value"),
        ("{1: 2}", "column 3: expected the name of a member, in quotation marks, before this"),
        ("{'a': 1}", "column 2: expected a value"),
        ('{"a": NaN}', "column 7: expected a value"),
        ('{"a": "b\n"}', "column 7: expected a value"),
        ("{} {}", "line 1, column 4: expected the end of the file"),
        ("{} /* open", "expected the end of the file"),
        ("/", "expected a value"),
    ],
)
def test_what_is_not_json_is_refused_with_its_place(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=r"^not JSON: ") as caught:
        read_document(text)

    assert fault in str(caught.value)


def test_json_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        read_document("[" * 100_000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", '{\n  "t": {\n    "n": 1\n  }\n}\n'),
        ("{}", '{\n  "t": {\n    "n": 1\n  }\n}'),
        ('{"a": 1}', '{"a": 1, "t": {"n": 1}}'),
        ('{"a": 1, }', '{"a": 1, "t": {"n": 1} }'),
        ('{"a": {}, "t": {"n": 0}}', '{"a": {}, "t": {"n": 1}}'),
        ('{\n\t"t": {}\n}', '{\n\t"t": {\n\t\t"n": 1\n\t}\n}'),
        ('{\n    "t": {\n    }\n}', '{\n    "t": {\n        "n": 1\n    }\n}'),
        ('{\n "t": {\n  "m": 0 // old\n }\n}', '{\n "t": {\n  "m": 0, // old\n  "n": 1\n }\n}'),
        ('{\n "t": {\n  "m": 0, // old\n }\n}', '{\n "t": {\n  "m": 0, // old\n  "n": 1\n }\n}'),
        ('{\n "t": { // none\n }\n}', '{\n "t": { // none\n  "n": 1\n }\n}'),
        ('{\r\n  "t": {}\r\n}\r\n', '{\r\n  "t": {\r\n    "n": 1\r\n  }\r\n}\r\n'),
        ('{\n  "a": 1.0}', '{\n  "a": 1.0,\n  "t": {\n    "n": 1\n  }\n}'),
        ('{ "a": 1,\n  "b": 2 }', '{ "a": 1,\n  "b": 2,\n"t": {\n  "n": 1\n}\n }'),
    ],
)
def test_a_member_is_set_and_the_rest_stays(text: str, expected: str) -> None:
    assert read_document(text).with_member(["t", "n"], 1) == expected


@pytest.mark.parametrize(("text", "fault"), [("[]", "the file: expected an object"), ('{"t": 1}', "t: expected")])
def test_a_member_of_what_is_no_object_cannot_be_set(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        read_document(text).with_member(["t", "n"], 1)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=3), values, max_size=4),
    values,
    st.sampled_from([None, 0, 2, "\t"]),
    st.booleans(),
)
def test_any_document_has_the_new_member_afterwards_and_no_other_change(
    before: dict[str, Any], value: Any, indent: int | str | None, is_ascii: bool
) -> None:
    before.pop("t", None)
    text = json.dumps(before, indent=indent, ensure_ascii=is_ascii)

    after = read_document(text).with_member(["t", "n"], value)

    assert json.loads(after) == before | {"t": {"n": value}}
    assert read_document(after).value == json.loads(after)
