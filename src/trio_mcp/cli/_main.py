"""The entry point of `trio-mcp`: it runs the chosen command and turns each failure into one line and an exit status."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from ._arguments import missing_dashes, read_arguments
from ._errors import UsageError, explain, wants_answers, wants_sign_in
from ._terminal import columns_of, discard_unwritable, prepare_streams, printing, visible, wrapped

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `trio-mcp` and return its exit status.

    Args:
        arguments: the command line without the program's name; by default that of this process.

    Raises:
        SystemExit: the command line is wrong (status 2), or requests the help or the version (status 0).
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    options = read_arguments(arguments)
    # These talk to their client over standard input and output, so they fail if one of them is closed.
    prepare_streams(["stderr"] if options.command in {"serve", "gateway"} else ["stdin", "stdout", "stderr"])
    try:
        _run(options, arguments)
        with printing():
            sys.stdout.flush()
    except BaseException as error:
        known = explain(error)
        if known is None:
            raise
        status, words = known
        if getattr(options, "login", None) is False and wants_sign_in(error):
            words += " (try --login)"
        if getattr(options, "answer", "") is None and wants_answers(error):
            words += " (use --answer FILE, or a terminal)"
        if isinstance(error, UsageError) and error.word is not None:
            words += missing_dashes(options, error.word)
        if words:
            _write_error(f"trio-mcp {options.command}: {_indented(visible(words))}\n")
        if sys.stdout is not None:  # pyright: ignore[reportUnnecessaryComparison]  # closed streams are None
            discard_unwritable(sys.stdout)
        return status
    finally:
        discard_unwritable(sys.stderr)
    return 0


def _write_error(line: str) -> None:
    with suppress(OSError):  # standard error has no reader: the exit status still tells
        if sys.stderr.isatty():
            line = wrapped(line, columns_of(sys.stderr), hanging="    ")
        sys.stderr.write(line)


def _run(options: argparse.Namespace, arguments: Sequence[str]) -> None:
    if options.command == "serve" and options.inspect:
        os.environ["TRIO_MCP_INSPECT"] = "1"
    # Imported here, because --help and a wrong command line need no Trio.
    if options.command == "demo":
        from .demo import run_demo  # noqa: PLC0415

        run_demo()
    elif options.command == "serve" and options.http is not None:
        from ._serve import serve_over_http  # noqa: PLC0415

        serve_over_http(options, arguments)
    else:
        module, name = _FUNCTIONS.get(options.command, ("_connect", "run_connected"))
        getattr(import_module(f".{module}", __package__), name)(options)


_FUNCTIONS = {
    "completion": ("_completion", "completion"),
    "dev": ("_dev", "develop"),
    "gateway": ("_gateway", "serve_gateway"),
    "hosts": ("_hosts", "list_hosts"),
    "inspect": ("_inspect", "inspect_process"),
    "install": ("_hosts", "install"),
    "serve": ("_serve", "serve"),
    "servers": ("_hosts", "list_servers"),
}
"""The module and the function of each command that connects to no server."""


def _indented(words: str) -> str:
    """Return *words* with every line but the first indented, so that a server cannot imitate a line of this command."""
    return words.rstrip("\n").replace("\n", "\n    ")
