"""Tests of requests that neither a gateway nor its servers know."""

from __future__ import annotations

from typing import Any

import pytest

from trio_mcp import ErrorResponse, open_client
from trio_mcp.gateway import Gateway


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("method", ["acme/unknown", "tasks/dance"])
async def test_a_method_that_nobody_knows_is_refused(revision: str, method: str) -> None:
    async with open_client(Gateway("gateway"), revision=revision) as client:
        with pytest.raises(ErrorResponse) as refused:
            await client.request(method, None, dict[str, Any])

    assert (refused.value.code, refused.value.message) == (
        -32601,
        f"this server has no method {method!r} in revision {revision}",
    )
