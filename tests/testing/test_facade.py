"""The facade of `trio_mcp.testing`: its names, and the modules that importing it loads."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from trio_mcp import testing


def test_the_facade_shows_type_checkers_the_names_that_it_exports() -> None:
    tree = ast.parse(Path(str(testing.__file__)).read_text(encoding="utf-8"))
    (shown,) = (node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name))
    names = [alias.asname for node in shown.body if isinstance(node, ast.ImportFrom) for alias in node.names]

    exported: list[str] = vars(testing)["__all__"]

    assert sorted(map(str, names)) == sorted(exported)
    assert dir(testing) == sorted(exported)


def test_an_unknown_attribute_is_named_in_the_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'trio_mcp\.testing' has no attribute 'nothing'"):
        getattr(testing, "nothing")  # noqa: B009 # the type checkers know that it is not there


def test_the_tools_need_no_pytest() -> None:
    program = """
import json, sys
sys.modules["pytest"] = sys.modules["pytest_trio"] = None
from trio_mcp import testing
print(json.dumps([name for name in testing.__all__ if getattr(testing, name) is not None]))
"""
    child = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, encoding="utf-8")

    assert json.loads(child.stdout) == vars(testing)["__all__"]
