"""What the tools of every server do. Each SDK publishes them in its own way. Uses the standard library alone."""

from __future__ import annotations

import base64
import gc
import resource
import sys
import time
from pathlib import Path
from typing import Final

__all__ = ["BLOB", "BLOB_URI", "Cancellations", "blob_text", "dummy_description", "dummy_name", "resolved", "usage"]

BLOB_URI: Final = "blob://ten"
BLOB: Final = bytes(range(256)) * (10 * 4096)
"""10 MiB."""


def blob_text() -> str:
    """The base64 of the blob, by which a client knows that it got all of it."""
    return base64.b64encode(BLOB).decode()


class Cancellations:
    """When handlers were cancelled, by the clock that all processes of one machine share."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def took(self) -> None:
        """A handler is being cancelled now."""
        self.times.append(time.perf_counter())


def usage(resolve: bool) -> list[float]:
    """The CPU seconds this process has used, and its resident memory in bytes; *settle* collects garbage first.

    That takes CPU, so it is not asked for where CPU is measured.
    """
    return [time.process_time(), float(resolved() if resolve else resident())]


def resolved() -> int:
    """The resident memory without garbage."""
    gc.collect()
    return resident()


def resident() -> int:
    """The resident memory of this process in bytes; where the system does not tell, the most it ever was."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def dummy_name(number: int) -> str:
    """The name of a tool that only fills the list."""
    return f"dummy_{number:03}"


def dummy_description(number: int) -> str:
    """About 500 characters, as tools that are made for models have them."""
    return f"Looks up entry {number} of the register. " + "Give the name as it is written, without its title. " * 9
