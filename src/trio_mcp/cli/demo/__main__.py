"""The server of the demo as a program: ``python -m trio_mcp.cli.demo [DB_PATH]`` serves a database over stdio."""

from __future__ import annotations

import sys

import trio

from ...server import serve_stdio
from ._server import database_file, sqlite_server

try:
    with database_file(*sys.argv[1:2]) as path:
        trio.run(serve_stdio, sqlite_server(path))
except OSError as error:
    sys.exit(f"trio_mcp.cli.demo: {error}")
