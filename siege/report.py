"""The report of a siege: a line for each attack, and the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from .records import CALL, HOSTILE, NEWCOMER, Record, percentile, within

__all__ = ["REST", "Limits", "Phase", "Report", "Stop"]

REST = "rest"
"""The name of the phase before the first attack."""
MEBIBYTE = 2**10
"""In KiB, in which the system counts memory."""
_MOST_FAULTS = 5
"""The faults of one phase that the report quotes."""


@frozen(kw_only=True)
class Limits:
    """The bounds of a siege."""

    times: float = 10.0
    """How many times the p99 at rest the p99 during an attack may be."""
    floor_seconds: float = 0.005
    """The least p99 at rest that is counted with, so that the noise of a fast machine does not decide."""
    log_lines_per_second: float = 20.0
    lines_of_traceback: int = 100
    """The lines that one failure of the server's own code may write beyond that."""
    memory_mib: int = 768
    """The growth of the server's memory: three times its budget for bodies and unread answers."""


@frozen(kw_only=True)
class Phase:
    """One attack, or the rest before the first."""

    name: str
    begin: float
    end: float
    """The end of the attack."""
    until: float
    """The begin of the next phase: faults between the two belong to this one."""
    outcomes: Mapping[str, int] = field(factory=dict[str, int])
    """The attacker's responses, by status, and its connections that were cut."""
    breaches: Sequence[str] = ()
    memory_kib: int = 0
    """The most memory of the server."""
    memory_before_kib: int = 0
    """Its memory when the attack began: what an earlier attack has left is not counted again."""
    files: int = 0
    """The most open files of the server."""
    log_lines: int = 0
    tracebacks: int = 0
    """The failures of the server's own code that the attacker caused."""
    failures: Sequence[str] = ()
    """What went wrong with the attack itself, or with the server."""

    @property
    def seconds(self) -> float:
        """The duration of the attack."""
        return self.end - self.begin


@frozen(kw_only=True)
class Stop:
    """The stop of the server at the end, with a handler that goes on."""

    status: int | None
    """The exit status of the server; None if it did not end."""
    expected_status: int
    seconds: float
    allowed_seconds: float
    in_flight: Sequence[Record]
    """The ordinary calls that ran when the signal came."""
    expected_in_flight: int

    @property
    def failures(self) -> Iterator[str]:
        """What went wrong."""
        if self.status is None:
            yield f"stop: the server did not end within {self.allowed_seconds:g} s"
        elif self.status != self.expected_status:
            yield f"stop: the server ended with the status {self.status}, and {self.expected_status} is expected"
        answered = sum(1 for record in self.in_flight if record.fault is None)
        if answered != self.expected_in_flight:
            faults = "; ".join(sorted({record.fault for record in self.in_flight if record.fault})[:_MOST_FAULTS])
            yield f"stop: {answered} of {self.expected_in_flight} calls in flight were answered: {faults}"


@frozen(kw_only=True)
class Report:
    """The results of a siege."""

    rest: Phase
    attacks: Sequence[Phase]
    records: Sequence[Record]
    stop: Stop | None
    limits: Limits = Limits()

    def _latencies(self, phase: Phase, kind: str = CALL) -> list[float]:
        return [record.seconds for record in within(self.records, phase.begin, phase.end) if record.kind == kind]

    @property
    def allowed_seconds(self) -> float:
        """The p99 that no attack may exceed."""
        rest = percentile(self._latencies(self.rest), 0.99)
        return self.limits.times * max(rest, self.limits.floor_seconds)

    @property
    def failures(self) -> list[str]:
        """The faults of the siege, as sentences."""
        found = [sentence for phase in (self.rest, *self.attacks) for sentence in self._failures_of(phase)]
        return [*found, *(self.stop.failures if self.stop else ())]

    def _failures_of(self, phase: Phase) -> Iterator[str]:
        yield from (f"{phase.name}: {sentence}" for sentence in (*phase.failures, *phase.breaches))
        latencies = self._latencies(phase)
        p99 = percentile(latencies, 0.99)
        if not latencies:
            yield f"{phase.name}: the ordinary user made no call"
        elif phase is not self.rest and p99 > self.allowed_seconds:
            yield (
                f"{phase.name}: the p99 of the ordinary user was {p99 * 1000:.0f} ms, "
                f"and may be {self.allowed_seconds * 1000:.0f} ms"
            )
        faults = Counter(
            f"{record.what}: {record.fault}"
            for record in within(self.records, phase.begin, phase.until)
            if record.fault is not None and record.kind != HOSTILE
        )
        yield from (f"{phase.name}: {number} times {fault}" for fault, number in faults.most_common(_MOST_FAULTS))
        if faults.total() and len(faults) > _MOST_FAULTS:
            yield f"{phase.name}: {faults.total()} calls of the ordinary user failed in all"
        yield from self._excesses(phase)

    def _excesses(self, phase: Phase) -> Iterator[str]:
        lines = self.limits.log_lines_per_second * phase.seconds + self.limits.lines_of_traceback * phase.tracebacks
        if phase.log_lines > lines:
            yield f"{phase.name}: the server wrote {phase.log_lines} lines into its log, and may write {lines:.0f}"
        grown = (phase.memory_kib - phase.memory_before_kib) / MEBIBYTE
        if grown > self.limits.memory_mib:
            yield f"{phase.name}: the memory of the server grew by {grown:.0f} MiB"

    def lines(self) -> Iterator[str]:
        """Yield the report for people, line by line."""
        calls = sum(1 for record in self.records if record.kind != HOSTILE)
        yield f"siege: {len(self.attacks)} attacks, {calls:,} calls of the ordinary user"
        head = ("attack", "p50", "p99", "to rest", "connect", "memory", "files", "log", "the attacker saw")
        rows = [head, *(self._row(phase) for phase in (self.rest, *self.attacks))]
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        for name, *figures, seen in rows:
            cells = [figure.rjust(width) for figure, width in zip(figures, widths[1:-1], strict=True)]
            yield "  ".join([name.ljust(widths[0]), *cells, seen]).rstrip()
        yield (
            f"allowed is a p99 of {self.allowed_seconds * 1000:.0f} ms: {self.limits.times:g} times that at rest, "
            f"which counts as at least {self.limits.floor_seconds * 1000:g} ms"
        )
        if self.stop:
            yield f"stop: status {self.stop.status} after {self.stop.seconds:.1f} s of {self.stop.allowed_seconds:g} s"
        yield from (f"FAILED: {failure}" for failure in self.failures)
        if not self.failures:
            yield "passed"

    def _row(self, phase: Phase) -> Sequence[str]:
        latencies, rest = self._latencies(phase), self._latencies(self.rest)
        p99 = percentile(latencies, 0.99)
        ratio = p99 / max(percentile(rest, 0.99), self.limits.floor_seconds)
        seen = ", ".join(f"{number:,} {outcome}" for outcome, number in sorted(phase.outcomes.items()))
        return (
            phase.name,
            f"{percentile(latencies, 0.5) * 1000:.1f} ms",
            f"{p99 * 1000:.1f} ms",
            f"{ratio:.1f}",
            f"{percentile(self._latencies(phase, NEWCOMER), 1.0) * 1000:.0f} ms",
            f"{phase.memory_kib / MEBIBYTE:.0f} MiB",
            str(phase.files),
            str(phase.log_lines),
            seen,
        )

    def json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        return {
            "failures": self.failures,
            "allowed_seconds": self.allowed_seconds,
            "phases": {
                phase.name: {
                    "p50": percentile(self._latencies(phase), 0.5),
                    "p99": percentile(self._latencies(phase), 0.99),
                    "calls": len(self._latencies(phase)),
                    "outcomes": dict(phase.outcomes),
                    "memory_kib": phase.memory_kib,
                    "files": phase.files,
                    "log_lines": phase.log_lines,
                }
                for phase in (self.rest, *self.attacks)
            },
        }
