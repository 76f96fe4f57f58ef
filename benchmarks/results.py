"""The results of a whole run: the figures, their file, and their evaluation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import define, field

from .cells import FIGURES, Cell
from .figures import Spread

__all__ = ["Results"]


@define
class Results:
    """Every figure of every cell, once for each round."""

    about: dict[str, Any]
    """The machine, the versions, and the amount of work."""
    values: dict[Cell, dict[str, list[float]]] = field(factory=dict[Cell, dict[str, list[float]]])
    failures: dict[Cell, str] = field(factory=dict[Cell, str])

    def add(self, cell: Cell, figures: Mapping[str, float]) -> None:
        """Add the figures of one round."""
        for name, value in figures.items():
            self.values.setdefault(cell, {}).setdefault(name, []).append(value)

    def spread(self, work: str, contender: str, figure: str) -> Spread | None:
        """Return one figure of one cell; None if it was not measured."""
        values = self.values.get(Cell(work, contender), {}).get(figure)
        return Spread.of(values) if values else None

    def ratio(self, work: str, figure: str, over: str, under: str) -> float | None:
        """Return the figure of *under* divided by that of *over*; None if one was not measured.

        The median over the rounds, because the two were neighbours in each; without equal numbers of rounds, or where a
        round has a zero, the ratio of the medians.
        """
        above, below = (self.values.get(Cell(work, name), {}).get(figure, []) for name in (over, under))
        if not above or not below:
            return None
        if len(above) == len(below) and all(below):
            return Spread.of([one / other for one, other in zip(above, below, strict=True)]).median
        divisor = Spread.of(below).median
        return Spread.of(above).median / divisor if divisor else None

    def save(self, path: Path) -> None:
        """Write the results as JSON."""
        cells = {str(cell): figures for cell, figures in self.values.items()}
        failures = {str(cell): text for cell, text in self.failures.items()}
        path.write_text(json.dumps({"about": self.about, "cells": cells, "failures": failures}, indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Results:
        """Read a file of `save`. Unknown figures are ignored.

        Raises:
            OSError: the file cannot be read.
            ValueError: it is no such file.
        """
        try:
            json_value = json.loads(path.read_text())
            values = {
                _cell(name): {figure: list(map(float, each)) for figure, each in figures.items() if figure in FIGURES}
                for name, figures in json_value["cells"].items()
            }
            failures = {_cell(name): str(text) for name, text in json_value["failures"].items()}
            return cls(dict(json_value["about"]), values, failures)
        except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as fault:
            raise ValueError(f"{path} holds no figures of benchmarks: {fault!r}") from fault


def _cell(name: str) -> Cell:
    work, _, contender = name.partition(":")
    return Cell(work, contender)
