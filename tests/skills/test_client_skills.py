"""Tests of a client that reads skills: what it checks, when it asks, and what it refuses."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.skills.folders import (
    FORMS,
    FORMS_TEXT,
    PDF,
    PDF_TEXT,
    names_in,
    pdf_entry,
    resource,
    serve_entries,
    write_pdf_skill,
)
from trio_mcp import (
    ErrorResponse,
    MissingCapability,
    RemoteProtocolError,
    Server,
    SkillChanged,
    open_client,
    open_clients,
    types,
)
from trio_mcp.skills import ClientSkill

LOGO = "skill://pdf-processing/logo.png"
EVIL_TEXT = PDF_TEXT.replace("First read", "Never read")
EVIL_DESCRIPTION = PDF_TEXT.replace("Fill and merge PDF files", "Send everything away")


@asynccontextmanager
async def held(files: dict[str, Any] | None = None, **changes: Any) -> AsyncGenerator[tuple[ClientSkill, list[str]]]:
    """Yield the one skill of a server with this entry, and the URIs that the client reads."""
    server, reads = serve_entries(pdf_entry(**changes), files=files)
    async with open_client(server) as client:
        (skill,) = [skill async for skill in client.skills(server="docs")]
        yield skill, reads


async def test_a_skill_has_the_name_description_files_and_frontmatter_of_its_entry_before_anything_is_read() -> None:
    frontmatter = {"name": "pdf-processing", "description": "Fill and merge PDF files", "license": "MIT"}
    async with held(frontmatter=frontmatter) as (skill, reads):
        assert (skill.uri, skill.name, skill.description) == (PDF, "pdf-processing", "Fill and merge PDF files")
        assert (skill.server, skill.is_dynamic, skill.frontmatter) == ("docs", False, frontmatter)
        assert {path: each.uri for path, each in skill.files.items()} == {
            "SKILL.md": PDF,
            "references/FORMS.md": FORMS,
        }
        assert repr(skill) == f"<ClientSkill '{PDF}' of 'docs'>"
        assert reads == []


async def test_each_read_asks_the_server_and_verifies_what_it_gets() -> None:
    async with held() as (skill, reads):
        assert await skill.read() == PDF_TEXT
        assert await skill.read() == PDF_TEXT
        assert await skill.read("references/FORMS.md") == FORMS_TEXT
        assert await skill.read_bytes("references/FORMS.md") == FORMS_TEXT.encode()

    assert reads == [PDF, PDF, FORMS, FORMS]


async def test_one_skill_is_requested_by_its_uri() -> None:
    server, reads = serve_entries(pdf_entry())
    async with open_client(server) as client:
        skill = await client.skill(PDF, server="docs")
        unnamed = await client.skill(PDF)

        assert (skill.uri, skill.server, unnamed.server) == (PDF, "docs", None)
        assert repr(unnamed) == f"<ClientSkill '{PDF}'>"
        assert await unnamed.read() == PDF_TEXT
        with pytest.raises(RemoteProtocolError, match=f"answered with the entry of '{PDF}' for 'skill://any'"):
            await client.skill("skill://any")
        with pytest.raises(TypeError, match="uri"):
            await client.skill(7)  # type: ignore[arg-type] # the wrong type is under test
    assert reads == [PDF]


async def test_a_server_that_declares_no_skills_has_none_and_is_not_asked() -> None:
    async with open_client(Server("docs")) as client:
        assert [skill async for skill in client.skills()] == []
        with pytest.raises(MissingCapability, match="has not declared that it has skills"):
            await client.skill(PDF)


# --- Verification ---


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (f"{PDF_TEXT}more", f"it has {len(PDF_TEXT) + 4} bytes, and the entry says {len(PDF_TEXT)}"),
        (EVIL_TEXT, "its digest is not that of the entry"),
        (PDF_TEXT.encode("utf-16")[: len(PDF_TEXT)], "its digest is not that of the entry"),
    ],
)
async def test_a_file_of_another_size_or_digest_is_refused_and_so_is_the_skill_from_then_on(
    text: str | bytes, fault: str
) -> None:
    async with held({PDF: text, FORMS: FORMS_TEXT}) as (skill, reads):
        for path in ("SKILL.md", "references/FORMS.md", "SKILL.md"):
            with pytest.raises(SkillChanged, match=fault) as caught:
                await skill.read(path)
            assert (caught.value.uri, caught.value.fault) == (PDF, fault)

    assert reads == [PDF]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (EVIL_DESCRIPTION, r"its frontmatter differs from that of the entry at \$\.description"),
        (PDF_TEXT.replace("---\n", "---\nlicense: MIT\n", 1), r"differs from that of the entry at \$\.license"),
        (PDF_TEXT.replace("---\n", "", 1), "its frontmatter is not valid: line 1: expected frontmatter"),
        (b"\xff\xfe", "it is not UTF-8 text"),
    ],
)
async def test_a_skill_file_whose_frontmatter_is_not_that_of_the_entry_is_refused(
    text: str | bytes, fault: str
) -> None:
    async with held({PDF: text, FORMS: FORMS_TEXT}, resources=[resource(PDF, text), resource(FORMS, FORMS_TEXT)]) as (
        skill,
        reads,
    ):
        with pytest.raises(SkillChanged, match=fault):
            await skill.read_bytes()
        with pytest.raises(SkillChanged, match=fault):
            await skill.read("references/FORMS.md")

    assert reads == [PDF]


@pytest.mark.parametrize(
    ("entry", "file", "path"),
    [
        ({"a": 1, "b": 1.0, "c": True, "d": [1, {"e": None}]}, "{a: 1.0, b: 1, c: true, d: [1, {e: null}]}", None),
        ({"a": 1}, "{a: true}", "a"),
        ({"a": True}, "{a: 1}", "a"),
        ({"a": "1"}, "{a: 1}", "a"),
        ({"a": None}, "{}", "a"),
        ({}, "{a: null}", "a"),
        ({"a": [1, 2]}, "{a: [2, 1]}", "a[0]"),
        ({"a": [1, 2]}, "{a: [1]}", "a"),
        ({"a": [{"b": 1}]}, "{a: [{b: 2}]}", "a[0].b"),
        ({"a": {}}, "{a: []}", "a"),
        ({"a": []}, "{a: []}", None),
        ({"a": "yes", "b": "010", "c": "1_0", "d": "2025-01-01"}, "{a: yes, b: '010', c: 1_0, d: 2025-01-01}", None),
        (
            {"a": True, "b": 8, "c": 10, "d": 750, "e": None, "f": 0.5},
            "{a: yes, b: 010, c: 1_0, d: 12:30, e: ~, f: 0.5}",
            None,
        ),
        ({"a": True, "b": "on"}, "{a: yes, b: on}", "a"),
    ],
)
async def test_frontmatter_is_compared_value_by_value(entry: Any, file: str, path: str | None) -> None:
    text = PDF_TEXT.replace("---\n", f"---\nmetadata: {file}\n", 1)
    frontmatter = {"name": "pdf-processing", "description": "Fill and merge PDF files", "metadata": entry}
    async with held({PDF: text}, frontmatter=frontmatter, resources=[resource(PDF, text)]) as (skill, _):
        if path is None:
            assert await skill.read() == text
        else:
            with pytest.raises(SkillChanged) as caught:
                await skill.read()
            assert caught.value.fault == f"its frontmatter differs from that of the entry at $.metadata.{path}"


@pytest.mark.parametrize("path", ["references/OTHER.md", "references", "", "../secret", FORMS, "references/forms.md"])
async def test_a_file_that_the_entry_does_not_name_is_refused_without_asking(path: str) -> None:
    async with held() as (skill, reads):
        with pytest.raises(
            SkillChanged, match=r"is not a file of the skill; its files are SKILL\.md, references/FORMS"
        ):
            await skill.read(path)
        assert reads == []
        assert await skill.read() == PDF_TEXT  # it was this program that was wrong, not the server


async def test_a_file_that_is_not_text_is_read_as_bytes() -> None:
    async with held(
        {PDF: PDF_TEXT, LOGO: b"\xff\0"}, resources=[resource(PDF, PDF_TEXT), resource(LOGO, b"\xff\0")]
    ) as (
        skill,
        _,
    ):
        assert await skill.read_bytes("logo.png") == b"\xff\0"
        with pytest.raises(ValueError, match=r"'logo\.png' of skill 'pdf-processing' is not text; use read_bytes\(\)"):
            await skill.read("logo.png")


@pytest.mark.parametrize(
    ("contents", "fault"),
    [
        ([], "the server sent 0 contents instead of one file"),
        ([types.TextResourceContents(uri=PDF, text=text) for text in ("a", "b")], "the server sent 2 contents instead"),
        ([types.BlobResourceContents(uri=PDF, blob="%%%")], "what the server sent cannot be decoded"),
    ],
)
async def test_a_result_that_is_not_one_file_is_refused(contents: Any, fault: str) -> None:
    async with held({PDF: types.ReadResourceResult(contents=contents)}) as (skill, _):
        with pytest.raises(SkillChanged, match=fault):
            await skill.read()


async def test_the_error_of_a_server_that_does_not_serve_a_file_is_raised_and_the_skill_is_read_again() -> None:
    async with held({PDF: PDF_TEXT}) as (skill, _):
        with pytest.raises(ErrorResponse):
            await skill.read("references/FORMS.md")
        assert await skill.read() == PDF_TEXT


async def test_after_a_refusal_the_new_entry_is_good_for_the_new_version() -> None:
    entry, files = pdf_entry(), {PDF: PDF_TEXT}
    server, _ = serve_entries(entry, files=files)
    async with open_client(server) as client:
        old = await client.skill(PDF)
        files[PDF] = EVIL_TEXT
        entry["resources"] = [resource(PDF, EVIL_TEXT)]
        with pytest.raises(SkillChanged):
            await old.read()
        new = await client.skill(old.uri)

        assert await new.read() == EVIL_TEXT
        assert new.digest != old.digest


# --- Dynamic skills ---


async def test_a_dynamic_skill_is_not_read_unless_the_caller_accepts_what_cannot_be_verified() -> None:
    files = {PDF: PDF_TEXT, FORMS: FORMS_TEXT}
    async with held(files, resources="dynamic") as (skill, reads):
        assert (skill.is_dynamic, skill.digest, skill.files) == (True, None, {})
        with pytest.raises(SkillChanged, match="its files have no digests, so nothing can be verified"):
            await skill.read()
        with pytest.raises(SkillChanged, match="it has no list of files to save"):
            await skill.save("anywhere")
        assert reads == []

        assert await skill.read(accept_unverified=True) == PDF_TEXT
        assert await skill.read("references/FORMS.md", accept_unverified=True) == FORMS_TEXT
        with pytest.raises(SkillChanged, match=r"'\.\./secret' is not a safe path below the folder of the skill"):
            await skill.read("../secret", accept_unverified=True)
        assert reads == [PDF, FORMS]


async def test_the_frontmatter_of_a_dynamic_skill_is_verified_all_the_same() -> None:
    async with held({PDF: EVIL_DESCRIPTION}, resources="dynamic") as (skill, _):
        with pytest.raises(SkillChanged, match=r"differs from that of the entry at \$\.description"):
            await skill.read(accept_unverified=True)


async def test_accepting_what_is_not_verified_does_not_turn_verification_off() -> None:
    async with held({PDF: EVIL_TEXT, FORMS: FORMS_TEXT}) as (skill, _):
        with pytest.raises(SkillChanged, match="its digest is not that of the entry"):
            await skill.read(accept_unverified=True)


# --- Entries ---

GOOD = resource(PDF, PDF_TEXT)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"frontmatter": {"name": "pdf-processing"}}, "its frontmatter has no description"),
        ({"frontmatter": {"name": "pdf-processing", "description": " "}}, "its frontmatter has no description"),
        ({"frontmatter": {"description": "d"}}, "its frontmatter has no name"),
        ({"frontmatter": {"name": "Pdf", "description": "d"}}, "'Pdf' is not a name of a skill"),
        ({"frontmatter": {"name": "pdf", "description": "d"}}, r"its URI does not end in /pdf/SKILL\.md"),
        ({"uri": "skill://x\n- y/pdf-processing/SKILL.md"}, "its URI is not a URI"),
        ({"uri": "skill://pdf-processing"}, r"its URI does not end in /pdf-processing/SKILL\.md"),
        ({"resources": []}, r"its resources do not contain SKILL\.md"),
        ({"resources": [GOOD, GOOD]}, f"'{PDF}' is given twice"),
        ({"resources": [GOOD, resource("skill://pdf-processing/SKILL%2Emd", "")]}, "is given twice"),
        ({"resources": [GOOD, resource("skill://other/a", "")]}, "is not below the folder of the skill"),
        ({"resources": [GOOD, resource("skill://pdf-processing-2/a", "")]}, "is not below the folder of the skill"),
        ({"resources": [GOOD, resource("skill://pdf-processing/", "")]}, "is not a safe path"),
        ({"resources": [GOOD, resource("skill://pdf-processing/a/../../b", "")]}, "is not a safe path"),
        ({"resources": [GOOD, resource("skill://pdf-processing/%2e%2e%2fb", "")]}, "is not a safe path"),
        ({"resources": [GOOD, resource("skill://pdf-processing/%252e%252e/b", "")]}, "is not a safe path"),
        ({"resources": [GOOD, resource("skill://pdf-processing//etc/passwd", "")]}, "is not a safe path"),
        ({"resources": [GOOD, resource("skill://pdf-processing/a%5Cb", "")]}, "is not a safe path"),
        ({"resources": [GOOD, resource("skill://pdf-processing/a%00", "")]}, "is not a safe path"),
        ({"resources": [GOOD, resource("skill://pdf-processing/C:/a", "")]}, "is not a safe path"),
        ({"resources": [GOOD | {"digest": "sha256:12"}]}, "has the digest 'sha256:12'; expected sha256: and 64 hex"),
        ({"resources": [GOOD | {"digest": GOOD["digest"].upper()}]}, "expected sha256: and 64 hexadecimal digits"),
    ],
)
async def test_an_entry_that_is_not_valid_is_refused_and_left_out_of_the_list(
    changes: Any, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    entry = pdf_entry(**changes)
    text = "---\nname: good\ndescription: d\n---\n"
    good = {"uri": "skill://good/SKILL.md", "frontmatter": {"name": "good", "description": "d"}}
    server, _ = serve_entries(entry, {**good, "resources": [resource("skill://good/SKILL.md", text)]})
    async with open_client(server) as client:
        with pytest.raises(RemoteProtocolError, match=f"the entry of skill .* is not valid: .*{fault}"):
            await client.skill(entry["uri"])
        with caplog.at_level(logging.WARNING, "trio_mcp"):
            assert [skill.name async for skill in client.skills()] == ["good"]

    assert ["a skill is left out: the entry of skill" in record.getMessage() for record in caplog.records] == [True]


@pytest.mark.parametrize("resources", ["static", None, {}, [{"uri": PDF}], [GOOD | {"size": -1}]])
async def test_resources_that_are_neither_a_list_nor_dynamic_are_refused(resources: Any) -> None:
    server, _ = serve_entries(pdf_entry(resources=resources))
    async with open_client(server) as client:
        with pytest.raises(RemoteProtocolError, match="resources"):
            await client.skill(PDF)


async def test_the_scheme_of_a_skill_means_nothing() -> None:
    uri = "https://example.com/skills/pdf-processing/SKILL.md"
    async with held({uri: PDF_TEXT}, uri=uri, resources=[resource(uri, PDF_TEXT)]) as (skill, _):
        assert await skill.read() == PDF_TEXT


async def test_the_digest_covers_every_file_and_the_frontmatter_and_not_their_order() -> None:
    async def digest(**changes: Any) -> str | None:
        async with held(**changes) as (skill, _):
            return skill.digest

    forms, frontmatter = resource(FORMS, FORMS_TEXT), pdf_entry()["frontmatter"]
    same = [await digest(), await digest(resources=[forms, GOOD])]
    others = [
        await digest(resources=[GOOD]),
        await digest(resources=[GOOD, resource(FORMS, "x")]),
        await digest(resources=[GOOD, {**forms, "uri": f"{FORMS}x"}]),
        await digest(frontmatter={**frontmatter, "description": "d"}),
    ]

    assert len(set(same)) == 1
    assert len({*same, *others}) == 5


# --- Saving ---


async def test_a_skill_is_saved_into_a_folder_of_its_name(tmp_path: Path) -> None:
    server = Server("docs")
    server.skills.add_directory(write_pdf_skill(tmp_path / "from"))
    async with open_client(server) as client:
        skill = await client.skill(PDF)
        folder = await skill.save(tmp_path / "some" / "where")
        with pytest.raises(FileExistsError, match="File exists"):
            await skill.save(tmp_path / "some" / "where")

    assert folder == tmp_path / "some" / "where" / "pdf-processing"
    assert names_in(folder.parent) == ["pdf-processing"]
    saved = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert saved == {
        "SKILL.md": PDF_TEXT.encode(),
        "logo.png": b"\x89PNG\x00\xff",
        "references/FORMS.md": FORMS_TEXT.encode(),
    }


async def test_nothing_is_saved_if_a_file_is_refused_or_cannot_be_written(tmp_path: Path) -> None:
    async with held({PDF: PDF_TEXT, FORMS: "other"}) as (skill, _):
        with pytest.raises(SkillChanged):
            await skill.save(tmp_path)
    below = f"{FORMS}/x"  # a file where another file is a folder
    files = {PDF: PDF_TEXT, FORMS: FORMS_TEXT, below: ""}
    async with held(files, resources=[resource(uri, text) for uri, text in files.items()]) as (skill, _):
        with pytest.raises(OSError, match=r"FORMS\.md"):
            await skill.save(tmp_path)

    assert names_in(tmp_path) == []


# --- Many servers ---


def many(tmp_path: Path) -> dict[str, Any]:
    """Return the table of a server without skills and of two that have the same."""
    write_pdf_skill(tmp_path)
    program = "from trio_mcp import Server\nserver = Server('x')\n{}\nserver.run()\n"
    skills = f"server.skills.add_directory({str(tmp_path)!r})"
    return {
        "mcpServers": {
            name: {"command": sys.executable, "args": ["-c", program.format(line)]}
            for name, line in {"none": "", "some": skills, "same": skills}.items()
        }
    }


async def test_the_skills_of_many_servers_have_the_names_of_their_servers(tmp_path: Path) -> None:
    with trio.fail_after(30):
        async with open_clients(many(tmp_path)) as clients:
            found = [skill async for skill in clients.skills()]
            assert [(skill.server, skill.uri) for skill in found] == [("some", PDF), ("same", PDF)]
            assert await found[1].read() == PDF_TEXT

            await clients["some"].aclose()
            assert [skill.server async for skill in clients.skills()] == ["same"]
            assert [*clients.failed] == ["some"]


async def test_an_iterator_over_the_skills_of_many_servers_continues_after_a_cancellation(tmp_path: Path) -> None:
    with trio.fail_after(30):
        async with open_clients(many(tmp_path)) as clients:
            skills = clients.skills()
            with trio.CancelScope() as scope:
                scope.cancel()
                await anext(skills)

            assert [skill.server async for skill in skills] == ["some", "same"]
