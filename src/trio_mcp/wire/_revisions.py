"""The protocol's revisions in order, and which era each belongs to: derived from the method tables, never by name.

A revision is *legacy* if it has a handshake (`initialize`), and *modern* otherwise. Revisions are compared by
their place in the list; a string that is not in it is not "newer", it is unknown.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
"""

from __future__ import annotations

from ..types import METHODS, REVISIONS

__all__ = ["BATCH_REVISION", "LEGACY_REVISIONS", "MODERN_REVISIONS", "NULL_ID_REVISIONS", "is_modern"]

LEGACY_REVISIONS: tuple[str, ...] = tuple(revision for revision in REVISIONS if "initialize" in METHODS[revision])
MODERN_REVISIONS: tuple[str, ...] = tuple(revision for revision in REVISIONS if "initialize" not in METHODS[revision])

BATCH_REVISION = "2025-03-26"
"""The one revision in which an array of messages is legal."""
NULL_ID_REVISIONS = frozenset(LEGACY_REVISIONS[:3])
"""Their schemas know no error without id, so an unknown id is JSON-RPC's null there."""

_MODERN = frozenset(MODERN_REVISIONS)


def is_modern(revision: str) -> bool:
    """Tell whether requests of *revision* carry their own envelope instead of relying on a handshake."""
    return revision in _MODERN
