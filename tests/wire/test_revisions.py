"""The revisions of each era."""

from __future__ import annotations

import pytest

from trio_mcp.types import REVISIONS
from trio_mcp.wire import LEGACY_REVISIONS, MODERN_REVISIONS, is_modern


def test_there_are_four_legacy_revisions_and_a_modern_one_in_order() -> None:
    assert LEGACY_REVISIONS == ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
    assert MODERN_REVISIONS == ("2026-07-28",)
    assert tuple(REVISIONS) == LEGACY_REVISIONS + MODERN_REVISIONS


@pytest.mark.parametrize("revision", [*REVISIONS, "2099-01-01", ""])
def test_only_a_known_revision_without_handshake_is_modern(revision: str) -> None:
    assert is_modern(revision) == (revision in MODERN_REVISIONS)
