"""Exit statuses, and one-line error messages. Every command starts with it.

`--help` loads it, so it imports only the standard library and the package's exceptions.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from typing import cast

from .._errors import (
    ErrorResponse,
    HttpStatusError,
    LocalProtocolError,
    MissingCapability,
    ServerExited,
    TaskCancelled,
    ToolFailed,
    TrioMcpError,
)

__all__ = [
    "STATUSES",
    "Interrupted",
    "UsageError",
    "explain",
    "nearest",
    "wants_answers",
    "wants_sign_in",
]

STATUSES = """\
exit status:
  0    success
  1    a tool failed, a task was cancelled, or the server refused a request or
       does not offer it
  2    the command line is wrong, or a file that it names cannot be used
  3    the server cannot be reached, denies access, or breaks the protocol
  130  interrupted (128 plus the number of the signal)
  199  a handler of the served server did not end; the log names its line"""

FAILED, WRONG_USE, NO_SERVER, SIGNALLED = 1, 2, 3, 128


class UsageError(Exception):
    """The user's command line cannot be carried out.

    `word` is the argument that is wrong, if it may belong to the command of a server.
    """

    def __init__(self, message: str, *, word: str | None = None) -> None:
        super().__init__(message)
        self.word = word


class Interrupted(Exception):
    """A signal ended the command."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    def __str__(self) -> str:
        return "interrupted" if self.number == signal.SIGINT else f"ended by {signal.Signals(self.number).name}"


_STATUS_OF: Sequence[tuple[tuple[type[Exception], ...], int]] = (
    ((UsageError, LocalProtocolError), WRONG_USE),
    ((ToolFailed, TaskCancelled, ErrorResponse, MissingCapability), FAILED),
    ((TrioMcpError, OSError), NO_SERVER),
)
"""The exit status of each kind of error; the first row that fits counts."""


def explain(error: BaseException) -> tuple[int, str] | None:
    """Return the exit status and the message for *error*; None if it is a bug."""
    if _is_interrupt(error):
        error = Interrupted(signal.SIGINT)
    if isinstance(error, Interrupted):
        return SIGNALLED + error.number, str(error)
    if isinstance(error, BrokenPipeError):
        return SIGNALLED + 13, ""  # as if SIGPIPE had ended it: the reader of the output has closed it
    if isinstance(error, ServerExited):
        error = ServerExited(error.status, hint=error.hint)  # its last output is already on standard error
    return next(((status, _message(error)) for classes, status in _STATUS_OF if isinstance(error, classes)), None)


def wants_sign_in(error: BaseException) -> bool:
    """Return True if the server requires authentication or denies access, and another user might have it."""
    refused = isinstance(error, HttpStatusError) and error.status in {401, 403}
    return refused and "has no authentication" not in str(error)


def wants_answers(error: BaseException) -> bool:
    """Return True if the server cannot ask for a form, because this client has not declared that it shows one."""
    return isinstance(error, (ErrorResponse, ToolFailed)) and "has not declared 'elicitation.form'" in str(error)


def _message(error: BaseException) -> str:
    """Return the message of an error, without the error number of the operating system."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    named: object = error.filename
    return error.strerror if named is None or str(named) in error.strerror else f"{named}: {error.strerror}"


def _is_interrupt(error: BaseException) -> bool:
    """Return True for Ctrl+C, which comes in a group if it was pressed while tasks were ending."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_interrupt, cast("BaseExceptionGroup[BaseException]", error).exceptions))
    return isinstance(error, KeyboardInterrupt)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a remark on the known names that the user may have meant by *name*."""
    names = [*known]
    if not names:
        return "there are none"
    from difflib import get_close_matches  # noqa: PLC0415  # `--help` does not need it

    close = get_close_matches(name, names, n=3)
    return f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(names[:20])}"
