"""The tables of the benchmarks, and their section of the README."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.cells import WORKS, Cell
from benchmarks.results import Results
from benchmarks.run import BEGIN, END, README, replaced
from benchmarks.table import markdown, reference

FAST = {"p50_us": 100.0, "rate": 9000.0, "client_cpu_us": 12.34}
SLOW = {"p50_us": 450.0, "rate": 2000.0, "client_cpu_us": 1.0}


def test_a_table_has_spreads_and_shows_how_many_times_slower_others_are() -> None:
    results = Results({"machine": "a small one"})
    for factor in (1, 2):
        for contender, figures in (("ours/2025", FAST), ("official/2025", SLOW)):
            results.add(Cell("stdio-1", contender), {name: value * factor for name, value in figures.items()})
    assert markdown(results).splitlines() == [
        "- machine: a small one",
        "",
        "Each figure is the median over the rounds, with the least and the most where they differ.",
        "`x ours` is how many times slower (or larger) than this project in the same era.",
        "",
        "**stdio, one call after the other** (`stdio-1`)",
        "",
        "|  | p50 µs | calls/s | client CPU µs | x ours |",
        "| --- | --: | --: | --: | --: |",
        "| **ours/2025** | 150 (100 to 200) | 13,500 (9,000 to 18,000) | 18.5 (12.3 to 24.7) | 1.00 |",
        "| official/2025 | 675 (450 to 900) | 3,000 (2,000 to 4,000) | 1.5 (1.0 to 2.0) | 4.50 |",
    ]


def test_the_ratio_of_a_rate_is_inverted() -> None:
    results = Results({})
    results.add(Cell("stdio-64", "ours/2026"), FAST)
    results.add(Cell("stdio-64", "ts/2026"), SLOW)
    assert "| ts/2026 | 450 | 2,000 | 1.0 | 4.50 |" in markdown(results).splitlines()


def test_a_missing_figure_is_left_empty() -> None:
    results = Results({})
    results.add(Cell("stdio-1", "floor"), {"p50_us": 50.0, "server_cpu_us": 7.0})
    results.add(Cell("stdio-1", "ours/2025"), {"p50_us": 100.0})
    lines = markdown(results).splitlines()
    assert "| floor | 50 | 7.0 | 0.50 |" in lines
    assert "| **ours/2025** | 100 |  | 1.00 |" in lines


def test_a_failure_is_shown_by_its_last_line() -> None:
    results = Results({}, failures={Cell("text", "ts/2025"): "status 1\nError: no\n", Cell("blob", "floor"): ""})
    assert markdown(results).splitlines()[-2:] == [
        "`text:ts/2025` failed: Error: no",
        "`blob:floor` failed: it printed nothing",
    ]


@pytest.mark.parametrize(
    ("work", "contender", "ours"),
    [
        ("stdio-1", "official/2026", "ours/2026"),
        ("stdio-1", "floor", "ours/2025"),
        ("import", "fastmcp-server", "ours-server"),
        ("import", "trio", "ours-client"),
    ],
)
def test_a_contender_is_compared_with_the_same_era_of_this_project(work: str, contender: str, ours: str) -> None:
    assert reference(WORKS[work], contender) == ours


def test_new_tables_replace_the_old_ones() -> None:
    assert replaced(f"above\n{BEGIN}\nold\n{END}\nbelow\n", "new") == f"above\n{BEGIN}\n\nnew\n\n{END}\nbelow\n"


def test_the_readme_has_a_section_for_the_tables(tmp_path: Path) -> None:
    assert "new" in replaced(README.read_text(), "new")
    with pytest.raises(ValueError, match="has no lines"):
        replaced("nothing\n", "new")
