"""Every program in `examples/` runs unchanged."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from trio_mcp import open_client, types

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
TIMEOUT = 60  # seconds for a program, or for a whole conversation


def test_every_example_has_a_test() -> None:
    assert {path.name for path in EXAMPLES.iterdir() if path.is_file()} == {
        "server.py",
        "chart.html",
        "chart_server.py",
        "chat_host.py",
        "client.py",
        "library_server.py",
        "custom_transport.py",
        "sqlite_server.py",
        "protected_server.py",
        "browser_client.py",
        "machine_client.py",
        "skills_server.py",
    }


@pytest.mark.parametrize("name", ["server.py", "client.py"])
def test_an_example_is_identical_to_the_one_in_the_readme(name: str) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(rf'^```python title="{re.escape(name)}"\n(.*?)^```$', readme, re.MULTILINE | re.DOTALL)

    assert shown is not None
    assert (EXAMPLES / name).read_text(encoding="utf-8") == shown[1]


def test_the_client_example_uses_the_server_example() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "client.py"],
        cwd=EXAMPLES,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT,
        check=False,
    )

    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert lines[0].startswith("2026-07-28 Implementation(name='demo'")
    assert lines[1:4] == [
        "add Add two numbers.",
        "crunch Work for a while and report the progress.",
        "{'result': 3}",
    ]
    assert lines[4:-1] == [f"{step} step {step}" for step in range(1, 6)]
    assert "done" in lines[-1]


@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_the_sqlite_server_serves_a_file_in_every_revision(revision: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(EXAMPLES / "sqlite_server.py"), str(tmp_path / "nursery.db")]

    with trio.fail_after(TIMEOUT):
        async with open_client(command, revision=revision) as client:
            tools = {tool.name async for tool in client.tools()}
            await client.call_tool("write_query", {"query": "DELETE FROM waterings"}, raise_on_error=True)
            async with client.open_call("recount", {"table": "plants", "pause": 1}) as call:
                reported = [(await anext(aiter(call.updates))).progress]
            outcome = await client.call_tool("recount_outcome", raise_on_error=True)
        async with open_client(command, revision=revision) as client:
            counted = await client.call_tool("recount", {"table": "waterings"}, raise_on_error=True)

    assert {"list_tables", "read_query", "recount", "append_insight"} <= tools
    assert reported == [1]
    (content,) = outcome.content
    assert isinstance(content, types.TextContent)
    assert '"cancelled":true' in content.text
    assert counted.content == [types.TextContent(text="0")]


def test_the_sqlite_server_reports_a_file_that_it_cannot_open(tmp_path: Path) -> None:
    path = tmp_path / "no" / "such" / "folder.db"

    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "sqlite_server.py"), str(path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr == f"sqlite_server: {path}: unable to open database file\n"
