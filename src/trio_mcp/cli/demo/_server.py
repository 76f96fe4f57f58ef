"""The demo's MCP server: a SQLite database as tools, a memo as a resource, and a prompt.

Plain functions run in worker threads, where SQLite may block; `async` ones run in Trio. What they return is
described to the client by their annotations, and what they raise as `ToolError` is read by the model.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import trio
from attrs import define, field, frozen

from ..._errors import ToolError
from ...server import Context, Server
from ...types import ToolAnnotations
from ._database import Column, Database, Rows

__all__ = ["sqlite_server"]

_READS = ToolAnnotations(read_only_hint=True)

Pause = Annotated[float, msgspec.Meta(ge=0, le=1, description="seconds to rest after each row, as if it were many")]


def sqlite_server(path: Path) -> Server:
    """Return a server for one SQLite database, ready for `serve_stdio` or any other way to serve.

    Args:
        path: the database file; see `database_file`.
    """
    server = Server("trio-mcp-sqlite", version="1.0", instructions="Look with list_tables and describe_table first.")
    database = Database(path)
    add_queries(server, database)
    add_recounting(server, database)
    add_insights(server)
    return server


def add_queries(server: Server, database: Database) -> None:
    """Offer the database itself."""

    @server.tool(annotations=_READS)
    def list_tables() -> list[str]:
        """List the tables of the database."""
        return database.tables()

    @server.tool(annotations=_READS)
    def describe_table(table: str) -> list[Column]:
        """Describe the columns of a table.

        Args:
            table: its name, as list_tables gives it
        """
        return database.columns(table)

    @server.tool(annotations=_READS, timeout=30)
    def read_query(query: str) -> Rows:
        """Run one SELECT and return its rows; it cannot change anything.

        Args:
            query: the statement, in the SQL of SQLite
        """
        return database.read(query)

    @server.tool(timeout=30)
    def write_query(query: str) -> int:
        """Run one INSERT, UPDATE or DELETE and return how many rows it changed.

        Args:
            query: the statement, in the SQL of SQLite
        """
        return database.write(query)

    @server.tool(timeout=30)
    def create_table(query: str) -> str:
        """Create a table.

        Args:
            query: a CREATE TABLE statement, in the SQL of SQLite
        """
        database.create(query)
        return "created"


@define(eq=False)
class _Recount:
    """One run of the tool `recount`."""

    table: str
    total: int
    counted: int = 0
    cancelled: bool = False
    ended: trio.Event = field(factory=trio.Event)


@frozen
class RecountOutcome:
    """What became of a recount."""

    table: str
    counted: int
    total: int
    cancelled: bool


def add_recounting(server: Server, database: Database) -> None:
    """Offer a tool that takes its time and tells how far it is, and a tool that tells what became of it."""
    latest: _Recount | None = None

    @server.tool(annotations=_READS)
    async def recount(table: str, ctx: Context, pause: Pause = 0.05) -> int:
        """Count the rows of a table one by one, reporting progress.

        Args:
            table: its name, as list_tables gives it
        """
        nonlocal latest
        run = latest = _Recount(table, await trio.to_thread.run_sync(database.count, table))
        try:
            while run.counted < run.total:
                run.counted += 1
                await ctx.report_progress(run.counted, run.total, f"row {run.counted} of {run.total}")
                await trio.sleep(pause)
        except trio.Cancelled:  # the client's doing: it left, ran into its deadline, or went away
            run.cancelled = True
            raise
        finally:
            run.ended.set()
        return run.counted

    @server.tool(annotations=_READS)
    async def recount_outcome() -> RecountOutcome:
        """Tell what became of the latest recount, as soon as it has ended."""
        run = latest
        if run is None:
            raise ToolError("nothing has been recounted yet")
        await run.ended.wait()
        return RecountOutcome(run.table, run.counted, run.total, run.cancelled)


def add_insights(server: Server) -> None:
    """Offer a memo to write down what was found, and a prompt that asks for it."""
    insights: list[str] = []

    @server.tool
    async def append_insight(insight: str) -> str:
        """Add a finding to the memo.

        Args:
            insight: one sentence
        """
        insights.append(insight)
        return f"the memo holds {len(insights)} now"

    @server.resource("memo://insights", mime_type="text/markdown")
    async def memo() -> str:
        """What was found in the database so far."""
        return "# Insights\n\n" + ("\n".join(f"- {insight}" for insight in insights) or "None so far.")

    @server.prompt
    def explore(topic: str) -> str:
        """Ask for a look into the database.

        Args:
            topic: what to find out
        """
        return (
            f"Find out about {topic} in the database that this server offers. List its tables and describe those that "
            "matter, query them with read_query, write down each finding with append_insight, and sum up what the "
            "resource memo://insights then says."
        )
