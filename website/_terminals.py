"""Pictures of terminals: what real commands print, as SVG.

Each command runs in a terminal of its own, as wide as the picture, in the folder `examples`. Rich, which prints the
tables of the command line, also draws what was printed.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from attrs import frozen
from rich.console import Console
from rich.text import Text

__all__ = ["TERMINALS", "Terminal", "printed", "terminal_picture"]

FOLDER: Final = Path(__file__).parents[1] / "examples"
_COLUMNS: Final = 60
"""Narrow, so that the text is large enough on a telephone."""
_WEB_FONTS: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


@frozen
class Terminal:
    """A picture of commands and what they print."""

    title: str
    commands: tuple[str, ...]
    until: str | None = None
    """The line before which the picture ends; None for the end."""


TERMINALS: Final[Mapping[str, Terminal]] = {
    "terminal-tools": Terminal(
        "The tools of a server, and two calls",
        (
            "trio-mcp tools server.py",
            "trio-mcp call add a=1 b=2 server.py",
            "trio-mcp call add a=1 b=two server.py",
        ),
    ),
    "terminal-demo": Terminal("The beginning of trio-mcp demo", ("trio-mcp demo",), until="3. Progress of a long call"),
}
"""The pictures, by the names of their files."""


def terminal_picture(name: str, terminal: Terminal) -> str:
    """Return the picture of a terminal as SVG."""
    console = Console(width=_COLUMNS, record=True, file=StringIO())
    for command in terminal.commands:
        console.print(Text.assemble(("$ ", "dim"), (command, "bold")), soft_wrap=True)
        output = printed(command)
        if terminal.until is not None:
            output = "\n".join(output.splitlines()[: _line_of(terminal.until, output)])
        console.print(Text.from_ansi(output.strip("\n")), soft_wrap=True)
        console.print()
    shown = console.export_text(clear=False)
    picture = _WEB_FONTS.sub("", console.export_svg(title=terminal.title, unique_id=name))
    heading = f"<title>{escape(terminal.title)}</title><desc>{escape(shown)}</desc>"
    # Rich writes spaces at the ends of some lines.
    lines = picture.replace("<style>", f"{heading}\n    <style>", 1).replace("\xa0", "&#160;").splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


def printed(command: str) -> str:
    """Run a command of this environment in a terminal of its own, and return what it prints.

    Raises:
        subprocess.TimeoutExpired: it does not end.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, _COLUMNS, 0, 0))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "LC_ALL") if name in os.environ}
    environment = {**kept, "PATH": path, "TERM": "xterm-256color", "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(  # noqa: S603  # the commands of this file
        command.split(), cwd=FOLDER, env=environment, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    output = b""
    # The last reading fails, because the other end of the terminal is closed.
    while chunk := _read(ours):
        output += chunk
    os.close(ours)
    process.wait(timeout=60)
    return output.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def _line_of(text: str, output: str) -> int:
    return next(number for number, line in enumerate(output.splitlines()) if text in line)
