"""A pytest plugin that ends a run with the number of tested and untested requirements of the specification.

The manifest is `interaction/requirements.toml`; `interaction/test_requirements.py` compares it with the tests.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest

Manifest: TypeAlias = Mapping[str, Mapping[str, Any]]

MANIFEST = Path(__file__).parent / "interaction" / "requirements.toml"
CATEGORIES = ("tested", "host", "not planned")


def load_manifest() -> Manifest:
    return tomllib.loads(MANIFEST.read_text(encoding="utf-8"))


def summary(manifest: Manifest) -> str:
    """Return one line: how many requirements there are in all and of each category."""
    counts = Counter(requirement["category"] for requirement in manifest.values())
    parts = ", ".join(f"{counts[category]} {category}" for category in CATEGORIES)
    return f"requirements: {len(manifest)} ({parts})"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(summary(load_manifest()))
