"""The registry itself, and the refusals that need no handler."""

from __future__ import annotations

import pytest
import trio

from trio_mcp import Context, ErrorResponse, Limits, Server, open_client, types


@pytest.mark.parametrize("revisions", [[], ["2026-07-28", "1999-01-01"]])
def test_a_server_speaks_known_revisions_and_at_least_one(revisions: list[str]) -> None:
    with pytest.raises(ValueError, match="at least one of"):
        Server("s", revisions=revisions)


def test_revisions_are_kept_in_order_whatever_order_they_were_given_in() -> None:
    assert Server("s", revisions=["2026-07-28", "2024-11-05"]).revisions == ("2024-11-05", "2026-07-28")


async def test_what_a_server_says_about_itself_reaches_the_client() -> None:
    server = Server(
        "s",
        version="1",
        title="The S",
        description="a server",
        website_url="https://example.com",
        icons=[types.Icon(src="https://example.com/i.png")],
        instructions="use it",
    )
    server.tool(name="t")(lambda: None)

    for revision in ("2025-11-25", "2026-07-28"):
        async with open_client(server, revision=revision) as client:
            assert client.server_info == server.info
            assert client.instructions == "use it"
            assert client.server_capabilities == types.ServerCapabilities(logging={}, tools=types.ToolsCapability())


@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_a_feature_that_nothing_is_registered_for_is_not_there(revision: str) -> None:
    async with open_client(Server("s"), revision=revision) as client:
        for attempt in (client.list_tools, client.list_resources, client.list_prompts):
            with pytest.raises(ErrorResponse, match="has no method") as caught:
                await attempt()
            assert caught.value.code == -32601


async def test_a_cursor_that_was_never_given_out_is_refused() -> None:
    server = Server("s")
    server.tool(name="t")(lambda: None)

    async with open_client(server) as client:
        with pytest.raises(ErrorResponse, match="'nonsense' is no cursor") as caught:
            await client.list_tools("nonsense")

    assert caught.value.code == -32602


async def test_params_that_do_not_fit_are_refused_with_every_fault() -> None:
    server = Server("s")
    server.tool(name="t")(lambda: None)

    async with open_client(server) as client:
        with pytest.raises(ErrorResponse, match=r"\$\.arguments: expected object") as caught:
            await client.request("tools/call", {"name": 3, "arguments": []}, types.CallToolResult)

    assert caught.value.code == -32602
    assert "$.name: expected string" in caught.value.message


async def test_statistics_count_handlers_and_threads() -> None:
    server = Server("s", limits=Limits(max_threads=3))

    @server.tool
    async def look(ctx: Context) -> None:
        await trio.lowlevel.checkpoint()

    async with server.serving() as serving:
        statistics = serving.statistics()

    assert (statistics.running, statistics.threads) == (0, 0)


async def test_a_notification_that_means_nothing_to_a_server_changes_nothing() -> None:
    server = Server("s")

    async with open_client(server, revision="2025-11-25", roots=[]) as client:
        await client.roots_changed()
        await client.ping()
