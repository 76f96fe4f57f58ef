"""The fuzz targets pass the inputs in the repository, and the search finds an input that breaks a target."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.effort import effort
from fuzz.runner import CORPORA, REGRESSIONS, known_inputs, run_unguided
from fuzz.source import Source
from fuzz.targets import TARGETS, load
from fuzz.unguided import search

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_passes_the_corpus_and_former_crashes(name: str) -> None:
    target, inputs = load(name), known_inputs(name)

    assert len(inputs) >= 5
    for path in inputs:
        target(path.read_bytes())


def test_every_corpus_folder_has_a_target() -> None:
    folders = {path.name for folder in (CORPORA, REGRESSIONS) if folder.is_dir() for path in folder.iterdir()}

    assert folders == set(TARGETS)


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_passes_random_inputs(name: str) -> None:
    known = [path.read_bytes() for path in known_inputs(name)]

    executed, broken = search(load(name), known, 200, runs=40)

    assert broken is None
    assert executed >= 40


def test_the_search_returns_the_simplest_input_that_breaks_a_target() -> None:
    def target(data: bytes) -> None:
        assert b"\x07" not in data

    executed, broken = search(target, [b"seven: \x07?"], 50, runs=500)

    assert broken == b"\x07"
    assert executed > 0


def test_a_search_with_a_time_limit_ends() -> None:
    executed, broken = search(lambda _: None, [], 10, seconds=1)

    assert executed > 0
    assert broken is None


def test_a_search_runs_in_its_own_process(tmp_path: Path) -> None:
    verdict = run_unguided("framing", tmp_path, tmp_path / "crashes", runs=20, seconds=None)

    assert (verdict.passed, verdict.crash) == (True, None)
    assert verdict.executed >= 20


def test_the_command_prints_the_number_of_inputs_of_each_target() -> None:
    command = [sys.executable, "-m", "fuzz", "--unguided", "--runs", "10", "--target", "sse", "--target", "envelope"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == ["sse", "envelope"]
    assert done.stdout.count("executions  ok") == 2


def test_the_command_replays_an_input(tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(b"\x01abc")
    command = [sys.executable, "-m", "fuzz", "--replay", "jsonrpc", str(tmp_path / "input")]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.stdout == "jsonrpc: 1 inputs break nothing\n"


def test_a_source_without_bytes_makes_the_simplest_choices() -> None:
    source = Source(b"")

    assert (source.flag(), source.text(), source.json(), source.choose("abc")) == (False, "", None, "a")
    assert source.cut(b"abc") == [b"abc"]
    assert source.used_up


def test_effort_is_the_number_of_function_calls() -> None:
    result, few = effort(sorted, [2, 1])
    _, many = effort(lambda: [len("") for _ in range(100)])

    assert result == [1, 2]
    assert few < 10
    assert many >= 100
