"""The pytest plugin, in a separate pytest process: its fixtures, the report of a failing test, and its import cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

PLUGIN = "trio_mcp.testing.pytest_plugin"
PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
SERVER = """
import pytest
import trio

from trio_mcp import Server

server = Server("small")


@server.tool
async def add(a: int, b: int) -> int:
    return a + b

"""


def run_pytest(
    folder: Path, program: str, *options: str, plugins: tuple[str, ...] = ("pytest_trio.plugin", PLUGIN)
) -> tuple[int, str]:
    """Run the tests in *program* with these plugins and no others; return the exit status and what was printed."""
    (folder / "test_it.py").write_text(SERVER + program, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n", encoding="utf-8")
    chosen = [option for plugin in plugins for option in ("-p", plugin)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen, *options],
        cwd=folder,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_plugin_is_declared_as_a_pytest_entry_point() -> None:
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]

    assert project["entry-points"]["pytest11"] == {"trio_mcp": PLUGIN}
    assert callable(import_module(PLUGIN).mcp_client)


def test_loading_the_plugin_does_not_import_the_rest_of_the_package() -> None:
    program = f"""
import json, sys, pytest
known = set(sys.modules)
import {PLUGIN}
print(json.dumps(sorted(set(sys.modules) - known)))
"""
    child = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, encoding="utf-8")

    assert json.loads(child.stdout) == ["trio_mcp", "trio_mcp._facade", "trio_mcp.testing", PLUGIN]


def test_a_test_gets_a_client_and_its_messages(tmp_path: Path) -> None:
    status, printed = run_pytest(
        tmp_path,
        """
@pytest.mark.trio
async def test_add(mcp_client, mcp_wire, autojump_clock):
    async with mcp_client(server) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
    (request,) = mcp_wire.select(method="tools/call", direction="sent").sent
    assert request["params"]["arguments"] == {"a": 1, "b": 2}


@pytest.mark.trio
async def test_options_are_passed_on(mcp_client, mcp_wire):
    async with mcp_client(server, lockstep=True, revision="2024-11-05", tap=None) as client:
        assert client.revision == "2024-11-05"
    assert len(mcp_wire) == 0
""",
    )

    assert (status, "2 passed" in printed) == (0, True), printed


def test_a_test_runs_in_every_revision_or_in_the_revisions_that_it_names(tmp_path: Path) -> None:
    status, printed = run_pytest(
        tmp_path,
        """
@pytest.mark.trio
async def test_all(mcp_client, mcp_revision):
    async with mcp_client(server) as client:
        assert client.revision == mcp_revision


@pytest.mark.parametrize("mcp_revision", ["2025-03-26"])
@pytest.mark.parametrize("other", [1])
def test_one(mcp_revision, other):
    assert mcp_revision == "2025-03-26"


@pytest.mark.parametrize(argnames="mcp_revision", argvalues=["2025-03-26"])
def test_by_keyword(mcp_revision):
    assert mcp_revision == "2025-03-26"


@pytest.mark.parametrize("mcp_revision_of_mine", [1])
def test_others(mcp_revision, mcp_revision_of_mine):
    assert mcp_revision
""",
        "-rA",
    )

    revisions = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
    assert status == 0, printed
    assert "12 passed" in printed
    for revision in revisions:
        assert f"PASSED test_it.py::test_all[{revision}]" in printed


def test_a_failing_test_shows_the_messages_of_its_connections(tmp_path: Path) -> None:
    status, printed = run_pytest(
        tmp_path,
        """
@pytest.mark.trio
async def test_fails(mcp_client):
    async with mcp_client(server) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
    assert False


def test_fails_before_anything_was_said(mcp_client):
    assert False


def test_fails_without_a_connection():
    assert False


def test_passes(mcp_wire):
    mcp_wire("sent", b"{}")
""",
    )

    assert status == 1
    assert "3 failed, 1 passed" in printed
    assert printed.count("MCP messages") == 1
    assert '"name": "add"' in printed


def test_a_comparison_of_different_conversations_shows_a_diff(tmp_path: Path) -> None:
    status, printed = run_pytest(
        tmp_path,
        """
from trio_mcp.testing import WireRecorder


def test_differ(mcp_wire):
    other = WireRecorder()
    mcp_wire("sent", b'{"a": 1}')
    other("sent", b'{"a": 2}')
    assert mcp_wire == other


def test_something_else(mcp_wire):
    assert mcp_wire == 3


def test_not_compared(mcp_wire):
    assert len(mcp_wire) > 3
""",
    )

    assert (status, "3 failed" in printed) == (1, True), printed
    assert 'E         -    "a": 2\nE         +    "a": 1\n' in printed
    assert printed.count("E         @@ ") == 1


def test_without_pytest_trio_the_fixtures_work_inside_trio_run(tmp_path: Path) -> None:
    status, printed = run_pytest(
        tmp_path,
        """
def test_add(mcp_client, mcp_wire, mcp_revision):
    async def main():
        async with mcp_client(server) as client:
            await client.call_tool("add", {"a": 1, "b": 2})

    trio.run(main)
    assert len(mcp_wire) > 2
""",
        plugins=(PLUGIN,),
    )

    assert (status, "5 passed" in printed) == (0, True), printed


def test_pytest_lists_the_fixtures_with_their_descriptions(tmp_path: Path) -> None:
    status, printed = run_pytest(tmp_path, "", "--fixtures")

    assert status in (0, 5)
    for fixture in ("mcp_client", "mcp_wire", "mcp_revision"):
        assert fixture in printed


def test_the_fixtures_do_not_exist_without_the_plugin(tmp_path: Path) -> None:
    status, printed = run_pytest(tmp_path, "def test_it(mcp_wire): pass", plugins=())

    assert status == 1
    assert "fixture 'mcp_wire' not found" in printed
