"""The resources of a process, read from Linux, which reports them for every process of the same user.

A request to the process itself would distort the measurement, and a process that hangs would not answer.
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
"""The kernel's number of the clock that counts the CPU time of all threads of a process."""


@frozen(kw_only=True)
class OsVitals:
    """The resources of a process at one moment."""

    memory_kib: int
    """The resident memory without files, in KiB."""
    descriptors: int
    threads: int
    processes: int
    """The number of its children, including zombies."""


def is_measurable() -> bool:
    """Return True if this system reports these values."""
    return sys.platform == "linux" and (_PROC / "self" / "task").is_dir()


def os_vitals(pid: int) -> OsVitals:
    """Return the current resources of a process.

    Raises:
        OSError: the process does not exist.
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
    """Return the CPU time of a process so far in milliseconds, including that of ended threads.

    Raises:
        OSError: the process does not exist.
    """
    return time.clock_gettime_ns(~pid << 3 | _SCHED_CLOCK) / 1e6


def release_garbage() -> None:
    """Return unused memory to the system, so that the resident memory is the memory in use."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # other C libraries than GNU's have none
    if trim is not None:
        trim(0)
