"""The manifest of requirements and the tests agree: every tested requirement has a test, and every name exists.

The tests are read, not collected, so that the outcome does not depend on which part of the suite is run.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from attrs import frozen

from tests.requirements_plugin import CATEGORIES, load_manifest, summary
from trio_mcp.types import REVISIONS

TESTS = Path(__file__).parents[1]
SESSIONS_OF_THEIR_OWN = {"build", "peers", "readme"}
"""Folders that an ordinary run leaves out; a requirement needs a test that always runs."""

AREAS = {f"B.{number}" for number in range(1, 28)} | {f"A.{number}" for number in range(4, 8)} | {"G"}
AREAS_OF_LATER = {f"C.{number}" for number in range(2, 5)} | {f"D.{number}" for number in range(1, 4)}
STRENGTHS = {"MUST", "MUST NOT", "SHOULD", "SHOULD NOT"}
ALWAYS = {"strength", "who", "text", "spec", "category"}
SOMETIMES = {"since", "until", "reason"}
SPECIFICATION = "https://modelcontextprotocol.io/specification/"


@frozen
class Mark:
    """One use of the marker."""

    location: str
    names: tuple[str, ...]
    fault: str | None
    """The reason why the mark does not count; None if it counts."""


def is_marker(node: ast.AST) -> bool:
    """Return True if *node* is `pytest.mark.requirement`."""
    return isinstance(node, ast.Attribute) and ast.unparse(node) == "pytest.mark.requirement"


@cache
def marks() -> tuple[Mark, ...]:
    found: list[Mark] = []
    for path in sorted(TESTS.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if "mark.requirement" in source:
            found += _marks_in(path, ast.parse(source))
    return tuple(found)


def _marks_in(path: Path, tree: ast.Module) -> Iterator[Mark]:
    location = str(path.relative_to(TESTS))
    collected = path.name.startswith("test_") and not SESSIONS_OF_THEIR_OWN & set(path.relative_to(TESTS).parts)
    decorators: dict[int, str] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            decorators |= {id(decorator): node.name for decorator in node.decorator_list}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and is_marker(node.func)]
    called = {id(call.func) for call in calls}
    for each in ast.walk(tree):
        if isinstance(each, ast.Attribute) and is_marker(each) and id(each) not in called:
            yield Mark(f"{location}:{each.lineno}", (), "names no requirement")
    for call in calls:
        names = tuple(str(each.value) for each in call.args if isinstance(each, ast.Constant))
        fault = None
        if not names or call.keywords or len(names) != len(call.args):
            fault = "names requirements by something else than texts"
        elif id(call) not in decorators:
            fault = "decorates no test function"
        elif not collected:
            fault = "is not part of an ordinary run"
        yield Mark(f"{location}::{decorators.get(id(call), call.lineno)}", names, fault)


def test_every_mark_is_on_a_test_that_an_ordinary_run_collects() -> None:
    assert [(mark.location, mark.fault) for mark in marks() if mark.fault is not None] == []
    assert len(marks()) > 100


def test_every_tested_requirement_is_named_by_a_test() -> None:
    named = {name for mark in marks() for name in mark.names}
    tested = {name for name, requirement in load_manifest().items() if requirement["category"] == "tested"}

    assert sorted(tested - named) == []


def test_every_name_in_a_mark_is_that_of_a_tested_requirement() -> None:
    manifest = load_manifest()
    wrong = defaultdict[str, list[str]](list)
    for mark in marks():
        for name in mark.names:
            if manifest.get(name, {}).get("category") != "tested":
                wrong[mark.location].append(name)

    assert wrong == {}


def test_no_test_names_a_requirement_twice() -> None:
    assert [mark.location for mark in marks() if len(set(mark.names)) < len(mark.names)] == []
    assert len({mark.location for mark in marks()}) == len(marks())


def test_every_requirement_has_exactly_the_expected_members() -> None:
    for name, requirement in load_manifest().items():
        keys = requirement.keys()
        assert keys >= ALWAYS, name
        assert keys <= ALWAYS | SOMETIMES, name
        assert requirement["strength"] in STRENGTHS, name
        assert requirement["who"] in {"client", "server", "both"}, name
        assert requirement["category"] in CATEGORIES, name
        assert ("reason" in keys) == (requirement["category"] in {"host", "not planned"}), name
        for sentence in (requirement["text"], requirement.get("reason", ".")):
            assert sentence.endswith("."), name


def test_every_requirement_names_known_revisions_and_links_to_one_of_them() -> None:
    for name, requirement in load_manifest().items():
        first = REVISIONS.index(requirement.get("since", REVISIONS[0]))
        last = REVISIONS.index(requirement.get("until", REVISIONS[-1]))
        assert first <= last, name
        assert requirement.get("since") != REVISIONS[0], f"{name}: leave it out"
        assert requirement.get("until") != REVISIONS[-1], f"{name}: leave it out"
        assert re.fullmatch(r"https://modelcontextprotocol\.io/[\w./-]+(#[\w-]+)?", requirement["spec"]), name
        if requirement["spec"].startswith(SPECIFICATION):
            linked = requirement["spec"].removeprefix(SPECIFICATION).partition("/")[0]
            assert first <= REVISIONS.index(linked) <= last, name


def test_every_part_of_the_specification_has_requirements() -> None:
    assert {name.rpartition("-")[0] or name.partition(".")[0] for name in load_manifest()} == AREAS | AREAS_OF_LATER


def test_a_run_ends_with_the_number_of_requirements_of_each_category() -> None:
    manifest = {"a": {"category": "tested"}, "b": {"category": "host"}, "c": {"category": "tested"}}

    assert summary(manifest) == ("requirements: 3 (2 tested, 1 host, 0 not planned)")
