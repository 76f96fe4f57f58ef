"""The command of the benchmark: it measures cells in rounds, prints tables and the budget, and saves the figures.

::

    python -m benchmarks.run --peers DIR --rounds 3 --json figures.json --check
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from . import budget, effort, table
from .about import about
from .cells import CELLS, SMOKE, SMOKE_WITHOUT, Cell, chosen, plan
from .launch import CellFailed, Launcher
from .results import Results

__all__ = ["main", "replaced"]

README = Path(__file__).parent / "README.md"
BEGIN, END = "<!-- figures: written by --write -->", "<!-- end of figures -->"


def main() -> int:
    """Run the command line; the status is 1 if a cell has failed, independent of the figures."""
    options = _options()
    if options.list:
        print("\n".join(map(str, CELLS)))
        return 0
    results = _measured(options) if options.figures is None else Results.load(options.figures)
    tables, promises = table.markdown(results), budget.markdown(results)
    if not options.smoke:
        print(tables)
    if options.check:
        print(promises)
    if options.write:
        text = f"{tables}\n**The budget**\n\n{promises}"
        README.write_text(replaced(README.read_text(), text))
    return 1 if results.failures else 0


def replaced(readme: str, text: str) -> str:
    """Return the README with its tables replaced.

    Raises:
        ValueError: it has no place for them.
    """
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the README has no lines {BEGIN!r} and {END!r}")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description="Measure this project beside others, on the same work.")
    parser.add_argument("--cells", nargs="+", metavar="PATTERN", help="such as stdio-*, list:ours/*; all by default")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="3 by default")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the figures")
    parser.add_argument("--from", type=Path, dest="figures", metavar="FILE", help="measure nothing; use kept figures")
    parser.add_argument("--check", action="store_true", help="print the budget and which rows hold")
    parser.add_argument("--write", action="store_true", help="put the tables into benchmarks/README.md")
    parser.add_argument("--smoke", action="store_true", help="run everything with little work, to test that it runs")
    parser.add_argument("--list", action="store_true", help="print the names of all cells")
    parser.add_argument("--peers", type=Path, metavar="DIR", help="the folder in which the peers are installed")
    return parser.parse_args()


def _measured(options: argparse.Namespace) -> Results:
    launcher = Launcher(options.peers, effort.SMOKE if options.smoke else effort.FULL)
    launcher.prepare()
    wanted = _wanted(options)
    missing = {cell: launcher.missing(cell) for cell in wanted}
    cells = [cell for cell, name in missing.items() if name is None]
    for name in sorted({name for name in missing.values() if name is not None}):
        print(f"LEFT OUT: {name} is not installed", file=sys.stderr)
    rounds = 1 if options.smoke else options.rounds
    results = Results(about(launcher, rounds))
    runs = list(plan(cells, rounds))
    for number, cell in enumerate(runs, 1):
        _run(launcher, cell, results, f"{number}/{len(runs)}")
        if options.json is not None:
            results.save(options.json)  # after each cell, so that an interrupted run keeps its figures
    return results


def _wanted(options: argparse.Namespace) -> list[Cell]:
    try:
        wanted = chosen(options.cells) if options.cells else list(CELLS)
    except LookupError as unknown:
        sys.exit(f"bench: {unknown}")
    little = {cell for cell in chosen(SMOKE) if cell.work not in SMOKE_WITHOUT}
    return [cell for cell in wanted if cell in little] if options.smoke else wanted


def _run(launcher: Launcher, cell: Cell, results: Results, number: str) -> None:
    began = time.monotonic()
    try:
        figures = launcher.run(cell)
    except CellFailed as failure:
        results.failures[cell] = str(failure)
        print(f"{number} {cell} FAILED: {failure}", file=sys.stderr)
        return
    results.add(cell, figures)
    shown = ", ".join(f"{name} {value:,.4g}" for name, value in figures.items())
    print(f"{number} {cell} ({time.monotonic() - began:.1f} s): {shown}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
