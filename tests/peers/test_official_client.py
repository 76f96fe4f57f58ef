"""The official SDK's client, second major version, with our SQLite server, in both eras.

What our server did is in its own words: the plan asks it after the cancelled call.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PLAYER = Path(__file__).with_name("official_client.py")
PATIENCE = 120  # seconds for a whole plan

SLOWLY = {"table": "waterings", "pause": 0.05}
PLAN: list[dict[str, Any]] = [
    {"do": "tools"},
    {"do": "call", "tool": "read_query", "arguments": {"query": "SELECT 1 AS one"}},
    {"do": "call", "tool": "read_query", "arguments": {"query": "DELETE FROM waterings"}},
    {"do": "call", "tool": "recount", "arguments": {"table": "waterings", "pause": 0}},
    {"do": "call", "tool": "recount", "arguments": SLOWLY, "cancel_after": 3},
    {"do": "call", "tool": "recount_outcome", "arguments": {}},
    {"do": "call", "tool": "append_insight", "arguments": {"insight": "it works"}},
    {"do": "resources"},
    {"do": "read", "uri": "memo://insights"},
    {"do": "prompts"},
    {"do": "prompt", "name": "explore", "arguments": {"topic": "ponds"}},
]


def play(python: str, mode: str, database: Path) -> dict[str, Any]:
    """What the official client saw when it played the plan."""
    server = [sys.executable, str(ROOT / "examples" / "sqlite_server.py"), str(database)]
    played = subprocess.run(
        [python, str(PLAYER), mode, json.dumps(PLAN), *server],
        check=True,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        timeout=PATIENCE,
    )
    seen: dict[str, Any] = json.loads(played.stdout)
    return seen


@pytest.mark.parametrize(
    ("mode", "revision"), [("legacy", "2025-11-25"), ("auto", "2026-07-28"), ("2026-07-28", "2026-07-28")]
)
def test_the_official_client_gets_everything_from_our_server(
    official_python: str, tmp_path: Path, mode: str, revision: str
) -> None:
    seen = play(official_python, mode, tmp_path / "garden.db")

    tools, read, refused, recounted, left, outcome, _, resources, memo, prompts, prompt = seen["steps"]
    assert seen["revision"] == revision
    assert {"list_tables", "describe_table", "read_query", "write_query", "create_table"} <= set(tools)
    assert read["result"]["structuredContent"]["rows"] == [[1]]
    assert refused["result"]["isError"] is True
    total = recounted["result"]["structuredContent"]["result"]
    assert [progress for progress, _, _ in recounted["progress"]] == list(range(1, total + 1))
    assert left["cancelled"] is True
    assert outcome["result"]["structuredContent"] | {"counted": 0} == {
        "table": "waterings",
        "counted": 0,
        "total": total,
        "cancelled": True,
    }
    assert outcome["result"]["structuredContent"]["counted"] < total
    assert resources == ["memo://insights"]
    assert "it works" in memo[0]["text"]
    assert prompts == ["explore"]
    assert "ponds" in prompt[0]["content"]["text"]
