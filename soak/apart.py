"""Tools that run in worker processes, which import them by name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .journal import Journal

__all__ = ["FOLDER", "compute", "spin"]

FOLDER = "SOAK_FOLDER"
"""The environment variable with the folder of the journals."""


def compute(n: int) -> dict[str, Any]:
    """Work a little."""
    journal = _journal()
    try:
        with journal.handling(n):
            return {"n": n, "sum": sum(range(10_000))}
    finally:
        journal.close()


def spin(n: int) -> None:
    """Work until killed."""
    journal = _journal()
    with journal.handling(n):
        while True:
            pass


def _journal() -> Journal:
    return Journal.open(Path(os.environ[FOLDER]), f"apart-{os.getpid()}")
