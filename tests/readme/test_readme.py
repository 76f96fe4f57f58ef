"""The README is run: its first command in a fresh copy of the checkout, its programs in the order they stand there.

A block headed ```` ```python title="NAME" ```` (or ``json``) is a whole file of that name; a ``text`` block right after
it is what it prints. All of them lie in one folder, as they would for a reader, and run with standard input empty.
The ``sh`` blocks after the first two run in that folder as well.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
LEFT_BEHIND = shutil.ignore_patterns(".git", ".nox", ".venv", "dist", "build", "node_modules", "*_cache", "*.pyc")


@attrs.frozen
class Block:
    """A fenced block: what its fence says, what it holds, and the output that the README promises for it."""

    language: str
    title: str | None
    text: str
    output: str | None


def blocks() -> Iterator[Block]:
    """The fenced blocks of the README, in order."""
    fence = re.compile(
        r'^```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$'
        r"(?:\n\n```text\n(?P<output>.*?)^```$)?",
        re.MULTILINE | re.DOTALL,
    )
    for found in fence.finditer(TEXT):
        yield Block(**found.groupdict())


BLOCKS = list(blocks())
FILES = [block for block in BLOCKS if block.title is not None]
COMMANDS = [block for block in BLOCKS if block.language == "sh"]
PROGRAMS = [block for block in BLOCKS if block.language == "python"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every program of the README, and every other file in it, under its name."""
    place = tmp_path_factory.mktemp("readme")
    for file in FILES:
        (place / str(file.title)).write_text(file.text, encoding="utf-8")
    return place


def run(*command: str, cwd: Path) -> str:
    """Run a command that must succeed, with nothing on standard input; what it printed."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # as in an activated environment
    done = subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | {"PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{command} exited with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_every_python_block_is_a_file_of_its_own() -> None:
    titles = [program.title for program in PROGRAMS]

    assert None not in titles
    assert len(set(titles)) == len(titles) > 0


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: str(program.title))
def test_a_program_runs_as_written(program: Block, folder: Path) -> None:
    title = str(program.title)
    options = ["-m", "pytest", "-q", "-p", "no:cacheprovider"] if title.startswith("test_") else []

    printed = run(sys.executable, "-W", "error", *options, title, cwd=folder)

    assert program.output is None or printed == program.output


def test_the_first_command_sets_up_and_runs_the_main_job(tmp_path: Path) -> None:
    fresh = Path(shutil.copytree(ROOT, tmp_path / "fresh", ignore=LEFT_BEHIND))

    printed = run("bash", "-euo", "pipefail", "-c", COMMANDS[0].text, cwd=fresh)

    assert "trio-mcp" in printed


def test_the_second_command_is_the_one_that_runs_the_tests() -> None:
    assert COMMANDS[1].text.rstrip().endswith(f".venv{os.sep}bin{os.sep}nox")


@pytest.mark.parametrize("commands", COMMANDS[2:], ids=lambda commands: commands.text.partition("\n")[0])
def test_commands_run_as_written(commands: Block, folder: Path) -> None:
    printed = run("bash", "-euo", "pipefail", "-c", commands.text, cwd=folder)

    assert commands.output is None or printed == commands.output
