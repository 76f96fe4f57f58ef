"""``python -m soak --minutes N``: run over one or all transports, print a report, and fail on any fault."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import get_args

import trio

from .report import Report
from .run import Over, Pace, run
from .vitals import is_measurable

__all__ = ["main"]

_USUAL = Pace(total=0)


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="the duration of each run")
    parser.add_argument(
        "--over",
        choices=[*get_args(Over), "all"],
        default="all",
        help="the transport; all are run one after the other",
    )
    parser.add_argument("--seed", type=int, default=1, help="selects the actions")
    parser.add_argument(
        "--idle-seconds", type=float, default=_USUAL.idle, help="the measurement at rest after each fault; 0 omits it"
    )
    parser.add_argument("--busy-seconds", type=float, default=_USUAL.busy, help="the load of each round")
    parser.add_argument(
        "--rest-delay-seconds",
        type=float,
        default=_USUAL.rest_delay,
        help="the wait after a fault, before the measurement at rest",
    )
    parser.add_argument("--json", type=Path, help="the file for all measurements")
    return parser.parse_args(given)


async def _run_all(given: argparse.Namespace) -> list[Report]:
    pace = Pace(
        total=given.minutes * 60, busy=given.busy_seconds, rest_delay=given.rest_delay_seconds, idle=given.idle_seconds
    )
    chosen: list[Over] = [*get_args(Over)] if given.over == "all" else [given.over]
    reports: list[Report] = []
    for over in chosen:
        report = await run(over, pace, seed=given.seed, report_progress=partial(_print_progress, over))
        print("\n".join(report.lines()), flush=True)
        reports.append(report)
    return reports


def _print_progress(over: str, line: str) -> None:
    print(f"{over}: {line}", flush=True)


def main(given: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    arguments = _arguments(given)
    if not is_measurable():
        print("soak needs Linux, whose /proc shows the resources of processes", file=sys.stderr)
        return 2
    reports = trio.run(_run_all, arguments)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([report.json() for report in reports], indent=1) + "\n", encoding="utf-8")
    return 1 if any(report.failures for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
