"""The path of a call through the files of the package, and its limits."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from benchmarks.call_path import FOLLOWERS, LIMITS, CallPath, Step, main

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("transport", FOLLOWERS)
def test_a_call_stays_within_the_limits_of_its_transport(transport: str) -> None:
    limits = LIMITS[transport]

    command = [sys.executable, "-m", "benchmarks.call_path", transport]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True, timeout=60)

    counts = re.fullmatch(r" *(\d+) files, (\d+) changes of file", done.stdout.splitlines()[-1])
    assert counts is not None
    files, changes = map(int, counts.groups())
    assert files <= limits.files
    assert limits.changes is None or changes <= limits.changes


@pytest.mark.parametrize("transport", FOLLOWERS)
def test_a_path_begins_in_the_client_and_passes_the_server(transport: str) -> None:
    path = trio.run(FOLLOWERS[transport])

    assert path.files[0].startswith("client/")
    assert any(file.startswith("server/") for file in path.files)
    assert any(file.startswith("transports/http/") for file in path.files) == (transport == "http")


def test_the_map_has_a_line_for_each_step_and_ends_with_the_counts() -> None:
    path = CallPath([Step("a.py", ("f", "g")), Step("b.py", ("h",)), Step("a.py", ("f",))])

    assert path.files == ["a.py", "b.py"]
    assert [line.split() for line in path.lines()] == [
        ["a.py", "f,", "g"],
        ["b.py", "h"],
        ["a.py", "f"],
        ["2", "files,", "2", "changes", "of", "file"],
    ]


def test_an_empty_path_has_no_changes() -> None:
    assert (CallPath().files, CallPath().changes) == ([], 0)


def test_the_program_prints_the_map_of_the_named_transport(capsys: pytest.CaptureFixture[str]) -> None:
    main(["link"])

    first, *_, last = capsys.readouterr().out.splitlines()
    assert first == "tools/call over link:"
    assert last.endswith("changes of file")
