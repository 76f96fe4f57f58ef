"""A log handler that records logged errors as faults: no fault of the run may cause a logged error."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Generator
from contextlib import contextmanager

from .journal import Journal

__all__ = ["faults_go_to"]

_LINES = 4
"""The length of the end of a traceback that is recorded, in characters."""


@contextmanager
def faults_go_to(journal: Journal) -> Generator[None]:
    """Record every logged error of this process in *journal* during the block."""
    handler = _FaultHandler(journal)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)


class _FaultHandler(logging.Handler):
    def __init__(self, journal: Journal) -> None:
        super().__init__(logging.ERROR)
        self._journal = journal

    def emit(self, record: logging.LogRecord) -> None:
        where = ""
        if record.exc_info and record.exc_info[1] is not None:
            where = " | " + " ".join("".join(traceback.format_exception(record.exc_info[1])).splitlines()[-_LINES:])
        self._journal.fault(f"logged by {record.name}: {record.getMessage()}{where}")
