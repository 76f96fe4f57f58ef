"""The launcher of one cell in a fresh process, with the interpreter that has its SDK."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path

from attrs import frozen

from .cells import CONTENDERS, IMPORTS, Cell
from .effort import Effort
from .work.imports import imported

__all__ = ["CellFailed", "Launcher"]

ROOT = Path(__file__).parent.parent
SCRIPTS = Path(__file__).parent / "adapters" / "typescript"
TIMEOUT_SECONDS = 600
"""The seconds after which a cell counts as hanging."""


class CellFailed(Exception):
    """A cell printed no figures; the message is the end of its output."""


@frozen
class Launcher:
    """The launcher, which finds the interpreters."""

    peers: Path | None
    """The folder with the homes of the peers; None without peers."""
    effort: Effort

    def has(self, home: str) -> bool:
        """Return True if the interpreter of this home is installed."""
        if not home:
            return True
        return self.peers is not None and (self.peers / home).is_dir() and (home != "typescript" or _node() is not None)

    def missing(self, cell: Cell) -> str | None:
        """Return the name of what a cell needs and is not installed; None if it can be run."""
        if not self.has(cell.home):
            return cell.home
        return cell.needs if cell.needs and shutil.which(cell.needs) is None else None

    def prepare(self) -> None:
        """Copy the programs for the TypeScript SDK beside its packages, where Node finds them."""
        if self.has("typescript"):
            for script in SCRIPTS.glob("*.mjs"):
                shutil.copy(script, self.home("typescript"))

    def home(self, name: str) -> Path:
        """Return the folder of a peer."""
        assert self.peers is not None
        return self.peers / name

    def python(self, home: str) -> str:
        """Return the interpreter of a home."""
        return str(self.home(home) / "bin" / "python") if home else sys.executable

    def run(self, cell: Cell) -> dict[str, float]:
        """Return the figures of one run.

        Raises:
            CellFailed: the process failed, or hung.
        """
        if cell.work == "import":
            home, statement = IMPORTS[cell.contender]
            try:
                return imported([self.python(home)], statement, self.effort.repeats)
            except subprocess.CalledProcessError as failure:
                raise CellFailed(str(failure)) from failure
        return self._figures(cell)

    def command(self, cell: Cell) -> list[str]:
        """Return the command of a cell."""
        contender = CONTENDERS[cell.contender]
        effort = json.dumps(dataclasses.asdict(self.effort))
        if contender.home == "typescript":
            script = str(self.home(contender.home) / "cell.mjs")
            return [_node() or "node", "--expose-gc", script, cell.work, contender.era, effort]
        program = [self.python(contender.home), "-m", "benchmarks.cell"]
        return [*program, cell.work, contender.adapter, contender.era, effort]

    def _figures(self, cell: Cell) -> dict[str, float]:
        try:
            done = subprocess.run(
                self.command(cell), cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as failure:
            raise CellFailed(f"took longer than {TIMEOUT_SECONDS} s") from failure
        if done.returncode != 0:
            raise CellFailed(f"status {done.returncode}\n{done.stderr[-3000:]}")
        figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return figures


def _node() -> str | None:
    return shutil.which("node")
