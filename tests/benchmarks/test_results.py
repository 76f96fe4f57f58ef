"""The results of a run: ratios between cells, and the file in which they are saved."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.cells import Cell
from benchmarks.results import Results

OURS, OFFICIAL = Cell("text", "ours/2025"), Cell("text", "official/2025")


def measured(ours: list[float], official: list[float]) -> Results:
    results = Results({"when": "then"})
    for cell, values in ((OURS, ours), (OFFICIAL, official)):
        for value in values:
            results.add(cell, {"p50_ms": value})
    return results


def ratio(results: Results) -> float | None:
    return results.ratio("text", "p50_ms", "official/2025", "ours/2025")


def test_a_ratio_compares_neighbours_of_the_same_round() -> None:
    assert ratio(measured([1, 10, 2], [3, 30, 8])) == 3  # 3, 3 and 4; the ratio of the medians would be 4


def test_without_neighbours_the_ratio_is_that_of_the_medians() -> None:
    assert ratio(measured([2], [3, 30, 8])) == 4


def test_a_round_with_a_zero_figure_is_not_a_divisor() -> None:
    assert ratio(measured([0, 2, 4], [6, 6, 6])) == 3
    assert ratio(measured([0], [6])) is None


def test_an_unmeasured_figure_has_no_ratio() -> None:
    assert ratio(measured([], [1])) is None
    assert ratio(measured([1], [])) is None
    assert measured([1], []).spread("text", "official/2025", "p50_ms") is None


def test_saved_results_are_read_back(tmp_path: Path) -> None:
    results = measured([1, 2], [3])
    results.failures[OFFICIAL] = "status 1"
    results.save(tmp_path / "figures.json")
    assert Results.load(tmp_path / "figures.json") == results


def test_figures_of_an_earlier_benchmark_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    path.write_text('{"about": {}, "cells": {"text:floor": {"p50_ms": [1], "p42_ms": [2]}}, "failures": {}}')
    assert Results.load(path).values == {Cell("text", "floor"): {"p50_ms": [1.0]}}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"about": {}, "cells": {"a": [1]}, "failures": {}}'])
def test_an_invalid_file_is_refused_by_its_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"other\.json holds no figures"):
        Results.load(path)
