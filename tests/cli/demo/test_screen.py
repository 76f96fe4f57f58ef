"""The screen of the demo without a terminal."""

from __future__ import annotations

import pytest

from trio_mcp.cli.demo._run import Screen


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make rich print as to a pipe of 80 columns, independent of the environment."""
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")


def test_chapters_are_numbered_and_show_their_code(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen()
    screen.chapter("First", "a()")
    screen.chapter("Second", "b()")

    assert capsys.readouterr().out == "\n1. First\n   a()\n\n\n2. Second\n   b()\n\n"


def test_strings_of_a_server_are_never_taken_as_markup(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen()
    screen.say("[bold]loud[/bold]")
    screen.quote("[red]name[/red]", "[link]words[/link] :smile:")
    screen.table(["[b]x[/b]"], [["[i]y[/i]"]])
    with screen.bar("[u]z[/u]") as show:
        show(1, 2)

    printed = capsys.readouterr().out
    for string in (
        "[bold]loud[/bold]",
        "[red]name[/red]: [link]words[/link] :smile:",
        "[b]x[/b]",
        "[i]y[/i]",
        "[u]z[/u]",
    ):
        assert string in printed


def test_a_table_has_an_empty_cell_for_an_absent_value(capsys: pytest.CaptureFixture[str]) -> None:
    Screen().table(["name", "price"], [["fern", 8.3], ["fig", None]])

    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["fern", "8.3"] in rows
    assert ["fig"] in rows


def test_a_progress_bar_without_a_terminal_is_one_line_with_the_last_value(capsys: pytest.CaptureFixture[str]) -> None:
    with Screen().bar("counting") as show:
        show(1, 4)
        show(3, 4)

    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("counting")
    assert line.endswith("3/4")
