"""Tests of a server with skills: entries, pages, directories, files, and what changes by a refresh."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.skills.folders import (
    FORMS,
    FORMS_TEXT,
    PDF,
    PDF_TEXT,
    write_file,
    write_pdf_skill,
    write_skill,
)
from trio_mcp import (
    CacheHint,
    Client,
    ErrorResponse,
    ListChanged,
    ResourceUpdated,
    Server,
    open_client,
    types,
)
from trio_mcp.skills.types import EXTENSION
from trio_mcp.testing import open_memory_client

LOGO = "skill://pdf-processing/logo.png"
INVALID_PARAMS = -32602
MODERN = "2026-07-28"


async def ask(client: Client, method: str, **params: Any) -> dict[str, Any]:
    """Return the result of a request, without what every result has."""
    result = await client.request(method, params, dict[str, Any])
    return {name: value for name, value in result.items() if name not in {"_meta", "resultType"}}


async def uris(client: Client) -> list[str]:
    return [skill.uri async for skill in client.skills()]


async def test_an_entry_is_served_without_the_members_of_other_skills_and_unknown_skills_are_refused(
    tmp_path: Path,
) -> None:
    server = Server("docs")
    server.skills.add_directory(write_pdf_skill(tmp_path))

    async with open_client(server) as client:
        for uri in ("skill://gone/SKILL.md", FORMS, "skill://pdf-processing"):
            with pytest.raises(ErrorResponse, match=f"no skill '{uri}'") as caught:
                await ask(client, "skills/get", uri=uri)
            assert (caught.value.code, caught.value.data) == (INVALID_PARAMS, {"uri": uri})


async def test_a_server_without_skills_declares_none_and_one_that_only_looks_at_them_too() -> None:
    server = Server("docs")
    assert [*server.skills] == []
    assert len(server.skills) == 0

    async with open_client(server) as client:
        assert EXTENSION not in (client.server_capabilities.extensions or {})


async def test_a_folder_that_is_refused_leaves_nothing_behind(tmp_path: Path) -> None:
    server = Server("docs")
    folder = write_pdf_skill(tmp_path)
    wrong: Any = "of another type"
    with pytest.raises(TypeError, match="must be a CacheHint"):
        server.skills.add_directory(folder, cache=wrong)
    with pytest.raises(TypeError, match="must be a plain function"):
        server.skills.add_directory(folder, visible=wrong)
    with pytest.raises(ValueError, match="not a scope"):
        server.skills.add_directory(folder, scopes=["a b"])
    assert server.extensions == {}

    server.skills.add_directory(folder)
    with pytest.raises(ValueError, match=f"a resource '{PDF}' is registered already"):
        server.skills.add_directory(folder)

    assert len(server.skills) == 1


async def test_files_have_media_types_by_their_names_and_contents(tmp_path: Path) -> None:
    server = Server("docs")
    folder = write_skill(tmp_path, "all", run_py="print()", data_json="{}", image_png=b"\x89\xff", zero_txt=b"a\0b")
    write_file(folder / "LICENSE", "MIT")
    write_file(folder / "other", b"\xff")
    write_file(folder / "data.tar.gz", b"\x1f\x8b")
    server.skills.add_directory(folder)

    async with open_client(server) as client:
        (skill,) = [skill async for skill in client.skills()]
        found = {path: (await client.read_resource(each.uri)).contents[0] for path, each in skill.files.items()}

    assert {path: each.mime_type for path, each in found.items()} == {
        "SKILL.md": "text/markdown",
        "run.py": "text/x-python",
        "data.json": "application/json",
        "image.png": "image/png",
        "zero.txt": "text/plain",
        "LICENSE": "text/plain",
        "other": "application/octet-stream",
        "data.tar.gz": "application/octet-stream",
    }
    blobs = [path for path, each in found.items() if isinstance(each, types.BlobResourceContents)]
    assert sorted(blobs) == ["data.tar.gz", "image.png", "other", "zero.txt"]


async def test_only_the_skill_files_are_in_the_list_of_resources_with_name_and_description(tmp_path: Path) -> None:
    server = Server("docs")
    server.skills.add_directory(write_pdf_skill(tmp_path))

    async with open_client(server) as client:
        (listed,) = [each async for each in client.resources()]

    assert (listed.uri, listed.name, listed.title) == (PDF, "pdf-processing", "Pdf processing")
    assert (listed.description, listed.mime_type) == ("Fill and merge PDF files", "text/markdown")
    assert listed.size == len(PDF_TEXT)


# --- Pages and directories ---


async def test_skills_are_listed_in_pages_and_an_entry_that_stays_is_on_exactly_one(tmp_path: Path) -> None:
    server = Server("docs", page_size=2)
    for name in ("a", "b", "c", "d"):
        server.skills.add_directory(write_skill(tmp_path, name))

    async with open_client(server) as client:
        first = await ask(client, "skills/list")
        server.skills.remove_directory(tmp_path / "a")
        server.skills.add_directory(write_skill(tmp_path, "e"))
        second = await ask(client, "skills/list", cursor=first["nextCursor"])
        third = await ask(client, "skills/list", cursor=second["nextCursor"])
        assert await uris(client) == [f"skill://{name}/SKILL.md" for name in ("b", "c", "d", "e")]
        with pytest.raises(ErrorResponse, match="is not a cursor of 'skills/list'"):
            await ask(client, "skills/list", cursor="2")

    pages = [[skill["frontmatter"]["name"] for skill in page["skills"]] for page in (first, second, third)]
    assert pages == [["a", "b"], ["c", "d"], ["e"]]
    assert "nextCursor" not in third


async def test_a_directory_lists_what_is_directly_in_it(tmp_path: Path) -> None:
    write_pdf_skill(tmp_path)
    write_skill(tmp_path, "acme/refunds")
    write_file(tmp_path / "pdf-processing" / "über uns" / "a.txt", "")
    server = Server("docs")
    server.skills.add_directory(tmp_path)
    other = "skill://pdf-processing/%C3%BCber%20uns"

    async with open_client(server) as client:
        children = (await ask(client, "resources/directory/read", uri="skill://pdf-processing"))["resources"]
        (inner,) = (await ask(client, "resources/directory/read", uri="skill://pdf-processing/references"))["resources"]
        (outer,) = (await ask(client, "resources/directory/read", uri="skill://acme"))["resources"]
        for uri in (PDF, "skill://pdf-processing/", "skill://pdf", "skill:/", "skill:", "", "file:///etc"):
            with pytest.raises(ErrorResponse, match="no directory") as caught:
                await ask(client, "resources/directory/read", uri=uri)
            assert (caught.value.code, caught.value.data) == (INVALID_PARAMS, {"uri": uri})

    assert [each["uri"] for each in children] == [other, PDF, LOGO, "skill://pdf-processing/references"]
    assert children[0] == {"uri": other, "name": "über uns", "mimeType": "inode/directory"}
    assert (inner["uri"], inner["name"], inner["mimeType"]) == (FORMS, "FORMS.md", "text/markdown")
    assert outer == {"uri": "skill://acme/refunds", "name": "refunds", "mimeType": "inode/directory"}


async def test_a_directory_is_listed_in_pages_with_cursors_of_its_own(tmp_path: Path) -> None:
    server = Server("docs", page_size=2)
    server.skills.add_directory(write_pdf_skill(tmp_path))
    method, folder = "resources/directory/read", "skill://pdf-processing"

    async with open_client(server) as client:
        first = await ask(client, method, uri=folder)
        second = await ask(client, method, uri=folder, cursor=first["nextCursor"])
        with pytest.raises(ErrorResponse, match="is not a cursor"):
            await ask(client, method, uri=f"{folder}/references", cursor=first["nextCursor"])

    assert [each["name"] for each in first["resources"] + second["resources"]] == [
        *("pdf-processing", "logo.png", "references"),
    ]
    assert "nextCursor" not in second


# --- Visibility, scopes and caching ---


async def test_skills_that_are_hidden_from_a_caller_are_neither_listed_nor_found(tmp_path: Path) -> None:
    server = Server("docs")
    server.skills.add_directory(write_pdf_skill(tmp_path))
    server.skills.add_directory(
        write_skill(tmp_path, "internal", a__b_txt=""), visible=lambda _, access: access is not None
    )

    async with open_client(server) as client:
        assert await uris(client) == [PDF]
        for method, uri in (
            ("skills/get", "skill://internal/SKILL.md"),
            ("resources/directory/read", "skill://internal"),
            ("resources/directory/read", "skill://internal/a"),
            ("resources/read", "skill://internal/a/b.txt"),
        ):
            with pytest.raises(ErrorResponse, match="no "):
                await ask(client, method, uri=uri)


async def test_a_predicate_of_the_server_decides_on_the_files_of_skills_too(tmp_path: Path) -> None:
    server = Server("docs", visible=lambda entry, _: not isinstance(entry, types.Resource) or entry.uri != LOGO)
    server.skills.add_directory(write_pdf_skill(tmp_path), cache=CacheHint(ttl=60))

    async with open_client(server) as client:
        listed = await ask(client, "skills/list")
        children = (await ask(client, "resources/directory/read", uri="skill://pdf-processing"))["resources"]

    assert [each["uri"] for each in children] == [PDF, "skill://pdf-processing/references"]
    assert (listed["ttlMs"], listed["cacheScope"]) == (60_000, "private")


def test_scopes_are_needed_for_the_files_and_not_for_the_entries(tmp_path: Path) -> None:
    server = Server("docs")
    server.skills.add_directory(write_pdf_skill(tmp_path), scopes=["docs:read"])

    assert server.needed_scopes("resources/read", {"uri": FORMS}, None) == {"docs:read"}
    assert server.needed_scopes("skills/list", {}, None) == frozenset()


async def test_hints_hold_for_entries_and_files_and_a_page_has_those_of_its_strictest_entry(tmp_path: Path) -> None:
    server = Server("docs", page_size=2)
    minute, hour = CacheHint(ttl=60, scope="public"), CacheHint(ttl=3600, scope="public")
    server.skills.add_directory(write_skill(tmp_path, "a"), cache=minute)
    server.skills.add_directory(write_skill(tmp_path, "b"), cache=hour)
    server.skills.add_directory(write_skill(tmp_path, "c"), cache=CacheHint(ttl=60))
    server.skills.add_directory(write_skill(tmp_path, "d"), cache=hour)

    async with open_client(server) as client:
        first = await ask(client, "skills/list")
        second = await ask(client, "skills/list", cursor=first["nextCursor"])
        one = await ask(client, "skills/get", uri="skill://b/SKILL.md")
        file = await client.read_resource("skill://b/SKILL.md")

    assert (first["ttlMs"], first["cacheScope"]) == (60_000, "public")
    assert (second["ttlMs"], second["cacheScope"]) == (60_000, "private")
    assert (one["ttlMs"], one["cacheScope"]) == (3_600_000, "public")
    assert (file.ttl_ms, file.cache_scope) == (3_600_000, "public")


# --- Changes ---


async def test_what_changes_on_the_disk_is_served_after_a_refresh_and_not_before(tmp_path: Path) -> None:
    server = Server("docs")
    folder = write_pdf_skill(tmp_path)
    server.skills.add_directory(tmp_path)

    async with open_memory_client(server) as client:
        before = await client.skill(PDF)
        write_file(folder / "references" / "FORMS.md", "New forms.\n")
        write_skill(tmp_path, "another")
        assert await before.read("references/FORMS.md") == FORMS_TEXT
        assert await uris(client) == [PDF]

        await server.skills.refresh()
        after = await client.skill(PDF)

        assert await after.read("references/FORMS.md") == "New forms.\n"
        assert after.digest != before.digest
        assert await uris(client) == [PDF, "skill://another/SKILL.md"]


async def test_clients_that_listen_are_told_of_changed_files_and_of_changed_skills(tmp_path: Path) -> None:
    server = Server("docs")
    folder = write_pdf_skill(tmp_path)
    server.skills.add_directory(tmp_path)

    async with (
        open_client(server) as client,
        client.listen(resource_list=True, resources=[PDF, FORMS, LOGO]) as changes,
    ):
        write_file(folder / "references" / "FORMS.md", "New forms.\n")
        (folder / "logo.png").unlink()
        await server.skills.refresh()
        told = [await anext(changes) for _ in range(3)]

    assert set(told) == {ListChanged("resources"), ResourceUpdated(FORMS), ResourceUpdated(LOGO)}


async def test_a_refresh_without_changes_tells_nobody(tmp_path: Path) -> None:
    server = Server("docs")
    server.resources.add_static("docs://end", "", name="end")
    server.skills.add_directory(write_pdf_skill(tmp_path))

    async with (
        open_client(server) as client,
        client.listen(resource_list=True, resources=[PDF, "docs://end"]) as changes,
    ):
        await server.skills.refresh()
        server.resource_updated("docs://end")
        assert await anext(changes) == ResourceUpdated("docs://end")


async def test_a_refresh_that_finds_a_fault_changes_nothing(tmp_path: Path) -> None:
    server = Server("docs")
    first, second = write_skill(tmp_path, "a", note_txt="old"), write_skill(tmp_path, "b")
    server.skills.add_directory(first)
    server.skills.add_directory(second)
    write_file(first / "note.txt", "new")
    write_file(second / "SKILL.md", "no frontmatter")

    with pytest.raises(ValueError, match=r"b/SKILL\.md:1: expected frontmatter"):
        await server.skills.refresh()
    async with open_client(server) as client:
        skill = await client.skill("skill://a/SKILL.md")
        assert await skill.read("note.txt") == "old"


async def test_a_refresh_refuses_a_file_that_two_folders_have_or_that_is_a_resource_already(tmp_path: Path) -> None:
    server = Server("docs")
    for folder in ("x", "y"):
        write_skill(tmp_path / folder, folder)
        server.skills.add_directory(tmp_path / folder)
    server.resources.add_static("skill://taken/SKILL.md", "text", name="taken")

    write_skill(tmp_path / "x", "twice")
    write_skill(tmp_path / "y", "twice")
    with pytest.raises(
        ValueError, match=r"y: another folder has 'skill://twice/SKILL\.md' too; add one of them with p"
    ):
        await server.skills.refresh()
    shutil.rmtree(tmp_path / "y" / "twice")
    write_skill(tmp_path / "y", "taken")
    with pytest.raises(ValueError, match=r"a resource 'skill://taken/SKILL\.md' is registered already"):
        await server.skills.refresh()

    assert [skill.uri for skill in server.skills] == ["skill://x/SKILL.md", "skill://y/SKILL.md"]


async def test_a_skill_that_moves_to_another_folder_gets_the_options_of_that_folder(tmp_path: Path) -> None:
    server = Server("docs")
    for folder, scope in (("x", "of-x"), ("y", "of-y")):
        write_skill(tmp_path / folder, folder)
        server.skills.add_directory(tmp_path / folder, scopes=[scope])
    write_skill(tmp_path / "y", "moving")
    await server.skills.refresh()
    assert server.needed_scopes("resources/read", {"uri": "skill://moving/SKILL.md"}, None) == {"of-y"}

    shutil.move(tmp_path / "y" / "moving", tmp_path / "x" / "moving")
    await server.skills.refresh()

    assert server.needed_scopes("resources/read", {"uri": "skill://moving/SKILL.md"}, None) == {"of-x"}
    assert len(server.skills) == 3


async def test_a_folder_that_is_removed_is_not_served_and_not_refreshed(tmp_path: Path) -> None:
    server = Server("docs")
    folder = write_pdf_skill(tmp_path)
    server.skills.add_directory(folder)
    server.skills.remove_directory(folder)
    shutil.rmtree(folder)
    await server.skills.refresh()

    assert [*server.skills] == []
    with pytest.raises(KeyError, match="this folder was not added"):
        server.skills.remove_directory(folder)
    async with open_client(server) as client:
        assert await uris(client) == []
        with pytest.raises(ErrorResponse):
            await client.read_resource(PDF)
        server.skills.add_directory(write_pdf_skill(tmp_path))
        assert await uris(client) == [PDF]


async def test_a_folder_that_is_removed_during_a_refresh_stays_removed(tmp_path: Path) -> None:
    server = Server("docs")
    folder = write_pdf_skill(tmp_path)
    server.skills.add_directory(folder)

    async with open_client(server), trio.open_nursery() as nursery:
        nursery.start_soon(server.skills.refresh)
        await trio.lowlevel.checkpoint()  # it waits for the disk now
        server.skills.remove_directory(folder)

    assert [*server.skills] == []
