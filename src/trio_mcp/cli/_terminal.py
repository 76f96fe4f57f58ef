r"""The standard streams and the terminal: opening, printing, lines that fit, and strings that are safe to show.

Rules of this file:

1. `--help` loads it, so it imports only the standard library.
2. On a terminal, characters can be commands. Control characters, marks of text direction and invisible characters
   become escapes such as ``\x1b``. Every string of a server passes through `visible`, `visible_line` or `visible_json`
   before a terminal gets it.
3. A shell may have closed the standard streams, and they may be full or have no reader.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import TextIO

from ._errors import UsageError

__all__ = [
    "columns_of",
    "discard_unwritable",
    "prepare_streams",
    "printing",
    "visible",
    "visible_json",
    "visible_line",
    "wrapped",
]


def prepare_streams(needed: Iterable[str]) -> None:
    """Open the closed streams of *needed* on the null device, and let the output escape unencodable characters.

    If a descriptor stayed free, the next file or pipe would get its number, and with it the output of the stream.
    """
    for name in needed:
        if getattr(sys, name) is None:
            stream = open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8")  # noqa: PTH123, SIM115  # stays open
            os.set_inheritable(stream.fileno(), True)  # also by the server process
            setattr(sys, name, stream)
    for shown in (sys.stdout, sys.stderr):
        if isinstance(shown, io.TextIOWrapper):
            shown.reconfigure(errors="backslashreplace")  # an unencodable character must not make the command fail


@contextmanager
def printing() -> Generator[None]:
    """Turn a failure to write to standard output into the error that `explain` expects.

    Raises:
        BrokenPipeError: the reader has closed the pipe.
        UsageError: the output cannot be written for another reason, such as a full disk.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"cannot write to standard output: {error.strerror}") from None


def discard_unwritable(stream: TextIO) -> None:
    """Discard the buffered output that *stream* cannot write: the interpreter would report it on exit."""
    try:
        stream.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        stream.flush()


# --- Lines that fit the terminal ---


def columns_of(stream: TextIO) -> int:
    """Return the number of columns of the terminal behind a stream; 80 if it is unknown."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except OSError:
        return 80


def wrapped(text: str, width: int, *, hanging: str = "") -> str:
    """Return a text whose long lines are broken between words; a word that is longer than a line stays whole.

    Args:
        width: the number of columns.
        hanging: what the lines that a long line is broken into begin with, after its own indentation.
    """
    if max(map(len, text.split("\n"))) <= width:
        return text
    import textwrap  # noqa: PLC0415  # most lines are short

    lines: list[str] = []
    for line in text.split("\n"):
        indentation = line[: len(line) - len(line.lstrip())]
        lines += (
            textwrap.wrap(
                line.strip(),
                width,
                initial_indent=indentation,
                subsequent_indent=indentation + hanging,
                expand_tabs=False,
                replace_whitespace=False,
                break_long_words=False,
                break_on_hyphens=False,
            )
            or [line]
            if len(line) > width
            else [line]
        )
    return "\n".join(lines)


# --- Strings of a server, made safe to show ---

_INVISIBLE = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, apart from tab and newline
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks of direction
    "\u00ad\u200b\u2028\u2029\u2060-\u2064\ufeff"  # invisible characters, and unusual line ends
    "\ud800-\udfff\U000e0000-\U000e007f"  # surrogates, and invisible tags
    "]"
)


def visible(text: str) -> str:
    """Return a string of one or more lines with the characters escaped that a terminal would obey."""
    return _INVISIBLE.sub(_escape, text.replace("\r\n", "\n"))


def visible_line(text: str) -> str:
    """Return a string on one line with the characters escaped that a terminal would obey."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def visible_json(text: str) -> str:
    """Return equivalent JSON with the characters escaped that a terminal would obey."""
    return _INVISIBLE.sub(_json_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
