"""What the tests of this folder write on the wire by hand, beside what `ScriptedPeer` does by itself."""

from __future__ import annotations

from typing import Any, TypeAlias

from trio_mcp.testing import ScriptedPeer

Json: TypeAlias = dict[str, Any]

MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
ENVELOPE: Json = ScriptedPeer.envelope(MODERN)
INFO: Json = ScriptedPeer.INFO
EVERYTHING: Json = ScriptedPeer.EVERYTHING
"""What a server by hand declares."""
