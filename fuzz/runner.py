"""The runner of one target under a fuzzer in a child process.

It needs a process because an input may kill the fuzzer, and because atheris ends its own process.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from attrs import frozen

__all__ = ["CORPORA", "LONGEST", "REGRESSIONS", "Verdict", "known_inputs", "run_guided", "run_unguided"]

_HERE = Path(__file__).parent
CORPORA, REGRESSIONS = _HERE / "corpora", _HERE / "regressions"
LONGEST = 2_048
"""The longest input, in bytes."""
_HUNG_SECONDS = 20
"""The time limit of one input in seconds: beyond it the target hangs, or its time is not linear."""
_MEMORY_MB = 1_024
_SHOWN = 6_000
"""The length of the end of the output that is shown for a broken target, in characters."""
_EXECUTED = re.compile(r"stat::number_of_executed_units: (\d+)")


@frozen
class Verdict:
    """The result of a search."""

    target: str
    executed: int
    """The number of inputs tried."""
    passed: bool
    crash: Path | None
    """The file of the input that broke the target; None without one."""
    output: str
    """The end of the output of the process."""


def known_inputs(target: str) -> list[Path]:
    """Return the inputs in the repository: interesting ones, and those that once broke the target."""
    folders = (CORPORA / target, REGRESSIONS / target)
    return sorted(path for folder in folders if folder.is_dir() for path in folder.iterdir())


def run_guided(target: str, folder: Path, crashes: Path, *, runs: int | None, seconds: int | None) -> Verdict:
    """Search with atheris.

    Args:
        target: its name.
        folder: the folder of inputs that reach new branches, for the next search.
        crashes: the folder for an input that breaks the target.
        runs: the number of inputs, the same in every search; None to search for *seconds* instead.
    """
    found = folder / target
    found.mkdir(parents=True, exist_ok=True)
    crashes.mkdir(parents=True, exist_ok=True)
    prefix = crashes / f"{target}-"
    before = set(crashes.glob(f"{target}-*"))
    known = [path for path in (CORPORA / target, REGRESSIONS / target) if path.is_dir()]
    options = [
        *(f"-max_len={LONGEST}", f"-timeout={_HUNG_SECONDS}", f"-rss_limit_mb={_MEMORY_MB}"),
        *(f"-artifact_prefix={prefix}", "-print_final_stats=1", "-verbosity=1"),
        *(["-seed=1", f"-runs={runs}"] if seconds is None or runs is not None else [f"-max_total_time={seconds}"]),
        *map(str, (found, *known)),
    ]
    done = _run([sys.executable, "-m", "fuzz.guided", target, *options])
    output = done.stderr + done.stdout  # atheris prints the traceback there
    crash = next(iter(set(crashes.glob(f"{target}-*")) - before), None)
    return Verdict(target, _executed(output), done.returncode == 0, crash, _without_chatter(output))


def run_unguided(target: str, folder: Path, crashes: Path, *, runs: int | None, seconds: int | None) -> Verdict:
    """Search with hypothesis; the arguments are those of `run_guided`. Only a crash is kept."""
    del folder
    crashes.mkdir(parents=True, exist_ok=True)
    crash = crashes / f"{target}-{os.urandom(8).hex()}"
    limits = (str(LONGEST), *("" if limit is None else str(limit) for limit in (runs, seconds)))
    done = _run([sys.executable, "-m", "fuzz.unguided", target, *limits, str(crash), *map(str, known_inputs(target))])
    output = done.stdout + done.stderr
    passed = done.returncode == 0
    return Verdict(target, _executed(output), passed, crash if crash.exists() else None, _without_chatter(output))


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 # this very Python
        command,
        cwd=_HERE.parent,
        env=os.environ | {"PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def _executed(output: str) -> int:
    found = _EXECUTED.search(output)
    return 0 if found is None else int(found[1])


def _without_chatter(output: str) -> str:
    lines = [line for line in output.splitlines() if not line.startswith(("INFO:", "WARNING:", "#"))]
    return "\n".join(lines)[-_SHOWN:]
