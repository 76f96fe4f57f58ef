"""Tables of servers from files and objects."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
import trio

from trio_mcp import open_client, types
from trio_mcp.client import ServerTable, read_server_table


@pytest.mark.parametrize("member", ["mcpServers", "servers"])
async def test_a_file_is_a_table_of_entries(tmp_path: Path, member: str) -> None:
    path = tmp_path / "mcp.json"
    servers = {"a": {"command": "run"}, "b": {"command": 7}, "c": {"disabled": True}, "d": 0}
    path.write_text(json.dumps({"inputs": [], member: servers}), encoding="utf-8-sig")

    table = await read_server_table(path)

    assert table == ServerTable(str(path), {"a": {"command": "run"}, "b": {"command": 7}, "d": 0}, ("c",))
    assert callable(table.opener("a"))
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}: server 'b': 'command' is required"):
        table.opener("b")
    with pytest.raises(ValueError, match="server 'd': expected an object"):
        table.opener("d")


async def test_a_parsed_table_is_accepted() -> None:
    table = await read_server_table({"mcpServers": {"a": {"command": 7}}, "servers": {"b": {}}})

    assert [*table.entries] == ["a"]
    with pytest.raises(ValueError, match=r"^the table of servers: server 'a': 'command'"):
        table.opener("a")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "not JSON: Expecting value: line 1 column 1"),
        (b'{"mcpServers": {},\n]', "not JSON: .*line 2 column 1"),
        (b'{"x": "\xff"}', "not JSON: .*can't decode byte 0xff"),
        (b"[" * 200_000, "JSON that is nested too deeply"),
        (b"[]", "expected an object with the member 'mcpServers'"),
        (b"{}", "has neither a member 'mcpServers' nor 'servers'"),
        (b'{"mcpServers": []}', "'mcpServers' must be an object: the servers by name"),
        (b'{"servers": null}', "'servers' must be an object"),
    ],
)
async def test_the_error_for_a_file_without_a_table_names_the_file(tmp_path: Path, content: bytes, fault: str) -> None:
    path = tmp_path / "mcp.json"
    path.write_bytes(content)

    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}: {fault}"):
        await read_server_table(str(path))


async def test_the_error_for_a_missing_file_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="mcp"):
        await read_server_table(tmp_path / "mcp.json")


PROGRAM = """
import trio
from trio_mcp import Server, serve_stdio
import os
server = Server("from a table")

@server.tool
def value() -> str:
    return os.environ["VALUE"]

trio.run(serve_stdio, server)
"""


async def test_a_table_entry_yields_an_opener() -> None:
    entry = {"type": "stdio", "command": sys.executable, "args": ["-c", PROGRAM], "env": {"VALUE": "yes"}}

    with trio.fail_after(60):
        async with open_client(entry) as client:
            assert (await client.call_tool("value")).content == [types.TextContent(text="yes")]
