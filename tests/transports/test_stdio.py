"""The description of a server that is a child process; tests/interaction/test_processes.py tests its lifetime."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import trio

from trio_mcp import open_stdio_client
from trio_mcp.transports import StdioServer

REPORT_PROGRAM = """
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    info = {"name": os.environ["REPORTED"], "version": os.getcwd()}
    result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": info}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


def test_a_command_may_contain_paths() -> None:
    assert StdioServer([Path("/bin/run"), "x"]).command == ("/bin/run", "x")


@pytest.mark.parametrize("command", [[], "python server.py"])
def test_a_command_that_is_empty_or_a_string_is_refused(command: list[str]) -> None:
    with pytest.raises(ValueError, match="expected a list of the program"):
        StdioServer(command)


@pytest.mark.requirement("B.5-C7b")
async def test_the_child_gets_the_environment_and_the_directory(tmp_path: Path) -> None:
    with trio.fail_after(60):
        command, env = [sys.executable, "-c", REPORT_PROGRAM], {"REPORTED": "something"}
        async with open_stdio_client(command, env=env, cwd=tmp_path, revision="2025-11-25") as client:
            assert client.server_info is not None
            assert client.server_info.name == "something"
            assert client.server_info.version == str(tmp_path)
