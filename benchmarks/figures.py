"""The statistics of the figures. It uses only modules of the standard library that load fast."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

__all__ = ["Spread", "percentile"]


def percentile(values: Sequence[float], part: float) -> float:
    """Return the smallest value that is at least as large as this part of all values; a median of two is the lower one.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("no values")
    return sorted(values)[max(0, math.ceil(part * len(values)) - 1)]


@dataclasses.dataclass(frozen=True)
class Spread:
    """One figure over all rounds."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of these values; the median of an even number lies between the two in the middle.

        Raises:
            ValueError: there are no values.
        """
        if not values:
            raise ValueError("no values")
        ordered = sorted(values)
        half = len(ordered) // 2
        median = ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
        return cls(median, ordered[0], ordered[-1])
