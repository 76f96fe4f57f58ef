"""The page about errors: its tree is that of the package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trio_mcp import TrioMcpError, _errors

PAGE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text(encoding="utf-8")
LINES = re.findall(r"^([│ ]*)[├└]── (\w+)", PAGE, re.MULTILINE)
"""The indentation and the name of each line of the tree."""


def parents() -> dict[str, str]:
    """Return the name of the base class of each error in the tree."""
    found: dict[str, str] = {}
    path = ["TrioMcpError"]
    for indentation, name in LINES:
        depth = len(indentation) // 4 + 1
        found[name] = path[depth - 1]
        path[depth:] = [name]
    return found


def test_the_tree_has_each_public_error() -> None:
    assert set(parents()) == set(_errors.__all__) - {TrioMcpError.__name__}


@pytest.mark.parametrize(("name", "parent"), parents().items())
def test_an_error_stands_below_its_base_class(name: str, parent: str) -> None:
    assert getattr(_errors, name).__base__.__name__ == parent
