"""Several servers of one configuration file, ours and third-party ones; one of them crashes at its start."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import trio

from tests.peers.conftest import EXAMPLES, TIMEOUT, text_of
from trio_mcp import ServerExited, open_clients

CRASHING = "import sys; sys.exit('no such database')"


def entry(command: list[str]) -> dict[str, object]:
    return {"command": command[0], "args": command[1:]}


async def test_four_of_five_servers_work_and_the_fifth_is_reported_with_its_last_output(
    everything_server: list[str], sqlite_server: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "mcp.json"
    servers = {
        "sums": entry([sys.executable, str(EXAMPLES / "server.py")]),
        "plants": entry([sys.executable, str(EXAMPLES / "sqlite_server.py"), str(tmp_path / "plants.db")]),
        "moons": entry(sqlite_server),
        "everything": entry(everything_server),
        "broken": entry([sys.executable, "-c", CRASHING]),
    }
    await trio.Path(path).write_text(json.dumps({"mcpServers": servers}))

    with trio.fail_after(TIMEOUT):
        async with open_clients(path) as clients:
            tools = {each.name: each.server async for each in clients.tools()}
            total = await clients.call_tool("add", {"a": 1, "b": 2})
            plants = await text_of(clients, "plants__list_tables")
            await text_of(clients, "moons__create_table", query="CREATE TABLE moons (name TEXT)")
            moons = await text_of(clients, "moons__list_tables")
            other_total = await text_of(clients, "get-sum", a=1, b=2)

    assert [*clients] == ["sums", "plants", "moons", "everything"]
    assert set(tools.values()) == {*clients}
    assert {"plants__read_query": "plants", "moons__read_query": "moons", "echo": "everything"}.items() <= tools.items()
    assert "read_query" not in tools
    assert total.structured_content == {"result": 3}
    assert "plants" in plants
    assert moons == "[{'name': 'moons'}]"
    assert other_total == "The sum of 1 and 2 is 3."
    failure = clients.failed["broken"]
    assert isinstance(failure, ServerExited)
    assert (failure.status, failure.stderr_tail) == (1, ("no such database",))
    assert len(clients.failed) == 1
