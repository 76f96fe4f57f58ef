"""Skills between FastMCP and this package, in both directions. FastMCP has them in modern revisions only."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.peers.conftest import HERE, TIMEOUT
from trio_mcp import ErrorResponse, SkillChanged, open_client

SKILL_FILE = """---
name: forms
description: Fill in forms
license: MIT
metadata: {version: "1.0", draft: yes, pages: [1, 2.5, null], octal: 010}
---

Read references/all.md.
"""
FILES = {"SKILL.md": SKILL_FILE.encode(), "references/all.md": "ä\r\n".encode(), "logo.png": b"\x89PNG\x00\xff"}
URI = "skill://acme/forms/SKILL.md"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two skills, one of them in a folder of its own."""
    for path, data in FILES.items():
        place = tmp_path / "acme" / "forms" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "SKILL.md").write_text("---\nname: other\ndescription: Something else\n---\n")
    return tmp_path


@pytest.fixture
def python(homes: Path) -> str:
    """The Python in which FastMCP is installed."""
    return str(homes / "fastmcp" / "bin" / "python")


def program(name: str) -> str:
    return str(HERE / "python" / name)


def test_a_fastmcp_client_lists_gets_and_verifies_our_skills(python: str, folder: Path) -> None:
    ours = f"from trio_mcp import Server\ns = Server('s')\ns.skills.add_directory({str(folder)!r})\ns.run()"
    text = SKILL_FILE.replace("draft: yes", "draft: true").replace("octal: 010", "octal: 8")  # as both versions of YAML
    (folder / "acme" / "forms" / "SKILL.md").write_text(text)
    command = json.dumps([sys.executable, "-W", "error", "-c", ours])

    line = [python, program("fastmcp_skills_client.py"), command]
    done = subprocess.run(line, capture_output=True, check=False, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr.decode()
    seen: Any = json.loads(done.stdout)

    metadata = {"version": "1.0", "draft": True, "pages": [1, 2.5, None], "octal": 8}
    entry = {"name": "forms", "description": "Fill in forms", "license": "MIT", "metadata": metadata}
    assert seen["listed"] == {
        URI: entry,
        "skill://other/SKILL.md": {"name": "other", "description": "Something else"},
    }
    assert seen["entry"] == entry
    read = {path: data.encode("latin-1") for path, data in seen["read"].items()}
    assert read == {**FILES, "SKILL.md": text.encode()}


async def test_our_client_lists_verifies_and_saves_the_skills_of_fastmcp(
    python: str, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    into = tmp_path_factory.mktemp("saved")
    with trio.fail_after(TIMEOUT):
        async with open_client([python, program("fastmcp_skills_server.py"), str(folder)]) as client:
            found = {skill.uri: skill async for skill in client.skills(server="fastmcp")}
            assert [*sorted(found)] == [URI, "skill://other/SKILL.md"]
            assert found[URI].frontmatter["metadata"] == {
                "version": "1.0",
                "draft": True,
                "pages": [1, 2.5, None],
                "octal": 8,
            }  # by YAML 1.1
            skill = await client.skill(URI)
            assert {path: await skill.read_bytes(path) for path in skill.files} == FILES
            saved = await skill.save(into)
            with pytest.raises(SkillChanged, match="is not a file of the skill"):
                await skill.read("references/other.md")
            with pytest.raises(ErrorResponse):
                await client.skill("skill://gone/SKILL.md")

    assert {str(path.relative_to(saved)): path.read_bytes() for path in saved.rglob("*") if path.is_file()} == FILES
