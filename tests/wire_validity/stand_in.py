"""A judge for the tests of the judge: the normal forms in `schema/` replace the upstream files."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tests.wire_validity.judge import Judge
from tests.wire_validity.upstream import EXTENSIONS, Upstream
from trio_mcp import types

ROOT = Path(__file__).parents[2]


@cache
def upstream() -> Upstream:
    return Upstream.read(
        {name: ROOT / "schema" / f"{name}.json" for name in types.REVISIONS},
        {name: ROOT / "schema" / "extensions" / f"{name}.json" for name in EXTENSIONS},
    )


def judge(test: str = "here") -> Judge:
    return Judge(upstream(), lambda: test)
