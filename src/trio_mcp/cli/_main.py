"""The frame of the command: its arguments, and one clear line and a status for whatever goes wrong."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

from ._arguments import read_arguments
from ._failures import explain
from ._visible import visible

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `trio-mcp` and return its exit status.

    Args:
        arguments: those of the command line, without the program's name; by default those of this process.

    Raises:
        SystemExit: the command line is wrong (status 2), or asks for help or the version (status 0).
    """
    options = read_arguments(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # what a terminal cannot show is no reason to fail
    try:
        _run(options)
        sys.stdout.flush()
    except BaseException as error:
        known = explain(error)
        if known is None:
            raise
        status, words = known
        if isinstance(error, BrokenPipeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains at its end
        else:
            print(f"trio-mcp {options.command}: {_indented(visible(words))}", file=sys.stderr)  # noqa: T201  # a command prints
        return status
    return 0


def _run(options: argparse.Namespace) -> None:
    # Imported here, because --help and a wrong command line do without Trio.
    match options.command:
        case "demo":
            from .demo._run import run_demo  # noqa: PLC0415

            run_demo()
        case "serve":
            from ._serve import serve  # noqa: PLC0415

            serve(options.server)
        case _:
            from ._connected import run_connected  # noqa: PLC0415

            run_connected(options)


def _indented(words: str) -> str:
    """Return *words* so that no line of a server's looks like one of ours."""
    return words.rstrip("\n").replace("\n", "\n    ")
