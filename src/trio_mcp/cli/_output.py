"""What a command answers, on standard output.

A terminal gets tables and colours, and nothing of a server's that it would obey. A pipe or file gets plain lines that
stay the same from one day to the next, and texts exactly as the server gave them. rich is loaded for terminals only.
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
from ._errors import UsageError, printing, visible, visible_json, visible_line

if TYPE_CHECKING:
    from rich.console import Console

    from ._progress_bar import Bar

__all__ = [
    "Notes",
    "Output",
    "Piece",
    "Show",
    "json_line",
    "log_line",
    "log_lines",
    "piece_of",
    "pieces_of",
    "pretty_json",
    "save",
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
    """Standard output."""

    is_terminal: bool = field(factory=_stdout_is_terminal, init=False)

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


# Content of tools, resources and prompts: as text to show, and as bytes to keep.

Contents: TypeAlias = types.TextResourceContents | types.BlobResourceContents


@frozen
class Piece:
    """One piece of content."""

    text: str
    """What it says; of bytes, what they are."""
    data: bytes | None = None


def pieces_of(blocks: Iterable[types.ContentBlock | Contents]) -> list[Piece]:
    """Return the pieces of some content.

    Raises:
        RemoteProtocolError: what should be base64 is not.
    """
    return [piece_of(block) for block in blocks]


def piece_of(block: types.ContentBlock | Contents) -> Piece:
    """Return one block of content as a piece; raises as `pieces_of` does."""
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
    """Write the binary pieces to files, or else the text to one; ``-`` is standard output.

    Returns:
        The names of the files: *path*, then, where there are several pieces, `path-2` and so on before the suffix.

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


# What a command says beside its answer, on standard error: log lines, a bar while a call reports progress, remarks.

Show = Callable[[types.ProgressNotificationParams], None]
"""Shows one progress update."""


def _stderr_is_terminal() -> bool:
    return sys.stderr.isatty()


def _write(text: str) -> None:
    with suppress(OSError):  # nobody reads any more, which does not hold up the answer
        sys.stderr.write(text)
        sys.stderr.flush()


@define(eq=False)
class Notes:
    """Standard error. Who speaks while a person may be typing an answer holds `floor`."""

    floor: trio.Lock = field(factory=trio.Lock, init=False)
    is_terminal: bool = field(factory=_stderr_is_terminal, init=False)
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
        from ._progress_bar import Bar  # noqa: PLC0415  # loads rich

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


# Log messages of the server, as lines on standard error.


def log_lines(notes: Notes) -> OnLog:
    """Return what shows log messages."""

    async def show(message: types.LoggingMessageNotificationParams) -> None:
        async with notes.floor:
            notes.say(log_line(message))

    return show


def log_line(message: types.LoggingMessageNotificationParams) -> str:
    """Return a log message on one line, such as ``[warning] disk: nearly full``."""
    words = message.data if isinstance(message.data, str) else json_line(message.data)
    source = "" if message.logger is None else f"{message.logger}: "
    return visible_line(f"[{message.level}] {source}{words}")
