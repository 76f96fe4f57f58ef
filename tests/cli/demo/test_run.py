"""`trio-mcp demo` in a real process, with a real child process and without a terminal."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from trio_mcp import RemoteProtocolError, Server, ServerExited
from trio_mcp.cli import main
from trio_mcp.cli.demo._run import Screen, demonstrate, outcome_of_cancelled
from trio_mcp.testing import open_memory_client

TIMEOUT_SECONDS = 60  # three times the longest duration that the demo may have
CHAPTERS = [
    "1. What the server offers",
    "2. Rows of a query",
    "3. Progress of a long call",
    "4. A call cancelled by a deadline",
    "5. One conversation, two revisions",
    "6. The same conversation over HTTP",
    "7. What to try next",
]


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return an environment without colours and with its own folder for temporary files."""
    (tmp_path / "temporary").mkdir()
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    return {**os.environ, "TMPDIR": str(tmp_path / "temporary"), "COLUMNS": "100"}


def processes_naming(text: str) -> list[bytes]:
    """Return the command lines of the running processes that contain *text*."""
    found: list[bytes] = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(each.read_bytes())
        except OSError:  # the process has ended meanwhile
            continue
    return [line for line in found if text.encode() in line]


@pytest.fixture
def printed(environment: dict[str, str], tmp_path: Path) -> str:
    """Run the demo, which must succeed, and return its output."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "trio_mcp", "demo"],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return done.stdout


def test_the_demo_shows_all_chapters_and_leaves_no_files_or_processes(printed: str, tmp_path: Path) -> None:
    lines = printed.splitlines()

    assert [line for line in lines if line[:2] in {"1.", "2.", "3.", "4.", "5.", "6.", "7."}] == CHAPTERS
    assert any(line.split()[:1] == ["list_tables"] for line in lines)
    assert "protocol revision, found out by asking: 2026-07-28" in lines
    assert ["south", "wall", "sun", "4", "38.0"] in [line.replace("  ", " ").split() for line in lines]
    assert any(line.startswith("recounting waterings") and line.endswith("48/48") for line in lines)
    assert any(line.startswith("the server: my handler was stopped after ") for line in lines)
    assert sum(line.split() == ["2024-11-05", "2026-07-28"] for line in lines) == 2
    assert any(line.startswith("served at: http://127.0.0.1:") for line in lines)
    assert any(line.split() == ["the", "answer", "came", "as", "text", "structured", "content"] for line in lines)
    assert "\x1b" not in printed
    assert list((tmp_path / "temporary").iterdir()) == []
    assert processes_naming(str(tmp_path)) == []


def test_the_demo_can_run_in_the_calling_process(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", environment["TMPDIR"])

    assert main(["demo"]) == 0

    captured = capsys.readouterr()
    assert captured.err == ""
    assert "What to try next" in captured.out


def test_a_server_that_cannot_be_started_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")

    assert main(["demo"]) == 3

    printed = capsys.readouterr().err
    assert printed.startswith("trio-mcp demo: ")
    assert "/no/such/python" in printed
    assert printed.count("\n") == 1


async def test_a_server_that_exits_at_once_is_reported_with_its_status() -> None:
    with pytest.raises(ServerExited, match="status 7"):
        await demonstrate([sys.executable, "-c", "raise SystemExit(7)"], Server("unused"), Screen())


async def test_a_handler_that_continues_after_its_cancellation_fails_the_demo() -> None:
    server = Server("stubborn")

    @server.tool
    async def recount_outcome() -> dict[str, int | bool]:
        return {"counted": 48, "total": 48, "cancelled": False}

    async with open_memory_client(server) as client:
        with pytest.raises(RemoteProtocolError, match="the server's handler went on"):
            await outcome_of_cancelled(client)


def serve(*arguments: str, **options: str) -> subprocess.CompletedProcess[str]:
    """Run the demo's server alone, with empty standard input."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "trio_mcp.cli.demo", *arguments],
        env={**os.environ, **options},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT_SECONDS,
        check=False,
    )


def test_the_server_program_creates_the_named_database(tmp_path: Path) -> None:
    done = serve(str(tmp_path / "mine.db"))

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "mine.db").stat().st_size > 0


def test_the_server_program_leaves_no_file_without_a_path(tmp_path: Path) -> None:
    done = serve(TMPDIR=str(tmp_path))

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_the_server_program_names_a_file_that_is_not_a_database(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear database, I am not one of you.", encoding="utf-8")

    done = serve(str(path))

    assert done.returncode == 1
    assert done.stderr == f"trio_mcp.cli.demo: {path}: file is not a database\n"
