"""Early invalidation of cached results: reported changes, ended subscriptions and refused cursors."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from tests.client.counting_server import REQUESTS, CountingServer, Json, cacheable, connected
from trio_mcp import (
    CacheHint,
    ClientOptions,
    ConnectionClosed,
    ConnectionLost,
    ErrorResponse,
    ListChanged,
    ResponseCache,
    Server,
    open_client,
    types,
)
from trio_mcp.client import CacheOption
from trio_mcp.testing import ScriptedPeer, open_scripted_server

LISTS = [method for method in REQUESTS if method.endswith("/list")]
CHANGED = {kind: f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")}
UPDATED = "notifications/resources/updated"
ID = "io.modelcontextprotocol/subscriptionId"
CAPABILITIES: Json = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
}


async def welcome(peer: ScriptedPeer) -> None:
    await peer.answer(cacheable("server/discover", 0, capabilities=CAPABILITIES))


async def requested_methods(origin: CountingServer, client: Any) -> set[str]:
    """Send every cacheable request; return the methods that reached the server."""
    before = len(origin.requests)
    for send in REQUESTS.values():
        await send(client)
    return {method for method, _ in origin.requests[before:]}


# Changes.


@pytest.mark.requirement("B.17-C5")
@pytest.mark.parametrize("kind", CHANGED)
async def test_all_pages_of_a_changed_list_are_requested_again(kind: str) -> None:
    origin = CountingServer()
    async with connected(origin) as (client, peer):
        await requested_methods(origin, client)
        await client.list_tools("a")
        assert await requested_methods(origin, client) == set()

        await peer.notify(CHANGED[kind])
        await trio.testing.wait_all_tasks_blocked()

        assert await requested_methods(origin, client) == {method for method in LISTS if method.startswith(kind)}
        await client.list_tools("a")
        assert origin.requests.count(("tools/list", {"cursor": "a"})) == (2 if kind == "tools" else 1)


@pytest.mark.requirement("B.17-C5")
async def test_only_updated_resources_are_read_again() -> None:
    uris = ["file:///a", "file:///a/b", "file:///a/bc", "file:///a/bc/d", "file:///ab", "file:///a/bc?x"]
    origin = CountingServer()
    async with connected(origin) as (client, peer):
        await requested_methods(origin, client)
        for uri in uris:
            await client.read_resource(uri)
            await client.read_resource(uri, meta={"tenant": 1})

        await peer.notify(UPDATED, {"uri": "file:///a/bc"})
        await trio.testing.wait_all_tasks_blocked()

        assert await requested_methods(origin, client) == set()
        count = len(origin.requests)
        for uri in uris:
            await client.read_resource(uri)
            await client.read_resource(uri, meta={"tenant": 1})
    again = [params["uri"] for _, params in origin.requests[count:]]
    # file:///a contains the changed resource
    assert again == ["file:///a", "file:///a", "file:///a/bc", "file:///a/bc"]


@pytest.mark.requirement("B.17-C5")
async def test_a_request_after_a_reported_change_gets_the_new_state() -> None:
    server = Server("s", cache={"tools/list": CacheHint(ttl=3600), "resources/read": CacheHint(ttl=3600)})
    server.tool(name="first")(lambda: None)
    text = ["old"]
    server.resource("a:b", name="r")(lambda: text[0])

    async with open_client(server) as client, client.listen(tools=True, resources=["a:b"]) as changes:
        for _ in range(2):
            assert [tool.name async for tool in client.tools()] == ["first"]
            assert types.unstructure((await client.read_resource("a:b")).contents[0])["text"] == "old"

        server.tool(name="second")(lambda: None)
        text[0] = "new"
        server.resource_updated("a:b")
        assert {type(await anext(changes)).__name__ for _ in range(2)} == {"ListChanged", "ResourceUpdated"}

        assert [tool.name async for tool in client.tools()] == ["first", "second"]
        assert types.unstructure((await client.read_resource("a:b")).contents[0])["text"] == "new"


@pytest.mark.requirement("B.17-C5")
async def test_a_result_in_flight_during_a_change_is_not_kept() -> None:
    cache = ResponseCache()
    async with open_scripted_server(cache=cache) as (client, peer), trio.open_nursery() as nursery:
        for notification, kept in ((CHANGED["tools"], 0), (CHANGED["prompts"], 1), (None, 1)):
            nursery.start_soon(partial(client.list_tools, fresh=True))
            request = await peer.expect_request("tools/list")
            if notification is not None:
                await peer.notify(notification)
            await peer.respond(request, cacheable("tools/list"))
            await trio.testing.wait_all_tasks_blocked()
            assert cache.statistics().entries == kept

        nursery.start_soon(client.read_resource, "a:b")
        nursery.start_soon(client.read_resource, "a:c")
        first, second = await peer.expect_request("resources/read"), await peer.expect_request("resources/read")
        await peer.notify(UPDATED, {"uri": first["params"]["uri"]})
        await peer.respond(first, cacheable("resources/read"))
        await peer.respond(second, cacheable("resources/read"))
        await trio.testing.wait_all_tasks_blocked()
        assert cache.statistics().entries == 2


@attrs.define(eq=False)
class ClearCacheAtCheckpoint(trio.abc.Instrument):
    """An instrument that clears the cache at the first checkpoint of the test's task."""

    cache: ResponseCache
    task: trio.lowlevel.Task

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self.task:
            self.cache.clear()
            trio.lowlevel.remove_instrument(self)


async def test_an_entry_dropped_during_the_checkpoint_is_requested_again() -> None:
    origin, cache = CountingServer(), ResponseCache()
    async with connected(origin, cache=cache) as (client, _):
        await client.list_tools()
        trio.lowlevel.add_instrument(ClearCacheAtCheckpoint(cache, trio.lowlevel.current_task()))
        await client.list_tools()
    assert origin.count("tools/list") == 2


# Subscriptions and connections that end.


@asynccontextmanager
async def listened(cache: CacheOption = None) -> AsyncGenerator[tuple[Any, CountingServer, Any, list[Any]]]:
    """Connect to a server that acknowledges requests to listen; yield their ids as well."""
    origin, ids = CountingServer(), list[Any]()

    async def answer(peer: ScriptedPeer) -> None:
        while True:
            request = await peer.receive()
            if request.get("method") == "subscriptions/listen":
                ids.append(request["id"])
                honored = request["params"]["notifications"]
                params: Json = {"notifications": honored, "_meta": {ID: request["id"]}}
                await peer.notify("notifications/subscriptions/acknowledged", params)
            elif "id" in request:
                origin.requests.append((request["method"], {}))
                await peer.respond(request, cacheable(request["method"]))

    async with open_scripted_server(welcome, cache=cache) as (client, peer), trio.open_nursery() as nursery:
        nursery.start_soon(answer, peer)
        yield client, origin, peer, ids
        nursery.cancel_scope.cancel()


async def test_results_from_before_listening_are_requested_again() -> None:
    async with listened() as (client, origin, _, __):
        await requested_methods(origin, client)
        async with client.listen(tools=True, resources=["a:"]):
            assert await requested_methods(origin, client) == {"tools/list"}
            assert await requested_methods(origin, client) == set()
        async with client.listen(resource_list=True, resources=["a:b"]):
            assert await requested_methods(origin, client) == {
                "resources/list",
                "resources/templates/list",
                "resources/read",
            }
        assert await requested_methods(origin, client) == set()


@pytest.mark.parametrize("is_orderly", [True, False])
async def test_results_are_requested_again_after_the_server_ends_a_subscription(is_orderly: bool) -> None:
    async with listened() as (client, origin, peer, ids), client.listen(prompts=True) as changes:
        await requested_methods(origin, client)
        end: Json = {"result": {"resultType": "complete", "_meta": {ID: ids[0]}}}
        await peer.send(
            {"jsonrpc": "2.0", "id": ids[0], **(end if is_orderly else {"error": {"code": -32603, "message": ""}})}
        )
        with pytest.raises(StopAsyncIteration if is_orderly else ErrorResponse):
            await anext(changes)
        assert await requested_methods(origin, client) == {"prompts/list"}


async def test_listening_works_without_a_cache() -> None:
    async with listened(False) as (client, origin, peer, ids), client.listen(prompts=True) as changes:
        await peer.notify(CHANGED["prompts"], {"_meta": {ID: ids[0]}})
        assert await anext(changes) == ListChanged("prompts")
        for _ in range(2):
            assert await requested_methods(origin, client) == {*REQUESTS}


async def test_a_result_in_flight_when_listening_begins_is_not_kept() -> None:
    cache = ResponseCache()
    async with open_scripted_server(welcome, cache=cache) as (client, peer), trio.open_nursery() as nursery:
        nursery.start_soon(client.list_tools)
        request = await peer.expect_request("tools/list")
        nursery.start_soon(client.listen(tools=True).__aenter__)
        listen = await peer.expect_request("subscriptions/listen")
        params: Json = {"notifications": {"toolsListChanged": True}, "_meta": {ID: listen["id"]}}
        await peer.notify("notifications/subscriptions/acknowledged", params)
        await peer.respond(request, cacheable("tools/list"))
        await trio.testing.wait_all_tasks_blocked()
        assert cache.statistics().entries == 0


@pytest.mark.parametrize("shared", [False, True])
async def test_requests_on_a_lost_connection_fail_and_its_private_results_are_dropped(shared: bool) -> None:
    cache = ResponseCache()
    option = cache.for_server("s") if shared else cache
    scope = "public" if shared else "private"
    origin = CountingServer(lambda method, _: cacheable(method, scope=scope))
    async with connected(origin, cache=option) as (client, peer):
        await client.list_tools()
        await client.list_tools()
        await peer.send_eof()
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(ConnectionLost):
            await client.list_tools()
    with pytest.raises(ConnectionLost):
        await client.list_tools()
    assert cache.statistics().entries == (1 if shared else 0)


async def test_requests_of_a_closed_client_fail_despite_the_cache() -> None:
    server = Server("s", cache={"tools/list": CacheHint(ttl=60)})
    server.tool(name="t")(lambda: None)
    async with open_client(server) as client:
        await client.list_tools()
        await client.aclose()
        with pytest.raises(ConnectionClosed):
            await client.list_tools()


async def test_a_result_that_arrives_as_the_connection_ends_is_not_kept() -> None:
    cache = ResponseCache()
    async with open_scripted_server(cache=cache) as (client, peer), trio.open_nursery() as nursery:
        nursery.start_soon(client.list_tools)
        request = await peer.expect_request("tools/list")
        await peer.respond(request, cacheable("tools/list"))
        await peer.stream.aclose()
    assert cache.statistics().entries == 0


async def test_a_connection_may_be_lost_with_a_request_in_flight() -> None:
    cache = ResponseCache()
    async with open_scripted_server(cache=cache) as (client, peer), trio.open_nursery() as nursery:

        async def ask() -> None:
            with pytest.raises(ConnectionLost):
                await client.list_tools()

        nursery.start_soon(ask)
        await peer.expect_request("tools/list")
        await peer.send_eof()
    assert cache.statistics().entries == 0


# Cursors that are refused.


@pytest.mark.requirement("B.16-C2b")
@pytest.mark.parametrize("method", LISTS)
async def test_a_refused_cursor_ends_the_freshness_of_every_page_of_its_list(method: str) -> None:
    origin = CountingServer(lambda method, params: -32602 if params.get("cursor") == "old" else cacheable(method))
    async with connected(origin) as (client, _):
        ask = partial(REQUESTS[method], client)
        await requested_methods(origin, client)
        await ask("a")
        with pytest.raises(ErrorResponse):
            await ask("old")
        assert await requested_methods(origin, client) == {method}
        await ask("a")
        assert origin.requests.count((method, {"cursor": "a"})) == 2


class PagedList:
    """A list of tools by page whose cursors last until the next edition."""

    def __init__(self, *editions: list[list[str]]) -> None:
        self.editions, self.edition = editions, 0

    def reply(self, method: str, params: Json) -> Json | int:
        edition, number = (int(each) for each in params.get("cursor", f"{self.edition}.0").split("."))
        if edition != self.edition:
            return -32602
        pages = self.editions[edition]
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in pages[number]]
        more = {"nextCursor": f"{edition}.{number + 1}"} if number + 1 < len(pages) else {}
        return cacheable(method, tools=tools) | more


@pytest.mark.requirement("B.16-C2b")
async def test_iteration_restarts_after_a_refused_cursor_without_repeating_items() -> None:
    paged = PagedList([["a", "b"], ["c"]], [["b", "x"], ["a", "y"], ["z"]])
    origin = CountingServer(paged.reply)
    async with connected(origin) as (client, _):
        assert (await client.list_tools()).next_cursor == "0.1"
        paged.edition = 1  # without a notification
        assert [tool.name async for tool in client.tools()] == ["a", "b", "x", "y", "z"]
        assert [tool.name async for tool in client.tools()] == ["b", "x", "a", "y", "z"]
    assert [params.get("cursor") for _, params in origin.requests] == [None, "0.1", None, "1.1", "1.2"]


@pytest.mark.parametrize(
    "options", [ClientOptions(revision=each) for each in types.REVISIONS[:-1]] + [{"cache": False}]
)
async def test_iteration_restarts_without_a_cache(options: ClientOptions) -> None:
    paged = PagedList([["a"], ["b"]], [["a"], ["c"]])
    names = list[str]()
    async with connected(CountingServer(paged.reply), **options) as (client, _):
        async for tool in client.tools():
            names.append(tool.name)
            paged.edition = 1
    assert names == ["a", "c"]


@pytest.mark.parametrize(
    "code_and_cursors",
    [(-32602, [None, "a", None, "a"]), (-32603, [None, "a"])],
    ids=["once", "not for another error"],
)
async def test_iteration_restarts_once_and_only_after_a_refused_cursor(code_and_cursors: Any) -> None:
    code, cursors = code_and_cursors
    origin = CountingServer(lambda method, params: code if "cursor" in params else cacheable(method, 0, nextCursor="a"))
    async with connected(origin) as (client, _):
        with pytest.raises(ErrorResponse):
            assert [tool async for tool in client.tools()] == []
    assert [params.get("cursor") for _, params in origin.requests] == cursors


async def test_iteration_fails_if_the_first_page_is_refused() -> None:
    origin = CountingServer(lambda _, __: -32602)
    async with connected(origin) as (client, _):
        with pytest.raises(ErrorResponse):
            await anext(client.tools())
    assert len(origin.requests) == 1


@pytest.mark.parametrize(
    ("method", "entry"),
    [
        ("prompts/list", {"name": "n"}),
        ("resources/list", {"name": "same", "uri": "n:n"}),
        ("resources/templates/list", {"name": "same", "uriTemplate": "n:{n}"}),
    ],
)
async def test_items_are_identified_by_their_name_or_uri(method: str, entry: Json) -> None:
    member = {"prompts/list": "prompts", "resources/list": "resources"}.get(method, "resourceTemplates")
    cursors = list[str | None]()

    def numbered(number: int) -> Json:
        return {
            name: value if value == "same" else value.replace("n", f"n{number}", 1) for name, value in entry.items()
        }

    def reply(method: str, params: Json) -> Json | int:
        cursors.append(params.get("cursor"))
        if len(cursors) == 1:
            return cacheable(method, nextCursor="old") | {member: [numbered(1), numbered(2)]}
        return -32602 if "cursor" in params else cacheable(method) | {member: [numbered(2), numbered(3)]}

    async with connected(CountingServer(reply)) as (client, _):
        iterators: dict[str, Any] = {"prompts": client.prompts, "resources": client.resources}
        entries = [types.unstructure(each) async for each in iterators.get(member, client.resource_templates)()]
    assert entries == [numbered(1), numbered(2), numbered(3)]
    assert cursors == [None, "old", None]
