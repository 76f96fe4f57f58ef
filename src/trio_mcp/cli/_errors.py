"""What goes wrong in a command, in one line and one number. Loads nothing that `--help` does without."""

from __future__ import annotations

import io
import os
import re
import signal
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import TextIO, cast

from .._errors import (
    ErrorResponse,
    HttpStatusError,
    LocalProtocolError,
    MissingCapability,
    ServerExited,
    ToolFailed,
    TrioMcpError,
)

__all__ = [
    "STATUSES",
    "Interrupted",
    "UsageError",
    "discard_unwritable",
    "explain",
    "prepare_streams",
    "printing",
    "visible",
    "visible_json",
    "visible_line",
    "wants_sign_in",
]

STATUSES = """\
exit status:
  0    all went well
  1    a tool failed, or the server refused a request or does not offer it
  2    the command line is wrong, or a file it names cannot be used
  3    the server cannot be reached, lets nobody in, or breaks the protocol
  130  interrupted (128 and the number of the signal)"""

FAILED, WRONG_USE, NO_SERVER, SIGNALLED = 1, 2, 3, 128


class UsageError(Exception):
    """The command line asks for what cannot be done."""


class Interrupted(Exception):
    """A signal ended the command."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    def __str__(self) -> str:
        return "interrupted" if self.number == signal.SIGINT else f"ended by {signal.Signals(self.number).name}"


_STATUS_OF: Sequence[tuple[tuple[type[Exception], ...], int]] = (
    ((UsageError, LocalProtocolError), WRONG_USE),
    ((ToolFailed, ErrorResponse, MissingCapability), FAILED),
    ((TrioMcpError, OSError), NO_SERVER),
)
"""The first row that fits."""


def explain(error: BaseException) -> tuple[int, str] | None:
    """Return the exit status and the words for *error*; None where it is a bug."""
    if _is_interrupt(error):
        error = Interrupted(signal.SIGINT)
    if isinstance(error, Interrupted):
        return SIGNALLED + error.number, str(error)
    if isinstance(error, BrokenPipeError):
        return SIGNALLED + 13, ""  # as if SIGPIPE had ended it: whoever read the output has seen enough
    if isinstance(error, ServerExited):
        error = ServerExited(error.status)  # its last words are on standard error already
    return next(((status, _words(error)) for classes, status in _STATUS_OF if isinstance(error, classes)), None)


def wants_sign_in(error: BaseException) -> bool:
    """Say whether a server has asked who asks, or does not let them in."""
    return isinstance(error, HttpStatusError) and error.status in {401, 403}


def _words(error: BaseException) -> str:
    """Return what an error says, without the number of the system's."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    named: object = error.filename
    return error.strerror if named is None or str(named) in error.strerror else f"{named}: {error.strerror}"


def _is_interrupt(error: BaseException) -> bool:
    """Tell Ctrl+C, which comes in a group where it has struck while tasks were being ended."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_interrupt, cast("BaseExceptionGroup[BaseException]", error).exceptions))
    return isinstance(error, KeyboardInterrupt)


# The standard streams, which a shell may have closed, and which may be full or without a reader.


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


# What a server says, made fit to be shown: on a terminal, characters are commands.
#
# Control characters, marks that turn the direction of text around and characters that nobody can see become escapes
# such
# as ``\x1b``. Every text of a server passes through this file before a terminal gets it.

_INVISIBLE = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, apart from tab and newline
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks of direction
    "\u00ad\u200b\u2028\u2029\u2060-\u2064\ufeff"  # nothing to see, and line ends that are none
    "\ud800-\udfff\U000e0000-\U000e007f"  # halves of characters, and letters that are not shown
    "]"
)


def visible(text: str) -> str:
    """Return *text*, of one line or several, without anything that a terminal would obey."""
    return _INVISIBLE.sub(_escape, text.replace("\r\n", "\n"))


def visible_line(text: str) -> str:
    """Return *text* on one line, without anything that a terminal would obey."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def visible_json(text: str) -> str:
    """Return a JSON text that means the same, without anything that a terminal would obey."""
    return _INVISIBLE.sub(_json_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
