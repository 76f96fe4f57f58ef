"""The soak run: a short run over each transport, its report, and its failures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from soak.accounting import account_for
from soak.growth import ALLOWED
from soak.journal import Entry
from soak.report import Report, Rest
from soak.vitals import cpu_ms, is_measurable, os_vitals

ROOT = Path(__file__).parents[2]

needs_linux = pytest.mark.skipif(not is_measurable(), reason="the resources of processes are read from /proc")

GOOD = Report(
    over="stdio",
    seed=1,
    seconds=60,
    account=account_for([Entry(1, "asked", "cut call"), Entry(1, "got", "lost: it was cut")]),
    samples={"server": {metric: [9.0] * 6 for metric in ALLOWED}},
    rests=[Rest("hung up", 3, {"client": 0.5})],
    known_faults=("hung up",),
)


@needs_linux
@pytest.mark.parametrize("over", ["stdio", "http", "websocket"])
async def test_a_short_run_accounts_for_every_call(over: str, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    short = ("--minutes", "0", "--busy-seconds", "0.8", "--rest-delay-seconds", "0.2", "--idle-seconds", "0")
    command = [sys.executable, "-m", "soak", *short, "--over", over, "--json", str(file)]

    done = await trio.run_process(command, cwd=ROOT, capture_stdout=True, check=False)

    printed = done.stdout.decode()
    assert done.returncode == 0, printed
    assert printed.splitlines()[-1] == "passed"
    (report,) = read_json(file)
    assert (report["over"], report["failures"]) == (over, [])
    assert report["outcomes"]["answered"] > 10
    assert {"client"} < report["samples"].keys()
    assert all(samples.keys() == ALLOWED.keys() for samples in report["samples"].values())


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def test_a_run_without_faults_passes() -> None:
    lines = [*GOOD.lines()]

    assert GOOD.failures == []
    assert lines[0] == "soak over stdio: 60 s, seed 1, 1 calls: 1 lost"
    assert lines[-1] == "passed"


def test_a_run_fails_when_a_metric_grows() -> None:
    report = attrs.evolve(GOOD, samples={"server": {"descriptors": [7, 7, 7, 7, 9, 9]}})

    assert report.failures == ["descriptors of the server grew by 2, and may grow by 0"]


def test_a_run_fails_when_a_process_does_not_rest() -> None:
    report = attrs.evolve(GOOD, rests=[Rest("hung up", 30, {"client": 9.0, "server": 12.5})])

    assert report.failures == ["after the fault 'hung up' the server used 12.5 ms of CPU in 30 s of rest"]


def test_a_run_fails_when_a_call_is_not_accounted_for() -> None:
    report = attrs.evolve(GOOD, account=account_for(Entry(n, "asked", "safe call") for n in range(100)))

    assert report.failures[0] == "call 0 (safe call) has no outcome: its answer is lost"
    assert report.failures[-1] == "... and 50 more of these"
    assert "FAILED: ... and 50 more of these" in report.lines()


def test_the_report_is_available_as_json() -> None:
    report = json.loads(json.dumps(GOOD.json()))

    assert report["calls"] == 1
    assert report["rests"] == [{"fault": "hung up", "seconds": 3, "used": {"client": 0.5}, "limit": pytest.approx(2.8)}]
    assert {each["metric"] for each in report["growth"]} == ALLOWED.keys()


def test_faults_that_were_not_applied_are_reported() -> None:
    report = attrs.evolve(GOOD, rests=[], known_faults=("hung up", "slow reader"))

    assert "too few rounds for rest after: hung up, slow reader" in report.lines()


@needs_linux
async def test_the_resources_of_another_process_are_measured() -> None:
    waits = "import os, sys; held = [os.dup(0) for _ in range(50)]; print('here', flush=True); sys.stdin.read()"
    command = [sys.executable, "-I", "-S", "-c", waits]  # isolated from the packages of this environment
    process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    async with process.stdin, process.stdout:
        assert await process.stdout.receive_some() == b"here\n"
        vitals = os_vitals(process.pid)
        assert (vitals.descriptors, vitals.threads, vitals.processes) == (53, 1, 0)
        assert 500 < vitals.memory_kib < 200_000
        assert cpu_ms(process.pid) > 0
    await process.wait()
    with pytest.raises(OSError, match=r".+"):
        os_vitals(process.pid)
    with pytest.raises(OSError, match=r".+"):
        cpu_ms(process.pid)
