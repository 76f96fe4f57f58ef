"""The report for people: one line for each scenario, and every fault."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .scenarios import Scenarios
from .verdicts import Verdict

__all__ = ["left_out", "summary", "table"]

_HEAD = ("scenario", "leg", "revision", "passed", "failed", "warned", "skipped", "")
_STATUSES = ("SUCCESS", "FAILURE", "WARNING", "SKIPPED")


def table(verdicts: Sequence[Verdict]) -> str:
    """Return a line for each of *verdicts*, followed by its faults."""
    rows = [_HEAD, *map(_row, verdicts)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = [_line(_HEAD, widths)]
    for verdict, row in zip(verdicts, rows[1:], strict=True):
        lines += [_line(row, widths), *(f"    {fault}" for fault in verdict.faults)]
        lines += [f"    {verdict.excuse}"] if verdict.excuse else []
    return "\n".join(lines)


def summary(verdicts: Sequence[Verdict]) -> str:
    """Return how many have passed, by leg and revision."""
    groups: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        group = f"{verdict.scenario.leg} {verdict.variant}".strip()
        groups.setdefault(f"{group} {verdict.scenario.revision}", []).append(verdict)
    return "\n".join(f"{group}: {_passed(verdicts)}" for group, verdicts in groups.items())


def left_out(scenarios: Scenarios, requested: Iterable[str]) -> str:
    """Return the scenarios of *requested* that are left out, by reason."""
    names: dict[str, set[str]] = {}
    for name in requested:
        if reason := scenarios.why_left_out(name):
            names.setdefault(reason, set()).add(name)
    return "\n".join(f"left out, because {reason}: {len(each)} scenarios" for reason, each in names.items())


def _passed(verdicts: Sequence[Verdict]) -> str:
    excused = sum(bool(verdict.excuse) for verdict in verdicts)
    passed = sum(not verdict.faults for verdict in verdicts) - excused
    return f"{passed} of {len(verdicts)}" + (f", and {excused} fails as expected" if excused else "")


def _row(verdict: Verdict) -> tuple[str, ...]:
    scenario, counts = verdict.scenario, verdict.counts
    numbers = (str(_count(counts, status)) for status in _STATUSES)
    leg = f"{scenario.leg} {verdict.variant}".strip()
    word = "BELOW THE MARK" if verdict.faults else "fails as expected" if verdict.excuse else "ok"
    return (scenario.name, leg, scenario.revision, *numbers, word)


def _count(counts: Mapping[str, int], status: str) -> int:
    return counts.get(status, 0)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
