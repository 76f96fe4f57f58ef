"""The figures as Markdown: a table for each work, with the ratios to this project."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .cells import FIGURES, WORKS, Work
from .figures import Spread
from .results import Results

__all__ = ["markdown", "reference"]


def markdown(results: Results) -> str:
    """Return all tables of the measurement."""
    return "\n".join([*_about(results), *_tables(results), *_failures(results)])


def reference(work: Work, contender: str) -> str:
    """Return the contender of this project for a comparison: of the same era, or else of 2025."""
    if work.name == "import":
        return "ours-server" if contender.endswith("-server") else "ours-client"
    return f"ours/{contender[-4:]}" if contender.endswith(("/2025", "/2026")) else "ours/2025"


def _about(results: Results) -> Iterator[str]:
    for name, value in results.about.items():
        yield f"- {name}: {value}"
    yield ""
    yield "Each figure is the median over the rounds, with the least and the most where they differ."
    yield "`x ours` is how many times slower (or larger) than this project in the same era."
    yield ""


def _tables(results: Results) -> Iterator[str]:
    for work in WORKS.values():
        names = [each for each in work.contenders if results.spread(work.name, each, work.main) is not None]
        if names:
            yield f"**{work.title}** (`{work.name}`)"
            yield ""
            yield from _table(results, work, names)
            yield ""


def _table(results: Results, work: Work, names: Sequence[str]) -> Iterator[str]:
    keys = [key for key in FIGURES if any(results.spread(work.name, name, key) for name in names)]
    yield _row(["", *(FIGURES[key].label for key in keys), "x ours"])
    yield _row(["---", *["--:" for _ in keys], "--:"])
    for name in names:
        cells = [_spread(results.spread(work.name, name, key), FIGURES[key].digits) for key in keys]
        yield _row([f"**{name}**" if name.startswith("ours") else name, *cells, _slower(results, work, name)])


def _slower(results: Results, work: Work, name: str) -> str:
    ours = reference(work, name)
    better = FIGURES[work.main].more_is_better
    ratio = results.ratio(work.name, work.main, *((ours, name) if better else (name, ours)))
    return "" if ratio is None else f"{ratio:.2f}"


def _spread(spread: Spread | None, digits: int) -> str:
    if spread is None:
        return ""
    median, least, most = (f"{value:,.{digits}f}" for value in (spread.median, spread.least, spread.most))
    return median if least == most else f"{median} ({least} to {most})"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _failures(results: Results) -> Iterator[str]:
    for cell, text in results.failures.items():
        yield f"`{cell}` failed: {text.strip().splitlines()[-1] if text.strip() else 'it printed nothing'}"
