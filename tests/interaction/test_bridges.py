"""Every module runs through the clients for asyncio and without async, or has a reason why not."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.interaction.conftest import UNBRIDGED

FOLDER = Path(__file__).parent


def test_every_module_runs_through_both_bridges_or_has_a_reason_why_not() -> None:
    collected = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", str(FOLDER)],
        capture_output=True,
        check=True,
        text=True,
        timeout=300,
        cwd=FOLDER.parents[1],
    ).stdout
    bridges: dict[str, set[str]] = {}
    for module, parameters in re.findall(r"(\w+)\.py::\w+\[(.*)\]", collected):
        bridges.setdefault(module, set()).update({"asyncio", "sync"} & set(parameters.split("-")))
    bridged = {module for module, its in bridges.items() if its == {"asyncio", "sync"}}
    modules = {path.stem for path in FOLDER.glob("test_*.py")} - {Path(__file__).stem}

    assert modules - bridged == set(UNBRIDGED)
