"""The results of a scenario and the verdict on them, which is stricter than that of the suite.

The suite accepts a warning, a check that was never reached, and a client that crashed at the end.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from .scenarios import Scenario

__all__ = ["Check", "Verdict", "expecting_failure", "judge", "read_checks", "read_results"]

STATUSES = frozenset({"SUCCESS", "FAILURE", "WARNING", "SKIPPED", "INFO"})
WIRE_CHECK = "wire-schema-valid"
"""The check that every message of ours fits the schema of its revision."""
_FOLDER = re.compile(r"(?P<name>.+)-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d+Z")
"""The suite puts each run of a scenario into a folder with its name and time."""


@frozen
class Check:
    """One check of the suite."""

    id: str
    name: str
    status: str
    message: str

    def __str__(self) -> str:
        label = self.id if self.name == self.id else f"{self.id} ({self.name})"
        return f"{self.status} {label}" + (f": {self.message}" if self.message else "")


@frozen
class Verdict:
    """The verdict on one scenario."""

    scenario: Scenario
    counts: Mapping[str, int]
    """Checks by status."""
    faults: Sequence[str] = field(factory=list[str])
    """The faults; empty if the scenario has passed."""
    variant: str = ""
    """The configuration of our side, if it is not the default."""
    excuse: str = ""
    """The reason why the scenario had to fail, and did."""


def judge(scenario: Scenario, checks: Sequence[Check] | None, *, crash: str | None = None) -> Verdict:
    """Return the verdict.

    Args:
        checks: the recorded checks; None if the suite has recorded none.
        crash: the fault beside the checks, such as a client that exited with an error.
    """
    faults = [] if crash is None else [crash]
    if checks is None:
        return Verdict(scenario, {}, [*faults, "there are no results: the scenario did not run to its end"])
    counts = Counter(check.status for check in checks)
    faults += [str(check) for check in checks if _is_below_the_mark(check, scenario)]
    if scenario.is_watched and not any(check.id == WIRE_CHECK for check in checks):
        faults.append(f"{WIRE_CHECK} is missing: none of our messages was compared with the schema")
    if counts["SUCCESS"] < scenario.least:
        faults.append(f"{counts['SUCCESS']} checks succeeded where {scenario.least} should: some were not reached")
    return Verdict(scenario, counts, faults)


def expecting_failure(verdict: Verdict, why: str) -> Verdict:
    """Return the verdict on a scenario that has to fail: if it has passed, that is a fault."""
    if verdict.faults:
        return evolve(verdict, faults=[], excuse=why)
    return evolve(verdict, faults=[f"it passes, and is expected to fail: {why}"])


def _is_below_the_mark(check: Check, scenario: Scenario) -> bool:
    if check.status == "SKIPPED":
        return check.name not in scenario.skips
    return check.status not in STATUSES or check.status in {"FAILURE", "WARNING"}


def read_checks(text: str) -> list[Check]:
    """Read the text of a `checks.json`.

    Raises:
        ValueError: the text is not a list of checks.
    """
    content: Any = json.loads(text)
    try:
        return [
            Check(each["id"], each["name"], each["status"], str(each.get("errorMessage") or "")) for each in content
        ]
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"no list of checks: {type(error).__name__} {error}") from error


def read_results(folder: Path, *, prefix: str = "") -> dict[str, list[Check]]:
    """Return the checks that the suite has recorded in *folder*, by scenario; of several runs the latest.

    Args:
        prefix: the prefix that the suite adds to the names.
    """
    results: dict[str, list[Check]] = {}
    for file in sorted(folder.rglob("checks.json")):
        match = _FOLDER.fullmatch(file.parent.relative_to(folder).as_posix())
        if match is not None:
            results[match["name"].removeprefix(prefix)] = read_checks(file.read_text())
    return results
