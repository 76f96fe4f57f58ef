"""Which cells the benchmarks have, which of them a pattern names, and in what order they are run."""

from __future__ import annotations

import pytest

from benchmarks.cells import CELLS, CONTENDERS, FIGURES, IMPORTS, SMOKE, SMOKE_WITHOUT, WORKS, Cell, chosen, plan


def test_every_cell_is_there_once() -> None:
    assert len(set(CELLS)) == len(CELLS) == sum(len(work.contenders) for work in WORKS.values())


def test_every_contender_and_every_main_figure_is_known() -> None:
    for work in WORKS.values():
        assert set(work.contenders) <= set(IMPORTS if work.name == "import" else CONTENDERS)
        assert work.main in FIGURES


def test_work_of_a_peer_runs_in_its_home() -> None:
    assert Cell("stdio-1", "ours/2025").home == ""
    assert Cell("stdio-1", "ts/2026").home == "typescript"
    assert Cell("import", "fastmcp-server").home == "fastmcp"


def test_the_name_of_a_work_means_all_its_cells() -> None:
    assert [cell.contender for cell in chosen(["cancel"])] == list(WORKS["cancel"].contenders)


def test_patterns_add_up_in_the_order_of_the_cells() -> None:
    found = [str(cell) for cell in chosen(["text:ours/*", "stdio-*:floor", "text:ours/2026"])]
    assert found == [
        "stdio-1:floor",
        "stdio-16:floor",
        "stdio-64:floor",
        "stdio-256:floor",
        "text:ours/2025",
        "text:ours/2026",
    ]


def test_a_pattern_that_fits_nothing_is_named() -> None:
    with pytest.raises(LookupError, match=r"no cell fits 'stdio-2'; --list"):
        chosen(["stdio-1", "stdio-2"])


def test_the_smoke_run_has_every_work_that_has_code_of_its_own() -> None:
    assert {cell.work for cell in chosen(SMOKE)} == set(WORKS)
    assert set(SMOKE_WITHOUT) < set(WORKS)


def test_rounds_alternate_and_contenders_of_a_work_run_together() -> None:
    cells = chosen(["text:ours/*", "list:floor", "list:ours/2025"])
    assert [str(cell) for cell in plan(cells, 3)] == [
        *("list:floor", "list:ours/2025", "text:ours/2025", "text:ours/2026"),
        *("list:ours/2025", "list:floor", "text:ours/2026", "text:ours/2025"),
        *("list:floor", "list:ours/2025", "text:ours/2025", "text:ours/2026"),
    ]


def test_work_without_noise_runs_in_the_first_round_only() -> None:
    cells = chosen(["growth:floor", "text:floor"])
    assert [str(cell) for cell in plan(cells, 2)] == ["text:floor", "growth:floor", "text:floor"]
