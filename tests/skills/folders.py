"""Folders of skills for tests, and servers whose entries say what a test wants."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from trio_mcp import Server
from trio_mcp.skills.types import EXTENSION

PDF = "skill://pdf-processing/SKILL.md"
PDF_TEXT = "---\nname: pdf-processing\ndescription: Fill and merge PDF files\n---\n\nFirst read references/FORMS.md.\n"
FORMS = "skill://pdf-processing/references/FORMS.md"
FORMS_TEXT = "All about forms.\n"


def write_file(path: Path, data: str | bytes) -> Path:
    """Write a file and the folders above it; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def write_skill(folder: Path, name: str, *, more: str = "", **files: str | bytes) -> Path:
    """Write a skill below *folder*; return its folder.

    Args:
        name: the name of the skill, after those of folders around it: ``acme/refunds``.
        more: more lines of the frontmatter.
        files: more files by name; ``__`` stands for a slash, and ``_`` before the suffix for the dot.
    """
    path = folder / name
    write_file(path / "SKILL.md", f"---\nname: {path.name}\ndescription: About {path.name}\n{more}---\n\nBody.\n")
    for each, data in files.items():
        stem, _, suffix = each.replace("__", "/").rpartition("_")
        write_file(path / f"{stem}.{suffix}", data)
    return path


def write_pdf_skill(folder: Path) -> Path:
    """Write the skill that the examples of the specification use; return its folder."""
    write_file(folder / "pdf-processing" / "SKILL.md", PDF_TEXT)
    write_file(folder / "pdf-processing" / "references" / "FORMS.md", FORMS_TEXT)
    write_file(folder / "pdf-processing" / "logo.png", b"\x89PNG\x00\xff")
    return folder / "pdf-processing"


def names_in(folder: Path) -> list[str]:
    """Return the names of what is in a folder, sorted."""
    return sorted(path.name for path in folder.iterdir())


def resource(uri: str, data: str | bytes) -> dict[str, Any]:
    """Return the entry of a file as an honest server has it."""
    raw = data if isinstance(data, bytes) else data.encode()
    return {"uri": uri, "digest": f"sha256:{hashlib.sha256(raw).hexdigest()}", "size": len(raw)}


def pdf_entry(**changes: Any) -> dict[str, Any]:
    """Return the entry of a skill with two files, and other values for some members."""
    return {
        "uri": PDF,
        "frontmatter": {"name": "pdf-processing", "description": "Fill and merge PDF files"},
        "resources": [resource(PDF, PDF_TEXT), resource(FORMS, FORMS_TEXT)],
        **changes,
    }


UNCACHED = {"ttlMs": 0, "cacheScope": "private"}
"""The cache hint that every result of 2026-07-28 has."""


def serve_entries(*entries: dict[str, Any], files: dict[str, Any] | None = None) -> tuple[Server, list[str]]:
    """Return a server that has these entries and files, whatever they are, and the URIs of the files that are read.

    Args:
        files: what is served at each URI, looked up at each read; by default the files of `pdf_entry`.
    """
    server, reads = Server("docs", extensions={EXTENSION: {}}), list[str]()
    served = {PDF: PDF_TEXT, FORMS: FORMS_TEXT} if files is None else files

    @server.method("skills/list")
    async def list_skills(_: dict[str, Any]) -> dict[str, Any]:
        return {"skills": [*entries], **UNCACHED}

    @server.method("skills/get")
    async def get_skill(params: dict[str, Any]) -> dict[str, Any]:
        return {"skill": next(each for each in entries if params["uri"] in {each["uri"], "skill://any"}), **UNCACHED}

    def add(uri: str) -> None:
        @server.resource(uri)
        async def read() -> Any:
            reads.append(uri)
            return served[uri]

    for uri in served:
        add(uri)
    return server, reads
