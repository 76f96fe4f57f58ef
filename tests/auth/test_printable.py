"""Strings of a peer are shortened, made printable and stripped of secrets before they get into messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.auth._urls import shown_text, shown_url


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("access denied", "access denied"),
        ("", ""),
        ("a\r\nb\x1b[31m\u202e\ud800", "a??b?[31m??"),
        ("é", "é"),
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 200 + "..."),
    ],
)
def test_a_string_is_shown_short_and_printable(text: str, shown: str) -> None:
    assert shown_text(text) == shown


@given(st.text(max_size=400))
def test_any_string_becomes_one_short_printable_line(text: str) -> None:
    assert shown_text(text).isprintable()
    assert len(shown_text(text)) <= 203


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://as.example/token?code=secret#secret", "https://as.example/token"),
        ("https://as.example#access_token=secret", "https://as.example"),
        ("https://user:secret@as.example/a@b", "https://as.example/a@b"),
        ("https://a:secret@b:secret@as.example", "https://as.example"),
        ("user:secret@as.example", "as.example"),
        ("https://as.example\n/x", "https://as.example?/x"),
        ("", ""),
    ],
)
def test_a_url_is_shown_without_its_user_query_and_fragment(url: str, shown: str) -> None:
    assert shown_url(url) == shown
