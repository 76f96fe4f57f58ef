"""What goes wrong in a command, in one line and one number. Loads nothing that `--help` does without."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import cast

from .._errors import (
    ErrorResponse,
    HttpStatusError,
    LocalProtocolError,
    MissingCapability,
    ServerExited,
    ToolFailed,
    TrioMcpError,
)

__all__ = ["STATUSES", "Interrupted", "UsageError", "explain", "wants_sign_in"]

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
