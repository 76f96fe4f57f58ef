"""Strings of a server on a terminal: control characters are escaped."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.cli._terminal import visible, visible_json, visible_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain \u00e9\u4e16 \U0001f600", "plain \u00e9\u4e16 \U0001f600"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("carriage\r\nreturn", "carriage\nreturn"),
        ("over\rwritten", "over\\x0dwritten"),
        ("\x1b[31mred\x1b]0;title\x07", "\\x1b[31mred\\x1b]0;title\\x07"),
        ("\x9b31m\x7f", "\\x9b31m\\x7f"),
        ("\u202etxt.exe\u2066", "\\u202etxt.exe\\u2066"),
        ("a\u200bb\u2028c\ufeff", "a\\u200bb\\u2028c\\ufeff"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_terminal_commands_become_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_line_is_never_broken() -> None:
    assert visible_line("a\r\nb\tc") == "a\\nb\\tc"


@given(st.text())
def test_json_made_visible_has_the_same_value(text: str) -> None:
    shown = visible_json(json.dumps(text, ensure_ascii=False))

    assert json.loads(shown) == text
    assert visible_line(shown) == shown
