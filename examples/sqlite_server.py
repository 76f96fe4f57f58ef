"""A SQLite database as an MCP server over stdio: ``python sqlite_server.py [DB_PATH]``.

A missing database is created with sample data; without DB_PATH it is temporary and deleted when the server exits.
The tools, the resource and the prompt are in `trio_mcp/cli/demo/_server.py`, because `trio-mcp demo` uses them too.
"""

import sys

import trio

from trio_mcp import serve_stdio
from trio_mcp.cli.demo import database_file, sqlite_server


def main() -> None:
    """Serve until standard input ends or the user presses Ctrl+C."""
    try:
        with database_file(*sys.argv[1:2]) as path:
            trio.run(serve_stdio, sqlite_server(path))
    except OSError as error:
        sys.exit(f"sqlite_server: {error}")


if __name__ == "__main__":
    main()
