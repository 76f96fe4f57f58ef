"""A client requests cacheable results once over every transport; it caches no result of a legacy server."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Unpack

import pytest

from tests.interaction import caching_server
from tests.interaction.caching_server import MEMO
from tests.interaction.conftest import connected
from tests.interaction.openers import Opener
from trio_mcp import Change, Client, ClientOptions, ListChanged, ResourceUpdated, types

MODERN = types.REVISIONS[-1]


class Requests(Counter[str]):
    """A tap that counts the requests that a client sends."""

    def __call__(self, direction: str, message: bytes) -> None:
        sent = json.loads(message)
        if direction == "sent" and "method" in sent and "id" in sent:
            self[sent["method"]] += 1


@pytest.fixture
def opened(transport: str, revision: str, tmp_path: Path) -> Opener:
    """Return an opener of clients of the caching server, each with its own serving."""

    def opener(**options: Unpack[ClientOptions]) -> AbstractAsyncContextManager[Client]:
        program = [str(caching_server.__file__)]
        options.setdefault("revision", revision)
        return connected(transport, caching_server.make_server, program, tmp_path, options)

    return opener


async def text(client: Client) -> str:
    (contents,) = (await client.read_resource(MEMO)).contents
    assert isinstance(contents, types.TextResourceContents)
    return contents.text


@pytest.mark.requirement("B.17-C4a")
async def test_a_cacheable_result_is_requested_once(opened: Opener, revision: str) -> None:
    requests = Requests()
    async with opened(tap=requests) as client:
        for _ in range(3):
            assert [tool.name async for tool in client.tools()] == ["change", "nothing"]
            assert [prompt.name async for prompt in client.prompts()] == ["prompt-1"]
            assert [resource.uri async for resource in client.resources()] == [MEMO]
            assert [template async for template in client.resource_templates()] == []
            assert await text(client) == "first"
    pages = 1 if revision == MODERN else 3
    assert requests["tools/list"] == 2 * pages
    assert requests["prompts/list"] == requests["resources/list"] == requests["resources/read"] == pages
    assert requests["resources/templates/list"] == 3  # these results carry no cache hints


@pytest.mark.requirement("B.17-C5")
async def test_a_listening_client_never_returns_a_result_from_before_a_change(opened: Opener) -> None:
    async with opened() as client, client.listen(prompts=True, resources=[MEMO]) as changes:
        for number in range(1, 5):
            for _ in range(2):
                assert await text(client) == ("first" if number == 1 else f"number {number - 1}")
                names = [f"prompt-{each}" for each in range(1, number + 1)]
                assert [prompt.name async for prompt in client.prompts()] == names
            await client.call_tool("change")
            received: set[Change] = {await anext(changes), await anext(changes)}
            assert received == {ListChanged("prompts"), ResourceUpdated(MEMO)}


async def test_a_client_that_does_not_listen_can_request_a_fresh_result(opened: Opener, revision: str) -> None:
    async with opened() as client:
        assert await text(client) == "first"
        await client.call_tool("change")
        assert await text(client) == ("first" if revision == MODERN else "number 1")
        await client.read_resource(MEMO, fresh=True)
        assert await text(client) == "number 1"


async def test_without_a_cache_the_client_requests_everything(opened: Opener) -> None:
    requests = Requests()
    async with opened(tap=requests, cache=False) as client:
        for _ in range(3):
            assert [tool.name async for tool in client.tools()] == ["change", "nothing"]
    assert requests["tools/list"] == 6
