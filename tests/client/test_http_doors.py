"""The doors that lead to a URL, over real sockets, and what they refuse."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
import trio
from trio.testing import MockClock

from tests.client.http_origin import Answer, Got, HttpOrigin, modern, served
from trio_mcp import (
    Bearer,
    ConnectionClosed,
    Server,
    http_app,
    open_client,
    open_clients,
    open_http_client,
    start_client,
    start_http_client,
    types,
)
from trio_mcp.testing import AsgiEngine


def saying_who(got: Got) -> Answer:
    """Answer a call with a header field that came with it."""
    return modern(content=[{"type": "text", "text": got.headers.get("x-who", "nobody")}])


@asynccontextmanager
async def reachable() -> AsyncGenerator[tuple[str, HttpOrigin]]:
    origin = HttpOrigin(replies={"tools/call": saying_who})
    async with served(origin) as url:
        yield url, origin


async def who(client: Any) -> str:
    (block,) = (await client.call_tool("who")).content
    assert isinstance(block, types.TextContent)
    return block.text


async def test_a_string_is_a_url() -> None:
    async with reachable() as (url, _), open_client(url) as client:
        assert await who(client) == "nobody"


async def test_header_fields_of_the_caller_s_go_with_each_request() -> None:
    async with reachable() as (url, origin):
        async with open_http_client(url, headers={"X-Who": "me"}) as client:
            assert await who(client) == "me"
        assert {got.headers["x-who"] for got in origin.got} == {"me"}


async def test_a_configured_client_carries_the_requests_and_stays_open() -> None:
    async with reachable() as (url, _), httpx2.AsyncClient(headers={"X-Who": "configured"}) as http_client:
        for _ in range(2):
            async with open_http_client(url, http_client=http_client) as client:
                assert await who(client) == "configured"
        assert not http_client.is_closed


async def test_clients_in_a_nursery_are_closed_in_any_order() -> None:
    async with reachable() as (url, _), trio.open_nursery() as nursery:
        first = await start_client(nursery, url)
        second = await start_http_client(nursery, url, headers={"X-Who": "second"})
        assert await who(second) == "second"
        await first.aclose()
        assert await who(second) == "second"
        with pytest.raises(ConnectionClosed):
            await who(first)
        await second.aclose()


async def test_an_entry_of_a_table_may_be_a_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHO", "from a table")

    async with reachable() as (url, _):
        entry = {"type": "http", "url": url, "headers": {"X-Who": "${WHO}"}}
        async with open_client(entry) as client:
            assert await who(client) == "from a table"
        async with open_clients({"mcpServers": {"far": entry}}) as clients:
            assert await who(clients["far"]) == "from a table"


async def test_each_of_many_servers_gets_its_own_credentials() -> None:
    def saying_token(got: Got) -> Answer:
        return modern(content=[{"type": "text", "text": got.headers.get("authorization", "none")}])

    async with served(HttpOrigin(replies={"tools/call": saying_token})) as url:
        entries = {"far": {"url": url}, "open": {"url": url}, "here": {"command": "true"}}
        auths = {"far": Bearer("t1"), "here": Bearer("t2")}
        async with open_clients({"mcpServers": entries}, auth_for=auths.get) as clients:
            assert await who(clients["far"]) == "Bearer t1"
            assert await who(clients["open"]) == "none"

            assert "only a server with a 'url' accepts credentials" in str(clients.failed["here"])


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("ftp://example.org/mcp", "'ftp://example.org/mcp' .* http"),
        ("http://", "'http://' .* no host"),
        ("npx", "'npx' is not a URL; pass a command as a list"),
        ("https://me:secret@example.org/mcp", "'example.org' holds a user name or a password"),
    ],
)
async def test_a_string_that_is_not_a_url_is_rejected(target: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as refused:
        async with open_client(target):
            raise AssertionError
    assert "secret" not in str(refused.value)


async def test_the_explicit_openers_reject_it_too() -> None:
    with pytest.raises(ValueError, match="ftp"):
        async with open_http_client("ftp://example.org/mcp"):
            raise AssertionError
    async with trio.open_nursery() as nursery:
        with pytest.raises(ValueError, match="X-A"):
            await start_http_client(nursery, "http://example.org/mcp", headers={"X-A": "b\r\nX-C: d"})


async def test_a_client_closes_although_its_engine_fails_at_the_end(autojump_clock: MockClock) -> None:
    class Breaking(AsgiEngine):
        def request(self, method: str, *arguments: Any, **options: Any) -> Any:
            if method == "DELETE":
                raise ZeroDivisionError
            return super().request(method, *arguments, **options)

    engine = Breaking(http_app(Server("x")))
    async with engine.lifespan():
        with trio.fail_after(60), pytest.raises(ExceptionGroup) as broken:
            async with open_http_client("http://localhost/mcp", engine=engine, revision="2025-11-25"):
                pass

    assert broken.group_contains(ZeroDivisionError)
