"""The command on a terminal: tables, the progress bar, questions and Ctrl+C."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.cli.command import SAMPLE, raw, terminal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX terminals")

EVIL = "\x1b]0;owned\x07[bold]x[/bold]\x9b31m"
SHOWN = "\\x1b]0;owned\\x07[bold]x[/bold]\\x9b31m"


def without_colours(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


async def test_tools_are_shown_as_a_table() -> None:
    async with terminal("tools", *SAMPLE) as screen:
        assert await screen.end() == 0

    lines = [line.split() for line in without_colours(screen.shown).splitlines()]
    assert ["tool", "arguments", "what", "it", "does"] in lines
    assert ["add", "a=INTEGER", "b=INTEGER", "Add", "two", "numbers."] in lines
    assert any(line and set(line[0]) == {"─"} for line in lines)


async def test_a_call_shows_a_bar_while_it_reports_progress_and_then_its_result() -> None:
    async with terminal("call", "crunch", "steps=3", *SAMPLE) as screen:
        for step in (1, 3):  # the steps in between may be too fast to be drawn
            assert "━" in await screen.until(f"{step}/3")
            await screen.until(f"step {step}")
        await screen.until("crunched\n")
        assert await screen.end() == 0


async def test_progress_with_huge_numbers_and_unsafe_messages_is_drawn(tmp_path: Path) -> None:
    progress = {"progressToken": "PROGRESS", "progress": 10**400, "message": f"{EVIL}\n"}
    huge = {"method": "notifications/progress", "params": progress}

    async with terminal("call", "book", *raw(notes=[huge])) as screen:
        await screen.until(f"1e+15 {SHOWN}\\n")
        assert await screen.end() == 0


async def test_log_messages_do_not_disturb_a_question() -> None:
    log = {"method": "notifications/message", "params": {"level": "info", "data": f"log {EVIL}"}}
    form: Any = {"message": "go on", "requestedSchema": {"type": "object", "properties": {}}}

    server = raw(notes=[log, log], ask=form, capabilities={"tools": {}, "logging": {}})
    async with terminal("call", "book", "--log-level", "info", *server) as screen:
        await screen.until("[c]ancel> ")
        await screen.type("y\n")
        assert await screen.end() == 0

    assert screen.shown.count(f"[info] log {SHOWN}\n") == 2
    assert "[c]ancel> y\n" in screen.shown
    assert "\x1b]" not in screen.shown


async def test_control_c_in_the_middle_of_a_call_stops_the_handler(tmp_path: Path) -> None:
    stopped = tmp_path / "stopped"

    async with terminal("call", "hang", *SAMPLE, str(stopped)) as screen:
        await screen.until("1/7")
        await screen.type("\x03")
        await screen.until("trio-mcp call: interrupted\n")
        assert await screen.end() == 130

    assert stopped.read_text() == "stopped"
    assert "Traceback" not in screen.shown
    assert screen.shown.rindex("\x1b[?25h") > screen.shown.rindex("\x1b[?25l")  # the cursor is visible again


async def test_json_in_a_pipe_is_free_of_other_output(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        async with terminal("call", "crunch", "steps=2", "--json", *SAMPLE, stdout=out) as screen:
            await screen.until("2/2")  # the bar is on standard error
            assert await screen.end() == 0

    with (tmp_path / "out").open("rb") as piped:
        parsed = await trio.run_process([sys.executable, "-m", "json.tool"], stdin=piped, capture_stdout=True)
    assert json.loads(parsed.stdout)["structuredContent"] == {"result": "crunched"}


async def test_json_on_a_terminal_is_indented() -> None:
    async with terminal("call", "add", "a=1", "b=2", "--json", *SAMPLE) as screen:
        assert await screen.end() == 0

    assert json.loads(screen.shown)["structuredContent"] == {"result": 3}
    assert '\n  "structuredContent": {\n' in screen.shown


async def test_structured_content_is_coloured_and_a_blob_is_described() -> None:
    async with terminal("call", "place", 'where={"name": "x"}', "tags=[]", *SAMPLE) as screen:
        assert await screen.end() == 0
    async with terminal("read", "bytes://all", *SAMPLE) as blob:
        assert await blob.end() == 0
    async with terminal("read", "greeting://Ada", *SAMPLE) as text:
        assert await text.end() == 0

    assert json.loads(without_colours(screen.shown)) == {"name": "x ", "height": None}
    assert "\x1b[" in screen.shown
    assert blob.shown == "[bytes://all, application/octet-stream, 256 bytes]\nuse -o FILE to save the bytes\n"
    assert text.shown == "Hello, Ada!\n"


@pytest.mark.parametrize("arguments", [["tools"], ["call", "book"], ["call", EVIL], ["info"], ["prompts"]])
async def test_terminal_commands_and_markup_in_strings_of_a_server_have_no_effect(arguments: list[str]) -> None:
    tools: Any = [{"name": "book", "description": EVIL, "inputSchema": {"type": "object", "properties": {EVIL: {}}}}]
    answers: Any = {
        "tools/list": {"tools": tools},
        "tools/call": {"content": [{"type": "text", "text": EVIL}], "structuredContent": {EVIL: EVIL}},
        "prompts/list": {"prompts": [{"name": EVIL, "arguments": [{"name": EVIL}]}]},
    }

    async with terminal(*arguments, *raw(answers=answers, info={"title": EVIL})) as screen:
        await screen.end()

    assert "\x1b]" not in screen.shown
    assert "\x9b" not in screen.shown
    assert "\x07" not in screen.shown
    assert "bold]x[/bold]" in re.sub(r"\s", "", without_colours(screen.shown))


async def test_a_narrow_table_does_not_truncate_names() -> None:
    tool: Any = {"name": "x" * 120, "inputSchema": {"type": "object", "properties": {"y" * 120: {}}}}

    async with terminal("tools", *raw(answers={"tools/list": {"tools": [tool]}})) as screen:
        assert await screen.end() == 0

    shown = without_colours(screen.shown)
    assert (shown.count("x"), shown.count("y")) == (120, 120)
    assert "…" not in shown
