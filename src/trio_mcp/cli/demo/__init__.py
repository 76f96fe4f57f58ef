"""The demo: a SQLite server, and the program `trio-mcp demo` that shows what a client does with it."""

from ._database import database_file as database_file
from ._server import sqlite_server as sqlite_server
