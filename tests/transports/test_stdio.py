"""How a server that is a child process is described; tests/interaction/test_processes.py has its life."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import trio

from trio_mcp import open_stdio_client
from trio_mcp.transports import StdioServer

TELL = """
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    told = {"name": os.environ["TOLD"], "version": os.getcwd()}
    result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": told}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


def test_a_command_may_hold_paths() -> None:
    assert StdioServer([Path("/bin/run"), "x"]).command == ("/bin/run", "x")


@pytest.mark.parametrize("command", [[], "python server.py"])
def test_a_command_is_a_list_of_at_least_the_program(command: list[str]) -> None:
    with pytest.raises(ValueError, match="expected a list of the program"):
        StdioServer(command)


@pytest.mark.requirement("B.5-C7b")
async def test_the_child_gets_the_environment_and_the_directory(tmp_path: Path) -> None:
    with trio.fail_after(20):
        command, env = [sys.executable, "-c", TELL], {"TOLD": "something"}
        async with open_stdio_client(command, env=env, cwd=tmp_path, revision="2025-11-25") as client:
            assert client.server_info is not None
            assert client.server_info.name == "something"
            assert client.server_info.version == str(tmp_path)
