"""Whether something grows: what is left of it at rest, again and again, while the same work is done.

Noise only ever adds: a thread that has not ended yet, garbage between two blocks of memory. So the least of several
samples is what was really held. The first third of a run warms up: caches fill and the allocator finds its size. From
the least of the second third to the least of the last one nothing may be added, beyond what the metric allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

__all__ = ["ALLOWED", "Growth", "growth_of"]

ALLOWED: Mapping[str, float] = {
    "memory_kib": 2048,
    "objects": 500,
    "tasks": 0,
    "descriptors": 0,
    "threads": 3,
    "processes": 0,
}
"""By how much each metric may grow. Memory is what is resident and no file; objects are those that Python's garbage
collector knows of. These two have room for what is learned late: Python's allocator takes 1 MiB at a time. Worker
threads are kept for ten seconds after their work, which may be longer than a rest. The others are counts of what
somebody holds."""

_FEWEST = 6
"""Samples that a verdict needs: two for each third."""


@frozen(kw_only=True)
class Growth:
    """How one metric of one process went."""

    first: float
    """The first sample."""
    middle: float
    """The least of the second third."""
    last: float
    """The least of the last third."""
    allowed: float

    @property
    def grown(self) -> float:
        """How much more there is in the end; below zero where there is less."""
        return self.last - self.middle

    @property
    def is_too_much(self) -> bool:
        """Whether that is a leak."""
        return self.grown > self.allowed


def growth_of(metric: str, samples: Sequence[float]) -> Growth | None:
    """Return how *metric* went, given its samples at rest in their order; None if they are too few to say."""
    if len(samples) < _FEWEST:
        return None
    third = len(samples) // 3
    return Growth(
        first=samples[0], middle=min(samples[-2 * third : -third]), last=min(samples[-third:]), allowed=ALLOWED[metric]
    )
