"""The MCP server of the demo: a SQLite database as tools, a memo as a resource, and a prompt.

Plain functions run in worker threads, where SQLite may block; `async` functions run in Trio. Their annotations describe
their results to the client, and the model reads the `ToolError` that they raise.

Rules of this file:

1. Every call opens a connection of its own and closes it, so that worker threads share nothing.
2. SQLite itself judges a statement, through its authorizer. No code here looks at the text of a statement.
3. A statement runs inside a transaction of the demo, which is rolled back if the statement does what its tool forbids.
4. To read, the file is opened read-only and the connection is set to query_only besides.

Specification: https://www.sqlite.org/c3ref/set_authorizer.html
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


MAX_ROWS = 500
"""The most rows that a query returns; `Rows.truncated` tells of more."""

_STEPS_BETWEEN_CHECKS = 10_000
"""The instructions of SQLite's machine between two checks for cancellation: well under a millisecond."""

Cell = str | int | float | None


@frozen
class Rows:
    """The result of a query."""

    columns: list[str]
    rows: list[list[Cell]]
    truncated: bool
    """True if the query found more than `MAX_ROWS`."""


@frozen
class Column:
    """One column of a table of the demo's database."""

    name: str
    type: str
    required: bool
    primary_key: bool


@frozen
class _Permission:
    """The actions that the statements of one tool may perform."""

    sentence: str
    """The statements that the tool takes, for the error message."""
    mode: str
    """The mode of the file in SQLite's URI."""
    purpose: frozenset[int]
    """A statement must perform at least one of these actions."""
    allowed: frozenset[int]
    """The actions that a statement may perform, including those of `purpose`."""


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

    Each raises `ToolError`, with a message for the author of the statement, if SQLite refuses it.
    """

    path: Path

    def tables(self) -> list[str]:
        """Return the names of the tables, in alphabetical order."""
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        with self._opened("ro") as connection:
            return [name for (name,) in connection.execute(f"{query} ORDER BY name")]

    def columns(self, table: str) -> list[Column]:
        """Return the columns of a table, in the order of their definition."""
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
            (count,) = connection.execute(f'SELECT count(*) FROM "{quoted}"').fetchone()  # noqa: S608  # an existing table, quoted
            return int(count)

    def read(self, query: str) -> Rows:
        """Return the rows of a SELECT, which cannot write."""
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
        """Execute one statement in a transaction, which is committed unless the block raises."""
        judge = _Judge(permission)
        with self._opened(permission.mode) as connection:
            connection.execute("BEGIN")
            connection.set_progress_handler(_is_cancelled, _STEPS_BETWEEN_CHECKS)
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
            raise ToolError(f"there is no table {table!r}; the tables are {', '.join(tables) or 'none'}")


@frozen(eq=False)
class _Judge:
    """The authorizer: SQLite calls it for each action of a statement while it compiles the statement."""

    _permission: _Permission
    seen: set[int] = field(factory=set[int], init=False)
    """The permitted actions of the statement."""
    refused: set[int] = field(factory=set[int], init=False)
    """The refused actions of the statement."""

    def __call__(self, action: int, first: str | None, second: str | None, database: str | None, _: str | None) -> int:
        if action == sqlite3.SQLITE_UPDATE and first == "sqlite_master":
            # SQLite asks this for a virtual table, such as json_each. It refuses real writes to sqlite_master itself.
            return sqlite3.SQLITE_OK
        forbidden_function = action == sqlite3.SQLITE_FUNCTION and second == "load_extension"
        # A table of the `temp` database would disappear with this connection.
        if action not in self._permission.allowed or forbidden_function or database == "temp":
            self.refused.add(action)
            return sqlite3.SQLITE_DENY
        self.seen.add(action)
        return sqlite3.SQLITE_OK


@contextmanager
def database_file(path: str | None = None) -> Generator[Path]:
    """Yield the database file to serve: *path*, or a temporary file. A new or empty file gets the sample data.

    Raises:
        OSError: the file is not a database, or cannot be opened or created.
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
    """Return True if the call of this worker thread is cancelled: SQLite then aborts the statement."""
    try:
        trio.from_thread.check_cancelled()
    except trio.Cancelled:
        return True
    return False


def _text(value: bytes) -> str:
    """Decode a string of the database, which need not be UTF-8."""
    return value.decode(errors="replace")


def _cell(value: Any) -> Cell:
    """Return a value of the database as a JSON value."""
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value  # type: ignore[no-any-return]  # SQLite has no other types than these


_READS = ToolAnnotations(read_only_hint=True)

Pause = Annotated[float, msgspec.Meta(ge=0, le=1, description="seconds to rest after each row, as if it were many")]


def sqlite_server(path: Path) -> Server:
    """Return a server for one SQLite database, for `serve_stdio` or any other transport.

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
    """Add the tools that query and change the database."""

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
    """One call of the tool `recount`."""

    table: str
    total: int
    counted: int = 0
    cancelled: bool = False
    ended: trio.Event = field(factory=trio.Event)


@frozen
class RecountOutcome:
    """The outcome of a recount."""

    table: str
    counted: int
    total: int
    cancelled: bool


def add_recounting(server: Server, database: Database) -> None:
    """Add a slow tool that reports progress, and a tool that returns its outcome."""
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
        except trio.Cancelled:  # the client has cancelled the call, or its connection is lost
            run.cancelled = True
            raise
        finally:
            run.ended.set()
        return run.counted

    @server.tool(annotations=_READS)
    async def recount_outcome() -> RecountOutcome:
        """Wait for the end of the latest recount and return its outcome."""
        run = latest
        if run is None:
            raise ToolError("nothing has been recounted yet")
        await run.ended.wait()
        return RecountOutcome(run.table, run.counted, run.total, run.cancelled)


def add_insights(server: Server) -> None:
    """Add a memo for findings, and a prompt that asks the model to use it."""
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
        """The findings about the database so far."""
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
