"""The entry point of the command: statuses, help, and the modules that it does not import."""

from __future__ import annotations

import io
import subprocess
import sys
from importlib.metadata import version

import pytest

from trio_mcp import (
    ConnectionClosed,
    ErrorResponse,
    RemoteProtocolError,
    RequestTimedOut,
    ServerExited,
    ToolFailed,
    UnsupportedRevision,
)
from trio_mcp.cli import demo, main


def test_the_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])

    assert caught.value.code == 0
    assert capsys.readouterr().out == f"trio-mcp {version('trio-mcp')}\n"


def test_help_names_the_commands_and_the_exit_statuses(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])

    printed = capsys.readouterr().out
    assert caught.value.code == 0
    assert "demo" in printed
    assert "3    the server cannot be reached, denies access, or breaks the protocol" in printed


@pytest.mark.parametrize("arguments", [[], ["dance"], ["demo", "--fast"]], ids=["none", "unknown", "unknown option"])
def test_an_invalid_command_line_is_a_usage_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)

    assert caught.value.code == 2
    assert "trio-mcp" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("failure", "status", "line"),
    [
        (ToolFailed("recount", "no such table", None), 1, "tool 'recount' failed: no such table"),
        (ErrorResponse(-32601, "no such method"), 1, "no such method (-32601)"),
        (ServerExited(7), 3, "the server process exited with status 7"),
        (RemoteProtocolError("the list has no end"), 3, "the list has no end"),
        (RequestTimedOut("the server did not respond"), 3, "the server did not respond"),
        (UnsupportedRevision("2026-07-28", ["1999-01-01"]), 3, "no common protocol revision"),
        (ConnectionClosed("closed"), 3, "closed"),
        (FileNotFoundError("no such program"), 3, "no such program"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_a_failure_is_reported_in_one_line_with_its_status(
    failure: BaseException,
    status: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail() -> None:
        raise failure

    monkeypatch.setattr(demo, "run_demo", fail)

    assert main(["demo"]) == status
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"trio-mcp demo: {line}")
    assert printed.err.count("\n") == 1


def test_a_bug_is_raised_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(demo, "run_demo", fail)

    with pytest.raises(ZeroDivisionError):
        main(["demo"])


def test_any_text_stream_may_replace_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)

    assert main(["tools", "--", "ftp://example.org/mcp"]) == 2
    assert stream.getvalue().startswith("trio-mcp tools: 'ftp://example.org/mcp' is not the address")


def test_the_entry_point_imports_neither_trio_nor_rich() -> None:
    program = "import sys, trio_mcp.cli; print(sorted({'trio', 'rich', 'attrs'} & set(sys.modules)))"

    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, encoding="utf-8")

    assert done.stdout == "[]\n"


def test_the_package_runs_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "trio_mcp", "--version"], check=True, capture_output=True, encoding="utf-8"
    )

    assert done.stdout == f"trio-mcp {version('trio-mcp')}\n"
