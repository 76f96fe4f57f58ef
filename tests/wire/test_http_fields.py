"""Values in header fields: encoding, decoding, and the fields that repeat a request."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.wire import (
    METHOD_FIELD,
    NAME_FIELD,
    REVISION_KEY,
    VERSION_FIELD,
    decode_field,
    encode_field,
    is_plain_field,
    request_fields,
)

TEXTS = st.text(st.characters(codec="utf-8")) | st.text(st.sampled_from("=?base64 \t\r\n\0Az9+/\x7f\x80"))


def wrapped(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


@pytest.mark.requirement("B.8-P1")
@given(TEXTS)
def test_every_string_survives_a_header_field_and_cannot_break_out_of_it(text: str) -> None:
    encoded = encode_field(text)

    assert re.fullmatch(r"([!-~]([ -~]*[!-~])?)?", encoded)
    assert decode_field(encoded) == text
    assert decode_field(f" \t{encoded}\t ") == text


@given(st.text())
def test_a_field_is_decoded_or_refused_with_a_reason(text: str) -> None:
    try:
        decoded = decode_field(text)
    except ValueError as exc:
        assert str(exc).startswith("it")
    else:
        assert decoded == text.strip(" \t") or text.strip(" \t").startswith("=?base64?")


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        ("us-west1", "us-west1"),
        ("two words", "two words"),
        ("", ""),
        (42, "42"),
        (-7, "-7"),
        (True, "true"),
        (False, "false"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("=?base64?=", wrapped("=?base64?=")),
        ("=?BASE64?literal?=", "=?BASE64?literal?="),
        ("=?base64?literal", "=?base64?literal"),
        ("inner\ttab", wrapped("inner\ttab")),
        ("x\r\nSet-Cookie: y", wrapped("x\r\nSet-Cookie: y")),
        ("\x7f", wrapped("\x7f")),
        ("\x80", wrapped("\x80")),
        ("\0", wrapped("\0")),
    ],
)
def test_a_value_is_encoded_only_if_it_has_to_be(value: str | int | bool, encoded: str) -> None:
    assert encode_field(value) == encoded


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("=?base64?SGVsbG8=?=", "Hello"),
        ("=?base64??=", ""),
        ("SGVsbG8=", "SGVsbG8="),
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
        ("SGVsbG8=?=", "SGVsbG8=?="),
        ("=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),
        ("=?Base64?SGVsbG8=?=", "=?Base64?SGVsbG8=?="),
        ("=?base64?=", "=?base64?="),
        (" inner\ttab ", "inner\ttab"),
        ("", ""),
    ],
)
def test_a_field_is_base64_only_with_the_exact_markers(field: str, text: str) -> None:
    assert decode_field(field) == text


@pytest.mark.parametrize(
    ("field", "fault"),
    [
        ("=?base64?SGVsbG8?=", "not Base64"),
        ("=?base64?SGVs!!!bG8=?=", "not Base64"),
        ("=?base64?SGVs bG8=?=", "not Base64"),
        ("=?base64?SGVsbG8==?=", "not Base64"),
        ("=?base64?=?=", "not Base64"),
        ("=?base64?/w==?=", "not UTF-8"),
        ("a\r\nb", "visible ASCII"),
        ("a\nb", "visible ASCII"),
        ("a\0b", "visible ASCII"),
        ("a\x7f", "visible ASCII"),
        ("Hello, 世界", "visible ASCII"),
        ("\xa0", "visible ASCII"),
        ("a\n", "visible ASCII"),
    ],
)
def test_a_broken_field_is_refused(field: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        decode_field(field)


def test_a_lone_surrogate_is_refused_in_a_field() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        encode_field("\ud800")


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a", True),
        ("a b", True),
        ("", True),
        (" a", False),
        ("a ", False),
        ("a\tb", False),
        ("é", False),
        ("a\n", False),
    ],
)
def test_a_plain_string_needs_no_encoding(text: str, plain: bool) -> None:
    assert is_plain_field(text) is plain


META = {REVISION_KEY: "2026-07-28"}
FIELDS: list[tuple[str, dict[str, Any] | None, dict[str, str]]] = [
    ("tools/list", None, {}),
    ("tools/list", {"name": "x"}, {}),
    ("tools/list", {"_meta": 5}, {}),
    ("tools/list", {"_meta": {REVISION_KEY: 5}}, {}),
    ("tools/list", {"_meta": META}, {VERSION_FIELD: "2026-07-28"}),
    ("tools/call", {"name": "add"}, {NAME_FIELD: "add"}),
    ("tools/call", {"name": "Añadir"}, {NAME_FIELD: wrapped("Añadir")}),
    ("tools/call", {"name": ""}, {NAME_FIELD: ""}),
    ("tools/call", {"name": "x" * 300}, {NAME_FIELD: "x" * 300}),
    ("tools/call", {"name": 5}, {}),
    ("tools/call", {}, {}),
    ("prompts/get", {"name": "hello"}, {NAME_FIELD: "hello"}),
    ("resources/read", {"uri": "file:///a%20b"}, {NAME_FIELD: "file:///a%20b"}),
    ("tasks/get", {"taskId": "t"}, {NAME_FIELD: "t"}),
    ("tasks/update", {"taskId": "t"}, {NAME_FIELD: "t"}),
    ("tasks/cancel", {"taskId": "t"}, {NAME_FIELD: "t"}),
]


@pytest.mark.parametrize(("method", "params", "fields"), FIELDS)
def test_the_header_fields_repeat_the_method_the_revision_and_the_name_of_a_message(
    method: str, params: dict[str, Any] | None, fields: dict[str, str]
) -> None:
    assert request_fields(method, params) == {METHOD_FIELD: method, **fields}


@pytest.mark.parametrize("broken", ["x\r\ny", " x", "é"])
def test_a_method_or_revision_that_does_not_fit_into_a_header_field_is_refused(broken: str) -> None:
    with pytest.raises(ValueError, match=r"method .* cannot go into a header field"):
        request_fields(broken, None)
    with pytest.raises(ValueError, match=r"protocol version .* cannot go into a header field"):
        request_fields("tools/list", {"_meta": {REVISION_KEY: broken}})
