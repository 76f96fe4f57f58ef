"""Tests of resources that no server behind a gateway has."""

from __future__ import annotations

import pytest

from trio_mcp import ErrorResponse, open_client
from trio_mcp.gateway import Gateway


@pytest.mark.parametrize(("revision", "code"), [("2025-11-25", -32002), ("2026-07-28", -32602)])
async def test_an_unknown_resource_is_refused_with_the_code_of_the_revision(revision: str, code: int) -> None:
    async with open_client(Gateway("gateway"), revision=revision) as client:
        with pytest.raises(ErrorResponse) as refused:
            await client.read_resource("nowhere://1")

    assert (refused.value.code, refused.value.data) == (code, {"uri": "nowhere://1"})
