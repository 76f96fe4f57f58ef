"""The report of a run: a verdict, a short table, and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
from attrs import frozen

from .accounting import Account
from .growth import Growth, growth_of

__all__ = ["Report", "Rest", "idle_limit"]

_WAKE_UPS_MS = 2.0
_PER_SECOND_MS = 8.0 / 30


def idle_limit(seconds: float) -> float:
    """Return the CPU time in milliseconds that a process may use at rest: 10 ms in 30 seconds.

    Of these, 2 ms are for a single wake-up and allowed for any duration.
    """
    return _WAKE_UPS_MS + _PER_SECOND_MS * seconds


@frozen
class Rest:
    """The CPU time at rest after a fault."""

    fault: str
    seconds: float
    """The duration of the measurement; 0 without one."""
    used: Mapping[str, float]
    """Milliseconds by process."""

    @property
    def restless(self) -> Mapping[str, float]:
        """The processes that used too much."""
        return {name: used for name, used in self.used.items() if used >= idle_limit(self.seconds)}


@frozen
class Report:
    """The results of one run."""

    over: str
    seed: int
    seconds: float
    account: Account
    samples: Mapping[str, Mapping[str, Sequence[float]]]
    """The samples at rest, by process and metric, in the order of the rounds."""
    rests: Sequence[Rest]
    known_faults: Sequence[str]
    """The faults of the place. A short run does not reach all of them."""

    @property
    def growth(self) -> Iterator[tuple[str, str, Growth]]:
        """The growth of each metric of each process, if there are enough samples."""
        for process, metrics in self.samples.items():
            for metric, samples in metrics.items():
                if (growth := growth_of(metric, samples)) is not None:
                    yield process, metric, growth

    @property
    def failures(self) -> list[str]:
        """The faults of the run, as sentences."""
        found = list(self.account.faults)
        if self.account.wrong > len(found):
            found.append(f"... and {self.account.wrong - len(found)} more of these")
        found += [
            f"{metric} of the {process} grew by {growth.grown:g}, and may grow by {growth.allowed:g}"
            for process, metric, growth in self.growth
            if growth.is_too_much
        ]
        found += [
            f"after the fault {rest.fault!r} the {process} used {used:.1f} ms of CPU in {rest.seconds:g} s of rest"
            for rest in self.rests
            for process, used in rest.restless.items()
        ]
        return found

    def lines(self) -> Iterator[str]:
        """Yield the report for people, line by line."""
        outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(self.account.outcomes.items()))
        yield f"soak over {self.over}: {self.seconds:.0f} s, seed {self.seed}, {self.account.calls:,} calls: {outcomes}"
        yield from _growth_lines(self)
        yield from _rest_lines(self)
        yield from (f"FAILED: {failure}" for failure in self.failures)
        if not self.failures:
            yield "passed"

    def json(self) -> dict[str, Any]:
        """Return everything, as JSON values."""
        growth = [
            {"process": process, "metric": metric, "grown": each.grown, **attrs.asdict(each)}
            for process, metric, each in self.growth
        ]
        rests = [{**attrs.asdict(rest), "limit": idle_limit(rest.seconds)} for rest in self.rests]
        return {
            "over": self.over,
            "seed": self.seed,
            "seconds": self.seconds,
            "calls": self.account.calls,
            "outcomes": dict(self.account.outcomes),
            "kinds": dict(self.account.kinds),
            "failures": self.failures,
            "growth": growth,
            "samples": {process: dict(metrics) for process, metrics in self.samples.items()},
            "rests": rests,
        }


def _growth_lines(report: Report) -> Iterator[str]:
    rows = [
        (
            process,
            metric,
            f"{each.first:,g}",
            f"{each.middle:,g}",
            f"{each.last:,g}",
            f"{each.grown:+,g}",
            f"{each.allowed:,g}",
        )
        for process, metric, each in report.growth
    ]
    if not rows:
        yield "too few rounds to tell whether anything grows"
        return
    yield from _table(("held at rest", "", "first", "middle", "last", "growth", "allowed"), rows)


def _rest_lines(report: Report) -> Iterator[str]:
    worst: dict[tuple[str, str], list[float]] = {}
    for rest in report.rests:
        for process, used in rest.used.items():
            worst.setdefault((rest.fault, process), []).append(used)
    if worst:
        limit = idle_limit(max(rest.seconds for rest in report.rests))
        rows = [
            (fault, process, f"{len(used)}", f"{max(used):.2f} ms", f"{limit:.2f} ms")
            for (fault, process), used in worst.items()
        ]
        yield from _table(("CPU at rest after", "", "times", "most", "limit"), rows)
    missing = [fault for fault in report.known_faults if fault not in {rest.fault for rest in report.rests}]
    if missing:
        yield f"too few rounds for rest after: {', '.join(missing)}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    for row in [head, *rows]:
        names = [cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
        figures = [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
        yield "  ".join([*names, *figures])
