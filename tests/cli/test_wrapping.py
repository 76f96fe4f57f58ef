"""Long lines on terminals of 80 and of 100 columns: they are broken between words."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

from tests.cli.command import raw, run, terminal
from trio_mcp.cli._arguments import actions_of_commands
from trio_mcp.cli._terminal import columns_of, wrapped

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX terminals")

WIDTHS = pytest.mark.parametrize("columns", [80, 100])
WORDS = " ".join(f"word{number}" for number in range(100, 160))
PROPERTIES: Any = {f"a_long_name_of_argument_{number}": {"type": "string"} for number in range(6)}
TOOLS: Any = [
    {"name": f"book_seats_{number}", "description": WORDS, "inputSchema": {"type": "object", "properties": PROPERTIES}}
    for number in range(2)
]


def lines_of(shown: str) -> list[str]:
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).splitlines()]


@WIDTHS
async def test_no_name_and_no_word_of_a_table_is_broken(columns: int) -> None:
    async with terminal("tools", *raw(answers={"tools/list": {"tools": TOOLS}}), columns=columns) as screen:
        assert await screen.end() == 0

    lines = lines_of(screen.shown)
    words = {word for line in lines for word in line.split()}
    assert max(map(len, lines)) <= columns
    assert {*WORDS.split(), *(f"[{name}=STRING]" for name in PROPERTIES), "book_seats_0", "book_seats_1"} <= words


@WIDTHS
@pytest.mark.parametrize("indentation", ["", "  "])
async def test_long_lines_of_a_result_are_broken_between_words(indentation: str, columns: int) -> None:
    result = {
        "content": [{"type": "text", "text": f"short\n{indentation}{WORDS}\n\nhttps://example.org/{'x' * 120} end"}]
    }

    async with terminal("call", "book", *raw(answers={"tools/call": result}), columns=columns) as screen:
        assert await screen.end() == 0

    short, *wrapped_lines, blank, url, end = lines_of(screen.shown)
    assert (short, blank, url, end) == ("short", "", f"https://example.org/{'x' * 120}", "end")
    assert " ".join(line.removeprefix(indentation) for line in wrapped_lines) == WORDS
    assert all(line.startswith(f"{indentation}word") for line in wrapped_lines)
    assert columns - 8 < max(map(len, wrapped_lines)) <= columns


@WIDTHS
async def test_long_errors_and_remarks_are_broken_between_words(columns: int) -> None:
    failed = {"content": [{"type": "text", "text": WORDS}], "isError": True}
    log = {"method": "notifications/message", "params": {"level": "info", "data": WORDS}}
    server = raw(answers={"tools/call": failed}, notes=[log], capabilities={"tools": {}, "logging": {}})

    async with terminal("call", "book", "--log-level", "info", *server, columns=columns) as screen:
        assert await screen.end() == 1

    lines = lines_of(screen.shown)
    error = next(at for at, line in enumerate(lines) if line.startswith("trio-mcp call: tool 'book' failed: word100"))
    assert lines[0].startswith("[info] word100")
    assert " ".join(lines[1:error])[:4] == "word"
    assert all(line.startswith("    word") for line in lines[error + 1 :])
    assert max(map(len, lines)) <= columns


@WIDTHS
async def test_the_demo_fits_the_terminal(columns: int) -> None:
    async with terminal("demo", columns=columns) as screen:
        assert await screen.end() == 0

    lines = lines_of(screen.shown)
    assert [line for line in lines if len(line) > columns and " " in line.strip()] == []
    assert "…" not in screen.shown


@pytest.mark.parametrize("name", ["", *(name for name, _, _ in actions_of_commands())])
@WIDTHS
def test_the_help_fits_the_terminal(name: str, columns: int) -> None:
    done = run(*filter(None, [name]), "--help", COLUMNS=str(columns))

    assert done.returncode == 0
    assert [line for line in done.stdout.decode().splitlines() if len(line) > columns] == []


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("short", "short"),
        ("one two three four", "one two\n> three\n> four"),
        ("  one two three four", "  one\n  > two\n  > three\n  > four"),
        ("one-two-three-four-five x", "one-two-three-four-five\n> x"),
        ("a\n\nb            c", "a\n\nb\n> c"),
        ("a\n            ", "a\n            "),
        ("one\ttwo three", "one\ttwo\n> three"),
    ],
)
def test_a_line_is_broken_between_words(text: str, broken: str) -> None:
    assert wrapped(text, 8, hanging="> ") == broken


def test_a_stream_without_a_terminal_has_80_columns() -> None:
    with open("/dev/null") as stream:  # noqa: PTH123
        assert columns_of(stream) == 80
