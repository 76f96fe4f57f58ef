"""The demo's server by itself: ``python -m trio_mcp.cli.demo [DB_PATH]`` serves a database over stdio."""

from __future__ import annotations

import sys

import trio

from ...server import serve_stdio
from . import database_file, sqlite_server


def main(arguments: list[str]) -> None:
    """Serve the file that is named, or a temporary one with the sample data."""
    try:
        with database_file(*arguments[:1]) as path:
            trio.run(serve_stdio, sqlite_server(path))
    except OSError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
