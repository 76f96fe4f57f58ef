"""The output of a command: its result on standard output, and log lines, remarks and progress on standard error.

Rules of this file:

1. A terminal gets tables and colours, and no character of a server that it would obey.
2. A pipe or a file gets plain lines whose format stays stable, and strings exactly as the server sent them.
3. rich is loaded for terminals only.
"""

from __future__ import annotations

import base64
import binascii
import logging
import os
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import trio
from attrs import define, field, frozen

from .. import types
from .._errors import RemoteProtocolError
from ..client import OnLog
from ..wire import encode
from ._errors import UsageError
from ._terminal import columns_of, printing, visible, visible_json, visible_line, wrapped

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ._progress_bar import Bar

__all__ = [
    "Notes",
    "Output",
    "Piece",
    "Show",
    "first_line",
    "json_line",
    "log_line",
    "log_lines",
    "piece_of",
    "pieces_of",
    "pretty_json",
    "save",
    "table_of",
]


def pretty_json(value: Any) -> str:
    """Return *value* as JSON on several lines, safe to show."""
    return visible_json(msgspec.json.format(encode(value), indent=2).decode())


def json_line(value: Any) -> str:
    """Return *value* as JSON on one line, safe to show."""
    return visible_json(encode(value).decode())


def _stdout_is_terminal() -> bool:
    return sys.stdout.isatty()


@define(eq=False)
class Output:
    """Standard output, which holds the result of the command."""

    is_terminal: bool = field(factory=_stdout_is_terminal, init=False)

    def document(self, value: Any) -> None:
        """Print a JSON value for programs; on a terminal it is indented."""
        self.line(pretty_json(value) if self.is_terminal else json_line(value))

    def line(self, text: str) -> None:
        """Print a string of this program, or one that is safe, and end its line."""
        with printing():
            sys.stdout.write(text if text.endswith("\n") else f"{text}\n")

    def text(self, text: str) -> None:
        """Print a string of the server, on lines of its own; on a terminal, long ones are broken between words."""
        self.line(wrapped(visible(text), columns_of(sys.stdout)) if self.is_terminal else text)

    def data(self, data: bytes) -> None:
        """Print bytes as they are."""
        with printing():
            sys.stdout.flush()
            sys.stdout.buffer.write(data)

    def flush(self) -> None:
        """Flush the output."""
        with printing():
            sys.stdout.flush()

    def value(self, value: Any) -> None:
        """Print a JSON value for people."""
        if not self.is_terminal:
            self.line(pretty_json(value))
            return
        from rich.highlighter import JSONHighlighter  # noqa: PLC0415  # rule 3
        from rich.text import Text  # noqa: PLC0415  # rule 3

        shown = Text(pretty_json(value))
        JSONHighlighter().highlight(shown)
        self._console().print(shown, soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str | None]]) -> None:
        """Print a table. If there is no terminal, print the fields separated by tabs, without a heading."""
        cells = [[visible_line(cell or "") for cell in row] for row in rows]
        if not self.is_terminal:
            for row in cells:
                self.line("\t".join(row))
            return
        console = self._console()
        console.print(table_of(columns, cells, console.width))

    def _console(self) -> Console:
        from rich.console import Console  # noqa: PLC0415  # rule 3

        return Console(force_terminal=True, markup=False, highlight=False, emoji=False)


def table_of(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Table:
    """Return a table whose cells are broken between words, if the longest word of each column has room.

    Args:
        columns: the headings; none is shown if all are empty.
        rows: strings that are safe to show; they are never read as markup.
        width: the number of columns of the terminal.
    """
    from rich import box  # noqa: PLC0415  # rule 3
    from rich.cells import cell_len  # noqa: PLC0415  # rule 3
    from rich.table import Table  # noqa: PLC0415  # rule 3
    from rich.text import Text  # noqa: PLC0415  # rule 3

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", show_header=any(columns))
    texts = [[column, *cells] for column, *cells in zip(columns, *rows, strict=True)]
    least = [max(cell_len(word) for text in cells for word in text.split() or [""]) for cells in texts]
    most = [max(map(cell_len, cells)) for cells in texts]
    room = width - 3 * len(columns) - 1  # beside the padding and the edges
    for column, given in zip(columns, _widths(least, most, room), strict=True):
        table.add_column(column, overflow="fold", width=given)  # never cut off: the user copies names from here
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _widths(least: Sequence[int], most: Sequence[int], room: int) -> Sequence[int | None]:
    """Return the widths of columns between the least and the most that they need; None for any, if there is no room."""
    spare = room - sum(least)
    if spare < 0:
        return [None] * len(least)
    widths = [*least]
    wanting = sorted(range(len(least)), key=lambda at: most[at] - least[at])
    for left, at in zip(range(len(wanting), 0, -1), wanting, strict=True):
        widths[at] += min(most[at] - least[at], spare // left)
        spare -= widths[at] - least[at]
    return widths


# --- Content of tools, resources and prompts ---

Contents: TypeAlias = types.TextResourceContents | types.BlobResourceContents


@frozen
class Piece:
    """One piece of content: a text to show, and the bytes of binary content."""

    text: str
    """The text itself, or a description of binary content."""
    data: bytes | None = None


def pieces_of(blocks: Iterable[types.ContentBlock | Contents]) -> list[Piece]:
    """Return content blocks as pieces.

    Raises:
        RemoteProtocolError: the server has sent binary content that is not base64.
    """
    return [piece_of(block) for block in blocks]


def piece_of(block: types.ContentBlock | Contents) -> Piece:
    """Return one content block as a piece of output. Raises as `pieces_of` does."""
    match block:
        case types.TextContent() | types.TextResourceContents():
            return Piece(block.text)
        case types.ImageContent():
            return _binary("image", block.mime_type, block.data)
        case types.AudioContent():
            return _binary("audio", block.mime_type, block.data)
        case types.ResourceLink():
            return Piece(f"[resource {block.title or block.name}: {block.uri}]")
        case types.BlobResourceContents():
            return _binary(block.uri, block.mime_type or "type unknown", block.blob)
        case _:
            return piece_of(block.resource)


def _binary(what: str, mime_type: str, encoded: str) -> Piece:
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RemoteProtocolError(f"the server's content ({what}, {mime_type}) is not base64: {error}") from None
    return Piece(f"[{what}, {mime_type}, {len(data)} bytes]", data)


def save(pieces: Sequence[Piece], path: str, output: Output) -> list[str]:
    """Write the binary pieces to files, or the text to one file if no piece is binary; ``-`` is standard output.

    Returns:
        The names of the files: *path*, and for further pieces *path* with `-2`, `-3` and so on before the suffix.

    Raises:
        UsageError: a file cannot be written.
    """
    datas = [piece.data for piece in pieces if piece.data is not None]
    datas = datas or ["\n".join(piece.text for piece in pieces).encode("utf-8", "surrogatepass")]
    if path == "-":
        for data in datas:
            output.data(data)
        return []
    names = [path, *(_numbered(path, number) for number in range(2, len(datas) + 1))]
    for name, data in zip(names, datas, strict=True):
        try:
            Path(name).write_bytes(data)
        except OSError as error:
            raise UsageError(f"cannot write {name}: {error.strerror}") from None
    return names


def _numbered(path: str, number: int) -> str:
    plain = Path(path)
    return str(plain.with_name(f"{plain.stem}-{number}{plain.suffix}"))


# --- Standard error ---

Show = Callable[[types.ProgressNotificationParams], None]
"""A function that shows one progress update."""


def _stderr_is_terminal() -> bool:
    return sys.stderr.isatty()


def _write(text: str) -> None:
    with suppress(OSError):  # the reader is gone, which must not stop the command
        sys.stderr.write(text)
        sys.stderr.flush()


@define(eq=False)
class Notes:
    """Standard error. A task that prints while the user may be typing an answer must hold `floor`."""

    floor: trio.Lock = field(factory=trio.Lock, init=False)
    is_terminal: bool = field(factory=_stderr_is_terminal, init=False)
    _bar: Bar | None = field(default=None, init=False)

    def say(self, text: str) -> None:
        """Print a remark on lines of its own; strings of a server in it are made safe."""
        shown = visible(text)
        shown = f"{wrapped(shown, columns_of(sys.stderr)) if self.is_terminal else shown}\n"
        if self._bar is None:
            _write(shown)
        else:
            self._bar.say(shown)

    def prompt(self, text: str) -> None:
        """Print the prompt behind which the user types an answer."""
        _write(visible_line(text))

    @contextmanager
    def bar(self, title: str) -> Generator[Show]:
        """Show a progress bar from the first update to the end of the block; nothing if there is no terminal."""
        if not self.is_terminal or os.environ.get("TERM") == "dumb":  # it cannot draw over its output
            yield lambda _: None
            return
        from ._progress_bar import Bar  # noqa: PLC0415  # loads rich

        self._bar = bar = Bar(title)
        try:
            yield bar.show
        finally:
            self._bar = None
            bar.close()

    @contextmanager
    def bar_hidden(self) -> Generator[None]:
        """Hide the bar during the block, in which the user types."""
        with nullcontext() if self._bar is None else self._bar.hidden():
            yield

    @contextmanager
    def logged(self) -> Generator[None]:
        """Show the log messages of this package, made safe, because they quote servers."""
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


def log_lines(notes: Notes) -> OnLog:
    """Return a callback that shows log messages of the server."""

    async def show(message: types.LoggingMessageNotificationParams) -> None:
        async with notes.floor:
            notes.say(log_line(message))

    return show


def log_line(message: types.LoggingMessageNotificationParams) -> str:
    """Return a log message on one line, such as ``[warning] disk: nearly full``."""
    words = message.data if isinstance(message.data, str) else json_line(message.data)
    source = "" if message.logger is None else f"{message.logger}: "
    return visible_line(f"[{message.level}] {source}{words}")


def first_line(text: str | None) -> str:
    """Return the first line of a description."""
    return (text or "").strip().partition("\n")[0]
