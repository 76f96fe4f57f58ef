"""The skills extension over every transport, in every revision.

Specification: https://modelcontextprotocol.io/extensions/skills/overview
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from tests.interaction.openers import Opener
from tests.skills.folders import FORMS, FORMS_TEXT, PDF, PDF_TEXT, pdf_entry, resource, write_pdf_skill
from trio_mcp import Client, Server, types
from trio_mcp.skills.types import EXTENSION

LOGO, LOGO_BYTES = "skill://pdf-processing/logo.png", b"\x89PNG\x00\xff"
MODERN = "2026-07-28"
HINT = {"ttlMs": 0, "cacheScope": "private"}


async def ask(client: Client, method: str, **params: Any) -> dict[str, Any]:
    """Return the result of a request, without what every result has."""
    result = await client.request(method, params, dict[str, Any])
    return {name: value for name, value in result.items() if name not in {"_meta", "resultType"}}


@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_clients_of_every_revision_list_skills_get_one_and_read_its_files(
    tmp_path: Path, opener: Opener, revision: str
) -> None:
    server = Server("docs")
    server.skills.add_directory(write_pdf_skill(tmp_path))
    files = [resource(PDF, PDF_TEXT), resource(LOGO, LOGO_BYTES), resource(FORMS, FORMS_TEXT)]
    entry = pdf_entry(resources=files)
    hint = HINT if revision == MODERN else {}

    async with opener(server, revision=revision) as client:
        assert (client.server_capabilities.extensions or {})[EXTENSION] == {"directoryRead": True}
        assert client.server_capabilities.resources is not None
        assert await ask(client, "skills/list") == {"skills": [entry], **hint}
        assert await ask(client, "skills/get", uri=PDF) == {"skill": entry, **hint}
        (text,) = (await client.read_resource(PDF)).contents
        (blob,) = (await client.read_resource(LOGO)).contents

    assert text == types.TextResourceContents(uri=PDF, mime_type="text/markdown", text=PDF_TEXT)
    encoded = base64.b64encode(LOGO_BYTES).decode()
    assert blob == types.BlobResourceContents(uri=LOGO, mime_type="image/png", blob=encoded)
