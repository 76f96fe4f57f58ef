"""Our client with the reference SQLite server from PyPI, a program of the official SDK's first major version."""

from __future__ import annotations

import pytest
import trio

from tests.peers.conftest import TIMEOUT, text_of
from trio_mcp import open_client, types


@pytest.mark.parametrize("revision", [None, "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_the_client_creates_fills_and_reads_a_table(sqlite_server: list[str], revision: str | None) -> None:
    with trio.fail_after(TIMEOUT):
        async with open_client(sqlite_server, revision=revision) as client:
            tools = [tool.name async for tool in client.tools()]
            created = await text_of(client, "create_table", query="CREATE TABLE moons (name TEXT, planet TEXT)")
            inserted = await text_of(client, "write_query", query="INSERT INTO moons VALUES ('Io', 'Jupiter')")
            rows = await text_of(client, "read_query", query="SELECT * FROM moons")
            tables = await text_of(client, "list_tables")

    assert client.revision == (revision or "2025-11-25")
    assert tools == ["read_query", "write_query", "create_table", "list_tables", "describe_table", "append_insight"]
    assert created == "Table created successfully"
    assert inserted == "[{'affected_rows': 1}]"
    assert rows == "[{'name': 'Io', 'planet': 'Jupiter'}]"
    assert tables == "[{'name': 'moons'}]"


async def test_an_insight_is_added_to_the_memo(sqlite_server: list[str]) -> None:
    with trio.fail_after(TIMEOUT):
        async with open_client(sqlite_server) as client:
            (memo,) = [resource async for resource in client.resources()]
            await text_of(client, "append_insight", insight="Jupiter has the most interesting moons.")
            (contents,) = (await client.read_resource(memo.uri)).contents

    assert memo.uri == "memo://insights"
    assert isinstance(contents, types.TextResourceContents)
    assert "Jupiter has the most interesting moons." in contents.text


async def test_the_prompt_contains_its_topic(sqlite_server: list[str]) -> None:
    with trio.fail_after(TIMEOUT):
        async with open_client(sqlite_server) as client:
            (prompt,) = [prompt async for prompt in client.prompts()]
            (message,) = (await client.get_prompt(prompt.name, {"topic": "the moons of Jupiter"})).messages

    assert prompt.name == "mcp-demo"
    assert isinstance(message.content, types.TextContent)
    assert "the moons of Jupiter" in message.content.text
