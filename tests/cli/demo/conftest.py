"""A sample database for each test, and a client of the server for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from trio_mcp import Client
from trio_mcp.cli.demo import database_file, sqlite_server
from trio_mcp.testing import open_memory_client


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """Return the path of a new database with the sample data, in its own folder."""
    folder = tmp_path / "data"
    folder.mkdir()
    with database_file(str(folder / "nursery #1?.db")) as path:
        yield path


@pytest.fixture
async def client(path: Path) -> AsyncIterator[Client]:
    """Return a client of an in-memory server for that database."""
    async with open_memory_client(sqlite_server(path)) as client:
        yield client
