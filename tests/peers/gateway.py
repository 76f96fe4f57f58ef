"""A gateway as a process of its own, made by the command line, with servers of other projects behind it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trio

from tests.peers.conftest import draining, running
from trio_mcp import open_client

__all__ = ["entry_of", "gateway_command", "open_gateway"]

_SERVING = re.compile(r"serving .* at (http\S+)$")
_CONNECTED = re.compile(r"server '(?P<name>.+)' is connected$")


def entry_of(target: str | Sequence[str], **env: str) -> dict[str, Any]:
    """Return the entry of a server in a file: *target* is its URL or its command."""
    if isinstance(target, str):
        return {"url": target}
    return {"command": target[0], "args": [*target[1:]], "env": env}


def gateway_command(folder: Path, servers: Mapping[str, Any], *options: str) -> list[str]:
    """Return the command of a gateway, which speaks over standard input and output unless options say otherwise.

    Args:
        folder: where the file of servers is written.
        servers: the entries of the file, by name.
    """
    file = folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    return [sys.executable, "-W", "error", "-m", "trio_mcp", "gateway", "--config", str(file), *options]


@contextmanager
def open_gateway(folder: Path, servers: Mapping[str, Any], *options: str) -> Generator[str]:
    """Run a gateway over HTTP until the block ends; yield its URL when it has the lists of all servers behind it."""
    command = gateway_command(folder, servers, *options, "--http", "0")
    with running(command, stderr=subprocess.STDOUT) as process:
        assert process.stdout
        url, missing, said = "", set(servers), list[str]()
        while not url or missing:
            line = process.stdout.readline()
            assert line, f"it ended before all servers were connected: {''.join(said)}"
            said.append(line)
            if serving := _SERVING.search(line):
                url = serving[1]
            if connected := _CONNECTED.search(line):
                missing.discard(connected["name"])
        with draining(process):
            trio.run(_list_all, url)  # so that no list changes because it becomes known
            yield url


async def _list_all(url: str) -> None:
    async with open_client(url) as client:
        await client.list_tools()
