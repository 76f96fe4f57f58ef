"""The page about the revisions: its tables of methods are those of the package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trio_mcp.types import METHODS, REVISIONS

PAGE = (Path(__file__).parents[2] / "docs" / "revisions.md").read_text(encoding="utf-8")
METHOD_ROWS = dict(re.findall(r"^\| `([a-z]+(?:/\w+)*)` \|(.*)\|$", PAGE, re.MULTILINE))


def cell(revision: str, method: str) -> str:
    """Return what the page has to say about a method in a revision."""
    found = METHODS[revision].get(method)
    if found is None:
        return ""
    return "in a result" if found.kind == "embedded" else found.direction


@pytest.mark.parametrize("method", sorted({method for revision in REVISIONS for method in METHODS[revision]}))
def test_a_method_of_the_protocol_has_a_row_that_is_right(method: str) -> None:
    assert [each.strip() for each in METHOD_ROWS[method].split("|")] == [cell(each, method) for each in REVISIONS]


def test_the_page_has_no_other_methods() -> None:
    assert set(METHOD_ROWS) == {method for revision in REVISIONS for method in METHODS[revision]}


def test_each_revision_is_described_and_its_era_is_right() -> None:
    eras = dict(re.findall(r"^\| (\d{4}-\d\d-\d\d) \| (\w+) \|", PAGE, re.MULTILINE))

    assert eras == {each: "legacy" if "initialize" in METHODS[each] else "modern" for each in REVISIONS}
