"""A configured client that speaks HTTP/2: single requests work; see `http2_engine` for what does not."""

from __future__ import annotations

import httpx2
import pytest
import trio

from tests.interaction.conversation_server import make_server
from tests.interaction.over_http import served_at_socket
from trio_mcp import open_http_client, types


@pytest.mark.parametrize("revision", types.REVISIONS[1:])
async def test_a_configured_client_may_speak_http2(revision: str) -> None:
    versions: set[str] = set()

    async def note(response: httpx2.Response) -> None:
        versions.add(response.http_version)
        await trio.lowlevel.checkpoint()

    with trio.fail_after(30):
        async with (
            served_at_socket(make_server()) as bound,
            httpx2.AsyncClient(http1=False, http2=True, event_hooks={"response": [note]}) as http_client,
            open_http_client(bound.url, http_client=http_client, revision=revision) as client,
        ):
            for number in range(3):
                added = await client.call_tool("add", {"a": number, "b": 1}, raise_on_error=True)
                assert added.content == [types.TextContent(text=str(number + 1))]

    assert versions == {"HTTP/2"}
