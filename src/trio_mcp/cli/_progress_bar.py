"""A progress bar on standard error, which must be a terminal. It has a file of its own because it loads rich."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager

from attrs import define, field
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from .. import types
from ._terminal import visible_line

__all__ = ["Bar"]

_LARGEST = 1e15
"""The largest amount shown: JSON has integers that no float can hold."""

_PAUSE_SECONDS = 0.05
"""The shortest time between two drawings. Drawing takes a millisecond, and a server may report thousands of steps."""


@define(eq=False)
class Bar:
    """A progress bar that appears with the first update and disappears when it is closed."""

    _title: str
    _progress: Progress | None = field(default=None, init=False)
    _task: TaskID = field(default=TaskID(0), init=False)
    _is_hidden: bool = field(default=False, init=False)
    _next_at: float = field(default=-math.inf, init=False)

    def show(self, update: types.ProgressNotificationParams) -> None:
        """Draw the bar with the amount of an update."""
        done, total = _bounded(update.progress), None if update.total is None else _bounded(update.total)
        if self._is_hidden or (time.monotonic() < self._next_at and done != total):
            return
        self._next_at = time.monotonic() + _PAUSE_SECONDS
        amount = f"{done:g}" if total is None else f"{done:g}/{total:g}"
        message = visible_line(update.message or "")
        if self._progress is None:
            self._progress = _progress()
            title = visible_line(self._title)
            self._task = self._progress.add_task(title, total=total, amount=amount, message=message)
            self._progress.start()
        # Drawn here: no thread draws at intervals.
        self._progress.update(self._task, total=total, completed=done, amount=amount, message=message, refresh=True)

    def say(self, text: str) -> None:
        """Print a string above the bar."""
        if self._progress is None:
            sys.stderr.write(text)
        else:
            self._progress.console.print(Text(text), end="", soft_wrap=True)

    @contextmanager
    def hidden(self) -> Generator[None]:
        """Hide the bar during the block; the next update draws it again."""
        self._is_hidden = True
        self.close()
        try:
            yield
        finally:
            self._is_hidden = False

    def close(self) -> None:
        """Remove the bar from the screen."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def _progress() -> Progress:
    console = Console(stderr=True, force_terminal=True, markup=False, highlight=False, emoji=False)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[amount]}", markup=False),
        TextColumn("{task.fields[message]}", markup=False),
    )
    return Progress(*columns, console=console, auto_refresh=False, transient=True, redirect_stdout=False)


def _bounded(amount: float) -> float:
    return float(max(-_LARGEST, min(_LARGEST, amount)))
