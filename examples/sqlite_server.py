"""A SQLite database as an MCP server over stdio: ``python sqlite_server.py [DB_PATH]``.

A database that is not there yet is made, with sample data; without DB_PATH it lasts as long as the server.
The tools, the resource and the prompt are in `trio_mcp/cli/demo/_server.py`, because `trio-mcp demo` uses them too.
"""

import sys

import trio

from trio_mcp import serve_stdio
from trio_mcp.cli.demo import database_file, sqlite_server


def main() -> None:
    """Serve until standard input ends, or Ctrl+C."""
    try:
        with database_file(*sys.argv[1:2]) as path:
            trio.run(serve_stdio, sqlite_server(path))
    except OSError as error:
        sys.exit(f"sqlite_server: {error}")


if __name__ == "__main__":
    main()
