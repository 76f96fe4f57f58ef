"""What the demo looks like: chapters, tables and a bar, on a terminal or in a log.

Everything that a server said is printed as it is, never as markup.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager

from attrs import define, field
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

__all__ = ["Screen"]


def _console() -> Console:
    return Console(markup=False, highlight=False, emoji=False)


@define(eq=False)
class Screen:
    """Standard output, as the demo uses it."""

    _console: Console = field(factory=_console, init=False)
    _chapters: int = field(default=0, init=False)

    def chapter(self, title: str, code: str) -> None:
        """Begin a chapter.

        Args:
            title: what it is about.
            code: the line of a program that does it.
        """
        self._chapters += 1
        self._console.print(f"\n{self._chapters}. {title}", style="bold")
        self._console.print(f"   {code}\n", style="cyan", soft_wrap=True)

    def say(self, text: str) -> None:
        """Print a line of the demo's own."""
        self._console.print(text, soft_wrap=True)

    def quote(self, who: str, words: str) -> None:
        """Print what somebody said."""
        self._console.print(f"{who}: ", style="bold", end="", soft_wrap=True)
        self._console.print(words, style="green", soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Print a table; an absent value is an empty cell."""
        table = Table(*columns, box=box.SIMPLE_HEAD, header_style="bold")
        for row in rows:
            table.add_row(*("" if value is None else str(value) for value in row))
        self._console.print(table)

    @contextmanager
    def bar(self, title: str) -> Generator[Callable[[float, float | None], None]]:
        """Show a bar for as long as the block lasts; call what it yields with how much is done, and of how much.

        Where there is no terminal, only the end is printed.
        """
        columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()
        # Each update draws: a thread that draws by the clock would only get in the way.
        with Progress(*columns, console=self._console, auto_refresh=False) as progress:
            task = progress.add_task(title, total=None)
            yield lambda done, total: progress.update(task, completed=done, total=total, refresh=True)
