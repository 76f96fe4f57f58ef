"""What ends the freshness of a cached result before its time: changes, silence about them, cursors that are refused."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from tests.client.cacheable_server import ASK, Json, Origin, connected, hinted
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

LISTS = [method for method in ASK if method.endswith("/list")]
CHANGED = {kind: f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")}
UPDATED = "notifications/resources/updated"
ID = "io.modelcontextprotocol/subscriptionId"
TELLS: Json = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
}


async def welcome(peer: ScriptedPeer) -> None:
    await peer.answer(hinted("server/discover", 0, capabilities=TELLS))


async def stale(origin: Origin, client: Any) -> set[str]:
    """Ask for everything; return what the server was asked for."""
    before = len(origin.asked)
    for ask in ASK.values():
        await ask(client)
    return {method for method, _ in origin.asked[before:]}


# Changes.


@pytest.mark.requirement("B.17-C5")
@pytest.mark.parametrize("kind", CHANGED)
async def test_a_list_that_has_changed_is_asked_for_again_all_pages_of_it(kind: str) -> None:
    origin = Origin()
    async with connected(origin) as (client, peer):
        await stale(origin, client)
        await client.list_tools("a")
        assert await stale(origin, client) == set()

        await peer.notify(CHANGED[kind])
        await trio.testing.wait_all_tasks_blocked()

        assert await stale(origin, client) == {method for method in LISTS if method.startswith(kind)}
        await client.list_tools("a")
        assert origin.asked.count(("tools/list", {"cursor": "a"})) == (2 if kind == "tools" else 1)


@pytest.mark.requirement("B.17-C5")
async def test_a_resource_that_was_updated_is_read_again_and_no_other() -> None:
    uris = ["file:///a", "file:///a/b", "file:///a/bc", "file:///a/bc/d", "file:///ab", "file:///a/bc?x"]
    origin = Origin()
    async with connected(origin) as (client, peer):
        await stale(origin, client)
        for uri in uris:
            await client.read_resource(uri)
            await client.read_resource(uri, meta={"tenant": 1})

        await peer.notify(UPDATED, {"uri": "file:///a/bc"})
        await trio.testing.wait_all_tasks_blocked()

        assert await stale(origin, client) == set()
        asked = len(origin.asked)
        for uri in uris:
            await client.read_resource(uri)
            await client.read_resource(uri, meta={"tenant": 1})
    again = [params["uri"] for _, params in origin.asked[asked:]]
    assert again == ["file:///a", "file:///a", "file:///a/bc", "file:///a/bc"]  # of the first, a part has changed


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
        for told, kept in ((CHANGED["tools"], 0), (CHANGED["prompts"], 1), (None, 1)):
            nursery.start_soon(partial(client.list_tools, fresh=True))
            request = await peer.expect_request("tools/list")
            if told is not None:
                await peer.notify(told)
            await peer.respond(request, hinted("tools/list"))
            await trio.testing.wait_all_tasks_blocked()
            assert cache.statistics().entries == kept

        nursery.start_soon(client.read_resource, "a:b")
        nursery.start_soon(client.read_resource, "a:c")
        first, second = await peer.expect_request("resources/read"), await peer.expect_request("resources/read")
        await peer.notify(UPDATED, {"uri": first["params"]["uri"]})
        await peer.respond(first, hinted("resources/read"))
        await peer.respond(second, hinted("resources/read"))
        await trio.testing.wait_all_tasks_blocked()
        assert cache.statistics().entries == 2


@attrs.define(eq=False)
class WhileOthersRun(trio.abc.Instrument):
    """Forgets what is cached when the test's task first lets others run."""

    cache: ResponseCache
    task: trio.lowlevel.Task

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self.task:
            self.cache.clear()
            trio.lowlevel.remove_instrument(self)


async def test_an_entry_dropped_during_the_checkpoint_is_requested_again() -> None:
    origin, cache = Origin(), ResponseCache()
    async with connected(origin, cache=cache) as (client, _):
        await client.list_tools()
        trio.lowlevel.add_instrument(WhileOthersRun(cache, trio.lowlevel.current_task()))
        await client.list_tools()
    assert origin.count("tools/list") == 2


# Nobody tells.


@asynccontextmanager
async def listened(cache: CacheOption = None) -> AsyncGenerator[tuple[Any, Origin, Any, list[Any]]]:
    """Connect to a server that acknowledges requests to listen; yield their ids as well."""
    origin, ids = Origin(), list[Any]()

    async def answer(peer: ScriptedPeer) -> None:
        while True:
            request = await peer.receive()
            if request.get("method") == "subscriptions/listen":
                ids.append(request["id"])
                honored = request["params"]["notifications"]
                params: Json = {"notifications": honored, "_meta": {ID: request["id"]}}
                await peer.notify("notifications/subscriptions/acknowledged", params)
            elif "id" in request:
                origin.asked.append((request["method"], {}))
                await peer.respond(request, hinted(request["method"]))

    async with open_scripted_server(welcome, cache=cache) as (client, peer), trio.open_nursery() as nursery:
        nursery.start_soon(answer, peer)
        yield client, origin, peer, ids
        nursery.cancel_scope.cancel()


async def test_results_from_before_listening_are_requested_again() -> None:
    async with listened() as (client, origin, _, __):
        await stale(origin, client)
        async with client.listen(tools=True, resources=["a:"]):
            assert await stale(origin, client) == {"tools/list"}
            assert await stale(origin, client) == set()
        async with client.listen(resource_list=True, resources=["a:b"]):
            assert await stale(origin, client) == {"resources/list", "resources/templates/list", "resources/read"}
        assert await stale(origin, client) == set()


@pytest.mark.parametrize("in_peace", [True, False])
async def test_results_are_requested_again_after_the_server_ends_a_subscription(in_peace: bool) -> None:
    async with listened() as (client, origin, peer, ids), client.listen(prompts=True) as changes:
        await stale(origin, client)
        end: Json = {"result": {"resultType": "complete", "_meta": {ID: ids[0]}}}
        await peer.send(
            {"jsonrpc": "2.0", "id": ids[0], **(end if in_peace else {"error": {"code": -32603, "message": ""}})}
        )
        with pytest.raises(StopAsyncIteration if in_peace else ErrorResponse):
            await anext(changes)
        assert await stale(origin, client) == {"prompts/list"}


async def test_listening_works_without_a_cache() -> None:
    async with listened(False) as (client, origin, peer, ids), client.listen(prompts=True) as changes:
        await peer.notify(CHANGED["prompts"], {"_meta": {ID: ids[0]}})
        assert await anext(changes) == ListChanged("prompts")
        for _ in range(2):
            assert await stale(origin, client) == {*ASK}


async def test_a_result_in_flight_when_listening_begins_is_not_kept() -> None:
    cache = ResponseCache()
    async with open_scripted_server(welcome, cache=cache) as (client, peer), trio.open_nursery() as nursery:
        nursery.start_soon(client.list_tools)
        request = await peer.expect_request("tools/list")
        nursery.start_soon(client.listen(tools=True).__aenter__)
        listen = await peer.expect_request("subscriptions/listen")
        params: Json = {"notifications": {"toolsListChanged": True}, "_meta": {ID: listen["id"]}}
        await peer.notify("notifications/subscriptions/acknowledged", params)
        await peer.respond(request, hinted("tools/list"))
        await trio.testing.wait_all_tasks_blocked()
        assert cache.statistics().entries == 0


@pytest.mark.parametrize("shared", [False, True])
async def test_requests_on_a_lost_connection_fail_and_its_private_results_are_dropped(shared: bool) -> None:
    cache = ResponseCache()
    option = cache.for_server("s") if shared else cache
    scope = "public" if shared else "private"
    origin = Origin(lambda method, _: hinted(method, scope=scope))
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
        await peer.respond(request, hinted("tools/list"))
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
    origin = Origin(lambda method, params: -32602 if params.get("cursor") == "old" else hinted(method))
    async with connected(origin) as (client, _):
        ask = partial(ASK[method], client)
        await stale(origin, client)
        await ask("a")
        with pytest.raises(ErrorResponse):
            await ask("old")
        assert await stale(origin, client) == {method}
        await ask("a")
        assert origin.asked.count((method, {"cursor": "a"})) == 2


class Book:
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
        return hinted(method, tools=tools) | more


@pytest.mark.requirement("B.16-C2b")
async def test_iteration_restarts_after_a_refused_cursor_without_repeating_items() -> None:
    book = Book([["a", "b"], ["c"]], [["b", "x"], ["a", "y"], ["z"]])
    origin = Origin(book.reply)
    async with connected(origin) as (client, _):
        assert (await client.list_tools()).next_cursor == "0.1"
        book.edition = 1  # and nobody has told
        assert [tool.name async for tool in client.tools()] == ["a", "b", "x", "y", "z"]
        assert [tool.name async for tool in client.tools()] == ["b", "x", "a", "y", "z"]
    assert [params.get("cursor") for _, params in origin.asked] == [None, "0.1", None, "1.1", "1.2"]


@pytest.mark.parametrize(
    "options", [ClientOptions(revision=each) for each in types.REVISIONS[:-1]] + [{"cache": False}]
)
async def test_iteration_restarts_without_a_cache_too(options: ClientOptions) -> None:
    book = Book([["a"], ["b"]], [["a"], ["c"]])
    names = list[str]()
    async with connected(Origin(book.reply), **options) as (client, _):
        async for tool in client.tools():
            names.append(tool.name)
            book.edition = 1
    assert names == ["a", "c"]


@pytest.mark.parametrize(
    "code_and_cursors",
    [(-32602, [None, "a", None, "a"]), (-32603, [None, "a"])],
    ids=["once", "not for another error"],
)
async def test_iteration_restarts_once_and_only_after_a_refused_cursor(code_and_cursors: Any) -> None:
    code, cursors = code_and_cursors
    origin = Origin(lambda method, params: code if "cursor" in params else hinted(method, 0, nextCursor="a"))
    async with connected(origin) as (client, _):
        with pytest.raises(ErrorResponse):
            assert [tool async for tool in client.tools()] == []
    assert [params.get("cursor") for _, params in origin.asked] == cursors


async def test_iteration_fails_if_the_first_page_is_refused() -> None:
    origin = Origin(lambda _, __: -32602)
    async with connected(origin) as (client, _):
        with pytest.raises(ErrorResponse):
            await anext(client.tools())
    assert len(origin.asked) == 1


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
    asked = list[str | None]()

    def numbered(number: int) -> Json:
        return {
            name: value if value == "same" else value.replace("n", f"n{number}", 1) for name, value in entry.items()
        }

    def reply(method: str, params: Json) -> Json | int:
        asked.append(params.get("cursor"))
        if len(asked) == 1:
            return hinted(method, nextCursor="old") | {member: [numbered(1), numbered(2)]}
        return -32602 if "cursor" in params else hinted(method) | {member: [numbered(2), numbered(3)]}

    async with connected(Origin(reply)) as (client, _):
        walks: dict[str, Any] = {"prompts": client.prompts, "resources": client.resources}
        entries = [types.unstructure(each) async for each in walks.get(member, client.resource_templates)()]
    assert entries == [numbered(1), numbered(2), numbered(3)]
    assert asked == [None, "old", None]
