"""The journal: the records of both sides about every numbered call, in files that survive killed processes.

Each entry is one line, a number, an event and a detail with tabs between them, and is written by one system call: a
process that is killed loses none, and one that runs for hours holds none in memory, where they would look like a leak.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import define, frozen

__all__ = ["ASKED", "BEGAN", "ENDED", "FAULT", "GOT", "QUESTIONED", "Entry", "Journal", "read_journals"]

ASKED, GOT, QUESTIONED = "asked", "got", "questioned"
"""The events of a client: a call begins, a call has an outcome, the user is asked for a call."""
BEGAN, ENDED = "began", "ended"
"""The events of a server: a handler begins, a handler ends."""
FAULT = "fault"
"""The event of a fault that belongs to no call; its number is 0."""

_SUFFIX = ".journal"


@frozen
class Entry:
    """One line."""

    number: int
    event: str
    detail: str


@define(eq=False)
class Journal:
    """A file to which any number of processes append entries."""

    _descriptor: int

    @classmethod
    def open(cls, folder: Path, name: str) -> Journal:
        """Open the journal of that name in a folder."""
        path = folder / f"{name}{_SUFFIX}"
        return cls(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600))

    def write(self, number: int, event: str, detail: str = "") -> None:
        """Append one entry."""
        flat = " ".join(detail.split())
        os.write(self._descriptor, f"{number}\t{event}\t{flat}\n".encode())

    def fault(self, detail: str) -> None:
        """Append a fault."""
        self.write(0, FAULT, detail)

    @contextmanager
    def handling(self, number: int) -> Generator[None]:
        """Record the begin of a handler, its end, and its cancellation."""
        self.write(number, BEGAN)
        how = "stopped"
        try:
            yield
            how = "done"
        finally:
            self.write(number, ENDED, how)

    def close(self) -> None:
        """Write no more."""
        os.close(self._descriptor)


def read_journals(folder: Path) -> Iterator[Entry]:
    """Yield the entries of all journals of a folder, file by file."""
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                number, event, detail = line.rstrip("\n").split("\t")
                yield Entry(int(number), event, detail)
