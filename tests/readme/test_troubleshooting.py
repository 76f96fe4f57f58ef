"""The page about errors: each text in it is one that the package has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `([^`]+)`[^|]* \| .+ \| .+ \|$", PAGE, re.MULTILINE)
UNKNOWN = "…"
"""The mark of a value that a text contains, which is known only at run time."""


def texts(node: ast.AST) -> Iterator[str]:
    """Yield the strings of a syntax tree, with the mark in place of the values of f-strings and of `%s`."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else UNKNOWN for part in node.values)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield re.sub(r"%[rsdg]", UNKNOWN, node.value)
    for child in ast.iter_child_nodes(node):
        yield from texts(child)


SOURCES = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py"))]
TEXTS = {re.sub(f"{UNKNOWN}+", UNKNOWN, text) for source in SOURCES for text in texts(ast.parse(source))}


@pytest.mark.parametrize("said", ROWS)
def test_the_package_has_each_text_of_the_page(said: str) -> None:
    assert [text for text in TEXTS if said in text] != []


def test_each_row_of_the_page_is_read() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]

    assert len(ROWS) == len(rows) > 40


def test_no_text_is_on_the_page_twice() -> None:
    assert len(set(ROWS)) == len(ROWS)
