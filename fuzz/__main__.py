"""The command line: `python -m fuzz`, with `--seconds N` or `--runs N` for each target, and `--target NAME`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from itertools import repeat
from pathlib import Path

from fuzz.runner import Verdict, run_guided, run_unguided
from fuzz.targets import TARGETS

_RUNS = 3_000
"""The default number of inputs for each target: always the same inputs, so that a passed run passes again."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit status: 0, or 1 if an input breaks a target."""
    options = _parser().parse_args(arguments)
    if options.replay is not None:
        return _replay(options.replay)
    guided = not options.unguided and find_spec("atheris") is not None
    print(
        "guided by atheris"
        if guided
        else "atheris is not installed: hypothesis searches, without knowledge of branches"
    )
    runs = options.runs or (None if options.seconds else _RUNS)
    run = partial(run_guided if guided else run_unguided, runs=runs, seconds=options.seconds)
    with tempfile.TemporaryDirectory() as emptied, ThreadPoolExecutor(options.jobs) as pool:
        # Interesting inputs are kept for later runs, but not for a reproducible run.
        folder = options.work if runs is None and options.work is not None else Path(emptied)
        crashes = (options.work or Path(tempfile.gettempdir())) / "crashes"
        targets: Sequence[str] = options.target or TARGETS
        verdicts = pool.map(run, targets, repeat(folder), repeat(crashes))
        return max(map(_report, verdicts))


def _report(verdict: Verdict) -> int:
    print(f"{verdict.target:<16}{verdict.executed:>12,} executions  {'ok' if verdict.passed else 'BROKEN'}", flush=True)
    if verdict.passed:
        return 0
    print(verdict.output)
    if verdict.crash is not None:
        print(f"saved: {verdict.crash}\nagain: python -m fuzz --replay {verdict.target} {verdict.crash}")
        print(f"after the fix, move the file to fuzz/regressions/{verdict.target}/, which a test runs", flush=True)
    return 1


def _replay(named: list[str]) -> int:
    from fuzz.targets import load  # noqa: PLC0415 # after the options, because a target may take long to load

    target, *files = named
    for file in files:
        load(target)(Path(file).read_bytes())
    print(f"{target}: {len(files)} inputs break nothing")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Look for bytes that break a property.")
    parser.add_argument("--seconds", type=int, metavar="N", help="search each target for N seconds")
    parser.add_argument(
        "--runs", type=int, metavar="N", help=f"try N inputs of each target, the same in each run ({_RUNS} by default)"
    )
    parser.add_argument(
        "--target", action="append", choices=TARGETS, help="a target to search; may be repeated; all by default"
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), metavar="N", help="the number of targets that run at once"
    )
    parser.add_argument(
        "--work", type=Path, metavar="DIR", help="the folder for interesting inputs; crashes go to DIR/crashes"
    )
    parser.add_argument("--unguided", action="store_true", help="use hypothesis even if atheris is installed")
    parser.add_argument("--replay", nargs="+", metavar=("TARGET", "FILE"), help="run a target with these inputs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
