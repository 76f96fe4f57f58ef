"""The behaviour of the tools, which each SDK publishes in its own way. It uses only the standard library."""

from __future__ import annotations

import base64
import gc
import resource
import sys
import time
from pathlib import Path
from typing import Final

__all__ = [
    "BLOB",
    "BLOB_URI",
    "Cancellations",
    "blob_text",
    "dummy_description",
    "dummy_name",
    "resident_after_collection",
    "usage",
]

BLOB_URI: Final = "blob://ten"
BLOB: Final = bytes(range(256)) * (10 * 4096)
"""10 MiB."""


def blob_text() -> str:
    """Return the base64 of the blob, by which a client checks that it is complete."""
    return base64.b64encode(BLOB).decode()


class Cancellations:
    """The times at which handlers were cancelled, by the clock that all processes of a machine share."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def took(self) -> None:
        """Record the cancellation of a handler."""
        self.times.append(time.perf_counter())


def usage(collect: bool) -> list[float]:
    """Return the CPU seconds of this process and its resident memory in bytes; *collect* collects garbage first.

    That takes CPU, so cells that measure CPU do not request it.
    """
    return [time.process_time(), float(resident_after_collection() if collect else resident())]


def resident_after_collection() -> int:
    """Return the resident memory after a garbage collection."""
    gc.collect()
    return resident()


def resident() -> int:
    """Return the resident memory of this process in bytes, or its maximum if the system reports only that."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def dummy_name(number: int) -> str:
    """Return the name of a tool that only fills the list."""
    return f"dummy_{number:03}"


def dummy_description(number: int) -> str:
    """Return a description of about 500 characters, as is usual for tools of models."""
    return f"Looks up entry {number} of the register. " + "Give the name as it is written, without its title. " * 9
