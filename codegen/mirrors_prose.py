"""The docstrings of the Trio client as they read without async: threads instead of tasks, and nothing to await."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

__all__ = ["PHRASES", "without_async", "wrapped"]

PHRASES: Mapping[str, str] = {
    "an asynchronous iterator": "an iterator",
    "an iterator for one task at a time": "an iterator for one thread at a time",
    "for one task of the program at a time": "for one thread at a time",
    "by several tasks of the program at once": "by several threads at once",
    "Cancelling them does not cancel": "Ctrl+C in one does not cancel",
    " Leave the block in the task that entered it, innermost first; where that is too strict, use `start_clients`.": "",
    "`open_clients` or `start_clients`": "`open_clients`",
    "from any number of tasks at once": "from any number of threads at once",
    "from any task": "from any thread",
    "One task reads from it at a time": "One thread reads from it at a time",
    "in the task that iterates over `updates` or waits for the `result`": (
        "in worker threads, while a thread iterates over `updates` or waits for the `result`"
    ),
    "is raised in that task, and again in each task that waits later": (
        "is raised in that thread, and again in each one that waits later"
    ),
    "it may be awaited repeatedly": "it may be called repeatedly",
    "It is awaited with": "It is called with",
    "awaited with each progress update of each call": "called with each progress update of each call",
    "or is no async function": "or is no plain function",
    "First *approve* is awaited for": "First *approve* is called for",
    "awaited with each progress update, in order, in this task, before": (
        "called with each progress update, in order, in a worker thread, before"
    ),
    "in a task of the connection": "in a worker thread",
    "called in the event loop with each line": "called in the thread of Trio with each line",
    "Async functions that": "Functions that",
    "Cancelled before the task exists, this cancels the call": "Ctrl+C before the task exists cancels the call",
    "If a call is cancelled, the server's handler is cancelled too": (
        "Ctrl+C in a call cancels the server's handler too"
    ),
    "`open_client`, `start_client` or one of their siblings": "`open_client` or one of its siblings",
    "Leave the block in the task that entered it, innermost first; where that is too strict, use `start_client`. "
    "Inside an async generator, close the generator with `contextlib.aclosing`. ": "",
    "async with": "with",
    "async for": "for",
    "async def": "def",
    "await ": "",
}
"""What takes the place of each phrase, in this order. A phrase may be broken into lines anywhere."""
_ENTRY = re.compile(r" +\w+: ")
"""The begin of a parameter or an exception."""
_PATTERNS = {re.compile(r"\s+".join(map(re.escape, phrase.split(" ")))): plain for phrase, plain in PHRASES.items()}


def without_async(text: str) -> str:
    """Return a docstring as it reads without async; its lines may have become longer."""
    for pattern, plain in _PATTERNS.items():
        text = pattern.sub(plain, text)
    return text


def wrapped(text: str, width: int) -> str:
    """Return a docstring whose lines have at most *width* characters: the rest of a longer one begins the next.

    A word that is longer stays whole.
    """
    return "\n".join(_lines(text.split("\n"), width))


def _lines(lines: list[str], width: int) -> Iterator[str]:
    while lines:
        line = lines.pop(0)
        kept = line[: width + 1].rpartition(" ")[0]
        if len(line) > width and kept.strip():
            deeper = "    " if _ENTRY.match(line) else ""
            rest = f"{_indent(line)}{deeper}{line[len(kept) :].lstrip()}"
            continued = bool(lines) and _indent(lines[0]) == _indent(rest) and bool(lines[0])
            lines[:1] = [f"{rest} {lines[0].lstrip()}"] if continued else [rest, *lines[:1]]
            line = kept
        yield line


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
