"""Tests of how the suite is started."""

from __future__ import annotations

from pathlib import Path

from tests.conformance.runner.scenarios import Scenario
from tests.conformance.runner.suite import Suite

SCENARIO = Scenario("client", "2025-11-25", "initialize", 1, is_watched=False, skips=frozenset())


async def test_each_client_starts_with_an_empty_cache(tmp_path: Path) -> None:
    """The server of a scenario may have the port of an earlier one, and a client remembers servers by their URL."""
    node = tmp_path / "node_modules" / "node" / "bin" / "node"
    node.parent.mkdir(parents=True)
    node.write_text('#!/bin/sh\nmkdir "$XDG_CACHE_HOME" && echo "$XDG_CACHE_HOME"\n')
    node.chmod(0o755)
    suite = Suite(tmp_path)

    first, second = [await suite.test_client(SCENARIO, "client") for _ in range(2)]

    assert (first.status, second.status) == (0, 0)
    assert first.output != second.output
