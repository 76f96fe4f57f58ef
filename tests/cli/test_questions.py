"""Questions of the server, which the user answers on a terminal."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import PROGRAMS, Terminal, raw, terminal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="questions are shown on POSIX terminals")

FORM: dict[str, Any] = {
    "message": "How many seats?\nFor \x1b[31mHamlet",
    "requestedSchema": {
        "type": "object",
        "properties": {
            "count": {"type": "integer", "minimum": 1, "maximum": 9, "description": "how many"},
            "where": {"type": "string", "enum": ["stalls", "circle"], "default": "circle"},
            "notes": {"type": "string"},
        },
        "required": ["count"],
    },
}
CONFIRM: dict[str, Any] = {"message": "Confirm?", "requestedSchema": {"type": "object", "properties": {}}}


def call_that_asks(form: dict[str, Any], **config: Any) -> list[str]:
    return ["call", "book", *raw(ask=form, **config)]


async def answer(screen: Terminal, prompt: str, line: str) -> str:
    before = await screen.until(prompt)
    await screen.type(line)
    return before


def received(screen: Terminal) -> Any:
    """Return the answer that the server received; its result contains it."""
    return json.loads(screen.shown.splitlines()[-1])


async def test_a_form_is_shown_field_by_field_until_the_answers_fit() -> None:
    async with terminal(*call_that_asks(FORM)) as screen:
        shown = await answer(screen, "\ncount> ", "twelve\n")
        assert "The server asks: How many seats?\n    For \\x1b[31mHamlet\n" in shown
        assert "count: how many [integer, at least 1, at most 9, required]" in shown
        assert "expected integer, got the string 'twelve'" in await answer(screen, "\ncount> ", "\n")
        assert "a value is required" in await answer(screen, "\ncount> ", "2\n")
        assert "1) stalls\n  2) circle" in await answer(screen, "where [circle]> ", "1\n")
        await answer(screen, "\nnotes> ", "\n")
        await answer(screen, "[c]ancel> ", "perhaps\n")
        assert "type one of the letters" in await answer(screen, "[c]ancel> ", "y\n")
        assert await screen.end() == 0

    assert received(screen) == {"action": "accept", "content": {"count": 2, "where": "stalls"}}


async def test_answers_can_be_edited_before_they_are_sent() -> None:
    async with terminal(*call_that_asks(FORM)) as screen:
        await answer(screen, "\ncount> ", "2\n")
        await answer(screen, "where [circle]> ", "\n")
        await answer(screen, "\nnotes> ", "by the aisle\n")
        await answer(screen, "[c]ancel> ", "edit\n")
        await answer(screen, "count [2]> ", "/skip\n")  # refused: the field is required
        await answer(screen, "count [2]> ", "\n")
        await answer(screen, "where [circle]> ", "/skip\n")
        await answer(screen, "notes [by the aisle]> ", "\n")
        await answer(screen, "[c]ancel> ", "yes\n")
        assert await screen.end() == 0

    assert received(screen) == {"action": "accept", "content": {"count": 2, "notes": "by the aisle"}}


@pytest.mark.parametrize(
    ("typed", "action"),
    [("/decline\n", "decline"), ("/cancel\n", "cancel"), ("\x04", "cancel"), ("1\x04\x04", "cancel")],
)
async def test_a_question_can_be_declined_or_cancelled_at_any_field(typed: str, action: str) -> None:
    async with terminal(*call_that_asks(FORM)) as screen:
        await answer(screen, "\ncount> ", typed)
        assert await screen.end() == 0

    assert received(screen) == {"action": action}


@pytest.mark.parametrize(("typed", "action"), [("y\n", "accept"), ("d\n", "decline"), ("c\n", "cancel")])
async def test_a_question_without_fields_needs_an_explicit_answer(typed: str, action: str) -> None:
    async with terminal(*call_that_asks(CONFIRM)) as screen:
        await answer(screen, "Agree? [y]es, [d]ecline, [c]ancel> ", "\n")
        assert "type one of the letters" in await answer(screen, "[c]ancel> ", "e\n")
        await answer(screen, "[c]ancel> ", typed)
        assert await screen.end() == 0

    assert received(screen)["action"] == action


async def test_control_c_at_a_question_cancels_the_call(tmp_path: Path) -> None:
    cancelled = tmp_path / "cancelled"

    async with terminal(*call_that_asks(FORM, cancelled=str(cancelled))) as screen:
        await answer(screen, "\ncount> ", "\x03")
        await screen.until("trio-mcp call: interrupted\n")
        assert await screen.end() == 130

    assert "requestId" in json.loads(cancelled.read_text())
    assert "Traceback" not in screen.shown


async def test_a_question_that_the_server_cancels_is_removed() -> None:
    async with terminal(*call_that_asks(FORM, withdraw=True)) as screen:
        await screen.until("never mind\n")
        assert await screen.end() == 0


async def test_the_progress_bar_is_hidden_while_the_user_types() -> None:
    progress = {"method": "notifications/progress", "params": {"progressToken": "PROGRESS", "progress": 1, "total": 2}}

    async with terminal(*call_that_asks(CONFIRM, notes=[progress])) as screen:
        await answer(screen, "[c]ancel> ", "y\n")
        assert await screen.end() == 0

    assert received(screen)["action"] == "accept"


# --- Questions with a URL ---


def page(url: str) -> dict[str, Any]:
    return {"mode": "url", "message": "Log in first.\x1b[31m", "url": url, "elicitationId": "1"}


@pytest.mark.parametrize(("typed", "action"), [("y\n", "accept"), ("d\n", "decline"), ("c\n", "cancel")])
async def test_a_url_is_shown_with_its_site_and_is_not_opened(typed: str, action: str) -> None:
    url = "https://example.com/login?" + "a" * 300
    async with terminal(*call_that_asks(page(url))) as screen:
        shown = await answer(screen, "I will visit it? [y]es, [d]ecline, [c]ancel> ", typed)
        assert await screen.end() == 0

    assert "The server asks: Log in first.\\x1b[31m\n" in shown
    assert f"    {url}\n" in shown
    assert "which belongs to: example.com\n" in shown
    assert "Warning" not in shown
    assert received(screen) == {"action": action}


@pytest.mark.parametrize(
    ("url", "site", "warnings"),
    [
        ("http://example.com/", "example.com", ["does not begin with https"]),
        ("https://xn--80ak6aa92e.com/", "xn--80ak6aa92e.com", ["letters of other alphabets"]),
        ("https://\u0430pple.com/", "\u0430pple.com", ["letters of other alphabets"]),
        ("https://example.com@evil.example/", "evil.example", ["before the @"]),
        ("javascript:alert(1)", "no site", ["does not begin with https"]),
        ("https://[::1", "no site", ["does not begin with https"]),
    ],
)
async def test_a_suspicious_url_is_shown_with_a_warning(url: str, site: str, warnings: list[str]) -> None:
    async with terminal(*call_that_asks(page(url))) as screen:
        shown = await answer(screen, "[c]ancel> ", "d\n")
        assert await screen.end() == 0

    assert f"which belongs to: {site}\n" in shown
    assert shown.count("Warning: ") == len(warnings)
    assert all(each in shown for each in warnings)


# --- Revisions ---


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@pytest.mark.parametrize(
    ("command", "answered"),
    [
        (["call", "book"], "2 seats"),
        (["read", "seats://mine"], "2 seats"),
        (["prompt", "praise"], "Praise my 2 seats."),
    ],
    ids=["call", "read", "prompt"],
)
async def test_every_command_shows_questions_on_the_terminal(command: list[str], answered: str, revision: str) -> None:
    server = ["--", sys.executable, str(PROGRAMS / "asking_server.py")]
    async with terminal(*command, "--revision", revision, *server) as screen:
        await answer(screen, "\ncount> ", "2\n")
        await answer(screen, "[c]ancel> ", "y\n")
        assert await screen.end() == 0

    assert screen.shown.splitlines()[-1].endswith(answered)


async def test_a_question_of_a_modern_server_can_be_declined() -> None:
    async with terminal("call", "book", "--", sys.executable, str(PROGRAMS / "asking_server.py")) as screen:
        await answer(screen, "\ncount> ", "/decline\n")
        assert await screen.end() == 0

    assert "nothing: Declined" in screen.shown


async def test_control_c_at_a_question_of_a_modern_server_ends_the_command() -> None:
    async with terminal("call", "book", "--", sys.executable, str(PROGRAMS / "asking_server.py")) as screen:
        await answer(screen, "\ncount> ", "\x03")
        await screen.until("trio-mcp call: interrupted\n")
        assert await screen.end() == 130
    assert "Traceback" not in screen.shown


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_input_typed_before_a_question_does_not_answer_it(revision: str) -> None:
    server = ["--", sys.executable, str(PROGRAMS / "asking_server.py")]
    async with terminal("call", "pay", "--revision", revision, *server) as screen:
        await answer(screen, "\ncount> ", "2\ny\ny\ny")
        assert "The server asks: Pay?" in await answer(screen, "Agree? [y]es, [d]ecline, [c]ancel> ", "d\n")
        assert await screen.end() == 0

    assert "2 seats, Declined" in screen.shown
