"""`trio-mcp skills` and `trio-mcp skill`: lists, files and folders of skills."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import raw, run, terminal
from tests.cli.conftest import Command
from tests.skills.folders import FORMS_TEXT, PDF, PDF_TEXT, pdf_entry, write_pdf_skill, write_skill
from trio_mcp.skills.types import EXTENSION

DECLARED: dict[str, Any] = {"resources": {}, "extensions": {EXTENSION: {}}}


@pytest.fixture
def server(tmp_path: Path) -> list[str]:
    """Return the end of a command line that names a server with two skills."""
    write_pdf_skill(tmp_path / "skills")
    write_skill(tmp_path / "skills", "acme/refunds")
    folder = str(tmp_path / "skills")
    program = f"from trio_mcp import Server\ns = Server('docs')\ns.skills.add_directory({folder!r})\ns.run()"
    return ["--", sys.executable, "-c", program]


def scripted(entry: dict[str, Any], text: str = PDF_TEXT) -> list[str]:
    """Return the end of a command line that names a server with one skill, whose files all have this text."""
    read = {"contents": [{"uri": PDF, "text": text}]}
    answers = {"skills/list": {"skills": [entry]}, "skills/get": {"skill": entry}, "resources/read": read}
    return raw(capabilities=DECLARED, answers=answers)


def test_skills_are_listed_with_uri_name_number_of_files_and_description(command: Command, server: list[str]) -> None:
    done = command("skills", *server)

    assert (done.status, done.out.splitlines()) == (
        0,
        [
            "skill://acme/refunds/SKILL.md\trefunds\t1\tAbout refunds",
            f"{PDF}\tpdf-processing\t3\tFill and merge PDF files",
        ],
    )


def test_the_list_as_json_has_the_entries(command: Command) -> None:
    entry = pdf_entry(resources="dynamic")

    assert json.loads(command("skills", "--json", *scripted(entry)).out) == {"skills": [entry]}
    assert command("skills", *scripted(entry)).out == f"{PDF}\tpdf-processing\tdynamic\tFill and merge PDF files\n"


def test_a_server_without_skills_has_none(command: Command) -> None:
    done = command("skills", *raw())

    assert (done.status, done.out, done.err) == (0, "", "the server has no skills\n")


def test_a_file_of_a_skill_is_printed_byte_for_byte(server: list[str]) -> None:
    assert run("skill", PDF, *server).stdout == PDF_TEXT.encode()
    assert run("skill", PDF, "references/FORMS.md", *server).stdout == FORMS_TEXT.encode()
    assert run("skill", PDF, "logo.png", *server).stdout == b"\x89PNG\x00\xff"


async def test_on_a_terminal_text_is_shown_and_bytes_are_described(server: list[str]) -> None:
    async with terminal("skill", PDF, *server) as shown:
        assert await shown.end() == 0
    assert "First read references/FORMS.md." in shown.shown
    async with terminal("skill", PDF, "logo.png", *server) as shown:
        assert await shown.end() == 0
    assert "[6 bytes that are not text]" in shown.shown
    assert "use --save DIR to save the files" in shown.shown


def test_a_skill_as_json_is_its_entry_and_no_file_is_read(command: Command) -> None:
    done = command("skill", PDF, "--json", *scripted(pdf_entry(), "not what the entry says"))

    assert (done.status, json.loads(done.out)) == (0, {"skill": pdf_entry()})


def test_a_skill_is_saved_once(command: Command, server: list[str], tmp_path: Path) -> None:
    done, again = [command("skill", PDF, "--save", str(tmp_path / "out"), *server) for _ in range(2)]

    folder = tmp_path / "out" / "pdf-processing"
    assert (done.status, done.out, done.err) == (0, "", f"written: {folder}\n")
    assert (folder / "SKILL.md").read_text() == PDF_TEXT
    assert (again.status, again.err) == (2, f"trio-mcp skill: cannot write {folder}: File exists\n")


@pytest.mark.parametrize("options", [(), ("--save", "out"), ("references/FORMS.md",)])
def test_a_file_that_is_not_what_the_entry_says_is_not_shown_and_not_saved(
    command: Command, options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = command("skill", PDF, *options, *scripted(pdf_entry(), "Something else.\n"))

    assert (done.status, done.out) == (3, "")
    assert "bytes, and the entry says" in done.err
    assert [*tmp_path.iterdir()] == []


def test_a_file_that_the_skill_does_not_have_is_a_wrong_command_line(command: Command, server: list[str]) -> None:
    done = command("skill", PDF, "references/FORM.md", *server)

    assert (done.status, done.out) == (2, "")
    assert done.err == (
        "trio-mcp skill: the skill has no file 'references/FORM.md'; did you mean references/FORMS.md?\n"
    )


def test_a_dynamic_skill_is_not_read(command: Command) -> None:
    done = command("skill", PDF, *scripted(pdf_entry(resources="dynamic")))

    assert (done.status, done.out) == (3, "")
    assert done.err.startswith(f"trio-mcp skill: {PDF}: its files have no digests")


def test_a_skill_that_the_server_does_not_have_is_refused_by_it(command: Command, server: list[str]) -> None:
    done = command("skill", "skill://gone/SKILL.md", *server)

    assert (done.status, done.err) == (1, "trio-mcp skill: no skill 'skill://gone/SKILL.md' (-32602)\n")


def test_a_server_that_does_not_offer_skills_is_named_as_the_reason(command: Command) -> None:
    done = command("skill", PDF, *raw())

    assert (done.status, done.err) == (1, "trio-mcp skill: the server has not declared that it has skills\n")


def test_what_a_server_says_cannot_control_the_terminal(command: Command) -> None:
    entry = pdf_entry(frontmatter={"name": "pdf-processing", "description": "\x1b[31mred\tand more\nlines"})

    assert "\x1b" not in command("skills", *scripted(entry)).out
