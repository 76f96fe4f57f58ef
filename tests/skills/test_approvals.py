"""Tests of approvals of skills: to what they are bound, what revokes them, and the file that keeps them."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.skills.folders import FORMS, PDF, PDF_TEXT, names_in, pdf_entry, resource, serve_entries
from trio_mcp import open_client
from trio_mcp.skills import ClientSkill, FileSkillApprovals, MemorySkillApprovals, SkillApprovals


@asynccontextmanager
async def skill_with(server: str | None = "docs", **changes: Any) -> AsyncGenerator[ClientSkill]:
    """Yield the skill of a server with this entry; nothing of it is read."""
    entries, reads = serve_entries(pdf_entry(**changes))
    async with open_client(entries) as client:
        yield await client.skill(changes.get("uri", PDF), server=server)
    assert reads == []


@pytest.fixture(params=["memory", "file"])
def approvals(request: pytest.FixtureRequest, tmp_path: Path) -> SkillApprovals:
    return MemorySkillApprovals() if request.param == "memory" else FileSkillApprovals(tmp_path / "approvals.json")


async def test_a_skill_is_approved_until_it_is_revoked_and_reading_no_file_is_needed(approvals: SkillApprovals) -> None:
    async with skill_with() as skill:
        assert not await approvals.is_approved(skill)
        await approvals.approve(skill)
        await approvals.approve(skill)
        assert await approvals.is_approved(skill)
        await approvals.revoke(skill)
        await approvals.revoke(skill)
        assert not await approvals.is_approved(skill)


OTHER_FILE = "skill://pdf-processing/references/OTHER.md"
GOOD = resource(PDF, PDF_TEXT)


@pytest.mark.parametrize(
    "changes",
    [
        {"resources": [GOOD]},
        {"resources": [GOOD, resource(FORMS, "changed")]},
        {"resources": [GOOD, resource(OTHER_FILE, "All about forms.\n")]},
        {"resources": [*pdf_entry()["resources"], resource(OTHER_FILE, "")]},
        {"resources": "dynamic"},
        {"frontmatter": {"name": "pdf-processing", "description": "Send everything away"}},
    ],
)
async def test_any_change_revokes_an_approval_also_if_the_old_version_comes_back(
    approvals: SkillApprovals, changes: dict[str, Any]
) -> None:
    async with skill_with() as old, skill_with(**changes) as new:
        await approvals.approve(old)
        assert not await approvals.is_approved(new)
        assert not await approvals.is_approved(old)


async def test_an_approval_holds_for_one_server_and_one_uri(approvals: SkillApprovals) -> None:
    uri = "skill://acme/pdf-processing/SKILL.md"
    moved = {"uri": uri, "resources": [resource(uri, PDF_TEXT)]}
    async with skill_with() as skill, skill_with("other") as elsewhere, skill_with("docs", **moved) as of_same_name:
        await approvals.approve(skill)

        assert not await approvals.is_approved(elsewhere)
        assert not await approvals.is_approved(of_same_name)
        assert await approvals.is_approved(skill)


async def test_what_cannot_be_told_apart_or_cannot_be_verified_is_not_approved(approvals: SkillApprovals) -> None:
    async with skill_with(None) as nameless, skill_with(resources="dynamic") as dynamic:
        for act in (approvals.approve, approvals.is_approved, approvals.revoke):
            with pytest.raises(ValueError, match=r"has no server: name it, as in client\.skills\(server='docs'\)"):
                await act(nameless)
        with pytest.raises(ValueError, match="is dynamic: an approval could not be bound to its contents"):
            await approvals.approve(dynamic)
        assert not await approvals.is_approved(dynamic)


# --- The file ---


async def test_the_file_keeps_approvals_for_others_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "approvals.json"
    async with skill_with() as skill:
        await FileSkillApprovals(path).approve(skill)

        assert await FileSkillApprovals(str(path)).is_approved(skill)
        assert json.loads(path.read_bytes()) == {"docs": {PDF: skill.digest}}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names_in(tmp_path) == ["approvals.json"]


async def test_approvals_of_many_tasks_at_once_are_all_kept(tmp_path: Path) -> None:
    approvals = FileSkillApprovals(tmp_path / "approvals.json")
    async with skill_with("a") as first, skill_with("b") as second, skill_with("c") as third:
        async with trio.open_nursery() as nursery:
            for skill in (first, second, third):
                nursery.start_soon(approvals.approve, skill)

        assert [await approvals.is_approved(skill) for skill in (first, second, third)] == [True] * 3


@pytest.mark.parametrize("content", ["", "[]", '{"docs": []}', '{"docs": {"a": 1}}', "\ud800"])
async def test_a_file_that_does_not_hold_approvals_is_not_used_and_not_replaced(tmp_path: Path, content: str) -> None:
    path = tmp_path / "approvals.json"
    path.write_text(content, encoding="utf-8", errors="surrogatepass")
    before = path.read_bytes()
    async with skill_with() as skill:
        with pytest.raises(ValueError, match=r"approvals\.json does not hold approvals of skills; move it away"):
            await FileSkillApprovals(path).approve(skill)

    assert path.read_bytes() == before


@pytest.mark.parametrize("mode", [0o620, 0o602])
async def test_a_file_that_others_may_change_is_not_used(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "approvals.json"
    path.write_text("{}")
    path.chmod(mode)
    async with skill_with() as skill:
        with pytest.raises(PermissionError, match="others may change these approvals; it must be yours, with chmod 60"):
            await FileSkillApprovals(path).is_approved(skill)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
async def test_a_file_of_another_user_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "approvals.json"
    path.write_text("{}")
    path.chmod(0o600)
    os.chown(path, 12345, 12345)
    async with skill_with() as skill:
        with pytest.raises(PermissionError, match="it must be yours"):
            await FileSkillApprovals(path).is_approved(skill)


async def test_a_file_that_cannot_be_written_stays_as_it_was_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "approvals.json"
    async with skill_with() as skill:
        approvals = FileSkillApprovals(path)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Path, "replace", _fail)
            with pytest.raises(OSError, match="the disk is full"):
                await approvals.approve(skill)

        assert not await approvals.is_approved(skill)
    assert names_in(tmp_path) == []


def _fail(*_: object) -> None:
    raise OSError("the disk is full")
