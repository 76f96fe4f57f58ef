"""The wire as lines to read: when, in which direction, and the message."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TextIO

from attrs import define, field

from ..abc import Direction
from ._failures import UsageError
from ._visible import visible_json

__all__ = ["Trace", "open_trace"]

_ARROWS = {"sent": "-->", "received": "<--"}


@define(eq=False)
class Trace:
    """Takes messages as they pass, and writes a line for each at once, until it cannot."""

    _file: TextIO
    failure: OSError | None = field(default=None, init=False)
    _began: float = field(factory=time.perf_counter, init=False)

    def __call__(self, direction: Direction, message: bytes) -> None:
        if self.failure is not None:
            return
        seconds = time.perf_counter() - self._began
        text = visible_json(message.decode("utf-8", "backslashreplace"))
        try:
            self._file.write(f"{seconds:10.4f} {_ARROWS[direction]} {text}\n")
            self._file.flush()
        except OSError as error:
            self.failure = error


@contextmanager
def open_trace(path: str | None) -> Generator[Trace | None]:
    """Open a trace for as long as the block lasts; None where there is no path, standard error where it is ``-``.

    Raises:
        UsageError: the file cannot be written, from the start or to the end. What the block raises goes first.
    """
    if path is None:
        yield None
    elif path == "-":
        yield Trace(sys.stderr)
    else:
        try:
            file = open(path, "w", encoding="utf-8")  # noqa: PTH123, SIM115  # closed below
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from None
        trace = Trace(file)
        try:
            yield trace
        finally:
            with suppress(OSError):  # the failure, once more
                file.close()
        if trace.failure is not None:
            raise UsageError(f"the trace is not complete: cannot write {path}: {trace.failure.strerror}")
