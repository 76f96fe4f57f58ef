"""Tests of reading skills from folders: what is a skill, which files belong to it, and what is refused."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.skills.folders import PDF, PDF_TEXT, resource, write_file, write_pdf_skill, write_skill
from trio_mcp import Server
from trio_mcp.skills import types


def added(folder: Path, prefix: str = "") -> dict[str, types.Skill]:
    """Return the entries of the skills in a folder by URI."""
    server = Server("docs")
    server.skills.add_directory(folder, prefix=prefix)
    return {skill.uri: skill for skill in server.skills}


def files_of(entry: types.Skill) -> Sequence[str]:
    assert entry.resources != "dynamic"
    return [each.uri for each in entry.resources]


def test_a_folder_with_a_skill_file_is_one_skill_with_the_digest_and_size_of_each_file(tmp_path: Path) -> None:
    entry = added(write_pdf_skill(tmp_path))[PDF]

    assert entry.frontmatter == {"name": "pdf-processing", "description": "Fill and merge PDF files"}
    assert next(iter(entry.resources)) == types.SkillResource(**resource(PDF, PDF_TEXT))
    assert files_of(entry) == [PDF, "skill://pdf-processing/logo.png", "skill://pdf-processing/references/FORMS.md"]


def test_a_folder_of_skills_holds_skills_at_any_depth_whose_uris_have_the_names_of_the_folders(tmp_path: Path) -> None:
    write_pdf_skill(tmp_path)
    write_skill(tmp_path, "acme/billing/refunds")
    write_file(tmp_path / "README.md", "not part of a skill")

    assert [*added(tmp_path)] == ["skill://acme/billing/refunds/SKILL.md", PDF]
    assert [*added(tmp_path / "acme")] == ["skill://billing/refunds/SKILL.md"]
    assert [*added(tmp_path / "acme", prefix="other/acme")] == ["skill://other/acme/billing/refunds/SKILL.md"]


def test_a_skill_inside_another_is_a_skill_and_its_files_belong_to_both(tmp_path: Path) -> None:
    write_skill(tmp_path, "outer", notes_md="a")
    write_skill(tmp_path, "outer/inner", notes_md="b")

    entries = added(tmp_path)

    inner = ["skill://outer/inner/SKILL.md", "skill://outer/inner/notes.md"]
    assert files_of(entries["skill://outer/inner/SKILL.md"]) == inner
    assert files_of(entries["skill://outer/SKILL.md"]) == ["skill://outer/SKILL.md", *inner, "skill://outer/notes.md"]


def test_the_current_folder_and_a_link_to_a_folder_have_the_names_by_which_they_are_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(write_pdf_skill(tmp_path))
    (tmp_path / "elsewhere" / "pdf-processing").parent.mkdir()
    (tmp_path / "elsewhere" / "pdf-processing").symlink_to(tmp_path / "pdf-processing")

    assert [*added(Path())] == [PDF]
    assert [*added(tmp_path / "elsewhere" / "pdf-processing")] == [PDF]


def test_hidden_files_and_compiled_python_are_left_out(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, "tidy", scripts__run_py="print()")
    write_file(folder / ".git" / "config", "secret")
    write_file(folder / ".env", "secret")
    write_file(folder / "scripts" / "__pycache__" / "run.pyc", b"\0")

    assert files_of(added(folder)["skill://tidy/SKILL.md"]) == ["skill://tidy/SKILL.md", "skill://tidy/scripts/run.py"]


def test_names_are_percent_encoded_in_uris(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, "wide")
    write_file(folder / "Müller & Co.txt", "")

    assert files_of(added(folder)["skill://wide/SKILL.md"])[0] == "skill://wide/M%C3%BCller%20%26%20Co.txt"


def test_a_link_to_a_file_of_the_same_skill_is_that_file(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, "linked", real_txt="text")
    (folder / "alias.txt").symlink_to("real.txt")

    entry = added(folder)["skill://linked/SKILL.md"]

    assert types.SkillResource(**resource("skill://linked/alias.txt", "text")) in [*entry.resources]


@pytest.mark.parametrize(
    ("target", "fault"),
    [
        ("../secret.txt", "is a link that leads out of the skill, to "),
        ("/etc/hostname", "is a link that leads out of the skill, to "),
        ("../linked-too/secret.txt", "is a link that leads out of the skill, to "),
        ("gone.txt", "which is not a regular file"),
        ("references", "which is not a regular file"),
        (".", "which is not a regular file"),
    ],
)
def test_any_other_link_is_refused(tmp_path: Path, target: str, fault: str) -> None:
    folder = write_skill(tmp_path, "linked", references__a_md="")
    write_file(tmp_path / "secret.txt", "secret")
    write_file(tmp_path / "linked-too" / "secret.txt", "secret")
    (folder / "alias.txt").symlink_to(target)

    with pytest.raises(ValueError, match=fault) as caught:
        added(folder)

    assert str(caught.value).startswith(f"{folder / 'alias.txt'}: ")


def test_a_link_to_a_folder_of_a_skill_is_refused_in_a_folder_of_skills(tmp_path: Path) -> None:
    write_pdf_skill(tmp_path / "all")
    (tmp_path / "all" / "other").symlink_to(write_skill(tmp_path, "other"))

    with pytest.raises(ValueError, match="other: is a link to a folder; add the folder that it leads to by itself"):
        added(tmp_path / "all")


def test_a_pipe_and_a_socket_are_refused_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(write_skill(tmp_path, "piped") / "pipe")
    bound = socket.socket(socket.AF_UNIX)
    monkeyed = write_skill(tmp_path, "bound")
    bound.bind(str(monkeyed / "socket"))
    bound.close()

    with pytest.raises(ValueError, match="pipe: is not a regular file"):
        added(tmp_path / "piped")
    with pytest.raises(OSError, match="socket"):
        added(tmp_path / "bound")


@pytest.mark.parametrize("name", ["a\\b", "a\nb", "C:x", "bad\udcff"])
def test_a_name_that_is_not_safe_everywhere_is_refused(tmp_path: Path, name: str) -> None:
    folder = write_skill(tmp_path, "odd")
    (folder / name).touch()

    with pytest.raises(ValueError, match="the name is not safe on every system"):
        added(folder)


def test_a_skill_may_have_512_files_and_16_mebibytes_and_no_more(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, "full")
    for number in range(511):
        (folder / f"{number}.txt").touch()
    room = 16 * 2**20 - (folder / "SKILL.md").stat().st_size
    (folder / "0.txt").write_bytes(bytes(room))
    assert len(files_of(added(folder)["skill://full/SKILL.md"])) == 512

    (folder / "0.txt").write_bytes(bytes(room + 1))
    with pytest.raises(ValueError, match=rf"{folder}: the files of the skill have more than 16777216 bytes \(16 MiB\)"):
        added(folder)

    (folder / "0.txt").write_bytes(b"")
    (folder / "one-more.txt").touch()
    with pytest.raises(ValueError, match=f"{folder}: the skill has more than 512 files"):
        added(folder)


def test_a_folder_without_skills_is_refused(tmp_path: Path) -> None:
    write_file(tmp_path / "notes" / "skill.md", "")

    with pytest.raises(
        ValueError, match=f"{tmp_path}: there is no skill; neither the folder nor one below it has a SK"
    ):
        added(tmp_path)


def test_a_folder_that_cannot_be_read_raises_the_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        added(tmp_path / "gone")


@pytest.mark.parametrize("prefix", ["/acme", "acme/", "a//b", "..", "a/./b", "a\nb"])
def test_a_prefix_is_a_relative_path(tmp_path: Path, prefix: str) -> None:
    with pytest.raises(ValueError, match="expected segments, such as 'acme/billing'"):
        added(write_pdf_skill(tmp_path), prefix=prefix)


# --- Frontmatter ---


def frontmatter_of(folder: Path, text: str | bytes) -> object:
    """Return the frontmatter of a skill with the name `odd` and this SKILL.md."""
    write_file(folder / "odd" / "SKILL.md", text)
    return added(folder / "odd")["skill://odd/SKILL.md"].frontmatter


def test_frontmatter_is_json_by_the_core_schema_of_yaml(tmp_path: Path) -> None:
    text = """---
name: odd
description: >
  Two
  lines
metadata:
  strings: [yes, on, 2025-01-01, 12:30, '1', !!str 1, ! 2, 0b1, 1_000]
  numbers: [1, -2, 010, 0o17, 0x1F, 1.5, 1., .5, 1e3]
  others: [true, False, null, ~, ]
  nothing:
---
body: not part
"""

    assert frontmatter_of(tmp_path, text) == {
        "name": "odd",
        "description": "Two lines\n",
        "metadata": {
            "strings": ["yes", "on", "2025-01-01", "12:30", "1", "1", "2", "0b1", "1_000"],
            "numbers": [1, -2, 10, 15, 31, 1.5, 1.0, 0.5, 1000.0],
            "others": [True, False, None, None],
            "nothing": None,
        },
    }


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_line_ends_of_windows_a_byte_order_mark_and_blanks_after_the_fences_are_accepted(
    tmp_path: Path, start: str, end: str
) -> None:
    text = start + end.join(["--- ", "name: odd", "description: d", "---\t"])

    assert frontmatter_of(tmp_path, text) == {"name": "odd", "description": "d"}


HEAD = "---\nname: odd\ndescription: d\n"


@pytest.mark.parametrize(
    ("text", "line", "fault"),
    [
        ("", 1, "expected frontmatter: the first line must be ---"),
        ("# Title\n---\n", 1, "expected frontmatter: the first line must be ---"),
        ("---\nname: odd\n", 1, "the frontmatter has no end: a line --- must follow it"),
        ("---\n---\n", 2, "expected members, such as `name: pdf-processing`"),
        ("---\n- a\n---\n", 3, "expected members, such as `name: pdf-processing`"),
        ("---\nname: odd\n---\n", 1, "description: is missing"),
        ("---\nname: odd\ndescription: 1\n---\n", 3, "description: expected a text"),
        ("---\nname: odd\ndescription: ' '\n---\n", 3, "description: expected a text"),
        ("---\ndescription: d\n---\n", 1, "name: is missing"),
        ("---\n\nname: even\ndescription: d\n---\n", 3, "name: 'even' is not the name of its folder, 'odd'"),
        (
            "---\nname: Odd\ndescription: d\n---\n",
            2,
            "name: 'Odd' is not a name of a skill: use 1 to 64 characters of a-",
        ),
        (f"{HEAD}name: odd\n---\n", 4, "'name' is given twice"),
        (f"{HEAD}a: &x 1\nb: *x\n---\n", 5, "aliases are not supported: write the value of *x again"),
        (f"{HEAD}a: !!binary aGk=\n---\n", 4, "the tag 'tag:yaml.org,2002:binary' is not supported"),
        (f"{HEAD}a: !!set {{b}}\n---\n", 4, "the tag 'tag:yaml.org,2002:set' is not supported"),
        (f"{HEAD}a:\n  [b]: 1\n---\n", 5, "the key ['b'] is not a string"),
        (f"{HEAD}1: 2\n---\n", 4, "the key 1 is not a string"),
        (f"{HEAD}a: .inf\n---\n", 4, "the number .inf has no JSON form; write it in quotes"),
        (f"{HEAD}a: .NaN\n---\n", 4, "the number .NaN has no JSON form; write it in quotes"),
        (f"{HEAD}a: 1e999\n---\n", 4, "the number 1e999 has no JSON form; write it in quotes"),
        (f"{HEAD}a: {'[' * 40}\n---\n", 4, "more than 32 lists and mappings are nested"),
        (f"{HEAD}{'- ' * 4000}\n---\n", 4, "not valid YAML: "),
        (f"{HEAD}a: b: c\n---\n", 4, "not valid YAML: mapping values are not allowed "),
        (f"{HEAD}a: '\n---\n", 4, "not valid YAML: found unexpected end of stream"),
        (f"{HEAD}a: \x07\n---\n", 2, "not valid YAML: it has a character that YAML does not allow"),
        (f"{HEAD}--- more\n---\n", 4, "expected a single YAML document"),
        (f"{HEAD}a: {'x' * 70_000}\n---\n", 1, "the frontmatter is longer than 65536 characters"),
    ],
)
def test_a_fault_of_the_frontmatter_names_the_file_and_the_line(
    tmp_path: Path, text: str, line: int, fault: str
) -> None:
    with pytest.raises(ValueError, match=r"SKILL\.md") as caught:
        frontmatter_of(tmp_path, text)

    assert str(caught.value).startswith(f"{tmp_path / 'odd' / 'SKILL.md'}:{line}: {fault}")


def test_a_skill_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"SKILL\.md: is not UTF-8 text"):
        frontmatter_of(tmp_path, HEAD.encode("utf-16"))


@pytest.mark.parametrize("name", ["a", "a1", "a-b-2", "x" * 64])
def test_names_of_skills_have_lowercase_letters_digits_and_single_hyphens(tmp_path: Path, name: str) -> None:
    assert [*added(write_skill(tmp_path, name))] == [f"skill://{name}/SKILL.md"]


@pytest.mark.parametrize("name", ["A", "a_b", "-a", "a-", "a--b", "x" * 65, "é"])
def test_other_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is not a name of a skill"):
        added(write_skill(tmp_path, name))


def test_reserved_metadata_is_served_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    more = "metadata:\n  io.modelcontextprotocol/x: 1\n  com.example/y: 2\n"
    with caplog.at_level(logging.WARNING, "trio_mcp"):
        added(write_skill(tmp_path, "odd", more=more))

    assert [record.getMessage().partition("odd/")[2] for record in caplog.records] == [
        "SKILL.md: metadata: the key 'io.modelcontextprotocol/x' is reserved for the protocol"
    ]
