"""Openers of clients by URL, over real sockets, and the arguments that they refuse."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
import trio
from trio.testing import MockClock

from tests.client.http_origin import Answer, HttpOrigin, ReceivedRequest, modern, served
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


def reply_with_x_who(request: ReceivedRequest) -> Answer:
    """Answer a call with the value of its header field `x-who`."""
    return modern(content=[{"type": "text", "text": request.headers.get("x-who", "unknown")}])


@asynccontextmanager
async def reachable() -> AsyncGenerator[tuple[str, HttpOrigin]]:
    origin = HttpOrigin(replies={"tools/call": reply_with_x_who})
    async with served(origin) as url:
        yield url, origin


async def who(client: Any) -> str:
    (block,) = (await client.call_tool("who")).content
    assert isinstance(block, types.TextContent)
    return block.text


async def test_a_string_is_a_url_target() -> None:
    async with reachable() as (url, _), open_client(url) as client:
        assert await who(client) == "unknown"


async def test_header_fields_of_the_caller_are_sent_with_each_request() -> None:
    async with reachable() as (url, origin):
        async with open_http_client(url, headers={"X-Who": "me"}) as client:
            assert await who(client) == "me"
        assert {request.headers["x-who"] for request in origin.received} == {"me"}


async def test_a_given_http_client_sends_the_requests_and_stays_open() -> None:
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


async def test_an_entry_of_a_table_may_have_a_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHO", "from a table")

    async with reachable() as (url, _):
        entry = {"type": "http", "url": url, "headers": {"X-Who": "${WHO}"}}
        async with open_client(entry) as client:
            assert await who(client) == "from a table"
        async with open_clients({"mcpServers": {"far": entry}}) as clients:
            assert await who(clients["far"]) == "from a table"


async def test_each_of_many_servers_gets_its_own_credentials() -> None:
    def reply_with_token(request: ReceivedRequest) -> Answer:
        return modern(content=[{"type": "text", "text": request.headers.get("authorization", "none")}])

    async with served(HttpOrigin(replies={"tools/call": reply_with_token})) as url:
        entries = {"far": {"url": url}, "open": {"url": url}, "here": {"command": "true"}}
        auths = {"far": Bearer("t1"), "here": Bearer("t2")}
        async with open_clients({"mcpServers": entries}, auth_for=auths.get) as clients:
            assert await who(clients["far"]) == "Bearer t1"
            assert await who(clients["open"]) == "none"

            assert "only a server with a 'url' accepts credentials" in str(clients.failed["here"])


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("ftp://example.org/mcp", "'ftp://example.org/mcp' .* http"),
        ("http://", "'http://' .* no host"),
        ("npx", "'npx' is not a URL; pass a command as a list"),
        ("https://me:secret@example.org/mcp", "'example.org' holds a user name or a password"),
    ],
)
async def test_a_string_that_is_not_a_url_is_rejected(target: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        async with open_client(target):
            raise AssertionError
    assert "secret" not in str(refused.value)


async def test_http_openers_reject_invalid_urls_and_header_fields() -> None:
    with pytest.raises(ValueError, match="ftp"):
        async with open_http_client("ftp://example.org/mcp"):
            raise AssertionError
    async with trio.open_nursery() as nursery:
        with pytest.raises(ValueError, match="X-A"):
            await start_http_client(nursery, "http://example.org/mcp", headers={"X-A": "b\r\nX-C: d"})


async def test_a_client_closes_even_if_its_engine_fails_to_delete_the_session(autojump_clock: MockClock) -> None:
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
