"""The detection of growth: samples of each metric at rest, between repetitions of the same work.

Noise only adds: a thread that has not ended yet, garbage between two blocks of memory. So the least of several
samples is the real amount. The first third of a run warms up: caches fill and the allocator finds its size. From
the least of the second third to the least of the last third, a metric may grow only by its tolerance.
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
"""The tolerance of each metric. Memory is resident memory without files; objects are those that Python's garbage
collector tracks. Both may grow a little late: Python's allocator takes 1 MiB at a time. Worker threads are kept for
ten seconds after their work, which may be longer than a rest. The others are counts of held resources."""

_FEWEST = 6
"""The samples that a verdict needs: two for each third."""


@frozen(kw_only=True)
class Growth:
    """The growth of one metric of one process."""

    first: float
    """The first sample."""
    middle: float
    """The least of the second third."""
    last: float
    """The least of the last third."""
    allowed: float

    @property
    def grown(self) -> float:
        """The growth between the two thirds; negative if the metric has shrunk."""
        return self.last - self.middle

    @property
    def is_too_much(self) -> bool:
        """True if the growth is a leak."""
        return self.grown > self.allowed


def growth_of(metric: str, samples: Sequence[float]) -> Growth | None:
    """Return the growth of *metric* from its samples at rest, in order; None if there are too few samples."""
    if len(samples) < _FEWEST:
        return None
    third = len(samples) // 3
    return Growth(
        first=samples[0], middle=min(samples[-2 * third : -third]), last=min(samples[-third:]), allowed=ALLOWED[metric]
    )
