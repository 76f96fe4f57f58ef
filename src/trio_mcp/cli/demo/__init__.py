"""The demo: a SQLite server, and the program `trio-mcp demo`, which shows a client of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._facade import lazy_names

if TYPE_CHECKING:
    from ._run import run_demo as run_demo
    from ._server import database_file as database_file
    from ._server import sqlite_server as sqlite_server
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "_run": ("run_demo",),
            "_server": ("database_file", "sqlite_server"),
        },
    )  # fmt: skip
