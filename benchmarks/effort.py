"""The durations and repetitions of the work: enough for figures, or just enough to test that it runs."""

from __future__ import annotations

import dataclasses

__all__ = ["FULL", "SMOKE", "Effort"]


@dataclasses.dataclass(frozen=True)
class Effort:
    """The amount of each work, with times in seconds. It is passed to other interpreters and to Node as JSON."""

    seconds: float
    """The time during which calls are made."""
    warm_up: float
    """The time of unmeasured calls before that."""
    repeats: int
    """The number of requests for a large answer."""
    updates: int
    """The progress notifications of one call."""
    cancels: int
    """The number of calls that are cancelled, in sequence."""
    clients: int
    """The number of clients of one HTTP server."""
    sessions: int
    """The number of idle sessions in memory."""
    calls: int
    """The number of calls of one session whose memory is measured, from the first fifth on."""
    cycles: int
    """The number of sessions in sequence whose memory is measured, from the first quarter on."""
    tasks: int
    """The number of open tasks of one server."""
    polls: int
    """The number of requests for the state of a task."""


FULL = Effort(
    seconds=0.7,
    warm_up=0.3,
    repeats=15,
    updates=1000,
    cancels=15,
    clients=100,
    sessions=1000,
    calls=50_000,
    cycles=2000,
    tasks=10_000,
    polls=5000,
)
SMOKE = Effort(
    seconds=0.02,
    warm_up=0,
    repeats=1,
    updates=20,
    cancels=1,
    clients=3,
    sessions=5,
    calls=100,
    cycles=8,
    tasks=5,
    polls=5,
)
