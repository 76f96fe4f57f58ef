"""The same search without atheris: hypothesis generates inputs from the corpus, without knowledge of branches.

A child process like `fuzz.guided`: `python -m fuzz.unguided`.
"""

from __future__ import annotations

import logging
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from fuzz.targets import load

__all__ = ["inputs", "search"]

_AT_ONCE = 500
"""The number of inputs between two checks of the clock."""


@st.composite
def _changed(draw: st.DrawFn, corpus: Sequence[bytes], longest: int) -> bytes:
    """An input of the corpus with some places of it changed."""
    data = draw(st.sampled_from(corpus))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        data = data[:start] + draw(st.binary(max_size=8)) + data[start + draw(st.integers(0, 8)) :]
    return data[:longest]


def inputs(corpus: Sequence[bytes], longest: int) -> st.SearchStrategy[bytes]:
    """Return a strategy for inputs of up to *longest* bytes: arbitrary ones, and mutated ones of the corpus."""
    anything = st.binary(max_size=longest)
    return anything | _changed(corpus, longest) if corpus else anything


def search(
    target: Callable[[bytes], None],
    corpus: Sequence[bytes],
    longest: int,
    *,
    runs: int | None = None,
    seconds: float | None = None,
) -> tuple[int, bytes | None]:
    """Search for an input that breaks *target*, for a number of runs or for a time.

    Returns:
        The number of inputs tried, and the simplest one found that breaks the target.
    """
    executed, broken = 0, None
    started, seed = monotonic(), 0 if seconds is None else random.getrandbits(32)

    def once(data: bytes) -> None:
        nonlocal executed, broken
        executed += 1
        try:
            target(data)
        except BaseException:
            broken = data  # the last one is the simplest, which hypothesis runs once more
            raise

    while (executed < runs) if runs is not None else (monotonic() - started < (seconds or 0)):
        seed += 1
        left = _AT_ONCE if runs is None else min(_AT_ONCE, runs - executed)
        try:
            _look(once, inputs(corpus, longest), left, seed)
        except Exception:
            if broken is None:
                raise
            return executed, broken
    return executed, None


def _look(once: Callable[[bytes], None], strategy: st.SearchStrategy[bytes], runs: int, seed: int) -> None:
    bounded = settings(
        max_examples=runs,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    seeded(seed)(bounded(given(strategy)(once)))()


def main(name: str, longest: int, runs: int | None, seconds: int | None, crash: Path, known: Sequence[Path]) -> int:
    """Search, and print the number of inputs tried; if one breaks the target, write it to a file and return 1."""
    logging.disable()
    corpus = [path.read_bytes() for path in known]
    executed, broken = search(load(name), corpus, longest, runs=runs, seconds=seconds)
    print(f"stat::number_of_executed_units: {executed}")
    if broken is None:
        return 0
    crash.write_bytes(broken)
    try:
        load(name)(broken)
    finally:  # every exception is printed
        print(f"broken by {broken[:200]!r}")
    return 1


if __name__ == "__main__":
    _, target_, longest_, runs_, seconds_, crash_, *known_ = sys.argv
    limits = (int(runs_) if runs_ else None, int(seconds_) if seconds_ else None)
    sys.exit(main(target_, int(longest_), *limits, Path(crash_), list(map(Path, known_))))
