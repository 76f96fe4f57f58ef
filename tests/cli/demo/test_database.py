"""The database of the demo: permitted statements, results, and the refusal of all other statements."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
import trio
import trio.testing

from trio_mcp import ToolError
from trio_mcp.cli.demo import _server as _database
from trio_mcp.cli.demo import database_file
from trio_mcp.cli.demo._server import Column, Database, Rows

COUNTING = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n {}) SELECT {} FROM n"
ENDLESS = COUNTING.format("", "count(*)")


@pytest.fixture
def database(path: Path) -> Database:
    return Database(path)


def snapshot(path: Path) -> tuple[list[str], list[str], bytes]:
    """Return all that a statement could change: the data, the names of the files beside it, and the file."""
    with closing(sqlite3.connect(path)) as connection:
        dump = list(connection.iterdump())
    return dump, sorted(each.name for each in path.parent.iterdir()), path.read_bytes()


ATTACKS = [
    "DELETE FROM plants",
    "INSERT INTO beds (name, light) VALUES ('x', 'sun')",
    "INSERT INTO beds (name, light) VALUES ('x', 'sun') RETURNING id",
    "UPDATE plants SET price = 0",
    "UPDATE sqlite_master SET sql = ''",
    "REPLACE INTO beds (id, name, light) VALUES (1, 'x', 'sun')",
    "WITH x AS (SELECT 'x' AS name) INSERT INTO beds (name, light) SELECT name, 'sun' FROM x",
    "WITH x AS (SELECT 1) DELETE FROM plants",
    "WITH x AS (SELECT 1) UPDATE plants SET price = 0",
    "EXPLAIN DELETE FROM plants",
    "SELECT 1; DROP TABLE plants",
    "SELECT 1;; DELETE FROM plants",
    "; DROP TABLE plants",
    "/* SELECT */ DROP TABLE plants",
    "-- SELECT\nDROP TABLE plants",
    "SELECT 1\0; DROP TABLE plants",
    "ALTER TABLE plants RENAME TO weeds",
    "CREATE TABLE x (a)",
    "CREATE TEMP TABLE x (a)",
    "CREATE TABLE temp.x (a)",
    "CREATE VIEW x AS SELECT 1",
    "CREATE INDEX x ON plants (name)",
    "CREATE TRIGGER x AFTER INSERT ON plants BEGIN DELETE FROM beds; END",
    "CREATE VIRTUAL TABLE x USING fts5 (a)",
    "PRAGMA journal_mode = WAL",
    "PRAGMA query_only = OFF",
    "PRAGMA writable_schema = ON",
    "PRAGMA user_version = 7",
    "PRAGMA wal_checkpoint",
    "SELECT * FROM pragma_table_info('plants')",
    "ATTACH DATABASE 'other.db' AS other",
    "ATTACH DATABASE ':memory:' AS other",
    "DETACH DATABASE main",
    "VACUUM",
    "VACUUM INTO 'copy.db'",
    "REINDEX",
    "ANALYZE",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT x",
    "RELEASE x",
    "SELECT load_extension('x')",
    "SELECT fts3_tokenizer('x', x'00')",
    "SELECT writefile('x', 'y')",
    "SELECT * FROM sqlite_temp_master",
    "SELECT",
    "-- nothing",
    "",
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_read_query_cannot_write(
    attack: str, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    before = snapshot(database.path)

    with pytest.raises(ToolError):
        database.read(attack)

    assert snapshot(database.path) == before
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize(
    "attack",
    ["DELETE FROM plants", "CREATE TABLE x (a)", "DROP TABLE waterings", "PRAGMA user_version = 7"],
)
def test_the_file_is_opened_read_only_even_without_the_check_of_statements(attack: str, database: Database) -> None:
    before = snapshot(database.path)

    with pytest.raises(ToolError, match="readonly"), database._opened("ro") as connection:
        connection.execute(attack)

    assert snapshot(database.path) == before


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1 AS one",
        "  SELECT 1 AS one;  -- that was all",
        "WITH x AS (SELECT 1 AS one) SELECT * FROM x",
        "SELECT value AS one FROM json_each('[1]')",
        "SELECT count(*) AS one FROM beds WHERE name LIKE 'by%'",
        "SELECT (SELECT 1) AS one UNION SELECT 1",
    ],
)
def test_a_read_query_may_be_any_select_statement(query: str, database: Database) -> None:
    assert database.read(query) == Rows(["one"], [[1]], truncated=False)


def test_values_that_are_not_json_become_strings(database: Database) -> None:
    found = database.read(
        "SELECT NULL, 1, 0.5, 'é', x'00ff', 9e999, -9e999, CAST(x'ff41' AS TEXT), 9223372036854775807"
    )

    assert found.rows == [[None, 1, 0.5, "é", "x'00ff'", "inf", "-inf", "\N{REPLACEMENT CHARACTER}A", 2**63 - 1]]


def test_columns_of_the_same_name_are_kept(database: Database) -> None:
    assert database.read("SELECT 1 AS a, 2 AS a") == Rows(["a", "a"], [[1, 2]], truncated=False)


@pytest.mark.parametrize("surplus", [0, 1])
def test_rows_beyond_the_limit_are_omitted_and_reported(surplus: int, database: Database) -> None:
    found = database.read(COUNTING.format(f"LIMIT {_database.MAX_ROWS + surplus}", "i"))

    assert [row[0] for row in found.rows] == list(range(1, _database.MAX_ROWS + 1))
    assert found.truncated is bool(surplus)


def test_invalid_sql_is_reported_with_the_message_of_sqlite(database: Database) -> None:
    with pytest.raises(ToolError, match=r"^SQLite: no such table: weeds$"):
        database.read("SELECT * FROM weeds")


def test_a_refusal_names_the_statements_of_the_tool(database: Database) -> None:
    with pytest.raises(ToolError, match=r"^read_query takes one SELECT and changes nothing; this statement does"):
        database.read("DROP TABLE plants")


@pytest.mark.parametrize(
    ("query", "changed"),
    [
        ("INSERT INTO beds (name, light) VALUES ('x', 'sun'), ('y', 'sun')", 2),
        ("INSERT INTO beds (name, light) VALUES ('x', 'sun'), ('y', 'sun') RETURNING id", 2),
        ("UPDATE plants SET price = 1 WHERE bed_id = 1", 4),
        ("DELETE FROM waterings", 48),
        ("WITH dear AS (SELECT id FROM plants WHERE price > 9) UPDATE plants SET price = 9 WHERE id IN dear", 2),
        ("DELETE FROM plants WHERE name = 'weed'", 0),
    ],
)
def test_a_write_query_returns_the_number_of_changed_rows(query: str, changed: int, database: Database) -> None:
    assert database.write(query) == changed


def test_a_write_is_visible_to_the_next_query(database: Database) -> None:
    database.write("INSERT INTO beds (id, name, light) VALUES (9, 'the roof', 'sun')")

    assert database.read("SELECT name FROM beds WHERE id = 9").rows == [["the roof"]]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM plants",
        "DROP TABLE waterings",
        "CREATE TABLE x (a)",
        "DELETE FROM waterings; DELETE FROM plants",
        "INSERT INTO sqlite_master VALUES (1, 2, 3, 4, 5)",
        "UPDATE sqlite_master SET sql = ''",
        "INSERT INTO waterings VALUES (99, '2026-06-30', 1.0)",  # plant 99 does not exist
        "INSERT INTO beds (name, light) VALUES ('x', 'sun'), ('x', 'sun')",
        "PRAGMA foreign_keys = OFF",
        "COMMIT",
        "VACUUM INTO 'copy.db'",
        "ATTACH DATABASE 'other.db' AS other",
    ],
)
def test_a_write_query_that_is_refused_or_fails_changes_nothing(query: str, database: Database) -> None:
    before = snapshot(database.path)

    with pytest.raises(ToolError):
        database.write(query)

    assert snapshot(database.path) == before


@pytest.mark.parametrize(
    "query",
    [
        "CREATE TABLE seeds (name TEXT PRIMARY KEY, grams REAL UNIQUE, CHECK (grams > 0))",
        "CREATE TABLE IF NOT EXISTS seeds (id INTEGER PRIMARY KEY AUTOINCREMENT, plant REFERENCES plants (id))",
        "CREATE TABLE seeds AS SELECT name FROM plants",
    ],
)
def test_a_table_is_created(query: str, database: Database) -> None:
    database.create(query)

    assert database.tables() == ["beds", "plants", "seeds", "waterings"]


@pytest.mark.parametrize(
    "query",
    [
        "CREATE TABLE plants (a)",
        "CREATE TEMP TABLE x (a)",
        "CREATE TABLE temp.x (a)",
        "CREATE INDEX x ON plants (name)",
        "CREATE VIEW x AS SELECT 1",
        "CREATE TABLE x (a); DROP TABLE plants",
        "INSERT INTO beds (name, light) VALUES ('x', 'sun')",
        "DELETE FROM waterings",
        "SELECT 1",
    ],
)
def test_a_create_query_that_does_anything_else_is_refused(query: str, database: Database) -> None:
    before = snapshot(database.path)

    with pytest.raises(ToolError):
        database.create(query)

    assert snapshot(database.path) == before


def test_a_table_is_described_column_by_column(database: Database) -> None:
    assert database.columns("plants") == [
        Column("id", "INTEGER", required=True, primary_key=True),
        Column("bed_id", "INTEGER", required=True, primary_key=False),
        Column("name", "TEXT", required=True, primary_key=False),
        Column("height_cm", "REAL", required=True, primary_key=False),
        Column("price", "REAL", required=False, primary_key=False),
    ]


def test_a_table_may_have_any_name(database: Database) -> None:
    name = 'a "quoted" name; DROP TABLE plants'
    quoted = name.replace('"', '""')
    database.create(f'CREATE TABLE "{quoted}" (a)')
    database.write(f'INSERT INTO "{quoted}" VALUES (1), (2)')

    assert database.count(name) == 2
    assert [column.name for column in database.columns(name)] == ["a"]


def test_a_missing_table_is_reported_with_the_existing_ones(database: Database) -> None:
    with pytest.raises(ToolError, match=r"^there is no table 'weeds'; the tables are beds, plants, waterings$"):
        database.count("weeds")


def test_an_empty_database_has_no_table(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    path.touch()

    with pytest.raises(ToolError, match=r"^there is no table 'weeds'; the tables are none$"):
        Database(path).columns("weeds")


def test_a_deleted_file_is_not_created_again(database: Database) -> None:
    database.path.unlink()

    with pytest.raises(ToolError, match=r"^SQLite: unable to open database file$"):
        database.write("DELETE FROM plants")

    assert not database.path.exists()


def test_a_long_query_runs_to_its_end(database: Database) -> None:
    async def read() -> Rows:
        return await trio.to_thread.run_sync(database.read, COUNTING.format("LIMIT 20000", "count(*)"))

    assert trio.run(read).rows == [[20000]]


async def test_an_endless_query_is_stopped_when_its_call_is_cancelled(database: Database) -> None:
    ended = threading.Event()

    def read() -> None:
        try:
            database.read(ENDLESS)
        finally:
            ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: trio.to_thread.run_sync(read, abandon_on_cancel=True))
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert await trio.to_thread.run_sync(ended.wait, 60)


def test_without_a_path_the_file_lasts_as_long_as_the_block() -> None:
    with database_file() as path:
        tables = Database(path).tables()

    assert tables == ["beds", "plants", "waterings"]
    assert not path.parent.exists()


def test_an_existing_database_is_served_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "mine.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE mine (a)")

    with database_file(str(path)) as served:
        assert Database(served).tables() == ["mine"]


def test_the_error_about_a_file_that_is_not_a_database_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear database, I am not one of you.", encoding="utf-8")

    with pytest.raises(OSError, match=r"letter\.txt: file is not a database"), database_file(str(path)):
        pytest.fail("it was served")  # pragma: no cover
