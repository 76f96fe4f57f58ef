"""The skills server example: its folder of skills, and a change of it while the server runs."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import trio

from trio_mcp import open_client
from trio_mcp.skills import ClientSkill

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTES, ENGLISH = "skill://release-notes/SKILL.md", "skill://writing/plain-english/SKILL.md"
TIMEOUT = 60  # seconds for the whole conversation


def copy_of_example(folder: Path) -> list[str]:
    """Copy the server and its skills; return the command of the copy."""
    shutil.copy(EXAMPLES / "skills_server.py", folder)
    shutil.copytree(EXAMPLES / "skills", folder / "skills")
    return [sys.executable, "-W", "error", str(folder / "skills_server.py")]


async def test_skills_are_read_and_changed_while_the_server_runs(tmp_path: Path) -> None:
    command = copy_of_example(tmp_path)
    file = tmp_path / "skills" / "release-notes" / "SKILL.md"
    with trio.fail_after(TIMEOUT):
        async with open_client(command) as client:
            skills: dict[str, ClientSkill] = {skill.uri: skill async for skill in client.skills()}
            assert [*skills] == [NOTES, ENGLISH]
            assert [*skills[NOTES].files] == ["SKILL.md", "references/SECTIONS.md"]
            assert "**Added**" in await skills[NOTES].read("references/SECTIONS.md")

            file.write_text(file.read_text().replace("# Release notes", "# Notes"))
            assert await client.call_tool("refresh_skills", returns=str) == "2 skills"
            assert "# Notes\n" in await (await client.skill(NOTES)).read()

            file.write_text("no frontmatter")
            refused = await client.call_tool("refresh_skills", returns=str)
            assert refused.startswith("not changed: ")
            assert refused.endswith("SKILL.md:1: expected frontmatter: the first line must be ---")
            assert "# Notes\n" in await (await client.skill(NOTES)).read()
