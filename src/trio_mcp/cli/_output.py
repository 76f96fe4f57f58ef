"""What a command answers, on standard output.

A terminal gets tables and colours, and nothing of a server's that it would obey. A pipe or file gets plain lines that
stay the same from one day to the next, and texts exactly as the server gave them. rich is loaded for terminals only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from attrs import define, field

from ..wire import encode
from ._streams import printing
from ._visible import visible, visible_json, visible_line

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Output", "json_line", "pretty_json"]


def pretty_json(value: Any) -> str:
    """Return *value* as JSON on several lines, safe to show."""
    return visible_json(msgspec.json.format(encode(value), indent=2).decode())


def json_line(value: Any) -> str:
    """Return *value* as JSON on one line, safe to show."""
    return visible_json(encode(value).decode())


def _is_terminal() -> bool:
    return sys.stdout.isatty()


@define(eq=False)
class Output:
    """Standard output."""

    is_terminal: bool = field(factory=_is_terminal, init=False)

    def document(self, value: Any) -> None:
        """Print a JSON value for programs; on a terminal, so that people can read it too."""
        self.line(pretty_json(value) if self.is_terminal else json_line(value))

    def line(self, text: str) -> None:
        """Print a text that is ours, or safe, and the end of its line."""
        with printing():
            sys.stdout.write(text if text.endswith("\n") else f"{text}\n")

    def text(self, text: str) -> None:
        """Print a server's text, on lines of its own."""
        self.line(visible(text) if self.is_terminal else text)

    def data(self, data: bytes) -> None:
        """Print bytes as they are."""
        with printing():
            sys.stdout.flush()
            sys.stdout.buffer.write(data)

    def flush(self) -> None:
        """Let go of what was printed."""
        with printing():
            sys.stdout.flush()

    def value(self, value: Any) -> None:
        """Print a JSON value for people."""
        if not self.is_terminal:
            self.line(pretty_json(value))
            return
        from rich.highlighter import JSONHighlighter  # noqa: PLC0415  # see the rules above
        from rich.text import Text  # noqa: PLC0415  # likewise

        shown = Text(pretty_json(value))
        JSONHighlighter().highlight(shown)
        self._console().print(shown, soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str | None]]) -> None:
        """Print a table: fields between tabs, and no heading, where there is no terminal."""
        cells = [[visible_line(cell or "") for cell in row] for row in rows]
        if not self.is_terminal:
            for row in cells:
                self.line("\t".join(row))
            return
        from rich import box  # noqa: PLC0415  # see the rules above
        from rich.table import Table  # noqa: PLC0415  # likewise
        from rich.text import Text  # noqa: PLC0415  # likewise

        table = Table(box=box.SIMPLE_HEAD, header_style="bold", show_header=any(columns))
        for column in columns:
            table.add_column(column, overflow="fold")  # never cut off: a name is there to be used
        for row in cells:
            table.add_row(*map(Text, row))  # a Text is never read as markup
        self._console().print(table)

    def _console(self) -> Console:
        from rich.console import Console  # noqa: PLC0415  # see the rules above

        return Console(force_terminal=True, markup=False, highlight=False, emoji=False)
