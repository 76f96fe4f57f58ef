"""The tests that run through the clients for asyncio and without async: of each module here, and of no other folder."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.interaction.bridging import UNBRIDGED

FOLDER = Path(__file__).parent
TESTS = FOLDER.parent
ELSEWHERE = [
    str(TESTS / name) for name in ("tasks/test_client_tasks.py", "test_wire_validity.py", "codegen/test_mirrors.py")
]
"""Modules of other folders that open clients by `OPENERS`, or whose parameters have the names of bridges."""


def collected(modules: Sequence[str]) -> list[tuple[str, str]]:
    """Return the module and the parameters of each test in these modules or folders."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *modules]
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}  # the format of lines
    listed = subprocess.run(
        command, capture_output=True, check=True, text=True, timeout=300, cwd=TESTS.parent, env=environment
    ).stdout
    return re.findall(r"^tests/(.+)\.py::\w+(?:\[(.*)\])?$", listed, re.MULTILINE)


@pytest.fixture(scope="module")
def together() -> list[tuple[str, str]]:
    """Return the tests of this folder and those of the other modules, as they are collected at once."""
    return collected([str(FOLDER), *ELSEWHERE])


def test_every_module_runs_through_both_bridges_or_has_a_reason_why_not(together: list[tuple[str, str]]) -> None:
    bridges: dict[str, set[str]] = {}
    for module, parameters in together:
        bridges.setdefault(module, set()).update({"asyncio", "sync"} & set(parameters.split("-")))
    bridged = {module for module, its in bridges.items() if its == {"asyncio", "sync"}}
    modules = {path.stem for path in FOLDER.glob("test_*.py")} - {Path(__file__).stem}

    assert {module for module in modules if f"interaction/{module}" not in bridged} == set(UNBRIDGED)


def test_the_tests_of_other_folders_are_those_that_are_collected_without_this_one(
    together: list[tuple[str, str]],
) -> None:
    elsewhere = [test for test in together if not test[0].startswith("interaction/")]

    assert len(elsewhere) > 50
    assert sorted(elsewhere) == sorted(collected(ELSEWHERE))


def test_no_module_of_another_folder_imports_the_bridges() -> None:
    private = {"tests.interaction.bridging", "tests.interaction.over_bridges"}
    importing = [
        str(path.relative_to(TESTS))
        for path in TESTS.rglob("*.py")
        if FOLDER not in path.parents
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module in private
    ]

    assert importing == []
