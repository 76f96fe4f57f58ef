"""Each statement of the security model has its tests, and each default that it names is the real one."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

from trio_mcp import Limits, SessionSettings
from trio_mcp.transports import HttpListening

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security-model.md").read_text(encoding="utf-8")
TESTS: Mapping[str, Sequence[str]] = tomllib.loads(
    Path(__file__).with_name("security_model.toml").read_text(encoding="utf-8")
)
SETTINGS = {"Limits": Limits(), "SessionSettings": SessionSettings(), "": HttpListening()}
DEFAULT = re.compile(r"`(?:(\w+)\.)?(\w+)`, ([\d,]+)")


def statements() -> list[str]:
    """Return the bold beginnings of the statements, and the first cells of the rows, before the last section."""
    _, _, promised = PAGE.partition("## Isolation between clients")
    promised, _, _ = promised.partition("## What the package does not protect")
    cells = re.findall(r"^\| ([^|]+) \|", promised, re.MULTILINE)[1:]
    return [*re.findall(r"^- \*\*(.+?)\.\*\*", promised, re.MULTILINE), *(cell for cell in cells if cell[0] != "-")]


@cache
def functions_in(path: str) -> frozenset[str]:
    """Return the names of the test functions in a file."""
    tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
    return frozenset(each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))


def test_every_statement_has_tests_and_every_entry_is_a_statement() -> None:
    assert statements() == list(TESTS)


@pytest.mark.parametrize("statement", TESTS)
def test_the_tests_of_a_statement_exist(statement: str) -> None:
    named = [each.split("::") for each in TESTS[statement]]

    assert named
    assert [f"{path}::{name}" for path, name in named if name not in functions_in(path)] == []


@pytest.mark.parametrize(("settings", "name", "number"), DEFAULT.findall(PAGE))
def test_a_default_that_the_page_names_is_the_real_one(settings: str, name: str, number: str) -> None:
    assert getattr(SETTINGS[settings], name) == float(number.replace(",", ""))


def test_the_page_names_many_defaults() -> None:
    assert len(DEFAULT.findall(PAGE)) > 10
