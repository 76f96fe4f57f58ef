"""The records of the ordinary user: one line for each call, in a file that survives killed processes.

Times are those of the monotonic clock of the machine, which all processes share, so that the calls of each attack are
found by its begin and end.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

import attrs
from attrs import define, frozen

__all__ = ["CALL", "HOSTILE", "IN_FLIGHT", "NEWCOMER", "Record", "RecordFile", "percentile", "read_records", "within"]

CALL, NEWCOMER, HOSTILE, IN_FLIGHT = "call", "newcomer", "hostile", "in flight"
"""The kinds of a record: a call at the fixed pace; a connection with its first call; a call of the hostile server,
whose outcome does not matter; a call that runs while the server is stopped."""
_FILE = "user.jsonl"


@frozen
class Record:
    """One call of the ordinary user."""

    kind: str
    what: str
    """The tool and the revision."""
    begin: float
    seconds: float
    fault: str | None = None
    """What is wrong with the answer, or None."""


@define(eq=False)
class RecordFile:
    """The file to which the user's process writes."""

    _descriptor: int

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open the file of a folder for writing."""
        return cls(os.open(folder / _FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600))

    def write(self, record: Record) -> None:
        """Append a record."""
        os.write(self._descriptor, json.dumps(attrs.astuple(record)).encode() + b"\n")

    def close(self) -> None:
        """Write no more."""
        os.close(self._descriptor)


def read_records(folder: Path) -> Sequence[Record]:
    """Return all records of a folder."""
    path = folder / _FILE
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [Record(*json.loads(line)) for line in lines]


def within(records: Iterable[Record], begin: float, end: float) -> Iterator[Record]:
    """Yield the records of the calls that began in an interval."""
    return (record for record in records if begin <= record.begin < end)


def percentile(values: Iterable[float], share: float) -> float:
    """Return the smallest value that is at least as large as this share of the values; NaN without values."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan
