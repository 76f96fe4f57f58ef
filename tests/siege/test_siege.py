"""A short siege: the processes of all parties, two attacks, and no measurement."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import trio

from soak.vitals import is_measurable

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not is_measurable(), reason="the resources of processes are read from /proc")
async def test_a_short_siege_passes(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    short = ("--seconds-per-attack", "1", "--rest-seconds", "0.5", "--settle-seconds", "0.2", "--times", "inf")
    command = [sys.executable, "-m", "siege", *short, "--only", "exceptions", "--only", "theft", "--json", str(file)]

    done = await trio.run_process(command, cwd=ROOT, capture_stdout=True, check=False)

    printed = done.stdout.decode()
    assert done.returncode == 0, printed
    assert printed.splitlines()[-1] == "passed"
    report = json.loads(file.read_text())
    assert [*report["phases"]] == ["rest", "exceptions", "theft"]
    assert all(phase["calls"] > 0 for phase in report["phases"].values())
    assert report["phases"]["exceptions"]["outcomes"]["200"] > 0
