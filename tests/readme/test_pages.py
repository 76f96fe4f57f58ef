"""The README and the pages of `docs`: every program and every command in them is run.

A block headed ```` ```python title="NAME" ```` (or ``json``, ``markdown``) is a whole file of that name; a ``text``
block right after it is its output. The files of all pages are in one folder, as they would be for a reader. The
programs run there with empty standard input, those of the README first. The ``sh`` blocks run in that folder as well,
except for the first two of the README: the first runs in a fresh copy of the checkout, and the second is the command
that runs the tests.
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

import website

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
INDEX = ROOT / "docs" / "index.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
LINKING = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
NOT_COPIED = shutil.ignore_patterns(".git", ".nox", ".venv", "dist", "build", "node_modules", "*_cache", "*.pyc")


@attrs.frozen
class Block:
    """A fenced block of a page: the heading of its fence, its content, and its documented output."""

    page: str
    language: str
    title: str | None
    text: str
    output: str | None

    def __str__(self) -> str:
        return f"{self.page}: {self.title or self.text.partition(chr(10))[0]}"


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page, in order."""
    fence = re.compile(
        r'^```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$'
        r"(?:\n\n```text\n(?P<output>.*?)^```$)?",
        re.MULTILINE | re.DOTALL,
    )
    for found in fence.finditer(page.read_text(encoding="utf-8")):
        yield Block(page.name, **found.groupdict())


BLOCKS = [block for page in PAGES for block in blocks(page)]
FILES = [block for block in BLOCKS if block.title is not None]
COMMANDS = [block for block in BLOCKS if block.language == "sh"]
PROGRAMS = [block for block in BLOCKS if block.language == "python"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all programs and other files of the pages, under their names."""
    place = tmp_path_factory.mktemp("pages")
    for file in FILES:
        path = place / str(file.title)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text, encoding="utf-8")
    return place


def run(*command: str, cwd: Path) -> str:
    """Run a command that must succeed, with empty standard input; return its output."""
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


def test_every_python_block_has_its_own_file_name() -> None:
    titles = [file.title for file in FILES]

    assert None not in [program.title for program in PROGRAMS]
    assert len(set(titles)) == len(titles) > 0


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_a_program_runs_as_written(program: Block, folder: Path) -> None:
    title = str(program.title)
    options = ["-m", "pytest", "-q", "-p", "no:cacheprovider"] if title.startswith("test_") else []

    printed = run(sys.executable, "-W", "error", *options, title, cwd=folder)

    assert program.output is None or printed == program.output


def test_the_first_command_sets_up_a_checkout_and_runs_the_main_program(tmp_path: Path) -> None:
    fresh = Path(shutil.copytree(ROOT, tmp_path / "fresh", ignore=NOT_COPIED))

    printed = run("bash", "-euo", "pipefail", "-c", COMMANDS[0].text, cwd=fresh)

    assert COMMANDS[0].page == README.name
    assert "trio-mcp" in printed


def test_the_second_command_runs_the_tests() -> None:
    assert COMMANDS[1].page == README.name
    assert COMMANDS[1].text.rstrip().endswith(f".venv{os.sep}bin{os.sep}nox")


@pytest.mark.parametrize("commands", COMMANDS[2:], ids=str)
def test_commands_run_as_written(commands: Block, folder: Path) -> None:
    printed = run("bash", "-euo", "pipefail", "-c", commands.text, cwd=folder)

    assert commands.output is None or printed == commands.output


def test_the_readme_has_at_most_310_lines() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 310


def links(page: Path) -> list[str]:
    """Return the targets of the links of a page to files of this project and to its own headings."""
    found = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    return [target for target in found if "://" not in target]


def headings(page: Path) -> set[str]:
    """Return the link fragments of the headings of a page."""
    without_blocks = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", without_blocks, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", LINKING, ids=lambda page: page.name)
def test_every_link_has_an_existing_target(page: Path) -> None:
    for link in links(page):
        if link.startswith("reference/"):
            continue  # generated pages, see below
        path, _, fragment = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {link}"
        assert not fragment or fragment in headings(target), f"{page.name}: {link}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_the_reference_names_a_page_and_an_object_on_it(page: Path) -> None:
    for link in links(page):
        if link.startswith("reference/"):
            name, _, fragment = link.removeprefix("reference/").partition("#")
            shown = [] if name == f"{website.COMMANDS}.md" else website.names_on(name.removesuffix(".md"))
            assert not fragment or fragment in shown, f"{page.name}: {link}"


def test_the_index_lists_every_page() -> None:
    listed = {link.partition("#")[0] for link in links(INDEX)}

    assert {page.name for page in PAGES if page not in {README, INDEX}} <= listed
