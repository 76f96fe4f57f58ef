"""The revisions, envelopes and scripts that the tests with a `ScriptedPeer` share."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeAlias

import trio

from trio_mcp import types
from trio_mcp.testing import ScriptedPeer

Json: TypeAlias = dict[str, Any]

MODERN = "2026-07-28"
LEGACY = [revision for revision in types.REVISIONS if revision != MODERN]
NEWEST_LEGACY = LEGACY[-1]
META = "io.modelcontextprotocol/"
ENVELOPE: Json = ScriptedPeer.envelope(MODERN)
INFO: Json = ScriptedPeer.INFO
EVERYTHING: Json = ScriptedPeer.EVERYTHING
"""The capabilities that a scripted server declares."""


def welcoming(revision: str) -> Any:
    """Return the script of a server that agrees on *revision* and does nothing more."""
    return partial(ScriptedPeer.welcome, revision=revision)


async def sample(_: object) -> types.CreateMessageResult:
    """Answer every sampling request in the same way."""
    await trio.lowlevel.checkpoint()
    return types.CreateMessageResult(role="assistant", model="m", content=types.TextContent(text="hi"))
