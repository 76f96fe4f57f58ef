"""What a process holds and uses, read from outside: from Linux, which tells it of every process of the same user.

Asking the process itself would cost it what is to be measured, and a process that is stuck does not answer.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

__all__ = ["OsVitals", "cpu_ms", "is_measurable", "os_vitals", "release_garbage"]

_PROC = Path("/proc")
_SCHED_CLOCK = 2
"""The clock of a process that counts the time its threads were running, as the kernel numbers it."""


@frozen(kw_only=True)
class OsVitals:
    """What a process holds at one moment."""

    memory_kib: int
    """Resident memory that is no file, in KiB."""
    descriptors: int
    threads: int
    processes: int
    """Its children, those that have ended and were not waited for included."""


def is_measurable() -> bool:
    """Tell whether this system says what is asked here."""
    return sys.platform == "linux" and (_PROC / "self" / "task").is_dir()


def os_vitals(pid: int) -> OsVitals:
    """Return what a process holds now.

    Raises:
        OSError: there is no such process.
    """
    home = _PROC / str(pid)
    status = dict(line.split(":", 1) for line in (home / "status").read_text().splitlines())
    return OsVitals(
        memory_kib=int(status["RssAnon"].split()[0]),
        descriptors=sum(1 for _ in (home / "fd").iterdir()),
        threads=int(status["Threads"]),
        processes=sum(1 for _ in _children(home)),
    )


def _children(home: Path) -> Iterator[str]:
    for thread in (home / "task").iterdir():
        yield from (thread / "children").read_text().split()


def cpu_ms(pid: int) -> float:
    """Return the CPU time a process has used so far, by all its threads, those that have ended included; milliseconds.

    Raises:
        OSError: there is no such process.
    """
    return time.clock_gettime_ns(~pid << 3 | _SCHED_CLOCK) / 1e6


def release_garbage() -> None:
    """Give back what this process has no use for, so that what is resident is what is held."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # other C libraries than GNU's have none
    if trim is not None:
        trim(0)
