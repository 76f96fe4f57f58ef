"""How long and how often the work is done: enough for figures, or just enough to see that it still runs."""

from __future__ import annotations

import dataclasses

__all__ = ["FULL", "SMOKE", "Effort"]


@dataclasses.dataclass(frozen=True)
class Effort:
    """How much of each work is done. Times are seconds. Goes to other interpreters, and to Node, as a JSON object."""

    seconds: float
    """How long calls are made."""
    warm_up: float
    """How long before that, unmeasured."""
    repeats: int
    """How often a large answer is asked for."""
    updates: int
    """Progress of one call."""
    cancels: int
    """Calls that are cancelled, one after the other."""
    clients: int
    """Clients of one HTTP server."""
    sessions: int
    """Sessions in memory that are open and idle."""
    calls: int
    """Calls of one session whose memory is watched; the watching begins after a fifth."""
    cycles: int
    """Sessions one after the other whose memory is watched; it begins after a quarter."""


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
)
SMOKE = Effort(seconds=0.02, warm_up=0, repeats=1, updates=20, cancels=1, clients=3, sessions=5, calls=100, cycles=8)
