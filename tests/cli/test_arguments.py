"""The grammar of the command line."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from trio_mcp.cli._arguments import read_arguments


def test_the_arguments_after_two_dashes_are_the_command_of_the_server() -> None:
    options = read_arguments(["tools", "--json", "--", "uvx", "--quiet", "--", "server", "--json"])

    assert (options.command, options.json) == ("tools", True)
    assert options.target == ["uvx", "--quiet", "--", "server", "--json"]


def test_arguments_of_a_call_may_stand_anywhere_among_the_options() -> None:
    options = read_arguments(["call", "--json", "add", "a=1", "--timeout", "2.5", "b=-2", "-o", "f", "c=", "--", "s"])

    assert (options.name, options.pairs) == ("add", ["a=1", "b=-2", "c="])
    assert (options.timeout, options.output, options.json) == (2.5, "f", True)


def test_repeated_arguments_may_stand_on_both_sides_of_an_option() -> None:
    assert read_arguments(["watch", "a:b", "--json", "c:d", "--", "s"]).uris == ["a:b", "c:d"]
    assert read_arguments(["prompt", "review", "--json", "code=x", "--", "s"]).pairs == ["code=x"]
    assert read_arguments(["complete", "prompt:p", "code", "--json", "x", "--", "s"]).value == "x"
    assert read_arguments(["complete", "prompt:p", "code", "--", "s"]).value == ""


def test_a_server_may_be_named_in_a_config_file() -> None:
    options = read_arguments(["info", "--config", "servers.json", "mine"])

    assert (options.config, options.target) == (["servers.json", "mine"], None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tools"], "no server"),
        (["tools", "--"], "no server"),
        (["tools", "--config", "f", "n", "--", "x"], "two servers"),
        (["demo", "--", "x"], "takes no server"),
        (["serve", "m", "--", "x"], "takes no server"),
        (["tools", "add", "extra", "--", "x"], "unknown arguments: extra"),
        (["info", "extra", "--", "x"], "unknown arguments: extra"),
        (
            ["tools", "http://e.org/mcp"],
            "no server given; is `--` missing? write: trio-mcp tools -- http://e.org/mcp (see",
        ),
        (["call", "nap", "s=1", "sh", "a b"], "is `--` missing? write: trio-mcp call nap s=1 -- sh 'a b' (see"),
        (["tools", "sh"], "no server given: add --"),
        (["hosts", "sh", "a"], "unknown arguments: sh a (see"),
        (["call", "nap", "no-such-program", "a"], "no server given: add --"),
        (
            ["info", "sh", __file__],
            f"unknown arguments: sh; is `--` missing? write: trio-mcp info -- sh {__file__} (see",
        ),
        (["info", "npx", "server"], "no server given: write -- before its command or URL, as in -- npx server"),
        (["tools", "npx", "server"], "no server given: write -- before its command or URL, as in -- npx server"),
        (["call", "add", "a=1", "--jsn", "b=1", "--", "x"], "unknown arguments: --jsn"),
        (["call", "--", "x"], "required: NAME (see"),
        (["complete", "prompt:p", "code", "x", "--json", "y", "--", "x"], "unknown arguments: y"),
        (["call", "add", "--timeout", "0", "--", "x"], "expected a number of seconds above 0, got '0'"),
        (["call", "add", "--timeout", "inf", "--", "x"], "above 0"),
        (["call", "add", "--timeout", "soon", "--", "x"], "above 0"),
        (["tools", "--log-level", "loud", "--", "x"], "invalid choice: 'loud'"),
    ],
    ids=" ".join,
)
def test_an_invalid_command_line_is_reported_in_one_line(
    arguments: Sequence[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        read_arguments(arguments)

    printed = capsys.readouterr().err
    assert caught.value.code == 2
    assert printed.startswith(f"trio-mcp {arguments[0]}: ")
    assert message in printed
    assert printed.count("\n") == 1


COMMANDS = [
    "call",
    "complete",
    "completion",
    "demo",
    "hosts",
    "info",
    "install",
    "ping",
    "prompt",
    "prompts",
    "read",
    "resources",
    "serve",
    "servers",
    "skill",
    "skills",
    "task",
    "tools",
    "watch",
    "dev",
    "inspect",
    "stubs",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        read_arguments([command, "--help"])

    printed = capsys.readouterr().out
    assert caught.value.code == 0
    assert f"example:\n  trio-mcp {command}" in printed
    assert "usage: trio-mcp" in printed


def test_the_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read_arguments(["--help"])

    printed = capsys.readouterr().out
    assert [command for command in COMMANDS if f"\n    {command}" not in printed] == []
