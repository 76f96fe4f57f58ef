"""What a command says beside its answer, on standard error: log lines, a bar while a call reports progress, remarks."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

import trio
from attrs import define, field

from .. import types
from ._visible import visible, visible_line

if TYPE_CHECKING:
    from ._bar import Bar

__all__ = ["Notes", "Show"]

Show = Callable[[types.ProgressNotificationParams], None]
"""Shows one progress update."""


def _is_terminal() -> bool:
    return sys.stderr.isatty()


def _write(text: str) -> None:
    with suppress(OSError):  # nobody reads any more, which does not hold up the answer
        sys.stderr.write(text)
        sys.stderr.flush()


@define(eq=False)
class Notes:
    """Standard error. Who speaks while a person may be typing an answer holds `floor`."""

    floor: trio.Lock = field(factory=trio.Lock, init=False)
    is_terminal: bool = field(factory=_is_terminal, init=False)
    _bar: Bar | None = field(default=None, init=False)

    def say(self, text: str) -> None:
        """Say something in lines of its own; a server's words in it may be any."""
        shown = f"{visible(text)}\n"
        if self._bar is None:
            _write(shown)
        else:
            self._bar.say(shown)

    def prompt(self, text: str) -> None:
        """Say what a person is to type an answer behind."""
        _write(visible_line(text))

    @contextmanager
    def bar(self, title: str) -> Generator[Show]:
        """Show a bar from the first update on, for as long as the block lasts; nothing where there is no terminal."""
        if not self.is_terminal or os.environ.get("TERM") == "dumb":  # such a one cannot draw over what is there
            yield lambda _: None
            return
        from ._bar import Bar  # noqa: PLC0415  # loads rich

        self._bar = bar = Bar(title)
        try:
            yield bar.show
        finally:
            self._bar = None
            bar.close()

    @contextmanager
    def bar_hidden(self) -> Generator[None]:
        """Take the bar away for as long as the block lasts: a person is about to type."""
        with nullcontext() if self._bar is None else self._bar.hidden():
            yield

    @contextmanager
    def logged(self) -> Generator[None]:
        """Show what this package logs, made safe: it quotes servers."""
        handler = _Handler(self)
        logger = logging.getLogger("trio_mcp")
        logger.addHandler(handler)
        try:
            yield
        finally:
            logger.removeHandler(handler)


class _Handler(logging.Handler):
    def __init__(self, notes: Notes) -> None:
        super().__init__(logging.WARNING)
        self._notes = notes

    def emit(self, record: logging.LogRecord) -> None:
        self._notes.say(f"trio-mcp: {self.format(record)}")
