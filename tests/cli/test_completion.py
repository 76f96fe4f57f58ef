"""`trio-mcp completion`: the scripts, in real shells."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import run
from tests.cli.conftest import Command
from trio_mcp.cli._arguments import LEVELS, actions_of_commands


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"needs {shell}")


@pytest.fixture
def script(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return the script for the shell that the test names."""
    path = tmp_path / "script"
    path.write_bytes(run("completion", request.param).stdout)
    return path


def output_of(*command: str, cwd: Path) -> list[str]:
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=False, cwd=cwd)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def completed_by_bash(script: Path, *words: str) -> list[str]:
    """Return what bash proposes for the last of *words*."""
    program = (
        f"source {script}; COMP_WORDS=({shlex.join(['trio-mcp', *words])}); COMP_CWORD={len(words)}; "
        '_trio_mcp; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    return output_of("bash", "--norc", "--noprofile", "-u", "-c", program, cwd=script.parent)


@needs("bash")
@pytest.mark.parametrize("script", ["bash"], indirect=True)
def test_bash_completes_commands_options_and_values(script: Path) -> None:
    commands = completed_by_bash(script, "")

    assert {"--help", "--version", *(name for name, _, _ in actions_of_commands())} == {*commands}
    assert completed_by_bash(script, "ca") == ["call"]
    assert completed_by_bash(script, "--v") == ["--version"]
    assert completed_by_bash(script, "call", "--lo") == ["--login", "--log-level"]
    assert completed_by_bash(script, "call", "add", "--out") == ["--output"]
    assert completed_by_bash(script, "call", "--log-level", "") == [*LEVELS]
    assert completed_by_bash(script, "call", "--log-level", "e") == ["error", "emergency"]
    assert completed_by_bash(script, "install", "server.py", "--host", "claude") == ["claude-desktop", "claude-code"]
    assert completed_by_bash(script, "completion", "f") == ["fish"]


@needs("bash")
@pytest.mark.parametrize("script", ["bash"], indirect=True)
@pytest.mark.parametrize(
    "words", [["call", "--trace", ""], ["call", "--", "--js"], ["call", "add", "--", "python", "-"], ["serve", ""]]
)
def test_bash_leaves_file_names_and_commands_of_servers_to_its_own_completion(words: list[str], script: Path) -> None:
    assert completed_by_bash(script, *words) == [""]
    assert "complete -o default" in script.read_text()


@needs("fish")
@pytest.mark.parametrize("script", ["fish"], indirect=True)
def test_fish_completes_commands_options_and_values(script: Path) -> None:
    def completed(line: str) -> list[str]:
        program = f"source {script}; complete -C {shlex.quote(f'trio-mcp {line}')}"
        return [each.partition("\t")[0] for each in output_of("fish", "--no-config", "-c", program, cwd=script.parent)]

    assert completed("ca") == ["call"]
    assert {*completed("")} >= {name for name, _, _ in actions_of_commands()}
    assert {*completed("call --lo")} == {"--login", "--log-level"}
    assert {*completed("call --log-level ")} == {*LEVELS}
    assert completed("completion f") == ["fish"]
    assert completed("call --trace scr") == ["script"]
    assert completed("serve scr") == ["script"]


@needs("zsh")
@pytest.mark.parametrize("script", ["zsh"], indirect=True)
def test_zsh_registers_the_script_and_accepts_its_options(script: Path) -> None:
    """The completion system runs only on a terminal; here `_arguments` and `_describe` get what they would get."""
    program = f"""
        compdef() {{ print -r -- compdef "$@" }}
        source {script}
        _describe() {{ print -r -- ${{(P)2}} }}
        _arguments() {{ print -rl -- "$@" }}
        _files() {{ print files }}
        words=(trio-mcp ca) CURRENT=2; _trio-mcp
        words=(trio-mcp ping --) CURRENT=3; _trio-mcp
        words=(trio-mcp completion "") CURRENT=3; _trio-mcp
        words=(trio-mcp call -- python "") CURRENT=5; _trio-mcp
    """

    printed = output_of("zsh", "-f", "-c", program, cwd=script.parent)

    assert printed[0] == "compdef _trio-mcp trio-mcp"
    assert "call:call a tool" in printed[1]
    assert "--count[the number of requests (4)]:value:" in printed
    assert "*--root[offer a folder to the server as a root; may be repeated]:value:_files" in printed
    assert "*:argument:(bash zsh fish)" in printed
    assert printed[-1] == "files"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_script_has_every_command_and_option(shell: str, command: Command) -> None:
    done = command("completion", shell)

    assert (done.status, done.err) == (0, "")
    for name, purpose, actions in actions_of_commands():
        assert name in done.out
        assert shell == "bash" or purpose in done.out
        for option in (option for action in actions for option in action.option_strings):
            assert option.lstrip("-") in done.out


def test_quotation_marks_and_brackets_of_the_help_are_escaped(command: Command) -> None:
    fish, zsh = command("completion", "fish").out, command("completion", "zsh").out

    assert r"offer a folder" in fish
    assert r"or \'any\'; may be repeated" in fish
    assert r"or '\''any'\''; may be repeated" in zsh


def test_an_unknown_shell_is_refused(command: Command) -> None:
    done = command("completion", "tcsh")

    assert done.status == 2
    assert "invalid choice: 'tcsh'" in done.err
