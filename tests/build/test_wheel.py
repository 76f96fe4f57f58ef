"""Tests of the installed wheel: this file is copied to a folder without access to the sources and runs there.

The programs are those of the documentation; beside the package, only the test tools are installed.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import sysconfig
from pathlib import Path

import trio_mcp

TYPES_PROGRAM = """
from trio_mcp import types

tool = types.structure({"name": "x", "inputSchema": {"type": "object"}}, types.Tool)
assert types.unstructure(tool) == {"name": "x", "inputSchema": {"type": "object"}}
result = types.structure({"content": []}, types.CallToolResult, revision="2025-03-26")
assert types.REVISIONS[0] == "2024-11-05" and "tools/call" in types.METHODS["2026-07-28"]
"""


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command with empty standard input and a timeout, and capture its output."""
    return subprocess.run(
        command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=120, check=False
    )


def test_the_package_under_test_is_the_installed_one() -> None:
    assert Path(trio_mcp.__file__).is_relative_to(sysconfig.get_path("purelib"))


def test_the_wheel_installs_one_package_and_marks_it_as_typed() -> None:
    files = importlib.metadata.files("trio-mcp") or []
    folders = {file.parts[0] for file in files if ".." not in file.parts}

    assert {folder for folder in folders if not folder.endswith(".dist-info")} == {"trio_mcp"}
    others = {f"trio_mcp/{name}" for name in ("py.typed", "cli/app_host.html", "cli/app_sandbox.html")}
    assert others <= {file.as_posix() for file in files}
    assert any(file.name == "LICENSE" for file in files)


def test_the_types_program_runs_as_documented(tmp_path: Path) -> None:
    done = run(sys.executable, "-W", "error", "-c", TYPES_PROGRAM, cwd=tmp_path)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_installed_command_runs_the_demo(tmp_path: Path) -> None:
    command = Path(sysconfig.get_path("scripts")) / "trio-mcp"

    done = run(str(command), "demo", cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == []
