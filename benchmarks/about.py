"""The machine and the versions of a measurement."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .launch import Launcher

__all__ = ["about"]

OWN = ("trio-mcp", "trio", "attrs", "cattrs", "msgspec", "httptools", "httpx2", "h11", "hypercorn")
PEERS = {
    "official": ("mcp", "anyio", "pydantic", "httpx2", "uvicorn"),
    "fastmcp": ("fastmcp", "mcp", "pydantic", "uvicorn"),
}
ASK = "import importlib.metadata as m, json, sys; print(json.dumps({n: m.version(n) for n in sys.argv[1:]}))"


def about(launcher: Launcher, rounds: int) -> dict[str, Any]:
    """Return the lines above the tables."""
    facts = {
        "when": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{os.cpu_count()} cores, {_processor()}, {platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "rounds": f"{rounds}, {launcher.effort.seconds} s of calls in each cell",
        "this project": _listed((name, importlib.metadata.version(name)) for name in OWN),
    }
    for home, names in PEERS.items():
        if launcher.has(home):
            facts[home] = _listed(json.loads(_output([launcher.python(home), "-c", ASK, *names])).items())
    if launcher.has("typescript"):
        folder = launcher.home("typescript") / "node_modules" / "@modelcontextprotocol"
        versions = ((f"@modelcontextprotocol/{name}", _package(folder / name)) for name in ("client", "server"))
        facts["typescript"] = f"node {_output(['node', '--version'])}, {_listed(versions)}"
    return facts


def _listed(versions: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions)


def _package(folder: Path) -> str:
    version: str = json.loads((folder / "package.json").read_text())["version"]
    return version


def _output(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _processor() -> str:
    """Return the model of the processor, which Linux reports and `platform` does not."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
