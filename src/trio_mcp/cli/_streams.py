"""The standard streams, which a shell may have closed, and which may be full or without a reader."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import TextIO

from ._failures import UsageError

__all__ = ["discard_unwritable", "prepare_streams", "printing"]


def prepare_streams(needed: Iterable[str]) -> None:
    """Make all streams show what they can, and open those of *needed* that are closed, to nothing.

    Where a descriptor stayed free, the next file or pipe would get its number, and what is written there.
    """
    for name in needed:
        if getattr(sys, name) is None:
            stream = open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8")  # noqa: PTH123, SIM115  # stays open
            os.set_inheritable(stream.fileno(), True)  # a server's, too
            setattr(sys, name, stream)
    for shown in (sys.stdout, sys.stderr):
        if isinstance(shown, io.TextIOWrapper):
            shown.reconfigure(errors="backslashreplace")  # what a terminal cannot show is no reason to fail


@contextmanager
def printing() -> Generator[None]:
    """Tell whose fault it is that an answer cannot be written.

    Raises:
        BrokenPipeError: whoever read it has seen enough.
        UsageError: anything else, such as a full disk.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"cannot write to standard output: {error.strerror}") from None


def discard_unwritable(stream: TextIO) -> None:
    """Throw away what *stream* cannot get rid of, or the interpreter would complain of it at its end."""
    try:
        stream.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        stream.flush()
