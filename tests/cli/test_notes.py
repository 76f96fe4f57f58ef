"""Notes on standard error: the progress bar, messages above it, and messages without a bar."""

from __future__ import annotations

import logging
import time

import pytest

from trio_mcp import types
from trio_mcp.cli._output import Notes


def update(progress: float, total: float | None = None, message: str | None = None) -> types.ProgressNotificationParams:
    return types.ProgressNotificationParams(progress=progress, total=total, message=message, progress_token=1)


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Notes:
    monkeypatch.setenv("TERM", "xterm-256color")
    notes = Notes()
    notes.is_terminal = True
    return notes


def test_the_bar_is_drawn_from_the_first_update_on(notes: Notes, capsys: pytest.CaptureFixture[str]) -> None:
    with notes.bar("dig") as show:
        assert capsys.readouterr().err == ""
        show(update(1, message="deep"))
        drawn = capsys.readouterr().err
        show(update(3, 3))
        again = capsys.readouterr().err

    assert "dig" in drawn
    assert "1 deep" in drawn
    assert "3/3" in again


def test_updates_in_quick_succession_are_not_drawn(
    notes: Notes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = iter([0.0, 0.0, 0.04, 0.06, 0.06, 0.07])
    monkeypatch.setattr(time, "monotonic", lambda: next(now))

    with notes.bar("dig") as show:
        for done in (1, 2, 3):
            show(update(done, 9))
        monkeypatch.undo()
    drawn = capsys.readouterr().err

    assert "1/9" in drawn
    assert "2/9" not in drawn
    assert "3/9" in drawn


def test_messages_are_printed_above_the_bar(notes: Notes, capsys: pytest.CaptureFixture[str]) -> None:
    with notes.bar("dig") as show:
        notes.say("before")
        assert capsys.readouterr().err == "before\n"
        show(update(1, 3))
        capsys.readouterr()
        notes.say("a [bold] word\x1b[2J")
        printed = capsys.readouterr().err
    notes.say("after")

    assert "a [bold] word\\x1b[2J\n" in printed
    assert "1/3" in printed[printed.index("word") :]
    assert capsys.readouterr().err.endswith("after\n")


def test_a_hidden_bar_is_not_drawn_until_it_is_shown_again(notes: Notes, capsys: pytest.CaptureFixture[str]) -> None:
    with notes.bar("dig") as show:
        show(update(1, 3))
        with notes.bar_hidden():
            capsys.readouterr()
            show(update(2, 3))
            assert capsys.readouterr().err == ""
        show(update(3, 3))
        assert "3/3" in capsys.readouterr().err
    with notes.bar_hidden():  # without a bar
        notes.prompt("name\x1b> ")
    assert capsys.readouterr().err.endswith("name\\x1b> ")


def test_no_bar_is_drawn_without_a_terminal(notes: Notes, capsys: pytest.CaptureFixture[str]) -> None:
    notes.is_terminal = False

    with notes.bar("dig") as show:
        show(update(1, 3))
        notes.say("words")

    assert capsys.readouterr().err == "words\n"


def test_log_messages_of_the_package_are_shown_while_a_command_runs(
    notes: Notes, capsys: pytest.CaptureFixture[str]
) -> None:
    log = logging.getLogger("trio_mcp.client")

    with notes.logged():
        log.warning("odd: %s", "\x1b[31m")
        log.info("not worth a line")

    assert capsys.readouterr().err == "trio-mcp: odd: \\x1b[31m\n"
    assert logging.getLogger("trio_mcp").handlers == []


def test_no_bar_is_drawn_on_a_dumb_terminal(
    notes: Notes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "dumb")

    with notes.bar("dig") as show:
        show(update(1, 3))

    assert capsys.readouterr().err == ""
