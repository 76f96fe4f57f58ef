"""The launcher of the benchmarks: what a cell needs, and its function."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.cell import parts_of
from benchmarks.cells import CELLS, Cell
from benchmarks.effort import SMOKE
from benchmarks.launch import Launcher

ROOT = Path(__file__).parents[2]
ALONE, IN_SERVICE = Cell("http-1", "ours/2026"), Cell("service-64", "ours-nodes/2026")
LAUNCHER = Launcher(None, SMOKE)


def test_a_cell_of_a_service_needs_the_redis_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "redis-server").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert LAUNCHER.missing(IN_SERVICE) is None
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert LAUNCHER.missing(IN_SERVICE) == "redis-server"
    assert LAUNCHER.missing(ALONE) is None


def test_a_cell_of_a_peer_needs_its_environment() -> None:
    assert LAUNCHER.missing(Cell("http-1", "official/2026")) == "official"


def test_cells_that_cannot_be_run_are_named(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.run", "--smoke", "--cells", "service-64", "http-1:official/2026"]
    done = subprocess.run(
        command, cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stderr.splitlines() == [
        "LEFT OUT: official is not installed",
        "LEFT OUT: redis-server is not installed",
    ]


@pytest.mark.parametrize("work", sorted({cell.work for cell in CELLS} - {"import"}))
def test_every_work_has_a_function(work: str) -> None:
    module, function, *more = parts_of(work)
    assert f"\nasync def {function}(" in (ROOT / "benchmarks" / "work" / f"{module}.py").read_text()
    assert all(type(each) in {str, int} for each in more)


@pytest.mark.parametrize(
    ("work", "parts"),
    [
        ("stdio-64", ("calls", "stdio", 64)),
        ("hop-lists", ("lists", "many")),
        ("service-forwarded-1", ("services", "forwarded", 1)),
        ("service-change-sqlite", ("services", "change", "sqlite")),
    ],
)
def test_a_number_at_the_end_of_a_work_is_that_of_calls_in_flight(work: str, parts: tuple[object, ...]) -> None:
    assert parts_of(work) == parts
