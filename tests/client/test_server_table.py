"""The `mcpServers` table and its entries."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from trio_mcp import open_client, types
from trio_mcp.client._server_table import ServerTable, read_server_table, server_from_entry
from trio_mcp.transports import StdioServer


def test_an_entry_says_how_a_server_is_started() -> None:
    entry = {"command": "run", "args": ["--fast", "x y"], "env": {"KEY": "value"}, "cwd": "/srv"}

    assert server_from_entry(entry) == StdioServer(("run", "--fast", "x y"), env={"KEY": "value"}, cwd="/srv")


def test_a_command_is_enough() -> None:
    assert server_from_entry({"command": "run"}) == StdioServer(("run",), env={}, cwd=None)


def test_variables_stand_for_this_process_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERE", "/opt")
    monkeypatch.setenv("EMPTY", "")
    entry = {
        "command": "${WHERE}/run",
        "args": ["${EMPTY}", "$WHERE", "${not a name}"],
        "env": {"A": "${WHERE}:${WHERE}"},
    }

    server = server_from_entry(entry | {"cwd": "${WHERE}"})

    assert server == StdioServer(("/opt/run", "", "$WHERE", "${not a name}"), env={"A": "/opt:/opt"}, cwd="/opt")


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ({}, "'command' is required"),
        ({"command": ""}, "'command' is required"),
        ({"command": 7}, "'command' is required, and a text$"),
        ({"comand": "x", "z": 1}, "'command' is required, and a text; 'comand' is not supported; 'z' is not supported"),
        ({"command": "x", "args": "y"}, "'args' must be a list of texts"),
        ({"command": "x", "args": [1]}, "'args' must be a list of texts"),
        ({"command": "x", "env": ["A=1"]}, "'env' must be an object of texts"),
        ({"command": "x", "env": {"A": 1}}, "'env' must be an object of texts"),
        ({"command": "x", "cwd": 1}, "'cwd' must be a text"),
        ({"command": "x", "disabled": "yes"}, "'disabled' must be true or false"),
        ({"command": "x", "type": "pigeon"}, "'type' 'pigeon' is not supported; it may be 'stdio'"),
        ({"command": "x", "type": ["stdio"]}, "'type' \\['stdio'\\] is not supported; it may be 'stdio'"),
        ({"type": "http"}, "this server is reached over HTTP, which is not supported yet"),
        ({"url": "http://localhost/mcp", "headers": {}}, "this server is reached over HTTP, which is not supported"),
        ([], "expected an object with the member 'command'"),
        ({"command": "x", "args": ["${NO_SUCH_VARIABLE}"]}, "variable NO_SUCH_VARIABLE in '\\${NO_SUCH_VARIABLE}'"),
    ],
)
def test_an_entry_that_makes_no_sense_is_refused_by_name(entry: object, fault: str) -> None:
    with pytest.raises(ValueError, match=f"^server entry: .*{fault}"):
        server_from_entry(entry)


def test_a_variable_may_have_a_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERE", "/opt")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.delenv("UNSET", raising=False)
    args = ["${WHERE:-/usr}", "${EMPTY:-/usr}", "${UNSET:-/usr}", "${UNSET:-}", "${UNSET:-a:-b}", "${env:WHERE}"]

    assert server_from_entry({"command": "x", "args": args}).command == (
        ("x", "/opt", "/usr", "/usr", "", "a:-b", "/opt")
    )


def test_what_other_programs_have_written_is_ignored_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    entry: dict[str, Any] = {"command": "x", "timeout": 60, "autoApprove": ["add"], "disabled": False, "headers": {}}

    assert server_from_entry(entry, where="mcp.json: server 'sums'") == StdioServer(("x",), env={})
    assert caplog.messages == [
        "mcp.json: server 'sums': ignored what this package does not know: 'autoApprove', 'timeout'"
    ]


# The whole table.


@pytest.mark.parametrize("member", ["mcpServers", "servers"])
async def test_a_file_is_a_table_of_entries(tmp_path: Path, member: str) -> None:
    path = tmp_path / "mcp.json"
    servers = {"a": {"command": "run"}, "b": {"command": 7}, "c": {"disabled": True}, "d": 0}
    path.write_text(json.dumps({"inputs": [], member: servers}), encoding="utf-8-sig")

    table = await read_server_table(path)

    assert table == ServerTable(str(path), {"a": {"command": "run"}, "b": {"command": 7}, "d": 0}, ("c",))
    assert table.server("a") == StdioServer(("run",), env={})
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}: server 'b': 'command' is required"):
        table.server("b")
    with pytest.raises(ValueError, match="server 'd': expected an object"):
        table.server("d")


async def test_what_a_file_holds_may_be_given_instead() -> None:
    table = await read_server_table({"mcpServers": {"a": {"command": 7}}, "servers": {"b": {}}})

    assert [*table.entries] == ["a"]
    with pytest.raises(ValueError, match=r"^the table of servers: server 'a': 'command'"):
        table.server("a")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "not JSON: Expecting value: line 1 column 1"),
        (b'{"mcpServers": {},\n]', "not JSON: .*line 2 column 1"),
        (b'{"x": "\xff"}', "not JSON: .*can't decode byte 0xff"),
        (b"[" * 200_000, "not JSON that can be read: nested too deep"),
        (b"[]", "expected an object with the member 'mcpServers'"),
        (b"{}", "has no member 'mcpServers', nor 'servers'"),
        (b'{"mcpServers": []}', "'mcpServers' must be an object: the servers by name"),
        (b'{"servers": null}', "'servers' must be an object"),
    ],
)
async def test_a_file_that_is_no_table_is_refused_by_name(tmp_path: Path, content: bytes, fault: str) -> None:
    path = tmp_path / "mcp.json"
    path.write_bytes(content)

    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}: {fault}"):
        await read_server_table(str(path))


async def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="mcp"):
        await read_server_table(tmp_path / "mcp.json")


PROGRAM = """
import trio
from trio_mcp import Server, serve_stdio
import os
server = Server("from a table")

@server.tool
def told() -> str:
    return os.environ["TOLD"]

trio.run(serve_stdio, server)
"""


async def test_an_entry_is_something_to_connect_to() -> None:
    entry = {"type": "stdio", "command": sys.executable, "args": ["-c", PROGRAM], "env": {"TOLD": "yes"}}

    with trio.fail_after(20):
        async with open_client(entry) as client:
            assert (await client.call_tool("told")).content == [types.TextContent(text="yes")]
