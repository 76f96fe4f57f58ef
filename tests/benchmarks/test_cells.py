"""The cells of the benchmarks, their selection by patterns, and the order of their runs."""

from __future__ import annotations

import pytest

from benchmarks.cells import CELLS, CONTENDERS, FIGURES, IMPORTS, SMOKE, SMOKE_WITHOUT, WORKS, Cell, chosen, plan


def test_every_cell_exists_once() -> None:
    assert len(set(CELLS)) == len(CELLS) == sum(len(work.contenders) for work in WORKS.values())


def test_every_contender_and_every_main_figure_is_known() -> None:
    for work in WORKS.values():
        assert set(work.contenders) <= set(IMPORTS if work.name == "import" else CONTENDERS)
        assert work.main in FIGURES


def test_the_work_of_a_peer_runs_in_the_environment_of_the_peer() -> None:
    assert Cell("stdio-1", "ours/2025").home == ""
    assert Cell("stdio-1", "ts/2026").home == "typescript"
    assert Cell("import", "fastmcp-server").home == "fastmcp"


def test_the_name_of_a_work_selects_all_its_cells() -> None:
    assert [cell.contender for cell in chosen(["cancel"])] == list(WORKS["cancel"].contenders)


def test_several_patterns_select_cells_in_the_order_of_the_table() -> None:
    found = [str(cell) for cell in chosen(["text:ours/*", "stdio-*:floor", "text:ours/2026"])]
    assert found == [
        "stdio-1:floor",
        "stdio-16:floor",
        "stdio-64:floor",
        "stdio-256:floor",
        "text:ours/2025",
        "text:ours/2026",
    ]


def test_a_pattern_that_matches_no_cell_is_named() -> None:
    with pytest.raises(LookupError, match=r"no cell fits 'stdio-2'; --list"):
        chosen(["stdio-1", "stdio-2"])


def test_the_smoke_run_includes_every_work_with_distinct_code() -> None:
    assert {cell.work for cell in chosen(SMOKE)} == set(WORKS)
    assert set(SMOKE_WITHOUT) < set(WORKS)


def test_the_clients_of_this_project_over_stdio_are_neighbours() -> None:
    names = [cell.contender for cell in chosen(["stdio-1:ours*", "stdio-1:official/*"])]
    clients = [f"ours{client}/{era}" for client in ("", "-asyncio", "-sync") for era in ("2025", "2026")]
    assert names == [*clients, "official/2025", "official/2026"]


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
