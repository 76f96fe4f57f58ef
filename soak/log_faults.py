"""Errors that are logged are faults of a run: nothing that happens to the processes is an error of theirs."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Generator
from contextlib import contextmanager

from .journal import Journal

__all__ = ["faults_go_to"]

_LINES = 4
"""Of a traceback, from its end."""


@contextmanager
def faults_go_to(journal: Journal) -> Generator[None]:
    """Write whatever this process logs as an error into *journal*, for as long as the block lasts."""
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
