"""The speed of the machine decides no test: property tests have no deadline, and time limits are generous."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parents[1]
GENEROUS_SECONDS = 30


def calls(name: str) -> Iterator[tuple[str, ast.Call, bool]]:
    """Yield each call of a function of this name, with its place, and True if it is in a test with a virtual clock."""
    for path in sorted(TESTS.rglob("*.py")):
        where = path.relative_to(TESTS)
        yield from _calls_in(ast.parse(path.read_text(encoding="utf-8")), name, str(where), is_virtual=False)


def _calls_in(node: ast.AST, name: str, where: str, *, is_virtual: bool) -> Iterator[tuple[str, ast.Call, bool]]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        is_virtual = is_virtual or any("clock" in each.arg for each in node.args.args)
    if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", None)) == name:
        yield f"{where}:{node.lineno}", node, is_virtual
    for child in ast.iter_child_nodes(node):
        yield from _calls_in(child, name, where, is_virtual=is_virtual)


def test_no_property_test_has_a_deadline_or_fails_on_a_slow_machine() -> None:
    for profile in ("steady", "long"):
        assert settings.get_profile(profile).deadline is None
        assert HealthCheck.too_slow in settings.get_profile(profile).suppress_health_check
    assert settings().deadline is None
    assert HealthCheck.too_slow in settings().suppress_health_check

    faults: list[str] = []
    for where, call, _ in calls("settings"):
        given = {each.arg: ast.unparse(each.value) for each in call.keywords}
        if given.get("deadline", "None") != "None" or "too_slow" not in given.get("suppress_health_check", "too_slow"):
            faults.append(where)
    assert faults == []


def test_a_test_in_real_time_fails_only_after_a_generous_time() -> None:
    faults: list[str] = []
    for where, call, is_virtual in calls("fail_after"):
        limit = call.args[0]
        if not is_virtual and isinstance(limit, ast.Constant) and float(str(limit.value)) < GENEROUS_SECONDS:
            faults.append(where)

    assert faults == []


def test_no_test_measures_durations_of_the_wall_clock() -> None:
    assert [where for where, _, _ in calls("perf_counter")] == []
