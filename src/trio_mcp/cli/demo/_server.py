"""The demo's MCP server: a SQLite database as tools, a memo as a resource, and a prompt.

Plain functions run in worker threads, where SQLite may block; `async` ones run in Trio. What they return is
described to the client by their annotations, and what they raise as `ToolError` is read by the model.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import msgspec
import trio
from attrs import define, field, frozen

from ..._errors import ToolError
from ...server import Context, Server
from ...types import ToolAnnotations

__all__ = ["Cell", "Column", "Database", "Rows", "database_file", "sqlite_server"]


# The SQLite side of the demo: one database file, and statements that can do no more than their tool says.
#
# Rules of this file:
#
# 1. Every call opens a connection of its own and closes it, so that worker threads share nothing.
# 2. A statement is judged by SQLite itself, through its authorizer, and never by looking at its text.
# 3. A statement runs inside a transaction that is ours. What is not of the permitted kind is rolled back.
# 4. Reading has locks of its own besides: the file is opened read-only, and the connection is told so too.
#
# Specification: https://www.sqlite.org/c3ref/set_authorizer.html

MAX_ROWS = 500
"""Rows that one query returns; more are cut off, and the answer says so."""

_STEPS_BETWEEN_LOOKS = 10_000
"""Instructions of SQLite's machine between two looks at whether the call is cancelled: well under a millisecond."""

Cell = str | int | float | None


@frozen
class Rows:
    """What a query found."""

    columns: list[str]
    rows: list[list[Cell]]
    truncated: bool
    """Whether there were more than `MAX_ROWS`."""


@frozen
class Column:
    """One column of a table."""

    name: str
    type: str
    required: bool
    primary_key: bool


@frozen
class _Permission:
    """What one tool's statements may do."""

    sentence: str
    """What the tool takes, for whoever wrote the statement."""
    mode: str
    """How the file is opened, as SQLite's URIs say it."""
    purpose: frozenset[int]
    """A statement does at least one of these, or it is none of this tool's."""
    allowed: frozenset[int]
    """It does nothing else than these; the purpose is among them."""


_READING = frozenset({
    sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE
})  # fmt: skip
_CHANGING = frozenset({sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE})
_CREATING = frozenset({sqlite3.SQLITE_CREATE_TABLE})

READ = _Permission(
    "read_query takes one SELECT and changes nothing",
    mode="ro",
    purpose=frozenset({sqlite3.SQLITE_SELECT}),
    allowed=_READING,
)
WRITE = _Permission(
    "write_query takes one INSERT, UPDATE or DELETE",
    mode="rw",
    purpose=_CHANGING,
    allowed=_READING | _CHANGING,
)
CREATE = _Permission(
    "create_table takes one CREATE TABLE",
    mode="rw",
    purpose=_CREATING,
    # SQLite writes to its own schema table and makes the indexes of UNIQUE constraints in the same statement.
    allowed=_READING | _CHANGING | _CREATING | {sqlite3.SQLITE_CREATE_INDEX},
)


@frozen
class Database:
    """A SQLite file. Its methods block: call them in a worker thread of Trio.

    Each raises `ToolError`, with a text for whoever wrote the statement, when SQLite refuses it.
    """

    path: Path

    def tables(self) -> list[str]:
        """Return the names of the tables, in alphabetical order."""
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        with self._opened("ro") as connection:
            return [name for (name,) in connection.execute(f"{query} ORDER BY name")]

    def columns(self, table: str) -> list[Column]:
        """Return the columns of a table, in its own order."""
        self._check_table(table)
        query = 'SELECT name, type, "notnull", pk FROM pragma_table_info(?)'
        with self._opened("ro") as connection:
            return [
                Column(name, kind, required=bool(not_null or pk), primary_key=bool(pk))
                for name, kind, not_null, pk in connection.execute(query, [table])
            ]

    def count(self, table: str) -> int:
        """Return how many rows a table has."""
        self._check_table(table)
        quoted = table.replace('"', '""')
        with self._opened("ro") as connection:
            (count,) = connection.execute(f'SELECT count(*) FROM "{quoted}"').fetchone()  # noqa: S608  # a table of ours, quoted
            return int(count)

    def read(self, query: str) -> Rows:
        """Return what a SELECT finds; nothing is ever written."""
        with self._statement(query, READ) as (_, cursor):
            columns = [description[0] for description in cursor.description]
            rows = cursor.fetchmany(MAX_ROWS + 1)
        return Rows(columns, [[_cell(value) for value in row] for row in rows[:MAX_ROWS]], len(rows) > MAX_ROWS)

    def write(self, query: str) -> int:
        """Insert, update or delete rows; return how many."""
        with self._statement(query, WRITE) as (connection, cursor):
            cursor.fetchall()  # with a RETURNING clause, the statement has only ended when its rows are taken
            return connection.total_changes

    def create(self, query: str) -> None:
        """Create a table."""
        with self._statement(query, CREATE):
            pass

    @contextmanager
    def _statement(self, query: str, permission: _Permission) -> Generator[tuple[sqlite3.Connection, sqlite3.Cursor]]:
        """Execute one statement in a transaction, which is committed if the block ends well."""
        judge = _Judge(permission)
        with self._opened(permission.mode) as connection:
            connection.execute("BEGIN")
            connection.set_progress_handler(_is_cancelled, _STEPS_BETWEEN_LOOKS)
            connection.set_authorizer(judge)
            try:
                cursor = connection.execute(query)
            except sqlite3.DatabaseError:
                if judge.refused:
                    raise ToolError(f"{permission.sentence}; this statement does something else") from None
                raise
            if not judge.seen & permission.purpose:
                raise ToolError(f"{permission.sentence}; this statement does something else")
            yield connection, cursor
            connection.set_authorizer(None)
            connection.execute("COMMIT")

    @contextmanager
    def _opened(self, mode: str) -> Generator[sqlite3.Connection]:
        uri = f"{self.path.absolute().as_uri()}?mode={mode}"
        try:
            # Closing rolls back what was not committed.
            with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
                connection.text_factory = _text
                connection.execute("PRAGMA query_only = ON" if mode == "ro" else "PRAGMA foreign_keys = ON")
                yield connection
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise ToolError(f"SQLite: {error}") from None

    def _check_table(self, table: str) -> None:
        tables = self.tables()
        if table not in tables:
            raise ToolError(f"there is no table {table!r}; there are {', '.join(tables) or 'none'}")


@frozen(eq=False)
class _Judge:
    """Says yes or no to each thing that a statement is going to do; called by SQLite while it compiles it."""

    _permission: _Permission
    seen: set[int] = field(factory=set[int], init=False)
    """The actions that were permitted."""
    refused: set[int] = field(factory=set[int], init=False)
    """Those that were not."""

    def __call__(self, action: int, first: str | None, second: str | None, database: str | None, _: str | None) -> int:
        if action == sqlite3.SQLITE_UPDATE and first == "sqlite_master":
            # So SQLite announces a virtual table, such as json_each. What really writes there, it refuses by itself.
            return sqlite3.SQLITE_OK
        forbidden_function = action == sqlite3.SQLITE_FUNCTION and second == "load_extension"
        # A table of the `temp` database would be gone with this connection.
        if action not in self._permission.allowed or forbidden_function or database == "temp":
            self.refused.add(action)
            return sqlite3.SQLITE_DENY
        self.seen.add(action)
        return sqlite3.SQLITE_OK


@contextmanager
def database_file(path: str | None = None) -> Generator[Path]:
    """Give a program the file it serves: *path*, filled with the sample if it is new or empty, or else a temporary one.

    Raises:
        OSError: the file is no database, or cannot be opened or made.
    """
    if path is not None:
        yield _checked(Path(path))
        return
    with TemporaryDirectory(prefix="trio-mcp-") as folder:
        yield _checked(Path(folder, "nursery.db"))


def _checked(path: Path) -> Path:
    try:
        with closing(sqlite3.connect(path)) as connection:
            if not connection.execute("PRAGMA page_count").fetchone()[0]:
                sample = (files("trio_mcp.cli.demo") / "_sample.sql").read_text(encoding="utf-8")
                connection.executescript(f"BEGIN; {sample} COMMIT;")
    except sqlite3.Error as error:
        raise OSError(f"{path}: {error}") from None
    return path


def _is_cancelled() -> bool:
    """Whether this worker thread's call is cancelled: SQLite then gives up the statement."""
    try:
        trio.from_thread.check_cancelled()
    except trio.Cancelled:
        return True
    return False


def _text(value: bytes) -> str:
    """Decode a text of the database, which nothing keeps from not being UTF-8."""
    return value.decode(errors="replace")


def _cell(value: Any) -> Cell:
    """Return a value of the database as JSON can say it."""
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value  # type: ignore[no-any-return]  # SQLite has no other types than these


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
