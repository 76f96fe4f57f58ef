"""``python -m siege``: besiege one server with every attack in turn, print a report, and fail on any fault."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import trio

from soak.vitals import is_measurable

from .attacker import ATTACKS
from .report import Limits
from .run import STOP, Pace, run

__all__ = ["main"]

_USUAL = Pace()


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="siege", description=__doc__)
    parser.add_argument("--seconds-per-attack", type=float, default=_USUAL.attack, help="the duration of each attack")
    parser.add_argument("--rest-seconds", type=float, default=_USUAL.rest, help="the rest before the first attack")
    parser.add_argument("--settle-seconds", type=float, default=_USUAL.settle, help="the pause after each attack")
    parser.add_argument(
        "--only",
        action="append",
        choices=[*ATTACKS, STOP],
        metavar="NAME",
        help=f"one of: {', '.join([*ATTACKS, STOP])}; may be given several times",
    )
    parser.add_argument(
        "--times", type=float, default=Limits().times, help="the p99 that is allowed, in times of the one at rest"
    )
    parser.add_argument(
        "--folder",
        type=Path,
        help="an empty folder for the server's log and the user's records, which stay",
    )
    parser.add_argument("--json", type=Path, help="the file for all figures")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    arguments = _arguments(given)
    if not is_measurable():
        print("siege needs Linux, whose /proc shows the resources of processes", file=sys.stderr)
        return 2
    pace = Pace(rest=arguments.rest_seconds, attack=arguments.seconds_per_attack, settle=arguments.settle_seconds)
    names = [name for name in [*ATTACKS, STOP] if not arguments.only or name in arguments.only]
    with tempfile.TemporaryDirectory() as temporary:
        folder: Path = arguments.folder or Path(temporary)
        report_progress = partial(print, flush=True)
        besiege = partial(run, folder=folder, report_progress=report_progress)
        report = trio.run(besiege, names, pace, Limits(times=arguments.times))
    print("\n".join(report.lines()), flush=True)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(report.json(), indent=1) + "\n", encoding="utf-8")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
