"""Entries of an `mcpServers` table."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import trio

from trio_mcp import open_client, types
from trio_mcp.client._server_table import server_from_entry
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
        ({"command": 7}, "'command' is required"),
        ({"command": "x", "args": "y"}, "'args' must be a list of texts"),
        ({"command": "x", "args": [1]}, "'args' must be a list of texts"),
        ({"command": "x", "env": ["A=1"]}, "'env' must be an object of texts"),
        ({"command": "x", "env": {"A": 1}}, "'env' must be an object of texts"),
        ({"command": "x", "cwd": 1}, "'cwd' must be a text"),
        ({"command": "x", "disabled": True}, "'disabled' is not supported; it may have type, command, args"),
        ({"command": "x", "type": "http"}, "'type' 'http' is not supported; it may be 'stdio'"),
        ({"command": "x", "args": ["${NO_SUCH_VARIABLE}"]}, "variable NO_SUCH_VARIABLE in '\\${NO_SUCH_VARIABLE}'"),
    ],
)
def test_an_entry_that_makes_no_sense_is_refused_by_name(entry: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        server_from_entry(entry)


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
