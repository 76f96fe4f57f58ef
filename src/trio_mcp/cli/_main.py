"""The entry point of `trio-mcp`: it runs the chosen command and turns each failure into one line and an exit status."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from ._arguments import read_arguments
from ._errors import explain, wants_sign_in
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
    # `serve` talks to its client over standard input and output, so it fails if one of them is closed.
    prepare_streams(["stderr"] if options.command == "serve" else ["stdin", "stdout", "stderr"])
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
    match options.command:
        case "demo":
            from .demo import run_demo  # noqa: PLC0415

            run_demo()
        case "install":
            from ._hosts import install  # noqa: PLC0415

            install(options)
        case "hosts":
            from ._hosts import list_hosts  # noqa: PLC0415

            list_hosts(options)
        case "servers":
            from ._hosts import list_servers  # noqa: PLC0415

            list_servers(options)
        case "completion":
            from ._completion import completion  # noqa: PLC0415

            completion(options)
        case "dev":
            from ._dev import develop  # noqa: PLC0415

            develop(options)
        case "inspect":
            from ._inspect import inspect_process  # noqa: PLC0415

            inspect_process(options)
        case "serve" if options.http is not None:
            from ._serve import serve_over_http  # noqa: PLC0415

            serve_over_http(options, arguments)
        case "serve":
            from ._serve import serve  # noqa: PLC0415

            serve(options)
        case _:
            from ._connect import run_connected  # noqa: PLC0415

            run_connected(options)


def _indented(words: str) -> str:
    """Return *words* with every line but the first indented, so that a server cannot imitate a line of this command."""
    return words.rstrip("\n").replace("\n", "\n    ")
