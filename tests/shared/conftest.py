"""Time limits of the backends that suit a machine with too much to do."""

from __future__ import annotations

import pytest

from tests.shared.programs.backends import TIMES


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a backend wait longer than a second, in these tests of which many may run at once."""
    for name, seconds in TIMES.items():
        monkeypatch.setattr(name, seconds)
