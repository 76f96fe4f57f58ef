"""The frame of the command: its arguments, and one clear line and a status for whatever goes wrong."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .._errors import ErrorResponse, ToolFailed, TrioMcpError

__all__ = ["main"]

STATUSES = """\
exit status:
  0  all went well
  1  a tool failed, or the server refused a request
  2  the command line is wrong
  3  the server cannot be reached, or breaks the protocol"""

_FAILED, _NO_SERVER, _INTERRUPTED = 1, 3, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `trio-mcp` and return its exit status.

    Args:
        arguments: those of the command line, without the program's name; by default those of this process.

    Raises:
        SystemExit: the command line is wrong (status 2), or asks for help or the version (status 0).
    """
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except (ToolFailed, ErrorResponse) as error:
        return _failed(options.command, str(error), _FAILED)
    except (TrioMcpError, OSError) as error:
        return _failed(options.command, str(error), _NO_SERVER)
    except KeyboardInterrupt:
        return _failed(options.command, "interrupted", _INTERRUPTED)
    return 0


def _parser() -> argparse.ArgumentParser:
    from importlib.metadata import version  # noqa: PLC0415  # the demo's server imports this folder, and has no use for it

    parser = argparse.ArgumentParser(
        prog="trio-mcp",
        description="The Model Context Protocol from a shell.",
        epilog=STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"trio-mcp {version('trio-mcp')}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    demo = commands.add_parser(
        "demo",
        help="start a SQLite server as a child process, and show what a client does with it",
        description="Start a SQLite server as a child process, and show what a client does with it. Takes seconds.",
    )
    demo.set_defaults(run=_demo)
    return parser


def _demo(_: argparse.Namespace) -> None:
    from .demo._run import run_demo  # noqa: PLC0415  # loads Trio and rich, which --help does without

    run_demo()


def _failed(command: str, message: str, status: int) -> int:
    print(f"trio-mcp {command}: {message}", file=sys.stderr)  # noqa: T201  # a command prints
    return status
