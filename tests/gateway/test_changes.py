"""Changes of the servers behind a gateway: merged lists, and resources that callers listen to."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from tests.gateway.helpers import (
    LEGACY,
    MODERN,
    Way,
    client_of,
    front,
    in_all_eras,
    in_processes_too,
    names,
    opened,
    server_of,
    through,
    uris,
)
from tests.gateway.upstream_server import make_server
from trio_mcp import ChangeFilter, ErrorResponse, ListChanged, MissingCapability, ResourceUpdated, Server, types

EVERYTHING: dict[str, Any] = {"tools": True, "prompts": True, "resource_list": True}


async def said() -> str:
    return "said"


def learn(server: Server, name: str) -> None:
    server.tool(name=name)(said)


# Lists.


@in_processes_too
async def test_a_change_of_a_list_is_told_and_the_new_entry_is_listed(way: Way) -> None:
    async with through(way) as client:
        assert "extra" not in await names(client)
        async with client.listen(**EVERYTHING) as changes:
            await client.call_tool("learn", {"name": "extra"})
            await anext(changes)
            while "extra" not in await names(client):  # over HTTP changes from before are told late
                await anext(changes)
            while "new://extra" not in await uris(client):
                await anext(changes)
            while "extra" not in [each.name async for each in client.prompts()]:
                await anext(changes)


@in_all_eras
async def test_a_change_is_told_once(way: Way) -> None:
    server = make_server(way.upstream)
    async with opened(front(server), way) as client:
        await names(client)
        async with client.listen(**EVERYTHING) as changes:
            learn(server, "extra")
            assert await anext(changes) == ListChanged("tools")
            await trio.testing.wait_all_tasks_blocked()
            learn(server, "another")
            assert await anext(changes) == ListChanged("tools")
            await trio.testing.wait_all_tasks_blocked()
            with trio.move_on_after(0.05) as scope:
                await anext(changes)
            assert scope.cancelled_caught
            assert {"extra", "another"} <= set(await names(client))


@in_all_eras
async def test_changes_of_two_servers_are_told_to_two_listeners(way: Way) -> None:
    first, second = server_of(way.upstream, "first"), server_of(way.upstream, "second")
    for server in (first, second):
        learn(server, f"of_{server.info.name}")
    async with (
        front(first, second).serving() as serving,
        client_of(serving, way) as one,
        client_of(serving, way) as other,
    ):
        assert await names(one) == await names(other) == ["of_first", "of_second"]
        async with one.listen(tools=True) as for_one, other.listen(tools=True) as for_other:
            learn(first, "new_of_first")
            assert [await anext(for_one), await anext(for_other)] == [ListChanged("tools")] * 2
            learn(second, "new_of_second")
            assert [await anext(for_one), await anext(for_other)] == [ListChanged("tools")] * 2
            second.tools.remove("of_second")
            assert [await anext(for_one), await anext(for_other)] == [ListChanged("tools")] * 2
        assert await names(one) == ["of_first", "new_of_first", "new_of_second"]


@in_all_eras
async def test_what_a_server_lists_anew_without_a_change_is_not_told(way: Way) -> None:
    server = make_server(way.upstream)
    async with opened(front(server), way) as client:
        await names(client)
        async with client.listen(**EVERYTHING) as changes:
            learn(server, "passing")
            server.tools.remove("passing")
            await trio.testing.wait_all_tasks_blocked()
            server.prompt(name="lasting")(said)
            assert await anext(changes) == ListChanged("prompts")


@in_all_eras
async def test_a_change_of_what_the_gateway_itself_has_is_told(way: Way) -> None:
    gateway = front(make_server(way.upstream))
    async with opened(gateway, way) as client:
        await names(client)
        async with client.listen(**EVERYTHING) as changes:
            learn(gateway, "own")
            assert await anext(changes) == ListChanged("tools")
            assert (await names(client))[0] == "own"


class Silent(Server):
    """A server that does not declare that it reports changes."""

    @property
    def capabilities(self) -> types.ServerCapabilities:
        return types.ServerCapabilities(tools=types.ToolsCapability(), resources=types.ResourcesCapability())


@in_all_eras
async def test_the_lists_of_a_server_that_reports_no_changes_are_read_again_after_a_minute(
    way: Way, autojump_clock: trio.testing.MockClock
) -> None:
    server = Silent("silent", revisions=[way.upstream])
    learn(server, "first")
    async with opened(front(server), way) as client:
        assert await names(client) == ["first"]
        learn(server, "second")
        await trio.sleep(30)
        assert await names(client) == ["first"]
        await trio.sleep(31)
        assert await names(client) == ["first", "second"]


# Resources.


@in_processes_too
async def test_a_listener_is_told_of_the_resources_that_it_listens_to(way: Way) -> None:
    async with through(way) as client:
        async with client.listen(resources=["notes://text", "notes://named/x"]) as changes:
            assert changes.honored == ChangeFilter(resources=["notes://text", "notes://named/x"])
            await client.call_tool("touch", {"uri": "notes://bytes"})
            await client.call_tool("touch", {"uri": "notes://named/x"})
            assert await anext(changes) == ResourceUpdated("notes://named/x")
            await client.call_tool("touch", {"uri": "notes://text"})
            assert await anext(changes) == ResourceUpdated("notes://text")
        async with client.listen(resources=["notes://bytes"]) as changes:
            await client.call_tool("touch", {"uri": "notes://text"})
            await client.call_tool("touch", {"uri": "notes://bytes"})
            assert await anext(changes) == ResourceUpdated("notes://bytes")


@in_all_eras
async def test_two_listeners_listen_to_the_same_resource_and_one_stops(way: Way) -> None:
    server = make_server(way.upstream)
    text = "notes://text"
    async with (
        front(server).serving() as serving,
        client_of(serving, way) as one,
        client_of(serving, way) as other,
        one.listen(resources=[text]) as for_one,
    ):
        async with other.listen(resources=[text]) as for_other:
            server.resource_updated(text)
            assert [await anext(for_one), await anext(for_other)] == [ResourceUpdated(text)] * 2
        await trio.testing.wait_all_tasks_blocked()
        server.resource_updated(text)
        assert await anext(for_one) == ResourceUpdated(text)


@in_all_eras
async def test_a_listener_to_resources_of_two_servers_is_told_by_their_uris_in_the_gateway(way: Way) -> None:
    first, second = server_of(way.upstream, "first"), server_of(way.upstream, "second")
    for server in (first, second):
        server.resources.add_static("a://b", server.info.name, name="b")
    async with opened(front(first, second), way) as client:
        assert await uris(client) == ["a://b", "second+a://b"]
        async with client.listen(resources=["a://b", "second+a://b"]) as changes:
            second.resource_updated("a://b")
            assert await anext(changes) == ResourceUpdated("second+a://b")
            first.resource_updated("a://b")
            assert await anext(changes) == ResourceUpdated("a://b")


@in_all_eras
async def test_a_resource_that_no_server_has_is_not_listened_to(way: Way) -> None:
    first, second = make_server(way.upstream, name="first"), make_server(way.upstream, name="second")
    async with opened(front(first, second), way) as client:
        if way.is_modern:
            async with client.listen(resources=["notes://nowhere", "notes://text"]) as changes:
                assert changes.honored == ChangeFilter(resources=["notes://text"])
        else:
            async with client.listen(resources=["notes://text"]) as changes:
                assert changes.honored == ChangeFilter(resources=["notes://text"])


@in_all_eras
async def test_a_server_without_subscriptions_is_not_listened_to(way: Way) -> None:
    server = Silent("silent", revisions=[way.upstream])
    server.resources.add_static("a://b", "x", name="b")
    async with opened(front(server), way) as client:
        try:
            async with client.listen(resources=["a://b"]) as changes:
                honored = changes.honored
        except (ErrorResponse, MissingCapability):
            honored = ChangeFilter()

    assert honored == ChangeFilter()


@pytest.mark.parametrize("way", [Way(MODERN, MODERN), Way(LEGACY, MODERN)], ids=str)
async def test_what_a_server_without_subscriptions_has_does_not_keep_the_others_from_being_listened_to(
    way: Way,
) -> None:
    silent = Silent("silent", revisions=[way.upstream])
    silent.resources.add_static("a://b", "x", name="b")
    server = make_server(way.upstream)
    async with (
        opened(front(silent, server), way) as client,
        client.listen(resources=["a://b", "notes://text"]) as changes,
    ):
        assert changes.honored == ChangeFilter(resources=["notes://text"])
        server.resource_updated("notes://text")
        assert await anext(changes) == ResourceUpdated("notes://text")
